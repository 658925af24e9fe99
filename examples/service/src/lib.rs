//! A network behind HTTP: requests share a pipelined lane, and the service survives the loss of its device.
//!
//! This is an example to copy: swap the model, its inputs and its outputs ([`image`], [`answer`], `slot`), keep the rest.
//!
//! ```text
//!  client ── connection ── POST /classify ──┐                      one lane = one runtime, opened once
//!  client ── connection ── POST /classify ──┤  bounded   ┌── slot ── write ─> execute ─> read ─┐
//!  client ── connection ── GET /health      ├── channel ─┼── slot ── write ─> execute ─> read ─┼─> device
//!      :                                    ┘            └── slot ── write ─> execute ─> read ─┘
//!
//!  supervisor: a queue degrades ─> no lane ─> slots answer what they have, and end ─> close ─> open ─> another lane
//! ```
//!
//! * **Pipelining.** A core has as many slots as its compute queue takes requests. Each slot has tensors of its own and serves
//!   one request at a time, so while one slot's image computes, another's is written and a third one's scores are read.
//! * **Back-pressure.** A request that finds no free slot waits for one, but not for long; then it is answered 503. How many
//!   wait is bounded by the number of connections.
//! * **Slow clients.** Headers, bodies, idle connections and responses that nobody takes have limits of a few seconds, so that
//!   a connection is never held for ever ([`options::Limits`]).
//! * **One answer each.** A slot owns the request that it serves, and the only way to its client. A client that goes away
//!   changes nothing: the slot finishes, and nobody takes the answer.
//! * **Recovery.** A degraded queue ends the lane. The supervisor closes the runtime and opens another one, on threads that
//!   may block. Until then requests are answered 503, with the status and the cause. A runtime that does not close is leaked;
//!   after three of them, or when one of its own tasks is lost, the service ends ([`Ended`]).
//!
//! | module | subject |
//! |---|---|
//! | [`options`] | the command line |
//! | [`service`] | start and stop everything |
//! | `server` | connections |
//! | `http` | requests and responses |
//! | [`image`] | what a client sends |
//! | [`answer`] | what a client gets |
//! | `health` | what `GET /health` says |
//! | `supervisor` | lane after lane |
//! | `lane` | one runtime and its slots |
//! | `slot` | one request at a time through the device |
//! | [`options::Limits`] | how long the service waits for clients |
//! | `write_limit` | writes that fail when a client takes nothing |
//! | `log` | what is said on standard error |
#![forbid(unsafe_code)]

pub mod answer;
mod health;
mod http;
pub mod image;
mod lane;
mod limits;
mod log;
pub mod options;
mod server;
pub mod service;
mod slot;
mod supervisor;
mod write_limit;

pub use options::Options;
pub use service::{Ended, Progress, Service, StartError, Summary};
