//! An eventfd for applications that have none of their own.
//!
//! Made by an application, which registers it with a queue and watches it in its event loop; with the feature `mio` it is
//! a source of that one. Spec `xu.md` section 4, application eventfds.

use super::Kind;
use super::app_event::{AppEvent, NotAnEventFd};
use super::counter::Counter;
use std::io;
#[cfg(not(any(loom, miri)))]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Counts completions: readable while there are any that the application has not taken. Does not block.
#[derive(Debug)]
pub struct CompletionEvent(Counter);

impl CompletionEvent {
    /// A count of zero.
    ///
    /// # Errors
    /// What the operating system says, usually that descriptors ran out.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Counter::new(0, Kind::Plain)?))
    }

    /// Takes the whole count, and says what it was; 0 when nothing has completed.
    ///
    /// One read leaves nothing behind, so this is all that an edge-triggered event loop asks for.
    ///
    /// # Errors
    /// What the operating system says; not that the count was zero.
    pub fn drain(&self) -> io::Result<u64> {
        match self.0.read() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// What a queue writes to.
    ///
    /// # Errors
    /// As [`AppEvent::new`]: there is no descriptor left, or no `/proc`.
    pub fn app_event(&self) -> Result<AppEvent, NotAnEventFd> {
        #[cfg(not(any(loom, miri)))]
        return AppEvent::new(self);
        #[cfg(any(loom, miri))]
        return match self.0.duplicate() {
            Ok(counter) => Ok(AppEvent::of(counter)),
            Err(source) => Err(NotAnEventFd::NotDuplicated {
                number: self.0.number(),
                source,
            }),
        };
    }
}

#[cfg(not(any(loom, miri)))]
impl AsRawFd for CompletionEvent {
    /// For event loops that want a number, tokio's `AsyncFd` among them.
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(not(any(loom, miri)))]
impl AsFd for CompletionEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
