//! Semaphores and events: each call is one register.
//!
//! Spec `driver.md` section 7. The index of a semaphore is cut to 16 bits before it is compared; the core of an event is
//! not compared at all, and event 256 passes.

use super::bug::Bug;
use super::call::{Call, Failure, Handled};
use xu_abi::driver::arch::at;
use xu_abi::driver::core_window::{EVENTS, SEMAPHORES};
use xu_abi::driver::errno::{E2BIG, EINVAL};
use xu_abi::driver::{Event, Semaphore};

/// SEMAPHORE_INCREMENT: adds the value.
pub(super) fn semaphore_increment(call: &Call<'_>) -> Handled {
    let (argument, core, index) = semaphore(call)?;
    add(call, core, index, argument.value)
}

/// SEMAPHORE_DECREMENT: subtracts the value.
pub(super) fn semaphore_decrement(call: &Call<'_>) -> Handled {
    let (argument, core, index) = semaphore(call)?;
    add(call, core, index, argument.value.wrapping_neg())
}

/// SEMAPHORE_READ.
pub(super) fn semaphore_read(call: &Call<'_>) -> Handled {
    let (mut argument, core, index) = semaphore(call)?;
    argument.value = call.device.chip.semaphore(core, index);
    Ok(call.answer(&argument)?)
}

/// SEMAPHORE_WRITE.
pub(super) fn semaphore_write(call: &Call<'_>) -> Handled {
    let (argument, core, index) = semaphore(call)?;
    call.device.chip.set_semaphore(core, index, argument.value);
    Ok(())
}

/// EVENT_SET: the register has one bit.
pub(super) fn event_set(call: &Call<'_>) -> Handled {
    let (argument, core, event) = event(call)?;
    let chip = &call.device.chip;
    match event {
        EventRegister::Event(index) => chip.set_event(core, index, argument.value & 1 == 1),
        EventRegister::Beyond(offset) => chip.write_register(offset, argument.value),
    }
    Ok(())
}

/// EVENT_GET.
pub(super) fn event_get(call: &Call<'_>) -> Handled {
    let (mut argument, core, event) = event(call)?;
    let chip = &call.device.chip;
    argument.value = match event {
        EventRegister::Event(index) => chip.event(core, index).into(),
        EventRegister::Beyond(offset) => chip.read_register(offset),
    };
    Ok(call.answer(&argument)?)
}

fn add(call: &Call<'_>, core: u8, index: u8, value: i32) -> Handled {
    let added = call.device.chip.add_to_semaphore(core, index, value);
    added.map_err(Failure::Errno)
}

/// The argument of a call about a semaphore, and which one it is.
fn semaphore(call: &Call<'_>) -> Result<(Semaphore, u8, u8), Failure> {
    let argument: Semaphore = call.argument()?;
    let core = core(call, argument.nc_id).ok_or(Failure::Errno(E2BIG))?;
    // CAST: cut, as the driver does.
    let index = u8::try_from(argument.semaphore_index as u16);
    Ok((argument, core, index.map_err(|_| Failure::Errno(EINVAL))?))
}

/// What the number of an event names.
enum EventRegister {
    Event(u8),
    /// The register behind the last event, in BAR0.
    Beyond(u64),
}

fn event(call: &Call<'_>) -> Result<(Event, u8, EventRegister), Failure> {
    let argument: Event = call.argument()?;
    if u64::from(argument.event_index) > SEMAPHORES {
        return Err(Failure::Errno(EINVAL));
    }
    let core = core(call, argument.nc_id).ok_or_else(|| Bug {
        trap: 21,
        what: format!("{} of core {}", call.ioctl.name, argument.nc_id),
    })?;
    let register = match u8::try_from(argument.event_index) {
        Ok(index) => EventRegister::Event(index),
        Err(_) => EventRegister::Beyond(
            at(call.device.table().core_bar0, core.into()).unwrap_or_default()
                + EVENTS
                + 4 * SEMAPHORES,
        ),
    };
    Ok((argument, core, register))
}

fn core(call: &Call<'_>, nc_id: u32) -> Option<u8> {
    let exists = nc_id < call.device.cores();
    u8::try_from(nc_id).ok().filter(|_| exists)
}
