//! Who answers requests, and who asks: what all candidates have in common.
//!
//! ```text
//!   caller, on the first processor        answering thread, on the second
//!   submit until `depth` are on the way ───> each is answered at once
//!   wait for one or more         <───────
//! ```

use std::marker::PhantomData;

use super::tally::Tally;
use crate::pin::{self, Pair};

/// The name of every answering thread: by it the thread is found in `/proc`.
pub(crate) const ANSWERING: &str = "answering";

/// The side that asks. It is used on the thread that made it.
pub(crate) trait Caller {
    /// Sends one request; there is room.
    fn submit(&mut self);
    /// Waits until one more request is answered or several are, and says how many.
    fn wait(&mut self) -> usize;
    /// Ends the answering thread. Nothing is outstanding.
    fn stop(self);
}

/// Something that answers on a thread of its own.
pub(crate) trait Service {
    type Caller: Caller;

    /// Starts the answering thread on the second processor. `None` where the system lacks what is needed.
    fn start(processors: Pair) -> Option<Self::Caller>;
}

/// A closed loop: as many requests as are answered follow.
pub(crate) trait Loop {
    /// Fills the stamps, one for each block of requests. False where it cannot run.
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool;
}

/// The loop of a service.
pub(crate) struct Of<S>(PhantomData<S>);

impl<S: Service> Loop for Of<S> {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        pin::on(processors[0], || {
            let Some(mut caller) = S::start(processors) else {
                return false;
            };
            keep_full(&mut caller, depth, stamps);
            caller.stop();
            true
        })
    }
}

#[inline(never)]
fn keep_full(caller: &mut impl Caller, depth: usize, stamps: &mut [u64]) {
    let mut tally = Tally::new(stamps, depth);
    let mut outstanding = 0;
    while !tally.is_over() {
        while outstanding < depth {
            caller.submit();
            outstanding += 1;
        }
        let answered = caller.wait();
        outstanding -= answered;
        tally.completed(answered);
    }
    settle(caller, outstanding);
}

/// So many requests, always `depth` of them outstanding, and no clock.
pub(crate) fn run(caller: &mut impl Caller, depth: usize, requests: usize) {
    let (mut submitted, mut answered) = (0, 0);
    while answered < requests {
        while submitted < requests && submitted - answered < depth {
            caller.submit();
            submitted += 1;
        }
        answered += caller.wait();
    }
}

fn settle(caller: &mut impl Caller, mut outstanding: usize) {
    while outstanding > 0 {
        outstanding -= caller.wait();
    }
}
