//! Descriptors into a ring, and out of it.
//!
//! Spec `driver.md` section 6. On their way in, an address of host memory must lie in a chunk of this device, or of another
//! one that the process is attached to; addresses of the device are not looked at.

use super::{QueueId, RingMemory, bug, is_engine};
use crate::driver::call::{Call, Failure, Handled};
use xu_abi::descriptor::{DESCRIPTOR_SIZE, Descriptor};
use xu_abi::driver::errno::{EFBIG, EINVAL, EPERM};
use xu_abi::driver::{
    DmaCopyDescriptors, DmaCopyDescriptors64, DmaDescriptorCopyout, QUEUES_PER_ENGINE, QueueType,
};

// CAST: 16, widening.
const DESCRIPTOR: usize = DESCRIPTOR_SIZE as usize;
/// Descriptors that are carried at once: 64 KiB.
const BATCH: u32 = 4096;

/// DMA_COPY_DESCRIPTORS.
pub(in crate::driver) fn dma_copy_descriptors(call: &Call<'_>) -> Handled {
    let argument: DmaCopyDescriptors = call.argument()?;
    copy_in(
        call,
        &DmaCopyDescriptors64 {
            mem_handle: argument.mem_handle,
            buffer: argument.buffer,
            num_descs: argument.num_descs,
            offset: argument.offset.into(),
            queue_type: argument.queue_type,
            ..DmaCopyDescriptors64::ZEROED
        },
    )
}

/// DMA_COPY_DESCRIPTORS64.
pub(in crate::driver) fn dma_copy_descriptors64(call: &Call<'_>) -> Handled {
    copy_in(call, &call.argument()?)
}

/// DMA_DESCRIPTOR_COPYOUT.
pub(in crate::driver) fn dma_descriptor_copyout(call: &Call<'_>) -> Handled {
    let argument: DmaDescriptorCopyout = call.argument()?;
    let id = QueueId {
        engine: argument.eng_id,
        queue: argument.qid,
    };
    if !is_engine(call.device, id.engine) {
        return Err(bug(18, call, id, "the engine does not exist"));
    }
    if id.queue >= QUEUES_PER_ENGINE || argument.count == 0 {
        return Err(Failure::Errno(EINVAL));
    }
    let direction = QueueType::from_raw(argument.queue_type).ok_or(Failure::Errno(EPERM))?;
    let rings = call.device.rings.lock();
    let queue = rings.queues.get(&id).ok_or(Failure::Errno(EINVAL))?;
    let ring = match direction {
        QueueType::Tx => queue.tx,
        QueueType::Rx => queue.rx,
    };
    let start = match ring.memory {
        RingMemory::Nothing => return Err(Failure::Errno(EINVAL)),
        // Of a ring in device memory the driver reads from the beginning.
        RingMemory::Chunk(_, false) => 0,
        _ => argument.start_index,
    };
    if u64::from(argument.start_index) + u64::from(argument.count) > ring.descriptors.into() {
        return Err(Failure::Errno(EFBIG));
    }
    ring.check_memory(call, id)?;
    // Nobody is held up while it is written to memory of the caller, which can take its time.
    drop(rings);
    copy_out(call, ring.spec().base, start, &argument)
}

fn copy_out(call: &Call<'_>, base: u64, start: u32, asked: &DmaDescriptorCopyout) -> Handled {
    let mut done = 0;
    while done < asked.count {
        let count = BATCH.min(asked.count - done);
        // CAST: widening.
        let mut bytes = vec![0; count as usize * DESCRIPTOR];
        let from = base + bytes_of(start + done);
        let read = call.device.chip.read(from, &mut bytes);
        read.map_err(|_| Failure::Errno(EPERM))?;
        let to = asked.buffer.wrapping_add(bytes_of(done));
        call.caller.write(to, &bytes)?;
        done += count;
    }
    Ok(())
}

fn copy_in(call: &Call<'_>, asked: &DmaCopyDescriptors64) -> Handled {
    let chunk = call.device.chunks.lock().get(asked.mem_handle);
    let chunk = chunk.map_err(Failure::Errno)?;
    let to = chunk.range(asked.offset, bytes_of(asked.num_descs))?;
    QueueType::from_raw(asked.queue_type).ok_or(Failure::Errno(EPERM))?;
    let mut done = 0;
    while done < asked.num_descs {
        let count = BATCH.min(asked.num_descs - done);
        // CAST: widening.
        let mut descriptors = vec![[0; DESCRIPTOR]; count as usize];
        let from = asked.buffer.wrapping_add(bytes_of(done));
        call.caller.read(from, descriptors.as_flattened_mut())?;
        if !descriptors
            .iter()
            .all(|descriptor| is_allowed(call, descriptor))
        {
            return Err(Failure::Errno(EINVAL));
        }
        let bytes = descriptors.as_flattened();
        let written = call.device.chip.write(to + bytes_of(done), bytes);
        written.map_err(|_| Failure::Errno(EPERM))?;
        done += count;
    }
    Ok(())
}

/// Whether the address of a descriptor is one of the device, or of host memory that this process may use.
fn is_allowed(call: &Call<'_>, descriptor: &[u8; DESCRIPTOR]) -> bool {
    let address = Descriptor::from_bytes(*descriptor).addr().get();
    if address & call.device.table().host_bit == 0 {
        return true;
    }
    let is_mine = |index: u32| index == call.device.index;
    call.devices
        .iter()
        .filter(|device| is_mine(device.index) || device.has_attached(call.pid()))
        .any(|device| device.chunks.lock().around(address).is_some())
}

fn bytes_of(descriptors: u32) -> u64 {
    u64::from(descriptors) * DESCRIPTOR_SIZE
}
