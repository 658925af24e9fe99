//! The fault plan of `NRTA_SIM_FAULTS`: JSON, or the path of a file of it.
//!
//! Called by [`super`]. A plan that cannot be read or understood is refused.

use super::SIM_FAULTS;
use super::read::{Given, refused};
use crate::error::Error;
use crate::settings::Setting;
use std::ffi::OsString;
use xu_device::simulated::FaultPlan;

/// Most bytes of a file with a fault plan.
const MAX_PLAN: u64 = 1 << 20;

/// A plan as JSON, or the file where it stands.
pub(super) fn read(given: &Given) -> Result<Option<Setting<FaultPlan>>, Error> {
    let Some(setting) = given.text(SIM_FAULTS) else {
        return Ok(None);
    };
    let text = setting.value.clone();
    let bytes = if text.starts_with('{') {
        Ok(text.clone().into_bytes())
    } else {
        // The path as it was given, which need not be text.
        let path = given.path(SIM_FAULTS).map(|path| path.value);
        read_plan(&path.unwrap_or_default()).map_err(|error| error.to_string())
    };
    let plan =
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    match plan {
        Ok(plan) => Ok(Some(setting.map(|_| plan))),
        Err(why) => {
            let allowed = format!("a fault plan or the path of one: {why}");
            Err(refused(SIM_FAULTS, text, allowed))
        }
    }
}

/// A device or a pipe that never ends is no plan.
fn read_plan(path: &OsString) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let open = std::fs::File::open(path)?;
    open.take(MAX_PLAN).read_to_end(&mut bytes)?;
    Ok(bytes)
}
