//! Somebody else's memory that has the header of a ring in it.
//!
//! [`ring_in`](super::ring_in) makes a [`Home`]; `memory` claims the header in it, and keeps the [`Claimed`] home until the
//! last end is gone:
//!
//! ```text
//!   Home ── claim ──▶ Claimed ── dropped ──▶ header empty, then the owner let go
//! ```

use alloc::sync::Arc;
use core::any::Any;
use core::ptr::NonNull;

use super::header::Header;

/// Memory that a header is in, whatever its type: kept alive by a reference of its own.
pub(super) struct Home {
    header: NonNull<Header>,
    /// What `header` was borrowed from.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a `Home` is a shared reference to a `Header`, which is `Sync`, and the `Arc` that keeps it in place, which is
//   `Send` and `Sync`.
unsafe impl Send for Home {}
// SAFETY: as for `Send`.
unsafe impl Sync for Home {}

impl Home {
    /// Finds the header in `owner`, and keeps both.
    pub(super) fn new<H: Send + Sync + 'static>(
        owner: Arc<H>,
        header: impl FnOnce(&H) -> &Header,
    ) -> Self {
        Self {
            header: NonNull::from(header(&owner)),
            _owner: owner,
        }
    }

    /// The home of a ring whose slots begin at `buffer`; `None` when the header has a ring.
    pub(super) fn claim(self, buffer: NonNull<()>) -> Option<Claimed> {
        // Not `then_some`: a `Claimed` that is dropped empties the header, whosesoever it is.
        self.header().claim(buffer).then(|| Claimed(self))
    }

    fn header(&self) -> &Header {
        // SAFETY: `new` borrowed it from what `_owner` points at, for as long as the caller likes. That borrow goes on: while we
        //   have `_owner`, its contents are neither moved nor dropped nor borrowed mutably.
        unsafe { self.header.as_ref() }
    }
}

/// A home whose header is this ring's. Whoever has it frees the header by dropping it.
pub(super) struct Claimed(Home);

impl Claimed {
    pub(super) fn header(&self) -> &Header {
        self.0.header()
    }
}

/// Makes the header empty; the owner is let go afterwards.
impl Drop for Claimed {
    fn drop(&mut self) {
        // SAFETY: claimed by `Home::claim`. `memory` drops its home with its block, which goes with the last handle, or before
        //   there is any.
        unsafe { self.header().clear() };
    }
}
