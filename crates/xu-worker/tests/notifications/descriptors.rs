//! The descriptors of waits and events: as many as there are waiters, and none that stays.

use super::*;

/// Set in the process that has one of these tests for itself.
const ALONE: &str = "XU_WORKER_TEST_ALONE";

/// Runs a test in a process of its own, where nothing else opens descriptors.
fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", name, "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test"), "{text}");
    assert!(output.status.success(), "{text}");
}

fn open_descriptors() -> usize {
    read_dir("/proc/self/fd").unwrap().count()
}

/// `waiters` wait for as many sequences, and all of them are told.
fn crowd(unit: &Arc<Unit>, waiters: u64, while_they_wait: impl FnOnce()) {
    let first = unit.last_completed() + 1;
    thread::scope(|scope| {
        let numbers = first..first + waiters;
        let all: Vec<_> = numbers
            .clone()
            .map(|number| {
                unit.accept();
                scope.spawn(move || unit.wait(number, patience()))
            })
            .collect();
        until("all wait", || unit.pool.in_use() as u64 == waiters);
        while_they_wait();
        numbers.for_each(|number| unit.complete(number));
        for waiter in all {
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        }
    });
}

/// A unit that has room for so many, and nothing to do.
fn idle(room: u64) -> Arc<Unit> {
    let unit = Unit::new(room);
    (1..=room).for_each(|number| unit.complete(number));
    unit
}

#[test]
fn w3_the_seventeenth_waiter_has_a_descriptor_for_once() {
    alone(
        "descriptors::w3_the_seventeenth_waiter_has_a_descriptor_for_once",
        || {
            let unit = idle(20);
            let before = open_descriptors();
            for _ in 0..3 {
                crowd(&unit, 17, || assert_eq!(open_descriptors(), before + 17));
                assert_eq!(unit.pool.idle(), POOLED_PER_CORE);
                assert_eq!(open_descriptors(), before + POOLED_PER_CORE);
            }
            crowd(&unit, 16, || {
                assert_eq!(open_descriptors(), before + POOLED_PER_CORE);
            });
            assert_eq!(unit.pool.idle(), POOLED_PER_CORE);
        },
    );
}

#[test]
fn w3_waits_and_events_leak_no_descriptor() {
    alone(
        "descriptors::w3_waits_and_events_leak_no_descriptor",
        || {
            let before = open_descriptors();
            for _ in 0..20 {
                let unit = idle(20);
                let event = event();
                crowd(&unit, 20, || register_and_forget(&unit, &event));
                unit.accept();
                unit.wait(
                    unit.last_completed() + 1,
                    deadline(Duration::from_millis(1)),
                );
                unit.register(unit.last_completed() + 1, &event);
                unit.give_up();
                drop(unit);
            }
            assert_eq!(open_descriptors(), before);
        },
    );
}

/// Registers in every way there is, while twenty requests are queued.
fn register_and_forget(unit: &Unit, event: &CompletionEvent) {
    let head = unit.last_completed() + 1;
    unit.register_unit(event);
    unit.register_unit(event);
    for number in head..head + 20 {
        unit.register(number, event);
        unit.register(number, event);
    }
    assert!(unit.deregister(head));
    assert_eq!(unit.register(1, event), Registered::Signalled);
}
