//! A closure under the emulator, in this process: the harness of tests.

use super::listener;
use super::supervisor::Supervisor;
use super::unavailable::Unavailable;
use super::{DEVICES, ensure_room, filter, raise_descriptor_limit};
use crate::driver::Emulator;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Runs a closure whose system calls see the emulator's devices as `/dev/neuron0`, ...
///
/// It runs on a new thread. That thread, the threads and the processes that it starts are under the emulator; nothing
/// else of this process is. Several may run at once, each with an emulator of its own or with a common one.
/// Descriptors that the closure leaves open count as closed when it returns.
///
/// To the driver all of this process is one: what a closure opens under one emulator and keeps for the whole process, as the
/// real-driver backend keeps its claims, a closure under another emulator must not use. Give each its own process, or
/// its own directory ([`run_in`]).
///
/// # Errors
/// [`Unavailable`]: the closure was not called.
///
/// # Panics
/// As the closure does.
pub fn run<T: Send>(
    emulator: &Arc<Emulator>,
    closure: impl FnOnce() -> T + Send,
) -> Result<T, Unavailable> {
    run_in(emulator, Path::new(DEVICES), closure)
}

/// As [`run`], with the nodes in another directory, which need not exist.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_in<T: Send>(
    emulator: &Arc<Emulator>,
    devices: &Path,
    closure: impl FnOnce() -> T + Send,
) -> Result<T, Unavailable> {
    ensure_room()?;
    raise_descriptor_limit()?;
    let (installed, filtered) = sync_channel(1);
    let (go, may_go) = sync_channel(1);
    // Moved in: whoever waits to be let go is let go when this returns early.
    thread::scope(move |scope| {
        let body = move || under_filter(&installed, &may_go, closure);
        let thread = thread::Builder::new()
            .name("neuron-emu-run".into())
            .spawn_scoped(scope, body)
            .map_err(|error| Unavailable::Other(error.to_string()))?;
        let supervisor = supervise(emulator, devices, &filtered)?;
        let _it_waits = go.send(());
        let returned = thread.join();
        supervisor.processes.abandon(std::process::id());
        supervisor.remove_listing();
        match returned {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(Unavailable::Other("the thread was not let go".into())),
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// On the new thread: filters itself, says so, and goes on when somebody serves.
fn under_filter<T>(
    installed: &SyncSender<Result<OwnedFd, Unavailable>>,
    may_go: &Receiver<()>,
    closure: impl FnOnce() -> T,
) -> Option<T> {
    let listener = listener::install(&filter::program());
    installed.send(listener.map_err(Unavailable::from)).ok()?;
    may_go.recv().ok()?;
    Some(closure())
}

/// Starts to serve the listener that the new thread sends.
fn supervise(
    emulator: &Arc<Emulator>,
    devices: &Path,
    filtered: &Receiver<Result<OwnedFd, Unavailable>>,
) -> Result<Arc<Supervisor>, Unavailable> {
    let other = |message: String| Unavailable::Other(message);
    let listener = filtered
        .recv()
        .map_err(|_| other("the thread ended early".into()))??;
    let supervisor = Supervisor::new(emulator, listener, devices)?;
    let serving = Arc::clone(&supervisor);
    thread::Builder::new()
        .name("neuron-emu".into())
        .spawn(move || serving.serve())
        .map_err(|error| other(error.to_string()))?;
    Ok(supervisor)
}
