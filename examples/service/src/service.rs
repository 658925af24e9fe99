//! The whole service: opened, listening, and closed in the right order.
//!
//! Used by `main`, and by tests, in a tokio runtime of many threads.
//!
//! ```text
//!  start:     listen ── open the first lane ── supervisor, connections
//!  shut down: no more connections ── the last response is written ── no more lanes ── closed
//! ```

use crate::http::Routes;
use crate::lane::{self, OpenError};
use crate::log;
use crate::options::Options;
use crate::server;
use crate::supervisor::{Lanes, State, Supervisor};
use nrta::Cause;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// A service that runs. Dropping it without [`Service::shut_down`] has it close by itself, with nobody to wait for it.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    state: watch::Receiver<State>,
    stop_connections: watch::Sender<bool>,
    /// `None` when it has ended unasked.
    connections: Option<JoinHandle<()>>,
    stop_lanes: watch::Sender<bool>,
    /// `None` when it has ended unasked; what it has leaked is in `leaked` then.
    lanes: Option<JoinHandle<Lanes>>,
    leaked: u32,
}

/// The service was not started. Nothing remains.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The first lane was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Opening has panicked.
    #[error("opening has panicked: {0}")]
    Panicked(#[from] JoinError),
}

/// Why a service that nobody has told to end serves no more. Whoever runs it ends the program, and starts it again.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Each leaked runtime keeps its threads, its memory and perhaps its cores, so there is a limit to them.
    #[error("{leaked} runtimes did not close and were leaked; the last lane ended with {}: {}", .last_end.status, .last_end.text)]
    TooManyLeaks {
        /// How many.
        leaked: u32,
        /// What has ended the last lane.
        last_end: Cause,
    },
    /// The task that opens lanes has panicked.
    #[error("nobody opens lanes any more: {0}")]
    Lanes(JoinError),
    /// The task that accepts connections has panicked.
    #[error("nobody accepts connections any more: {0}")]
    Connections(JoinError),
    /// It has ended already, and said so before.
    #[error("the service has ended")]
    Before,
}

/// What has become of a service that has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Lanes that were opened.
    pub generations: u32,
    /// Runtimes that did not close in time, and were leaked.
    pub leaked: u32,
}

/// Waits for lanes. Clones are independent of each other.
#[derive(Clone, Debug)]
pub struct Progress(watch::Receiver<State>);

impl Service {
    /// Listens, opens the first lane, and serves. Has to be called in a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let address = options.listen;
        let listen = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;

        let options = Arc::new(options);
        let first = Arc::clone(&options);
        let (lane, workings) = spawn_blocking(move || lane::open(&first, 1, None)).await??;

        let (state, states) = watch::channel(State::Serving(lane));
        log::say(format_args!("lane 1 serves"));
        let (stop_connections, closing) = watch::channel(false);
        let (stop_lanes, stop) = watch::channel(false);
        let supervisor = Supervisor {
            options: Arc::clone(&options),
            state,
            closing: closing.clone(),
            stop,
            leaked: 0,
            pause: Duration::ZERO,
        };
        let routes = Routes {
            state: states.clone(),
            wait: options.wait,
            body_limit: options.limits.body,
        };
        Ok(Self {
            address,
            state: states,
            stop_connections,
            connections: Some(tokio::spawn(server::run(
                listener, options, routes, closing,
            ))),
            stop_lanes,
            lanes: Some(tokio::spawn(supervisor.run(workings))),
            leaked: 0,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// To wait for lanes.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress(self.state.clone())
    }

    /// Resolves when the service has ended without having been told to. It is to be shut down or dropped then. Dropping the
    /// future before changes nothing.
    pub async fn ended(&mut self) -> Ended {
        let (Some(connections), Some(lanes)) = (&mut self.connections, &mut self.lanes) else {
            return Ended::Before;
        };
        tokio::select! {
            ended = connections => {
                self.connections = None;
                ended.map_or_else(Ended::Connections, |()| Ended::Before)
            }
            ended = lanes => {
                self.lanes = None;
                match ended {
                    Ok(Lanes { leaked, gave_up: Some(last_end) }) => {
                        self.leaked = leaked;
                        Ended::TooManyLeaks { leaked, last_end }
                    }
                    Ok(_) => Ended::Before,
                    Err(error) => Ended::Lanes(error),
                }
            }
        }
    }

    /// Accepts nothing any more, answers what is under way, and closes. Takes a few seconds at most, longer only if clients
    /// are slow in taking their responses.
    pub async fn shut_down(mut self) -> Summary {
        // Lanes go last: requests that are under way need one. Who does not hear it has ended.
        self.stop_connections.send_replace(true);
        if let Some(connections) = self.connections.take() {
            let _ = connections.await;
        }
        self.stop_lanes.send_replace(true);
        let leaked = match self.lanes.take() {
            Some(lanes) => lanes.await.map_or(0, |lanes| lanes.leaked),
            None => self.leaked,
        };
        Summary {
            generations: self.state.borrow().generation(),
            leaked,
        }
    }
}

impl Progress {
    /// The number of the lane that serves, as soon as there is one: 1 for the first. `None` when the service closes.
    pub async fn serving(&mut self) -> Option<u32> {
        let settled = |state: &State| !matches!(state, State::Reopening { .. });
        let state = self.0.wait_for(settled).await.ok()?;
        matches!(*state, State::Serving(_)).then(|| state.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, Service};
    use crate::Options;

    #[tokio::test]
    async fn an_end_of_the_supervisor_or_of_the_accept_loop_is_told() {
        for connections in [true, false] {
            let Ok(mut service) = Service::start(Options::default()).await else {
                panic!("the service was not started");
            };
            let lost = if connections {
                service.connections.as_ref().map(|task| task.abort())
            } else {
                service.lanes.as_ref().map(|task| task.abort())
            };
            assert!(lost.is_some());
            let ended = service.ended().await;
            let as_lost = if connections {
                matches!(ended, Ended::Connections(_))
            } else {
                matches!(ended, Ended::Lanes(_))
            };
            assert!(as_lost, "{ended}");
            assert!(matches!(service.ended().await, Ended::Before));
            assert_eq!(service.shut_down().await.leaked, 0);
        }
    }
}
