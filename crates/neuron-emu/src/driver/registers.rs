//! Registers through BAR0, hardware counters, and where windows of registers are.
//!
//! Spec `driver.md` sections 3, registers, and 4. User space knows registers by absolute addresses, from the base that
//! DEVICE_INFO tells.

mod refused;

use super::bug::Bug;
use super::call::{Call, Failure, Handled};
use super::trace::Event;
use crate::choices::MOST_REGISTERS;
use refused::is_refused;
use xu_abi::driver::errno::{EINVAL, ENOMEM};
use xu_abi::driver::window::{Block, Resource, Window};
use xu_abi::driver::{BarRw, ReadHwCounters, ResourceMmapInfo};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The BAR that holds memory.
const MEMORY_BAR: u32 = 2;

/// BAR_READ: addresses are not checked by the driver.
pub(super) fn bar_read(call: &Call<'_>) -> Handled {
    let argument: BarRw = call.argument()?;
    if argument.count > BarRw::MAX_COUNT {
        return Err(Failure::Errno(EINVAL));
    }
    if argument.bar == MEMORY_BAR && argument.count > 1 {
        let what = format!("BAR_READ of {} registers of bar 2", argument.count);
        return Err(Failure::Bug(Bug { trap: 20, what }));
    }
    if argument.bar != 0 {
        return Err(Failure::Errno(EINVAL));
    }
    let addresses: Vec<u64> = array(call, argument.address, argument.count)?;
    let read = |address| {
        let offset = offset_in_bar0(call, address).ok_or_else(|| Bug {
            trap: 20,
            what: format!("BAR_READ of {address:#x}, outside BAR0"),
        })?;
        Ok(call.device.chip.read_register(offset))
    };
    let values: Vec<u32> = addresses
        .into_iter()
        .map(read)
        .collect::<Result<_, Failure>>()?;
    Ok(call.caller.write(argument.data, values.as_bytes())?)
}

/// BAR_WRITE: stops at the first register that it refuses; those before it have been written.
pub(super) fn bar_write(call: &Call<'_>) -> Handled {
    let argument: BarRw = call.argument()?;
    if argument.bar != 0 {
        return Err(Failure::Errno(EINVAL));
    }
    if argument.count > MOST_REGISTERS {
        return Err(Failure::Errno(ENOMEM));
    }
    let addresses: Vec<u64> = array(call, argument.address, argument.count)?;
    let values: Vec<u32> = array(call, argument.data, argument.count)?;
    for (address, value) in addresses.into_iter().zip(values) {
        let offset = offset_in_bar0(call, address).ok_or(Failure::Errno(EINVAL))?;
        if is_refused(call.device.table(), offset) {
            return Err(Failure::Errno(EINVAL));
        }
        call.device.chip.write_register(offset, value);
        call.device
            .record(call.pid(), Event::Register { offset, value });
        // The head of a notification ring has to stay between its old value and the tail.
        for misuse in call.device.chip.client_bugs() {
            call.device.warn(call.pid(), misuse);
        }
    }
    Ok(())
}

/// READ_HW_COUNTERS: firmware reads the words at these addresses. Where no memory is, nothing has been counted.
pub(super) fn read_hw_counters(call: &Call<'_>) -> Handled {
    let argument: ReadHwCounters = call.argument()?;
    if argument.count > MOST_REGISTERS {
        return Err(Failure::Bug(Bug {
            trap: 25,
            what: format!("READ_HW_COUNTERS of {} counters", argument.count),
        }));
    }
    let addresses: Vec<u64> = array(call, argument.address, argument.count)?;
    let count = |address| {
        let mut word = [0; 4];
        match call.device.chip.read(address, &mut word) {
            Ok(()) => u32::from_ne_bytes(word),
            Err(_) => 0,
        }
    };
    let values: Vec<u32> = addresses.into_iter().map(count).collect();
    Ok(call.caller.write(argument.data, values.as_bytes())?)
}

/// RESOURCE_MMAP_INFO. Windows of semaphores cannot be emulated, as nothing sees a store to them: there are none.
pub(super) fn resource_mmap_info(call: &Call<'_>) -> Handled {
    let mut argument: ResourceMmapInfo = call.argument()?;
    let window = window(call, &argument).ok_or(Failure::Errno(EINVAL))?;
    argument.offset = window.offset;
    argument.size = window.bytes;
    Ok(call.answer(&argument)?)
}

fn window(call: &Call<'_>, asked: &ResourceMmapInfo) -> Option<Window> {
    let block = Block::from_raw(asked.block)?;
    let resource = Resource::from_raw(asked.resource)?;
    if resource == Resource::Semaphores {
        return None;
    }
    Window::of(call.device.config().arch, block, asked.block_id, resource)
}

fn offset_in_bar0(call: &Call<'_>, address: u64) -> Option<u64> {
    let bar = call.device.bar0();
    let offset = address.checked_sub(bar.address)?;
    (offset < bar.bytes).then_some(offset)
}

/// So many numbers of the caller's memory.
fn array<N>(call: &Call<'_>, address: u64, count: u32) -> Result<Vec<N>, Failure>
where
    N: FromBytes + IntoBytes + Immutable + Clone,
{
    // CAST: widening.
    let mut numbers = vec![N::new_zeroed(); count as usize];
    call.caller.read(address, numbers.as_mut_bytes())?;
    Ok(numbers)
}
