//! Where a device has memory that chunks are made of.
//!
//! ```text
//!   HBM n     | firmware | main pool ...            ... <- scratchpads | small pool |
//!   host      | chunks ...                                             | driver's own |
//! ```
//!
//! Spec `driver.md` section 8; `driver_emulation.md` section 2. Addresses are those that DMA engines see.

use super::extents::Extents;
use crate::choices::LARGEST_SHARE;
use crate::config::Config;
use std::ops::Range;
use xu_abi::driver::{HBM_RESERVED, PAGE, SMALL_CHUNK, SMALL_POOL};

/// The driver's own host memory, at the end of that of the device: a buffer to copy through, and a ring.
const OWN: u64 = BOUNCE + PAGE;
/// Bytes that the driver copies through its own memory at once.
pub(in crate::driver) const BOUNCE: u64 = 64 << 10;

/// The memory of a device.
#[derive(Debug)]
pub(super) struct Pools {
    hbm: Vec<Hbm>,
    host: Extents,
    /// Most bytes of a host chunk.
    host_chunk: u64,
    own: u64,
}

/// One HBM.
#[derive(Debug)]
struct Hbm {
    main: Extents,
    small: Extents,
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::driver) enum Place {
    Host,
    /// The number of the HBM.
    Hbm(u32),
}

impl Pools {
    pub(super) fn new(config: &Config, device: u32) -> Self {
        let table = config.arch.table();
        let bytes = config.hbm_bytes.min(table.hbm_bytes) / PAGE * PAGE;
        let host_bytes = config.host_bytes / PAGE * PAGE;
        let host = config.host_base(device);
        let own = host + host_bytes.saturating_sub(OWN);
        Self {
            hbm: table
                .hbm
                .iter()
                .map(|base| Hbm::new(*base, bytes))
                .collect(),
            host: Extents::new(host..own),
            host_chunk: config.host_chunk_bytes,
            own,
        }
    }

    /// Where the driver's own host memory begins.
    pub(super) fn own(&self) -> u64 {
        self.own
    }

    /// Takes memory, if there is any. Bytes and alignment are multiples of a page.
    pub(super) fn take(&mut self, place: Place, bytes: u64, align: u64) -> Option<u64> {
        match place {
            Place::Host if bytes > self.host_chunk => None,
            Place::Host => self.host.take(bytes, align),
            Place::Hbm(channel) => self.channel(channel)?.take(bytes, align),
        }
    }

    /// Takes memory that ends at `end`, or below to be aligned.
    pub(super) fn take_below(
        &mut self,
        channel: u32,
        end: u64,
        bytes: u64,
        align: u64,
    ) -> Option<u64> {
        let first = end.checked_sub(bytes)? / align * align;
        let main = &mut self.channel(channel)?.main;
        main.cut(first, bytes).then_some(first)
    }

    /// Gives memory back.
    pub(super) fn give(&mut self, place: Place, range: Range<u64>) {
        let pool = match place {
            Place::Host => Some(&mut self.host),
            Place::Hbm(channel) => self.channel(channel).map(|hbm| hbm.of(range.start)),
        };
        if let Some(pool) = pool {
            pool.give(range);
        }
    }

    /// Where the main pool of an HBM ends.
    pub(super) fn end_of_main(&self, channel: u32) -> Option<u64> {
        // CAST: widening.
        Some(self.hbm.get(channel as usize)?.main.whole().end)
    }

    fn channel(&mut self, channel: u32) -> Option<&mut Hbm> {
        // CAST: widening.
        self.hbm.get_mut(channel as usize)
    }
}

impl Hbm {
    fn new(base: u64, bytes: u64) -> Self {
        let share = bytes / LARGEST_SHARE / PAGE * PAGE;
        let (firmware, small) = (share.min(HBM_RESERVED), share.min(SMALL_POOL));
        let (end, boundary) = (base + bytes, base + bytes - small);
        Self {
            main: Extents::new(base + firmware..boundary),
            small: Extents::new(boundary..end),
        }
    }

    /// Small chunks come from their own pool first, others from the main pool; each spills into the other.
    fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let (first, second) = if bytes <= SMALL_CHUNK {
            (&mut self.small, &mut self.main)
        } else {
            (&mut self.main, &mut self.small)
        };
        first
            .take(bytes, align)
            .or_else(|| second.take(bytes, align))
    }

    /// The pool that an address belongs to.
    fn of(&mut self, address: u64) -> &mut Extents {
        if self.small.whole().contains(&address) {
            &mut self.small
        } else {
            &mut self.main
        }
    }
}
