//! One physical core: semaphores, DMA queues, notification queues, and whether it runs.
//!
//! Clients reach it through the machine, the core's sequencer from the other side.
//! Nothing here spins: in real time the sequencer's thread sleeps until a doorbell, until a moment has come, or, when
//! nothing in the core can go on, until a semaphore is raised, a rendezvous is complete or the machine is dropped.
//! Whatever the sequencer looks at before it sleeps is changed under the lock of `state`, which also says that there is
//! something to look at again: no wake-up is lost.
//!
//! ```text
//!            doorbell                       nothing can go on
//!   Idle ---------------> Running ------------------------------> Hung
//!    ^--------------------- | ^------------------------------------ |
//!         execution ended      there is something to look at again
//! ```

use super::dma::Queue;
use super::injector::Doorbell;
use super::notification::NotificationQueues;
use super::semaphores::Semaphores;
use crate::device::{DeviceError, MemoryErrors};
use crate::map;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};
use xu_abi::{SemIndex, TpbIndex};

/// The longest that a running core is given to come to rest.
const QUIESCE_LIMIT: Duration = Duration::from_secs(60);

/// A core.
#[derive(Debug)]
pub(super) struct Tpb {
    /// Which one.
    pub(super) index: TpbIndex,
    /// By index: see [`map::DMA_QUEUES`].
    pub(super) dma: [Mutex<Queue>; map::DMA_QUEUES as usize],
    /// By index: see [`map::NOTIFICATION_QUEUES`].
    pub(super) notifications: Mutex<NotificationQueues>,
    /// What earlier executions have loaded.
    pub(super) loaded: Mutex<Loaded>,
    /// How often the request queue has been opened. Relaxed: changed under that queue's lock, and read either under it
    /// or after a rendezvous, whose lock the opening takes later.
    openings: AtomicU64,
    state: Mutex<State>,
    /// There is something to look at, or the core is to stop.
    raised: Condvar,
    /// The core went from running to something else, or is lost.
    rested: Condvar,
    /// Set under the lock of `state`, so that nobody goes to sleep after it. Relaxed where it is polled:
    /// nothing else is read because of it.
    stopping: AtomicBool,
    /// The core is to drop what it does. As `stopping`.
    resetting: AtomicBool,
    /// Records wait for room, and the core with them. Relaxed: changed under the lock of `notifications`, and followed
    /// by news when it falls.
    backed_up: AtomicBool,
}

/// What an execution may ask the sequencer to keep instead of loading it again.
///
/// Forgotten when the model-exec queue is opened: a new client starts from nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The sequencer's configuration.
    pub(super) config: bool,
    /// The tables of ACT and DVE.
    pub(super) tables: bool,
}

#[derive(Debug)]
struct State {
    semaphores: Semaphores,
    activity: Activity,
    /// Something has changed since the sequencer last looked.
    news: bool,
    memory_errors: MemoryErrors,
    /// The core will never answer again.
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Idle,
    Running,
    Hung,
}

impl Tpb {
    pub(super) fn new(index: TpbIndex) -> Self {
        Self {
            index,
            dma: Default::default(),
            notifications: Mutex::default(),
            loaded: Mutex::default(),
            openings: AtomicU64::new(0),
            state: Mutex::new(State {
                semaphores: Semaphores::new(),
                activity: Activity::Idle,
                news: false,
                memory_errors: MemoryErrors::default(),
                lost: false,
            }),
            raised: Condvar::new(),
            rested: Condvar::new(),
            stopping: AtomicBool::new(false),
            resetting: AtomicBool::new(false),
            backed_up: AtomicBool::new(false),
        }
    }

    /// Adds one to a semaphore, by an engine of this core: its sequencer is awake, and looks again by itself.
    pub(super) fn signal(&self, index: SemIndex) {
        let mut state = self.state.lock();
        let value = state.semaphores.value_mut(index);
        *value = value.saturating_add(1);
    }

    /// Adds to a semaphore, from outside. Saturates at both ends.
    pub(super) fn add(&self, index: SemIndex, value: i32) -> Result<(), DeviceError> {
        self.change(index, |now| now.saturating_add(value))
    }

    /// Sets a semaphore, from outside.
    pub(super) fn set(&self, index: SemIndex, value: i32) -> Result<(), DeviceError> {
        self.change(index, |_| value)
    }

    fn change(&self, index: SemIndex, change: impl FnOnce(i32) -> i32) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        if state.lost {
            return Err(DeviceError::Lost);
        }
        state.semaphores.change(index, change);
        self.announce(&mut state);
        Ok(())
    }

    /// Rings the start semaphore by adding `value`, at least 1, unless `verdict` on this doorbell's number says
    /// otherwise. What is added beyond 1 rings without a verdict.
    pub(super) fn ring(
        &self,
        value: i32,
        verdict: impl FnOnce(u64) -> Doorbell,
    ) -> Result<Doorbell, DeviceError> {
        let mut state = self.state.lock();
        if state.lost {
            return Err(DeviceError::Lost);
        }
        let verdict = state.semaphores.ring(value, verdict);
        if verdict == Doorbell::Rings {
            self.announce(&mut state);
        }
        Ok(verdict)
    }

    /// Has the sequencer look again at what it waits for.
    pub(super) fn nudge(&self) {
        self.announce(&mut self.state.lock());
    }

    fn announce(&self, state: &mut State) {
        state.news = true;
        self.raised.notify_one();
    }

    /// The value of a semaphore.
    pub(super) fn value(&self, index: SemIndex) -> Result<i32, DeviceError> {
        let state = self.state.lock();
        if state.lost {
            return Err(DeviceError::Lost);
        }
        Ok(state.semaphores.value(index))
    }

    /// Takes one from a semaphore; `false` when there is none to take.
    pub(super) fn take(&self, index: SemIndex) -> bool {
        self.state.lock().semaphores.take(index)
    }

    /// Sets every semaphore that programs may use to zero.
    pub(super) fn clear_program_semaphores(&self) {
        self.state.lock().semaphores.clear_those_of_programs();
    }

    /// Consumes a doorbell, if one has rung: which one.
    pub(super) fn take_doorbell(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let number = state.semaphores.take_doorbell()?;
        state.activity = Activity::Running;
        Some(number)
    }

    /// Whether one of the `awaited` semaphores is above zero.
    pub(super) fn any_raised(&self, mut awaited: impl Iterator<Item = SemIndex>) -> bool {
        let state = self.state.lock();
        awaited.any(|index| state.semaphores.value(index) > 0)
    }

    /// Counts a collectives barrier that the core has passed.
    pub(super) fn pass_barrier(&self) {
        let mut state = self.state.lock();
        let passed = state.semaphores.value_mut(map::COLLECTIVES_BARRIER);
        *passed = passed.wrapping_add(1);
    }

    /// How often the request queue has been opened.
    pub(super) fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// Forgets what was loaded and which barriers were passed: the request queue, whose lock the caller holds, was
    /// opened.
    pub(super) fn forget(&self) {
        self.openings.fetch_add(1, Ordering::Relaxed);
        *self.loaded.lock() = Loaded::default();
        let mut state = self.state.lock();
        *state.semaphores.value_mut(map::COLLECTIVES_BARRIER) = 0;
    }

    /// Takes note that the core runs nothing.
    pub(super) fn rest(&self) {
        self.state.lock().activity = Activity::Idle;
        self.rested.notify_all();
    }

    /// Sleeps until there is something to look at, or until `due`. Without a moment at which it goes on by itself, a
    /// core that is not idle is hung.
    pub(super) fn sleep(&self, due: Option<Instant>) {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.news) && !self.is_stopping() {
            if due.is_none() && state.activity == Activity::Running {
                state.activity = Activity::Hung;
            }
            self.rested.notify_all();
            match due {
                Some(due) => drop(self.raised.wait_until(&mut state, due)),
                None => self.raised.wait(&mut state),
            }
            state.news = false;
            if state.activity == Activity::Hung {
                // It looks again, and whoever asks meanwhile waits for what it finds.
                state.activity = Activity::Running;
            }
        }
    }

    /// Works on the notification queues from outside; if no record waits for room after that, the core goes on.
    pub(super) fn with_notifications<R>(
        &self,
        work: impl FnOnce(&mut NotificationQueues) -> R,
    ) -> R {
        let mut queues = self.notifications.lock();
        let result = work(&mut queues);
        let goes_on = self.is_backed_up() && !queues.has_waiting();
        if goes_on {
            self.backed_up.store(false, Ordering::Relaxed);
        }
        drop(queues);
        if goes_on {
            self.nudge();
        }
        result
    }

    /// Takes note whether records of these queues, which are this core's, wait for room.
    pub(super) fn note_waiting(&self, queues: &NotificationQueues) {
        if queues.has_waiting() {
            self.backed_up.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the core does nothing until a client has returned space. Asked before every step.
    pub(super) fn is_backed_up(&self) -> bool {
        self.backed_up.load(Ordering::Relaxed)
    }

    /// Has the sequencer drop what it does, and waits until it has, if it runs on a thread of its own. All semaphores
    /// are 0 then.
    pub(super) fn reset(&self, threaded: bool) {
        let mut state = self.state.lock();
        self.resetting.store(true, Ordering::Relaxed);
        self.announce(&mut state);
        while threaded && self.is_resetting() && !state.lost && !self.is_stopping() {
            self.rested.wait(&mut state);
        }
    }

    /// Whether what runs is to be dropped. Asked before every step and inside long ones.
    pub(super) fn is_resetting(&self) -> bool {
        self.resetting.load(Ordering::Relaxed)
    }

    /// Takes note that the sequencer has dropped what it did.
    pub(super) fn was_reset(&self) {
        let mut state = self.state.lock();
        state.semaphores.clear();
        state.activity = Activity::Idle;
        self.resetting.store(false, Ordering::Relaxed);
        self.rested.notify_all();
    }

    /// Counts uncorrectable memory errors.
    pub(super) fn count_memory_errors(&self, count: impl FnOnce(&mut MemoryErrors)) {
        count(&mut self.state.lock().memory_errors);
    }

    /// The uncorrectable memory errors so far.
    pub(super) fn memory_errors(&self) -> MemoryErrors {
        self.state.lock().memory_errors
    }

    /// Whether the core is idle and no doorbell is outstanding, without waiting.
    pub(super) fn is_at_rest(&self) -> Result<(), DeviceError> {
        let state = self.state.lock();
        if state.lost {
            return Err(DeviceError::Lost);
        }
        if state.rests() {
            Ok(())
        } else {
            Err(DeviceError::Busy { tpb: self.index })
        }
    }

    /// Waits until the core is idle and no doorbell is outstanding. A hung core is busy at once, a running
    /// one after `limit`, or [`QUIESCE_LIMIT`] if that is shorter.
    pub(super) fn quiesce(&self, limit: Duration) -> Result<(), DeviceError> {
        let deadline = Instant::now() + limit.min(QUIESCE_LIMIT);
        let mut state = self.state.lock();
        loop {
            if state.lost {
                return Err(DeviceError::Lost);
            }
            if state.rests() {
                return Ok(());
            }
            // One that has not looked at its news may yet go on.
            if state.activity == Activity::Hung && !state.news
                || self.rested.wait_until(&mut state, deadline).timed_out()
            {
                return Err(DeviceError::Busy { tpb: self.index });
            }
        }
    }

    /// Tells the sequencer to end.
    pub(super) fn stop(&self) {
        let _state = self.state.lock();
        self.stopping.store(true, Ordering::Relaxed);
        self.raised.notify_all();
        self.rested.notify_all();
    }

    /// Stops the core for good, and says so to whoever asks.
    pub(super) fn lose(&self) {
        let mut state = self.state.lock();
        state.lost = true;
        self.stopping.store(true, Ordering::Relaxed);
        self.raised.notify_all();
        self.rested.notify_all();
    }

    /// Whether the core is to stop. Asked before every instruction.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether what runs need not go on. Asked inside long instructions.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_stopping() || self.is_resetting()
    }

    /// Takes note that the sequencer thread has ended.
    pub(super) fn thread_ended(&self) {
        let mut state = self.state.lock();
        state.lost |= !self.is_stopping();
        state.activity = Activity::Idle;
        self.rested.notify_all();
    }
}

impl State {
    fn rests(&self) -> bool {
        self.activity == Activity::Idle && self.semaphores.value(map::INFERENCE_START) <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphores_saturate() {
        let tpb = Tpb::new(TpbIndex::new(0));
        let index = SemIndex::new(255);
        *tpb.state.lock().semaphores.value_mut(index) = i32::MAX - 1;
        tpb.add(index, 1).unwrap();
        tpb.add(index, 1).unwrap();
        assert_eq!(tpb.value(index), Ok(i32::MAX));
        assert!(!tpb.take(SemIndex::new(254)));
    }

    #[test]
    fn a_thread_that_ends_on_its_own_is_a_lost_core() {
        let tpb = Tpb::new(TpbIndex::new(0));
        tpb.thread_ended();
        assert_eq!(tpb.add(SemIndex::new(0), 1), Err(DeviceError::Lost));
        assert_eq!(tpb.quiesce(QUIESCE_LIMIT), Err(DeviceError::Lost));
    }

    #[test]
    fn an_outstanding_doorbell_is_not_rest() {
        let tpb = Tpb::new(TpbIndex::new(0));
        assert_eq!(tpb.quiesce(QUIESCE_LIMIT), Ok(()));
        let ring = || tpb.ring(1, |_| Doorbell::Rings).unwrap();
        ring();
        assert!(tpb.is_at_rest().is_err());
        assert_eq!(tpb.take_doorbell(), Some(0));
        ring();
        assert_eq!(tpb.state.lock().activity, Activity::Running);
        tpb.rest();
        assert!(tpb.is_at_rest().is_err());
        assert_eq!(tpb.take_doorbell(), Some(1));
        assert_eq!(tpb.take_doorbell(), None);
        tpb.rest();
        assert_eq!(tpb.quiesce(QUIESCE_LIMIT), Ok(()));
    }

    #[test]
    fn doorbells_keep_their_numbers_though_some_are_lost() {
        let tpb = Tpb::new(TpbIndex::new(0));
        for _ in 0..6 {
            let odd_rings = |number| match number % 2 {
                0 => Doorbell::Lost,
                _ => Doorbell::Rings,
            };
            tpb.ring(1, odd_rings).unwrap();
        }
        assert_eq!(
            [(); 4].map(|()| tpb.take_doorbell()),
            [Some(1), Some(3), Some(5), None]
        );
    }

    #[test]
    fn news_that_came_before_the_sleep_are_not_slept_over() {
        let tpb = Tpb::new(TpbIndex::new(0));
        tpb.add(SemIndex::new(20), 1).unwrap();
        tpb.sleep(None);
        assert!(tpb.any_raised([SemIndex::new(20)].into_iter()));
        tpb.stop();
        tpb.sleep(None);
    }
}
