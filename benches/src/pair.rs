//! Two pinned threads that start together.
//!
//! Used by the probe and by every workload with two sides.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::pin::{self, Pair};

/// Runs both at the same time, each on its processor, and returns when both are done.
///
/// # Panics
/// When one of them does.
pub(crate) fn run<A: Send, B: Send>(
    processors: Pair,
    left: impl FnOnce() -> A + Send,
    right: impl FnOnce() -> B + Send,
) -> (A, B) {
    let gate = &Gate::default();
    thread::scope(|scope| {
        let left = scope.spawn(move || {
            pin::pin(processors[0]);
            gate.wait();
            left()
        });
        let right = scope.spawn(move || {
            pin::pin(processors[1]);
            gate.wait();
            right()
        });
        let ended = (left.join(), right.join());
        match ended {
            (Ok(left), Ok(right)) => (left, right),
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

/// Opens when both threads are there.
#[derive(Default)]
struct Gate {
    waiting: AtomicU32,
}

impl Gate {
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        while self.waiting.load(Ordering::Relaxed) < 2 {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_run_and_answer() {
        let processors = pin::choose().unwrap_or([0, 0]);
        if processors[0] != processors[1] {
            assert_eq!(run(processors, || 1, || "two"), (1, "two"));
        }
    }
}
