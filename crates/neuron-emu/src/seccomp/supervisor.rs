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
use super::listener::{Listener, Notification, Reply};
use super::processes::{Begun, Processes};
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
                    self.processes.has_ended(*pid);
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
        self.processes.all_end();
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
        match self.processes.begin(call.tid) {
            Begun::Service(service) => {
                // Only now: a process that has ended meanwhile is not given anything.
                if self.listener.is_waiting(call.id)
                    && calls::serve(self, &service, &call, calls::Patience::None) == Served::MayWait
                {
                    self.apart(call, move |supervisor| {
                        calls::serve(supervisor, &service, &call, calls::Patience::Any);
                    });
                }
            }
            Begun::Later(_) => self.apart(call, move |supervisor| supervisor.receive_later(&call)),
            begun => self.refuse(&call, &begun),
        }
    }

    /// On a thread of its own: the process that had the number of this one is put away first.
    fn receive_later(&self, call: &Notification) {
        match self.processes.begin_in_time(call.tid) {
            Begun::Service(service) => {
                if self.listener.is_waiting(call.id) {
                    calls::serve(self, &service, call, calls::Patience::Any);
                }
            }
            begun => self.refuse(call, &begun),
        }
    }

    /// A call that nobody can serve has an answer all the same, or its program would hang.
    fn refuse(&self, call: &Notification, begun: &Begun) {
        if let Begun::Fails(errno) = begun {
            complain(&format!(
                "a call is refused: whose it is cannot be found out ({errno})"
            ));
            // CAST: error numbers are small positive ones.
            let refusal = Reply::Errno(*errno as i32);
            let _gone = self.listener.reply(call.id, refusal);
        }
    }

    /// Serves a call that may wait, so that others go on.
    fn apart(self: &Arc<Self>, call: Notification, serve: impl FnOnce(&Self) + Send + 'static) {
        let supervisor = Arc::clone(self);
        let thread = std::thread::Builder::new().name("neuron-emu-call".into());
        if let Err(error) = thread.spawn(move || serve(&supervisor)) {
            complain(&format!("no thread for a call that waits: {error}"));
            let _gone = self
                .listener
                .reply(call.id, Reply::Errno(nix::libc::EAGAIN));
        }
    }
}
