//! What requests cost besides time: system calls, and memory from the heap.

use super::cells::{self, Entry};
use crate::heap;
use crate::pin::{self, Pair};
use crate::strace::{self, PerRequest};
use crate::worker::tally;

const DEPTH: usize = 8;
/// Blocks of the shorter of two runs, whose difference counts.
const BLOCKS: usize = 600;
const TRACED_BLOCKS: usize = 120;
const SMOKE_TRACED_BLOCKS: usize = 10;

/// All that a request costs with one way to ask, and one to answer.
#[derive(Debug)]
pub(crate) struct Cost<T> {
    pub(crate) name: &'static str,
    pub(crate) way: &'static str,
    pub(crate) each: T,
}

#[derive(Debug, Default)]
pub(crate) struct Costs {
    pub(crate) calls: Vec<Cost<PerRequest>>,
    /// Why there are none.
    pub(crate) no_calls: Option<String>,
    /// From the heap, on all threads together; empty where the heap does not count.
    pub(crate) allocations: Vec<Cost<f64>>,
}

impl Costs {
    /// Measures all of it, without hurry: nothing else of this program runs meanwhile.
    pub(crate) fn measured(processors: Pair, smoke: bool) -> Self {
        let allocations = allocations(processors);
        eprintln!("allocations counted");
        let (calls, no_calls) = match system_calls(smoke) {
            Ok(calls) => (calls, None),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        eprintln!("system calls counted");
        Self {
            calls,
            no_calls,
            allocations,
        }
    }

    /// All system calls for each request; empty where they were not counted.
    pub(crate) fn calls_of(&self, name: &str) -> &[f64] {
        let found = self.calls.iter().find(|cost| cost.name == name);
        found.map_or(&[], |cost| &cost.each.all)
    }

    pub(crate) fn allocations_of(&self, name: &str) -> Option<f64> {
        let found = self.allocations.iter().find(|cost| cost.name == name);
        found.map(|cost| cost.each)
    }
}

/// The loops whose costs are counted: the twin's are those of the other.
fn counted() -> impl Iterator<Item = Entry> {
    let mut loops = cells::loops();
    loops.retain(|entry| entry.name != cells::TWIN);
    loops.into_iter()
}

/// A run, and one that is twice as long: what starting takes is the same in both.
fn allocations(processors: Pair) -> Vec<Cost<f64>> {
    if !heap::is_installed() {
        return Vec::new();
    }
    let taken = |entry: &Entry, blocks| {
        let mut stamps = vec![1; blocks];
        let mut ran = false;
        let taken = heap::taken_during(|| ran = (entry.drive)(processors, DEPTH, &mut stamps));
        ran.then_some(taken as f64)
    };
    let of = |entry: Entry| {
        let (once, twice) = (taken(&entry, BLOCKS)?, taken(&entry, 2 * BLOCKS)?);
        Some(Cost {
            name: entry.name,
            way: entry.way,
            each: (twice - once) / (BLOCKS * tally::block(DEPTH)) as f64,
        })
    };
    counted().filter_map(of).collect()
}

fn system_calls(smoke: bool) -> Result<Vec<Cost<PerRequest>>, String> {
    let blocks = if smoke {
        SMOKE_TRACED_BLOCKS
    } else {
        TRACED_BLOCKS
    };
    let of = |entry: Entry| {
        let block = tally::block(DEPTH);
        let errand = |requests: usize| {
            let [errand, name, way] = ["--errand", entry.name, entry.way].map(str::to_owned);
            vec![errand, name, way, (requests / block).to_string()]
        };
        Ok(Cost {
            name: entry.name,
            way: entry.way,
            each: strace::per_request(blocks * block, errand)?,
        })
    };
    counted().map(of).collect()
}

/// What the traced process does.
///
/// # Errors
/// The errand is not understood, or cannot be done here.
pub(crate) fn run(errand: &[String]) -> Result<(), String> {
    let not_understood = || "the errand is not understood".to_owned();
    let [name, way, blocks] = errand else {
        return Err(not_understood());
    };
    let mut loops = counted();
    let entry = loops.find(|entry| entry.name == name && entry.way == way);
    let entry = entry.ok_or_else(not_understood)?;
    let mut stamps = vec![1; blocks.parse().map_err(|_| not_understood())?];
    if (entry.drive)(pin::choose()?, DEPTH, &mut stamps) {
        Ok(())
    } else {
        Err(format!("{name} cannot run here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errands_are_done_or_not_understood() {
        if pin::choose().is_ok() {
            for entry in counted() {
                let errand = [entry.name, entry.way, "2"].map(str::to_owned);
                assert_eq!(run(&errand), Ok(()), "{}", entry.name);
            }
        }
        for line in [
            vec![],
            vec!["nobody", "", "2"],
            vec![cells::OURS[0], "", "x"],
        ] {
            let errand: Vec<String> = line.into_iter().map(str::to_owned).collect();
            assert!(run(&errand).is_err(), "{errand:?}");
        }
    }
}
