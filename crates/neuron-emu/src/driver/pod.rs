//! Pods: an emulated host belongs to none.
//!
//! Spec `driver.md` section 3, last row, which does not say what a host outside a pod is told: see [`choices`](crate::choices).

use super::call::{Call, Failure, Handled};
use crate::choices::NO_NODE;
use xu_abi::driver::errno::EINVAL;
use xu_abi::driver::{PodCtrl, PodCtrlV2, PodInfo, PodStatus, PodStatusV2};

/// POD_INFO: no type, no name, no size.
pub(super) fn pod_info(call: &Call<'_>) -> Handled {
    let info: PodInfo = call.argument()?;
    check(info.sz, PodInfo::ABI.size)?;
    Ok(call.answer(&PodInfo {
        sz: info.sz,
        ..PodInfo::ZEROED
    })?)
}

/// POD_STATUS.
pub(super) fn pod_status(call: &Call<'_>) -> Handled {
    let status: PodStatus = call.argument()?;
    check(status.sz, PodStatus::ABI.size)?;
    Ok(call.answer(&PodStatus {
        sz: status.sz,
        node_id: NO_NODE,
        ..PodStatus::ZEROED
    })?)
}

/// POD_STATUS_V2.
pub(super) fn pod_status_v2(call: &Call<'_>) -> Handled {
    let status: PodStatusV2 = call.argument()?;
    check(status.sz, PodStatusV2::ABI.size)?;
    Ok(call.answer(&PodStatusV2 {
        sz: status.sz,
        node_id: NO_NODE,
        ..PodStatusV2::ZEROED
    })?)
}

/// POD_CTRL: there is nothing to control.
pub(super) fn pod_ctrl(call: &Call<'_>) -> Handled {
    let _control: PodCtrl = call.argument()?;
    Err(Failure::Errno(EINVAL))
}

/// POD_CTRL_V2.
pub(super) fn pod_ctrl_v2(call: &Call<'_>) -> Handled {
    let _control: PodCtrlV2 = call.argument()?;
    Err(Failure::Errno(EINVAL))
}

fn check(sz: u16, size: usize) -> Handled {
    if usize::from(sz) != size {
        return Err(Failure::Errno(EINVAL));
    }
    Ok(())
}
