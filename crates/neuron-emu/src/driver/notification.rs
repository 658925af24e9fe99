//! The notification rings of a device: which chunk each queue has.
//!
//! Spec `driver.md` section 5.
//!
//! ```text
//!   nq_type × 16 + engine_index, cut to 8 bits ──> id: which ring it is         < 96, for each core and each TOPSP
//!   engine_index alone ──────────────────────────> the hardware queue           so two types can fight over one
//! ```
//!
//! Rings live as long as the device: a process that asks for an id which another has initialised gets that ring, with what
//! is in it. They end with a reset of the core, or when a new one is forced.

use super::call::{Call, Failure, Handled};
use super::device::Device;
use super::memory::{self, Chunk, ChunkRef, Lifespan, Place, Request};
use crate::chip::NqBlock;
use std::collections::BTreeMap;
use xu_abi::driver::errno::{EINVAL, ENOSYS, EPERM};
use xu_abi::driver::{
    MemType, NQ_ENGINE_INDICES, NQ_IDS, NQ_NOT_MAPPED, NotificationsInitV1, NotificationsInitV2,
    NotificationsInitWithReallocV2, NqDevice, NqType,
};

/// The notification rings of a device: which chunk each queue has.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    rings: BTreeMap<(Owner, u8), Ring>,
}

/// What a ring belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Core(u8),
    Topsp(u8),
}

/// One ring.
#[derive(Clone, Copy, Debug)]
struct Ring {
    chunk: ChunkRef,
    block: NqBlock,
    queue: u8,
    answer: Answered,
}

/// What the caller is told of a ring.
#[derive(Clone, Copy, Debug)]
struct Answered {
    mmap_offset: u64,
    mem_handle: u64,
}

/// What is asked for, checked.
#[derive(Clone, Copy)]
struct Wanted {
    owner: Owner,
    id: u8,
    block: NqBlock,
    queue: u8,
    bytes: u32,
    place: Place,
}

/// NOTIFICATIONS_INIT_V1: host memory, of a core.
pub(super) fn notifications_init_v1(call: &Call<'_>) -> Handled {
    let mut argument: NotificationsInitV1 = call.argument()?;
    let asked = NotificationsInitV2 {
        nq_dev_id: argument.nc_id,
        nq_dev_type: NqDevice::Core.raw(),
        nq_type: argument.nq_type,
        engine_index: argument.engine_index,
        size: argument.size,
        on_host_memory: 1,
        ..NotificationsInitV2::ZEROED
    };
    argument.mmap_offset = init(call, &asked, false)?.mmap_offset;
    Ok(call.answer(&argument)?)
}

/// NOTIFICATIONS_INIT_V2.
pub(super) fn notifications_init_v2(call: &Call<'_>) -> Handled {
    let mut argument: NotificationsInitV2 = call.argument()?;
    let ring = init(call, &argument, false)?;
    argument.mmap_offset = ring.mmap_offset;
    argument.mem_handle = ring.mem_handle;
    Ok(call.answer(&argument)?)
}

/// NOTIFICATIONS_INIT_WITH_REALLOC_V2.
pub(super) fn notifications_init_with_realloc_v2(call: &Call<'_>) -> Handled {
    let mut argument: NotificationsInitWithReallocV2 = call.argument()?;
    let asked = NotificationsInitV2 {
        nq_dev_id: argument.nq_dev_id,
        nq_dev_type: argument.nq_dev_type,
        nq_type: argument.nq_type,
        engine_index: argument.engine_index,
        size: argument.size,
        on_host_memory: argument.on_host_memory,
        dram_channel: argument.dram_channel,
        dram_region: argument.dram_region,
        ..NotificationsInitV2::ZEROED
    };
    let ring = init(call, &asked, argument.force_alloc_mem != 0)?;
    argument.mmap_offset = ring.mmap_offset;
    argument.mem_handle = ring.mem_handle;
    Ok(call.answer(&argument)?)
}

/// NOTIFICATIONS_QUEUE_INFO always fails.
pub(super) fn notifications_queue_info(_: &Call<'_>) -> Handled {
    Err(Failure::Errno(EPERM))
}

/// Destroys the rings of a core, and of its TOPSPs.
pub(super) fn destroy(device: &Device, core: u8) {
    let table = device.table();
    let topsps_of_core = (table.topsps / table.cores).max(1);
    let mut notifications = device.notifications.lock();
    let goes = |owner: Owner| match owner {
        Owner::Core(of) => of == core,
        Owner::Topsp(topsp) => topsp / topsps_of_core == core,
    };
    notifications.rings.retain(|(owner, _), ring| {
        let goes = goes(*owner);
        if goes {
            device
                .chip
                .program_notification(ring.block, ring.queue, 0, 0);
            memory::free(device, ring.chunk);
        }
        !goes
    });
}

/// The ring with this id: the one that there is, or a new one.
fn init(call: &Call<'_>, asked: &NotificationsInitV2, forced: bool) -> Result<Answered, Failure> {
    let device = call.device;
    let wanted = checked(device, asked).map_err(Failure::Errno)?;
    let key = (wanted.owner, wanted.id);
    let mut notifications = device.notifications.lock();
    let old = notifications.rings.get(&key).copied();
    if let Some(old) = old.filter(|_| !forced) {
        return Ok(old.answer);
    }
    let chunk = memory::allocate(device, &request(call, &wanted))?;
    let chip = &device.chip;
    chip.program_notification(wanted.block, wanted.queue, chunk.pa, wanted.bytes);
    if let Some(old) = old {
        memory::free(device, old.chunk);
    }
    let ring = Ring::new(&wanted, &chunk);
    notifications.rings.insert(key, ring);
    Ok(ring.answer)
}

impl Ring {
    fn new(wanted: &Wanted, chunk: &Chunk) -> Self {
        Self {
            chunk: chunk.reference(),
            block: wanted.block,
            queue: wanted.queue,
            answer: Answered {
                mmap_offset: if chunk.is_host() {
                    chunk.pa
                } else {
                    NQ_NOT_MAPPED
                },
                mem_handle: chunk.handle,
            },
        }
    }
}

fn checked(device: &Device, asked: &NotificationsInitV2) -> Result<Wanted, i32> {
    let device_type = NqDevice::from_raw(asked.nq_dev_type).ok_or(ENOSYS)?;
    // CAST: cut to 8 bits, as the driver does, all three.
    let (number, queue) = (asked.nq_dev_id as u8, asked.engine_index as u8);
    let id = (asked.nq_type.wrapping_mul(NQ_ENGINE_INDICES)).wrapping_add(queue.into()) as u8;
    let table = device.table();
    let owner = match device_type {
        NqDevice::Core if number < table.cores => Owner::Core(number),
        NqDevice::Topsp if number < table.topsps => Owner::Topsp(number),
        _ => return Err(EINVAL),
    };
    let is_known = u32::from(id) < NQ_IDS && u32::from(queue) < NQ_ENGINE_INDICES;
    if !is_known || !asked.size.is_power_of_two() {
        return Err(EINVAL);
    }
    let (block, queue) = match owner {
        Owner::Core(core) if asked.nq_type == NqType::TraceDma.raw() => {
            (NqBlock::Sdma(core, queue), 0)
        }
        Owner::Core(core) => (NqBlock::Core(core), queue),
        Owner::Topsp(topsp) => (NqBlock::Topsp(topsp), queue),
    };
    Ok(Wanted {
        owner,
        id,
        block,
        queue,
        bytes: asked.size,
        place: place(device, asked)?,
    })
}

fn place(device: &Device, asked: &NotificationsInitV2) -> Result<Place, i32> {
    // CAST: widening.
    if asked.dram_channel as usize >= device.table().hbm.len() {
        return Err(EINVAL);
    }
    Ok(match asked.on_host_memory {
        0 => Place::Hbm(asked.dram_channel),
        _ => Place::Host,
    })
}

fn request(call: &Call<'_>, wanted: &Wanted) -> Request {
    let (align, mem_type) = match wanted.place {
        Place::Host => (0, MemType::NotificationHost),
        // Aligned to its size.
        Place::Hbm(_) => (wanted.bytes.into(), MemType::NotificationDevice),
    };
    let core = match wanted.owner {
        Owner::Core(core) => core,
        Owner::Topsp(_) => 0,
    };
    Request {
        bytes: wanted.bytes.into(),
        align,
        place: wanted.place,
        core: core.into(),
        mem_type,
        pid: call.pid(),
        lifespan: Lifespan::Device,
    }
}
