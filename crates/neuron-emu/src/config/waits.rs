//! How long calls of the driver wait, and how long what they wait for takes.

use std::time::Duration;

/// How long calls wait. The defaults are those of the driver, but for a reset, which is done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// A reset takes so long. [`Duration::MAX`]: for ever.
    pub reset: Duration,
    /// CINIT_SET_STATE waits so long for another process to complete a core.
    pub core_init: Duration,
    /// Another process takes so long for it, under [`InitElsewhere`](super::DriverFault::InitElsewhere).
    pub elsewhere: Duration,
    /// CRWL_READER_ENTER waits so long for a writer.
    pub reader: Duration,
    /// CRWL_WRITER_ENTER waits so long for readers.
    pub writer: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            reset: Duration::ZERO,
            core_init: Duration::from_secs(5),
            elsewhere: Duration::from_millis(20),
            reader: Duration::from_millis(500),
            writer: Duration::from_secs(2),
        }
    }
}
