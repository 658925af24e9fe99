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
use crate::image::{Image, PIXELS};
use crate::lane::OpenError;
use nrta::{Bindings, ComputeQueue, Core, Element, LoadedModel, Tensor, TensorOpQueue};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, oneshot};

/// Digits that the network tells apart.
const CLASSES: u64 = 10;

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

/// What one request needs of the device. The tensors of an execution are bound, and so checked, once.
#[derive(Debug)]
pub(crate) struct Slot {
    core: u32,
    writes: TensorOpQueue,
    compute: ComputeQueue,
    reads: TensorOpQueue,
    image: Tensor<u8>,
    scores: Tensor<f32>,
    label: Tensor<u32>,
    bound: Bindings,
}

impl Slot {
    /// # Errors
    /// The model has other inputs or outputs, or there is no memory.
    pub(crate) fn new(core: &Core, model: &LoadedModel) -> Result<Self, OpenError> {
        let image = model.input::<u8>("image")?;
        let scores = model.output::<f32>("scores")?;
        let label = model.output::<u32>("label")?;
        check("image", &image, PIXELS as u64)?;
        check("scores", &scores, CLASSES)?;
        check("label", &label, 1)?;
        let bound = model.bind(&[&image], &[&scores, &label])?;
        Ok(Self {
            core: core.index(),
            writes: core.tensor_op(0)?,
            compute: core.compute(),
            reads: core.tensor_op(1)?,
            image,
            scores,
            label,
            bound,
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
        let pixels = image.into_pixels();
        self.writes.write_all(&self.image, pixels)?.await?;
        self.compute.execute_bound(&self.bound)?.await?;
        // Both are under way before the first one is waited for.
        let scores = self.reads.read_all(&self.scores)?;
        let label = self.reads.read_all(&self.label)?;
        Ok(Answer {
            scores: scores.await?,
            // PANIC: the tensor has one element, and a read gives back all of them.
            label: label.await?[0],
            core: self.core,
        })
    }
}

fn check<T: Element>(
    name: &'static str,
    tensor: &Tensor<T>,
    expected: u64,
) -> Result<(), OpenError> {
    let given = tensor.elements();
    if given == expected {
        return Ok(());
    }
    Err(OpenError::OtherModel {
        name,
        given,
        expected,
    })
}
