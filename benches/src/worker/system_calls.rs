//! System calls for each request on a loaded lane, for each policy and kind of caller.

use super::own::lane_on;
use super::service::{self, Caller};
use crate::lane::{ByCompletion, ByCursor, Policy};
use crate::pin::{self, Pair};
use crate::strace::{self, PerRequest};

const DEPTH: usize = 8;
const REQUESTS: usize = 4000;
const SMOKE_REQUESTS: usize = 300;

/// What a process does whose system calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    pub(crate) policy: Policy,
    /// Whether the caller watches the cursor, and does not wait for completions.
    pub(crate) by_cursor: bool,
    pub(crate) requests: usize,
}

impl Errand {
    /// The command line by which the program gets it.
    fn arguments(self) -> Vec<String> {
        let [errand, policy, way] = ["--errand", self.policy.name(), self.way()].map(str::to_owned);
        vec![errand, policy, way, self.requests.to_string()]
    }

    const fn way(self) -> &'static str {
        if self.by_cursor {
            "cursor"
        } else {
            "completions"
        }
    }

    /// # Errors
    /// What stands behind `--errand` is not understood.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let [policy, way, requests] = arguments else {
            return Err("the errand is not understood".to_owned());
        };
        let mut policies = Policy::ALL.into_iter();
        let policy = policies.find(|known| known.name() == policy);
        match (policy, requests.parse()) {
            (Some(policy), Ok(requests)) => Ok(Self {
                policy,
                by_cursor: way == "cursor",
                requests,
            }),
            _ => Err("the errand is not understood".to_owned()),
        }
    }
}

/// What one lane needs with one kind of caller.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) policy: Policy,
    pub(crate) way: &'static str,
    pub(crate) per_request: PerRequest,
}

/// Counts for each policy and caller.
///
/// # Errors
/// There is no `strace`, or it may not trace.
pub(crate) fn count(smoke: bool) -> Result<Vec<Calls>, String> {
    let requests = if smoke { SMOKE_REQUESTS } else { REQUESTS };
    let mut counted = Vec::new();
    for policy in Policy::ALL {
        for by_cursor in [false, true] {
            let errand = |requests| Errand {
                policy,
                by_cursor,
                requests,
            };
            counted.push(Calls {
                policy,
                way: errand(requests).way(),
                per_request: strace::per_request(requests, |requests| {
                    errand(requests).arguments()
                })?,
            });
        }
    }
    Ok(counted)
}

/// What the traced process does.
///
/// # Errors
/// There is no lane to send requests to.
pub(crate) fn run(errand: Errand) -> Result<(), String> {
    let processors = pin::choose()?;
    let sent = pin::on(processors[0], || {
        if errand.by_cursor {
            send(processors, errand, ByCursor::spinning)
        } else {
            send(processors, errand, ByCompletion::new)
        }
    });
    sent.ok_or_else(|| "there is no lane".to_owned())
}

fn send<C: Caller>(
    processors: Pair,
    errand: Errand,
    caller: impl FnOnce(crate::lane::Lane) -> C,
) -> Option<()> {
    let mut caller = caller(lane_on(processors, errand.policy)?);
    service::run(&mut caller, DEPTH, errand.requests);
    caller.stop();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_is_understood_by_the_process_that_gets_it() {
        for policy in Policy::ALL {
            let errand = Errand {
                policy,
                by_cursor: policy == Policy::Busy,
                requests: 4000,
            };
            assert_eq!(Errand::parse(&errand.arguments()[1..]), Ok(errand));
        }
        let line = "Lazy cursor 9".split_whitespace().map(str::to_owned);
        assert!(Errand::parse(&line.collect::<Vec<_>>()).is_err());
    }

    #[test]
    fn an_errand_ends() {
        let errand = Errand {
            policy: Policy::DEFAULT,
            by_cursor: true,
            requests: 100,
        };
        if pin::choose().is_ok() {
            assert_eq!(run(errand), Ok(()));
        }
    }
}
