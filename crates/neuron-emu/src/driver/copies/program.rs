//! Bytes from a buffer of the caller into an engine.
//!
//! Spec `driver.md` section 3. The driver adds the offset to both sides, and lets only some windows of device addresses
//! through.

use super::asynchronous::QueueKey;
use super::in_time;
use crate::driver::bug::Bug;
use crate::driver::call::{Call, Failure, Handled};
use crate::driver::memory::BOUNCE;
use std::ops::Range;
use xu_abi::driver::arch::at;
use xu_abi::driver::errno::{EINVAL, ENOMEM, EPERM};
use xu_abi::driver::window::{Block, Resource, Window};
use xu_abi::driver::{Arch, ProgramEngine, ProgramEngineNc, ProgramEngineNc64};
use xu_device::map::CORE_BLOCK_STRIDE;

/// PROGRAM_ENGINE: through core 0.
pub(in crate::driver) fn program_engine(call: &Call<'_>) -> Handled {
    let argument: ProgramEngine = call.argument()?;
    program(
        call,
        &ProgramEngineNc64 {
            dst: argument.dst,
            buffer: argument.buffer,
            size: argument.size.into(),
            offset: argument.offset.into(),
            ..ProgramEngineNc64::ZEROED
        },
    )
}

/// PROGRAM_ENGINE_NC.
pub(in crate::driver) fn program_engine_nc(call: &Call<'_>) -> Handled {
    let argument: ProgramEngineNc = call.argument()?;
    program(
        call,
        &ProgramEngineNc64 {
            nc_id: argument.nc_id,
            dst: argument.dst,
            buffer: argument.buffer,
            size: argument.size.into(),
            offset: argument.offset.into(),
            ..ProgramEngineNc64::ZEROED
        },
    )
}

/// PROGRAM_ENGINE_NC64.
pub(in crate::driver) fn program_engine_nc64(call: &Call<'_>) -> Handled {
    program(call, &call.argument()?)
}

fn program(call: &Call<'_>, asked: &ProgramEngineNc64) -> Handled {
    if asked.nc_id >= call.device.cores() {
        return Err(Failure::Errno(EINVAL));
    }
    let to = asked.dst.wrapping_add(asked.offset);
    let end = to.checked_add(asked.size).ok_or_else(|| Bug {
        trap: 24,
        what: format!("{to:#x} + {:#x} wraps around", asked.size),
    })?;
    let is_inside = |window: Range<u64>| window.start <= to && end <= window.end;
    if !windows(call.device.config().arch).any(is_inside) {
        return Err(Failure::Errno(ENOMEM));
    }
    in_time(call, QueueKey::of_core(call.device.table(), asked.nc_id))?;
    carry(call, asked.buffer.wrapping_add(asked.offset), to..end)
}

/// Through the driver's own memory, step by step, as only its copies reach engines. Nobody is held up while the memory of the
/// caller is fetched, which can take its time.
fn carry(call: &Call<'_>, mut buffer: u64, mut to: Range<u64>) -> Handled {
    let chip = &call.device.chip;
    let bounce = call.device.chunks.lock().bounce();
    while !to.is_empty() {
        let step = BOUNCE.min(to.end - to.start);
        // CAST: at most 64 KiB.
        let mut bytes = vec![0; step as usize];
        call.caller.read(buffer, &mut bytes)?;
        // Whoever holds it has the bounce buffer.
        let copies = call.device.copies.lock();
        let copied = chip
            .write(bounce, &bytes)
            .and_then(|()| chip.copy(bounce, to.start, step));
        drop(copies);
        copied.map_err(|_| Failure::Errno(EPERM))?;
        to.start += step;
        buffer = buffer.wrapping_add(step);
    }
    Ok(())
}

/// What may be written: cores and TOPSPs, on v3 also memory. The pre-processors of v3 are nowhere in the emulation.
fn windows(arch: Arch) -> impl Iterator<Item = Range<u64>> {
    let table = arch.table();
    let cores = (0..table.cores.into())
        .filter_map(|core| at(table.core_pa, core))
        .map(|base| base..base + CORE_BLOCK_STRIDE);
    let topsps = (0..table.topsps.into())
        .filter_map(move |id| Window::of(arch, Block::Topsp, id, Resource::All))
        .map(|window| window.offset..window.offset + window.bytes);
    let memories = table
        .hbm
        .iter()
        .filter(move |_| arch == Arch::V3)
        .map(|base| *base..base + table.hbm_bytes);
    cores.chain(topsps).chain(memories)
}
