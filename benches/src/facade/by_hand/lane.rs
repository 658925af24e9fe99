//! Stager, harvester and memory, as the design by hand keeps them: one owner, and what is on its way in a queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use xu_abi::{DeviceAddr, Status, TpbIndex};
use xu_device::harvest::{Harvester, Progress};
use xu_device::memory::DeviceMemory;
use xu_device::program::{BLOCK_ALIGN, Program};
use xu_device::stage::{SkipConfig, Staged, Stager};
use xu_device::{Device, Place};

use super::Job;
use crate::facade::place::model;
use crate::facade::service::room;

const TPB: TpbIndex = TpbIndex::new(0);
/// The default of the facade.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

/// How an execution ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    status: Status,
    /// For the caller, as the facade gives it.
    _device_time: Option<Duration>,
}

/// What the thread that owns the device has.
pub(crate) struct Lane {
    device: Arc<dyn Device>,
    stager: Stager,
    harvester: Harvester,
    programs: Vec<Arc<Program>>,
    /// For each set of tensors, where they are.
    sets: Vec<[DeviceAddr; 3]>,
    /// The oldest has begun.
    running: VecDeque<(Staged, oneshot::Sender<Ended>)>,
    room: usize,
    _memory: Vec<DeviceMemory>,
}

impl Lane {
    /// `None` when the device refuses something.
    pub(crate) fn open(device: Arc<dyn Device>, depth: usize) -> Option<Self> {
        let room = room(depth);
        // CAST: at most 63.
        let slots = room as u32;
        let model = model()?;
        let programs = xu_model::load(&device, &[TPB], slots, model, 1);
        let programs = programs
            .map_err(|fault| eprintln!("no model: {fault}"))
            .ok()?;
        let sizes: Vec<u64> = model
            .inputs()
            .iter()
            .chain(model.outputs())
            .map(|spec| spec.bytes_per_sample() as u64)
            .collect();
        let mut memory = Vec::new();
        let mut sets = Vec::new();
        for _ in 0..depth {
            let mut addrs = [DeviceAddr::new(0); 3];
            for (addr, bytes) in addrs.iter_mut().zip(&sizes) {
                let place = Place::Hbm(TPB);
                let tensor = DeviceMemory::allocate(&device, place, *bytes, BLOCK_ALIGN).ok()?;
                *addr = tensor.addr();
                memory.push(tensor);
            }
            sets.push(addrs);
        }
        Some(Self {
            stager: Stager::open(&device, &[TPB], slots, SkipConfig::Never).ok()?,
            harvester: Harvester::open(&device, &[TPB]).ok()?,
            programs: programs.into_iter().map(Arc::new).collect(),
            sets,
            running: VecDeque::with_capacity(room),
            room,
            _memory: memory,
            device,
        })
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.running.len() < self.room
    }

    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Puts the job before the device. One that cannot be staged is dropped, which its caller sees.
    #[inline]
    pub(crate) fn stage(&mut self, job: Job) {
        let tensors = &self.sets[job.set];
        let Ok(prepared) = self.stager.prepare(&self.programs, tensors) else {
            return;
        };
        if let Ok(staged) = self.stager.commit(&self.programs, tensors, &prepared) {
            if self.running.is_empty() {
                self.harvester.begin(self.device.now_ns(), staged, TIMEOUT);
            }
            self.running.push_back((staged, job.answer));
        }
    }

    /// One look at the oldest: whether it is over. Its caller is answered then, and the next one begins.
    #[inline]
    pub(crate) fn look(&mut self) -> bool {
        let report = match self.harvester.step(self.device.now_ns(), &mut ()) {
            Progress::Continue => return false,
            Progress::Done(report) | Progress::Fatal(report, _) => report,
        };
        if let Some((_, answer)) = self.running.pop_front() {
            // Who asked may be gone.
            let _ = answer.send(Ended {
                status: report.status,
                _device_time: report.device_time(),
            });
        }
        if let Some((staged, _)) = self.running.front() {
            self.harvester.begin(self.device.now_ns(), *staged, TIMEOUT);
        }
        true
    }
}

impl Ended {
    #[inline]
    pub(crate) fn is_success(self) -> bool {
        self.status.is_success()
    }
}
