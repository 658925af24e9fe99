//! Whether a core is at rest, as far as a process can know.
//!
//! Used by [`super::NeuronDevice`], when cores are opened and closed.
//!
//! What is asked: the start semaphore, which is above 0 while a doorbell waits, and whether any open DMA queue has
//! descriptors left. **What cannot be asked:** an execution that the sequencer has taken up and that moves nothing. The lane
//! closes a core when each of its requests has been answered, and memory of requests that were not is never given back; so
//! [`super::NeuronDevice`] resets the cores before it frees such memory.

use super::Live;
use crate::device::DeviceError;
use crate::map;
use core::time::Duration;
use std::thread;
use std::time::Instant;
use xu_abi::TpbIndex;

/// No core is waited for longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Between the first two looks; then twice that, and so on.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
/// Between any two looks, at most.
const LAST_PAUSE: Duration = Duration::from_millis(10);

pub(super) fn quiesce(live: &Live, tpb: TpbIndex, limit: Duration) -> Result<(), DeviceError> {
    let end = Instant::now() + limit.min(LONGEST);
    let mut pause = FIRST_PAUSE;
    loop {
        if is_at_rest(live, tpb)? {
            return Ok(());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(DeviceError::Busy { tpb });
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

fn is_at_rest(live: &Live, tpb: TpbIndex) -> Result<bool, DeviceError> {
    let core = live.own_core(tpb)?;
    let waiting = live.node().read_semaphore(core, map::INFERENCE_START)?;
    Ok(waiting <= 0 && live.queues.are_at_rest(tpb)?)
}
