//! What DMA queues promise.
