//! How often a request takes memory from the heap, in the steady state: on the caller's thread and on the worker's.

use super::own::lane_on;
use super::service::{self, Caller};
use crate::heap;
use crate::lane::{ByCompletion, ByCursor, Lane, Policy};
use crate::pin::{self, Pair};

const DEPTH: usize = 8;
const WARM_UP: usize = 2000;
const REQUESTS: usize = 20_000;

/// What one lane takes with one kind of caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocations {
    pub(crate) policy: Policy,
    pub(crate) way: &'static str,
    pub(crate) per_request: f64,
}

/// Counts for each policy and caller; nothing where the counting heap is not installed.
pub(crate) fn count(processors: Pair) -> Vec<Allocations> {
    if !heap::is_installed() {
        return Vec::new();
    }
    let of = |policy| {
        [
            one(processors, policy, "completions", ByCompletion::new),
            one(processors, policy, "cursor", ByCursor::new),
        ]
    };
    Policy::ALL.into_iter().flat_map(of).flatten().collect()
}

fn one<C: Caller>(
    processors: Pair,
    policy: Policy,
    way: &'static str,
    caller: fn(Lane) -> C,
) -> Option<Allocations> {
    pin::on(processors[0], || {
        let mut caller = caller(lane_on(processors, policy)?);
        service::run(&mut caller, DEPTH, WARM_UP);
        let taken = heap::taken_during(|| service::run(&mut caller, DEPTH, REQUESTS));
        caller.stop();
        Some(Allocations {
            policy,
            way,
            per_request: taken as f64 / REQUESTS as f64,
        })
    })
}
