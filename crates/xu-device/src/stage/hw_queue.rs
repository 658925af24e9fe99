//! The model-exec queue of one core: what was staged there last, and how the next execution gets there.
//!
//! Owned by the stager. [`HwQueue::build`] only looks; [`HwQueue::arm`] writes, in the order of the picture in
//! [`super`], and stops at the first write that fails.

use super::SkipConfig;
use crate::device::{Device, DeviceError, Place};
use crate::map::{self, AddressMap};
use crate::memory::DeviceMemory;
use crate::program::{CollectivesChain, ModelHandle, Program};
use crate::ring::DescriptorRing;
use std::sync::Arc;
use xu_abi::{DeviceAddr, Engine, ExecRequest, RequestBuffer, TpbIndex};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// Descriptor pairs of one execution: request copy, event poke, two tail increments.
pub(crate) const PAIRS_PER_EXECUTION: u32 = 4;
const REQUEST_BYTES: u32 = size_of::<ExecRequest>() as u32;
const WORD: u32 = 4;
/// Offsets of the two constants that pokes copy from.
const EVENT_VALUE: u64 = 0;
const INCREMENT_VALUE: u64 = 4;

/// What one core will be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreRequest {
    model: ModelHandle,
    slot: u32,
    pub(super) request: ExecRequest,
    /// Whether the model's collectives chain goes with it.
    with_chain: bool,
}

impl CoreRequest {
    /// Whether this is the next execution of `program`.
    pub(super) fn is_next_of(&self, program: &Program) -> bool {
        self.model == program.handle() && self.slot == program.next_slot()
    }
}

#[derive(Debug)]
pub(super) struct HwQueue {
    tpb: TpbIndex,
    addresses: AddressMap,
    ring: DescriptorRing,
    constants: DeviceMemory,
    last_model: Option<ModelHandle>,
    /// Barriers that were staged on this core.
    barriers: u32,
    loaded_config: Option<[u8; 52]>,
    loaded_tables: Option<[u8; 64]>,
}

impl HwQueue {
    pub(super) fn open(
        device: &Arc<dyn Device>,
        tpb: TpbIndex,
        depth: u32,
    ) -> Result<Self, DeviceError> {
        let pairs = depth
            .saturating_add(1)
            .saturating_mul(PAIRS_PER_EXECUTION + CollectivesChain::PAIRS);
        let ring = DescriptorRing::open(device, map::model_exec_queue(tpb), pairs)?;
        let constants = DeviceMemory::allocate(device, Place::Host, 64, 64)?;
        constants.write(EVENT_VALUE, &1u32.to_le_bytes())?;
        constants.write(INCREMENT_VALUE, &PAIRS_PER_EXECUTION.to_le_bytes())?;
        Ok(Self {
            tpb,
            addresses: device.shape().addresses,
            ring,
            constants,
            last_model: None,
            barriers: 0,
            loaded_config: None,
            loaded_tables: None,
        })
    }

    /// The request of the next execution. Nothing is written.
    pub(super) fn build(&self, program: &Program, skip: SkipConfig, is_first: bool) -> CoreRequest {
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
            model: program.handle(),
            slot,
            request,
            with_chain: switch && is_first && program.collectives().is_some(),
        }
    }

    pub(super) fn tpb(&self) -> TpbIndex {
        self.tpb
    }

    pub(super) fn forget_loaded(&mut self) {
        self.loaded_config = None;
        self.loaded_tables = None;
    }

    /// Writes the execution and publishes it; returns which barrier it waits for, if any.
    pub(super) fn arm(
        &mut self,
        program: &Program,
        tensors: &[DeviceAddr],
        core: &CoreRequest,
    ) -> Result<Option<u32>, DeviceError> {
        let chain = program.collectives().filter(|_| core.with_chain);
        program.take_slot();
        program.write_bindings(core.slot, tensors)?;
        program.write_request(core.slot, 0, core.request.as_bytes())?;
        let chained = chain.map_or(0, |_| CollectivesChain::PAIRS);
        let trailer = chained.to_le_bytes();
        program.write_request(core.slot, RequestBuffer::TRAILER_OFFSET, &trailer)?;
        self.publish(program.request(core.slot), chain)?;

        self.last_model = Some(program.handle());
        self.loaded_config = Some(*program.sequencer_config());
        self.loaded_tables = Some(*program.table_hash());
        if chain.is_none() {
            return Ok(None);
        }
        self.barriers = self.barriers.wrapping_add(1);
        Ok(Some(self.barriers))
    }

    /// Appends the descriptor pairs of an execution, the tail increments last.
    fn publish(
        &mut self,
        request: DeviceAddr,
        chain: Option<&CollectivesChain>,
    ) -> Result<(), DeviceError> {
        let tpb = self.tpb;
        let addresses = self.addresses;
        let event = addresses.event_register(tpb, map::REQUEST_LOADED);
        let poke = self.constants.at(EVENT_VALUE);
        self.ring
            .push(request, addresses.sequencer_memory(tpb), REQUEST_BYTES)?;
        self.ring.push(poke, event, WORD)?;
        let mut increment = self.constants.at(INCREMENT_VALUE);
        if let Some(chain) = chain {
            for (from, to, len) in chain.copies {
                self.ring.push(from, to, len)?;
            }
            increment = chain.increment();
        }
        self.ring
            .push(increment, addresses.tx_tail_increment(tpb), WORD)?;
        self.ring
            .push(increment, addresses.rx_tail_increment(tpb), WORD)
    }
}
