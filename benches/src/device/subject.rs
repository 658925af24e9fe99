//! Who is measured: the lane on one device or the other, or the work by hand. All do the same four things.

use std::hint::black_box;
use std::sync::Arc;
use xu_device::Device;
use xu_device::simulated::{Machine, MachineConfig};
use xu_device::stage::Staged;

use super::by_hand::{ByHand, Memory};
use super::lane::{Lane, Use};
use super::null::{Doorbell, NullDevice};
use crate::pin::{self, Pair};

/// Something that stages and harvests.
pub(crate) trait Subject: Sized {
    /// Called on the thread that is measured, which it may bind to the first of the processors.
    fn open(processors: Pair, tpbs: usize, doorbell: Doorbell) -> Option<Self>;
    /// Puts an execution before every core.
    fn stage(&mut self) -> Option<Staged>;
    /// Takes up an execution and reads its records.
    fn harvest(&mut self, staged: Staged) -> Option<()>;
    /// Takes up an execution, for [`Subject::look`].
    fn begin(&mut self);
    /// One look at rings in which there is nothing.
    fn look(&mut self) -> Option<()>;
    /// Has the device post the records of an execution.
    fn run_execution(&mut self);
    /// Whether nothing went wrong that was not reported.
    fn is_sound(&self) -> bool;
}

/// Stager and harvester on a device that costs nothing. `USE`: an index into [`Use::ALL`].
pub(crate) struct Ours<const USE: usize> {
    null: Arc<NullDevice<false>>,
    tpbs: usize,
    lane: Lane,
}

impl<const USE: usize> Subject for Ours<USE> {
    fn open(processors: Pair, tpbs: usize, doorbell: Doorbell) -> Option<Self> {
        pin::pin(processors[0]);
        let null = Arc::new(NullDevice::new(doorbell));
        let device: Arc<dyn Device> = Arc::clone(&null) as _;
        // The compiler must not look through the seam.
        let lane = Lane::open(&black_box(device), tpbs, Use::ALL[USE])?;
        Some(Self { null, tpbs, lane })
    }

    #[inline]
    fn stage(&mut self) -> Option<Staged> {
        self.lane.stage()
    }

    #[inline]
    fn harvest(&mut self, staged: Staged) -> Option<()> {
        self.lane.harvest(staged)
    }

    fn begin(&mut self) {
        self.lane.begin(Staged::default());
    }

    #[inline]
    fn look(&mut self) -> Option<()> {
        let found = self.lane.step()?;
        (!found).then_some(())
    }

    fn run_execution(&mut self) {
        // CAST: one or two.
        for tpb in 0..self.tpbs as u16 {
            self.null.run_execution(xu_abi::TpbIndex::new(tpb));
        }
    }

    fn is_sound(&self) -> bool {
        true
    }
}

/// Stager and harvester on the simulated machine, whose cores run on the other processor.
pub(crate) struct OnMachine<const USE: usize> {
    lane: Lane,
    /// Its cores end with it.
    _machine: Arc<Machine>,
}

impl<const USE: usize> Subject for OnMachine<USE> {
    fn open(processors: Pair, tpbs: usize, _: Doorbell) -> Option<Self> {
        // Its threads are bound as the one that starts them.
        pin::pin(processors[1]);
        let config = MachineConfig {
            // CAST: one or two.
            tpbs: tpbs as u16,
            hbm_bytes: 1 << 20,
            host_bytes: 1 << 20,
            ..MachineConfig::default()
        };
        let machine = Machine::start(config).ok();
        pin::pin(processors[0]);
        let machine = machine?;
        let device: Arc<dyn Device> = Arc::clone(&machine) as _;
        Some(Self {
            lane: Lane::open(&device, tpbs, Use::ALL[USE])?,
            _machine: machine,
        })
    }

    #[inline]
    fn stage(&mut self) -> Option<Staged> {
        self.lane.stage()
    }

    #[inline]
    fn harvest(&mut self, staged: Staged) -> Option<()> {
        self.lane.harvest(staged)
    }

    fn begin(&mut self) {
        self.lane.begin(Staged::default());
    }

    #[inline]
    fn look(&mut self) -> Option<()> {
        let found = self.lane.step()?;
        (!found).then_some(())
    }

    /// It runs them by itself.
    fn run_execution(&mut self) {}

    fn is_sound(&self) -> bool {
        true
    }
}

impl<M: Memory> Subject for ByHand<M> {
    fn open(processors: Pair, tpbs: usize, doorbell: Doorbell) -> Option<Self> {
        pin::pin(processors[0]);
        Some(Self::open(tpbs, doorbell))
    }

    #[inline]
    fn stage(&mut self) -> Option<Staged> {
        self.stage();
        Some(Staged::default())
    }

    #[inline]
    fn harvest(&mut self, _: Staged) -> Option<()> {
        self.harvest()
    }

    fn begin(&mut self) {}

    #[inline]
    fn look(&mut self) -> Option<()> {
        (!self.look()).then_some(())
    }

    fn run_execution(&mut self) {
        self.run_execution();
    }

    fn is_sound(&self) -> bool {
        self.is_sound()
    }
}
