//! Copies that the driver makes: between chunks, and between chunks and buffers of the caller.
//!
//! Spec `driver.md` section 3, copy semantics.
//!
//! ```text
//!   between ──── chunk to chunk, at once                    asynchronous ─ chunk to chunk, later, in two slots
//!   this file ── buffer to chunk, chunk to buffer, a value to a chunk
//!   program ──── buffer to engine
//! ```
//!
//! A copy of no bytes between chunks moves 64 KiB, as that is what a length of 0 says in a descriptor: trap 23.

mod asynchronous;
mod between;
mod program;

pub(super) use asynchronous::{
    Copies, finish, forget, mem_copy_async, mem_copy_async_wait, mem_copy_async64,
};
pub(super) use between::{mem_copy, mem_copy64};
pub(super) use program::{program_engine, program_engine_nc, program_engine_nc64};

use super::bug::Bug;
use super::call::{Call, Failure, Handled};
use super::memory::{BOUNCE, Chunk};
use super::rings;
use crate::call::NotCopied;
use asynchronous::QueueKey;
use xu_abi::driver::errno::EPERM;
use xu_abi::driver::{LARGE, MemBufCopy, MemBufCopy64, Memset, Memset64, PAGE, ZEROCOPY_STEP};

/// What a length of 0 means in a descriptor, bytes.
const ZERO_LENGTH: u64 = 65_536;
/// A fill with zeroes of at least so many bytes gives pages back instead of writing them.
const SPARSE_FILL: u64 = 1 << 20;

/// MEM_BUF_COPY.
pub(super) fn mem_buf_copy(call: &Call<'_>) -> Handled {
    let argument: MemBufCopy = call.argument()?;
    buffer_copy(
        call,
        &MemBufCopy64 {
            mem_handle: argument.mem_handle,
            buffer: argument.buffer,
            size: argument.size.into(),
            offset: argument.offset.into(),
            copy_to_mem_handle: argument.copy_to_mem_handle,
            ..MemBufCopy64::ZEROED
        },
    )
}

/// MEM_BUF_COPY64: copies the size modulo 4 GiB.
pub(super) fn mem_buf_copy64(call: &Call<'_>) -> Handled {
    buffer_copy(call, &call.argument()?)
}

/// MEM_BUF_ZEROCOPY64: of any size, but for those that its table of pages does not bear.
pub(super) fn mem_buf_zerocopy64(call: &Call<'_>) -> Handled {
    let asked: MemBufCopy64 = call.argument()?;
    let in_page = asked.buffer % PAGE;
    let is_one_page_too_long = asked.size <= ZEROCOPY_STEP && in_page + asked.size > ZEROCOPY_STEP;
    if asked.size == 0 || is_one_page_too_long {
        let what = format!(
            "MEM_BUF_ZEROCOPY64 of {:#x} bytes, {in_page:#x} into a page",
            asked.size
        );
        return Err(Failure::Bug(Bug { trap: 22, what }));
    }
    let chunk = named(call, asked.mem_handle)?;
    let place = chunk.range(asked.offset, asked.size)?;
    in_time(call, QueueKey::of_core(call.device.table(), chunk.core))?;
    carry(call, &asked, place, asked.size, ZEROCOPY_STEP)?;
    Ok(())
}

/// MEMSET.
pub(super) fn memset(call: &Call<'_>) -> Handled {
    let argument: Memset = call.argument()?;
    fill(
        call,
        &Memset64 {
            mem_handle: argument.mem_handle,
            offset: argument.offset,
            value: argument.value,
            size: argument.size.into(),
            ..Memset64::ZEROED
        },
    )
}

/// MEMSET64.
pub(super) fn memset64(call: &Call<'_>) -> Handled {
    fill(call, &call.argument()?)
}

fn buffer_copy(call: &Call<'_>, asked: &MemBufCopy64) -> Handled {
    let chunk = named(call, asked.mem_handle)?;
    let place = chunk.range(asked.offset, asked.size)?;
    // The driver counts what remains in 32 bits.
    let bytes = asked.size % LARGE;
    if chunk.is_host() {
        // One copy of the kernel: what is left of all of it was not copied.
        return carry(call, asked, place, bytes, BOUNCE).map_err(|stopped| match stopped {
            Stopped::At(done, _) => Failure::from(NotCopied(left(bytes, done))),
            Stopped::Failed => Failure::Errno(EPERM),
        });
    }
    in_time(call, QueueKey::of_core(call.device.table(), chunk.core))?;
    carry(call, asked, place, bytes, BOUNCE)?;
    Ok(())
}

/// Bytes of a step that ends a copy of `bytes` after `done`, as a number of bytes in memory.
fn left(bytes: u64, done: u64) -> usize {
    usize::try_from(bytes - done).unwrap_or(usize::MAX)
}

/// Why a copy between a buffer and a chunk ended early.
enum Stopped {
    /// The buffer is bad: bytes that were copied, and what the step says that failed.
    At(u64, NotCopied),
    /// The device did not copy.
    Failed,
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::At(_, not_copied) => not_copied.into(),
            Stopped::Failed => Self::Errno(EPERM),
        }
    }
}

/// Carries bytes between the buffer and a range of a chunk, step by step: those before one that fails have been copied.
fn carry(
    call: &Call<'_>,
    asked: &MemBufCopy64,
    place: u64,
    bytes: u64,
    step: u64,
) -> Result<(), Stopped> {
    let chip = &call.device.chip;
    // CAST: at most 256 KiB.
    let mut through = vec![0; step.min(bytes) as usize];
    let mut done = 0;
    while done < bytes {
        // CAST: no more than the vector has, whose length is a step. PANIC: the same.
        let through = &mut through[..step.min(bytes - done) as usize];
        let buffer = asked.buffer.wrapping_add(done);
        let stopped = |not_copied: NotCopied| Stopped::At(done, not_copied);
        if asked.copy_to_mem_handle == 0 {
            let read = chip.read(place + done, through);
            read.map_err(|_| Stopped::Failed)?;
            call.caller.write(buffer, through).map_err(stopped)?;
        } else {
            call.caller.read(buffer, through).map_err(stopped)?;
            let written = chip.write(place + done, through);
            written.map_err(|_| Stopped::Failed)?;
        }
        // CAST: widening.
        done += through.len() as u64;
    }
    Ok(())
}

fn fill(call: &Call<'_>, asked: &Memset64) -> Handled {
    let chunk = named(call, asked.mem_handle)?;
    let place = chunk.range(asked.offset, asked.size)?;
    in_time(call, QueueKey::of_core(call.device.table(), chunk.core))?;
    // CAST: the low byte counts.
    let value = asked.value as u8;
    let bytes = dma_length(call, asked.size);
    let (start, end) = (place, place + bytes);
    if value == 0 && bytes >= SPARSE_FILL {
        let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        write(call, start, first - start, 0)?;
        call.device.chip.punch(first, last - first);
        return write(call, last, end - last, 0);
    }
    write(call, start, bytes, value)
}

/// Writes the same byte over a range of memory.
fn write(call: &Call<'_>, place: u64, bytes: u64, value: u8) -> Handled {
    // CAST: at most 64 KiB.
    let filled = vec![value; BOUNCE.min(bytes) as usize];
    let mut done = 0;
    while done < bytes {
        // CAST: as above. PANIC: no more than the vector has.
        let step = &filled[..BOUNCE.min(bytes - done) as usize];
        let written = call.device.chip.write(place + done, step);
        written.map_err(|_| Failure::Errno(EPERM))?;
        // CAST: widening.
        done += step.len() as u64;
    }
    Ok(())
}

/// Whether a copy through a queue ends in time: not when the plan says so, and not while its engine does not run.
fn in_time(call: &Call<'_>, queue: QueueKey) -> Handled {
    call.device.faults.copy()?;
    match rings::runs(call.device, queue.engine) {
        true => Ok(()),
        false => Err(Failure::Errno(EPERM)),
    }
}

/// Bytes that are moved when the driver is asked for so many.
fn dma_length(call: &Call<'_>, size: u64) -> u64 {
    if size > 0 {
        return size;
    }
    let name = call.ioctl.name;
    let warning = format!("trap 23: {name} of 0 bytes moves 64 KiB");
    call.device.warn(call.pid(), warning);
    ZERO_LENGTH
}

fn named(call: &Call<'_>, handle: u64) -> Result<Chunk, Failure> {
    let chunk = call.device.chunks.lock().get(handle);
    chunk.map_err(Failure::Errno)
}
