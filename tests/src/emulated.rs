//! A machine behind the driver's interface: the emulator answers this process's own system calls.
//!
//! Used by [`Rig`](crate::Rig).

use crate::Parts;
use crate::preloaded;
use neuron_emu::seccomp::run_in;
use neuron_emu::{Config, Emulator, Settings};
use nrta::{Backend, Builder, Runtime};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use xu_abi::driver::Arch;
use xu_device::Device;
use xu_device::neuron::{Kernel, NeuronDevice, Options, System};
use xu_device::simulated::FaultPlan;

/// What firmware and the driver itself take of each HBM.
const OVERHEAD: u64 = 64 << 20;
/// Cores of a v2 chip.
const V2_CORES: u16 = 2;
/// Cores of a v3 chip that share an HBM.
const SHARE_OF_V3: u64 = 2;

/// Devices behind the emulated driver.
#[derive(Clone, Debug)]
pub struct Emulated {
    emulator: Arc<Emulator>,
    /// Where its nodes are. The backend shares descriptors by directory, so tests of one process have one each.
    directory: PathBuf,
    /// Cores of each device that are used.
    cores: u16,
    hbm_bytes: u64,
}

impl Emulated {
    /// Powers on the smallest chips that have enough cores.
    ///
    /// # Panics
    /// When they do not start: the test has failed.
    #[must_use]
    pub fn start(parts: &Parts) -> Self {
        let (arch, sharing) = if parts.tpbs <= V2_CORES {
            (Arch::V2, 1)
        } else {
            (Arch::V3, SHARE_OF_V3)
        };
        let config = Config {
            arch,
            devices: parts.devices,
            hbm_bytes: parts.hbm_bytes * sharing + OVERHEAD,
            host_bytes: parts.host_bytes,
            // As the simulated machine has it: the suite asks for buffers of almost all of its host memory.
            host_chunk_bytes: parts.host_bytes,
            seed: parts.seed,
            faults: parts.faults.clone(),
            ..Config::default()
        };
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        Self {
            directory: preloaded::directory()
                .unwrap_or_else(|| PathBuf::from(format!("/dev/emulated-{number}"))),
            emulator: Emulator::start(config).expect("devices of these parts start"),
            cores: parts.tpbs,
            hbm_bytes: parts.hbm_bytes,
        }
    }

    /// The driver, for what only a test of it asks; `None` where the preloaded library has it.
    #[must_use]
    pub fn emulator(&self) -> Option<&Arc<Emulator>> {
        preloaded::directory().is_none().then_some(&self.emulator)
    }

    /// Has `test` run with the devices in a directory of their own. Where that is not permitted, `None`: then it has run in another
    /// process, over the preloaded library, or was skipped, which it has said.
    ///
    /// # Panics
    /// When the driver would have crashed, or has not got everything back.
    pub fn run<T: Send>(&self, test: impl FnOnce() -> T + Send) -> Option<T> {
        if preloaded::directory().is_some() {
            return Some(test());
        }
        let outcome = if preloaded::is_chosen() {
            Err("seccomp notification was not chosen".to_owned())
        } else {
            run_in(&self.emulator, &self.directory, test).map_err(|why| why.to_string())
        };
        let why = match outcome {
            Ok(value) => {
                self.check();
                return Some(value);
            }
            Err(why) => why,
        };
        match self
            .settings()
            .and_then(|settings| preloaded::run_again(&settings))
        {
            Ok(()) => println!("{}: {why}", preloaded::SAID),
            Err(neither) => println!("skipped: {why}; {neither}"),
        }
        None
    }

    /// What the preloaded library is to emulate.
    fn settings(&self) -> Result<Settings, String> {
        let config = self.emulator.config();
        if config.faults != FaultPlan::default() {
            return Err("the library gets no plan of faults".to_owned());
        }
        let arch = match config.arch {
            Arch::V2 => "v2",
            Arch::V3 => "v3",
        };
        let words = [
            ("arch", arch.to_owned()),
            ("devices", config.devices.to_string()),
            ("hbm-bytes", config.hbm_bytes.to_string()),
            ("host-bytes", config.host_bytes.to_string()),
            ("host-chunk-bytes", config.host_chunk_bytes.to_string()),
            ("seed", config.seed.to_string()),
            ("dev", self.directory.display().to_string()),
        ];
        let mut settings = Settings::default();
        for (key, value) in words {
            settings
                .set(key, &value)
                .map_err(|wrong| wrong.to_string())?;
        }
        Ok(settings)
    }

    fn check(&self) {
        assert_eq!(self.emulator.bugs(), [], "the driver would have crashed");
        let remains = self.emulator.remains();
        assert!(remains.is_empty(), "{remains}");
    }

    /// Opens runtimes on a device.
    #[must_use]
    pub fn builder(&self, device: u32) -> Builder {
        let cores = u32::from(self.emulator.config().arch.table().cores);
        Runtime::builder()
            .backend(Backend::RealDriver)
            .neuron_device_directory(&self.directory)
            .first_core(device * cores)
    }

    /// Where the first HBM of a device ends.
    pub(crate) fn end_of_hbm(&self) -> u64 {
        let config = self.emulator.config();
        config.arch.table().hbm[0] + config.hbm_bytes
    }

    /// A device without a runtime.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn device(&self, device: u32) -> Arc<dyn Device> {
        let options = Options {
            directory: self.directory.clone(),
            device,
            cores: Some(0..u8::try_from(self.cores).expect("a chip has fewer")),
            hbm_bytes: Some(self.hbm_bytes),
            ..Options::default()
        };
        let kernel: Arc<dyn Kernel> = Arc::new(System);
        NeuronDevice::open(&kernel, &options).expect("a device that nobody uses can be opened")
    }
}
