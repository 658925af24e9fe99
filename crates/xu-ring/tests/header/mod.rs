//! Rings whose header lies in somebody else's memory: what `loom.rs` runs in every interleaving.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicU32;
use loom::thread;
use xu_ring::queue::{Ends, Header, RingError, ring_in};

use super::{XU, finish, seq, submit};

/// Memory of ours with the header of a ring in it.
#[derive(Default)]
struct Home {
    header: Header,
    /// How many notes were dropped.
    dropped: Arc<AtomicU32>,
}

impl Home {
    fn ring<T: Send>(self: &Arc<Self>) -> Result<Ends<T>, RingError> {
        ring_in(XU, 1, self.clone(), |home| &home.header)
    }
}

/// A payload that writes that it was dropped. Relaxed: it is the ring that orders.
struct Note(Arc<AtomicU32>);

impl Drop for Note {
    fn drop(&mut self) {
        self.0.store(1, Relaxed);
    }
}

/// The last end of a ring goes on one thread or the other, and the next ring in its header sees all that was done.
pub(crate) fn reused() {
    let home = Arc::new(Home::default());
    let (mut submitter, worker, _) = home.ring().expect("it is empty");
    let note = Box::new(Note(home.dropped.clone()));
    submitter.submit(note).expect("there is room");
    let going = thread::spawn(move || drop(worker));
    drop(submitter);
    match home.ring::<u64>() {
        Ok((submitter, worker, observer)) => {
            assert_eq!(home.dropped.load(Relaxed), 1);
            assert_eq!(observer.last_submitted(), seq(0));
            assert_eq!(home.header.snapshot(), Some(observer.snapshot()));
            going.join().expect("no panic");
            assert_eq!(home.header.xu(), Some(XU));
            drop(observer);
            finish(submitter, worker);
        }
        Err(error) => {
            assert_eq!(error, RingError::HeaderInUse { xu: XU });
            going.join().expect("no panic");
        }
    }
    assert!(!home.header.is_in_use());
    assert_eq!(Arc::strong_count(&home), 1);
}

/// Who looks at a header while a ring comes to it sees no ring, or all of it.
pub(crate) fn watched() {
    let home = Arc::new(Home::default());
    let watcher = thread::spawn({
        let home = home.clone();
        move || {
            assert!(home.header.xu().is_none_or(|xu| xu == XU));
            let shown = home.header.snapshot();
            assert!(shown.is_none_or(|shown| shown.depth() <= 1));
        }
    });
    let (mut submitter, worker, _) = home.ring().expect("it is empty");
    assert!(submit(&mut submitter));
    watcher.join().expect("no panic");
    finish(submitter, worker);
}
