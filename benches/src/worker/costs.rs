//! What requests cost besides time: system calls, memory, and a processor to wait on.

use super::allocations::{self, Allocations};
use super::cpu_time::{self, CpuTime, Waiting};
use super::system_calls::{self, Calls};
use crate::lane::Policy;
use crate::pin::Pair;

#[derive(Debug, Default)]
pub(crate) struct Costs {
    pub(crate) calls: Vec<Calls>,
    /// Why there are none.
    pub(crate) no_calls: Option<String>,
    pub(crate) allocations: Vec<Allocations>,
    pub(crate) cpu_time: CpuTime,
}

impl Costs {
    /// Measures all of it, without hurry: nothing else of this program runs meanwhile.
    pub(crate) fn measured(processors: Pair, smoke: bool) -> Self {
        let allocations = allocations::count(processors);
        eprintln!("allocations counted");
        let cpu_time = cpu_time::measure(processors, smoke);
        eprintln!("times on a processor measured");
        let (calls, no_calls) = match system_calls::count(smoke) {
            Ok(calls) => (calls, None),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        eprintln!("system calls counted");
        Self {
            calls,
            no_calls,
            allocations,
            cpu_time,
        }
    }

    /// All system calls for each request; empty where they were not counted.
    pub(crate) fn calls_of(&self, policy: Policy, way: &str) -> &[f64] {
        let found = self
            .calls
            .iter()
            .find(|calls| calls.policy == policy && calls.way == way);
        found.map_or(&[], |calls| &calls.per_request.all)
    }

    pub(crate) fn allocations_of(&self, policy: Policy, way: &str) -> Option<f64> {
        let found = self
            .allocations
            .iter()
            .find(|taken| taken.policy == policy && taken.way == way);
        found.map(|taken| taken.per_request)
    }

    pub(crate) fn waiting_of(&self, policy: Policy) -> Option<&Waiting> {
        let policies = &self.cpu_time.policies;
        policies.iter().find(|waiting| waiting.policy == policy)
    }
}
