//! Tensor-op queues: write bytes into tensors and read them back, in order, one at a time.
//!
//! [`TensorOpQueue`] is the caller's side; the engine moves one chunk per step on the worker thread, so a
//! large transfer does not hold up the other queues of its core.
//! Spec: `c-api.md` section 6.1, `xu.md` section 4.

use crate::error::Refused;
use crate::logical_core::Core;
use crate::pending::{Outcome, Pending};
use crate::tensor::{Storage, Tensor};
use core::time::Duration;
use std::sync::Arc;
use xu_abi::Status;
use xu_device::tensor_op::{
    self, HostBytes, InvalidOperation, Operation, OperationError, TensorDma,
};
use xu_device::transfer::TransferQueue;
use xu_worker::{Cause, Engine, Progress, Stage, StageError, Unit};

/// One of a core's two queues that move tensors.
///
/// Tensors have no type here: elements are little-endian, matrices row-major, and the samples of a batch lie one
/// after the other.
///
/// Requests on one queue run in the order in which they were accepted. Nothing is implied between two
/// queues: wait for a write before scheduling what reads it elsewhere.
#[derive(Clone, Debug)]
pub struct TensorOpQueue {
    core: Core,
    index: u8,
}

impl TensorOpQueue {
    pub(crate) fn new(core: Core, index: u8) -> Self {
        Self { core, index }
    }

    /// Schedules a write of `bytes` to `tensor` at byte `offset`. Never blocks.
    ///
    /// Resolves to `bytes`, so that the buffer can be used again. Writing nothing is a request like any other.
    ///
    /// # Errors
    /// [`Refused`], with `bytes`: the range passes the end, the tensor was freed or is on another core, or
    /// the queue takes no request now.
    pub fn write(
        &self,
        tensor: &Tensor,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<Pending<Vec<u8>>, Refused<Vec<u8>>> {
        self.schedule(Direction::ToDevice, tensor, offset, bytes)
    }

    /// Schedules a read of `into.len()` bytes from `tensor` at byte `offset`. Never blocks.
    ///
    /// Resolves to `into`, filled.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], with `into`.
    pub fn read(
        &self,
        tensor: &Tensor,
        offset: u64,
        into: Vec<u8>,
    ) -> Result<Pending<Vec<u8>>, Refused<Vec<u8>>> {
        self.schedule(Direction::ToHost, tensor, offset, into)
    }

    /// As [`TensorOpQueue::write`], but waits for room while the queue is full.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], except that the queue is full.
    pub async fn write_when_room(
        &self,
        tensor: &Tensor,
        offset: u64,
        mut bytes: Vec<u8>,
    ) -> Result<Pending<Vec<u8>>, Refused<Vec<u8>>> {
        loop {
            match self
                .write(tensor, offset, bytes)
                .map_err(Refused::into_retry)
            {
                Ok(pending) => return Ok(pending),
                Err(retry) => bytes = retry?,
            }
            self.room().await;
        }
    }

    /// As [`TensorOpQueue::read`], but waits for room while the queue is full.
    ///
    /// # Errors
    /// As [`TensorOpQueue::read`], except that the queue is full.
    pub async fn read_when_room(
        &self,
        tensor: &Tensor,
        offset: u64,
        mut into: Vec<u8>,
    ) -> Result<Pending<Vec<u8>>, Refused<Vec<u8>>> {
        loop {
            match self.read(tensor, offset, into).map_err(Refused::into_retry) {
                Ok(pending) => return Ok(pending),
                Err(retry) => into = retry?,
            }
            self.room().await;
        }
    }

    fn schedule(
        &self,
        direction: Direction,
        tensor: &Tensor,
        offset: u64,
        buffer: Vec<u8>,
    ) -> Result<Pending<Vec<u8>>, Refused<Vec<u8>>> {
        let checked = self
            .core
            .check_process(self.xu())
            .and_then(|()| tensor.storage_for(self.core.runtime(), self.core.index()))
            .and_then(|storage| {
                tensor
                    .check_range(offset, buffer.len() as u64)
                    .map(|()| storage)
            });
        let storage = match checked {
            Ok(storage) => storage,
            Err(reason) => return Err(Refused::new(reason, buffer)),
        };
        let transfer = Transfer {
            direction,
            storage,
            offset,
            buffer,
        };
        match self.unit().submit(transfer) {
            Ok(accepted) => Ok(Pending::new(accepted)),
            Err(refused) => Err(Refused {
                reason: refused.reason.into(),
                args: refused.item.map(|transfer| transfer.buffer),
            }),
        }
    }

    pub(crate) fn unit(&self) -> &Unit<TransferStage> {
        self.core.transfer_unit(self.index)
    }
}

crate::queue::queue_methods!(TensorOpQueue);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToDevice,
    ToHost,
}

/// A request to move bytes. It owns all that is touched until it is complete.
#[derive(Debug)]
pub(crate) struct Transfer {
    direction: Direction,
    storage: Arc<Storage>,
    offset: u64,
    buffer: Vec<u8>,
}

/// Nothing is staged at submit: the worker posts each chunk when its turn comes.
#[derive(Debug)]
pub(crate) struct TransferStage;

impl Stage for TransferStage {
    type Item = Transfer;
    type Outcome = Outcome<Vec<u8>>;

    fn prepare(&mut self, _: &mut Transfer) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, _: &mut Transfer) -> Result<(), StageError> {
        Ok(())
    }
}

/// Performs the transfer at the head of the queue, a chunk per look.
#[derive(Debug)]
pub(crate) struct TransferEngine {
    dma: TensorDma,
    /// Why the transfer at the head could not begin.
    refused: Option<Refusal>,
    fault: Option<String>,
    /// Storage that the device may still touch after a fault: kept until the unit goes.
    quarantine: Vec<Arc<Storage>>,
}

impl TransferEngine {
    pub(crate) fn new(queue: TransferQueue, timeout: Option<Duration>) -> Self {
        // More nanoseconds than 64 bits hold are no limit.
        let limit_ns = timeout.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        Self {
            dma: TensorDma::new(queue, limit_ns),
            refused: None,
            fault: None,
            quarantine: Vec::new(),
        }
    }

    fn take_up(&mut self, transfer: &Transfer) -> Result<(), Refusal> {
        self.dma.begin(transfer.operation()?)?;
        Ok(())
    }

    /// Remembers the text for the outcome.
    fn explain(&mut self, text: String) -> String {
        self.fault = Some(text.clone());
        text
    }
}

impl Transfer {
    fn operation(&self) -> Result<Operation, InvalidOperation> {
        let bytes = self.buffer.len() as u64;
        let region = self.storage.region().slice(self.offset, bytes)?;
        match self.direction {
            Direction::ToDevice => Operation::write(region),
            Direction::ToHost => Operation::read(region),
        }
    }

    fn host(&mut self) -> HostBytes<'_> {
        match self.direction {
            Direction::ToDevice => HostBytes::Source(&self.buffer),
            Direction::ToHost => HostBytes::Target(&mut self.buffer),
        }
    }
}

impl Engine for TransferEngine {
    type Item = Transfer;
    type Outcome = Outcome<Vec<u8>>;

    fn begin(&mut self, transfer: &mut Transfer) {
        self.fault = None;
        self.refused = self.take_up(transfer).err();
    }

    fn progress(&mut self, transfer: &mut Transfer) -> Progress {
        if let Some(refusal) = self.refused.take() {
            self.explain(refusal.to_string());
            return Progress::Done(refusal.status());
        }
        match self.dma.step(self.dma.now_ns(), transfer.host()) {
            tensor_op::Progress::Continue => Progress::Continue,
            tensor_op::Progress::Done => Progress::Done(Status::SUCCESS),
            tensor_op::Progress::Refused(error) => {
                self.explain(error.to_string());
                Progress::Done(error.status())
            }
            tensor_op::Progress::Fatal(error) => Progress::Fatal(Cause {
                status: error.status(),
                seq: None,
                text: self.explain(error.to_string()),
            }),
        }
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        // Requests run one at a time, so behind the last one nothing is under way.
        Ok(())
    }

    fn finish(&mut self, transfer: Transfer, status: Status) -> Outcome<Vec<u8>> {
        if self.dma.end() {
            self.quarantine.push(transfer.storage);
        }
        let detail = self.fault.clone().filter(|_| !status.is_success());
        Outcome {
            status,
            detail,
            value: transfer.buffer,
        }
    }
}

/// Why a transfer was not taken up. What was checked when it was scheduled holds, so neither should occur.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Invalid(#[from] InvalidOperation),
    #[error(transparent)]
    Dma(#[from] OperationError),
}

impl Refusal {
    fn status(&self) -> Status {
        match self {
            Self::Invalid(error) => error.status(),
            Self::Dma(error) => error.status(),
        }
    }
}
