//! What is to go wrong: a plan of faults, as data.
//!
//! Written by tests and by people who want to see their program survive (a file of JSON, or Rust values), given to the
//! machine in its configuration, asked by the machine at every execution and at every call that can fail.
//!
//! ```
//! use xu_device::simulated::{Fault, FaultPlan};
//!
//! let plan: FaultPlan = serde_json::from_str(r#"{ "rules": [
//!     { "when": { "core": 0, "from": 3, "times": 1 }, "fault": { "hang_engine": { "engine": "dve" } } },
//!     { "when": { "probability": 0.01 },              "fault": "transient" }
//! ] }"#)?;
//! assert_eq!(plan.rules[1].fault, Fault::Transient);
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::{Deserialize, Serialize};
use xu_abi::Engine;

/// Everything that is to go wrong with a machine. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// Each rule is asked by itself, in this order: several faults may hit the same execution.
    pub rules: Vec<Rule>,
}

/// One fault and when it happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// When; always by default.
    #[serde(default)]
    pub when: When,
    /// What.
    pub fault: Fault,
}

/// When a fault happens: every condition must hold.
///
/// Executions of a core are counted from 0 by its doorbells, those that fail included. For a fault of a call
/// ([`Fault::is_of_a_call`]) calls of that kind on that core are counted in the same way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// Only on this physical core; on every one by default.
    pub core: Option<u16>,
    /// Not before this execution (or call) of the core, counted from 0.
    pub from: u64,
    /// At most so often, counted over all cores; without end by default.
    pub times: Option<u64>,
    /// With this probability, 0 to 1, drawn from the seed of the machine; always by default.
    pub probability: Option<f64>,
}

/// Which of an engine's two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// START.
    Start,
    /// END.
    End,
}

/// What goes wrong.
///
/// Unless it says otherwise the execution itself goes on: its program runs, its results are stored, its other
/// records are posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    // The engines.
    /// The engine posts START and then does nothing more. The core does not come to rest.
    HangEngine {
        /// Which.
        #[serde(with = "EngineName")]
        engine: Engine,
    },
    /// The engine works this much longer before its first instruction, nanoseconds.
    SlowEngine {
        /// Which.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// Nanoseconds.
        by_ns: u64,
    },
    /// The engine posts END this much later than it has ended, nanoseconds; the core serves no doorbell before.
    LateEnd {
        /// Which.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// Nanoseconds.
        by_ns: u64,
    },

    // Records of status queues.
    /// A record is not posted, and no cause is latched.
    DropRecord {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// Which record.
        record: Mark,
    },
    /// A record is posted twice in a row.
    DuplicateRecord {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// Which record.
        record: Mark,
    },
    /// END is posted where START belongs, and START where END belongs. Twice is once.
    ReorderRecords {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
    },
    /// A byte of a record is altered before it is posted. The ring's own bits (byte 3, bits 5 to 7) are set after it.
    CorruptRecord {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// Which record.
        record: Mark,
        /// Which byte, 0 to 15.
        byte: u8,
        /// What it is exclusive-ored with.
        with: u8,
    },
    /// A record with this subtype is posted in the place of END. One that is known means what it always means.
    UnknownSubtype {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// The subtype.
        subtype: u16,
    },
    /// END carries this debug hint, 0 to 15.
    BadDebugHint {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// The hint.
        hint: u8,
    },
    /// A custom record with this sub-id is posted between START and END.
    Custom {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// The sub-id: 0 to 5, 9 and 10 are kinds of out-of-bounds.
        sub_id: u16,
    },
    /// The engine's queue finds no room: none of its records of this execution are posted, and the next record of the
    /// queue says so in its overflow bit.
    Overflow {
        /// Of which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// Whether the overflow cause of the core is latched, as it should be.
        latched: bool,
    },

    // Errors that the core reports on its error queue, before the END of the last engine.
    /// A numerical error.
    Numerical,
    /// A transient error.
    Transient,
    /// An error of the software sequencer.
    Sequencer,
    /// A corrected memory error.
    EccCorrectable,
    /// An uncorrectable error in the memory of the core, which also counts it.
    EccUncorrectable,
    /// An error with this id.
    UnknownError {
        /// The id.
        id: u8,
    },

    // Memory and DMA.
    /// An engine reads from HBM what cannot be corrected: it stops there, as if it hung, and the error is counted.
    HbmUncorrectable {
        /// Which engine.
        #[serde(with = "EngineName")]
        engine: Engine,
        /// Whether a reset repairs the row.
        repairable: bool,
    },
    /// The queue that brings requests aborts at this one: nothing runs, a sequencer error is reported, and the records
    /// that are due are posted.
    DmaAbort,
    /// The doorbell is lost: the call succeeds and nothing runs.
    DoorbellLost,

    // Calls of the client.
    /// Ringing the doorbell fails with this error number, and nothing runs.
    DoorbellFails {
        /// The error number.
        errno: i32,
    },
    /// A reservation of memory fails as if memory were exhausted.
    AllocationFails,
    /// A transfer queue aborts when it is started.
    TransferAborts,
    /// A transfer queue that is started moves nothing, and its marker never arrives.
    TransferHangs,
    /// The device goes at this execution: it stops, and every call from then on fails.
    DeviceLost,
}

impl Fault {
    /// Whether [`When`] counts calls of its kind and not executions.
    #[must_use]
    pub fn is_of_a_call(&self) -> bool {
        matches!(
            self,
            Self::AllocationFails | Self::TransferAborts | Self::TransferHangs
        )
    }
}

/// Engines by name, in lower case.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Engine", rename_all = "snake_case")]
enum EngineName {
    Pe,
    Act,
    Pool,
    Dve,
    Sp,
}
