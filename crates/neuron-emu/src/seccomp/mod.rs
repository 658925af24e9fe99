//! The front end of seccomp user notification: system calls of a program stop, and are answered here.
//!
//! Used by [`run`](crate::run), by [`Supervised`] and by the command. Spec `driver_emulation.md` section 7.
//!
//! ```text
//!   program (any language, static or not)          this process, on threads without the filter
//!   open("/dev/neuron0")  ── stops ─────────────>  Supervisor ──> Emulator::open
//!   = 960                 <── ADDFD, SEND ───────                 a memfd
//!   ioctl(960, request, p) ─ stops ─────────────>  Target ─────> Emulator::ioctl
//!   = 0, 3, -1 ...        <── SEND ──────────────  process_vm_readv and writev
//!   mmap(960, ...)        ── stops ─────────────>  Emulator::map
//!   = pages of the memfd  <── CONTINUE ──────────  shared with the device
//! ```
//!
//! What it does not see, and so does not do:
//! * Descriptors that get to another process or number without a call that stops: over a Unix socket, with
//!   pidfd_getfd, through io_uring. They are plain files there.
//! * `fstat` shows a regular file, and `stat` of a node's path finds nothing. A listing of the directory shows the nodes.
//! * A program in another root directory or behind symbolic links to a node.
//! * mprotect of a mapping that was made without the write flag.
//! * Paths and arguments can change after they were read: it is a tool for tests, and no security boundary.
//! * Since `no_new_privs` is set, set-user-id programs get no other user.

mod calls;
mod filter;
mod listener;
mod processes;
mod run;
mod supervised;
mod supervisor;
mod sys;
mod target;
mod unavailable;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
pub use run::{run, run_in};
pub use supervised::{SpawnError, Supervised};
pub(crate) use sys::open_process;
pub use unavailable::Unavailable;

/// Where the nodes are.
pub const DEVICES: &str = "/dev";

// CAST: a small positive number.
/// The least limit of descriptors.
const NEEDED: u64 = *filter::RESERVED.end() as u64 + 1;

/// Whether the front end can be used here: asked once, with a filter on a thread that ends at once. The hard limit of descriptors is
/// raised where that is needed and possible.
///
/// # Errors
/// [`Unavailable`] says why not.
pub fn available() -> Result<(), Unavailable> {
    static ANSWER: std::sync::OnceLock<Result<(), Unavailable>> = std::sync::OnceLock::new();
    let ask = || {
        let filter = filter::program();
        let thread = std::thread::Builder::new().name("neuron-emu-probe".into());
        let probe = thread
            .spawn(move || listener::install(&filter).map(drop))
            .map_err(|error| Unavailable::Other(error.to_string()))?;
        match probe.join() {
            Ok(installed) => installed.map_err(Unavailable::from),
            Err(_) => Err(Unavailable::Other("the probe panicked".into())),
        }
    };
    ensure_room()?;
    ANSWER.get_or_init(ask).clone()
}

/// Reserved numbers need room: the soft limit of descriptors is raised if it is below. In a child between fork and exec, too.
fn raise_descriptor_limit() -> nix::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= NEEDED {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, NEEDED, hard.max(NEEDED))
}

/// Sees to it that the limit can be raised, here and in a child.
fn ensure_room() -> Result<(), Unavailable> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard >= NEEDED {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft, NEEDED).map_err(|_| Unavailable::Descriptors {
        needed: NEEDED,
        hard,
    })
}
