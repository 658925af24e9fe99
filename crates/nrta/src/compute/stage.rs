//! The submitting side of the compute queue: put an execution before the device.
//!
//! Called by the unit under its submit lock. Spec: `xu.md` section 5.

use super::Ended;
use crate::bindings::Bound;
use crate::model::Programs;
use crate::pending::Outcome;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use xu_abi::Status;
use xu_device::Device;
use xu_device::stage::{Prepared, Staged, Stager};
use xu_worker::{Stage, StageError};

/// What an execution keeps alive: all that the device reads and writes for it.
#[derive(Debug)]
pub(crate) struct Held {
    programs: Programs,
    bound: Arc<Bound>,
}

/// A request to run a model. It owns all that the device touches until it is complete.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) held: Held,
    /// The id of the model, as the unit's entry shows it. Kept here, since a program lies in lines that staging writes to,
    /// which the worker would have to fetch.
    pub(super) model: u32,
    pub(super) staged: Staged,
    /// When it was scheduled: nanoseconds of [`Device::now_ns`].
    pub(super) submitted_ns: u64,
}

impl Run {
    pub(super) fn new(programs: Programs, bound: Arc<Bound>) -> Self {
        // Every loaded model has a program for each core, and all of them one id or their own: the first speaks for it.
        let first = programs.first();
        Self {
            model: first.map_or(0, |program| program.handle().get()),
            held: Held { programs, bound },
            staged: Staged::default(),
            submitted_ns: 0,
        }
    }
}

/// Puts executions before the device.
#[derive(Debug)]
pub(crate) struct ComputeStage {
    device: Arc<dyn Device>,
    stager: Stager,
    distrust: Arc<Distrust>,
    /// Executions that ran another model than the one before.
    switches: Arc<AtomicU64>,
    /// The execution that was prepared last, until it is committed: the unit does both before it takes another. Not in the
    /// request, which would carry it across to the worker.
    prepared: Option<Prepared>,
}

/// What stage and engine of a queue tell each other when something goes wrong.
#[derive(Debug, Default)]
pub(crate) struct Distrust {
    /// Set by the engine after an execution that did not succeed: what the sequencer has loaded is unknown.
    loaded: AtomicBool,
    /// Set by the stage when staging has ended the queue: why what was accepted before does not run any more.
    cause: OnceLock<String>,
}

impl Distrust {
    pub(super) fn raise(&self) {
        // Relaxed: see `ComputeStage::prepare`.
        self.loaded.store(true, Ordering::Relaxed);
    }

    /// Why staging has ended the queue, if it has.
    pub(super) fn cause(&self) -> Option<String> {
        self.cause.get().cloned()
    }
}

impl ComputeStage {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        stager: Stager,
        distrust: Arc<Distrust>,
        switches: Arc<AtomicU64>,
    ) -> Self {
        Self {
            device,
            stager,
            distrust,
            switches,
            prepared: None,
        }
    }
}

impl Stage for ComputeStage {
    type Item = Run;
    type Outcome = Outcome<Ended>;

    fn prepare(&mut self, run: &mut Run) -> Result<(), StageError> {
        // Relaxed: seen late, it costs one more execution that fails in good order.
        if self.distrust.loaded.swap(false, Ordering::Relaxed) {
            self.stager.forget_loaded();
        }
        run.submitted_ns = self.device.now_ns();
        let prepared = self
            .stager
            .prepare(&run.held.programs, &run.held.bound.addrs)
            .map_err(|error| StageError::new(Status::INVALID, error))?;
        self.prepared = Some(prepared);
        Ok(())
    }

    fn commit(&mut self, run: &mut Run) -> Result<(), StageError> {
        let Some(prepared) = self.prepared.take() else {
            return Err(StageError::new(
                Status::FAILURE,
                "the execution was not prepared",
            ));
        };
        run.staged = self
            .stager
            .commit(&run.held.programs, &run.held.bound.addrs, &prepared)
            .map_err(|error| {
                // The first cause stays.
                let _ = self.distrust.cause.set(error.to_string());
                StageError::new(error.status_in_flight(), error)
            })?;
        if prepared.switches_model() {
            // Relaxed: the count stands for itself. The submit lock keeps others from counting.
            let switches = self.switches.load(Ordering::Relaxed);
            self.switches.store(switches + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn model(&self, run: &Run) -> u32 {
        run.model
    }
}
