//! The machine that a test runs on: simulated, or behind the driver's interface.
//!
//! Most tests of the lane say what it does whatever the device is. Such a test takes a [`Rig`] and gets its runtimes and devices from it;
//! [`on_both!`](crate::on_both) makes two tests of it, `simulated::name` and `neuron::name`, each with a machine of its own.

use crate::Meddler;
use crate::emulated::Emulated;
use nrta::{Builder, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xu_device::Device;
use xu_device::map::HBM_RESERVED;
use xu_device::simulated::{FaultPlan, Machine, MachineConfig, Rule};

/// Which kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The simulated machine, in this process.
    Simulated,
    /// `/dev/neuron0`, ..., through system calls that the emulator answers.
    Neuron,
}

/// What a machine consists of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Physical cores of each device.
    pub tpbs: u16,
    /// Devices, each a machine of its own.
    pub devices: u32,
    /// HBM of each core, bytes.
    pub hbm_bytes: u64,
    /// Host memory that the device reaches, bytes.
    pub host_bytes: u64,
    /// Decides in which order engines step.
    pub seed: u64,
    /// What goes wrong.
    pub faults: FaultPlan,
}

impl Default for Parts {
    /// Two cores, and no fault.
    fn default() -> Self {
        Self {
            tpbs: 2,
            devices: 1,
            hbm_bytes: 64 << 20,
            host_bytes: 128 << 20,
            seed: 0,
            faults: FaultPlan::default(),
        }
    }
}

impl Parts {
    /// Two devices, for tests with two runtimes.
    #[must_use]
    pub fn two_devices() -> Self {
        Self {
            devices: 2,
            ..Self::default()
        }
    }

    /// With so many cores.
    #[must_use]
    pub fn cores(tpbs: u16) -> Self {
        Self {
            tpbs,
            ..Self::default()
        }
    }

    /// With these faults.
    #[must_use]
    pub fn failing(rules: Vec<Rule>) -> Self {
        Self {
            faults: FaultPlan { rules },
            ..Self::default()
        }
    }
}

/// A machine, powered on.
#[derive(Debug)]
pub struct Rig {
    parts: Parts,
    machine: Powered,
}

#[derive(Debug)]
enum Powered {
    Simulated {
        /// Devices that were started without a runtime: each steps its engines in an order of its own.
        started: AtomicU64,
    },
    Neuron(Emulated),
}

impl Kind {
    /// Powers a machine on and has `test` use it. Behind the driver's interface it sees to it that the driver did not
    /// crash, and that nothing of this process remains in it.
    ///
    /// `None` where system calls cannot be answered: it has said so.
    pub fn with<T: Send>(self, parts: Parts, test: impl FnOnce(&Rig) -> T + Send) -> Option<T> {
        match self {
            Self::Simulated => Some(test(&Rig {
                parts,
                machine: Powered::Simulated {
                    started: AtomicU64::new(0),
                },
            })),
            Self::Neuron => {
                let machine = Emulated::start(&parts);
                machine.clone().run(|| {
                    let machine = Powered::Neuron(machine);
                    test(&Rig { parts, machine })
                })
            }
        }
    }
}

impl Rig {
    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.machine {
            Powered::Simulated { .. } => Kind::Simulated,
            Powered::Neuron(_) => Kind::Neuron,
        }
    }

    /// The driver, for what only a test of it asks; `None` of a simulated machine.
    #[must_use]
    pub fn emulated(&self) -> Option<&Emulated> {
        match &self.machine {
            Powered::Simulated { .. } => None,
            Powered::Neuron(emulated) => Some(emulated),
        }
    }

    /// Opens runtimes on its first device.
    #[must_use]
    pub fn builder(&self) -> Builder {
        self.builder_on(0)
    }

    /// Opens runtimes on one of its devices.
    #[must_use]
    pub fn builder_on(&self, device: u32) -> Builder {
        assert!(device < self.parts.devices, "there is no device {device}");
        match &self.machine {
            Powered::Simulated { .. } => Runtime::builder()
                .simulated_hbm_bytes(self.parts.hbm_bytes)
                .simulated_seed(self.parts.seed)
                .simulated_faults(self.parts.faults.clone()),
            Powered::Neuron(emulated) => emulated.builder(device),
        }
    }

    /// Its first device, without a runtime. Behind the driver's interface it can be opened again once it is dropped; simulated, it is another
    /// one every time, with the next seed.
    ///
    /// # Panics
    /// When it does not start: the test has failed.
    #[must_use]
    pub fn device(&self) -> Arc<dyn Device> {
        match &self.machine {
            Powered::Neuron(emulated) => emulated.device(0),
            Powered::Simulated { started } => {
                let config = MachineConfig {
                    tpbs: self.parts.tpbs,
                    hbm_bytes: self.parts.hbm_bytes,
                    host_bytes: self.parts.host_bytes,
                    seed: self
                        .parts
                        .seed
                        .wrapping_add(started.fetch_add(1, Ordering::Relaxed)),
                    faults: self.parts.faults.clone(),
                    ..MachineConfig::default()
                };
                Machine::start(config).expect("a machine of these parts starts")
            }
        }
    }

    /// Where the HBM of its first core ends, as the device sees it.
    #[must_use]
    pub fn end_of_hbm(&self) -> u64 {
        match &self.machine {
            Powered::Simulated { .. } => HBM_RESERVED + self.parts.hbm_bytes,
            Powered::Neuron(emulated) => emulated.end_of_hbm(),
        }
    }

    /// Its first device, and somebody who meddles in front of it.
    #[must_use]
    pub fn meddler(&self) -> Arc<Meddler> {
        Meddler::new(self.device())
    }
}

/// Runs a test on a machine.
pub fn run(kind: Kind, parts: Option<Parts>, test: impl FnOnce(&Rig) + Send) {
    // What is skipped has said so.
    let _ran = kind.with(parts.unwrap_or_default(), test);
}

/// Makes two tests of each function of a [`Rig`]: one on the simulated machine, one through the driver's interface.
/// `name with parts` says what the machine consists of.
#[macro_export]
macro_rules! on_both {
    ($($test:ident $(with $parts:expr)?),* $(,)?) => {
        $crate::on! { simulated, Simulated: $($test $(with $parts)?),* }
        $crate::on! { neuron, Neuron: $($test $(with $parts)?),* }
    };
}

/// The same on the simulated machine alone; whoever uses it says why.
#[macro_export]
macro_rules! on_simulated {
    ($($test:ident $(with $parts:expr)?),* $(,)?) => {
        $crate::on! { only_simulated, Simulated: $($test $(with $parts)?),* }
    };
}

/// Makes tests of functions, for a kind of machine.
#[doc(hidden)]
#[macro_export]
macro_rules! on {
    ($module:ident, $kind:ident: $($test:ident $(with $parts:expr)?),*) => {
        mod $module {
            #[allow(unused_imports, reason = "for what the parts are made of")]
            use super::*;
            $(
                #[test]
                fn $test() {
                    let parts = [$($parts)?].into_iter().next();
                    $crate::rig::run($crate::Kind::$kind, parts, super::$test);
                }
            )*
        }
    };
}
