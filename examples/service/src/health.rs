//! What `GET /health` says: whether there is a lane, why the last one ended, and how each queue is.
//!
//! Called by `http`. Takes no lock of the lane, so it answers whatever the device does.

use crate::lane::{CoreQueues, Lane};
use crate::supervisor::State;
use nrta::{Cause, QueueSnapshot};
use serde_json::{Value, json};

/// Whether requests are served, and the whole story.
pub(crate) fn report(state: &State) -> (bool, Value) {
    match state {
        State::Serving(lane) => (true, serving(lane)),
        State::Reopening { generation, cause } => {
            (false, without_lane("reopening", *generation, Some(cause)))
        }
        State::Closing { generation } => (false, without_lane("closing", *generation, None)),
    }
}

fn serving(lane: &Lane) -> Value {
    let cores: Vec<Value> = lane.queues.iter().map(core).collect();
    json!({
        "state": "serving",
        "generation": lane.generation,
        "last_end": lane.before.as_ref().map(reason),
        "cores": cores,
    })
}

fn without_lane(state: &str, generation: u32, cause: Option<&Cause>) -> Value {
    json!({
        "state": state,
        "generation": generation,
        "last_end": cause.map(reason),
        "cores": [],
    })
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
