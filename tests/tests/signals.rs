//! Signals at a high rate, to every thread, with a handler that has no call restarted, through whole lives of runtimes over the
//! driver's interface.
//!
//! Every system call may come back with EINTR. It is made again, or the failure says so where making it again could have it happen
//! twice; nothing hangs, and nothing is left behind.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::life::Means;
use lane_tests::role;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nrta::{Backend, Builder, Runtime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

const ROLE: &str = "LANE_TESTS_SIGNALS";
/// Lives under signals; this variable says another number.
const LIVES: u32 = 6;
const MORE: &str = "LANE_TESTS_LIVES";
/// Calls that are not made again, since they count: a second doorbell is a second execution.
const COUNTING: [&str; 2] = ["SEMAPHORE_INCREMENT", "DMA_QUEUE_COPY_START"];
/// Of the timer, and of the thread that sends signals to all others. Longer than the emulator needs to take a call up, or none would ever
/// be served.
const INTERVAL: Duration = Duration::from_millis(1);

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// A signal to this process at each interval; none ends it.
fn set_timer(interval: Option<Duration>) {
    let every = libc::timeval {
        tv_sec: 0,
        // CAST: less than a second.
        tv_usec: interval.unwrap_or_default().as_micros() as _,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the kernel reads the structure.
    let done =
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, core::ptr::null_mut()) };
    assert_eq!(done, 0);
}

/// A signal to each thread but this one. Those of the process go to the first that takes them.
fn send_to_every_thread() {
    // SAFETY: no memory is passed.
    let own = unsafe { libc::syscall(libc::SYS_gettid) };
    for thread in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let tid: Option<libc::c_long> =
            thread.file_name().to_str().and_then(|tid| tid.parse().ok());
        if let Some(tid) = tid.filter(|tid| *tid != own) {
            let pid = libc::c_long::from(std::process::id());
            // SAFETY: no memory is passed; the signal has a handler.
            unsafe {
                libc::syscall(
                    libc::SYS_tgkill,
                    pid,
                    tid,
                    libc::c_long::from(libc::SIGALRM),
                )
            };
        }
    }
}

fn builder() -> Builder {
    Runtime::builder().backend(Backend::RealDriver)
}

/// Not a test: what the program does. Without the role nothing.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let means = Means::read();
    let expected = means.expected();
    let action = SigAction::new(
        SigHandler::Handler(count),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler adds to a number and does nothing else.
    unsafe { sigaction(Signal::SIGALRM, &action) }.unwrap();
    set_timer(Some(INTERVAL));
    let (done, is_done) = sync_channel::<()>(0);
    let sender = std::thread::spawn(move || {
        while is_done.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            send_to_every_thread();
        }
    });
    let more = std::env::var(MORE)
        .ok()
        .and_then(|lives| lives.parse().ok());
    let lives = more.unwrap_or(LIVES);
    let mut whole = 0;
    for life in 0..lives {
        match means.live(builder()) {
            Ok(labels) => {
                assert_eq!(labels, expected, "life {life}");
                whole += 1;
            }
            Err(failed) => {
                println!("life {life}: {failed}");
                let says = |text: &str| failed.says.contains(text);
                let counts = COUNTING.iter().any(|call| says(call));
                assert!(says("EINTR") && counts, "life {life}: {failed}");
            }
        }
    }
    drop(done);
    sender.join().unwrap();
    set_timer(None);
    assert_eq!(means.live(builder()), Ok(expected));
    let signals = SIGNALS.load(Ordering::Relaxed);
    println!("\n> {whole} lives of {lives} to their end, {signals} signals");
    assert!(signals > 100, "{signals} signals");
}

#[test]
fn every_call_may_be_interrupted() {
    if let Some(said) = role::play(ROLE, "1") {
        println!("{said}");
    }
}
