//! How long the service waits for clients, and for its own ends.
//!
//! Part of [`Options`](crate::Options), without options on the command line: used by `server`, `http` and `supervisor`, and
//! made short by tests.
//!
//! ```text
//!  connection ─ head ──────────> body ───────> (device) ──> response ─ idle, next head ───> ...
//!               <-- headers -->  <-- body -->               <- write -> <--- headers --->
//! ```

use std::time::Duration;

/// What takes longer is ended. A client that is slow takes a connection from others for no longer than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the opening of a connection, or the last response, to the end of the next request's headers. So it is also how
    /// long a connection may be idle.
    pub headers: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// For a client to take any part of what is written to it.
    pub write: Duration,
    /// When the service closes: for the first request of a connection that has sent none.
    pub last_request: Duration,
    /// When the service closes: for all connections together.
    pub connections_end: Duration,
    /// When a lane has ended: for its requests, and then for its closing.
    pub lane_end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(5),
            body: Duration::from_secs(5),
            write: Duration::from_secs(10),
            last_request: Duration::from_millis(500),
            connections_end: Duration::from_secs(10),
            lane_end: Duration::from_secs(5),
        }
    }
}
