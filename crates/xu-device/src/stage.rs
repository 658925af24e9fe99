//! Arm and fire: put one execution before the device.
//!
//! Called by the compute engine under the unit's submit lock.
//! [`Stager::prepare`] checks and builds and can be abandoned; from the first byte of [`Stager::commit`] on
//! the device may know, and a failure is fatal for the unit.
//! All cores are armed before the first doorbell rings. Rules: spec `xu.md` section 5.
//!
//! ```text
//!  prepare:  check bindings, choose slot, build request          undoable
//!  ------------------------------------------------------------- the line
//!  arm:      binding table, 52-byte body, 4-byte trailer         into device memory
//!            (a) request -> sequencer memory, 52 bytes           descriptor pair
//!            (b) event poke, 4 bytes                             descriptor pair
//!            (c) tail increment, 4 bytes, Tx and Rx              two pairs: the publish
//!  fire:     INFERENCE_START + 1                                 the doorbell
//! ```

use crate::device::{Device, DeviceError, Place};
use crate::map;
use crate::memory::DeviceMemory;
use crate::program::{CollectivesChain, ModelHandle, Program};
use crate::ring::DescriptorRing;
use std::sync::Arc;
use xu_abi::{DeviceAddr, Engine, ExecRequest, RequestBuffer, TpbIndex};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// Most physical cores of one logical core.
pub const MAX_TPBS: usize = 2;

/// Descriptor pairs of one execution: request copy, event poke, two tail increments.
pub(crate) const PAIRS_PER_EXECUTION: u32 = 4;
const REQUEST_BYTES: u32 = size_of::<ExecRequest>() as u32;
const WORD: u32 = 4;
/// Offsets of the two constants that pokes copy from.
const EVENT_VALUE: u64 = 0;
const INCREMENT_VALUE: u64 = 4;

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
}

/// What one core will be told.
#[derive(Clone, Copy, Debug)]
struct CoreRequest {
    slot: u32,
    request: ExecRequest,
    /// Whether the model's collectives chain goes with it.
    with_chain: bool,
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
    next_compute_idx: u64,
}

#[derive(Debug)]
struct HwQueue {
    tpb: TpbIndex,
    ring: DescriptorRing,
    constants: DeviceMemory,
    last_model: Option<ModelHandle>,
    /// Barriers that were staged on this core.
    barriers: u32,
    loaded_config: Option<[u8; 52]>,
    loaded_tables: Option<[u8; 64]>,
}

impl Stager {
    /// Opens the model-exec queue of every core in `tpbs`, for `depth` outstanding executions.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] unless there are one or two cores; as [`DescriptorRing::open`].
    pub fn open(
        device: &Arc<dyn Device>,
        tpbs: &[TpbIndex],
        depth: u32,
        skip: SkipConfig,
    ) -> Result<Self, DeviceError> {
        if tpbs.is_empty() || tpbs.len() > MAX_TPBS {
            return Err(DeviceError::BadArgument {
                what: "physical cores of a logical core",
                value: tpbs.len() as u64,
                allowed: "1 or 2",
            });
        }
        let queues = tpbs
            .iter()
            .map(|&tpb| HwQueue::open(device, tpb, depth))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            device: Arc::clone(device),
            queues,
            skip,
            next_compute_idx: 0,
        })
    }

    /// Has the next request load configuration and tables, whatever was loaded before.
    ///
    /// Called when an execution did not succeed: what the sequencer has loaded is unknown then.
    pub fn forget_loaded(&mut self) {
        for queue in &mut self.queues {
            queue.loaded_config = None;
            queue.loaded_tables = None;
        }
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
        Ok(Prepared { cores })
    }

    /// Arms every core, then rings every doorbell.
    ///
    /// # Errors
    /// Any error is fatal for the unit: the device may know part of the execution.
    pub fn commit(
        &mut self,
        programs: &[Arc<Program>],
        tensors: &[DeviceAddr],
        prepared: &Prepared,
    ) -> Result<Staged, DeviceError> {
        let mut staged = Staged {
            compute_idx: self.next_compute_idx,
            ..Staged::default()
        };
        let requests = prepared.cores.iter().flatten();
        let cores = self.queues.iter_mut().zip(programs).zip(requests);
        for (((queue, program), request), barrier) in cores.zip(&mut staged.barriers) {
            *barrier = queue.arm(program, tensors, request)?;
        }
        for queue in &self.queues {
            self.device
                .increment_semaphore(queue.tpb, map::INFERENCE_START)?;
        }
        self.next_compute_idx += 1;
        Ok(staged)
    }
}

impl HwQueue {
    fn open(device: &Arc<dyn Device>, tpb: TpbIndex, depth: u32) -> Result<Self, DeviceError> {
        let pairs = depth
            .saturating_add(1)
            .saturating_mul(PAIRS_PER_EXECUTION + CollectivesChain::PAIRS);
        let ring = DescriptorRing::open(device, map::model_exec_queue(tpb), pairs)?;
        let constants = DeviceMemory::allocate(device, Place::Host, 64, 64)?;
        constants.write(EVENT_VALUE, &1u32.to_le_bytes())?;
        constants.write(INCREMENT_VALUE, &PAIRS_PER_EXECUTION.to_le_bytes())?;
        Ok(Self {
            tpb,
            ring,
            constants,
            last_model: None,
            barriers: 0,
            loaded_config: None,
            loaded_tables: None,
        })
    }

    fn build(&self, program: &Program, skip: SkipConfig, is_first: bool) -> CoreRequest {
        let slot = program.next_slot();
        let switch = self.last_model != Some(program.handle());
        let keep = skip == SkipConfig::WhenEqual;
        let keep_config = keep && self.loaded_config.as_ref() == Some(program.sequencer_config());
        let keep_tables = keep && self.loaded_tables.as_ref() == Some(program.table_hash());
        let mut request = ExecRequest {
            do_model_switch: U32::new(u32::from(switch)),
            reload_seq_config: U32::new(u32::from(!keep_config)),
            load_act_dve_tables: U32::new(u32::from(!keep_tables)),
            ..ExecRequest::default()
        };
        for engine in Engine::ALL {
            request.set_engine_address(engine, program.entry(slot, engine));
        }
        CoreRequest {
            slot,
            request,
            with_chain: switch && is_first && program.collectives().is_some(),
        }
    }

    /// Writes the execution and publishes it; returns which barrier it waits for, if any.
    fn arm(
        &mut self,
        program: &Program,
        tensors: &[DeviceAddr],
        core: &CoreRequest,
    ) -> Result<Option<u32>, DeviceError> {
        let buffer = program.request(core.slot);
        let chain = program.collectives().filter(|_| core.with_chain);
        let chained = chain.map_or(0, |_| CollectivesChain::PAIRS);
        program.take_slot();
        program.write_bindings(core.slot, tensors)?;
        program.write_request(core.slot, 0, core.request.as_bytes())?;
        let trailer = chained.to_le_bytes();
        program.write_request(core.slot, RequestBuffer::TRAILER_OFFSET, &trailer)?;

        let event = map::event_register(self.tpb, map::REQUEST_LOADED);
        let (tx_tail, rx_tail) = (
            map::tx_tail_increment(self.tpb),
            map::rx_tail_increment(self.tpb),
        );
        self.ring
            .push(buffer, map::sequencer_memory(self.tpb), REQUEST_BYTES)?;
        self.ring
            .push(self.constants.at(EVENT_VALUE), event, WORD)?;
        let mut increment = self.constants.at(INCREMENT_VALUE);
        if let Some(chain) = chain {
            for (from, to, len) in chain.copies {
                self.ring.push(from, to, len)?;
            }
            increment = chain.increment();
            self.barriers = self.barriers.wrapping_add(1);
        }
        self.ring.push(increment, tx_tail, WORD)?;
        self.ring.push(increment, rx_tail, WORD)?;

        self.last_model = Some(program.handle());
        self.loaded_config = Some(*program.sequencer_config());
        self.loaded_tables = Some(*program.table_hash());
        Ok(chain.map(|_| self.barriers))
    }
}
