//! The loop behind a listener: receives calls of the program, and learns of the end of its processes.
//!
//! ```text
//!   listener ──> begin ──> answered here, at once           most calls
//!                     └──> answered on a thread of its own   calls that may wait
//!   pidfds ────> ended
//!   timeout ───> what calls do not tell: forks, execs
//! ```
//!
//! It runs on an unfiltered thread, until no task has the filter any more.

use super::calls::{self, Served};
use super::listener::{Listener, Notification};
use super::processes::{InService, Processes};
use super::unavailable::Unavailable;
use crate::complaint::complain;
use crate::driver::Emulator;
use crate::listing::Listing;
use crate::nodes::Nodes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// How often to look for what calls do not tell, milliseconds.
const LOOK_AROUND: u16 = 100;

/// What serves one listener.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) emulator: Arc<Emulator>,
    pub(super) listener: Listener,
    pub(super) nodes: Nodes,
    pub(super) processes: Arc<Processes>,
    /// What the program sees when it lists the nodes; made when it first does.
    pub(super) listing: Mutex<Option<Listing>>,
}

impl Supervisor {
    pub(super) fn new(
        emulator: &Arc<Emulator>,
        listener: OwnedFd,
        directory: &Path,
    ) -> Result<Arc<Self>, Unavailable> {
        Ok(Arc::new(Self {
            emulator: Arc::clone(emulator),
            listener: Listener::new(listener)?,
            nodes: Nodes::new(directory),
            processes: Processes::new(emulator),
            listing: Mutex::default(),
        }))
    }

    /// Serves until nobody has the filter any more.
    pub(super) fn serve(self: &Arc<Self>) {
        loop {
            let ends = self.processes.ends();
            let mut waited = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            waited.extend(
                ends.iter()
                    .map(|(_, end)| PollFd::new(end.as_fd(), PollFlags::POLLIN)),
            );
            // Interrupted: as if nothing had come.
            let _ = poll(&mut waited, PollTimeout::from(LOOK_AROUND));
            let mut events = waited.iter().map(|waited| {
                let events = waited.revents();
                events.unwrap_or(PollFlags::empty())
            });
            let calls = events.next().unwrap_or(PollFlags::empty());
            let mut quiet = true;
            for ((pid, _), end) in ends.iter().zip(events) {
                if end.contains(PollFlags::POLLIN) {
                    self.processes.ended(*pid);
                    quiet = false;
                }
            }
            if calls.contains(PollFlags::POLLIN) {
                self.receive();
            } else if calls.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                break;
            } else if quiet {
                self.processes.look_around();
            }
        }
        for pid in self.processes.all() {
            if pid == std::process::id() {
                self.processes.abandon(pid);
            } else {
                self.processes.ended(pid);
            }
        }
    }

    /// Removes the listing of the nodes: the thread that serves may not come to it before this process exits. Who lists
    /// them later gets another one.
    pub(super) fn remove_listing(&self) {
        drop(self.listing.lock().take());
    }

    fn receive(self: &Arc<Self>) {
        let Some(call) = self.listener.receive() else {
            return;
        };
        let Some(service) = self.processes.begin(call.tid) else {
            return;
        };
        // Only now: a process that has ended meanwhile is not given anything.
        if !self.listener.is_waiting(call.id) {
            return;
        }
        if let Served::MayWait = calls::serve(self, &service, &call, calls::Patience::None) {
            self.serve_apart(service, call);
        }
    }

    /// Serves a call that may wait, so that others go on.
    fn serve_apart(self: &Arc<Self>, service: InService, call: Notification) {
        let supervisor = Arc::clone(self);
        let thread = std::thread::Builder::new().name("neuron-emu-call".into());
        let id = call.id;
        let begun = thread.spawn(move || {
            calls::serve(&supervisor, &service, &call, calls::Patience::Any);
        });
        if let Err(error) = begun {
            complain(&format!("no thread for a call that waits: {error}"));
            let _gone = self
                .listener
                .reply(id, super::listener::Reply::Errno(nix::libc::EAGAIN));
        }
    }
}
