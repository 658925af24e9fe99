//! One core as the harvester sees it: five status rings, an error ring, and how far the execution at hand is.
//!
//! Swept by the harvester. A sweep reads at most 16 records of each engine, and never past an engine's END: what
//! follows belongs to the next execution.

use super::error_ring::ErrorRing;
use super::matcher::{Effect, EngineState, Mismatch, match_record};
use super::observer::Observer;
use super::report::{Reason, Stamps, earliest};
use super::verdict::{Fault, Verdict, error_status, memory_status};
use crate::device::{Device, DeviceError, Head, MemoryErrors};
use crate::map;
use crate::nq::{Mode, NqReader};
use core::time::Duration;
use std::sync::Arc;
use xu_abi::record::Subtype;
use xu_abi::{Engine, Status, StatusRecord, TpbIndex};

/// Records read per engine and sweep.
pub(super) const SWEEP: u32 = 16;
/// Records of each status ring. An engine posts few per execution, and they are read as they come.
pub(super) const NQ_ENTRIES: u32 = 256;

/// Five status rings and one of errors.
const RINGS: usize = 6;

/// One core of a harvester.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) tpb: TpbIndex,
    status: [NqReader; 5],
    errors: ErrorRing,
    /// What the barrier semaphore said when the harvester was opened.
    barrier_base: u32,
    /// What the counters of memory errors said when they were last read.
    memory_errors: MemoryErrors,
    pub(super) execution: Execution,
}

/// The execution at hand, as far as this core has told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Execution {
    /// The collectives barrier that it waits for.
    barrier: Option<u32>,
    engines: [EngineState; 5],
    pub(super) stamps: Stamps,
    /// What custom records amount to.
    status: Status,
    /// What was noted first.
    pub(super) reason: Option<Reason>,
}

impl Execution {
    /// An execution whose engines all have to start.
    pub(super) fn begun(barrier: Option<u32>) -> Self {
        Self {
            barrier,
            engines: [EngineState::StartPending; 5],
            ..Self::default()
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        let is_complete = |state: &EngineState| *state == EngineState::Complete;
        self.engines.iter().all(is_complete)
    }

    /// The engines that have not ended: those that have started, and those that have not.
    pub(super) fn pending(&self) -> (Vec<Engine>, Vec<Engine>) {
        let in_state = |state: EngineState| {
            // PANIC: there are five engines.
            let is_in = |engine: &Engine| self.engines[engine.index()] == state;
            Engine::ALL.into_iter().filter(is_in).collect()
        };
        (
            in_state(EngineState::EndPending),
            in_state(EngineState::StartPending),
        )
    }

    fn apply(
        &mut self,
        tpb: TpbIndex,
        engine: Engine,
        effect: Effect,
        at: u64,
        observer: &mut dyn Observer,
    ) {
        let stamps = &mut self.stamps;
        match effect {
            Effect::Started => stamps.first_start = earliest(stamps.first_start, Some(at)),
            Effect::Ended => stamps.last_end = stamps.last_end.max(Some(at)),
            Effect::CollectivesStarted => {
                stamps.first_cc_start = earliest(stamps.first_cc_start, Some(at));
            }
            Effect::CollectivesEnded => stamps.last_cc_end = stamps.last_cc_end.max(Some(at)),
            Effect::OutOfBounds { line } => {
                self.status = self.status.resolve(Status::EXEC_OOB);
                self.reason
                    .get_or_insert(Reason::OutOfBounds { tpb, engine, line });
            }
            Effect::DebugValue { value } => observer.debug_value(tpb, engine, value),
            Effect::TensorDone { id } => observer.tensor_done(tpb, engine, id),
            Effect::TensorRead { id } => observer.tensor_read(tpb, engine, id),
        }
    }
}

impl Core {
    pub(super) fn open(
        mode: Mode,
        device: &Arc<dyn Device>,
        tpb: TpbIndex,
    ) -> Result<Self, DeviceError> {
        let open = |nq| NqReader::open(device, tpb, nq, NQ_ENTRIES, mode);
        let errors = ErrorRing::open(mode, device, tpb)?;
        let [pe, act, pool, dve, sp] = Engine::ALL.map(|engine| open(engine.status_nq()));
        let barriers = device.read_semaphore(tpb, map::COLLECTIVES_BARRIER)?;
        Ok(Self {
            tpb,
            status: [pe?, act?, pool?, dve?, sp?],
            errors,
            // CAST: a count modulo 2^32.
            barrier_base: barriers as u32,
            memory_errors: device.memory_errors(tpb)?,
            execution: Execution::default(),
        })
    }

    /// Whether the barrier of the execution holds this core back no more: it has passed it, or an engine has something to
    /// say all the same, as after a request that the core has given up.
    pub(super) fn barrier_over(&mut self, device: &dyn Device) -> Result<bool, Fault> {
        let Some(barrier) = self.execution.barrier else {
            return Ok(true);
        };
        let count = device.read_semaphore(self.tpb, map::COLLECTIVES_BARRIER)?;
        // CAST: all three count modulo 2^32; the sign of the distance says which one is ahead.
        let passed = (count as u32).wrapping_sub(self.barrier_base);
        Ok(passed.wrapping_sub(barrier) as i32 >= 0 || self.an_engine_has_begun()?)
    }

    /// Whether the next record of some engine is one that comes after the barrier only.
    fn an_engine_has_begun(&mut self) -> Result<bool, Fault> {
        for queue in &mut self.status {
            if let Some(bytes) = queue.peek_record()? {
                let record: StatusRecord = zerocopy::transmute!(bytes);
                if !matches!(record.subtype(), Subtype::CcStart | Subtype::CcEnd) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Fails when the request queue has stopped: then the core will never pass its barrier. Slow, so asked seldom.
    pub(super) fn check_request_queue(
        &self,
        device: &dyn Device,
        observer: &mut dyn Observer,
    ) -> Result<(), DeviceError> {
        match device.check_dma(map::model_exec_queue(self.tpb)) {
            Err(error) if !is_end_of_unit(&error) => {
                observer.unanswered(self.tpb, &error);
                Ok(())
            }
            answer => answer,
        }
    }

    /// A question after the event that the device did not answer. Only a device that is gone or a queue that has stopped
    /// says something about the execution; a call that failed for a reason of its own does not.
    fn ask_in_vain(&self, error: DeviceError, verdict: &mut Verdict, observer: &mut dyn Observer) {
        if is_end_of_unit(&error) {
            verdict.end(error.into());
        } else {
            observer.unanswered(self.tpb, &error);
        }
    }

    /// Reads up to [`SWEEP`] records of each engine that has not ended; returns how many there were.
    pub(super) fn sweep(
        &mut self,
        device: &dyn Device,
        arch: u8,
        observer: &mut dyn Observer,
    ) -> Result<u32, Fault> {
        let mut read = 0;
        for engine in Engine::ALL {
            read += self.sweep_engine(device, arch, engine, observer)?;
        }
        Ok(read)
    }

    fn sweep_engine(
        &mut self,
        device: &dyn Device,
        arch: u8,
        engine: Engine,
        observer: &mut dyn Observer,
    ) -> Result<u32, Fault> {
        // PANIC: there are five engines.
        let queue = &mut self.status[engine.index()];
        for read in 0..SWEEP {
            let state = self.execution.engines[engine.index()];
            if state == EngineState::Complete {
                return Ok(read);
            }
            let Some(bytes) = queue.next_record()? else {
                return Ok(read);
            };
            if queue.take_overflow_seen() {
                return Err(Fault::Overflow { tpb: self.tpb });
            }
            let record: StatusRecord = zerocopy::transmute!(bytes);
            match match_record(state, engine, arch, record) {
                Ok((next, effect)) => {
                    self.execution.engines[engine.index()] = next;
                    let at = record.device_ts.get();
                    self.execution.apply(self.tpb, engine, effect, at, observer);
                }
                Err(mismatch) => {
                    // The one place besides the deadline where the bit is looked at.
                    let overflow = matches!(mismatch, Mismatch::OutOfOrder(_))
                        && device.overflow_latched(self.tpb)?;
                    return Err(Fault::of_mismatch(self.tpb, engine, mismatch, overflow));
                }
            }
        }
        Ok(SWEEP)
    }

    /// Gives back what was read of every ring, in one call.
    pub(super) fn acknowledge(&mut self, device: &dyn Device) -> Result<(), DeviceError> {
        let mut heads = [Head::default(); RINGS];
        let mut told = 0;
        for (place, head) in heads
            .iter_mut()
            .zip(self.readers().filter_map(|reader| reader.unacknowledged()))
        {
            *place = head;
            told += 1;
        }
        if told == 0 {
            return Ok(());
        }
        // PANIC: as many as there are places, at most.
        device.acknowledge(self.tpb, &heads[..told])?;
        self.readers().for_each(NqReader::acknowledged);
        Ok(())
    }

    fn readers(&mut self) -> impl Iterator<Item = &mut NqReader> {
        self.status.iter_mut().chain([self.errors.reader()])
    }

    /// Why this core is late. A missing END means either a slow device or a lost record: the cause register tells.
    pub(super) fn overflowed(&self, device: &dyn Device) -> Result<bool, DeviceError> {
        Ok(!self.execution.is_complete() && device.overflow_latched(self.tpb)?)
    }

    /// Adds what custom records and the error ring amount to. After an execution without END every error counts.
    pub(super) fn sweep_errors(
        &mut self,
        device: &dyn Device,
        verdict: &mut Verdict,
        observer: &mut dyn Observer,
    ) {
        let (tpb, execution) = (self.tpb, &mut self.execution);
        verdict.note(tpb, execution.status);
        let complete = execution.is_complete();
        let last_end = execution.stamps.last_end.filter(|_| complete);
        // The clock is read only for a record that would be held back.
        let is_future = |stamp| device.clock().is_future(stamp);
        let swept = self.errors.sweep(last_end, is_future, |kind, mask| {
            observer.device_error(tpb, kind, mask);
            let status = error_status(kind);
            verdict.note(tpb, status);
            if !status.is_success() {
                let error = Reason::Error { tpb, kind, mask };
                execution.reason.get_or_insert(error);
            }
        });
        if let Err(fault) = swept {
            verdict.end(fault);
        }
    }

    /// Adds what the hardware has counted since the last look, and whether the request queue has stopped. Slow, so only
    /// after an execution that did not succeed.
    pub(super) fn inquire(
        &mut self,
        device: &dyn Device,
        verdict: &mut Verdict,
        observer: &mut dyn Observer,
    ) {
        match device.memory_errors(self.tpb) {
            Ok(now) => self.compare_memory_errors(now, verdict),
            Err(error) => self.ask_in_vain(error, verdict, observer),
        }
        // A request queue that has stopped fails every later execution too.
        if let Err(error) = device.check_dma(map::model_exec_queue(self.tpb)) {
            self.ask_in_vain(error, verdict, observer);
        }
    }

    fn compare_memory_errors(&mut self, now: MemoryErrors, verdict: &mut Verdict) {
        let before = core::mem::replace(&mut self.memory_errors, now);
        let status = memory_status(before, now);
        verdict.note(self.tpb, status);
        if !status.is_success() {
            let risen = MemoryErrors {
                sram: now.sram.saturating_sub(before.sram),
                hbm: now.hbm.saturating_sub(before.hbm),
                hbm_repairable: now.hbm_repairable.saturating_sub(before.hbm_repairable),
            };
            let tpb = self.tpb;
            let memory = Reason::Memory { tpb, risen };
            self.execution.reason.get_or_insert(memory);
        }
    }

    /// Reads what has come after the verdict, at most a ring of each engine, and returns how much there was.
    pub(super) fn discard(&mut self) -> u64 {
        let mut discarded = 0;
        for queue in &mut self.status {
            for _ in 0..NQ_ENTRIES {
                // The unit is over: a queue that cannot be read has nothing more to say.
                let Ok(Some(_)) = queue.next_record() else {
                    break;
                };
                discarded += 1;
            }
            let _ = queue.acknowledge();
        }
        discarded
    }
}

/// Time from one reading of the monotonic clock to another, zero if they are in the wrong order.
pub(super) fn elapsed(since_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(since_ns))
}

/// Whether nothing can run any more, whatever was asked.
fn is_end_of_unit(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Lost | DeviceError::DmaAborted { .. })
}
