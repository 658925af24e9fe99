//! All counters at one time.
//!
//! Taken by [`super::Metrics::snapshot`], compared and printed by whoever watches.

use super::{COUNTERS, NoSuchCore, core_counters};
use core::fmt;
use xu_abi::TpbIndex;
use xu_abi::metric::CoreCounter;

/// The counters of all cores of a device at one time.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub(super) cores: u16,
    /// Counters by ordinal, core after core.
    pub(super) values: Vec<u64>,
}

impl Snapshot {
    /// Number of cores.
    #[must_use]
    pub fn cores(&self) -> u16 {
        self.cores
    }

    /// The value of a core's counter.
    ///
    /// # Errors
    /// [`NoSuchCore`].
    pub fn counter(&self, tpb: TpbIndex, counter: CoreCounter) -> Result<u64, NoSuchCore> {
        let at = usize::from(tpb.get()) * COUNTERS + usize::from(counter.ordinal());
        self.values.get(at).copied().ok_or(NoSuchCore {
            tpb,
            cores: self.cores,
        })
    }
}

/// Core, counter and value of what is not zero.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places =
            (0..self.cores).flat_map(|tpb| core_counters().map(move |counter| (tpb, counter)));
        let moved = places.zip(&self.values).filter(|(_, value)| **value != 0);
        f.debug_map().entries(moved).finish()
    }
}
