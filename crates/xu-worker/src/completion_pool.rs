//! The descriptors that callers wait on, kept for the next caller.
//!
//! One pool per virtual core, shared by its units; [`Waits`](crate::waits::Waits) takes from it. Spec `xu.md` section 4,
//! pool of completion efds:
//!
//! * [`POOLED_PER_CORE`] descriptors, made when they are first needed, the one returned last is lent first;
//! * drained when they come back, so that no old signal ends a new wait;
//! * beyond that, descriptors that are made for one wait and closed after it.
//!
//! The pool's lock is the innermost: it is taken inside a unit's mark_comp lock, and nothing is called under it.

use crate::eventfd::CompletionFd;
use crate::fork::Owner;
use crate::sync::Mutex;
use core::ops::Deref;
use std::io;
use std::sync::Arc;

/// Most descriptors that a pool keeps.
pub const POOLED_PER_CORE: usize = 16;

/// The completion descriptors of one virtual core. Those that nobody uses close with it.
#[derive(Debug)]
pub struct CompletionPool {
    state: Mutex<State>,
    owner: Owner,
}

/// Never more than [`POOLED_PER_CORE`] in `idle` and `pooled_out` together.
#[derive(Debug, Default)]
struct State {
    /// The last one is lent first.
    idle: Vec<Arc<CompletionFd>>,
    pooled_out: usize,
    fresh_out: usize,
}

impl State {
    fn out(&mut self, pooled: bool) -> &mut usize {
        if pooled {
            &mut self.pooled_out
        } else {
            &mut self.fresh_out
        }
    }
}

impl Default for CompletionPool {
    fn default() -> Self {
        Self::new()
    }
}

impl CompletionPool {
    /// A pool with no descriptors yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
            owner: Owner::here(),
        }
    }

    /// Lends a descriptor without a signal. In a forked child it is a new one, which is closed after use.
    ///
    /// # Errors
    /// What the operating system says when a new one cannot be made: the caller looks at the sequence again and again
    /// instead of waiting.
    pub fn take(self: &Arc<Self>) -> io::Result<Lease> {
        if !self.owner.is_here() {
            // A child has descriptors of its own, and locks nothing of its parent's.
            return Ok(Lease {
                fd: Arc::new(CompletionFd::new()?),
                pooled: false,
                pool: Arc::clone(self),
            });
        }
        let (idle, pooled) = self.reserve();
        let made = match idle {
            Some(fd) => Ok(fd),
            None => CompletionFd::new().map(Arc::new),
        };
        match made {
            Ok(fd) => Ok(Lease {
                fd,
                pooled,
                pool: Arc::clone(self),
            }),
            Err(error) => {
                *self.state.lock().out(pooled) -= 1;
                Err(error)
            }
        }
    }

    /// Counts one more that is out: an idle one, or one to be made; and whether it will come back.
    fn reserve(&self) -> (Option<Arc<CompletionFd>>, bool) {
        let mut state = self.state.lock();
        let idle = state.idle.pop();
        let pooled = idle.is_some() || state.pooled_out < POOLED_PER_CORE;
        *state.out(pooled) += 1;
        (idle, pooled)
    }

    /// Descriptors that nobody uses; none in a forked child.
    #[must_use]
    pub fn idle(&self) -> usize {
        if !self.owner.is_here() {
            return 0;
        }
        self.state.lock().idle.len()
    }

    /// Descriptors that are lent, pooled and fresh; none in a forked child.
    #[must_use]
    pub fn in_use(&self) -> usize {
        if !self.owner.is_here() {
            return 0;
        }
        let state = self.state.lock();
        state.pooled_out + state.fresh_out
    }
}

/// A descriptor that is lent, until this is dropped.
///
/// In a forked child dropping it closes the child's copy and touches nothing else.
#[derive(Debug)]
pub struct Lease {
    fd: Arc<CompletionFd>,
    pooled: bool,
    pool: Arc<CompletionPool>,
}

impl Lease {
    /// Whether the descriptor goes back to the pool; else it is closed. `efd_from_pool` of the ABI.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        self.pooled
    }
}

impl Deref for Lease {
    type Target = CompletionFd;

    fn deref(&self) -> &CompletionFd {
        &self.fd
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A child must not read: it would take a count of its parent's. Nor may it wait for a lock that a thread of its
        // parent held.
        if !self.pool.owner.is_here() {
            return;
        }
        // One that cannot be drained is broken, and is closed.
        let fit = self.pooled && self.fd.drain().is_ok();
        let mut state = self.pool.state.lock();
        *state.out(self.pooled) -= 1;
        if fit {
            state.idle.push(Arc::clone(&self.fd));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    fn pool() -> Arc<CompletionPool> {
        Arc::new(CompletionPool::new())
    }

    #[test]
    fn w3_the_last_one_returned_is_lent_first() {
        let pool = pool();
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        let (first, second) = (a.number(), b.number());
        drop(a);
        drop(b);
        assert_eq!(pool.idle(), 2);
        let again = pool.take().unwrap();
        assert_eq!(again.number(), second);
        assert_eq!(pool.take().unwrap().number(), first);
    }

    #[test]
    fn w3_a_returned_one_has_no_old_signal() {
        let pool = pool();
        let lease = pool.take().unwrap();
        let number = lease.number();
        lease.signal().unwrap();
        lease.signal().unwrap();
        drop(lease);
        let again = pool.take().unwrap();
        assert_eq!(again.number(), number);
        assert!(!again.wait(Some(Instant::now())).unwrap());
    }

    #[test]
    fn w3_the_seventeenth_is_not_pooled() {
        let pool = pool();
        let mut leases: Vec<_> = (0..POOLED_PER_CORE).map(|_| pool.take().unwrap()).collect();
        assert!(leases.iter().all(Lease::is_pooled));
        let seventeenth = pool.take().unwrap();
        assert!(!seventeenth.is_pooled());
        assert_eq!((pool.idle(), pool.in_use()), (0, 17));
        drop(seventeenth);
        assert_eq!((pool.idle(), pool.in_use()), (0, 16));
        leases.pop();
        assert!(pool.take().unwrap().is_pooled());
        leases.clear();
        assert_eq!((pool.idle(), pool.in_use()), (16, 0));
    }

    #[cfg(feature = "test-hooks")]
    #[test]
    fn p3_a_failure_leaves_the_pool_as_it_was() {
        use crate::eventfd::fail_call;
        const EMFILE: i32 = 24;

        let pool = pool();
        for _ in 0..2 * POOLED_PER_CORE {
            fail_call(1, EMFILE);
            assert_eq!(pool.take().unwrap_err().raw_os_error(), Some(EMFILE));
        }
        assert_eq!((pool.idle(), pool.in_use()), (0, 0));
        assert!(pool.take().unwrap().is_pooled());
    }
}
