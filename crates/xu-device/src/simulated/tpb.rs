//! One physical core: semaphores, DMA queues, notification queues, and whether it runs.
//!
//! Clients reach it through the machine, the core's sequencer thread from the other side.
//! Nothing here spins: the sequencer sleeps until a doorbell, and a core whose engines all wait for
//! semaphores that nobody raises sleeps until somebody does or the machine is dropped.
//!
//! ```text
//!            doorbell                       all engines stalled
//!   Idle ---------------> Running ------------------------------> Hung
//!    ^--------------------- | ^------------------------------------ |
//!         execution ended      a semaphore was raised from outside
//! ```

use super::dma::Queue;
use super::notification::NotificationQueues;
use crate::device::DeviceError;
use crate::map;
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};
use xu_abi::{SemIndex, TpbIndex};

const SEMAPHORES: usize = 256;
/// How long a running core is given to come to rest.
const QUIESCE_LIMIT: Duration = Duration::from_secs(2);

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
    state: Mutex<State>,
    /// A semaphore was raised, or the core is to stop.
    raised: Condvar,
    /// The core went from running to something else.
    rested: Condvar,
    /// Set under the lock of `state`, so that nobody goes to sleep after it. Relaxed where it is polled:
    /// nothing else is read because of it.
    stopping: AtomicBool,
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
    semaphores: [i32; SEMAPHORES],
    activity: Activity,
    /// The sequencer thread has ended though nobody stopped it.
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
            state: Mutex::new(State {
                semaphores: [0; SEMAPHORES],
                activity: Activity::Idle,
                lost: false,
            }),
            raised: Condvar::new(),
            rested: Condvar::new(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Adds one to a semaphore, from outside or by an engine.
    pub(super) fn increment(&self, index: SemIndex) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        if state.lost {
            return Err(DeviceError::Lost);
        }
        let value = state.semaphore(index);
        *value = value.saturating_add(1);
        self.raised.notify_one();
        Ok(())
    }

    /// The value of a semaphore.
    pub(super) fn value(&self, index: SemIndex) -> Result<i32, DeviceError> {
        let mut state = self.state.lock();
        if state.lost {
            return Err(DeviceError::Lost);
        }
        Ok(*state.semaphore(index))
    }

    /// Takes one from a semaphore; `false` when there is none to take.
    pub(super) fn take(&self, index: SemIndex) -> bool {
        self.state.lock().take(index)
    }

    /// Sets every semaphore that programs may use to zero.
    pub(super) fn clear_program_semaphores(&self) {
        self.state.lock().semaphores[usize::from(map::FIRST_PROGRAM_SEMAPHORE)..].fill(0);
    }

    /// Sleeps until a doorbell has rung, and consumes it; `false` when the core is to stop.
    pub(super) fn await_doorbell(&self) -> bool {
        let mut state = self.state.lock();
        state.activity = Activity::Idle;
        self.rested.notify_all();
        loop {
            if self.is_stopping() {
                return false;
            }
            if state.take(map::INFERENCE_START) {
                state.activity = Activity::Running;
                return true;
            }
            self.raised.wait(&mut state);
        }
    }

    /// Sleeps until one of the `awaited` semaphores is above zero; `false` when the core is to stop.
    pub(super) fn await_any(&self, awaited: impl Iterator<Item = SemIndex> + Clone) -> bool {
        let mut state = self.state.lock();
        while !awaited.clone().any(|index| *state.semaphore(index) > 0) {
            if self.is_stopping() {
                return false;
            }
            state.activity = Activity::Hung;
            self.rested.notify_all();
            self.raised.wait(&mut state);
        }
        state.activity = Activity::Running;
        true
    }

    /// Waits until the core is idle and no doorbell is outstanding. A hung core is busy at once, a running
    /// one after [`QUIESCE_LIMIT`].
    pub(super) fn quiesce(&self) -> Result<(), DeviceError> {
        let deadline = Instant::now() + QUIESCE_LIMIT;
        let mut state = self.state.lock();
        loop {
            if state.lost {
                return Err(DeviceError::Lost);
            }
            let outstanding = *state.semaphore(map::INFERENCE_START) > 0;
            if state.activity == Activity::Idle && !outstanding {
                return Ok(());
            }
            if state.activity == Activity::Hung
                || self.rested.wait_until(&mut state, deadline).timed_out()
            {
                return Err(DeviceError::Busy { tpb: self.index });
            }
        }
    }

    /// Tells the sequencer thread to end.
    pub(super) fn stop(&self) {
        let _state = self.state.lock();
        self.stopping.store(true, Ordering::Relaxed);
        self.raised.notify_all();
    }

    /// Whether the core is to stop. Asked before every instruction and inside long ones.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Takes note that the sequencer thread has ended.
    pub(super) fn thread_ended(&self) {
        let mut state = self.state.lock();
        state.lost = !self.is_stopping();
        state.activity = Activity::Idle;
        self.rested.notify_all();
    }
}

impl State {
    fn semaphore(&mut self, index: SemIndex) -> &mut i32 {
        // PANIC: 256 semaphores, eight bits.
        &mut self.semaphores[usize::from(index.get())]
    }

    fn take(&mut self, index: SemIndex) -> bool {
        let value = self.semaphore(index);
        let above_zero = *value > 0;
        if above_zero {
            *value -= 1;
        }
        above_zero
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphores_saturate() {
        let tpb = Tpb::new(TpbIndex::new(0));
        let index = SemIndex::new(255);
        *tpb.state.lock().semaphore(index) = i32::MAX - 1;
        tpb.increment(index).unwrap();
        tpb.increment(index).unwrap();
        assert_eq!(tpb.value(index), Ok(i32::MAX));
        assert!(!tpb.take(SemIndex::new(254)));
    }

    #[test]
    fn a_thread_that_ends_on_its_own_is_a_lost_core() {
        let tpb = Tpb::new(TpbIndex::new(0));
        tpb.thread_ended();
        assert_eq!(tpb.increment(SemIndex::new(0)), Err(DeviceError::Lost));
        assert_eq!(tpb.quiesce(), Err(DeviceError::Lost));
    }

    #[test]
    fn an_outstanding_doorbell_is_not_rest() {
        let tpb = Tpb::new(TpbIndex::new(0));
        assert_eq!(tpb.quiesce(), Ok(()));
        tpb.increment(map::INFERENCE_START).unwrap();
        assert!(tpb.await_doorbell());
        tpb.increment(map::INFERENCE_START).unwrap();
        assert_eq!(tpb.state.lock().activity, Activity::Running);
        assert!(tpb.await_doorbell());
        tpb.stop();
        assert!(!tpb.await_any([SemIndex::new(20)].into_iter()));
    }
}
