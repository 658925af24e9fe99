//! From notification records to the status of an execution.
//!
//! Driven by the compute engine on the worker thread, one step at a time; a step never blocks.
//! Rules: spec `xu.md` section 6.
//!
//! ```text
//!  begin        step ...                         step ...
//!  -----> WaitBarrier ---- barrier clear -------> WaitCore ---- all engines complete ---> Done
//!           | warns, never fails                   | per engine: START_PENDING -> END_PENDING -> COMPLETE
//!           '                                      '-- out of order, unexpected, overflow, timeout --> Fatal
//! ```
//!
//! Records carry no request id, so order is everything: an engine's queue is not read past the END of the
//! execution at hand (what follows belongs to the next one), and error records are told apart by their
//! time stamp.
//! The deadline runs from the moment the barrier is clear, and is judged only after a sweep that found
//! every ring empty: what is already in a ring is never reported as a timeout.

use crate::device::{Clock, Device, DeviceError};
use crate::map;
use crate::nq::NqReader;
use crate::stage::Staged;
use core::time::Duration;
use std::sync::Arc;
use xu_abi::device::ERROR_NQ;
use xu_abi::record::{Custom, ErrorKind, Subtype};
use xu_abi::{Engine, ErrorRecord, Status, StatusRecord, TpbIndex};

/// Records read per engine and sweep.
const SWEEP: usize = 16;
/// Records of each status ring. An engine posts few per execution, and they are read as they come.
const NQ_ENTRIES: u32 = 256;
/// Records of the error ring, which is read at the end of an execution only: five for each of the most
/// executions that a queue takes, with room for those that are not acknowledged yet.
const ERROR_NQ_ENTRIES: u32 = 512;
/// Sweeps that read a whole ring: a device that posts without end must not put its deadline off for ever.
const OVERDUE_SWEEPS: u32 = NQ_ENTRIES / SWEEP as u32;
/// First wait after which a collectives barrier is worth a warning; doubles each time.
const BARRIER_WARNING: Duration = Duration::from_secs(120);
/// From this generation on, custom records of one engine carry another tag.
const RETAGGING_ARCH: u8 = 3;

/// What one step found.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Still running.
    Continue,
    /// Complete; the unit stays usable whatever the status.
    Done(Report),
    /// Complete, and the unit must take no more work.
    Fatal(Report, Fault),
}

/// What a finished execution reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The status, resolved over all cores.
    pub status: Status,
    /// Start of the first engine, monotonic host nanoseconds; `None` when none started.
    pub started_ns: Option<u64>,
    /// End of the last engine, monotonic host nanoseconds; `None` when none ended.
    pub ended_ns: Option<u64>,
}

impl Report {
    /// How long the device was busy, when both ends are known.
    #[must_use]
    pub fn device_time(&self) -> Option<Duration> {
        let (start, end) = (self.started_ns?, self.ended_ns?);
        Some(Duration::from_nanos(end.saturating_sub(start)))
    }
}

/// Why an execution ended its unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Not every engine finished in time.
    #[error(
        "core {tpb} did not finish within {limit:?}: {pending} of 5 engines pending, first {first}"
    )]
    Timeout {
        /// The first core with a pending engine.
        tpb: TpbIndex,
        /// The limit.
        limit: Duration,
        /// Engines that have not ended.
        pending: usize,
        /// The first of them.
        first: Engine,
    },
    /// Notification records were lost.
    #[error("core {tpb} lost notification records: a queue overflowed")]
    Overflow {
        /// The core.
        tpb: TpbIndex,
    },
    /// START or END came where it does not belong.
    #[error("core {tpb} {engine}: {subtype:?} out of order")]
    OutOfOrder {
        /// The core.
        tpb: TpbIndex,
        /// The engine.
        engine: Engine,
        /// What came.
        subtype: Subtype,
    },
    /// A record that means nothing on a status ring.
    #[error(
        "core {tpb} {engine}: unexpected record {subtype:?}, sub-id {sub_id}, debug hint {hint}, tag {tag}"
    )]
    Unexpected {
        /// The core.
        tpb: TpbIndex,
        /// The engine.
        engine: Engine,
        /// Its subtype.
        subtype: Subtype,
        /// Its custom sub-id.
        sub_id: u16,
        /// Its debug hint.
        hint: u8,
        /// Its queue tag.
        tag: u8,
    },
    /// The hardware reported an error that ends the unit.
    #[error("core {tpb} reported {status}")]
    Hardware {
        /// The core.
        tpb: TpbIndex,
        /// What the error means.
        status: Status,
    },
    /// The device did not answer a read.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EngineState {
    StartPending,
    EndPending,
    Complete,
}

#[derive(Debug)]
enum State {
    Idle,
    WaitBarrier { since_ns: u64, warn_after: Duration },
    WaitCore { since_ns: u64 },
}

/// The harvester of one compute unit. It serves one execution at a time.
#[derive(Debug)]
pub struct Harvester {
    device: Arc<dyn Device>,
    clock: Clock,
    arch: u8,
    cores: Vec<CoreQueues>,
    state: State,
    timeout: Option<Duration>,
    /// Sweeps since the time limit that found something all the same.
    overdue_sweeps: u32,
    barrier_warnings: u64,
}

#[derive(Debug)]
struct CoreQueues {
    tpb: TpbIndex,
    status: [NqReader; 5],
    errors: NqReader,
    /// An error record that belongs to the next execution.
    held_back: Option<ErrorRecord>,
    /// The collectives barrier that the execution waits for.
    barrier: Option<u32>,
    engines: [EngineState; 5],
    first_start: Option<u64>,
    last_end: Option<u64>,
    outcome: Status,
    /// The strongest status that ends the unit; another one may outrank it in `outcome`.
    ending: Option<Status>,
    /// What was noted first.
    reason: Option<String>,
}

impl Harvester {
    /// Opens the status and error queues of every core in `tpbs`.
    ///
    /// # Errors
    /// As [`NqReader::open`].
    pub fn open(device: &Arc<dyn Device>, tpbs: &[TpbIndex]) -> Result<Self, DeviceError> {
        let cores = tpbs
            .iter()
            .map(|&tpb| CoreQueues::open(device, tpb))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            device: Arc::clone(device),
            clock: device.clock(),
            arch: device.shape().arch,
            cores,
            state: State::Idle,
            timeout: None,
            overdue_sweeps: 0,
            barrier_warnings: 0,
        })
    }

    /// Takes up the execution at the head of the queue. `timeout` of `None` waits for ever.
    pub fn begin(&mut self, now_ns: u64, staged: Staged, timeout: Option<Duration>) {
        for (core, barrier) in self.cores.iter_mut().zip(staged.barriers) {
            core.barrier = barrier;
            core.engines = [EngineState::StartPending; 5];
            core.first_start = None;
            core.last_end = None;
            core.outcome = Status::SUCCESS;
            core.ending = None;
            core.reason = None;
        }
        self.timeout = timeout;
        self.overdue_sweeps = 0;
        self.state = State::WaitBarrier {
            since_ns: now_ns,
            warn_after: BARRIER_WARNING,
        };
    }

    /// How often a collectives barrier has outlasted its warning threshold.
    #[must_use]
    pub fn barrier_warnings(&self) -> u64 {
        self.barrier_warnings
    }

    /// What the device said first about why the last execution did not succeed, for people.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.cores.iter().find_map(|core| core.reason.as_deref())
    }

    /// Looks once at what the device has to say. `now_ns` is monotonic host time.
    pub fn step(&mut self, now_ns: u64) -> Progress {
        match self.advance(now_ns) {
            Ok(false) => Progress::Continue,
            Ok(true) => self.finish(None),
            Err(fault) => self.finish(Some(fault)),
        }
    }

    fn advance(&mut self, now_ns: u64) -> Result<bool, Fault> {
        if let State::WaitBarrier {
            since_ns,
            warn_after,
        } = self.state
        {
            if !self.barrier_clear()? {
                if elapsed(since_ns, now_ns) >= warn_after {
                    self.barrier_warnings += 1;
                    self.state = State::WaitBarrier {
                        since_ns,
                        warn_after: warn_after * 2,
                    };
                }
                return Ok(false);
            }
            self.state = State::WaitCore { since_ns: now_ns };
        }
        let State::WaitCore { since_ns } = self.state else {
            return Ok(false);
        };
        let mut read = 0;
        for core in &mut self.cores {
            read += core.sweep(self.device.as_ref(), self.arch)?;
        }
        if self.cores.iter().all(CoreQueues::is_complete) {
            return Ok(true);
        }
        if read == 0 {
            // The next step may be long in coming.
            for core in &mut self.cores {
                core.acknowledge()?;
            }
        }
        match self.timeout {
            Some(limit) if elapsed(since_ns, now_ns) >= limit => {
                self.overdue_sweeps += 1;
                // What was in a ring when time ran out has been read by the last of these sweeps.
                if read == 0 || self.overdue_sweeps > OVERDUE_SWEEPS {
                    Err(self.timed_out(limit)?)
                } else {
                    Ok(false)
                }
            }
            _ => Ok(false),
        }
    }

    fn barrier_clear(&self) -> Result<bool, DeviceError> {
        for core in &self.cores {
            let Some(barrier) = core.barrier else {
                continue;
            };
            let semaphore = map::COLLECTIVES_BARRIER;
            let passed = self.device.read_semaphore(core.tpb, semaphore)?;
            // CAST: both count modulo 2^32; the sign of the distance says which one is ahead.
            if (passed as u32).wrapping_sub(barrier) as i32 >= 0 {
                continue;
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// A missing END means either a slow device or a lost record: the cause register tells.
    fn timed_out(&self, limit: Duration) -> Result<Fault, Fault> {
        let unfinished = || self.cores.iter().filter(|core| !core.is_complete());
        for core in unfinished() {
            if self.device.overflow_latched(core.tpb)? {
                return Ok(Fault::Overflow { tpb: core.tpb });
            }
        }
        for core in unfinished() {
            let pending = |engine: &&Engine| core.engines[engine.index()] != EngineState::Complete;
            let mut engines = Engine::ALL.iter().filter(pending);
            if let Some(&first) = engines.next() {
                return Ok(Fault::Timeout {
                    tpb: core.tpb,
                    limit,
                    pending: 1 + engines.count(),
                    first,
                });
            }
        }
        Ok(Fault::Device(DeviceError::Lost))
    }

    /// A request queue that has stopped fails every later execution too: that is the unit's end, not this
    /// execution's alone.
    fn dead_queue(&self) -> Option<Fault> {
        self.cores
            .iter()
            .find_map(|core| self.device.check_dma(map::model_exec_queue(core.tpb)).err())
            .map(Fault::Device)
    }

    /// Sweeps the error rings, resolves the cores' statuses and decides whether the unit can go on.
    fn finish(&mut self, fault: Option<Fault>) -> Progress {
        self.state = State::Idle;
        let mut fault = fault;
        let mut ending: Option<(TpbIndex, Status)> = None;
        let mut report = Report::default();
        for core in &mut self.cores {
            if let Err(lost) = core.sweep_errors() {
                fault = fault.or(Some(lost));
            }
            report.status = report.status.resolve(core.outcome);
            report.started_ns = earliest(report.started_ns, core.first_start);
            report.ended_ns = report.ended_ns.max(core.last_end);
            if let Some(status) = core.ending
                && ending.is_none_or(|(_, other)| status.priority() > other.priority())
            {
                ending = Some((core.tpb, status));
            }
        }
        let mut fault = fault.or(ending.map(|(tpb, status)| Fault::Hardware { tpb, status }));
        if fault.is_none() && !report.status.is_success() {
            fault = self.dead_queue();
        }
        report.started_ns = report.started_ns.map(|ticks| self.clock.to_host_ns(ticks));
        report.ended_ns = report.ended_ns.map(|ticks| self.clock.to_host_ns(ticks));
        match fault {
            None => Progress::Done(report),
            Some(fault) => {
                // The verdict stands: a timeout is not renamed by what the error ring says.
                report.status = fault_status(&fault);
                Progress::Fatal(report, fault)
            }
        }
    }
}

impl CoreQueues {
    fn open(device: &Arc<dyn Device>, tpb: TpbIndex) -> Result<Self, DeviceError> {
        let open = |nq| NqReader::open(device, tpb, nq, NQ_ENTRIES);
        let errors = NqReader::open(device, tpb, ERROR_NQ, ERROR_NQ_ENTRIES)?;
        let [pe, act, pool, dve, sp] = Engine::ALL.map(|engine| open(engine.status_nq()));
        Ok(Self {
            tpb,
            status: [pe?, act?, pool?, dve?, sp?],
            errors,
            held_back: None,
            barrier: None,
            engines: [EngineState::Complete; 5],
            first_start: None,
            last_end: None,
            outcome: Status::SUCCESS,
            ending: None,
            reason: None,
        })
    }

    fn is_complete(&self) -> bool {
        self.engines
            .iter()
            .all(|engine| *engine == EngineState::Complete)
    }

    /// Reads up to [`SWEEP`] records of each engine that has not ended; returns how many there were.
    fn sweep(&mut self, device: &dyn Device, arch: u8) -> Result<usize, Fault> {
        let mut read = 0;
        for engine in Engine::ALL {
            for _ in 0..SWEEP {
                if self.engines[engine.index()] == EngineState::Complete {
                    break;
                }
                let Some(bytes) = self.status[engine.index()].next_record()? else {
                    break;
                };
                read += 1;
                self.apply(device, arch, engine, &decode_status(&bytes))?;
            }
            if self.status[engine.index()].take_overflow_seen() {
                return Err(Fault::Overflow { tpb: self.tpb });
            }
        }
        Ok(read)
    }

    fn apply(
        &mut self,
        device: &dyn Device,
        arch: u8,
        engine: Engine,
        record: &StatusRecord,
    ) -> Result<(), Fault> {
        let tpb = self.tpb;
        let subtype = record.subtype();
        let unexpected = Fault::Unexpected {
            tpb,
            engine,
            subtype,
            sub_id: record.custom_sub_id.get(),
            hint: record.debug_hint(),
            tag: effective_tag(record, arch, engine),
        };
        if record.debug_hint() > 1 {
            return Err(unexpected);
        }
        let at = record.device_ts.get();
        let state = &mut self.engines[engine.index()];
        match (subtype, *state) {
            (Subtype::Start, EngineState::StartPending) => {
                *state = EngineState::EndPending;
                self.first_start = earliest(self.first_start, Some(at));
            }
            (Subtype::End, EngineState::EndPending) => {
                *state = EngineState::Complete;
                self.last_end = self.last_end.max(Some(at));
            }
            (Subtype::Start | Subtype::End, _) => {
                return Err(if device.overflow_latched(tpb)? {
                    Fault::Overflow { tpb }
                } else {
                    Fault::OutOfOrder {
                        tpb,
                        engine,
                        subtype,
                    }
                });
            }
            // Without collectives nothing uses their times yet.
            (Subtype::CcStart | Subtype::CcEnd, _) => {}
            (Subtype::Custom, _) => match record.custom() {
                Custom::OutOfBounds(_) => self.note(Status::EXEC_OOB, || {
                    let line = record.isa_line();
                    format!("core {tpb} {engine}: out of bounds at instruction {line}")
                }),
                Custom::DebugValue | Custom::TensorDone | Custom::TensorRead => {}
                Custom::Unknown(_) => {
                    return Err(Fault::Hardware {
                        tpb,
                        status: Status::HW_ERROR,
                    });
                }
            },
            (Subtype::Unexpected(_), _) => return Err(unexpected),
        }
        Ok(())
    }

    fn note(&mut self, status: Status, reason: impl FnOnce() -> String) {
        if !status.is_success() {
            self.reason.get_or_insert_with(reason);
        }
        self.outcome = self.outcome.resolve(status);
        if ends_the_unit(status) {
            self.ending = Some(self.ending.map_or(status, |other| other.resolve(status)));
        }
    }

    /// Gives back what was read of every ring.
    fn acknowledge(&mut self) -> Result<(), DeviceError> {
        for queue in &mut self.status {
            queue.acknowledge()?;
        }
        self.errors.acknowledge()
    }

    /// Notes what the error records of this execution amount to: at most a ring of them, so that a device that
    /// never stops reporting does not hold the step.
    ///
    /// Executions of a core do not overlap, so a record later than the last END is the next one's: it is
    /// held back. Without an END everything counts.
    fn sweep_errors(&mut self) -> Result<(), Fault> {
        for _ in 0..ERROR_NQ_ENTRIES {
            let next = match self.held_back.take() {
                Some(record) => Some(record),
                None => self.errors.next_record()?.map(|bytes| decode_error(&bytes)),
            };
            let Some(record) = next else {
                break;
            };
            if self.is_complete() && Some(record.device_ts.get()) > self.last_end {
                self.held_back = Some(record);
                break;
            }
            let tpb = self.tpb;
            self.note(error_status(record.kind()), || {
                format!(
                    "core {tpb}: {:?} error, detail mask {:#x}",
                    record.kind(),
                    record.mask.get()
                )
            });
        }
        // A lost error record would turn a failure into a success.
        if self.errors.take_overflow_seen() {
            return Err(Fault::Overflow { tpb: self.tpb });
        }
        Ok(())
    }
}

fn decode_status(bytes: &[u8; 16]) -> StatusRecord {
    zerocopy::transmute!(*bytes)
}

fn decode_error(bytes: &[u8; 16]) -> ErrorRecord {
    zerocopy::transmute!(*bytes)
}

/// The tag by which a record is decoded: on later generations one engine's custom records carry another.
fn effective_tag(record: &StatusRecord, arch: u8, engine: Engine) -> u8 {
    let custom = record.subtype() == Subtype::Custom;
    if arch >= RETAGGING_ARCH && engine == map::RETAGGED_ENGINE && custom {
        map::RETAGGED_NQ_ID
    } else {
        record.nq_id_tag()
    }
}

fn error_status(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::Transient | ErrorKind::SoftwareSequencer => Status::EXEC_COMPLETED_WITH_ERR,
        ErrorKind::Numerical => Status::EXEC_COMPLETED_WITH_NUM_ERR,
        ErrorKind::EccUncorrectable => Status::EXEC_HW_ERR_NC_UE,
        ErrorKind::EccCorrectable => Status::SUCCESS,
        // An error that we cannot name is an error of the hardware all the same.
        ErrorKind::Unknown(_) => Status::HW_ERROR,
    }
}

/// Spec `xu.md` section 6, ruling: completed-with-error results leave the unit usable.
fn ends_the_unit(status: Status) -> bool {
    !matches!(
        status,
        Status::SUCCESS
            | Status::EXEC_COMPLETED_WITH_NUM_ERR
            | Status::EXEC_COMPLETED_WITH_ERR
            | Status::EXEC_OOB
    )
}

fn fault_status(fault: &Fault) -> Status {
    match fault {
        Fault::Timeout { .. } => Status::TIMEOUT,
        Fault::Overflow { .. } => Status::EXEC_SW_NQ_OVERFLOW,
        Fault::OutOfOrder { .. } | Fault::Unexpected { .. } => Status::FAILURE,
        Fault::Hardware { status, .. } => *status,
        Fault::Device(error) => error.status_in_flight(),
    }
}

fn earliest(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn elapsed(since_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(since_ns))
}
