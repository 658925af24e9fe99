//! The device under both sides, and the model that both load.

use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use nrta::Model;
use xu_device::Device;
use xu_device::simulated::{Machine, MachineConfig};

use crate::device::null::{Doorbell, NullDevice};
use crate::pin::{self, Pair};

/// Rings, bounce buffers, and a program with 63 slots fit.
const BYTES: usize = 4 << 20;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/model.xum");

/// A kind of device.
pub(crate) trait Place: 'static {
    /// A new one. Called on a thread that is bound to the first processor, and leaves it there.
    fn device(processors: Pair) -> Option<Arc<dyn Device>>;
}

/// Every execution is over when its doorbell has rung.
pub(crate) struct NoLatency;

/// Every execution is over when its doorbell has rung, and the thread that looks for its records writes them: they cost the same
/// whoever has rung.
pub(crate) struct NoLatencyAtTheLook;

/// Engines on threads of their own, on the second processor, run the model.
pub(crate) struct Simulated;

impl Place for NoLatency {
    fn device(_: Pair) -> Option<Arc<dyn Device>> {
        let null = NullDevice::<false>::with_memory(Doorbell::Answers, BYTES);
        // The compiler must not look through the seam.
        Some(black_box(Arc::new(null)))
    }
}

impl Place for NoLatencyAtTheLook {
    fn device(_: Pair) -> Option<Arc<dyn Device>> {
        let null = NullDevice::<false>::with_memory(Doorbell::AnswersWhenAsked, BYTES);
        // As above.
        Some(black_box(Arc::new(null)))
    }
}

impl Place for Simulated {
    fn device(processors: Pair) -> Option<Arc<dyn Device>> {
        // Its threads are bound as the one that starts them.
        pin::pin(processors[1]);
        let machine = Machine::start(MachineConfig::default());
        pin::pin(processors[0]);
        match machine {
            Ok(machine) => Some(machine),
            Err(fault) => {
                eprintln!("no simulated machine: {fault}");
                None
            }
        }
    }
}

/// The digits model, read once. `None` where the file is not.
pub(crate) fn model() -> Option<&'static Model> {
    static DIGITS: OnceLock<Option<Model>> = OnceLock::new();
    DIGITS.get_or_init(|| Model::open(MODEL).ok()).as_ref()
}
