//! Stager and harvester together, as the compute engine uses them, on whatever device it is given.
//!
//! The program is a null program: five `Halt`s. The calls of the crate under measurement are here and nowhere else.

use std::sync::Arc;
use xu_abi::{DeviceAddr, Engine, TpbIndex};
use xu_device::harvest::{Harvester, Progress};
use xu_device::memory::DeviceMemory;
use xu_device::program::{Blocks, Membership, Program};
use xu_device::simulated::isa::{INSTRUCTION_SIZE, Instruction};
use xu_device::stage::{SkipConfig, Staged, Stager};
use xu_device::{Device, Place};
use zerocopy::IntoBytes;

/// Executions that may be outstanding; slots of a program.
pub(crate) const DEPTH: u32 = 8;
/// Tensors that an execution binds.
pub(crate) const TENSORS: [DeviceAddr; 2] = [DeviceAddr::new(0x1000), DeviceAddr::new(0x2000)];

/// How the lane is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// One model, whose configuration and tables are loaded each time.
    Loading,
    /// One model, whose configuration and tables are kept.
    Skipping,
    /// Two models of collectives in turn: each execution is a switch, and brings a chain.
    Switching,
}

impl Use {
    pub(crate) const ALL: [Self; 3] = [Self::Loading, Self::Skipping, Self::Switching];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading each time",
            Self::Skipping => "skip-config",
            Self::Switching => "skip-config, a switch each time",
        }
    }
}

/// One compute lane of one or two cores.
pub(crate) struct Lane {
    stager: Stager,
    harvester: Harvester,
    /// By model, a program for each core.
    models: Vec<Vec<Arc<Program>>>,
    next: usize,
}

impl Lane {
    /// `None` when the device refuses something.
    pub(crate) fn open(device: &Arc<dyn Device>, tpbs: usize, used: Use) -> Option<Self> {
        // CAST: one or two.
        let tpbs: Vec<TpbIndex> = (0..tpbs as u16).map(TpbIndex::new).collect();
        let (skip, groups) = match used {
            Use::Loading => (SkipConfig::Never, &[None][..]),
            Use::Skipping => (SkipConfig::WhenEqual, &[None][..]),
            Use::Switching => (SkipConfig::WhenEqual, &[Some(1), Some(2)][..]),
        };
        let model = |group: &Option<u32>| -> Option<Vec<Arc<Program>>> {
            tpbs.iter()
                .map(|tpb| null_program(device, *tpb, *group))
                .collect()
        };
        Some(Self {
            stager: Stager::open(device, &tpbs, DEPTH, skip).ok()?,
            harvester: Harvester::open(device, &tpbs).ok()?,
            models: groups.iter().map(model).collect::<Option<_>>()?,
            next: 0,
        })
    }

    /// Arms every core and fires.
    #[inline]
    pub(crate) fn stage(&mut self) -> Option<Staged> {
        let programs = &self.models[self.next];
        self.next = (self.next + 1) % self.models.len();
        let prepared = self.stager.prepare(programs, &TENSORS).ok()?;
        self.stager.commit(programs, &TENSORS, &prepared).ok()
    }

    /// Takes up an execution.
    #[inline]
    pub(crate) fn begin(&mut self, staged: Staged) {
        self.harvester.begin(0, staged, None);
    }

    /// One look at the device. `Some(true)`: the execution has succeeded; `None`: it has not.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<bool> {
        match self.harvester.step(0, &mut ()) {
            Progress::Continue => Some(false),
            Progress::Done(report) => report.status.is_success().then_some(true),
            Progress::Fatal(..) => None,
        }
    }

    /// Takes up an execution and looks until it is complete.
    #[inline]
    pub(crate) fn harvest(&mut self, staged: Staged) -> Option<()> {
        self.begin(staged);
        let mut looks = 0u64;
        while !self.step()? {
            looks += 1;
            std::hint::spin_loop();
            // Somebody else may need this processor to go on.
            if looks.is_multiple_of(4096) {
                std::thread::yield_now();
            }
        }
        Some(())
    }

    /// An execution from end to end.
    #[inline]
    pub(crate) fn round_trip(&mut self) -> Option<()> {
        let staged = self.stage()?;
        self.harvest(staged)
    }
}

/// A collective of one rank waits for nobody.
fn null_program(
    device: &Arc<dyn Device>,
    tpb: TpbIndex,
    group: Option<u32>,
) -> Option<Arc<Program>> {
    let blocks = Blocks {
        bodies: Engine::ALL.map(|engine| Instruction::halt(engine).as_bytes().to_vec()),
        arena: DeviceMemory::allocate(device, Place::Hbm(tpb), 64, 64).ok()?,
        // CAST: two.
        bindings: TENSORS.len() as u16,
        entry_bytes: INSTRUCTION_SIZE,
        entry: |engine, entry| Instruction::jump(engine, entry.body).as_bytes().to_vec(),
        sequencer_config: [1; 52],
        table_hash: [1; 64],
        collectives: group.map(|group| Membership {
            group,
            rank: 0,
            ranks: 1,
        }),
    };
    Program::load(device, tpb, DEPTH, blocks).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::null::{Doorbell, NullDevice};

    /// Many laps of every ring.
    #[test]
    fn a_thousand_executions_succeed_in_every_use() {
        for tpbs in [1, 2] {
            for used in Use::ALL {
                let device: Arc<dyn Device> = Arc::new(NullDevice::<false>::new(Doorbell::Answers));
                let mut lane = Lane::open(&device, tpbs, used).expect("there is room");
                for execution in 0..1000 {
                    assert!(lane.round_trip().is_some(), "{used:?}, {execution}");
                }
            }
        }
    }
}
