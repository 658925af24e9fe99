//! Forks for real: owners are not here in children, and children do their parent no harm.
//!
//! A program without a test harness, so that it has one thread.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[cfg(any(loom, miri))]
fn main() {}

#[cfg(not(any(loom, miri)))]
fn main() {
    p1_a_page_made_after_the_fork();
    p1_owners_are_not_here_in_descendants();
    p1_a_child_lends_nothing_back();
    println!("3 passed");
}

#[cfg(not(any(loom, miri)))]
use tests::*;

#[cfg(not(any(loom, miri)))]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};
    use std::sync::Arc;
    use std::time::Instant;
    use xu_abi::SeqId;
    use xu_worker::completion_pool::CompletionPool;
    use xu_worker::eventfd::CompletionEvent;
    use xu_worker::events::Events;
    use xu_worker::fork::Owner;

    /// Whether `test` is true in a child of this process.
    fn in_child(test: impl FnOnce() -> bool) -> bool {
        // SAFETY: this process has one thread, so no lock is held by a thread that the child lacks.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let code = i32::from(!test());
                // SAFETY: ends the process without running what the parent has registered for its own end.
                unsafe { nix::libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                waitpid(child, None).unwrap() == WaitStatus::Exited(child, 0)
            }
        }
    }

    /// Before this process has asked for its first owner.
    pub(super) fn p1_a_page_made_after_the_fork() {
        assert!(in_child(|| {
            let child = Owner::here();
            child.is_here() && in_child(|| !child.is_here() && Owner::here().is_here())
        }));
        assert!(Owner::here().is_here());
    }

    pub(super) fn p1_owners_are_not_here_in_descendants() {
        let parent = Owner::here();
        // A child that asks for an owner of its own, and one that does not.
        for asks in [true, false] {
            assert!(in_child(|| {
                if parent.is_here() {
                    return false;
                }
                let child = asks.then(Owner::here);
                if !child.is_none_or(Owner::is_here) || parent.is_here() {
                    return false;
                }
                in_child(|| {
                    let strangers = |owner: Owner| !owner.is_here();
                    let before = strangers(parent) && child.is_none_or(strangers);
                    let grandchild = Owner::here();
                    before
                        && grandchild.is_here()
                        && strangers(parent)
                        && child.is_none_or(strangers)
                })
            }));
            assert!(parent.is_here());
        }
    }

    pub(super) fn p1_a_child_lends_nothing_back() {
        let pool = Arc::new(CompletionPool::new());
        let lease = pool.take().unwrap();
        lease.signal().unwrap();
        let event = CompletionEvent::new().unwrap();
        let written = event.app_event().unwrap();
        written.notify().unwrap();
        let events = Events::new();
        events.register_unit(written, || SeqId::from_raw(0));
        let (mut lease, mut events, mut pool) = (Some(lease), Some(events), Some(pool));
        assert!(in_child(|| {
            drop(lease.take());
            drop(events.take());
            drop(pool.take());
            true
        }));
        // The signals are still there.
        assert!(lease.as_ref().unwrap().wait(Some(Instant::now())).unwrap());
        assert_eq!(event.drain().unwrap(), 1);
        drop(lease);
        assert_eq!(pool.as_ref().unwrap().idle(), 1);
    }
}
