//! The DMA queues of a device: who initialised each.

/// The DMA queues of a device: who initialised each.
#[derive(Debug, Default)]
pub(super) struct Rings {}
