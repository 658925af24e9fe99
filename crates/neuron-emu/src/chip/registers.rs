//! The registers of BAR0: live ones are what the machine says, the others what was written.
//!
//! Called by the driver for BAR_READ and BAR_WRITE, which has refused what it refuses, and when it programs a ring.

use super::decode::{Register, decode, notification_base};
use super::{Chip, NqBlock, status_register, tpb};
use crate::choices::{CONFIG_ENABLED, NQ_SLOTS, POINTER_ID_SHIFT, POINTER_INDEX};
use xu_abi::DeviceAddr;
use xu_abi::driver::notification::nq_register::{
    NQ_BASE_HIGH, NQ_BASE_LOW, NQ_HEAD, NQ_SIZE, NQ_STRIDE,
};
use xu_abi::driver::queue_register::{
    CONFIG, CURRENT_POINTER, HEAD_POINTER, QUEUE_STATUS, RING_BASE_HIGH, RING_BASE_LOW,
    RING_LENGTH, TAIL_POINTER,
};
use xu_abi::driver::unverified::{
    NQ_BACK_PRESSURE, NQ_ENABLE, NQ_FULL, NQ_OVERWRITE, NQ_QUEUES_OF_CORE, NQ_TAIL,
    NQ_TIMESTAMP_HIGH, NQ_TIMESTAMP_LOW,
};
use xu_abi::record::RECORD_SIZE;
use xu_device::simulated::{NotificationPolicy, QueueStatus};

// CAST: 16.
const RECORD: u32 = RECORD_SIZE as u32;

impl Chip {
    /// Programs base and size of a notification queue; size 0 halts it. Enable, policy and head are registers.
    pub(crate) fn program_notification(&self, block: NqBlock, queue: u8, base: u64, bytes: u32) {
        let Some(start) = notification_base(self.arch, block) else {
            return;
        };
        let ring = start + NQ_STRIDE * u64::from(queue);
        // CAST: the two halves.
        self.write_register(ring + NQ_BASE_HIGH, (base >> 32) as u32);
        self.write_register(ring + NQ_BASE_LOW, base as u32);
        self.write_register(ring + NQ_SIZE, bytes);
    }

    /// A register of BAR0. One that nothing is known of reads as it was written, 0 at first.
    pub(crate) fn read_register(&self, offset: u64) -> u32 {
        let live = match decode(self.arch, offset) {
            Register::Notification(block, inside) => self.read_notification(block, inside),
            Register::Queue {
                engine,
                queue,
                rx,
                register,
            } => self.read_queue(engine, queue, rx, register),
            Register::Event(core, index) => Some(self.event(core, index).into()),
            // CAST: the bits of the value.
            Register::SemaphoreRead(core, index) => Some(self.semaphore(core, index) as u32),
            Register::SemaphoreSet(..)
            | Register::SemaphoreAdd(..)
            | Register::SemaphoreSubtract(..) => Some(0),
            Register::Other => None,
        };
        live.unwrap_or_else(|| self.written(offset))
    }

    /// Writes a register of BAR0.
    pub(crate) fn write_register(&self, offset: u64, value: u32) {
        // CAST: semaphores are signed. A posted write fails nowhere: what the plan refuses is lost.
        let signed = value as i32;
        match decode(self.arch, offset) {
            Register::Notification(block, inside) => {
                if self.takes_notification(block, inside, value) {
                    self.written.lock().insert(offset, value);
                    self.act_on_notification(block, inside, value);
                }
            }
            Register::Event(core, index) => self.set_event(core, index, value & 1 != 0),
            Register::SemaphoreSet(core, index) => self.set_semaphore(core, index, signed),
            Register::SemaphoreAdd(core, index) => {
                let _ = self.add_to_semaphore(core, index, signed);
            }
            Register::SemaphoreSubtract(core, index) => {
                let _ = self.add_to_semaphore(core, index, signed.saturating_neg());
            }
            Register::SemaphoreRead(..) => {}
            Register::Queue { .. } | Register::Other => {
                self.written.lock().insert(offset, value);
            }
        }
    }

    /// Forgets what was written to the notification blocks of a core.
    pub(super) fn forget_registers(&self, core: u8) {
        let arch = self.arch;
        let is_of_core = |offset: u64| match decode(arch, offset) {
            Register::Notification(NqBlock::Core(of) | NqBlock::Sdma(of, _), _) => of == core,
            _ => false,
        };
        self.written.lock().retain(|offset, _| !is_of_core(*offset));
    }

    fn written(&self, offset: u64) -> u32 {
        self.written.lock().get(&offset).copied().unwrap_or(0)
    }

    fn read_queue(&self, engine: u32, queue: u32, rx: bool, register: u64) -> Option<u32> {
        let (status, [of_tx, of_rx]) = self.machine.ports().queue_state(engine, queue);
        let ring = if rx { of_rx } else { of_tx };
        let pointer =
            |index: u32, id: u8| u32::from(id) << POINTER_ID_SHIFT | index & POINTER_INDEX;
        let base = ring.ring.base.get();
        match register {
            CONFIG if status == QueueStatus::Closed => Some(0),
            CONFIG => Some(CONFIG_ENABLED),
            QUEUE_STATUS => Some(status_register(status)),
            // CAST: the two halves.
            RING_BASE_LOW => Some(base as u32),
            RING_BASE_HIGH => Some((base >> 32) as u32),
            RING_LENGTH => Some(ring.ring.descriptors),
            HEAD_POINTER | CURRENT_POINTER => Some(pointer(ring.head, ring.head_id)),
            TAIL_POINTER => Some(pointer(ring.tail, ring.tail_id)),
            _ => None,
        }
    }

    fn read_notification(&self, block: NqBlock, inside: u64) -> Option<u32> {
        let ports = self.machine.ports();
        // CAST: the two halves.
        match inside {
            NQ_TIMESTAMP_LOW => return Some(ports.ticks() as u32),
            NQ_TIMESTAMP_HIGH => return Some((ports.ticks() >> 32) as u32),
            _ => {}
        }
        let NqBlock::Core(core) = block else {
            return None;
        };
        let policy = ports.notification_policy(tpb(core)).unwrap_or_default();
        match inside {
            NQ_ENABLE => return Some(policy.enabled),
            NQ_BACK_PRESSURE => return Some(policy.stalls),
            NQ_OVERWRITE => return Some(policy.overwrites),
            NQ_FULL => return Some(ports.notification_overflows(tpb(core)).unwrap_or(0)),
            _ => {}
        }
        let (queue, register) = slot(inside)?;
        // CAST: a ring is no longer than 32 bits say.
        let end = |of: (u64, u64)| match register {
            NQ_HEAD => Some(of.0 as u32),
            NQ_TAIL => Some(of.1 as u32),
            _ => None,
        };
        ports.notification_ends(tpb(core), queue).ok().and_then(end)
    }

    /// Whether a value may be written to a register of a notification block: a head must be one that can be.
    fn takes_notification(&self, block: NqBlock, inside: u64, value: u32) -> bool {
        let Some((queue, NQ_HEAD)) = slot(inside) else {
            return true;
        };
        let taken = match block {
            NqBlock::Core(core) if u64::from(queue) < NQ_QUEUES_OF_CORE => {
                let ports = self.machine.ports();
                let moved = ports.move_notification_head(tpb(core), queue, value.into());
                moved.map_err(|error| error.to_string())
            }
            // Nobody posts here: the tail is 0.
            _ if value == 0 => Ok(()),
            _ => Err(format!(
                "head of a notification queue: {value} is beyond the tail, 0"
            )),
        };
        if let Err(why) = &taken
            && !self.is_lost()
        {
            self.report(format!("{block:?}, queue {queue}: {why}"));
        }
        taken.is_ok()
    }

    fn act_on_notification(&self, block: NqBlock, inside: u64, value: u32) {
        let (NqBlock::Core(core), ports) = (block, self.machine.ports()) else {
            return;
        };
        let mask: fn(&mut NotificationPolicy) -> &mut u32 = match inside {
            NQ_ENABLE => |policy| &mut policy.enabled,
            NQ_BACK_PRESSURE => |policy| &mut policy.stalls,
            NQ_OVERWRITE => |policy| &mut policy.overwrites,
            _ => {
                if let Some((queue, NQ_SIZE)) = slot(inside)
                    && let Some(start) = notification_base(self.arch, block)
                {
                    self.program(core, queue, start + NQ_STRIDE * u64::from(queue), value);
                }
                return;
            }
        };
        let _ = ports.change_notification_policy(tpb(core), |policy| *mask(policy) = value);
    }

    /// Programs a queue of a core with the base that stands in its registers.
    fn program(&self, core: u8, queue: u8, ring: u64, bytes: u32) {
        let [low, high] = [NQ_BASE_LOW, NQ_BASE_HIGH].map(|half| self.written(ring + half));
        let base = DeviceAddr::new(u64::from(high) << 32 | u64::from(low));
        // Queues that the hardware does not have stay registers.
        let ports = self.machine.ports();
        let _ = ports.program_notification(tpb(core), queue, base, bytes - bytes % RECORD);
    }
}

/// The queue of a block that a register belongs to, and which of its registers it is.
fn slot(inside: u64) -> Option<(u8, u64)> {
    let above = inside.checked_sub(NQ_BASE_LOW)?;
    let queue = above / NQ_STRIDE;
    // CAST: below 16.
    (queue < NQ_SLOTS).then_some((queue as u8, NQ_BASE_LOW + above % NQ_STRIDE))
}
