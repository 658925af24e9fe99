//! What a machine consists of and how it behaves: its configuration, and what of it is allowed.
//!
//! Written by whoever starts a machine, checked once, before anything is built.

use super::clock::Time;
use super::costs::Costs;
use super::fault_plan::{Fault, FaultPlan, Rule};
use crate::device::DeviceError;
use core::fmt::Display;
use core::ops::RangeInclusive;

const ARCHS: RangeInclusive<u64> = 2..=3;
const TPBS: RangeInclusive<u64> = 1..=256;
const MEMORY_BYTES: RangeInclusive<u64> = 1 << 20..=4 << 30;
const DRIFTS: RangeInclusive<f64> = 0.5..=2.0;
const PROBABILITIES: RangeInclusive<f64> = 0.0..=1.0;
/// Bytes of a record, and values of a debug hint.
const NIBBLE: u8 = 15;
/// Error numbers of Linux.
const ERRNOS: RangeInclusive<i32> = 1..=4095;

/// What a machine consists of.
///
/// ```
/// use xu_device::simulated::{Machine, MachineConfig};
/// let two_cores = Machine::start(MachineConfig { tpbs: 2, seed: 7, ..MachineConfig::default() })?;
/// # drop(two_cores);
/// # Ok::<(), xu_device::DeviceError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MachineConfig {
    /// Generation: 2 or 3.
    pub arch: u8,
    /// Number of physical cores, 1 to 256.
    pub tpbs: u16,
    /// Usable HBM of each core, bytes: 1 MiB to 4 GiB. The 16 MiB of firmware below it come in addition and
    /// are not memory. The operating system backs a page when it is first written.
    pub hbm_bytes: u64,
    /// Host memory that the device can reach, bytes: 1 MiB to 4 GiB.
    pub host_bytes: u64,
    /// Decides in which order engines and cores step, where the counter of the clock starts, and what probabilities of the fault plan
    /// come to.
    pub seed: u64,
    /// Ticks of the device clock per nanosecond, 0.5 to 2; the nominal rate is 1.
    pub clock_drift: f64,
    /// Whether the machine runs by itself or is stepped.
    pub time: Time,
    /// What its work takes.
    pub costs: Costs,
    /// What is to go wrong.
    pub faults: FaultPlan,
}

impl Default for MachineConfig {
    /// A v2 machine with one core, 64 MiB of HBM and of host memory, a clock that is 300 ppm fast, in real time, as fast
    /// as the host, without a fault.
    fn default() -> Self {
        Self {
            arch: 2,
            tpbs: 1,
            hbm_bytes: 64 << 20,
            host_bytes: 64 << 20,
            seed: 0,
            clock_drift: 1.0003,
            time: Time::Realtime,
            costs: Costs::FREE,
            faults: FaultPlan::default(),
        }
    }
}

impl MachineConfig {
    /// Whether memory of the machine's own can have these sizes.
    pub(super) fn check_memory(&self) -> Result<(), DeviceError> {
        let sizes = [
            ("hbm_bytes", self.hbm_bytes),
            ("host_bytes", self.host_bytes),
        ];
        sizes
            .into_iter()
            .try_for_each(|(what, value)| in_range(what, value, MEMORY_BYTES, "1 MiB to 4 GiB"))
    }

    /// Whether everything but the sizes of memory is allowed.
    pub(super) fn check(&self) -> Result<(), DeviceError> {
        in_range("generation", u64::from(self.arch), ARCHS, "2 or 3")?;
        in_range("number of cores", u64::from(self.tpbs), TPBS, "1 to 256")?;
        if !DRIFTS.contains(&self.clock_drift) {
            return Err(DeviceError::BadArgument {
                what: "clock_drift",
                // CAST: for the message only; `as` saturates.
                value: self.clock_drift as u64,
                allowed: "0.5 to 2.0",
            });
        }
        for (index, rule) in self.faults.rules.iter().enumerate() {
            check_rule(index, rule, self.tpbs)?;
        }
        Ok(())
    }
}

fn in_range(
    what: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
    allowed: &'static str,
) -> Result<(), DeviceError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(DeviceError::BadArgument {
        what,
        value,
        allowed,
    })
}

fn check_rule(rule: usize, of: &Rule, tpbs: u16) -> Result<(), DeviceError> {
    let refuse = |what, value: &dyn Display, allowed| {
        Err(DeviceError::BadPlan {
            rule,
            what,
            value: value.to_string(),
            allowed,
        })
    };
    if let Some(core) = of.when.core
        && core >= tpbs
    {
        return refuse("core", &core, "a core of this machine");
    }
    if let Some(probability) = of.when.probability
        && !PROBABILITIES.contains(&probability)
    {
        return refuse("probability", &probability, "0 to 1");
    }
    match of.fault {
        Fault::CorruptRecord { byte, .. } if byte > NIBBLE => refuse("byte", &byte, "0 to 15"),
        Fault::BadDebugHint { hint, .. } if hint > NIBBLE => refuse("hint", &hint, "0 to 15"),
        Fault::DoorbellFails { errno } if !ERRNOS.contains(&errno) => {
            refuse("errno", &errno, "1 to 4095")
        }
        _ => Ok(()),
    }
}
