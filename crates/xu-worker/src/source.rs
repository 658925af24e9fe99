//! A completion event as a source of mio's event loop, with the feature `mio`.
//!
//! Used by applications that have such a loop. mio is edge-triggered: after an event, [`CompletionEvent::drain`] before
//! the next poll, or no further event may come.
//!
//! ```
//! use mio::{Events, Interest, Poll, Token};
//! use xu_worker::eventfd::CompletionEvent;
//!
//! const COMPLETIONS: Token = Token(0);
//!
//! let mut poll = Poll::new()?;
//! let mut completions = CompletionEvent::new()?;
//! poll.registry().register(&mut completions, COMPLETIONS, Interest::READABLE)?;
//!
//! // A queue gets this, and writes to it when a request completes.
//! let event = completions.app_event()?;
//! event.notify()?;
//!
//! let mut events = Events::with_capacity(8);
//! poll.poll(&mut events, None)?;
//! for event in &events {
//!     if event.token() == COMPLETIONS {
//!         assert_eq!(completions.drain()?, 1);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::eventfd::CompletionEvent;
use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Only [`Interest::READABLE`] says anything about completions; the other side is the lane's.
impl Source for CompletionEvent {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).deregister(registry)
    }
}
