//! Tensor-op queues: write bytes into tensors and read them back, in order, one at a time.
//!
//! [`TensorOpQueue`] is the caller's side; the engine moves one chunk per step on the worker thread, so a
//! large transfer does not hold up the other queues of its core.
//! Spec: `c-api.md` section 6.1, `xu.md` section 4.

use crate::error::Refused;
use crate::logical_core::Core;
use crate::pending::{Outcome, Pending};
use crate::tensor::{Storage, Tensor};
use core::mem;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;
use xu_abi::Status;
use xu_device::DeviceError;
use xu_device::transfer::{CHUNK, TransferQueue};
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
            moved: 0,
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
    /// Bytes that have arrived.
    moved: usize,
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

/// Moves the transfer at the head of the queue, a chunk at a time.
#[derive(Debug)]
pub(crate) struct TransferEngine {
    queue: TransferQueue,
    /// Limit for one chunk; `None` waits for ever.
    timeout: Option<Duration>,
    /// Length of the chunk that is on its way; 0 when none is.
    chunk: usize,
    /// When that chunk was posted.
    posted: Instant,
    fault: Option<String>,
    /// Storage that the device may still touch after a fault: kept until the unit goes.
    quarantine: Vec<Arc<Storage>>,
}

impl TransferEngine {
    pub(crate) fn new(queue: TransferQueue, timeout: Option<Duration>) -> Self {
        Self {
            queue,
            timeout,
            chunk: 0,
            posted: Instant::now(),
            fault: None,
            quarantine: Vec::new(),
        }
    }

    /// One look: begin a chunk if none is under way, and take it in if it has arrived.
    fn advance(&mut self, transfer: &mut Transfer) -> Result<bool, TransferError> {
        let left = transfer.buffer.len() - transfer.moved;
        if left == 0 {
            return Ok(true);
        }
        if self.chunk == 0 {
            let chunk = left.min(CHUNK);
            let range = transfer.moved..transfer.moved + chunk;
            let at = transfer
                .storage
                .addr(transfer.offset + transfer.moved as u64);
            // Before the first descriptor: a post that fails half-way may be seen all the same.
            self.chunk = chunk;
            self.posted = Instant::now();
            match transfer.direction {
                Direction::ToDevice => self.queue.begin_write(at, &transfer.buffer[range])?,
                Direction::ToHost => self.queue.begin_read(at, chunk)?,
            }
        }
        if !self.queue.poll()? {
            return match self.timeout {
                Some(limit) if self.posted.elapsed() >= limit => {
                    Err(TransferError::Timeout { limit })
                }
                _ => Ok(false),
            };
        }
        let chunk = mem::take(&mut self.chunk);
        let range = transfer.moved..transfer.moved + chunk;
        if transfer.direction == Direction::ToHost {
            self.queue.collect(&mut transfer.buffer[range])?;
        }
        transfer.moved += chunk;
        Ok(transfer.moved == transfer.buffer.len())
    }
}

impl Engine for TransferEngine {
    type Item = Transfer;
    type Outcome = Outcome<Vec<u8>>;

    fn begin(&mut self, _: &mut Transfer) {
        self.chunk = 0;
    }

    fn progress(&mut self, transfer: &mut Transfer) -> Progress {
        match self.advance(transfer) {
            Ok(false) => Progress::Continue,
            Ok(true) => Progress::Done(Status::SUCCESS),
            Err(error) => {
                let text = error.to_string();
                self.fault = Some(text.clone());
                Progress::Fatal(Cause {
                    status: error.status(),
                    seq: None,
                    text,
                })
            }
        }
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        // Requests run one at a time, so behind the last one nothing is under way.
        Ok(())
    }

    fn finish(&mut self, transfer: Transfer, status: Status) -> Outcome<Vec<u8>> {
        if self.chunk != 0 {
            self.quarantine.push(transfer.storage);
            self.chunk = 0;
        }
        let detail = self.fault.clone().filter(|_| !status.is_success());
        Outcome {
            status,
            detail,
            value: transfer.buffer,
        }
    }
}

/// Why a transfer ended its queue.
#[derive(Debug, thiserror::Error)]
enum TransferError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("a chunk did not arrive within {limit:?}")]
    Timeout { limit: Duration },
}

impl TransferError {
    fn status(&self) -> Status {
        match self {
            Self::Timeout { .. } => Status::TIMEOUT,
            Self::Device(error) => error.status_in_flight(),
        }
    }
}
