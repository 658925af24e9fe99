//! The notification rings of a device: which chunk each queue has.

/// The notification rings of a device: which chunk each queue has.
#[derive(Debug, Default)]
pub(super) struct Notifications {}
