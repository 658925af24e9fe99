//! What tests learn about the system calls on eventfds, and how they make one fail.
//!
//! Only with the feature `test-hooks`. Called before each system call. The failure and [`calls_here`] belong to one
//! thread, so that tests can run beside each other; [`calls`] is of the process. Spec `xu.md` section 4, test hooks.

use super::Call;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::io;

/// System calls on eventfds so far. A call that was interrupted and repeated counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `write`.
    pub writes: u64,
    /// `read`.
    pub reads: u64,
    /// `poll` and `ppoll`; those of a worker's epoll are not here.
    pub polls: u64,
    /// `eventfd2` and duplicates.
    pub created: u64,
}

impl Calls {
    const ZERO: Self = Self {
        writes: 0,
        reads: 0,
        polls: 0,
        created: 0,
    };

    fn count(&mut self, call: Call) {
        *match call {
            Call::Write => &mut self.writes,
            Call::Read => &mut self.reads,
            Call::Poll => &mut self.polls,
            Call::Create => &mut self.created,
        } += 1;
    }
}

/// Of the whole process, by the number of the kind of call.
static TOTAL: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

thread_local! {
    static HERE: Cell<Calls> = const { Cell::new(Calls::ZERO) };
    /// How many calls from now, and the error number.
    static FAILURE: Cell<Option<(u64, i32)>> = const { Cell::new(None) };
}

/// Of the whole process.
#[must_use]
pub fn calls() -> Calls {
    // Relaxed: a statistic.
    let [writes, reads, polls, created] =
        TOTAL.each_ref().map(|calls| calls.load(Ordering::Relaxed));
    Calls {
        writes,
        reads,
        polls,
        created,
    }
}

/// Of the calling thread.
#[must_use]
pub fn calls_here() -> Calls {
    HERE.get()
}

/// Makes the `k`-th call of this thread from now on (1 is the next one) fail with this error number, once. 0 takes the
/// request back.
///
/// The failing call is not made. An `EINTR` is repeated, as a real one is.
pub fn fail_call(k: u64, errno: i32) {
    FAILURE.set((k > 0).then_some((k, errno)));
}

pub(super) fn announce(call: Call) -> io::Result<()> {
    let total = match call {
        Call::Write => &TOTAL[0],
        Call::Read => &TOTAL[1],
        Call::Poll => &TOTAL[2],
        Call::Create => &TOTAL[3],
    };
    // Relaxed: a statistic.
    total.fetch_add(1, Ordering::Relaxed);
    let mut here = HERE.get();
    here.count(call);
    HERE.set(here);
    match FAILURE.get() {
        None => Ok(()),
        Some((1, errno)) => {
            FAILURE.set(None);
            Err(io::Error::from_raw_os_error(errno))
        }
        Some((k, errno)) => {
            FAILURE.set(Some((k - 1, errno)));
            Ok(())
        }
    }
}
