//! Range marks: which process says that a core is its own.
//!
//! Spec `driver.md` section 3, claiming cores. Marks are cooperative, and the system's, not a device's: cores are counted
//! through all devices. Only an unmark or the close of a descriptor for writing only takes them away.
//!
//! ```text
//!   core of the host   0 ... 511        an argument's index is relative to the device that is asked:
//!   mark               pid or 0         host core = device index x cores per device + index
//! ```

use super::call::{Call, Failure, Handled};
use crate::config::DriverFault;
use std::collections::BTreeMap;
use std::ops::Range;
use xu_abi::driver::errno::{EBUSY, EINVAL};
use xu_abi::driver::{CrwlNcMap, CrwlNcMapExt, MAX_MARKED_CORES};

// CAST: 512.
const CORES: usize = MAX_MARKED_CORES as usize;

/// The process that marked each core of the host; 0 for none.
#[derive(Debug)]
pub(super) struct Claims {
    owners: [u32; CORES],
}

impl Default for Claims {
    fn default() -> Self {
        Self { owners: [0; CORES] }
    }
}

impl Claims {
    /// Free runs in a range, from the first.
    fn free_runs(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for core in range {
            // PANIC: callers have checked the range.
            if self.owners[core] != 0 {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == core => run.end += 1,
                _ => runs.push(core..core + 1),
            }
        }
        runs
    }

    fn mark(&mut self, cores: Range<usize>, pid: u32) {
        // PANIC: a run of a checked range.
        self.owners[cores].fill(pid);
    }

    fn unmark(&mut self, core: usize, pid: u32) {
        if let Some(owner) = self.owners.get_mut(core).filter(|owner| **owner == pid) {
            *owner = 0;
        }
    }

    /// A process closes a descriptor for writing only.
    pub(super) fn release_all(&mut self, pid: u32) {
        for core in 0..CORES {
            self.unmark(core, pid);
        }
    }

    /// Cores by process.
    pub(super) fn by_process(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut marks = BTreeMap::<_, Vec<_>>::new();
        for (core, pid) in self.owners.iter().enumerate().filter(|(_, pid)| **pid != 0) {
            marks.entry(*pid).or_default().push(core);
        }
        marks
    }
}

/// CRWL_NC_RANGE_MARK: speaks of 64 cores.
pub(super) fn crwl_nc_range_mark(call: &Call<'_>) -> Handled {
    let mut map: CrwlNcMap = call.argument()?;
    let wanted = Wanted {
        count: map.nc_count,
        first: map.start_nc_index,
        last: map.end_nc_index,
        limit: u64::BITS,
    };
    let marked = mark(call, wanted)?;
    map.max_nc_available = marked.longest;
    // PANIC: 8 words.
    map.bitmap = marked.bitmap[0];
    call.answer(&map)?;
    marked.verdict
}

/// CRWL_NC_RANGE_MARK_EXT0.
pub(super) fn crwl_nc_range_mark_ext0(call: &Call<'_>) -> Handled {
    let mut map: CrwlNcMapExt = call.argument()?;
    let wanted = Wanted {
        count: map.nc_count,
        first: map.start_nc_index,
        last: map.end_nc_index,
        limit: MAX_MARKED_CORES,
    };
    let marked = mark(call, wanted)?;
    map.max_nc_available = marked.longest;
    map.bitmap = marked.bitmap;
    call.answer(&map)?;
    marked.verdict
}

/// CRWL_NC_RANGE_UNMARK.
pub(super) fn crwl_nc_range_unmark(call: &Call<'_>) -> Handled {
    let map: CrwlNcMap = call.argument()?;
    unmark(call, &[map.bitmap]);
    Ok(())
}

/// CRWL_NC_RANGE_UNMARK_EXT0.
pub(super) fn crwl_nc_range_unmark_ext0(call: &Call<'_>) -> Handled {
    let map: CrwlNcMapExt = call.argument()?;
    unmark(call, &map.bitmap);
    Ok(())
}

/// What a mark asks for.
#[derive(Clone, Copy)]
struct Wanted {
    count: u32,
    first: u32,
    last: u32,
    /// Cores that the bitmap has bits for.
    limit: u32,
}

/// What came of a mark. It is written back when the mark is refused, too.
struct Marked {
    longest: u32,
    bitmap: [u64; 8],
    verdict: Handled,
}

fn mark(call: &Call<'_>, wanted: Wanted) -> Result<Marked, Failure> {
    let base = first_core(call);
    let refused = wanted.first > wanted.last || wanted.last >= wanted.limit;
    // CAST: below 512, here and below.
    let range = base + wanted.first as usize..base + wanted.last as usize + 1;
    if refused || range.end > CORES {
        return Err(Failure::Errno(EINVAL));
    }
    let taken = call
        .device
        .faults
        .happens(DriverFault::BusyMark, call.pid());
    let mut claims = call.device.system.claims.lock();
    let runs = claims.free_runs(range);
    let longest = runs.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let mut marked = Marked {
        longest: longest as u32,
        bitmap: [0; 8],
        verdict: Ok(()),
    };
    if wanted.count == 0 {
        return Ok(marked);
    }
    let count = wanted.count as usize;
    let Some(run) = runs.iter().find(|run| run.len() >= count && !taken) else {
        marked.verdict = Err(Failure::Errno(EBUSY));
        return Ok(marked);
    };
    let cores = run.start..run.start + count;
    claims.mark(cores.clone(), call.pid());
    for core in cores {
        let bit = core - base;
        // PANIC: below 512.
        marked.bitmap[bit / 64] |= 1 << (bit % 64);
    }
    Ok(marked)
}

fn unmark(call: &Call<'_>, bitmap: &[u64]) {
    let base = first_core(call);
    let mut claims = call.device.system.claims.lock();
    for (word, bits) in bitmap.iter().enumerate() {
        for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
            claims.unmark(base + word * 64 + bit, call.pid());
        }
    }
}

/// The first core of the device that is asked, in the host.
fn first_core(call: &Call<'_>) -> usize {
    // CAST: at most 16 devices of 8 cores.
    (call.device.index * call.device.cores()) as usize
}
