//! `crossbeam-channel`, one bounded channel each way.

use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{answer, join};
use crate::pin::Pair;
use crate::worker::service::{Caller, Service};

/// More than the deepest loop has outstanding.
const CAPACITY: usize = 64;

/// As large as a request of ours.
type Request = [u64; 4];

pub(crate) struct Channels;

pub(crate) struct Asking {
    there: Sender<Request>,
    home: Receiver<Request>,
    thread: JoinHandle<()>,
}

impl Service for Channels {
    type Caller = Asking;

    fn start(processors: Pair) -> Option<Asking> {
        let (there, at) = bounded::<Request>(CAPACITY);
        let (back, home) = bounded(CAPACITY);
        let thread = answer(processors[1], move || {
            for request in at {
                if back.send(request).is_err() {
                    return;
                }
            }
        })?;
        Some(Asking {
            there,
            home,
            thread,
        })
    }
}

impl Caller for Asking {
    #[inline]
    fn submit(&mut self) {
        // An error says that the thread is gone, which `wait` does not survive.
        let _ = self.there.send([1; 4]);
    }

    #[inline]
    fn wait(&mut self) -> usize {
        let Ok(_) = self.home.recv() else {
            panic!("the answering thread is gone");
        };
        1 + self.home.try_iter().count()
    }

    fn stop(self) {
        drop(self.there);
        join(self.thread);
    }
}
