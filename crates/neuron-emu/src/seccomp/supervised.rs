//! A program under the emulator: a child process, and whatever it starts.

use super::supervisor::Supervisor;
use super::unavailable::Unavailable;
use super::{DEVICES, available, filter, sys};
use crate::driver::Emulator;
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// A program under the emulator: a child process, and whatever it starts.
///
/// Dropping it kills the program, not what it has started.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    supervisor: Arc<Supervisor>,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// Another front end may do.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The program cannot be executed, or the system has no room for it.
    #[error("the program cannot be started")]
    Start(#[source] io::Error),
}

impl Supervised {
    /// Starts a program whose system calls see the emulator's devices as `/dev/neuron0`, ...
    ///
    /// Several can share an emulator, as programs share a driver. A command can be used once: it remembers the first
    /// supervisor, and fails when it is spawned again.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn spawn(emulator: &Arc<Emulator>, command: &mut Command) -> Result<Self, SpawnError> {
        Self::spawn_in(emulator, Path::new(DEVICES), command)
    }

    /// As [`Supervised::spawn`], with the nodes in another directory, which need not exist.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn spawn_in(
        emulator: &Arc<Emulator>,
        devices: &Path,
        command: &mut Command,
    ) -> Result<Self, SpawnError> {
        available()?;
        let (ours, theirs) = UnixStream::pair().map_err(SpawnError::Start)?;
        let end = ours.try_clone().map_err(SpawnError::Start)?;
        sys::filter_in_child(command, filter::program(), theirs);
        let (ready, supervisor) = sync_channel(1);
        let thread = {
            let (emulator, devices) = (Arc::clone(emulator), devices.to_owned());
            // Before the child is there: its first calls stop already while `spawn` waits for its exec.
            thread::Builder::new()
                .name("neuron-emu".into())
                .spawn(move || supervise(&emulator, &devices, ours, &ready))
        };
        thread.map_err(SpawnError::Start)?;
        let spawned = command.spawn();
        // Whoever still waits for a listener gets none.
        let _it_has_one = end.shutdown(std::net::Shutdown::Both);
        let child = spawned.map_err(SpawnError::Start)?;
        let mut child = Guard(Some(child));
        let supervisor = supervisor
            .recv()
            .map_err(|_| Unavailable::Other("the program sent no listener".into()))??;
        let child = child.0.take().ok_or_else(|| {
            SpawnError::Start(io::Error::other("the child is taken once, which is here"))
        })?;
        Ok(Self { child, supervisor })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child: its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Kills it with SIGKILL. What it left is cleaned up when [`Supervised::wait`] returns.
    ///
    /// # Errors
    /// As [`Child::kill`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Waits for its end, and until the driver has closed all its descriptors.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        // As `Child::wait` has it: a program that reads it would wait for us.
        drop(self.child.stdin.take());
        if self.has_ended(WaitPidFlag::empty()) {
            self.supervisor.processes.ended(self.child.id());
        }
        self.child.wait()
    }

    /// As [`Supervised::wait`], without waiting for its end: `None` while it runs. Once it has ended, the calls of it that the driver
    /// still has are waited for.
    ///
    /// # Errors
    /// As [`Child::try_wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if !self.has_ended(WaitPidFlag::WNOHANG) {
            return Ok(None);
        }
        self.supervisor.processes.ended(self.child.id());
        self.child.try_wait()
    }

    /// Whether it has ended, before anybody else can have its number: it is not reaped yet, unless it was before.
    fn has_ended(&self, flags: WaitPidFlag) -> bool {
        // CAST: process ids are positive.
        let pid = Pid::from_raw(self.child.id() as i32);
        loop {
            match waitid(
                Id::Pid(pid),
                flags | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT,
            ) {
                Ok(WaitStatus::StillAlive) => return false,
                Err(Errno::EINTR) => {}
                _ => return true,
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Has ended already, perhaps.
        let _ = self.kill();
        let _ = self.wait();
        self.supervisor.remove_listing();
    }
}

/// Kills a child that nobody takes.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}

fn supervise(
    emulator: &Arc<Emulator>,
    devices: &Path,
    socket: UnixStream,
    ready: &SyncSender<Result<Arc<Supervisor>, Unavailable>>,
) {
    // No listener: the spawn has failed, and says why.
    let Ok(listener) = sys::receive_descriptor(socket.as_fd()) else {
        return;
    };
    drop(socket);
    match Supervisor::new(emulator, listener, devices) {
        Ok(supervisor) => {
            let _waits = ready.send(Ok(Arc::clone(&supervisor)));
            supervisor.serve();
        }
        Err(unavailable) => {
            let _waits = ready.send(Err(unavailable));
        }
    }
}
