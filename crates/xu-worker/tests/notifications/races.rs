//! Two threads meet: on units that worker threads serve, and on one that is given up.

use super::*;

const ROUNDS: u64 = 20_000;

/// After a deregistration that has returned the count is final, whether the worker came first or not.
#[test]
fn f8_deregistering_against_a_worker_is_a_barrier() {
    let core = Core::new(1, &Plan::new(8, POLICIES[2]));
    let (unit, event) = (&core.units[0], event());
    let signals = Signals::expected();
    for id in 0..ROUNDS {
        signals.assert_came();
        let gate = Gate::default();
        let seq = unit.post(Work::held(id, &gate)).unwrap();
        let armed = unit.register_event(seq, app_event(&event)).unwrap();
        assert_eq!(armed, Registered::Armed);
        gate.open();
        // From never to always: the worker takes about as long as the first of these.
        (0..id % 64).for_each(|_| core::hint::spin_loop());
        let removed = unit.deregister_event(seq).unwrap();
        assert_eq!(taken(&event), u64::from(!removed), "request {id}");
        assert_eq!(unit.wait(seq, patience()), Ok(Waited::Completed));
        assert_eq!(taken(&event), 0, "written after it was taken out");
    }
    close(&core);
    assert_eq!(taken(&event), 0);
    assert_eq!(unit.lost_notifications(), 0);
}

/// Whoever of the two comes first: one count.
#[test]
fn f8_registering_against_a_worker_counts_once() {
    let core = Core::new(1, &Plan::new(8, POLICIES[1]));
    let (unit, event) = (&core.units[0], event());
    for id in 0..ROUNDS {
        let seq = unit.post(Work::short(id)).unwrap();
        (0..id % 64).for_each(|_| core::hint::spin_loop());
        unit.register_event(seq, app_event(&event)).unwrap();
        until("it is told", || taken(&event) == 1);
    }
    close(&core);
    assert_eq!(taken(&event), 0, "told twice");
}

/// Two threads replace a unit's event all the time. Nothing is counted twice, and the last one is told.
#[test]
fn f8_replacing_a_units_event_against_a_worker() {
    let core = Core::new(1, &Plan::new(8, POLICIES[1]));
    let (unit, event) = (&core.units[0], event());
    let (over, counted) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    unit.register_unit_event(app_event(&event)).unwrap();
                    counted.fetch_add(taken(&event), Ordering::Relaxed);
                }
            });
        }
        for id in 0..2_000 {
            core.run(0, Work::short(id)).unwrap();
        }
        over.store(true, Ordering::Release);
    });
    unit.register_unit_event(app_event(&event)).unwrap();
    let counted = counted.into_inner() + taken(&event);
    assert!(counted <= 2_000, "{counted}");
    core.run(0, Work::short(0)).unwrap();
    until("it is told", || taken(&event) == 1);
    close(&core);
}

/// Waiters and registrations of several threads, on a unit that is given up meanwhile: everybody is told, once.
#[test]
fn w7_giving_up_against_waits_and_registrations() {
    for _ in 0..300 {
        let unit = Unit::new(8);
        let events = [(); 8].map(|()| event());
        let start = Barrier::new(3);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                (1..=8).for_each(|number| {
                    assert_eq!(unit.wait(number, patience()), Waited::Completed);
                });
            });
            scope.spawn(|| {
                start.wait();
                for (number, event) in (1..).zip(&events) {
                    unit.register(number, event);
                }
            });
            start.wait();
            unit.complete(1);
            unit.give_up();
        });
        assert_eq!(events.each_ref().map(taken), [1; 8]);
        assert_eq!(unit.pool.in_use(), 0);
    }
}

#[test]
fn w7_a_worker_that_is_closed_has_told_everybody() {
    for policy in POLICIES {
        let core = Core::new(1, &Plan::new(8, policy));
        let (unit, event) = (&core.units[0], event());
        let seqs: Vec<_> = (0..8)
            .map(|id| unit.post(Work::short(id)).unwrap())
            .collect();
        for seq in &seqs {
            unit.register_event(*seq, app_event(&event)).unwrap();
        }
        close(&core);
        assert_eq!(taken(&event), 8);
        let last = seqs[7];
        let unit = Arc::clone(unit);
        let waited = within_patience("a wait", move || unit.wait(last, None));
        assert_eq!(waited, Ok(Waited::Completed));
    }
}
