//! A process that forks while a runtime of its computes, over the driver's interface. Failure kind P1.
//!
//! A child may exec, end, or be killed, and the parent notices nothing. A child that uses the runtime is refused at once, and so is
//! one that opens its own while it has that one; when its parent had none open, it has a runtime as anybody. `fork` tests what a child
//! can do with handles.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::life::Means;
use lane_tests::role;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use nrta::{Backend, Builder, Error, Runtime};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const ROLE: &str = "LANE_TESTS_FORKED";
const ROUNDS: u32 = 8;

fn builder() -> Builder {
    Runtime::builder().backend(Backend::RealDriver)
}

/// Forks, and has the child end with whether it did as expected.
fn fork_and(child_does: impl FnOnce() -> bool) -> Pid {
    // SAFETY: the child allocates, which the C library permits, takes no lock that a thread of the parent may have but those that
    // this test is about, and ends with `_exit`.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let did = child_does();
            // SAFETY: ends the process without running what the parent has registered for its own end.
            unsafe { libc::_exit(i32::from(!did)) }
        }
        ForkResult::Parent { child } => child,
    }
}

fn ends_well(child: Pid, what: &str) {
    assert_eq!(
        waitpid(child, None),
        Ok(WaitStatus::Exited(child, 0)),
        "{what}"
    );
}

/// In the child: whether the runtime of the parent is refused.
fn is_refused(runtime: &Runtime, means: &Means) -> bool {
    let Ok(core) = runtime.core(0) else {
        return false;
    };
    matches!(core.allocate(64), Err(Error::Forked)) && means.compute(runtime).is_err()
}

/// In the child: whether it can open none of its own, as long as it has the one of the parent.
fn opens_none() -> bool {
    matches!(builder().first_core(0).open(), Err(Error::Forked))
}

/// Not a test: what the program does. Without the role nothing.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let means = Means::read();
    let expected = means.expected();
    let runtime = builder().cores(1).first_core(0).open().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Executions are in flight all the while.
        let busy = scope.spawn(|| {
            let mut lives = 0_u32;
            while !done.load(Ordering::Relaxed) {
                assert_eq!(means.compute(&runtime).as_ref(), Ok(&expected));
                lives += 1;
            }
            lives
        });
        // And so are opens and closes.
        let opens = scope.spawn(|| {
            let mut opened = 0_u32;
            while !done.load(Ordering::Relaxed) {
                builder().cores(1).first_core(1).open().unwrap().close();
                opened += 1;
            }
            opened
        });
        for round in 0..ROUNDS {
            let child = fork_and(|| {
                let _failed = Command::new("true").exec();
                false
            });
            ends_well(child, &format!("exec, round {round}"));
            let child = fork_and(|| true);
            ends_well(child, &format!("exit, round {round}"));
            let child = fork_and(|| is_refused(&runtime, &means));
            ends_well(child, &format!("uses it, round {round}"));
            let child = fork_and(opens_none);
            ends_well(child, &format!("opens the same core, round {round}"));
            let child = fork_and(|| {
                loop {
                    nix::unistd::pause();
                }
            });
            kill(child, Signal::SIGKILL).unwrap();
            let killed = WaitStatus::Signaled(child, Signal::SIGKILL, false);
            assert_eq!(waitpid(child, None), Ok(killed), "round {round}");
        }
        done.store(true, Ordering::Relaxed);
        let (lives, opened) = (busy.join().unwrap(), opens.join().unwrap());
        println!("\n> {lives} lives, {opened} opens");
    });
    assert_eq!(means.compute(&runtime).as_ref(), Ok(&expected));
    runtime.close();
    let child = fork_and(|| means.live(builder().first_core(0)).as_ref() == Ok(&expected));
    ends_well(child, "opens its own");
    assert_eq!(means.live(builder()), Ok(expected));
}

#[test]
fn p1_a_process_that_forks_while_it_computes_goes_on() {
    if let Some(said) = role::play(ROLE, "1") {
        println!("{said}");
    }
}
