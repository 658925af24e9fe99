//! What the devices of one process share: the descriptor for claims of a directory, and the attachment to each chip.
//!
//! Used by [`super::NeuronDevice`] while it opens and closes. A process opens a node once (`driver.md` section 11, trap 11)
//! and has one descriptor for claims (trap 13), but it may drive several chips, and a chip in several parts.
//!
//! Whoever opens or closes has the lock: a node is never opened while the last user of it closes it, and a process has one
//! reset at a time.

use crate::metrics::DATASTORE_VERSION;
use crate::neuron::answers::{Meaning, of_open};
use crate::neuron::discovery;
use crate::neuron::registry::driver_of;
use crate::neuron::{Claims, Datastore, DriverError, Kernel, Node, Owner};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A reset lasts minutes.
const PATIENCE: Duration = Duration::from_secs(600);
/// In a child of a fork the lock may be held for ever, by a thread that is not there. [`HOLDER`] says so but for the moment after it
/// was taken: until one thread of a child has had it, they wait no longer than this.
const PATIENCE_OF_A_CHILD: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

static SHARED: Mutex<Shared> = Mutex::new(Shared {
    claims: Vec::new(),
    attachments: Vec::new(),
});

/// The process that has the lock, 0 while none has. Relaxed: it matters in a child of a fork only, which has all that its parent
/// had stored.
static HOLDER: AtomicU32 = AtomicU32::new(0);

/// The process that has had the lock last, or has asked for it first; 0 before that. Relaxed: as [`HOLDER`].
static LAST: AtomicU32 = AtomicU32::new(0);

/// The lock, held.
#[derive(Debug)]
pub(super) struct Held(MutexGuard<'static, Shared>);

impl Deref for Held {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Shared {
        &mut self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Before the lock goes, which is a field.
        HOLDER.store(0, Ordering::Relaxed);
    }
}

/// What is open, as long as somebody uses it.
#[derive(Debug)]
pub(super) struct Shared {
    /// By driver.
    claims: Vec<(PathBuf, Weak<Claims>)>,
    attachments: Vec<(PathBuf, Weak<Attachment>)>,
}

/// A chip that this process is attached to. The datastore goes before the node.
#[derive(Debug)]
pub(super) struct Attachment {
    /// `None` when the driver has no area left: nobody sees our counters then.
    datastore: Option<Datastore>,
    node: Arc<Node>,
}

impl Attachment {
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(super) fn datastore(&self) -> Option<&Datastore> {
        self.datastore.as_ref()
    }
}

impl Shared {
    /// The lock.
    ///
    /// # Errors
    /// [`DriverError::Forked`] when a thread of the parent had it when it forked.
    pub(super) fn lock() -> Result<Held, DriverError> {
        let here = Owner::here().pid();
        if ![0, here].contains(&HOLDER.load(Ordering::Relaxed)) {
            return Err(DriverError::Forked);
        }
        // Before it is asked for: who forks while the first has just got it leaves a child that knows whose it is.
        let _had_before = LAST.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
        let guard = take(here).ok_or(DriverError::Forked)?;
        HOLDER.store(here, Ordering::Relaxed);
        LAST.store(here, Ordering::Relaxed);
        Ok(Held(guard))
    }

    /// The descriptor for claims of the driver of a directory, on its first device up to `device`: cores are counted from it.
    pub(super) fn claims(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        directory: &Path,
        device: u32,
    ) -> Result<Arc<Claims>, DriverError> {
        self.claims.retain(|(_, claims)| claims.strong_count() > 0);
        let driver = driver_of(&discovery::node(directory, device), directory);
        let known = self.claims.iter().find(|(known, _)| *known == driver);
        if let Some(claims) = known.and_then(|(_, claims)| claims.upgrade())
            && claims.is_here()
        {
            return Ok(claims);
        }
        let claims = first_claims(kernel, directory, device)?;
        self.claims.push((driver, Arc::downgrade(&claims)));
        Ok(claims)
    }

    /// The attachment to a device.
    pub(super) fn attach(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        directory: &Path,
        device: u32,
    ) -> Result<Arc<Attachment>, DriverError> {
        self.attachments
            .retain(|(_, attachment)| attachment.strong_count() > 0);
        let known = self
            .attachments
            .iter()
            .filter(|(path, _)| path == directory);
        for attachment in known.filter_map(|(_, attachment)| attachment.upgrade()) {
            let node = attachment.node();
            if node.index() == device && node.owner().is_here() && node.lost().is_none() {
                return Ok(attachment);
            }
        }
        let node = Arc::new(Node::open(Arc::clone(kernel), directory, device)?);
        // CAST: 1.
        let datastore = Datastore::own(&node, DATASTORE_VERSION as u32);
        let attachment = Arc::new(Attachment {
            datastore: datastore.ok(),
            node,
        });
        self.attachments
            .push((directory.to_owned(), Arc::downgrade(&attachment)));
        Ok(attachment)
    }
}

/// Waits for the lock, in the process `here`.
///
/// In a child without parking: what threads park in is shared by all locks, and one of the parent's may have had that, too.
fn take(here: u32) -> Option<MutexGuard<'static, Shared>> {
    let deadline = Instant::now() + PATIENCE_OF_A_CHILD;
    loop {
        // Ours from the start, or by now: another thread of this child has had it.
        if LAST.load(Ordering::Relaxed) == here {
            return SHARED.try_lock_for(PATIENCE);
        }
        if let Some(guard) = SHARED.try_lock() {
            return Some(guard);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Opened on the lowest device that there is, since those below cannot be claimed through it.
fn first_claims(
    kernel: &Arc<dyn Kernel>,
    directory: &Path,
    device: u32,
) -> Result<Arc<Claims>, DriverError> {
    for first in 0..device {
        match Claims::open(Arc::clone(kernel), directory, first) {
            // Not there, or not for us. Not one that cannot be opened just now: its cores could not be claimed later.
            Err(DriverError::Open { errno, .. })
                if matches!(
                    of_open(errno),
                    Meaning::Missing | Meaning::Unsupported | Meaning::Lost
                ) => {}
            opened => return opened,
        }
    }
    Claims::open(Arc::clone(kernel), directory, device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_a_child_does_not_wait_for_a_thread_that_it_has_not_got() {
        drop(Shared::lock().unwrap());
        // As a child finds it, whose parent was opening a device.
        HOLDER.store(Owner::here().pid() + 1, Ordering::Relaxed);
        assert_eq!(Shared::lock().err(), Some(DriverError::Forked));
        HOLDER.store(0, Ordering::Relaxed);
        // As one finds it whose parent had just taken the lock, and not yet said so.
        LAST.store(Owner::here().pid() + 1, Ordering::Relaxed);
        let held = SHARED.lock();
        assert_eq!(Shared::lock().err(), Some(DriverError::Forked));
        // Another thread of the child has it, and gives it back.
        let asked = std::thread::spawn(|| Shared::lock().is_ok());
        LAST.store(Owner::here().pid(), Ordering::Relaxed);
        drop(held);
        assert!(asked.join().unwrap());
        assert!(Shared::lock().is_ok());
        assert_eq!(LAST.load(Ordering::Relaxed), Owner::here().pid());
        // Who asks first is known before it has the lock.
        LAST.store(0, Ordering::Relaxed);
        let held = SHARED.lock();
        let asks = std::thread::spawn(|| Shared::lock().is_ok());
        while LAST.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        drop(held);
        assert!(asks.join().unwrap());
    }
}
