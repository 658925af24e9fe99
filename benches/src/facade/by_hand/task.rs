//! The same design without a thread: a task of the executor owns the device, and gives way between two looks in vain.
//!
//! No peer of the bars, since a device that takes its time has such a task keep the executor's thread busy; but without
//! latency it is what costs least.

use tokio::sync::mpsc;

use super::lane::Lane;
use super::{Answer, ByHand, Job, take_up};
use crate::facade::place::Place;
use crate::facade::service::{Service, room};
use crate::pin::Pair;

/// On a device of kind `P`.
pub(crate) struct InATask<P>(ByHand<P, ()>);

impl<P: Place> Service for InATask<P> {
    type Answer = Answer;

    fn start(processors: Pair, depth: usize) -> Option<Self> {
        let lane = Lane::open(P::device(processors)?, depth)?;
        let (jobs, received) = mpsc::channel(room(depth));
        tokio::spawn(serve(received, lane));
        Some(Self(ByHand::new(jobs, depth)))
    }

    #[inline]
    fn request(&mut self) -> Answer {
        self.0.send()
    }

    #[inline]
    fn is_done(answer: &Answer) -> bool {
        answer.is_done()
    }
}

async fn serve(mut jobs: mpsc::Receiver<Job>, mut lane: Lane) {
    while let Some(job) = jobs.recv().await {
        lane.stage(job);
        while lane.is_busy() {
            take_up(&mut jobs, &mut lane);
            if !lane.look() {
                tokio::task::yield_now().await;
            }
        }
    }
}
