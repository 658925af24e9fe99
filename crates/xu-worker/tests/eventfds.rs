//! Real eventfds: counters at their maximum, descriptors that are none, and what a child process inherits.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::Unit;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use xu_worker::Health;
use xu_worker::completion_pool::CompletionPool;
use xu_worker::eventfd::{
    AppEvent, CompletionEvent, CompletionFd, NotAnEventFd, NotDelivered, SignalError, StopLatch,
    WorkCount, calls, calls_here, fail_call,
};
use xu_worker::events::Registered;
use xu_worker::waits::Waited;

const MAX: u64 = u64::MAX - 1;

fn application_fd(flags: EfdFlags) -> EventFd {
    EventFd::from_value_and_flags(0, flags | EfdFlags::EFD_CLOEXEC).unwrap()
}

#[test]
fn w1_a_full_work_count_says_so() {
    let count = WorkCount::new().unwrap();
    count.preload(MAX).unwrap();
    assert!(matches!(count.add(), Err(SignalError::Saturated)));
    count.take().unwrap();
    count.add().unwrap();
}

#[test]
fn w1_a_count_may_start_high() {
    let count = WorkCount::starting_at(u32::MAX).unwrap();
    count.preload(MAX - u64::from(u32::MAX) - 1).unwrap();
    count.add().unwrap();
    assert!(matches!(count.add(), Err(SignalError::Saturated)));
}

#[test]
fn w4_interrupted_calls_are_repeated() {
    let count = WorkCount::new().unwrap();
    let fd = CompletionFd::new().unwrap();
    let before = calls_here();
    fail_call(1, Errno::EINTR as i32);
    count.add().unwrap();
    fail_call(1, Errno::EINTR as i32);
    count.take().unwrap();
    fail_call(1, Errno::EINTR as i32);
    assert!(!fd.wait(Some(Instant::now())).unwrap());
    let after = calls_here();
    assert_eq!(after.writes - before.writes, 2);
    assert_eq!(after.reads - before.reads, 2);
    assert_eq!(after.polls - before.polls, 2);
    assert!(calls().writes >= after.writes);
    assert_eq!(count.take().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn w4_other_failures_are_not_repeated() {
    let count = WorkCount::new().unwrap();
    fail_call(2, Errno::EIO as i32);
    count.add().unwrap();
    let error = count.add().unwrap_err();
    assert!(matches!(error, SignalError::Os(source) if source.raw_os_error() == Some(5)));
    count.add().unwrap();
    assert_eq!(count.take_all().unwrap(), 2);
}

#[test]
fn w2_a_full_application_fd_loses_the_notification() {
    // The second one would stop whoever writes to it.
    for flags in [EfdFlags::EFD_NONBLOCK, EfdFlags::empty()] {
        let fd = application_fd(flags);
        let status = fcntl(&fd, FcntlArg::F_GETFL).unwrap();
        let event = AppEvent::new(&fd).unwrap();
        fd.write(MAX).unwrap();
        assert!(matches!(event.notify(), Err(NotDelivered::Full)));
        assert_eq!(fd.read().unwrap(), MAX);
        event.notify().unwrap();
        assert_eq!(fd.read().unwrap(), 1);
        assert_eq!(fcntl(&fd, FcntlArg::F_GETFL).unwrap(), status);
    }
}

#[test]
fn w2_lost_notifications_are_counted() {
    for flags in [EfdFlags::EFD_NONBLOCK, EfdFlags::empty()] {
        let unit = Unit::new(3);
        let fd = application_fd(flags);
        fd.write(MAX).unwrap();
        for number in 1..=3 {
            let event = AppEvent::new(&fd).unwrap();
            assert_eq!(unit.register_fd(number, event), Registered::Armed);
            unit.complete(number);
        }
        assert_eq!(unit.real.lost_notifications(), 3);
        let event = AppEvent::new(&fd).unwrap();
        assert_eq!(unit.register_fd(3, event), Registered::Signalled);
        assert_eq!(unit.real.lost_notifications(), 4);
        assert_eq!(unit.real.health(), Health::Healthy);
    }
}

#[test]
fn w2_a_broken_application_fd_loses_the_notification() {
    let event = CompletionEvent::new().unwrap();
    let written = event.app_event().unwrap();
    // The look, and then the write.
    for call in 1..=2 {
        fail_call(call, Errno::EBADF as i32);
        assert!(matches!(written.notify(), Err(NotDelivered::Broken(_))));
    }
    assert_eq!(event.drain().unwrap(), 0);
}

#[test]
fn w2_files_and_pipes_are_refused() {
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    let (reader, writer) = io::pipe().unwrap();
    for (fd, like) in [(file.as_fd(), "/"), (writer.as_fd(), "pipe:[")] {
        match AppEvent::new(fd) {
            Err(NotAnEventFd::SomethingElse { number, found }) => {
                assert_eq!(number, fd.as_raw_fd());
                assert!(found.starts_with(like), "{found}");
            }
            other => panic!("{other:?}"),
        }
    }
    drop(writer);
    let mut written = Vec::new();
    (&reader).read_to_end(&mut written).unwrap();
    assert!(written.is_empty());
}

#[test]
fn w3_a_reused_number_is_not_written() {
    let fd: OwnedFd = application_fd(EfdFlags::EFD_NONBLOCK).into();
    let kept = fd.try_clone().unwrap();
    let event = AppEvent::new(&fd).unwrap();
    // Another eventfd takes the number's place, at once and for sure.
    let other = application_fd(EfdFlags::EFD_NONBLOCK);
    let mut number = fd;
    nix::unistd::dup3(&other, &mut number, nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    event.notify().unwrap();
    assert_eq!(other.read(), Err(Errno::EAGAIN));
    let mut count = [0; 8];
    nix::unistd::read(&kept, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
}

#[test]
fn p1_nothing_is_inherited_by_a_program() {
    let pool = Arc::new(CompletionPool::new());
    let completion = pool.take().unwrap();
    let (work, stop) = (WorkCount::new().unwrap(), StopLatch::new().unwrap());
    let event = CompletionEvent::new().unwrap();
    let app = event.app_event().unwrap();
    let ours = [
        work.number(),
        stop.number(),
        completion.number(),
        event.as_fd().as_raw_fd(),
        app.number(),
    ];
    let listed = Command::new("sh")
        .args(["-c", "ls -l /proc/self/fd"])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(" -> "), "{listed}");
    for number in ours {
        let ours = format!(" {number} -> anon_inode:[eventfd]");
        assert!(!listed.contains(&ours), "{listed}");
    }
}

/// A log that uses what it is told about, and then panics.
struct Foreign {
    unit: Arc<Unit>,
    told: Arc<AtomicUsize>,
}

impl Subscriber for Foreign {
    /// What a completion says of itself is of no interest here.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.told.fetch_add(1, Ordering::Relaxed);
        // Would wait for ever if a lock was held.
        assert!(!self.unit.deregister(11));
        assert_eq!(self.unit.wait(11, Some(Instant::now())), Waited::TimedOut);
        panic!("a log that panics, on purpose");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn w2_the_log_is_told_without_a_lock_and_not_each_time() {
    let unit = Unit::new(11);
    let told = Arc::new(AtomicUsize::new(0));
    let log = Foreign {
        unit: Arc::clone(&unit),
        told: Arc::clone(&told),
    };
    let fd = application_fd(EfdFlags::EFD_NONBLOCK);
    fd.write(MAX).unwrap();
    unit.real
        .register_unit_event(AppEvent::new(&fd).unwrap())
        .unwrap();
    tracing::subscriber::with_default(log, || {
        (1..=10).for_each(|number| unit.complete(number));
    });
    assert_eq!(unit.real.lost_notifications(), 10);
    assert_eq!(told.load(Ordering::Relaxed), 4, "losses 1, 2, 4 and 8");
}
