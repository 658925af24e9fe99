//! Two eventfds with an epoll each: what a request costs when both sides sleep and nothing else is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::{answer, join};
use crate::pin::Pair;
use crate::worker::service::{Caller, Service};

pub(crate) struct Echo;

/// One way: whoever waits gets all that were written meanwhile.
struct Way {
    count: EventFd,
    epoll: Epoll,
}

pub(crate) struct Asking {
    ways: Arc<[Way; 2]>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Way {
    fn new() -> nix::Result<Self> {
        let count = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&count, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self { count, epoll })
    }

    fn add(&self, count: u64) {
        // Only a count near its maximum is refused.
        let _ = self.count.write(count);
    }

    /// A signal may end the wait early: then it is 0.
    fn take(&self) -> u64 {
        let mut events = [EpollEvent::empty()];
        match self.epoll.wait(&mut events, EpollTimeout::NONE) {
            Ok(_) => self.count.read().unwrap_or(0),
            Err(_) => 0,
        }
    }
}

impl Service for Echo {
    type Caller = Asking;

    fn start(processors: Pair) -> Option<Asking> {
        let ways = Arc::new([Way::new().ok()?, Way::new().ok()?]);
        let over = Arc::new(AtomicBool::new(false));
        let (theirs, until) = (Arc::clone(&ways), Arc::clone(&over));
        let thread = answer(processors[1], move || {
            let [there, back] = &*theirs;
            loop {
                let requests = there.take();
                if until.load(Ordering::Relaxed) {
                    return;
                }
                if requests > 0 {
                    back.add(requests);
                }
            }
        })?;
        Some(Asking { ways, over, thread })
    }
}

impl Caller for Asking {
    #[inline]
    fn submit(&mut self) {
        self.ways[0].add(1);
    }

    #[inline]
    fn wait(&mut self) -> usize {
        // CAST: no more than are outstanding.
        self.ways[1].take() as usize
    }

    fn stop(self) {
        // The write that follows carries it.
        self.over.store(true, Ordering::Relaxed);
        self.ways[0].add(1);
        join(self.thread);
    }
}
