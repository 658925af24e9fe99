//! What a unit says to the application's [`tracing`] subscriber about its requests.
//!
//! Called by submitters and by the worker, with no lock held: a subscriber is foreign code, may call anything, and a panic in
//! it ends here. While nobody listens it costs one relaxed load for an accepted request and one for a completed one. Names
//! and fields are documented where applications look for them, in `nrta::spans`. Failure kind F4.
//!
//! | event | level | when |
//! |---|---|---|
//! | `nrta.accepted` | TRACE | a request, or a batch of them, is in the queue |
//! | `nrta.queue_full` | DEBUG | a request was refused |
//! | `nrta.completed` | TRACE | a request is complete, and everybody has been told |
//! | the same | WARN | without success |
//! | the same | DEBUG | without success, because the unit was degraded already |
//! | `nrta.degraded` | ERROR | once for a unit |

use crate::engine::Description;
use crate::health::Cause;
use crate::refusal::Refusal;
use crate::wake::discard;
use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracing::level_filters::LevelFilter;
use tracing::{Level, debug, error, trace, warn};
use xu_abi::{SeqId, Status, XuId, XuType};

/// Runs `log`, which is foreign code: a panic in it is reported by the panic hook and ends there. For who has no lock.
pub fn guarded(log: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(log)) {
        discard(payload);
    }
}

/// Whether somebody may listen to everything: all that is asked where a request goes well.
#[inline(always)]
pub fn is_tracing() -> bool {
    LevelFilter::current() == LevelFilter::TRACE
}

/// Whether somebody may listen to this level.
fn is_heard(level: Level) -> bool {
    level <= LevelFilter::current()
}

/// Requests were accepted, of which `seq` is the last.
#[inline(always)]
pub(crate) fn accepted(seq: SeqId, requests: u64) {
    if is_tracing() {
        say_accepted(seq, requests);
    }
}

#[cold]
fn say_accepted(seq: SeqId, requests: u64) {
    let (xu, call) = (seq.xu(), kind(seq.xu()));
    let (core, number) = (xu.vnc(), seq.cursor().get());
    guarded(|| {
        trace!(
            name: "nrta.accepted", target: "nrta::request",
            call, %xu, core, seq = number, requests, "accepted"
        );
    });
}

/// A request was refused. Only a full queue is worth a word: every other refusal is an error of the caller's, or follows from
/// what was said before.
#[cold]
pub(crate) fn refused(refusal: &Refusal) {
    if let Refusal::QueueFull { xu, limit } = refusal
        && is_heard(Level::DEBUG)
    {
        let (call, core) = (kind(*xu), xu.vnc());
        guarded(|| {
            debug!(
                name: "nrta.queue_full", target: "nrta::queue",
                call, %xu, core, limit, "queue full"
            );
        });
    }
}

/// A request is complete, and whoever waits has been told.
#[inline(always)]
pub(crate) fn completed(
    seq: SeqId,
    status: Status,
    is_degraded: impl FnOnce() -> bool,
    describe: impl FnOnce() -> Description,
) {
    if !status.is_success() {
        say_failed(seq, status, is_degraded, describe);
    } else if is_tracing() {
        say_completed(seq, status, Level::TRACE, describe);
    }
}

#[cold]
fn say_failed(
    seq: SeqId,
    status: Status,
    is_degraded: impl FnOnce() -> bool,
    describe: impl FnOnce() -> Description,
) {
    let is_behind_fault = status == Status::EXEC_UNIT_UNRECOVERABLE && is_degraded();
    let level = if is_behind_fault {
        Level::DEBUG
    } else {
        Level::WARN
    };
    if is_heard(level) {
        say_completed(seq, status, level, describe);
    }
}

#[cold]
fn say_completed(seq: SeqId, status: Status, level: Level, describe: impl FnOnce() -> Description) {
    macro_rules! say {
        ($event:ident, $text:literal, $call:ident, $xu:ident, $time:ident) => {
            $event!(
                name: "nrta.completed", target: "nrta::request",
                call = $call, xu = %$xu, core = $xu.vnc(), seq = seq.cursor().get(),
                status = %status, device_ns = $time, $text
            )
        };
    }
    guarded(|| {
        let Description { call, device_time } = describe();
        let xu = seq.xu();
        let call = call.unwrap_or_else(|| kind(xu));
        // More nanoseconds than 64 bits hold are no time of an execution.
        let time = device_time.and_then(|time| u64::try_from(time.as_nanos()).ok());
        match level {
            Level::TRACE => say!(trace, "complete", call, xu, time),
            Level::DEBUG => say!(debug, "given up behind a fault", call, xu, time),
            _ => say!(warn, "not successful", call, xu, time),
        }
    });
}

/// What a queue does, for a request of which nobody says more.
fn kind(xu: XuId) -> &'static str {
    match xu.xu_type() {
        Some(XuType::Compute) => "execute",
        Some(XuType::TensorOp) => "tensor_op",
        Some(XuType::Collectives) => "collective",
        None => "unknown",
    }
}

/// Whether a unit's end has been told. No part of any model: nothing depends on it.
#[derive(Debug, Default)]
pub(crate) struct ToldEnd(AtomicBool);

impl ToldEnd {
    /// The unit is degraded. Says so the first time.
    #[cold]
    pub(crate) fn tell(&self, xu: XuId, cause: Option<Cause>) {
        // Relaxed: the cause is read under its lock.
        if self.0.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(cause) = cause else {
            return;
        };
        guarded(|| {
            let (call, core) = (kind(xu), xu.vnc());
            let seq = cause.seq.map(|seq| seq.cursor().get());
            error!(
                name: "nrta.degraded", target: "nrta::queue",
                call, %xu, core, seq, status = %cause.status, cause = %cause.text,
                "the queue is degraded"
            );
        });
    }
}
