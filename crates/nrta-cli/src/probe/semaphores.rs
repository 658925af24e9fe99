//! Semaphores and events: by ioctl, by register, by mapped window.
//!
//! Of the highest numbers, which no program and no part of the lane uses; they are 0 afterwards.

use super::Experiment;
use super::report::Report;
use super::subject::Subject;
use nrta::neuron::abi::window::{Block, Resource};
use nrta::neuron::map::EVENT_WINDOW;
use nrta::neuron::{DriverError, EventIndex, Meaning, SemIndex};
use std::sync::atomic::Ordering;

pub(super) const EXPERIMENT: Experiment = Experiment {
    facts: &["SEMAPHORE_REGISTERS", "EVENT_WINDOW", "CORE_BLOCK_STRIDE"],
    run,
};

pub(super) const WINDOWS: Experiment = Experiment {
    facts: &["SEMAPHORE_WINDOW", "MAPPED_DOORBELL"],
    run: windows,
};

/// The last of each.
pub(super) const SEMAPHORE: SemIndex = SemIndex::new(255);
pub(super) const EVENT: EventIndex = EventIndex::new(255);
const LAST: u64 = 255;
/// Sub-windows of semaphores, from that of the events on.
const READ: u64 = 0x1000;
const ADD: u64 = 0x1800;

fn run(subject: &mut Subject, report: &mut Report) -> Result<(), DriverError> {
    let (node, core) = (&subject.node, subject.core);
    let window = subject.block(subject.table().core_bar0, core.into()) + EVENT_WINDOW;
    node.write_semaphore(core, SEMAPHORE, 5)?;
    node.increment_semaphore(core, SEMAPHORE, 3)?;
    node.decrement_semaphore(core, SEMAPHORE, 10)?;
    let value = node.read_semaphore(core, SEMAPHORE)?;
    let register = subject.register(window + READ + 4 * LAST)?;
    node.write_semaphore(core, SEMAPHORE, 0)?;
    // CAST: a signed register, and the words of both.
    report.judge(
        "SEMAPHORE_REGISTERS",
        value == -2 && register as i32 == -2,
        format!(
            "5 + 3 - 10 is {value} by ioctl and {} in the register",
            register as i32
        ),
        &[value as u32 as u64, register.into()],
    );
    node.set_event(core, EVENT, true)?;
    let is_set = node.is_event_set(core, EVENT)?;
    let register = subject.register(window + 4 * LAST)?;
    node.set_event(core, EVENT, false)?;
    let holds = is_set && register & 1 == 1;
    let seen = format!("event 255 set: {is_set} by ioctl, {register:#x} in the register");
    report.judge("EVENT_WINDOW", holds, seen, &[register.into()]);
    if core == 0 {
        let seen = "core 0 says nothing of it: run again with --core 1".to_owned();
        report.leave("CORE_BLOCK_STRIDE", seen, &[]);
    } else {
        let seen = format!("the event of core {core} is where the stride puts it: {holds}");
        report.judge("CORE_BLOCK_STRIDE", holds, seen, &[window]);
    }
    Ok(())
}

fn windows(subject: &mut Subject, report: &mut Report) -> Result<(), DriverError> {
    let (node, core) = (&subject.node, subject.core);
    let mapping = match node.map_window(Block::Tpb, core.into(), Resource::Semaphores) {
        Ok(mapping) => mapping,
        // Whoever rings then does it by ioctl.
        Err(error) if error.meaning() == Some(Meaning::BadArgument) => return Err(error),
        Err(error @ DriverError::Nonsense { value, .. }) => {
            report.judge("SEMAPHORE_WINDOW", false, error.to_string(), &[value]);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    // CAST: offsets inside a window of 8 KiB.
    let word = |window: u64| mapping.word((window + 4 * LAST) as usize);
    let (Some(read), Some(add)) = (word(READ), word(ADD)) else {
        return Err(DriverError::Forked);
    };
    node.write_semaphore(core, SEMAPHORE, 40)?;
    // Relaxed, both: registers, not memory; the ioctls order them.
    let mapped = read.load(Ordering::Relaxed);
    report.judge(
        "SEMAPHORE_WINDOW",
        mapped == 40,
        format!("40 by ioctl is {mapped} in the window"),
        &[mapped.into()],
    );
    add.store(2, Ordering::Relaxed);
    let value = node.read_semaphore(core, SEMAPHORE)?;
    node.write_semaphore(core, SEMAPHORE, 0)?;
    let seen = format!("a store of 2 to the window made {value} of 40");
    // CAST: bits for a reader.
    report.judge("MAPPED_DOORBELL", value == 42, seen, &[value as u64]);
    Ok(())
}
