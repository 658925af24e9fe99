//! Which status wins: the priorities of `xu.md` 2.11, what ends a unit, and what outranks what.
//!
//! Written from the specification and its rulings, without a look at the code that they are tested against.

use std::collections::BTreeSet;
use xu_abi::Status;
use xu_abi::record::ErrorKind;

/// Statuses that the specification allows, by their numbers.
pub(crate) type Allowed = BTreeSet<i32>;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const FAILURE: i32 = 1;
pub(crate) const TIMEOUT: i32 = 5;
pub(crate) const HW_ERROR: i32 = 6;
pub(crate) const UNRECOVERABLE: i32 = 101;
pub(crate) const NUMERICAL: i32 = 1003;
pub(crate) const WITH_ERROR: i32 = 1004;
pub(crate) const OUT_OF_BOUNDS: i32 = 1006;
pub(crate) const HBM: i32 = 1201;
pub(crate) const ECC: i32 = 1202;
pub(crate) const DMA_ABORT: i32 = 1203;
pub(crate) const OVERFLOW: i32 = 1204;
pub(crate) const REPAIRABLE: i32 = 1205;

/// Priority of a status where several meet (2.11).
pub(crate) fn priority(status: i32) -> u8 {
    match status {
        0 => 0,
        5 | 6 | 1200 | 1204 | 1206 => 2,
        1004..=1205 => 3,
        _ => 1,
    }
}

/// Whether a unit that saw this status takes no more work (6, "what degrades").
pub(crate) fn ends_unit(status: i32) -> bool {
    !matches!(status, SUCCESS | NUMERICAL | WITH_ERROR | OUT_OF_BOUNDS)
}

/// What a record of the error ring means; `None` is for the log only.
pub(crate) fn of_error(kind: ErrorKind) -> Option<i32> {
    match kind {
        ErrorKind::Transient | ErrorKind::SoftwareSequencer => Some(WITH_ERROR),
        ErrorKind::Numerical => Some(NUMERICAL),
        ErrorKind::EccUncorrectable => Some(ECC),
        ErrorKind::EccCorrectable => None,
        ErrorKind::Unknown(_) => Some(HW_ERROR),
    }
}

/// Statuses that were found in any case, and those that may have been found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) certain: BTreeSet<i32>,
    pub(crate) possible: BTreeSet<i32>,
}

/// The statuses of an execution whose wait ended with `verdict` (`None`: every engine has completed).
///
/// `reported` is what its records say, `behind` is what is only looked at when it did not succeed: memory-error
/// counters and the request queue.
pub(crate) fn resolve(verdict: Option<i32>, reported: &Found, behind: &Found) -> Allowed {
    let mut allowed = Allowed::new();
    for said in subsets(reported) {
        if verdict.is_none() && said.is_empty() {
            allowed.insert(SUCCESS);
            continue;
        }
        for counted in subsets(behind) {
            let all: BTreeSet<i32> = said.union(&counted).copied().collect();
            allowed.extend(strongest(verdict, &all));
        }
    }
    allowed
}

/// The strongest of what was found; every one of those that tie.
fn strongest(verdict: Option<i32>, found: &BTreeSet<i32>) -> Allowed {
    let enders: BTreeSet<i32> = found
        .iter()
        .copied()
        .filter(|status| ends_unit(*status))
        .collect();
    match verdict {
        Some(verdict) => {
            let stronger = enders
                .into_iter()
                .filter(|status| priority(*status) > priority(verdict));
            let stronger: BTreeSet<i32> = stronger.collect();
            if stronger.is_empty() {
                Allowed::from([verdict])
            } else {
                highest(&stronger)
            }
        }
        // A status that ends the unit is not hidden by one that does not.
        None if enders.is_empty() => highest(found),
        None => highest(&enders),
    }
}

fn highest(statuses: &BTreeSet<i32>) -> Allowed {
    let top = statuses.iter().map(|status| priority(*status)).max();
    statuses
        .iter()
        .copied()
        .filter(|status| Some(priority(*status)) == top)
        .collect()
}

/// What may have been found: all that is certain, with any of what is possible.
fn subsets(found: &Found) -> Vec<BTreeSet<i32>> {
    let mut subsets = vec![found.certain.clone()];
    for status in found.possible.difference(&found.certain) {
        let with = subsets.iter().cloned().map(|mut subset| {
            subset.insert(*status);
            subset
        });
        subsets = with.chain(subsets.clone()).collect();
    }
    subsets
}

/// The statuses as an application sees them.
pub(crate) fn number(status: Status) -> i32 {
    status.raw()
}
