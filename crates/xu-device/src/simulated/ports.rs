//! What stands where a driver's registers are: semaphores, events, DMA queues by engine, notification queues, reset.
//!
//! Made by [`Machine::ports`] for whoever plays the driver of a machine; a client of the lane has
//! [`Device`](crate::Device) instead.
//! Rules: as registers, ports believe what they are told. What is wrong with a ring shows when it is used, and no core is
//! asked whether it is busy. Calls may come from any thread; once the device is lost, all are refused.
//!
//! ```text
//!   Device   allocate, open, check -----+                        a client
//!   Ports    program, start, reset -----+---> the same machine   a driver
//! ```
//!
//! DMA queues are those of a chip: [`map::engine_of`] says which four of each core the machine
//! uses. All others are there when they are first initialised, and are walked in the call that starts them.

use super::clock::HostClock;
use super::dma::Queue;
use super::injector::Doorbell;
use super::machine::Machine;
use super::notification::NotificationPolicy;
use super::rings::{QueueStatus, RingSpec, RingState};
use crate::device::{DeviceError, DmaQueue, Place};
use crate::map;
use core::fmt;
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::descriptor::MAX_TRANSFER;
use xu_abi::{DeviceAddr, EventIndex, SemIndex, TpbIndex};

/// What a driver reaches of a machine.
#[derive(Clone, Copy)]
pub struct Ports<'m>(&'m Machine);

impl Machine {
    /// What a driver reaches of this machine.
    #[must_use]
    pub fn ports(&self) -> Ports<'_> {
        Ports(self)
    }
}

impl fmt::Debug for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ports").field(&self.0).finish()
    }
}

/// Semaphores and events.
impl Ports<'_> {
    /// The value of a semaphore.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when the core does not exist, [`DeviceError::Lost`]; so below.
    pub fn semaphore(self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError> {
        self.0.hardware.alive_tpb(tpb)?.value(index)
    }

    /// Sets a semaphore. Above zero, the start semaphore has the core begin.
    ///
    /// # Errors
    /// As [`Ports::semaphore`].
    pub fn set_semaphore(
        self,
        tpb: TpbIndex,
        index: SemIndex,
        value: i32,
    ) -> Result<(), DeviceError> {
        self.0.hardware.alive_tpb(tpb)?.set(index, value)
    }

    /// Adds to a semaphore, which may become negative; it saturates at both ends. To add to the start semaphore is to
    /// ring: an execution begins for each one that it is above zero.
    ///
    /// # Errors
    /// As [`Ports::semaphore`]; [`DeviceError::Driver`] when the fault plan has the doorbell fail.
    pub fn add_to_semaphore(
        self,
        tpb: TpbIndex,
        index: SemIndex,
        value: i32,
    ) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        let core = hardware.alive_tpb(tpb)?;
        match hardware.add_to_semaphore(core, index, value)? {
            Doorbell::Rings | Doorbell::Lost => Ok(()),
            Doorbell::Fails(errno) => Err(DeviceError::Driver {
                call: "SEMAPHORE_INCREMENT",
                errno,
            }),
        }
    }

    /// Whether an event is set.
    ///
    /// # Errors
    /// As [`Ports::semaphore`].
    pub fn event(self, tpb: TpbIndex, event: EventIndex) -> Result<bool, DeviceError> {
        let hardware = &self.0.hardware;
        hardware.check_alive()?;
        Ok(hardware.registers(tpb)?.event(event))
    }

    /// Sets or clears an event.
    ///
    /// # Errors
    /// As [`Ports::semaphore`].
    pub fn set_event(self, tpb: TpbIndex, event: EventIndex, set: bool) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        hardware.check_alive()?;
        hardware.registers(tpb)?.set_event(event, set);
        Ok(())
    }
}

/// DMA queues.
impl Ports<'_> {
    /// Gives a queue its rings, which need not be equally long, and resets it.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn init_queue(
        self,
        engine: u32,
        queue: u32,
        tx: RingSpec,
        rx: RingSpec,
    ) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        hardware.check_alive()?;
        match self.of_core(engine, queue) {
            Some(queue) => {
                let mut opened = hardware.dma_queue(queue)?.lock();
                opened.program(tx, rx);
                hardware.take_note_of_opening(queue)
            }
            None => {
                let opened = Arc::clone(
                    hardware
                        .other_queues
                        .lock()
                        .entry((engine, queue))
                        .or_default(),
                );
                let held = hardware.held_engines.lock();
                let mut opened = opened.lock();
                opened.hold(held.contains(&engine));
                opened.program(tx, rx);
                Ok(())
            }
        }
    }

    /// Adds to the tails of a queue, Rx first: pairs that are complete are walked. Destinations may be handed over before
    /// their sources. What goes wrong shows in [`Ports::queue_state`].
    ///
    /// The queue that brings requests takes no descriptors here: its tails move by tail-increment registers.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn start_queue(self, engine: u32, queue: u32, tx: u32, rx: u32) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        hardware.check_alive()?;
        match self.of_core(engine, queue) {
            Some(queue) if queue.index == map::MODEL_EXEC_QUEUE => {}
            Some(queue) => {
                let mut started = hardware.dma_queue(queue)?.lock();
                hardware.start_transfer(queue, &mut started, tx, rx);
            }
            None => {
                if let Some(started) = self.other(engine, queue) {
                    started.lock().walk(&hardware.bus, tx, rx);
                }
            }
        }
        Ok(())
    }

    /// How a queue stands, and what the registers of its rings say: Tx, then Rx.
    #[must_use]
    pub fn queue_state(self, engine: u32, queue: u32) -> (QueueStatus, [RingState; 2]) {
        let hardware = &self.0.hardware;
        match self.of_core(engine, queue) {
            Some(queue) => {
                let brings_requests = queue.index == map::MODEL_EXEC_QUEUE;
                let registers = hardware.registers(queue.tpb).ok();
                let published = registers.filter(|_| brings_requests);
                hardware.dma_queue(queue).map_or_else(
                    |_| Default::default(),
                    |of| of.lock().registers(published.map(|of| of.tails())),
                )
            }
            None => self
                .other(engine, queue)
                .map_or_else(Default::default, |of| of.lock().registers(None)),
        }
    }

    /// Stops an engine: none of its queues moves anything, though they take what they are given. Or has it run again, and
    /// move that.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn hold_engine(self, engine: u32, held: bool) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        hardware.check_alive()?;
        let mut engines = hardware.held_engines.lock();
        if held {
            engines.insert(engine);
        } else {
            engines.remove(&engine);
        }
        // The lock stays: a queue that is opened meanwhile is held as the others are.
        let is_stepped = matches!(hardware.host_clock, HostClock::Virtual(_));
        self.for_each_queue(engine, |queue, is_of_core| {
            queue.hold(held);
            // In virtual time those of cores are walked step by step.
            if !(is_of_core && is_stepped) {
                queue.walk(&hardware.bus, 0, 0);
            }
        });
        Ok(())
    }

    /// Has the queues of an engine give up what they do: each moves nothing until it is initialised again.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn abort_engine(self, engine: u32) -> Result<(), DeviceError> {
        self.0.hardware.check_alive()?;
        self.for_each_queue(engine, |queue, _| queue.abort());
        Ok(())
    }

    /// Changes the queues of an engine, which are told whether they are of a core. Cores whose requests one of them brings look at it
    /// again.
    fn for_each_queue(self, engine: u32, change: impl Fn(&mut Queue, bool)) {
        let hardware = &self.0.hardware;
        for core in hardware.tpbs.iter() {
            let tpb = core.index;
            for (index, queue) in (0..).zip(&core.dma) {
                if map::engine_of(DmaQueue { tpb, index }).0 == engine {
                    change(&mut queue.lock(), true);
                    core.nudge();
                }
            }
        }
        let others = hardware.other_queues.lock();
        let of_engine = others.iter().filter(|((of, _), _)| *of == engine);
        let queues: Vec<_> = of_engine.map(|(_, queue)| Arc::clone(queue)).collect();
        drop(others);
        for queue in queues {
            change(&mut queue.lock(), false);
        }
    }

    /// Copies, as a queue does whose descriptors are well formed: pieces of 64 KiB, one behind the other.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when a piece has an end at which nothing is: those before it were copied;
    /// [`DeviceError::Lost`].
    pub fn copy(self, from: DeviceAddr, to: DeviceAddr, bytes: u64) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        hardware.check_alive()?;
        let whole = u64::from(MAX_TRANSFER);
        // CAST: at most `MAX_TRANSFER`.
        let mut passing = vec![0; bytes.min(whole) as usize];
        let mut done = 0;
        while done < bytes {
            // PANIC: CAST: no longer than the buffer.
            let piece = &mut passing[..(bytes - done).min(whole) as usize];
            let length = piece.len() as u64;
            let at = |addr: DeviceAddr| {
                addr.checked_add(done).ok_or(DeviceError::BadAddress {
                    addr,
                    bytes: length,
                })
            };
            let (from, to) = (at(from)?, at(to)?);
            let nothing = |addr| DeviceError::BadAddress {
                addr,
                bytes: length,
            };
            hardware.bus.load(from, piece).ok_or(nothing(from))?;
            hardware.bus.store(to, piece).ok_or(nothing(to))?;
            done += length;
        }
        Ok(())
    }

    /// The queue of a core of this machine that a queue of an engine is.
    fn of_core(self, engine: u32, queue: u32) -> Option<DmaQueue> {
        map::queue_of(engine, queue).filter(|queue| queue.tpb.get() < self.0.shape.tpbs)
    }

    fn other(self, engine: u32, queue: u32) -> Option<Arc<Mutex<Queue>>> {
        let others = self.0.hardware.other_queues.lock();
        others.get(&(engine, queue)).map(Arc::clone)
    }
}

/// Notification queues of cores.
impl Ports<'_> {
    /// Programs base and size, a multiple of 16, of a queue; a size of 0 halts it. It is empty then, and the next record
    /// is the first of its first lap.
    ///
    /// # Errors
    /// As [`Ports::semaphore`]; [`DeviceError::BadArgument`] when there is no such queue.
    pub fn program_notification(
        self,
        tpb: TpbIndex,
        nq: u8,
        base: DeviceAddr,
        bytes: u32,
    ) -> Result<(), DeviceError> {
        let core = self.0.hardware.alive_tpb(tpb)?;
        core.with_notifications(|queues| queues.program(nq, base, u64::from(bytes)))
    }

    /// Moves the head of a queue: records before byte offset `head` have been read.
    ///
    /// # Errors
    /// As [`Ports::semaphore`]; [`DeviceError::BadArgument`], and nothing moves, when the queue is halted, and when
    /// `head` is not a multiple of 16, not below the size, or, without overwriting, beyond the tail.
    pub fn move_notification_head(
        self,
        tpb: TpbIndex,
        nq: u8,
        head: u64,
    ) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        let core = hardware.alive_tpb(tpb)?;
        core.with_notifications(|queues| queues.acknowledge(&hardware.bus.memory, nq, head))
    }

    /// Head and tail of a queue, byte offsets.
    ///
    /// # Errors
    /// As [`Ports::semaphore`]; [`DeviceError::BadArgument`] when the queue is halted.
    pub fn notification_ends(self, tpb: TpbIndex, nq: u8) -> Result<(u64, u64), DeviceError> {
        let queues = self.0.hardware.alive_tpb(tpb)?.notifications.lock();
        Ok((queues.head(nq)?, queues.tail(nq)?))
    }

    /// The mask registers of a core.
    ///
    /// # Errors
    /// As [`Ports::semaphore`].
    pub fn notification_policy(self, tpb: TpbIndex) -> Result<NotificationPolicy, DeviceError> {
        Ok(self
            .0
            .hardware
            .alive_tpb(tpb)?
            .notifications
            .lock()
            .policy())
    }

    /// Changes the mask registers of a core. Records that wait go on as they then say.
    ///
    /// # Errors
    /// As [`Ports::semaphore`].
    pub fn change_notification_policy(
        self,
        tpb: TpbIndex,
        change: impl FnOnce(&mut NotificationPolicy),
    ) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        let core = hardware.alive_tpb(tpb)?;
        core.with_notifications(|queues| queues.change_policy(&hardware.bus.memory, change));
        Ok(())
    }

    /// Bit *n*: queue *n* of the core has dropped a record since it was programmed.
    ///
    /// # Errors
    /// As [`Ports::semaphore`].
    pub fn notification_overflows(self, tpb: TpbIndex) -> Result<u32, DeviceError> {
        Ok(self
            .0
            .hardware
            .alive_tpb(tpb)?
            .notifications
            .lock()
            .overflowed())
    }
}

/// The machine as a whole.
impl Ports<'_> {
    /// Resets a core, also while it runs: what runs is dropped, and nothing of it is posted once this returns. Its
    /// notification queues are halted and disabled, its DMA queues have no rings, its semaphores and events are 0, and
    /// its sequencer has loaded nothing. Memory stays as it is, and so do the counts of memory errors.
    ///
    /// Waits until the core has noticed: not longer than one instruction.
    ///
    /// # Errors
    /// As [`Ports::semaphore`].
    pub fn reset(self, tpb: TpbIndex) -> Result<(), DeviceError> {
        let hardware = &self.0.hardware;
        let core = hardware.alive_tpb(tpb)?;
        core.with_notifications(|queues| queues.reset(&hardware.bus.memory));
        for (index, queue) in (0..).zip(&core.dma) {
            let mut queue = queue.lock();
            queue.close();
            hardware.take_note_of_opening(DmaQueue { tpb, index })?;
        }
        self.0.drop_execution(core);
        hardware.registers(tpb)?.clear();
        Ok(())
    }

    /// What the counter of the device says.
    #[must_use]
    pub fn ticks(self) -> u64 {
        self.0.hardware.ticks()
    }

    /// Whether the fault plan has this reservation of memory fail. Each one that a driver makes is asked about once.
    #[must_use]
    pub fn allocation_fails(self, place: Place) -> bool {
        let hardware = &self.0.hardware;
        let tpb = match place {
            Place::Hbm(tpb) => Some(tpb),
            Place::Host => None,
        };
        hardware.injector.allocation(tpb, || hardware.now_ns())
    }

    /// The device goes away: every core stops, and every call fails from now on.
    pub fn lose(self) {
        self.0.hardware.lose();
    }

    /// Whether the device has gone.
    #[must_use]
    pub fn is_lost(self) -> bool {
        self.0.hardware.is_lost()
    }
}
