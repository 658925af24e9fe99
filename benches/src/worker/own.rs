//! The lane as a candidate: each policy, with a caller that waits for completions or one that watches the cursor.

use super::service::Service;
use crate::lane::{ByCompletion, ByCursor, Lane, Policy};
use crate::pin::{self, Pair};

/// Each request has its completion. The policy is the one of this index.
pub(crate) struct Completions<const POLICY: usize>;

/// The caller reads the number of the last completed request.
pub(crate) struct Cursor<const POLICY: usize>;

impl<const POLICY: usize> Service for Completions<POLICY> {
    type Caller = ByCompletion;

    fn start(processors: Pair) -> Option<ByCompletion> {
        lane_on(processors, Policy::ALL[POLICY]).map(ByCompletion::new)
    }
}

impl<const POLICY: usize> Service for Cursor<POLICY> {
    type Caller = ByCursor;

    fn start(processors: Pair) -> Option<ByCursor> {
        lane_on(processors, Policy::ALL[POLICY]).map(ByCursor::new)
    }
}

/// A lane whose worker is bound to the second processor, and the calling thread to the first.
pub(crate) fn lane_on(processors: Pair, policy: Policy) -> Option<Lane> {
    pin::pin(processors[1]);
    let lane = Lane::start(policy);
    pin::pin(processors[0]);
    match lane {
        Ok(lane) => Some(lane),
        Err(fault) => {
            eprintln!("no lane: {fault}");
            None
        }
    }
}
