//! What programs tell the driver, and what they ask it to do without any effect.
//!
//! Spec `driver.md` sections 1, 2 and 11, calls that do nothing.

use super::bug::Bug;
use super::call::{Call, Failure, Handled};
use super::trace::Event;
use xu_abi::driver::errno::{E2BIG, EBADMSG, EFAULT, EINVAL, ENOTTY};
use xu_abi::driver::{PostMetric, Printk};

/// DEVICE_INIT, DEVICE_RELEASE, DMA_ENG_INIT, DMA_QUEUE_RELEASE, NOTIFICATIONS_DESTROY_V1: success, and nothing else.
pub(super) fn accepted(_call: &Call<'_>) -> Handled {
    Ok(())
}

/// DMA_QUIESCE_QUEUES: never worked.
pub(super) fn dma_quiesce_queues(_call: &Call<'_>) -> Handled {
    Err(Failure::Errno(ENOTTY))
}

/// HBM_SCRUB_START and HBM_SCRUB_WAIT. The specification does not name the fields of their arguments, so nothing is known
/// that could be done.
pub(super) fn hbm_scrub(_call: &Call<'_>) -> Handled {
    Err(Failure::Errno(EINVAL))
}

/// NC_PID_STATE_DUMP: goes to the kernel's log, which is the trace here.
pub(super) fn nc_pid_state_dump(call: &Call<'_>) -> Handled {
    let _argument: [u8; 16] = call.argument()?;
    let marks = call.device.system.claims.lock().by_process();
    let text = format!("cores by process: {marks:?}");
    call.device.record(call.pid(), Event::Printed(text));
    Ok(())
}

/// PRINTK.
pub(super) fn printk(call: &Call<'_>) -> Handled {
    let printk: Printk = call.argument()?;
    if printk.size == 0 {
        let what = String::from("PRINTK of 0 bytes");
        return Err(Bug { trap: 25, what }.into());
    }
    if printk.size > Printk::MAX_SIZE {
        return Err(Failure::Errno(EFAULT));
    }
    let text = buffer(call, printk.buffer, printk.size)?;
    let [text @ .., 0] = text.as_slice() else {
        return Err(Failure::Errno(EBADMSG));
    };
    let text = String::from_utf8_lossy(text).into_owned();
    call.device.record(call.pid(), Event::Printed(text));
    Ok(())
}

/// POST_METRIC: what it says goes to whoever runs the fleet.
pub(super) fn post_metric(call: &Call<'_>) -> Handled {
    let metric: PostMetric = call.argument()?;
    if metric.data_size > PostMetric::MAX_SIZE {
        return Err(Failure::Errno(E2BIG));
    }
    buffer(call, metric.data, metric.data_size)?;
    Ok(())
}

/// Bytes of the caller: callers have checked how many.
fn buffer(call: &Call<'_>, address: u64, size: u32) -> Result<Vec<u8>, Failure> {
    // CAST: small.
    let mut bytes = vec![0; size as usize];
    call.caller.read(address, &mut bytes)?;
    Ok(bytes)
}
