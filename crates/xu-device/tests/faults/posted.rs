//! What a core posts for one doorbell when faults hit it, by the documented meaning of each fault.
//!
//! The oracle's picture of the machine, and nothing of the machine: records here have an order and the earliest moment
//! at which they can lie in their ring, and no bytes.
//! Where several faults hit the same engine and the documentation does not say in which order they act, every order
//! is a possible world of its own.

use xu_abi::Engine;
use xu_abi::record::{Custom, ErrorKind, Subtype};
use xu_device::simulated::{Fault, Mark};

/// One doorbell of a core, as the driver of the test saw it.
#[derive(Clone, Debug)]
pub(crate) struct Doorbell {
    /// When it was rung, nanoseconds.
    pub(crate) at_ns: u64,
    /// The faults that hit it.
    pub(crate) faults: Vec<Fault>,
}

/// A record of a status ring.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Which doorbell of its core it belongs to.
    pub(crate) run: usize,
    pub(crate) subtype: Subtype,
    pub(crate) custom: Custom,
    pub(crate) hint: u8,
    /// Whether its time stamp is the true one.
    pub(crate) true_stamp: bool,
    /// Whether it says that records before it were lost.
    pub(crate) lost_before: bool,
    /// Whether it is posted in any case.
    pub(crate) sure: bool,
    /// It is not in the ring before this moment, nanoseconds.
    pub(crate) earliest_ns: u64,
    /// Whether it is posted when its engine begins.
    at_begin: bool,
    /// Which of the two it was made as.
    mark: Option<Mark>,
}

/// Whether something happens in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    Certain,
    Possible,
}

/// What a doorbell leads to.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The records of each engine: one entry for each order in which the faults can act.
    pub(crate) engines: [Vec<Vec<Record>>; 5],
    /// What is reported on the error ring.
    pub(crate) errors: Vec<(ErrorKind, Certainty)>,
    /// What is counted as a memory error.
    pub(crate) counted: Vec<(MemoryError, Certainty)>,
    /// Whether the request queue stops.
    pub(crate) aborts: bool,
    /// Whether the overflow cause is latched.
    pub(crate) latches: bool,
    /// Nothing has happened before this moment, nanoseconds.
    pub(crate) begins_earliest_ns: u64,
    /// Everything has happened before this moment, nanoseconds.
    pub(crate) latest_ns: u64,
    /// An execution that the core serves next begins no earlier than this, nanoseconds.
    pub(crate) ends_earliest_ns: u64,
    /// The core serves no later doorbell.
    pub(crate) hangs: bool,
    /// Queues that lost records and say so with the next one.
    pub(crate) overflows: [bool; 5],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryError {
    Sram,
    Hbm,
    Repairable,
}

/// Between which moments a run begins, and how long one without faults takes at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    pub(crate) earliest_ns: u64,
    pub(crate) latest_ns: u64,
    pub(crate) at_most_ns: u64,
}

/// What the core does on `doorbell`; `None` when nothing runs.
pub(crate) fn run(index: usize, doorbell: &Doorbell, begin: Begin, chained: bool) -> Option<Run> {
    let faults = &doorbell.faults;
    let lost = |fault: &Fault| {
        matches!(
            fault,
            Fault::DoorbellLost | Fault::DoorbellFails { .. } | Fault::DeviceLost
        )
    };
    if faults.iter().any(lost) {
        return None;
    }
    let aborts = faults.contains(&Fault::DmaAbort);
    let hangs = faults.iter().any(stops);
    let engines = Engine::ALL.map(|engine| {
        let mut streams = streams(index, engine, faults, begin.earliest_ns);
        // Nothing runs when the request does not arrive.
        if aborts {
            streams.push(pristine(index, begin.earliest_ns).to_vec());
        }
        // Engines that wait for a hung one post nothing more.
        if hangs && chained {
            let records = streams.iter_mut().flatten();
            records.for_each(|record| record.sure = record.at_begin);
        }
        streams
    });
    let delay = faults.iter().map(delay_ns).sum::<u64>();
    let ends_earliest_ns = Engine::ALL
        .map(|engine| begin.earliest_ns + delay_of(engine, faults))
        .into_iter()
        .max();
    // Of several faults that stop engines, the first may keep the others from happening.
    let stops = faults.iter().filter(|fault| stops(fault)).count();
    let alone = if aborts || stops > 1 {
        Certainty::Possible
    } else {
        Certainty::Certain
    };
    let unsure = if aborts || hangs {
        Certainty::Possible
    } else {
        Certainty::Certain
    };
    let mut errors: Vec<_> = faults
        .iter()
        .filter_map(error_kind)
        .map(|kind| (kind, unsure))
        .collect();
    if aborts {
        errors.push((ErrorKind::SoftwareSequencer, Certainty::Certain));
    }
    Some(Run {
        engines,
        errors,
        counted: faults
            .iter()
            .filter_map(|fault| counted(fault, unsure, alone))
            .collect(),
        aborts,
        latches: faults
            .iter()
            .any(|fault| matches!(fault, Fault::Overflow { latched: true, .. })),
        begins_earliest_ns: begin.earliest_ns,
        latest_ns: begin.latest_ns + begin.at_most_ns + delay,
        ends_earliest_ns: ends_earliest_ns.unwrap_or(begin.earliest_ns),
        hangs: hangs && !aborts,
        overflows: Engine::ALL.map(|engine| {
            faults
                .iter()
                .any(|fault| matches!(fault, Fault::Overflow { engine: of, .. } if *of == engine))
        }),
    })
}

/// START and END.
fn pristine(run: usize, earliest_ns: u64) -> [Record; 2] {
    [Mark::Start, Mark::End].map(|mark| Record {
        run,
        subtype: subtype_of(mark),
        custom: Custom::from_raw(0),
        hint: 0,
        true_stamp: true,
        lost_before: false,
        sure: true,
        earliest_ns,
        at_begin: mark == Mark::Start,
        mark: Some(mark),
    })
}

fn subtype_of(mark: Mark) -> Subtype {
    match mark {
        Mark::Start => Subtype::Start,
        Mark::End => Subtype::End,
    }
}

/// What is left of an engine that does nothing more once it has begun.
fn first(stream: &[Record]) -> Vec<Record> {
    stream.iter().take(1).cloned().collect()
}

/// The records of `engine` under every order of the faults that concern them.
fn streams(run: usize, engine: Engine, faults: &[Fault], earliest_ns: u64) -> Vec<Vec<Record>> {
    let mut records = pristine(run, earliest_ns);
    records[1].earliest_ns += delay_of(engine, faults);
    let mut concerned: Vec<&Fault> = Vec::new();
    for fault in faults.iter().filter(|fault| alters(fault, engine)) {
        // Two that say where START and END are posted say the same.
        let again = matches!(fault, Fault::ReorderRecords { .. }) && concerned.contains(&fault);
        if !again {
            concerned.push(fault);
        }
    }
    let mut streams = Vec::new();
    for order in orders(&concerned) {
        let stream = order
            .iter()
            .fold(records.to_vec(), |stream, fault| altered(stream, fault));
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }
    streams
}

/// Every order of at most four items. Of more, those in which custom records, which there may be many of, come before or
/// after everything else; and the given one.
fn orders<'f>(items: &[&'f Fault]) -> Vec<Vec<&'f Fault>> {
    if items.len() < 2 {
        return vec![items.to_vec()];
    }
    if items.len() > 4 {
        let is_custom = |fault: &&'f Fault| matches!(fault, Fault::Custom { .. });
        let (customs, others): (Vec<&'f Fault>, Vec<&'f Fault>) =
            items.iter().copied().partition(is_custom);
        let mut all = vec![items.to_vec()];
        if others.len() <= 2 {
            for order in orders(&others) {
                all.push([customs.clone(), order.clone()].concat());
                all.push([order, customs.clone()].concat());
            }
        }
        return all;
    }
    let mut all = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(index);
        for mut order in orders(&rest) {
            order.push(item);
            all.push(order);
        }
    }
    all
}

/// Whether `fault` changes which records `engine` posts.
fn alters(fault: &Fault, engine: Engine) -> bool {
    match fault {
        Fault::HangEngine { engine: of }
        | Fault::HbmUncorrectable { engine: of, .. }
        | Fault::DropRecord { engine: of, .. }
        | Fault::DuplicateRecord { engine: of, .. }
        | Fault::ReorderRecords { engine: of }
        | Fault::CorruptRecord { engine: of, .. }
        | Fault::UnknownSubtype { engine: of, .. }
        | Fault::BadDebugHint { engine: of, .. }
        | Fault::Custom { engine: of, .. }
        | Fault::Overflow { engine: of, .. } => *of == engine,
        _ => false,
    }
}

/// What `fault` makes of a stream.
fn altered(mut stream: Vec<Record>, fault: &Fault) -> Vec<Record> {
    let made_as = |record: &Record, mark: Mark| record.mark == Some(mark);
    match fault {
        Fault::HangEngine { .. } | Fault::HbmUncorrectable { .. } => first(&stream),
        Fault::Overflow { .. } => Vec::new(),
        Fault::DropRecord { record, .. } => {
            stream.retain(|one| !made_as(one, *record));
            stream
        }
        Fault::DuplicateRecord { record, .. } => stream
            .into_iter()
            .flat_map(|one| {
                let twice = made_as(&one, *record);
                let copy = twice.then(|| one.clone());
                [Some(one), copy].into_iter().flatten()
            })
            .collect(),
        Fault::ReorderRecords { .. } => {
            for one in &mut stream {
                one.mark = one.mark.map(|mark| match mark {
                    Mark::Start => Mark::End,
                    Mark::End => Mark::Start,
                });
                if let Some(mark) = one.mark {
                    one.subtype = subtype_of(mark);
                }
            }
            stream
        }
        Fault::CorruptRecord {
            record, byte, with, ..
        } => {
            for one in stream.iter_mut().filter(|one| made_as(one, *record)) {
                corrupt(one, *byte, *with);
            }
            stream
        }
        Fault::UnknownSubtype { subtype, .. } => {
            for one in stream.iter_mut().filter(|one| made_as(one, Mark::End)) {
                one.subtype = Subtype::from_raw(*subtype);
            }
            stream
        }
        Fault::BadDebugHint { hint, .. } => {
            for one in stream.iter_mut().filter(|one| made_as(one, Mark::End)) {
                one.hint = *hint;
            }
            stream
        }
        Fault::Custom { sub_id, .. } => {
            let place = stream.len().min(1);
            if let Some(like) = stream.first().cloned() {
                stream.insert(
                    place,
                    Record {
                        subtype: Subtype::Custom,
                        custom: Custom::from_raw(*sub_id),
                        hint: 0,
                        true_stamp: true,
                        at_begin: false,
                        mark: None,
                        ..like
                    },
                );
            }
            stream
        }
        _ => stream,
    }
}

/// Exclusive-ors one byte of a record (`xu.md` 2.9).
fn corrupt(record: &mut Record, byte: u8, with: u8) {
    let low = u16::from(with);
    match byte {
        2 => record.hint ^= with >> 4,
        4 => record.custom = Custom::from_raw(record.custom.raw() ^ low),
        5 => record.custom = Custom::from_raw(record.custom.raw() ^ low << 8),
        6 => record.subtype = Subtype::from_raw(record.subtype.raw() ^ low),
        7 => record.subtype = Subtype::from_raw(record.subtype.raw() ^ low << 8),
        8.. => record.true_stamp &= with == 0,
        // The instruction line and the tag decide nothing.
        _ => {}
    }
}

/// Whether an engine begins and then does nothing more.
fn stops(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::HangEngine { .. } | Fault::HbmUncorrectable { .. }
    )
}

fn delay_ns(fault: &Fault) -> u64 {
    match fault {
        Fault::SlowEngine { by_ns, .. } | Fault::LateEnd { by_ns, .. } => *by_ns,
        _ => 0,
    }
}

/// How much later than without faults `engine` ends at least, nanoseconds.
fn delay_of(engine: Engine, faults: &[Fault]) -> u64 {
    // Nothing runs that could be slow.
    if faults.contains(&Fault::DmaAbort) {
        return 0;
    }

    let of_engine = |fault: &&Fault| matches!(fault, Fault::SlowEngine { engine: of, .. } | Fault::LateEnd { engine: of, .. } if *of == engine);
    faults.iter().filter(of_engine).map(delay_ns).sum()
}

/// What a fault reports on the error ring.
fn error_kind(fault: &Fault) -> Option<ErrorKind> {
    match fault {
        Fault::Numerical => Some(ErrorKind::Numerical),
        Fault::Transient => Some(ErrorKind::Transient),
        Fault::Sequencer => Some(ErrorKind::SoftwareSequencer),
        Fault::EccCorrectable => Some(ErrorKind::EccCorrectable),
        Fault::EccUncorrectable => Some(ErrorKind::EccUncorrectable),
        Fault::UnknownError { id } => Some(ErrorKind::from_raw(*id)),
        _ => None,
    }
}

fn counted(fault: &Fault, unsure: Certainty, alone: Certainty) -> Option<(MemoryError, Certainty)> {
    match fault {
        Fault::EccUncorrectable => Some((MemoryError::Sram, unsure)),
        Fault::HbmUncorrectable {
            repairable: false, ..
        } => Some((MemoryError::Hbm, alone)),
        Fault::HbmUncorrectable {
            repairable: true, ..
        } => Some((MemoryError::Repairable, alone)),
        _ => None,
    }
}
