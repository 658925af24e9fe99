//! The worker's side of a tensor-op queue: perform the operation at its head, a chunk per look.
//!
//! Called by the unit's runner on the worker thread.

use crate::host_buffer::HostMemory;
use crate::payload::Payload;
use crate::pending::{Call, Outcome};
use crate::tensor::Storage;
use std::sync::Arc;
use xu_abi::Status;
use xu_device::tensor_op::{self, HostBytes, Operation, OperationError, TensorDma};
use xu_worker::{Cause, Description, Engine, Progress, SKIPPED, Stage, StageError};

/// A request of a tensor-op queue. It owns all that is touched until it is complete.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// What to do; taken when it comes to the head of the queue.
    pub(super) operation: Option<Operation>,
    /// What to do with tensors and payload.
    pub(super) call: Call,
    pub(super) payload: Payload,
    /// Everything that the operation names.
    pub(super) storage: Held,
}

/// The tensors of a request. Few requests have more than two.
#[derive(Debug)]
pub(super) enum Held {
    One { _storage: Arc<Storage> },
    Two { _storage: [Arc<Storage>; 2] },
    Many { _storage: Vec<Arc<Storage>> },
}

impl Transfer {
    fn host(&mut self) -> HostBytes<'_> {
        match (self.call, &mut self.payload) {
            // The device reaches it by itself.
            (_, Payload::Host(_)) => HostBytes::None,
            (Call::Write, payload) => HostBytes::Source(payload.bytes()),
            (Call::Read, payload) => HostBytes::Target(payload.bytes_mut()),
            _ => HostBytes::None,
        }
    }
}

/// Nothing is staged at submit: the worker posts each chunk when its turn comes.
#[derive(Debug)]
pub(crate) struct TransferStage;

impl Stage for TransferStage {
    type Item = Transfer;
    type Outcome = Outcome<Payload>;

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
    refused: Option<OperationError>,
    fault: Option<String>,
    /// What was finished last.
    last: Option<Call>,
    /// What the device may still touch after a fault: kept until the unit goes.
    quarantine: Vec<Kept>,
}

/// The memory of a request that the device may still touch.
#[derive(Debug)]
struct Kept {
    _tensors: Held,
    _host: Option<Box<HostMemory>>,
}

impl TransferEngine {
    pub(crate) fn new(dma: TensorDma) -> Self {
        Self {
            dma,
            refused: None,
            fault: None,
            last: None,
            quarantine: Vec::new(),
        }
    }

    /// Remembers the text for the outcome.
    fn explain(&mut self, text: String) -> String {
        self.fault = Some(text.clone());
        text
    }
}

impl Engine for TransferEngine {
    type Item = Transfer;
    type Outcome = Outcome<Payload>;

    /// The device learns of a transfer when its turn comes, and not before.
    const CAN_SKIP: bool = true;

    fn begin(&mut self, transfer: &mut Transfer) {
        self.fault = None;
        transfer.payload.lend();
        self.refused = match transfer.operation.take() {
            Some(operation) => self.dma.begin(operation).err(),
            // Begun twice: nothing would be done, which must not look like success.
            None => Some(OperationError::QueueFailed),
        };
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

    fn skip(&mut self, transfer: Transfer) -> Outcome<Payload> {
        self.last = Some(transfer.call);
        Outcome {
            call: transfer.call,
            status: SKIPPED,
            detail: None,
            value: transfer.payload,
        }
    }

    fn finish(&mut self, mut transfer: Transfer, status: Status) -> Outcome<Payload> {
        self.last = Some(transfer.call);
        if self.dma.end() {
            self.quarantine.push(Kept {
                _tensors: transfer.storage,
                _host: transfer.payload.keep(),
            });
        }
        transfer.payload.hand_back();
        let detail = self.fault.clone().filter(|_| !status.is_success());
        Outcome {
            call: transfer.call,
            status,
            detail: detail.map(String::into_boxed_str),
            value: transfer.payload,
        }
    }

    fn describe(&self) -> Description {
        let call = self.last.map(Call::name);
        Description {
            call,
            device_time: None,
        }
    }
}
