//! The chunks of a device: handles, addresses, sizes, owners.

/// The chunks of a device: handles, addresses, sizes, owners.
#[derive(Debug, Default)]
pub(super) struct Chunks {}
