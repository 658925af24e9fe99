//! Arm and fire: put one execution before the device.
//!
//! Called by the compute engine under the unit's submit lock.
//! [`Stager::prepare`] checks and builds and can be abandoned; [`Stager::commit`] crosses the line, and a failure from
//! there on is fatal for the unit. All cores are armed before the first doorbell rings. Rules: spec `xu.md` section 5.
//!
//! ```text
//!  prepare:  check bindings, choose slot, build request          undoable
//!  ------------------------------------------------------------- the line: `arm_all` in `commit`
//!  arm:      binding table, 52-byte body, 4-byte trailer         into device memory
//!            (a) request -> sequencer memory, 52 bytes           descriptor pair
//!            (b) event poke, 4 bytes                             descriptor pair
//!            (-) collectives context, on a switch, first core    descriptor pair of the model's chain
//!            (c) tail increment, 4 bytes, Tx and Rx              two pairs: the publish
//!  fire:     INFERENCE_START + 1                                 the doorbell
//! ```

mod hw_queue;

pub(crate) use hw_queue::PAIRS_PER_EXECUTION;

use crate::device::{Device, DeviceError};
use crate::map;
use crate::program::Program;
use core::sync::atomic::{AtomicU64, Ordering};
use hw_queue::{CoreRequest, HwQueue};
use std::sync::Arc;
use xu_abi::{DeviceAddr, TpbIndex};

/// Most physical cores of one logical core.
pub const MAX_TPBS: usize = 2;

/// Whether these can be the physical cores of a logical one.
pub(crate) fn check_tpbs(tpbs: &[TpbIndex]) -> Result<(), DeviceError> {
    if (1..=MAX_TPBS).contains(&tpbs.len()) {
        Ok(())
    } else {
        Err(DeviceError::BadArgument {
            what: "physical cores of a logical core",
            value: tpbs.len() as u64,
            allowed: "1 or 2",
        })
    }
}

/// Whether a request may tell the sequencer to keep what it has loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SkipConfig {
    /// Load configuration and tables for every execution.
    #[default]
    Never,
    /// Skip what equals the cached copy.
    WhenEqual,
}

/// Why an execution was not staged, though nothing has reached the device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The number of programs differs from the number of cores.
    #[error("{programs} programs for {cores} cores")]
    Cores {
        /// Programs given.
        programs: usize,
        /// Cores of this stager.
        cores: usize,
    },
    /// The number of tensors differs from what the program binds.
    #[error("{given} tensors for {expected} bindings")]
    Bindings {
        /// Tensors given.
        given: usize,
        /// Tensors that the program binds.
        expected: u16,
    },
}

/// One execution, built and not yet written. Fixed arrays, so that staging allocates nothing.
#[derive(Debug)]
pub struct Prepared {
    cores: [Option<CoreRequest>; MAX_TPBS],
    /// What the stager knew when it was built.
    knowledge: Knowledge,
}

impl Prepared {
    /// Whether it runs another model than the execution before it, on any of its cores.
    #[must_use]
    pub fn switches_model(&self) -> bool {
        let mut cores = self.cores.iter().flatten();
        cores.any(|core| core.request.do_model_switch.get() != 0)
    }
}

/// Which stager, and how much has happened to it: requests are built from what was posted last and what is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Knowledge {
    stager: u64,
    version: u64,
}

impl Knowledge {
    /// Of a stager that has staged nothing.
    fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            // Relaxed: only uniqueness matters.
            stager: NEXT.fetch_add(1, Ordering::Relaxed),
            version: 0,
        }
    }
}

/// An execution that the device knows of: what the harvester must know about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// Index of the whole execution, the same on every core.
    pub compute_idx: u64,
    /// How many collectives barriers each core passes before it runs this execution, counted since the queue was
    /// opened; `None` for a core that passes none on its behalf. Wraps.
    pub barriers: [Option<u32>; MAX_TPBS],
}

/// The stager of one compute unit: one hardware queue per physical core.
#[derive(Debug)]
pub struct Stager {
    device: Arc<dyn Device>,
    queues: Vec<HwQueue>,
    skip: SkipConfig,
    knowledge: Knowledge,
    next_compute_idx: u64,
    /// A commit has failed behind the line.
    failed: bool,
}

impl Stager {
    /// Opens the model-exec queue of every core in `tpbs`, for `depth` outstanding executions.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] unless there are one or two cores; as
    /// [`crate::ring::DescriptorRing::open`].
    pub fn open(
        device: &Arc<dyn Device>,
        tpbs: &[TpbIndex],
        depth: u32,
        skip: SkipConfig,
    ) -> Result<Self, DeviceError> {
        check_tpbs(tpbs)?;
        let queues = tpbs
            .iter()
            .map(|&tpb| HwQueue::open(device, tpb, depth))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            device: Arc::clone(device),
            queues,
            skip,
            knowledge: Knowledge::fresh(),
            next_compute_idx: 0,
            failed: false,
        })
    }

    /// Has the next request load configuration and tables, whatever was loaded before.
    ///
    /// Called when an execution did not succeed: what the sequencer has loaded is unknown then. Executions that are staged
    /// already keep their requests; what was prepared and not committed is refused.
    pub fn forget_loaded(&mut self) {
        for queue in &mut self.queues {
            queue.forget_loaded();
        }
        self.knowledge.version += 1;
    }

    /// Checks the arguments and builds the request of every core. Nothing is written.
    ///
    /// # Errors
    /// [`PrepareError`]; the unit is unharmed.
    pub fn prepare(
        &self,
        programs: &[Arc<Program>],
        tensors: &[DeviceAddr],
    ) -> Result<Prepared, PrepareError> {
        if programs.len() != self.queues.len() {
            return Err(PrepareError::Cores {
                programs: programs.len(),
                cores: self.queues.len(),
            });
        }
        let mut cores = [None; MAX_TPBS];
        let mut is_first = true;
        for ((queue, program), core) in self.queues.iter().zip(programs).zip(&mut cores) {
            if tensors.len() != usize::from(program.bindings()) {
                return Err(PrepareError::Bindings {
                    given: tensors.len(),
                    expected: program.bindings(),
                });
            }
            *core = Some(queue.build(program, self.skip, is_first));
            is_first = false;
        }
        Ok(Prepared {
            cores,
            knowledge: self.knowledge,
        })
    }

    /// Arms every core, then rings every doorbell.
    ///
    /// `programs` and `tensors` are those that `prepared` was built from, and none of the programs was committed in between.
    ///
    /// One line separates "undoable" from "the device may know": the call of `arm_all` in this function. Its first write
    /// is the first byte of the execution that the device can see. What can refuse an execution stands before it; behind
    /// it only the device itself can fail.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when `prepared` is not of these programs, of another stager or was overtaken, and
    /// [`DeviceError::Failed`] after an error that was fatal: nothing was written.
    /// Any other error is fatal for the unit: the device may know part of the execution.
    pub fn commit(
        &mut self,
        programs: &[Arc<Program>],
        tensors: &[DeviceAddr],
        prepared: &Prepared,
    ) -> Result<Staged, DeviceError> {
        if self.failed {
            return Err(DeviceError::Failed { what: "stager" });
        }
        if !self.holds(programs, tensors, prepared) {
            return Err(DeviceError::BadArgument {
                what: "index of an execution that was prepared for something else",
                value: self.next_compute_idx,
                allowed: "commit what was prepared, before anything else",
            });
        }
        self.failed = true;
        // ---- the line: from here on the device may know --------------------------------------------------------
        let barriers = self.arm_all(programs, tensors, prepared)?;
        self.fire_all()?;
        self.failed = false;
        self.knowledge.version += 1;
        let compute_idx = self.next_compute_idx;
        self.next_compute_idx += 1;
        Ok(Staged {
            compute_idx,
            barriers,
        })
    }

    /// Whether what was prepared still is what should be written. A core that is left out must never be fired.
    fn holds(
        &self,
        programs: &[Arc<Program>],
        tensors: &[DeviceAddr],
        prepared: &Prepared,
    ) -> bool {
        let bound = |program: &Program| usize::from(program.bindings()) == tensors.len();
        let mut cores = programs.iter().zip(prepared.cores.iter().flatten());
        prepared.knowledge == self.knowledge
            && programs.len() == self.queues.len()
            && cores.all(|(program, core)| bound(program) && core.is_next_of(program))
    }

    /// Writes the execution of every core; returns which barrier each waits for.
    fn arm_all(
        &mut self,
        programs: &[Arc<Program>],
        tensors: &[DeviceAddr],
        prepared: &Prepared,
    ) -> Result<[Option<u32>; MAX_TPBS], DeviceError> {
        let mut barriers = [None; MAX_TPBS];
        let requests = prepared.cores.iter().flatten();
        let cores = self.queues.iter_mut().zip(programs).zip(requests);
        for (((queue, program), request), barrier) in cores.zip(&mut barriers) {
            *barrier = queue.arm(program, tensors, request)?;
        }
        Ok(barriers)
    }

    /// Rings every doorbell.
    fn fire_all(&self) -> Result<(), DeviceError> {
        for queue in &self.queues {
            self.device
                .increment_semaphore(queue.tpb(), map::INFERENCE_START)?;
        }
        Ok(())
    }
}
