//! What `GET /health` says: whether there is a lane, why the last one ended, why the next one was
//! not opened, and how each queue is.
//!
//! Called by `http`. Takes no lock of the lane, so it answers whatever the device does.

use crate::lane::CoreQueues;
use crate::supervisor::{FailedOpening, State};
use nrta::{Cause, QueueSnapshot};
use serde_json::{Value, json};

/// Whether requests are served, and the whole story.
pub(crate) fn report(state: &State) -> (bool, Value) {
    let cores: Vec<Value> = match state {
        State::Serving(lane) => lane.queues.iter().map(core).collect(),
        State::Reopening { .. } | State::Closing { .. } => Vec::new(),
    };
    let (name, last_end, open_error) = match state {
        State::Serving(lane) => ("serving", lane.before.as_ref(), None),
        State::Reopening {
            last_end,
            open_error,
            ..
        } => ("reopening", Some(last_end), open_error.as_ref()),
        State::Closing { .. } => ("closing", None, None),
    };
    let report = json!({
        "state": name,
        "generation": state.generation(),
        "last_end": last_end.map(reason),
        "last_open_error": open_error.map(failed_opening),
        "cores": cores,
    });
    (matches!(state, State::Serving(_)), report)
}

fn failed_opening(failed: &FailedOpening) -> Value {
    let mut reason = reason(&failed.error);
    reason["attempts"] = failed.attempts.into();
    reason
}

fn reason(cause: &Cause) -> Value {
    json!({ "status": cause.status.to_string(), "cause": cause.text })
}

fn core(queues: &CoreQueues) -> Value {
    let (writes, compute, reads) = (&queues.writes, &queues.compute, &queues.reads);
    json!({
        "core": queues.core,
        "queues": [
            queue(&writes.snapshot(), writes.cause()),
            queue(&compute.snapshot(), compute.cause()),
            queue(&reads.snapshot(), reads.cause()),
        ],
    })
}

fn queue(now: &QueueSnapshot, cause: Option<Cause>) -> Value {
    json!({
        "queue": now.xu.to_string(),
        "health": now.health.to_string(),
        "cause": cause.as_ref().map(reason),
        "depth": now.depth,
        "limit": now.limit,
        "completed": now.completed,
        "failed": now.failed,
    })
}
