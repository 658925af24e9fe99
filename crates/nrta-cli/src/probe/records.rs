//! Notification records: the phase of the first lap, its flip at the wrap, and how positions are counted.
//!
//! Records of the execution engines need a program, so this asks the DMA engine of [`super::rings`] for records of its copies. No
//! document says that it writes any; when it does not, nothing is said.

use super::Experiment;
use super::report::Report;
use super::rings::{Copier, ENGINE, INTERRUPT};
use super::subject::Subject;
use nrta::neuron::abi::nq_register::NQ_HEAD;
use nrta::neuron::abi::unverified::{NQ_ENABLE, NQ_FIRST_PHASE, NQ_FULL, NQ_TAIL};
use nrta::neuron::abi::{NqDevice, NqType};
use nrta::neuron::map::ENGINES_PER_CORE;
use nrta::neuron::{DriverError, Mapping, NqRing, NqSpec};
use std::sync::atomic::Ordering;

pub(super) const EXPERIMENT: Experiment = Experiment {
    facts: &[
        "NQ_FIRST_PHASE",
        "FIRST_PHASE",
        "PHASE_FLIPS",
        "NQ_TAIL",
        "NQ_HEAD_UNIT",
        "HEAD_MAY_REACH_TAIL",
        "REINIT_RESETS_TAIL",
    ],
    run,
};

const RING_BYTES: u32 = 4096;
const RECORD: u32 = 16;
/// Copies that go round the ring once, when each makes one record at least.
const COPIES: u32 = RING_BYTES / RECORD + 16;

fn run(subject: &mut Subject, report: &mut Report) -> Result<(), DriverError> {
    let engine = ENGINES_PER_CORE * u32::from(subject.core) + ENGINE;
    let block = subject.block(subject.table().sdma_nq, engine);
    let ring = open(subject)?;
    let fresh = subject.register(block + NQ_TAIL)?;
    subject
        .node
        .write_registers(&[(block + NQ_HEAD, 0), (block + NQ_ENABLE, 1)])?;
    let found = watch(subject, block, ring.mapping(), report);
    let tail = subject.register(block + NQ_TAIL)?;
    if found.is_ok() && tail != 0 {
        drop(ring);
        let again = open(subject)?;
        let after = subject.register(block + NQ_TAIL)?;
        let seen = format!("tail {fresh:#x} at first, {tail:#x} before, {after:#x} after");
        report.judge(
            "REINIT_RESETS_TAIL",
            after == 0,
            seen,
            &[tail.into(), after.into()],
        );
        drop(again);
    }
    subject.node.write_registers(&[(block + NQ_ENABLE, 0)])?;
    found
}

fn open(subject: &Subject) -> Result<NqRing, DriverError> {
    let spec = NqSpec {
        device: NqDevice::Core,
        id: subject.core,
        nq_type: NqType::TraceDma,
        // CAST: below 16.
        engine_index: ENGINE as u8,
        bytes: RING_BYTES,
    };
    NqRing::open(&subject.node, spec)
}

fn watch(
    subject: &Subject,
    block: u64,
    ring: &Mapping,
    report: &mut Report,
) -> Result<(), DriverError> {
    let mut copier = Copier::open(subject)?;
    for copy in 0..4 {
        if !copier.copy(copy, INTERRUPT)?.is_whole() {
            for fact in EXPERIMENT.facts {
                report.leave(fact, "copies do not arrive".to_owned(), &[]);
            }
            return Ok(());
        }
    }
    let tail = subject.register(block + NQ_TAIL)?;
    let first = word(ring, 0);
    let raw: Vec<u64> = (0..4).map(|at| word(ring, 4 * at).into()).collect();
    if tail == 0 && first == 0 {
        for fact in EXPERIMENT.facts {
            report.leave(fact, "copies make no records here".to_owned(), &raw);
        }
        return Ok(());
    }
    let phase = first >> 31;
    let seen = format!("the first record begins with {first:#010x}: phase {phase}");
    // CAST: 0 or 1.
    let holds = phase == NQ_FIRST_PHASE as u32;
    report.judge("NQ_FIRST_PHASE", holds, seen.clone(), &raw);
    report.judge("FIRST_PHASE", holds, seen, &raw);
    let seen = format!("{tail:#x} after 4 copies");
    let in_ring = tail.is_multiple_of(RECORD) && tail < RING_BYTES;
    report.judge("NQ_TAIL", tail != 0 && in_ring, seen, &[tail.into()]);
    // Everything is given back: head = tail is to mean that the ring is empty, and in bytes.
    subject.node.write_registers(&[(block + NQ_HEAD, tail)])?;
    let head = subject.register(block + NQ_HEAD)?;
    let seen = format!("{tail:#x} written, {head:#x} read");
    report.judge("NQ_HEAD_UNIT", head == tail, seen, &[head.into()]);
    lap(subject, block, ring, &mut copier, phase, report)
}

/// Goes on until the ring has wrapped, and gives every record back at once.
fn lap(
    subject: &Subject,
    block: u64,
    ring: &Mapping,
    copier: &mut Copier,
    phase: u32,
    report: &mut Report,
) -> Result<(), DriverError> {
    let mut last = subject.register(block + NQ_TAIL)?;
    for copy in 0..COPIES {
        if !copier.copy(copy, INTERRUPT)?.is_whole() {
            break;
        }
        let tail = subject.register(block + NQ_TAIL)?;
        subject.node.write_registers(&[(block + NQ_HEAD, tail)])?;
        if tail < last {
            let full = subject.register(block + NQ_FULL)?;
            let (first, flipped) = (word(ring, 0), word(ring, 0) >> 31 != phase);
            let seen = format!("at the wrap the first record is {first:#010x}");
            let raw = [first, last, tail, full].map(u64::from);
            report.judge("PHASE_FLIPS", flipped || tail == 0, seen, &raw);
            let seen = "with head = tail after every copy a whole lap came".to_owned();
            report.judge("HEAD_MAY_REACH_TAIL", true, seen, &raw);
            return Ok(());
        }
        last = tail;
    }
    let seen = format!("{COPIES} copies did not fill the ring: tail {last:#x}");
    report.leave("PHASE_FLIPS", seen.clone(), &[last.into()]);
    report.leave("HEAD_MAY_REACH_TAIL", seen, &[last.into()]);
    Ok(())
}

fn word(ring: &Mapping, offset: usize) -> u32 {
    ring.word(offset).map_or(0, |word| {
        // PAIRS: with the device, which writes word 0 of a record last.
        word.load(Ordering::Acquire)
    })
}
