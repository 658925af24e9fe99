//! Memory: names of chunks, their contents, and what the driver says of them.

use super::Experiment;
use super::report::Report;
use super::subject::Subject;
use nrta::neuron::abi::{Arch, arch, errno, errno::Answer};
use nrta::neuron::map::HBM_RESERVED;
use nrta::neuron::{DriverError, Mapping};
use std::sync::atomic::Ordering;

pub(super) const EXPERIMENT: Experiment = Experiment {
    facts: &[
        "HANDLES_REUSED_LAST_FIRST",
        "EXTENDED_INFO_OVERWRITES",
        "HOST_CHUNKS_ZEROED",
        "HBM_RESERVED",
        "LOGICAL_NC_MAP",
    ],
    run,
};

/// Chunks that are looked into, all of them at once.
const CHUNKS: usize = 8;
const CHUNK_BYTES: u64 = 256 << 10;

fn run(subject: &mut Subject, report: &mut Report) -> Result<(), DriverError> {
    logical_cores(subject, report);
    handles(subject, report)?;
    zeroes(subject, report)?;
    reserved(subject, report)
}

fn handles(subject: &Subject, report: &mut Report) -> Result<(), DriverError> {
    let first = subject.host_chunk(4096)?;
    let second = subject.host_chunk(4096)?;
    let freed = second.handle().get();
    drop(second);
    let third = subject.host_chunk(4096)?;
    let raw = [first.handle().get(), freed, third.handle().get()];
    report.judge(
        "HANDLES_REUSED_LAST_FIRST",
        raw[2] == freed,
        format!("{}, then {freed}, freed and then {}", raw[0], raw[2]),
        &raw,
    );
    let info = first.extended_info()?;
    report.judge(
        "EXTENDED_INFO_OVERWRITES",
        info.mem_handle != raw[0],
        format!("handle {} came back as {:#x}", raw[0], info.mem_handle),
        &[info.mem_handle, info.version.into(), info.pid],
    );
    Ok(())
}

fn zeroes(subject: &Subject, report: &mut Report) -> Result<(), DriverError> {
    let mut chunks = Vec::new();
    for _ in 0..CHUNKS {
        chunks.push(subject.host_chunk(CHUNK_BYTES)?);
    }
    let mut dirty = None;
    for chunk in &chunks {
        let found = first_word(chunk.map()?);
        dirty = dirty.or(found.map(|(offset, word)| [chunk.addr().get(), offset, word]));
    }
    let seen = match dirty {
        None => format!("{CHUNKS} chunks of {CHUNK_BYTES} bytes"),
        Some([_, offset, _]) => format!("another word than 0 at offset {offset}"),
    };
    let raw = dirty.map_or_else(Vec::new, Vec::from);
    report.judge("HOST_CHUNKS_ZEROED", dirty.is_none(), seen, &raw);
    Ok(())
}

/// Offset and value of the first word that is not 0.
fn first_word(mapping: &Mapping) -> Option<(u64, u64)> {
    (0..mapping.bytes()).step_by(4).find_map(|offset| {
        // Relaxed: nobody writes.
        let word = mapping.word(offset)?.load(Ordering::Relaxed);
        // CAST: an offset fits 64 bits.
        (word != 0).then_some((offset as u64, word.into()))
    })
}

/// No chunk may lie in the memory of the firmware.
fn reserved(subject: &Subject, report: &mut Report) -> Result<(), DriverError> {
    let chunk = subject.device_chunk(CHUNK_BYTES)?;
    let addr = chunk.addr().get();
    let below = |base: &&u64| **base <= addr;
    let base = subject.table().hbm.iter().rev().find(below);
    let offset = addr - base.copied().unwrap_or(0);
    report.judge(
        "HBM_RESERVED",
        offset >= HBM_RESERVED,
        format!("a chunk {offset:#x} bytes into its memory"),
        &[addr],
    );
    Ok(())
}

/// Where the logical cores are: not told on v2, with a number of the kernel's own; on v3 in one of four orders.
fn logical_cores(subject: &Subject, report: &mut Report) {
    let fact = "LOGICAL_NC_MAP";
    let node = &subject.node;
    let answer = node.logical_cores();
    if node.identity().arch == Arch::V2 {
        return match answer {
            Err(DriverError::Answered { answer, .. }) => {
                let number = match answer {
                    Answer::Done => 0,
                    Answer::Positive(number) | Answer::Errno(number) => number,
                };
                report.judge(
                    fact,
                    answer == Answer::Errno(errno::ENOTSUPP),
                    format!("{answer:?}"),
                    // CAST: bits for a reader.
                    &[number as u64],
                );
            }
            other => report.judge(fact, false, format!("{other:?}"), &[]),
        };
    }
    let (entries, own) = match (answer, node.host_device()) {
        (Ok(entries), Ok(own)) => (entries, own),
        (Err(error), _) | (_, Err(error)) => return report.leave(fact, error.to_string(), &[]),
    };
    let cores: Vec<_> = entries
        .iter()
        .filter(|entry| entry.device_id == own)
        .map(|entry| entry.device_nc_idx)
        .collect();
    let is_order = |odd| {
        let order = arch::v3_core_order(own, odd);
        order
            .iter()
            .map(|core| u32::from(*core))
            .eq(cores.iter().copied())
    };
    let raw: Vec<u64> = cores.iter().map(|core| u64::from(*core)).collect();
    let seen = format!("device {own} of the host: cores {cores:?}");
    report.judge(fact, is_order(false) || is_order(true), seen, &raw);
}
