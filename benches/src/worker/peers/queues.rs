//! Two plain queues, one each way, with both sides awake: what is left of a request without sleeping and waking.

use std::marker::PhantomData;
use std::thread::JoinHandle;

use super::{answer, join};
use crate::candidates::{Queue, Receiver, Sender, Wait};
use crate::pin::Pair;
use crate::worker::service::{Caller, Service};

/// More than the deepest loop has outstanding.
const CAPACITY: usize = 64;

/// As large as a request of ours.
type Request = [u64; 4];

const REQUEST: Request = [1; 4];
/// Ends the answering thread.
const LAST: Request = [0; 4];

/// Two queues of this kind; who finds one empty waits like this.
pub(crate) struct Queues<Q, W>(PhantomData<(Q, W)>);

pub(crate) struct Asking<S, R, W> {
    there: S,
    home: R,
    thread: JoinHandle<()>,
    waits: PhantomData<W>,
}

impl<Q, W> Service for Queues<Q, W>
where
    Q: Queue<Request, Sender: 'static, Receiver: 'static>,
    W: Wait,
{
    type Caller = Asking<Q::Sender, Q::Receiver, W>;

    fn start(processors: Pair) -> Option<Self::Caller> {
        let (there, mut at) = Q::with_capacity(CAPACITY);
        let (mut back, home) = Q::with_capacity(CAPACITY);
        let thread = answer(processors[1], move || {
            loop {
                let request = at.receive::<W>();
                if request == LAST {
                    return;
                }
                back.send::<W>(request);
            }
        })?;
        Some(Asking {
            there,
            home,
            thread,
            waits: PhantomData,
        })
    }
}

impl<S: Sender<Request>, R: Receiver<Request>, W: Wait> Caller for Asking<S, R, W> {
    #[inline]
    fn submit(&mut self) {
        self.there.send::<W>(REQUEST);
    }

    #[inline]
    fn wait(&mut self) -> usize {
        self.home.receive::<W>();
        1
    }

    fn stop(mut self) {
        self.there.send::<W>(LAST);
        join(self.thread);
    }
}
