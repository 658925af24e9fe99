//! When descriptors run out: errors, waits that work all the same, and nothing lost. A process of its own, one test.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::Unit;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::{File, read_dir};
use std::thread;
use std::time::Duration;
use xu_worker::eventfd::{AppEvent, CompletionEvent, NotAnEventFd, StopLatch, WorkCount};
use xu_worker::waits::{Waited, deadline};

const EMFILE: Option<i32> = Some(Errno::EMFILE as i32);

fn open_descriptors() -> usize {
    read_dir("/proc/self/fd").unwrap().count()
}

/// Runs `test` while this process can open nothing.
fn without_descriptors(test: impl FnOnce()) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft.min(256), hard).unwrap();
    let mut fill = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        fill.push(file);
    }
    test();
    drop(fill);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
}

#[test]
fn p3_without_descriptors_everything_fails_in_good_order() {
    let before = open_descriptors();
    let unit = Unit::new(1);
    let event = CompletionEvent::new().unwrap();
    without_descriptors(|| {
        assert_eq!(WorkCount::new().unwrap_err().raw_os_error(), EMFILE);
        assert_eq!(StopLatch::new().unwrap_err().raw_os_error(), EMFILE);
        assert_eq!(CompletionEvent::new().unwrap_err().raw_os_error(), EMFILE);
        assert_eq!(unit.pool.take().unwrap_err().raw_os_error(), EMFILE);
        match AppEvent::new(&event) {
            Err(NotAnEventFd::NotDuplicated { source, .. }) => {
                assert_eq!(source.raw_os_error(), EMFILE);
            }
            other => panic!("{other:?}"),
        }
        // Waits look again and again instead.
        let short = deadline(Duration::from_millis(3));
        assert_eq!(unit.wait(1, short), Waited::TimedOut);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| unit.wait(1, None));
            unit.complete(1);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
    });
    let leases: Vec<_> = (0..40).map(|_| unit.pool.take().unwrap()).collect();
    drop(leases);
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (16, 0));
    drop((unit, event));
    assert_eq!(open_descriptors(), before, "the pool closes what it kept");
}
