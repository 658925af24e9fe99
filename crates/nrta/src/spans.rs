//! What this crate says to the application's [`tracing`] subscriber.
//!
//! Without a subscriber, or with one that wants nothing of this level, a request costs two relaxed loads. A subscriber is
//! foreign code: it is called with no lock of ours held, so it may call anything here, and where it is called on a worker's
//! thread a panic in it ends there. What it does on a worker's thread delays that core.
//!
//! | event | level | target | fields |
//! |---|---|---|---|
//! | `nrta.opened` | INFO | `nrta::runtime` | `cores`, `first_core`, `tpbs_per_core`, `settings` as JSON with origins |
//! | `nrta.not_opened` | ERROR | `nrta::runtime` | `error`; `variable`, `value` and `allowed` when a variable is to blame |
//! | `nrta.closed` | INFO | `nrta::runtime` | `completed`, `failed`: requests of all queues |
//! | `nrta.not_closed` | WARN | `nrta::runtime` | `error` |
//! | `nrta.close_waits` | WARN | `nrta::runtime` | `xu`, `depth`, `oldest` |
//! | `nrta.adjusted` | WARN | `nrta::environment` | `variable`, `given`, `used`, `allowed` |
//! | `nrta.removed` | WARN | `nrta::environment` | `variable`, `given`, `instead` |
//! | `nrta.unknown` | WARN | `nrta::environment` | `variable`, `given`, `closest`: begins with `NRTA_` and is not known |
//! | `nrta.no_effect` | INFO | `nrta::environment` | `variable`, `why` |
//! | `nrta.workers_not_bound` | WARN | `nrta::runtime` | `cpus`, `why` |
//! | `nrta.holder_unknown` | WARN | `nrta::runtime` | `tpb`, `error`: others will not learn who has the core |
//! | `nrta.accepted` | TRACE | `nrta::request` | `call`, `xu`, `core`, `seq`, `requests` (of a batch, of which `seq` is the last) |
//! | `nrta.bound` | TRACE | `nrta::request` | `xu`, `core`, `seq`, `model`, `batch`: what an accepted execution runs |
//! | `nrta.completed` | TRACE, WARN, DEBUG | `nrta::request` | `call`, `xu`, `core`, `seq`, `status`, `device_ns` |
//! | `nrta.queue_full` | DEBUG | `nrta::queue` | `call`, `xu`, `core`, `limit` |
//! | `nrta.degraded` | ERROR | `nrta::queue` | `call`, `xu`, `core`, `seq`, `status`, `cause` |
//! | `nrta.device_error` | WARN | `nrta::device` | `tpb`, `kind`, `mask` |
//! | `nrta.barrier_overdue` | WARN | `nrta::device` | `tpb`, `waited` |
//! | `nrta.collective_late` | WARN | `nrta::device` | `rank`, `late` |
//! | `nrta.not_a_number` | WARN | `nrta::device` | `tpb`, `status` |
//! | `nrta.debug_value` | DEBUG | `nrta::device` | `tpb`, `engine`, `value` |
//! | `nrta.out_of_memory` | WARN | `nrta::memory` | `error`, which says what is free |
//!
//! Opening is a span, `nrta.open`, in which whatever the environment is adjusted to is said. A completion is TRACE when it is a
//! success and WARN when not; one that was given up because its queue had degraded before is DEBUG, so that one cause is one
//! ERROR and no storm. Of each opening that fails there is one ERROR, `nrta.not_opened`; of a [`Builder`](crate::Builder) that is
//! made from a bad environment and never opened there is none, only its error.
//!
//! `call` of what is accepted, refused or degraded is what the queue does: `execute`, `tensor_op` or `collective`. Of a completion
//! it is what the request did, as in [`RequestError::call`](crate::RequestError::call): `write` for `write_from` and `write_all`,
//! too, and `read` for `read_into`. `nrta.bound` is told by `execute`, `execute_bound` and `execute_when_room`, right after
//! `nrta.accepted`; a request that was prepared is scheduled without it, also by a place or in a batch. `seq` is the number without the queue's
//! bits; `core` is the logical core; `device_ns` is there when the device has said both times.
//!
//! There is no span for each request: it would be opened on one thread and closed on another, and cost an allocation. To have
//! one, put the application's own around the future: `pending.instrument(span)`, with `tracing::Instrument`.

use crate::error::Error;
use crate::model::LoadedModel;
use crate::settings::Settings;
use core::fmt::Display;
use core::time::Duration;
use tracing::{Span, debug, error, info, info_span, trace, warn};
use xu_abi::record::ErrorKind;
use xu_abi::{Engine, SeqId, Status, TpbIndex};
use xu_device::DeviceError;
use xu_worker::trace::{guarded, is_tracing};
use xu_worker::{CloseError, QueueSnapshot};

/// Around everything that opening says.
pub(crate) fn opening() -> Span {
    info_span!(target: "nrta::runtime", "nrta.open")
}

pub(crate) fn opened(settings: &Settings) {
    let (cores, first_core) = (settings.cores.value, settings.first_core.value);
    let tpbs_per_core = settings.tpbs_per_core.value;
    info!(
        name: "nrta.opened", target: "nrta::runtime",
        cores, first_core, tpbs_per_core, settings = settings.to_json(), "opened"
    );
}

/// Opening has failed; one line, and nothing of the runtime remains. The caller's error says no less.
#[cold]
pub(crate) fn not_opened(error: &Error) {
    let because = match error {
        Error::Variable {
            variable,
            value,
            allowed,
        } => Some((*variable, value.as_str(), allowed.as_str())),
        _ => None,
    };
    let (variable, value, allowed) = (
        because.map(|(variable, ..)| variable),
        because.map(|(_, value, _)| value),
        because.map(|(.., allowed)| allowed),
    );
    guarded(|| {
        error!(
            name: "nrta.not_opened", target: "nrta::runtime",
            %error, variable, value, allowed, "not opened"
        );
    });
}

pub(crate) fn closed(queues: impl Iterator<Item = QueueSnapshot>) {
    let (completed, failed) = queues.fold((0, 0), |(completed, failed), queue| {
        (completed + queue.completed, failed + queue.failed)
    });
    guarded(|| {
        info!(name: "nrta.closed", target: "nrta::runtime", completed, failed, "closed");
    });
}

pub(crate) fn not_closed(error: &CloseError) {
    guarded(|| {
        warn!(name: "nrta.not_closed", target: "nrta::runtime", %error, "not closed");
    });
}

/// What an accepted execution runs.
#[inline(always)]
pub(crate) fn bound(seq: SeqId, model: &LoadedModel) {
    if is_tracing() {
        say_bound(seq, model);
    }
}

#[cold]
fn say_bound(seq: SeqId, model: &LoadedModel) {
    let (xu, core, number) = (seq.xu(), seq.xu().vnc(), seq.cursor().get());
    let (model, batch) = (model.name(), model.batch());
    guarded(|| {
        trace!(
            name: "nrta.bound", target: "nrta::request",
            %xu, core, seq = number, model, batch, "runs a model"
        );
    });
}

/// Memory is exhausted, if that is what failed.
pub(crate) fn out_of_memory(error: &DeviceError) {
    if matches!(error, DeviceError::OutOfMemory { .. }) {
        guarded(|| {
            warn!(name: "nrta.out_of_memory", target: "nrta::memory", %error, "out of memory");
        });
    }
}

pub(crate) fn device_error(tpb: TpbIndex, kind: ErrorKind, mask: u16) {
    guarded(|| {
        warn!(
            name: "nrta.device_error", target: "nrta::device",
            tpb = tpb.get(), ?kind, mask, "the device reported an error"
        );
    });
}

pub(crate) fn barrier_overdue(tpb: TpbIndex, waited: Duration) {
    guarded(|| {
        warn!(
            name: "nrta.barrier_overdue", target: "nrta::device",
            tpb = tpb.get(), ?waited, "a collectives barrier stands"
        );
    });
}

pub(crate) fn collective_late(rank: u32, late: &impl Display) {
    guarded(|| {
        warn!(
            name: "nrta.collective_late", target: "nrta::device",
            rank, %late, "a collective waits"
        );
    });
}

pub(crate) fn not_a_number(tpb: Option<&TpbIndex>) {
    let (tpb, status) = (
        tpb.map(|tpb| tpb.get()),
        Status::EXEC_COMPLETED_WITH_NUM_ERR,
    );
    guarded(|| {
        warn!(
            name: "nrta.not_a_number", target: "nrta::device",
            tpb, %status, "an execution has produced NaN"
        );
    });
}

pub(crate) fn debug_value(tpb: TpbIndex, engine: Engine, value: u32) {
    guarded(|| {
        debug!(
            name: "nrta.debug_value", target: "nrta::device",
            tpb = tpb.get(), %engine, value, "debug value"
        );
    });
}
