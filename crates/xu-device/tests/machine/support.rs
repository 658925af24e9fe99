//! Machines for the tests, and a [`Client`] of one.

pub(crate) use crate::client::*;
use xu_device::simulated::{Costs, FaultPlan, Machine, MachineConfig, Rule, Time};

pub(crate) fn small(tpbs: u16, seed: u64) -> MachineConfig {
    MachineConfig {
        tpbs,
        seed,
        hbm_bytes: 1 << 20,
        host_bytes: 1 << 20,
        ..MachineConfig::default()
    }
}

/// A machine that the test steps, where everything takes time.
pub(crate) fn stepped(tpbs: u16, seed: u64) -> MachineConfig {
    MachineConfig {
        time: Time::Virtual,
        costs: Costs::nominal(),
        ..small(tpbs, seed)
    }
}

/// The same with a plan.
pub(crate) fn faulty(tpbs: u16, rules: Vec<Rule>) -> MachineConfig {
    MachineConfig {
        faults: FaultPlan { rules },
        ..stepped(tpbs, 1)
    }
}

impl Client {
    pub(crate) fn start(config: MachineConfig) -> Self {
        Self::open(&Machine::start(config).unwrap(), CORE, 4096)
    }
}
