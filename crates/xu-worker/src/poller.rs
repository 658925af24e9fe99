//! What the operating system tells a worker: epoll over a stop latch and the bells of its units.
//!
//! Owned by the loop in [`rounds`](crate::rounds). Spec `xu.md` section 4, worker loop.
//!
//! epoll is level-triggered on purpose: a bell that nobody has answered is heard again at the next wait, so nothing is
//! lost when a wait is interrupted.

use crate::eventfd::StopLatch;
use crate::rounds::{Ready, Waiter};
use crate::runner::Runner;
use crate::worker::MAX_UNITS;
use core::time::Duration;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::AsFd;

/// Token of the stop latch; units have their index.
const STOP: u64 = u64::MAX;

/// An epoll set. It is closed before the descriptors in it are: the loop drops it first.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: Epoll,
}

impl Poller {
    /// # Errors
    /// What the operating system says.
    pub(crate) fn new(stop: &StopLatch, units: &[Box<dyn Runner>]) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let stop_flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
        epoll.add(stop, EpollEvent::new(stop_flags, STOP))?;
        for (index, unit) in (0u64..).zip(units) {
            epoll.add(unit.bell(), EpollEvent::new(EpollFlags::EPOLLIN, index))?;
        }
        Ok(Self { epoll })
    }

    fn events(&self, timeout: EpollTimeout) -> io::Result<Ready> {
        let mut events = [EpollEvent::empty(); MAX_UNITS + 1];
        let count = match self.epoll.wait(&mut events, timeout) {
            Err(Errno::EINTR) => 0,
            other => other?,
        };
        let mut ready = Ready::default();
        for event in &events[..count] {
            match event.data() {
                STOP => ready.stop = true,
                index => ready.units |= 1 << index,
            }
        }
        Ok(ready)
    }
}

impl Waiter for Poller {
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Ready> {
        let Some(timeout) = timeout else {
            return self.events(EpollTimeout::NONE);
        };
        // epoll counts milliseconds; the epoll descriptor itself can be polled with nanoseconds.
        let mut fds = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(0) | Err(Errno::EINTR) => Ok(Ready::default()),
            Ok(_) => self.events(EpollTimeout::ZERO),
            Err(errno) => Err(errno.into()),
        }
    }
}
