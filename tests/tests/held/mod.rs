//! A runtime whose executions complete when a test says so.
#![allow(dead_code, reason = "each file uses its part")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Meddler, Parts, Rig};
use nrta::simulated::{Fault, Mark, Rule, When};
use nrta::{
    Bindings, ComputeQueue, Core, Execution, LoadedModel, Model, Pending, Refused, Runtime, SeqId,
    Tensor,
};
use std::sync::Arc;
use xu_abi::Engine;

/// A machine on which the first execution that runs ends its queue, when its doorbell rings.
pub(crate) fn fatal() -> Parts {
    fatal_when(When {
        times: Some(1),
        ..When::default()
    })
}

/// A machine on which every execution ends its queue.
pub(crate) fn all_fatal() -> Parts {
    fatal_when(When::default())
}

fn fatal_when(when: When) -> Parts {
    // An END without its START.
    let fault = Fault::DropRecord {
        engine: Engine::Pe,
        record: Mark::Start,
    };
    Parts::failing(vec![Rule { when, fault }])
}

/// Lets everything complete when it goes: a test that has failed would wait for it for ever.
struct LetGo(Arc<Meddler>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.release_doorbells();
    }
}

pub(crate) struct Held {
    // Dropped before the runtime, which waits.
    _let_go: LetGo,
    pub(crate) device: Arc<Meddler>,
    pub(crate) runtime: Runtime,
    pub(crate) core: Core,
    pub(crate) compute: ComputeQueue,
    pub(crate) model: LoadedModel,
    pub(crate) input: Tensor,
    pub(crate) outputs: [Tensor; 2],
}

impl Held {
    pub(crate) fn new(rig: &Rig) -> Self {
        Self::with_limit(rig, 8)
    }

    /// With room for so many.
    pub(crate) fn with_limit(rig: &Rig, limit: u64) -> Self {
        let device = rig.meddler();
        let runtime = Runtime::builder()
            .exec_timeout(None)
            .compute_limit(limit)
            .device(Arc::clone(&device) as Arc<dyn nrta::Device>)
            .open()
            .unwrap();
        let core = runtime.core(0).unwrap();
        let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
        let model = core.load(&model, 1).unwrap();
        let input = model.allocate_input(0).unwrap();
        let outputs = [0, 1].map(|index| model.allocate_output(index).unwrap());
        device.hold_doorbells();
        Self {
            _let_go: LetGo(Arc::clone(&device)),
            device,
            runtime,
            compute: core.compute(),
            core,
            model,
            input,
            outputs,
        }
    }

    pub(crate) fn execute(&self) -> Result<Pending<Execution>, Refused<()>> {
        let [scores, label] = &self.outputs;
        self.compute
            .execute(&self.model, &[&self.input], &[scores, label])
    }

    /// What [`Held::execute`] executes, to be prepared.
    pub(crate) fn bound(&self) -> Bindings {
        let [scores, label] = &self.outputs;
        self.model.bind(&[&self.input], &[scores, label]).unwrap()
    }

    /// The next execution jumps to where no memory is, and so ends without success. Its queue goes on.
    pub(crate) fn spoil_the_first(&self) {
        let mut spoilt = false;
        self.device.alter_writes(Box::new(move |_, bytes| {
            if !spoilt && bytes.len() == 52 {
                bytes[0x18 + 3] = 0x7F;
                spoilt = true;
            }
        }));
    }

    /// Schedules so many, and returns the sequences.
    pub(crate) fn schedule(&self, requests: usize) -> Vec<SeqId> {
        (0..requests)
            .map(|_| self.execute().unwrap().seq())
            .collect()
    }

    /// Lets the oldest complete that was held back, and waits for it.
    pub(crate) fn complete(&self, seq: SeqId) {
        assert!(self.device.ring_one());
        self.compute.wait(seq, None).unwrap();
    }

    /// Lets everything complete.
    pub(crate) fn release(&self) {
        self.device.release_doorbells();
    }
}
