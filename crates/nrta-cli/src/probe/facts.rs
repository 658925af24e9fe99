//! All facts that no device has confirmed: those of the two tables of the libraries, and open points of the driver's interface.
//!
//! `docs/hardware-checklist.md` has a row for each; a test compares them.

use nrta::neuron::abi::unverified::{Standing, TABLE};
use nrta::neuron::map;

/// One fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The name of the constant, or of the point.
    pub(crate) name: &'static str,
    /// Its value; `None` for what is no number.
    pub(crate) value: Option<u64>,
    /// Why nothing is said of it when no experiment does.
    pub(crate) untested: &'static str,
}

const BY_EXECUTION: &str = "only an execution shows it (--execute)";
const OF_THE_SIMULATION: &str = "of the simulated machine; no device has it";
const OF_THE_EMULATION: &str = "a choice of the emulation; no device has it";
const NO_EXPERIMENT: &str = "nothing harmless shows it";
const IN_DATA: &str =
    "a bit of a record or descriptor that nothing here makes the device write or read";
const INTERRUPTED: &str = "its experiment did not come so far";

/// The constants of [`map`], with their values.
const MAP: [(&str, u64, &str); 24] = [
    ("HBM_RESERVED", map::HBM_RESERVED, INTERRUPTED),
    ("HBM_STRIDE", map::HBM_STRIDE, OF_THE_SIMULATION),
    ("HOST_BASE", map::HOST_BASE, OF_THE_SIMULATION),
    ("CORE_BLOCK_BASE", map::CORE_BLOCK_BASE, OF_THE_SIMULATION),
    ("CORE_BLOCK_STRIDE", map::CORE_BLOCK_STRIDE, INTERRUPTED),
    ("EVENT_WINDOW", map::EVENT_WINDOW, INTERRUPTED),
    ("SEQUENCER_MEMORY", map::SEQUENCER_MEMORY, BY_EXECUTION),
    (
        "COLLECTIVES_CONTEXT",
        map::COLLECTIVES_CONTEXT,
        NO_EXPERIMENT,
    ),
    (
        "SEQUENCER_MEMORY_BYTES",
        map::SEQUENCER_MEMORY_BYTES,
        NO_EXPERIMENT,
    ),
    ("TAIL_INCREMENT", map::TAIL_INCREMENT, BY_EXECUTION),
    (
        "INFERENCE_START",
        map::INFERENCE_START.get() as u64,
        BY_EXECUTION,
    ),
    (
        "COLLECTIVES_BARRIER",
        map::COLLECTIVES_BARRIER.get() as u64,
        NO_EXPERIMENT,
    ),
    (
        "FIRST_PROGRAM_SEMAPHORE",
        map::FIRST_PROGRAM_SEMAPHORE as u64,
        BY_EXECUTION,
    ),
    (
        "REQUEST_LOADED",
        map::REQUEST_LOADED.get() as u64,
        BY_EXECUTION,
    ),
    (
        "MODEL_EXEC_QUEUE",
        map::MODEL_EXEC_QUEUE as u64,
        BY_EXECUTION,
    ),
    (
        "FIRST_TRANSFER_QUEUE",
        map::FIRST_TRANSFER_QUEUE as u64,
        BY_EXECUTION,
    ),
    (
        "COLLECTIVES_QUEUE",
        map::COLLECTIVES_QUEUE as u64,
        NO_EXPERIMENT,
    ),
    ("DMA_QUEUES", map::DMA_QUEUES as u64, BY_EXECUTION),
    (
        "ENGINES_PER_CORE",
        map::ENGINES_PER_CORE as u64,
        INTERRUPTED,
    ),
    (
        "NOTIFICATION_QUEUES",
        map::NOTIFICATION_QUEUES as u64,
        NO_EXPERIMENT,
    ),
    ("FIRST_PHASE", map::FIRST_PHASE as u64, BY_EXECUTION),
    (
        "RETAGGED_ENGINE",
        map::RETAGGED_ENGINE as u64,
        NO_EXPERIMENT,
    ),
    ("RETAGGED_NQ_ID", map::RETAGGED_NQ_ID as u64, NO_EXPERIMENT),
    (
        "COMPLETION_MARKER",
        map::COMPLETION_MARKER as u64,
        INTERRUPTED,
    ),
];

/// Points that are no constants: those at the end of `driver.md` 11, and behaviour that everything rests on.
const POINTS: [(&str, &str); 17] = [
    ("PHASE_FLIPS", BY_EXECUTION),
    ("REINIT_RESETS_TAIL", BY_EXECUTION),
    ("HEAD_MAY_REACH_TAIL", BY_EXECUTION),
    ("DOORBELL_AFTER_DESCRIPTORS", BY_EXECUTION),
    ("POLICY_RESET_VALUES", INTERRUPTED),
    ("RING_IDS", INTERRUPTED),
    ("DMA_ROUND_TRIP", INTERRUPTED),
    ("QUEUE_STATE_IS_INDICES", INTERRUPTED),
    ("EVENT_BY_DMA", INTERRUPTED),
    ("HANDLES_REUSED_LAST_FIRST", INTERRUPTED),
    ("HOST_CHUNKS_ZEROED", INTERRUPTED),
    ("EXTENDED_INFO_OVERWRITES", INTERRUPTED),
    ("LOGICAL_NC_MAP", INTERRUPTED),
    ("SEMAPHORE_REGISTERS", INTERRUPTED),
    ("SEMAPHORE_WINDOW", INTERRUPTED),
    ("MAPPED_DOORBELL", INTERRUPTED),
    ("TIMESTAMP_RATE", INTERRUPTED),
];

/// Every fact, by table.
pub(crate) fn all() -> impl Iterator<Item = Fact> {
    let of_table = TABLE.iter().map(|row| Fact {
        name: row.name,
        value: Some(row.value),
        untested: match row.standing {
            Standing::Chosen => OF_THE_EMULATION,
            _ => untested(row.name),
        },
    });
    let of_map = MAP.iter().map(|(name, value, untested)| Fact {
        name,
        value: Some(*value),
        untested,
    });
    let points = POINTS.iter().map(|(name, untested)| Fact {
        name,
        value: None,
        untested,
    });
    of_table.chain(of_map).chain(points)
}

fn untested(name: &str) -> &'static str {
    match name {
        "NQ_FIRST_PHASE" | "NQ_HEAD_UNIT" | "NQ_OF_FIRST_ENGINE" | "NQ_TAIL" => BY_EXECUTION,
        "NQ_OF_ERRORS" | "NQ_HEAD_DISTANCE_V1" => NO_EXPERIMENT,
        _ if name.starts_with("NQ_QUEUES") => NO_EXPERIMENT,
        _ if name.starts_with("NQ_") => INTERRUPTED,
        _ => IN_DATA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different() {
        let names: BTreeSet<_> = all().map(|fact| fact.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn experiments_speak_of_facts() {
        let names: BTreeSet<_> = all().map(|fact| fact.name).collect();
        for experiment in &super::super::EXPERIMENTS {
            for fact in experiment.facts {
                assert!(names.contains(fact), "{fact}");
            }
        }
    }
}
