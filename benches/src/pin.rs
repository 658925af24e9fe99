//! Which two processors the threads run on, and how they stay there.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Two processors, one for each thread.
pub(crate) type Pair = [usize; 2];

/// Binds the calling thread to a processor. Where that is refused, the thread stays unbound: the probe will tell.
pub(crate) fn pin(processor: usize) {
    let mut set = CpuSet::new();
    if set.set(processor).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Runs it on a thread of its own that is bound to a processor.
///
/// # Panics
/// When it does.
pub(crate) fn on<T: Send>(processor: usize, run: impl FnOnce() -> T + Send) -> T {
    let bound = move || {
        pin(processor);
        run()
    };
    match std::thread::scope(|scope| scope.spawn(bound).join()) {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The first processor that this process may use, and the first other one on another core as far as the system knows.
///
/// # Errors
/// There is only one.
pub(crate) fn choose() -> Result<Pair, String> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(|e| format!("no affinity: {e}"))?;
    let allowed: Vec<usize> = (0..CpuSet::count())
        .filter(|&processor| set.is_set(processor) == Ok(true))
        .collect();
    pair_of(&allowed, siblings)
        .ok_or_else(|| "two processors are needed, and this process may use only one".to_owned())
}

fn pair_of(allowed: &[usize], siblings: impl Fn(usize) -> String) -> Option<Pair> {
    let (&first, others) = allowed.split_first()?;
    let core = siblings(first);
    let elsewhere = others.iter().find(|&&other| siblings(other) != core);
    elsewhere.or(others.first()).map(|&second| [first, second])
}

/// The processors that share a core with this one, in the system's words; each its own where the system is silent.
pub(crate) fn siblings(processor: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
    match std::fs::read_to_string(path) {
        Ok(list) => list.trim().to_owned(),
        Err(_) => processor.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_avoided_where_possible() {
        let paired = |processor: usize| (processor / 2).to_string();
        assert_eq!(pair_of(&[0, 1, 2, 3], paired), Some([0, 2]));
        assert_eq!(pair_of(&[2, 3], paired), Some([2, 3]));
        assert_eq!(pair_of(&[5], paired), None);
        assert_eq!(pair_of(&[], paired), None);
    }
}
