//! Forks for real: owners are not here in children, and children do their parent no harm.
//!
//! A program without a test harness, so that it has one thread.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[cfg(any(loom, miri))]
fn main() {}

/// Runs what the arguments name, all without a name, and lists them for who asks as a test runner does.
#[cfg(not(any(loom, miri)))]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let lists = args.iter().any(|arg| arg == "--list");
    let ignored = args.iter().any(|arg| arg == "--ignored");
    let named: Vec<_> = args.iter().filter(|arg| arg.starts_with("p1_")).collect();
    let chosen = TESTS
        .iter()
        .filter(|(name, _)| !ignored && (named.is_empty() || named.iter().any(|arg| arg == name)));
    for (name, test) in chosen {
        if lists {
            println!("{name}: test");
        } else {
            test();
            println!("test {name} ... ok");
        }
    }
}

#[cfg(not(any(loom, miri)))]
const TESTS: &[(&str, fn())] = &[
    // The first, since it wants a process that has asked for nothing yet.
    (
        "p1_a_page_made_after_the_fork",
        tests::p1_a_page_made_after_the_fork,
    ),
    (
        "p1_owners_are_not_here_in_descendants",
        tests::p1_owners_are_not_here_in_descendants,
    ),
    (
        "p1_a_child_lends_nothing_back",
        tests::p1_a_child_lends_nothing_back,
    ),
    (
        "p1_a_running_lane_is_fenced_in_a_child",
        tests::p1_a_running_lane_is_fenced_in_a_child,
    ),
    (
        "p1_a_child_cannot_work_for_its_parent",
        tests::p1_a_child_cannot_work_for_its_parent,
    ),
    (
        "p1_a_waker_that_forks_leaves_the_worker_to_the_parent",
        tests::p1_a_waker_that_forks_leaves_the_worker_to_the_parent,
    ),
];

#[cfg(not(any(loom, miri)))]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, Pid, fork};
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
    use std::task::{Context, Wake, Waker};
    use std::time::{Duration, Instant};
    use xu_abi::{SeqId, Status, XuId, XuType};
    use xu_worker::completion_pool::CompletionPool;
    use xu_worker::eventfd::CompletionEvent;
    use xu_worker::events::Events;
    use xu_worker::fork::Owner;
    use xu_worker::{
        Accepted, AskError, Cause, CloseError, CloseOptions, Closing, Engine, Lost, PollPolicy,
        Progress, Refusal, Runner, Stage, StageError, Step, Unit, UnitOptions, UnitRunner,
        WorkerError, WorkerThread, Workers,
    };

    /// Whether `test` is true in a child of this process.
    fn in_child(test: impl FnOnce() -> bool) -> bool {
        // SAFETY: no other thread runs but, in one test, a lane's worker. The child uses nothing that it could have locked: it
        //   makes only the calls that are fenced, which look before they lock, and ends with `_exit`.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let code = i32::from(!test());
                // SAFETY: ends the process without running what the parent has registered for its own end.
                unsafe { nix::libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                waitpid(child, None).unwrap() == WaitStatus::Exited(child, 0)
            }
        }
    }

    /// Before this process has asked for its first owner.
    pub(super) fn p1_a_page_made_after_the_fork() {
        assert!(in_child(|| {
            let child = Owner::here();
            child.is_here() && in_child(|| !child.is_here() && Owner::here().is_here())
        }));
        assert!(Owner::here().is_here());
    }

    pub(super) fn p1_owners_are_not_here_in_descendants() {
        let parent = Owner::here();
        // A child that asks for an owner of its own, and one that does not.
        for asks in [true, false] {
            assert!(in_child(|| {
                if parent.is_here() {
                    return false;
                }
                let child = asks.then(Owner::here);
                if !child.is_none_or(Owner::is_here) || parent.is_here() {
                    return false;
                }
                in_child(|| {
                    let strangers = |owner: Owner| !owner.is_here();
                    let before = strangers(parent) && child.is_none_or(strangers);
                    let grandchild = Owner::here();
                    before
                        && grandchild.is_here()
                        && strangers(parent)
                        && child.is_none_or(strangers)
                })
            }));
            assert!(parent.is_here());
        }
    }

    pub(super) fn p1_a_child_lends_nothing_back() {
        let pool = Arc::new(CompletionPool::new());
        let lease = pool.take().unwrap();
        lease.signal().unwrap();
        let event = CompletionEvent::new().unwrap();
        let written = event.app_event().unwrap();
        written.notify().unwrap();
        let events = Events::new();
        events.register_unit(written, || SeqId::from_raw(0));
        let (mut lease, mut events, mut pool) = (Some(lease), Some(events), Some(pool));
        assert!(in_child(|| {
            drop(lease.take());
            drop(events.take());
            drop(pool.take());
            true
        }));
        // The signals are still there.
        assert!(lease.as_ref().unwrap().wait(Some(Instant::now())).unwrap());
        assert_eq!(event.drain().unwrap(), 1);
        drop(lease);
        assert_eq!(pool.as_ref().unwrap().idle(), 1);
    }

    /// Completes requests at once, but for those of number 0, which wait until it is open.
    struct Gated(Arc<AtomicBool>);

    impl Stage for Gated {
        type Item = u32;
        type Outcome = u32;

        fn prepare(&mut self, _: &mut u32) -> Result<(), StageError> {
            Ok(())
        }

        fn commit(&mut self, _: &mut u32) -> Result<(), StageError> {
            Ok(())
        }
    }

    impl Engine for Gated {
        type Item = u32;
        type Outcome = u32;

        fn begin(&mut self, _: &mut u32) {}

        fn progress(&mut self, item: &mut u32) -> Progress {
            if *item == 0 && !self.0.load(Ordering::SeqCst) {
                Progress::Continue
            } else {
                Progress::Done(Status::SUCCESS)
            }
        }

        fn quiesce(&mut self) -> Result<(), Cause> {
            Ok(())
        }

        fn finish(&mut self, item: u32, _: Status) -> u32 {
            item
        }
    }

    /// What a child finds of a lane: every call is refused at once, and every handle can be dropped.
    fn is_fenced(unit: Unit<Gated>, workers: Workers, hanging: Accepted<u32>) -> bool {
        let began = Instant::now();
        let refused = matches!(
            unit.submit(1).map_err(|refused| refused.reason),
            Err(Refusal::Forked { .. })
        );
        let batch = unit.post_batch([1, 2]).is_err();
        let place = matches!(unit.try_reserve(), Err(Refusal::Forked { .. }))
            && matches!(unit.reserve_until(None), Err(Refusal::Forked { .. }))
            && unit.batch().submit(1).is_err();
        let lost = hanging.completion.wait() == Err(Lost::Forked);
        let xu = unit.xu();
        let forked = AskError::Forked { xu };
        let asked = unit.wait(hanging.seq, None) == Err(forked)
            && unit.deregister_event(hanging.seq) == Err(forked)
            && unit.deregister_unit_event() == Err(forked)
            && unit.schedule_stop().is_err()
            && unit.drain_until(began).is_err()
            && unit.cause().is_none();
        unit.drain();
        unit.close();
        let room = unit.wait_room(None);
        let closed = workers
            .close(&[&unit as &dyn Closing], &CloseOptions::default())
            .is_err_and(|error| error == CloseError::Forked);
        drop((unit, workers));
        refused
            && batch
            && place
            && lost
            && asked
            && room
            && closed
            && began.elapsed() < Duration::from_secs(1)
    }

    pub(super) fn p1_a_running_lane_is_fenced_in_a_child() {
        for policy in [PollPolicy::Reference, PollPolicy::Adaptive] {
            let open = Arc::new(AtomicBool::new(false));
            let gated = || Gated(Arc::clone(&open));
            let xu = XuId::new(XuType::Compute, 0, 0).unwrap();
            let options = UnitOptions {
                policy,
                ..UnitOptions::default()
            };
            let (unit, runner) = Unit::new(xu, &options, gated(), gated()).unwrap();
            let worker = WorkerThread::spawn("forked", vec![Box::new(runner)]).unwrap();
            assert_eq!(unit.submit(7).unwrap().completion.wait(), Ok(7));
            let hanging = unit.submit(0).unwrap();
            let mut lane = Some((unit, Workers::new(vec![worker]), hanging));
            for _ in 0..10 {
                assert!(in_child(|| match lane.take() {
                    Some((unit, workers, hanging)) => is_fenced(unit, workers, hanging),
                    None => false,
                }));
            }
            // The parent's lane has noticed nothing.
            let (unit, workers, hanging) = lane.take().unwrap();
            open.store(true, Ordering::SeqCst);
            assert_eq!(hanging.completion.wait(), Ok(0));
            assert_eq!(unit.submit(8).unwrap().completion.wait(), Ok(8));
            let closed = workers.close(&[&unit as &dyn Closing], &CloseOptions::default());
            assert!(closed.unwrap().not_at_rest.is_empty());
        }
    }

    /// A unit whose requests end at once.
    fn open_unit() -> (Unit<Gated>, UnitRunner<Gated>) {
        let open = Arc::new(AtomicBool::new(true));
        let gated = || Gated(Arc::clone(&open));
        let xu = XuId::new(XuType::Compute, 0, 0).unwrap();
        Unit::new(xu, &UnitOptions::default(), gated(), gated()).unwrap()
    }

    pub(super) fn p1_a_child_cannot_work_for_its_parent() {
        let (unit, runner) = open_unit();
        let waiting = unit.submit(1).unwrap();
        let mut runner = Some(runner);
        assert!(in_child(|| {
            let Some(mut runner) = runner.take() else {
                return false;
            };
            let idle = runner.step() == Step::Idle && !runner.has_work();
            runner.answer_bell();
            let refused = WorkerThread::spawn("child", vec![Box::new(runner)]);
            idle && matches!(refused, Err(WorkerError::Forked))
        }));
        let runner = runner.take().unwrap();
        let worker = WorkerThread::spawn("parent", vec![Box::new(runner)]).unwrap();
        assert_eq!(waiting.completion.wait(), Ok(1));
        drop(worker.stop());
    }

    /// Forks on the worker's thread when it is woken; the child returns to the worker.
    struct Forks(AtomicI32);

    impl Wake for Forks {
        fn wake(self: Arc<Self>) {
            // SAFETY: the child goes on in code that is fenced, and ends with its only thread.
            if let ForkResult::Parent { child } = unsafe { fork() }.unwrap() {
                self.0.store(child.as_raw(), Ordering::SeqCst);
            }
        }
    }

    pub(super) fn p1_a_waker_that_forks_leaves_the_worker_to_the_parent() {
        let open = Arc::new(AtomicBool::new(false));
        let gated = || Gated(Arc::clone(&open));
        let xu = XuId::new(XuType::Compute, 0, 0).unwrap();
        let (unit, runner) = Unit::new(xu, &UnitOptions::default(), gated(), gated()).unwrap();
        let event = CompletionEvent::new().unwrap();
        unit.register_unit_event(event.app_event().unwrap())
            .unwrap();
        let worker = WorkerThread::spawn("forking", vec![Box::new(runner)]).unwrap();
        let forks = Arc::new(Forks(AtomicI32::new(0)));
        let waker = Waker::from(Arc::clone(&forks));
        let mut first = unit.submit(0).unwrap().completion;
        assert!(
            Pin::new(&mut first)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        open.store(true, Ordering::SeqCst);
        assert_eq!(first.wait(), Ok(0));
        // The child must not take what is the parent's.
        for id in 1..=1_000 {
            assert_eq!(unit.submit(id).unwrap().completion.wait(), Ok(id));
        }
        let child = Pid::from_raw(forks.0.load(Ordering::SeqCst));
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
        drop(worker.stop());
        assert_eq!(event.drain().unwrap(), 1_001);
    }
}
