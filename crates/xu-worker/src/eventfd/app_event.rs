//! An eventfd of the application, as the lane holds it.
//!
//! Made when an application registers a descriptor, kept by [`Events`](crate::events::Events), written by the worker.
//! Spec `xu.md` section 4, application eventfds; failure kinds W2 and W3.
//!
//! # What is not here
//!
//! The C surface stores the number that it was given instead of a duplicate. To write to a number that the application
//! may close at any time, one has to borrow it for longer than anybody vouches for; that belongs where the C surface makes
//! its other promises, not here.

use super::counter::Counter;
use crate::limits;
use std::io;
#[cfg(not(any(loom, miri)))]
use std::os::fd::AsFd;

/// A duplicate of an application's eventfd, for writing.
///
/// The application may close its own descriptor, and let the number be used again: the duplicate still leads to the
/// eventfd that was registered. The flags of the eventfd belong to both, so they are never changed; whether it blocks is
/// the application's choice.
#[derive(Debug)]
pub struct AppEvent {
    id: EventId,
    counter: Counter,
    /// Whether a write can wait, as it was when the application registered it.
    blocks: bool,
}

/// Tells one [`AppEvent`] from every other of the process, those that have gone included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId(u64);

impl EventId {
    fn next() -> Self {
        // No model looks at it.
        static LAST: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
        Self(LAST.fetch_add(1, core::sync::atomic::Ordering::Relaxed))
    }
}

/// A descriptor that cannot be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAnEventFd {
    /// It is not open, or there is no descriptor left for the duplicate.
    #[error(
        "descriptor {number} cannot be duplicated: {}",
        limits::no_descriptor(source)
    )]
    NotDuplicated {
        /// The application's descriptor.
        number: i32,
        /// What the operating system says.
        source: io::Error,
    },
    /// It is open, and something else.
    #[error(
        "descriptor {number} is no eventfd but `{found}`: pass one of eventfd(2), or a CompletionEvent"
    )]
    SomethingElse {
        /// The application's descriptor.
        number: i32,
        /// What `/proc` says it is.
        found: String,
    },
    /// Only `/proc` tells an eventfd from other files, and it cannot be read.
    #[error(
        "descriptor {number} may be no eventfd, since /proc cannot be read: {}",
        limits::no_descriptor(source)
    )]
    Unknown {
        /// The application's descriptor.
        number: i32,
        /// What the operating system says.
        source: io::Error,
    },
}

/// A notification that the application will not get. Its own fault: the request and its unit are well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotDelivered {
    /// The counter is at its maximum of 2^64 - 2.
    #[error("the application's eventfd is full")]
    Full,
    /// The operating system refuses.
    #[error("the application's eventfd cannot be written: {0}")]
    Broken(#[source] io::Error),
}

#[cfg(not(any(loom, miri)))]
impl AppEvent {
    /// Duplicates an eventfd of the application. The duplicate is close-on-exec.
    ///
    /// Where `/proc` is not mounted nothing tells an eventfd from a file, and every descriptor is refused: a stray count
    /// in a file would be eight bytes of damage.
    ///
    /// # Errors
    /// [`NotAnEventFd`]; the application's descriptor is as it was.
    pub fn new(fd: impl AsFd) -> Result<Self, NotAnEventFd> {
        use std::os::fd::AsRawFd;

        let fd = fd.as_fd();
        let number = fd.as_raw_fd();
        let counter = Counter::duplicate(fd)
            .map_err(|source| NotAnEventFd::NotDuplicated { number, source })?;
        // The duplicate is looked at: nobody can exchange it meanwhile.
        let link = std::fs::read_link(format!("/proc/self/fd/{}", counter.number()))
            .map_err(|source| NotAnEventFd::Unknown { number, source })?;
        if link.as_os_str() != "anon_inode:[eventfd]" {
            return Err(NotAnEventFd::SomethingElse {
                number,
                found: link.to_string_lossy().into_owned(),
            });
        }
        let blocks = counter
            .blocks()
            .map_err(|source| NotAnEventFd::NotDuplicated { number, source })?;
        Ok(Self {
            id: EventId::next(),
            counter,
            blocks,
        })
    }
}

/// Held between looking and writing, for eventfds that block: two units may have the same one.
static BLOCKING: std::sync::Mutex<()> = std::sync::Mutex::new(());

impl AppEvent {
    #[cfg(any(loom, miri))]
    pub(super) fn of(counter: Counter) -> Self {
        Self {
            id: EventId::next(),
            counter,
            blocks: false,
        }
    }

    /// Adds one, and does not wait.
    ///
    /// A full eventfd that blocks would stop the writer, so the lane looks before it writes, and no other unit of the
    /// process writes in between. The application itself could: it would have to fill the counter to the brim, which
    /// takes a write of about 2^64.
    ///
    /// # Errors
    /// [`NotDelivered`]; nothing was added.
    pub fn notify(&self) -> Result<(), NotDelivered> {
        let _alone = self.blocks.then(|| {
            BLOCKING
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        });
        if !self.counter.is_writable().map_err(NotDelivered::Broken)? {
            return Err(NotDelivered::Full);
        }
        self.counter.write(1).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => NotDelivered::Full,
            _ => NotDelivered::Broken(error),
        })
    }

    /// Which event this is.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.id
    }

    /// The duplicate's number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.counter.number()
    }
}
