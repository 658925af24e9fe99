//! A slot: the tensors of one request in flight, and the task that takes one request after the other through the device.
//!
//! Made by `lane`. The slots of a core share its queues; each request waits for its own steps only, so the steps of different
//! slots overlap:
//!
//! ```text
//!  slot 0   write ─ execute ─ read   write ─ execute ─ read
//!  slot 1           write ─ execute ─ read   write ─ execute ─ read
//!  slot 2                   write ─ execute ─ read   write ─ execute ─ read
//! ```
//!
//! A slot is used by one request at a time, from its first step to its last, whoever still waits for the answer. So no request
//! writes to tensors that another one computes on.

use crate::answer::{Answer, Unavailable};
use crate::image::Image;
use nrta::{ComputeQueue, Core, LoadedModel, Tensor, TensorOpQueue};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, oneshot};

/// Digits that the network tells apart.
pub(crate) const CLASSES: usize = 10;

/// A request on its way to a slot, with the only way to its client.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) image: Image,
    pub(crate) reply: oneshot::Sender<Result<Answer, Unavailable>>,
    /// Says that there is a free slot. Goes when the request is answered.
    pub(crate) place: OwnedSemaphorePermit,
}

/// Where all slots of a lane take their requests from.
pub(crate) type Jobs = Arc<Mutex<mpsc::Receiver<Job>>>;

/// What one request needs of the device.
#[derive(Debug)]
pub(crate) struct Slot {
    core: u32,
    model: LoadedModel,
    writes: TensorOpQueue,
    compute: ComputeQueue,
    reads: TensorOpQueue,
    image: Tensor,
    scores: Tensor,
    label: Tensor,
}

impl Slot {
    pub(crate) fn new(core: &Core, model: &LoadedModel) -> Result<Self, nrta::Error> {
        Ok(Self {
            core: core.index(),
            model: model.clone(),
            writes: core.tensor_op(0)?,
            compute: core.compute(),
            reads: core.tensor_op(1)?,
            image: model.allocate_input(0)?,
            scores: model.allocate_output(0)?,
            label: model.allocate_output(1)?,
        })
    }

    /// Serves requests until there are no more: the lane has ended, and none is left.
    pub(crate) async fn serve(self, jobs: Jobs) {
        loop {
            // The lock is let go before the request is served, so that the next slot takes the next request.
            let job = jobs.lock().await.recv().await;
            let Some(job) = job else {
                break;
            };
            let Job {
                image,
                reply,
                place,
            } = job;
            let answer = self.classify(image).await;
            // A client that has gone takes no answer, and nothing else changes.
            let _ = reply.send(answer);
            drop(place);
        }
    }

    /// No queue is ever full here: a core has no more slots than its compute queue takes requests, and the others take more.
    async fn classify(&self, image: Image) -> Result<Answer, Unavailable> {
        let write = self.writes.write(&self.image, 0, image.into_pixels())?;
        write.await?;
        let outputs = [&self.scores, &self.label];
        let execution = self
            .compute
            .execute(&self.model, &[&self.image], &outputs)?;
        execution.await?;
        // Both are under way before the first one is waited for.
        let scores = self
            .reads
            .read_elements(&self.scores, 0, vec![0.0; CLASSES])?;
        let label = self.reads.read_elements(&self.label, 0, vec![0; 1])?;
        Ok(Answer {
            scores: scores.await?,
            // PANIC: a read gives back the one element that it was given.
            label: label.await?[0],
            core: self.core,
        })
    }
}
