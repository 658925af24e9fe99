//! What DMA engines have been told to do.
//!
//! Spec `driver.md` section 3. Engines run from the start: the driver initialises them at reset.
//!
//! | state | what the queues of the engine do |
//! |---|---|
//! | disable | take what they are given, and move nothing until the engine runs |
//! | normal | move what they were given meanwhile, and everything after |
//! | abort | give up, until the engine runs and they are initialised again |
//!
//! Copies of the driver's own through an engine that does not run time out.

use super::is_engine;
use crate::driver::call::{Call, Failure, Handled};
use std::collections::BTreeMap;
use std::ops::Range;
use xu_abi::driver::errno::EINVAL;
use xu_abi::driver::{DmaEngGetState, DmaEngSetState, DmaEngState, EngineState, QUEUES_PER_ENGINE};

/// What DMA_ENG_GET_STATE says of every engine.
const REVISION: u32 = 4;
/// The state of an engine that was disabled. The other two have the number that they are set with.
const IDLE: u32 = 1;

/// Engines that have been told something.
#[derive(Debug, Default)]
pub(super) struct Engines {
    told: BTreeMap<u32, EngineState>,
}

impl Engines {
    /// These run again: those of them that did not.
    pub(super) fn reset(&mut self, engines: Range<u32>) -> Vec<u32> {
        let stopped = engines.clone().filter(|engine| !self.runs(*engine));
        let stopped = stopped.collect();
        self.told.retain(|engine, _| !engines.contains(engine));
        stopped
    }

    pub(super) fn runs(&self, engine: u32) -> bool {
        let told = self.told.get(&engine);
        told.is_none_or(|state| *state == EngineState::Normal)
    }

    fn state(&self, engine: u32) -> u32 {
        match self.told.get(&engine).copied() {
            Some(EngineState::Disable) => IDLE,
            told => told.unwrap_or(EngineState::Normal).raw(),
        }
    }
}

/// DMA_ENG_SET_STATE: succeeds with a state that there is not.
pub(in crate::driver) fn dma_eng_set_state(call: &Call<'_>) -> Handled {
    let argument: DmaEngSetState = call.argument()?;
    if !is_engine(call.device, argument.eng_id) {
        return Err(Failure::Errno(EINVAL));
    }
    if let Some(state) = EngineState::from_raw(argument.state) {
        let mut rings = call.device.rings.lock();
        rings.engines.told.insert(argument.eng_id, state);
        // Under the lock, so that the last one told is what it does.
        call.device.chip.set_engine(argument.eng_id, state);
    }
    Ok(())
}

/// DMA_ENG_GET_STATE.
pub(in crate::driver) fn dma_eng_get_state(call: &Call<'_>) -> Handled {
    let argument: DmaEngGetState = call.argument()?;
    if !is_engine(call.device, argument.eng_id) {
        return Err(Failure::Errno(EINVAL));
    }
    let state = call.device.rings.lock().engines.state(argument.eng_id);
    let answer = DmaEngState {
        revision_id: REVISION,
        max_queues: QUEUES_PER_ENGINE,
        num_queues: QUEUES_PER_ENGINE,
        tx_state: state,
        rx_state: state,
    };
    Ok(call.store(argument.state, &answer)?)
}
