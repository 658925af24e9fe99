//! What processes have counted, added up when each is done: the counters of sysfs.
//!
//! Spec `driver.md` sections 9 and 10. Counters of the device are versions and amounts of a process, which no file of sysfs
//! shows and which do not add up: they are left out.

use xu_abi::metric::CoreCounter;

/// A counter of sysfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) total: u64,
    /// The last that was added.
    pub(super) present: u64,
}

impl Counter {
    fn add(&mut self, delta: u64) {
        self.total = self.total.wrapping_add(delta);
        self.present = delta;
    }
}

/// The counters of one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreTotals {
    counters: [Counter; CoreCounter::COUNT as usize],
    pub(super) reset_requests: Counter,
    pub(super) reset_failures: Counter,
}

impl Default for CoreTotals {
    fn default() -> Self {
        Self {
            // CAST: 95, widening.
            counters: [Counter::default(); CoreCounter::COUNT as usize],
            reset_requests: Counter::default(),
            reset_failures: Counter::default(),
        }
    }
}

impl CoreTotals {
    pub(super) fn get(&self, counter: CoreCounter) -> Counter {
        // PANIC: ordinals are below the number of counters.
        self.counters[usize::from(counter.ordinal())]
    }
}

/// The counters of a device.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// By core: as many as any architecture has.
    cores: [CoreTotals; 8],
}

impl Totals {
    pub(super) fn core(&self, core: u8) -> CoreTotals {
        self.cores
            .get(usize::from(core))
            .copied()
            .unwrap_or_default()
    }

    /// Adds an area to the totals.
    pub(super) fn add(&mut self, area: &[u8], cores: u8) {
        for (core, totals) in (0..cores).zip(&mut self.cores) {
            for counter in (0..CoreCounter::COUNT).filter_map(CoreCounter::new) {
                let offset = counter.datastore_offset(core);
                let value = offset.map_or(0, |offset| word(area, offset));
                // PANIC: as above.
                totals.counters[usize::from(counter.ordinal())].add(value);
            }
        }
    }

    /// A reset of these cores was asked for.
    pub(super) fn count_reset(&mut self, nc_map: u32, fails: bool) {
        for (core, totals) in self.cores.iter_mut().enumerate() {
            if nc_map >> core & 1 == 1 {
                totals.reset_requests.add(1);
                if fails {
                    totals.reset_failures.add(1);
                }
            }
        }
    }
}

/// The 64-bit number at an offset; 0 beyond the end.
fn word(area: &[u8], offset: u32) -> u64 {
    // CAST: widening.
    area.get(offset as usize..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
