//! The descriptor on which a caller waits for one sequence.
//!
//! Lent by the pool of a virtual core. Spec `xu.md` section 4, "pooled completion efd".

use super::counter::Counter;
use super::{Kind, SignalError};
use std::io;
use std::time::Instant;

/// Signalled once by the worker, polled by any number of waiters, and read only when nobody waits any more.
#[derive(Debug)]
pub struct CompletionFd(Counter);

impl CompletionFd {
    /// A descriptor with no signal.
    ///
    /// # Errors
    /// What the operating system says, usually that descriptors ran out.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Counter::new(0, Kind::Plain)?))
    }

    /// Lets every waiter go.
    ///
    /// # Errors
    /// What the operating system says. A descriptor that is drained before reuse cannot fail, so this one is broken.
    pub fn signal(&self) -> Result<(), SignalError> {
        Ok(self.0.write(1)?)
    }

    /// Waits for the signal and leaves it there; `false` when `deadline` passes first. `None` waits for ever, a deadline
    /// that has passed asks once.
    ///
    /// # Errors
    /// What the operating system says; not that a signal handler ran.
    pub fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        self.0.wait_readable(deadline)
    }

    /// Takes every signal there is.
    ///
    /// # Errors
    /// What the operating system says; not that there was none.
    pub fn drain(&self) -> io::Result<()> {
        match self.0.read() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            // Not a semaphore: one read takes all.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The descriptor's number, for `mark_comp_efd` of the ABI.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.0.number()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn w8_a_signal_lasts_until_it_is_drained() {
        let fd = CompletionFd::new().unwrap();
        let passed = Some(Instant::now());
        assert!(!fd.wait(passed).unwrap());
        fd.drain().unwrap();
        fd.signal().unwrap();
        fd.signal().unwrap();
        assert!(fd.wait(passed).unwrap());
        assert!(fd.wait(None).unwrap());
        fd.drain().unwrap();
        assert!(!fd.wait(passed).unwrap());
    }
}
