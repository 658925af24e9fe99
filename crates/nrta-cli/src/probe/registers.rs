//! The registers of the core's notification block: their values after a reset, and which hold what is written.
//!
//! Only bits of the last queue are changed, which nobody uses, while it has no ring; each is put back. Registers whose effect is
//! not known are read and not written.

use super::Experiment;
use super::report::Report;
use super::subject::Subject;
use nrta::neuron::DriverError;
use nrta::neuron::abi::nq_register::NQ_STRIDE;
use nrta::neuron::abi::unverified::{
    NQ_BACK_PRESSURE, NQ_COALESCE_CONTROL, NQ_COALESCE_TIMER, NQ_ENABLE, NQ_FULL,
    NQ_INPUT_ENABLE_0, NQ_INPUT_ENABLE_1, NQ_OVERWRITE, NQ_QUEUES_OF_CORE, NQ_THRESHOLD,
    NQ_THRESHOLD_PASSED, NQ_TIMESTAMP_HIGH, NQ_TIMESTAMP_INCREMENT, NQ_TIMESTAMP_LOW,
};
use std::time::{Duration, Instant};

pub(super) const EXPERIMENT: Experiment = Experiment {
    facts: &[
        "NQ_TIMESTAMP_LOW",
        "NQ_TIMESTAMP_HIGH",
        "TIMESTAMP_RATE",
        "NQ_ENABLE",
        "NQ_BACK_PRESSURE",
        "NQ_OVERWRITE",
        "POLICY_RESET_VALUES",
        "NQ_THRESHOLD",
    ],
    run,
};

/// The queue that nobody uses.
const LAST_QUEUE: u64 = NQ_QUEUES_OF_CORE - 1;
/// How long the clock of the device is compared with ours.
const INTERVAL: Duration = Duration::from_millis(20);
/// Registers that are read and left alone.
const READ_ONLY: [(&str, u64); 7] = [
    ("NQ_INPUT_ENABLE_0", NQ_INPUT_ENABLE_0),
    ("NQ_INPUT_ENABLE_1", NQ_INPUT_ENABLE_1),
    ("NQ_COALESCE_TIMER", NQ_COALESCE_TIMER),
    ("NQ_COALESCE_CONTROL", NQ_COALESCE_CONTROL),
    ("NQ_FULL", NQ_FULL),
    ("NQ_THRESHOLD_PASSED", NQ_THRESHOLD_PASSED),
    ("NQ_TIMESTAMP_INCREMENT", NQ_TIMESTAMP_INCREMENT),
];

fn run(subject: &mut Subject, report: &mut Report) -> Result<(), DriverError> {
    let block = subject.block(subject.table().core_nq, subject.core.into());
    for (fact, offset) in READ_ONLY {
        let value = subject.register(block + offset)?;
        let seen = format!("read only: {value:#x}");
        report.leave(fact, seen, &[value.into()]);
    }
    clock(subject, block, report)?;
    reset_values(subject, block, report)?;
    for (fact, offset) in [
        ("NQ_ENABLE", NQ_ENABLE),
        ("NQ_BACK_PRESSURE", NQ_BACK_PRESSURE),
        ("NQ_OVERWRITE", NQ_OVERWRITE),
    ] {
        holds(subject, block + offset, 1 << LAST_QUEUE, fact, report)?;
    }
    let threshold = block + NQ_THRESHOLD + NQ_STRIDE * LAST_QUEUE;
    holds(subject, threshold, 0x400, "NQ_THRESHOLD", report)
}

/// Both halves at one moment of ours: the high one again after the low one, in case it has moved on.
fn timestamp(subject: &Subject, block: u64) -> Result<(Instant, u64), DriverError> {
    let offsets = [NQ_TIMESTAMP_HIGH, NQ_TIMESTAMP_LOW, NQ_TIMESTAMP_HIGH];
    loop {
        let mut halves = [0; 3];
        subject
            .node
            .read_registers(&offsets.map(|offset| block + offset), &mut halves)?;
        let [before, low, high] = halves.map(u64::from);
        if before == high {
            return Ok((Instant::now(), high << 32 | low));
        }
    }
}

fn clock(subject: &Subject, block: u64, report: &mut Report) -> Result<(), DriverError> {
    let (began, first) = timestamp(subject, block)?;
    std::thread::sleep(INTERVAL);
    let (ended, second) = timestamp(subject, block)?;
    let raw = [first, second];
    let ticks = second.wrapping_sub(first);
    let elapsed = ended.duration_since(began);
    // A second's worth of ticks of a clock of 64 GHz: more is no clock.
    let runs = (1..1 << 36).contains(&ticks);
    let seen = format!("{ticks} ticks in {} us", elapsed.as_micros());
    report.judge("NQ_TIMESTAMP_LOW", runs, seen.clone(), &raw);
    if first >> 32 == 0 {
        let seen = "0 in both samples: it wraps into this half later".to_owned();
        report.leave("NQ_TIMESTAMP_HIGH", seen, &raw);
    } else {
        report.judge("NQ_TIMESTAMP_HIGH", runs, seen.clone(), &raw);
    }
    if runs {
        // CAST: for a reader.
        let rate = ticks as f64 / elapsed.as_secs_f64() / 1e6;
        let seen = format!("{seen}: {rate:.3} MHz");
        report.judge("TIMESTAMP_RATE", true, seen, &raw);
    } else {
        report.leave("TIMESTAMP_RATE", seen, &raw);
    }
    Ok(())
}

fn reset_values(subject: &Subject, block: u64, report: &mut Report) -> Result<(), DriverError> {
    let registers = [
        NQ_ENABLE,
        NQ_BACK_PRESSURE,
        NQ_OVERWRITE,
        NQ_COALESCE_TIMER,
        NQ_COALESCE_CONTROL,
    ];
    let mut values = [0; 5];
    subject
        .node
        .read_registers(&registers.map(|offset| block + offset), &mut values)?;
    let [enable, back_pressure, overwrite, ..] = values;
    let seen =
        format!("enable {enable:#x}, back-pressure {back_pressure:#x}, overwrite {overwrite:#x}");
    let raw = values.map(u64::from);
    if !subject.is_reset {
        report.leave(
            "POLICY_RESET_VALUES",
            format!("{seen}, without a reset"),
            &raw,
        );
        return Ok(());
    }
    let are_zero = back_pressure == 0 && overwrite == 0;
    report.judge("POLICY_RESET_VALUES", are_zero, seen.clone(), &raw);
    report.judge(
        "NQ_ENABLE",
        enable == 0,
        format!("{seen} after a reset"),
        &raw,
    );
    Ok(())
}

/// Changes bits of a register, reads them back, and puts the register back.
fn holds(
    subject: &Subject,
    offset: u64,
    bits: u32,
    fact: &'static str,
    report: &mut Report,
) -> Result<(), DriverError> {
    let before = subject.register(offset)?;
    let asked = before ^ bits;
    subject.node.write_registers(&[(offset, asked)])?;
    let read = subject.register(offset)?;
    subject.node.write_registers(&[(offset, before)])?;
    let seen = format!("{before:#x}, {asked:#x} written, {read:#x} read");
    let raw = [before, asked, read].map(u64::from);
    report.judge(fact, read == asked, seen, &raw);
    Ok(())
}
