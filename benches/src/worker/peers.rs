//! The others that answer requests, each the way its own documentation recommends.
//!
//! | module | what | who waits how |
//! |---|---|---|
//! | `echo` | two eventfds and epoll: the least that sleeping and waking costs | both sleep |
//! | `channels` | `crossbeam-channel`, one each way | both spin for a while, then sleep |
//! | `tasks` | `tokio`: `mpsc` there, a `oneshot` back | tasks, on one thread or on two |
//! | `nops` | `io_uring` with requests that do nothing | nobody: the kernel answers in the call |
//! | `queues` | two plain queues | both spin |
//! | `ring` | our ring without the worker | both spin |

pub(super) mod channels;
pub(super) mod echo;
#[allow(
    unsafe_code,
    reason = "an entry of io_uring is pushed by an unsafe call"
)]
pub(super) mod nops;
pub(super) mod queues;
pub(super) mod ring;
pub(crate) mod tasks;

use std::thread::{Builder, JoinHandle};

use super::service::ANSWERING;
use crate::pin;

/// Starts the answering thread on its processor.
fn answer(processor: usize, run: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let bound = move || {
        pin::pin(processor);
        run();
    };
    Builder::new().name(ANSWERING.to_owned()).spawn(bound).ok()
}

fn join(thread: JoinHandle<()>) {
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
