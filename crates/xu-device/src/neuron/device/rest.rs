//! Whether a core is at rest, as far as a process can know.
//!
//! Used by [`super::NeuronDevice`], when cores are opened and closed.
//!
//! What is asked: the start semaphore, which is above 0 while a doorbell waits; whether any open DMA queue has descriptors
//! left; and whether each engine whose notification queue is open has said END as often as the doorbell has rung.
//!
//! **Ruling.** A core of which an END is missing is not at rest, ever: it may go on at any time, and nobody can tell an END that
//! was lost from one that is to come. A reset ends that, which closing the device does before it frees memory that was never
//! given back. An END that comes twice can hide one that is missing.

use super::Live;
use crate::device::DeviceError;
use crate::map;
use core::ops::Deref;
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

/// `live` gives the device for one look: between two, others may close it.
pub(super) fn quiesce<L: Deref<Target = Live>>(
    live: impl Fn() -> Result<L, DeviceError>,
    tpb: TpbIndex,
    limit: Duration,
) -> Result<(), DeviceError> {
    let end = Instant::now() + limit.min(LONGEST);
    let mut pause = FIRST_PAUSE;
    loop {
        if is_at_rest(&*live()?, tpb)? {
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
    Ok(waiting <= 0 && live.queues.are_at_rest(tpb)? && live.notifications.have_all_ended(core)?)
}
