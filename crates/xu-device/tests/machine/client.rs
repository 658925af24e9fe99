//! A client of a device that writes its own bytes: rings, readers, requests, and small programs.
//!
//! The tests of the simulated machine and those on both machines, in `tests/tests/device`, have it in common.
#![allow(
    dead_code,
    reason = "every test crate includes this file and uses a part of it"
)]

use core::time::Duration;
use std::sync::Arc;
use xu_abi::descriptor::{CopyPair, DESCRIPTOR_SIZE};
use xu_abi::device::ERROR_NQ;
use xu_abi::record::{ErrorKind, RECORD_SIZE, Subtype, ring_bits};
use xu_abi::{
    DeviceAddr, Engine, ErrorRecord, ExecRequest, RequestBuffer, RingId, SemIndex, StatusRecord,
    TpbIndex,
};
use xu_device::simulated::Machine;
use xu_device::simulated::isa::{Instruction, Opcode, Operand};
use xu_device::{Device, DeviceError, DmaQueue, Head, Place, map};
use zerocopy::little_endian::U32;
use zerocopy::{IntoBytes, transmute};

pub(crate) const CORE: TpbIndex = TpbIndex::new(0);
pub(crate) const SEMAPHORE: SemIndex = SemIndex::new(20);
pub(crate) const DESCRIPTORS: u32 = 32;
/// Far more than any execution here needs, far less than for ever.
pub(crate) const PATIENCE: u32 = 20_000_000;
/// Nothing is there on any device.
pub(crate) const NOWHERE: DeviceAddr = DeviceAddr::new(1 << 62);

/// The instructions of each engine, in engine order.
pub(crate) type Code = [Vec<Instruction>; 5];

/// A pair of rings as a client fills them.
pub(crate) struct Rings {
    pub(crate) queue: DmaQueue,
    pub(crate) tx: DeviceAddr,
    pub(crate) rx: DeviceAddr,
    pub(crate) index: u32,
    pub(crate) ring_id: RingId,
}

/// A notification queue as a client reads it.
pub(crate) struct Reader {
    pub(crate) nq: u8,
    pub(crate) base: DeviceAddr,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
    pub(crate) phase: bool,
}

/// A client of one core.
pub(crate) struct Client<D: ?Sized = Machine> {
    pub(crate) machine: Arc<D>,
    pub(crate) tpb: TpbIndex,
    pub(crate) rings: Rings,
    pub(crate) constants: DeviceAddr,
    pub(crate) status: [Reader; 5],
    pub(crate) errors: Reader,
}

/// What one execution has posted.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) status: [Vec<StatusRecord>; 5],
    pub(crate) errors: Vec<ErrorRecord>,
}

/// The four copies of an execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Request,
    Event,
    TxTail,
    RxTail,
}

pub(crate) const WHOLE: [Part; 4] = [Part::Request, Part::Event, Part::TxTail, Part::RxTail];

/// A device, and what a client asks beside it.
pub(crate) trait Machinery: Device {
    /// Lets everything happen that happens by itself, where time is virtual; `false` when there is no end of it.
    fn run_until_idle(&self) -> bool;

    /// How long a core may take to come to rest.
    fn patience(&self) -> Duration;
}

impl Machinery for Machine {
    fn run_until_idle(&self) -> bool {
        Self::run_until_idle(self)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// Any device, in real time.
impl Machinery for dyn Device {
    fn run_until_idle(&self) -> bool {
        true
    }

    /// Some cannot tell a core that has hung from one that is at work.
    fn patience(&self) -> Duration {
        Duration::from_millis(50)
    }
}

impl Rings {
    pub(crate) fn open<D: Device + ?Sized>(machine: &Arc<D>, queue: DmaQueue) -> Self {
        let bytes = u64::from(DESCRIPTORS) * DESCRIPTOR_SIZE;
        let tx = machine.allocate(Place::Host, bytes, 256).unwrap();
        let rx = machine.allocate(Place::Host, bytes, 256).unwrap();
        machine.open_dma_queue(queue, tx, rx, DESCRIPTORS).unwrap();
        Self {
            queue,
            tx,
            rx,
            index: 0,
            ring_id: RingId::FIRST,
        }
    }

    pub(crate) fn copy<D: Device + ?Sized>(
        &mut self,
        machine: &Arc<D>,
        from: DeviceAddr,
        to: DeviceAddr,
        len: u32,
    ) {
        self.push(machine, CopyPair::new(from, to, len, self.ring_id).unwrap());
    }

    pub(crate) fn push<D: Device + ?Sized>(&mut self, machine: &Arc<D>, pair: CopyPair) {
        let offset = u64::from(self.index) * DESCRIPTOR_SIZE;
        machine
            .write(at(self.rx, offset), pair.rx.as_bytes())
            .unwrap();
        machine
            .write(at(self.tx, offset), pair.tx.as_bytes())
            .unwrap();
        self.index += 1;
        if self.index == DESCRIPTORS {
            self.index = 0;
            self.ring_id = self.ring_id.next();
        }
    }
}

impl Reader {
    pub(crate) fn open<D: Device + ?Sized>(
        machine: &Arc<D>,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Self {
        Self {
            nq,
            base: machine.open_notification_queue(tpb, nq, bytes).unwrap(),
            bytes,
            offset: 0,
            phase: map::FIRST_PHASE,
        }
    }

    pub(crate) fn next<D: Device + ?Sized>(&mut self, machine: &Arc<D>) -> Option<[u8; 16]> {
        let at = at(self.base, self.offset);
        let word = machine.load_acquire(at).unwrap().to_le_bytes();
        if (word[3] & ring_bits::PHASE != 0) != self.phase {
            return None;
        }
        let mut record = [0; 16];
        machine.read(at, &mut record).unwrap();
        self.offset += RECORD_SIZE;
        if self.offset == self.bytes {
            self.offset = 0;
            self.phase = !self.phase;
        }
        Some(record)
    }
}

impl<D: Machinery + ?Sized> Client<D> {
    pub(crate) fn open(machine: &Arc<D>, tpb: TpbIndex, nq_bytes: u64) -> Self {
        let constants = machine.allocate(Place::Host, 12, 8).unwrap();
        machine.write(constants, [1u32, 4, 5].as_bytes()).unwrap();
        Self {
            machine: Arc::clone(machine),
            tpb,
            rings: Rings::open(machine, map::model_exec_queue(tpb)),
            constants,
            status: Engine::ALL
                .map(|engine| Reader::open(machine, tpb, engine.status_nq(), nq_bytes)),
            errors: Reader::open(machine, tpb, ERROR_NQ, 4096),
        }
    }

    pub(crate) fn place(&self, bytes: &[u8]) -> DeviceAddr {
        let place = Place::Hbm(self.tpb);
        let addr = self
            .machine
            .allocate(place, bytes.len() as u64, 64)
            .unwrap();
        self.machine.write(addr, bytes).unwrap();
        addr
    }

    pub(crate) fn floats(&self, addr: DeviceAddr, count: usize) -> Vec<f32> {
        let mut floats = vec![0.0f32; count];
        self.machine.read(addr, floats.as_mut_bytes()).unwrap();
        floats
    }

    /// Places code and returns a request that loads everything.
    pub(crate) fn request(&self, code: &Code) -> ExecRequest {
        let mut request = ExecRequest {
            do_model_switch: U32::new(1),
            reload_seq_config: U32::new(1),
            load_act_dve_tables: U32::new(1),
            ..ExecRequest::default()
        };
        for engine in Engine::ALL {
            request.set_engine_address(engine, self.place(code[engine.index()].as_bytes()));
        }
        request
    }

    pub(crate) fn arm(&mut self, request: &ExecRequest, parts: &[Part]) {
        let buffer = RequestBuffer {
            body: *request,
            cc_dma_increment: U32::ZERO,
        };
        let buffer = self.place(buffer.as_bytes());
        self.publish(buffer, parts);
    }

    /// Publishes a request buffer that has been placed.
    pub(crate) fn publish(&mut self, buffer: DeviceAddr, parts: &[Part]) {
        let increment = at(self.constants, 4);
        let (map, tpb) = (self.machine.shape().addresses, self.tpb);
        for part in parts {
            let (from, to, len) = match part {
                Part::Request => (buffer, map.sequencer_memory(tpb), 52),
                Part::Event => {
                    let event = map.event_register(tpb, map::REQUEST_LOADED);
                    (self.constants, event, 4)
                }
                Part::TxTail => (increment, map.tx_tail_increment(tpb), 4),
                Part::RxTail => (increment, map.rx_tail_increment(tpb), 4),
            };
            self.rings.copy(&self.machine, from, to, len);
        }
    }

    pub(crate) fn fire(&self) {
        self.machine
            .increment_semaphore(self.tpb, map::INFERENCE_START)
            .unwrap();
    }

    /// In virtual time, lets everything happen that happens by itself; then reads whatever has been posted.
    pub(crate) fn drain(&mut self) -> Posted {
        assert!(self.machine.run_until_idle());
        let Self {
            machine,
            tpb,
            status,
            errors,
            ..
        } = self;
        let mut posted = Posted {
            status: Default::default(),
            errors: Vec::new(),
        };
        for (reader, records) in status.iter_mut().zip(&mut posted.status) {
            while let Some(record) = reader.next(machine) {
                records.push(transmute!(record));
            }
            machine
                .acknowledge(*tpb, &[Head::new(reader.nq, reader.offset)])
                .unwrap();
        }
        while let Some(record) = errors.next(machine) {
            posted.errors.push(transmute!(record));
        }
        machine
            .acknowledge(*tpb, &[Head::new(ERROR_NQ, errors.offset)])
            .unwrap();
        posted
    }

    /// Reads records until every engine has ended, then the error queue.
    pub(crate) fn harvest(&mut self) -> Posted {
        assert!(self.machine.run_until_idle());
        let mut status: [Vec<StatusRecord>; 5] = Default::default();
        let ended = |records: &Vec<StatusRecord>| {
            records
                .last()
                .is_some_and(|record| record.subtype() == Subtype::End)
        };
        for _ in 0..PATIENCE {
            for (reader, records) in self.status.iter_mut().zip(&mut status) {
                while !ended(records)
                    && let Some(record) = reader.next(&self.machine)
                {
                    records.push(transmute!(record));
                    self.machine
                        .acknowledge(self.tpb, &[Head::new(reader.nq, reader.offset)])
                        .unwrap();
                }
            }
            if status.iter().all(ended) {
                let mut errors = Vec::new();
                while let Some(record) = self.errors.next(&self.machine) {
                    errors.push(transmute!(record));
                    self.machine
                        .acknowledge(self.tpb, &[Head::new(ERROR_NQ, self.errors.offset)])
                        .unwrap();
                }
                return Posted { status, errors };
            }
            std::thread::yield_now();
        }
        panic!("the execution does not end: {status:?}");
    }

    pub(crate) fn execute(&mut self, request: &ExecRequest) -> Posted {
        self.arm(request, &WHOLE);
        self.fire();
        self.harvest()
    }

    pub(crate) fn run(&mut self, code: &Code) -> Posted {
        let request = self.request(code);
        self.execute(&request)
    }

    /// Runs `instructions` on `engine` while the others halt at once.
    pub(crate) fn run_one(&mut self, engine: Engine, instructions: &[Instruction]) -> Posted {
        self.run(&only(engine, instructions))
    }

    pub(crate) fn assert_still_works(&mut self) {
        self.run(&halting()).assert_clean();
    }

    /// Waits until an engine has said that it has started, and leaves the record where it is.
    pub(crate) fn until_started(&self, engine: Engine) {
        let reader = &self.status[engine.index()];
        let started = || {
            std::thread::yield_now();
            self.machine.notification_tail(self.tpb, reader.nq) != Ok(reader.offset)
        };
        assert!((0..PATIENCE).any(|_| started()), "{engine} does not start");
    }

    /// The next record of an engine, once it is there.
    pub(crate) fn next_record(&mut self, engine: Engine) -> StatusRecord {
        let reader = &mut self.status[engine.index()];
        let record = (0..PATIENCE).find_map(|_| {
            std::thread::yield_now();
            reader.next(&self.machine)
        });
        transmute!(record.expect("the engine says nothing"))
    }

    pub(crate) fn assert_at_rest(&self) {
        let limit = Duration::from_secs(2);
        assert_eq!(self.machine.quiesce(self.tpb, limit), Ok(()));
    }

    pub(crate) fn assert_hangs(&self) {
        let busy = Err(DeviceError::Busy { tpb: self.tpb });
        for _ in 0..PATIENCE {
            // A core that the machine knows to have hung is busy at once.
            if self.machine.quiesce(self.tpb, self.machine.patience()) == busy {
                return;
            }
            std::thread::yield_now();
        }
        panic!("the core has come to rest");
    }
}

impl Posted {
    pub(crate) fn subtypes(&self, engine: Engine) -> Vec<Subtype> {
        self.status[engine.index()]
            .iter()
            .map(StatusRecord::subtype)
            .collect()
    }

    pub(crate) fn kinds(&self) -> Vec<ErrorKind> {
        self.errors.iter().map(ErrorRecord::kind).collect()
    }

    pub(crate) fn assert_start_and_end_only(&self) {
        for engine in Engine::ALL {
            assert_eq!(
                self.subtypes(engine),
                [Subtype::Start, Subtype::End],
                "{engine}"
            );
        }
    }

    pub(crate) fn assert_clean(&self) {
        self.assert_start_and_end_only();
        assert_eq!(self.errors, []);
    }

    pub(crate) fn assert_sequencer_error(&self) {
        self.assert_start_and_end_only();
        assert_eq!(self.kinds(), [ErrorKind::SoftwareSequencer]);
        let last_end = self
            .status
            .iter()
            .flatten()
            .map(|record| record.device_ts.get())
            .max();
        assert!(Some(self.errors[0].device_ts.get()) < last_end);
    }

    /// All records of the status queues in the order of their stamps: engine and subtype.
    pub(crate) fn order(&self) -> Vec<(usize, u16)> {
        let mut records: Vec<_> = (0..5)
            .flat_map(|engine| {
                self.status[engine]
                    .iter()
                    .map(move |record| (engine, record))
            })
            .collect();
        records.sort_by_key(|(_, record)| record.device_ts.get());
        records
            .iter()
            .map(|(engine, record)| (*engine, record.subtype.get()))
            .collect()
    }
}

pub(crate) fn at(addr: DeviceAddr, offset: u64) -> DeviceAddr {
    addr.checked_add(offset).unwrap()
}

pub(crate) fn halting() -> Code {
    Engine::ALL.map(|engine| vec![Instruction::halt(engine)])
}

pub(crate) fn only(engine: Engine, instructions: &[Instruction]) -> Code {
    let mut code = halting();
    code[engine.index()] = instructions.to_vec();
    code
}

pub(crate) fn fixed(addr: DeviceAddr) -> Operand {
    Operand::Address(addr)
}

/// `out = opcode(a, b)` on `rows` by `cols`.
pub(crate) fn instruction(
    engine: Engine,
    opcode: Opcode,
    (rows, cols): (u32, u32),
    [a, b, out]: [DeviceAddr; 3],
) -> Instruction {
    Instruction::new(engine, opcode)
        .shape(rows, cols)
        .operands(fixed(a), fixed(b), fixed(out))
}
