//! A client of core 0 of a v2 device, by hand: rings, descriptors, requests and doorbells, each by its own system call.
//!
//! It waits for nothing that it has not asked the device about, and gives space back only when a test says so.

use crate::node::{Node, address_of};
use std::array;
use std::thread;
use xu_abi::descriptor::CopyPair;
use xu_abi::device::ERROR_NQ;
use xu_abi::driver::errno::Answer::Done;
use xu_abi::driver::nq_register::{NQ_HEAD, NQ_STRIDE};
use xu_abi::driver::unverified::{NQ_ENABLE, NQ_TAIL};
use xu_abi::driver::{
    Arch, BarRw, DmaCopyDescriptors64, DmaQueueGetState, DmaQueueInit, DmaQueueState,
    NotificationsInitWithReallocV2, NqType, Semaphore, ioctl as row,
};
use xu_abi::record::{Subtype, ring_bits};
use xu_abi::{DeviceAddr, Engine, ExecRequest, RequestBuffer, RingId, StatusRecord, TpbIndex};
use xu_device::map::{self, AddressMap};
use xu_device::simulated::isa::Instruction;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of each notification ring: 64 records.
pub(crate) const RING: u32 = 1024;
pub(crate) const RECORD: u32 = 16;
const RECORDS: u32 = RING / RECORD;
/// Descriptors of the rings of the queue that brings requests.
const DESCRIPTORS: u32 = 64;
const PAGE: u64 = 4096;
/// The notification block of core 0.
pub(crate) const BLOCK: u64 = 0x3053_5000;
const TPB: TpbIndex = TpbIndex::new(0);
/// Each has a queue of its own.
pub(crate) const ENGINES: usize = 5;
/// The queue of errors, behind those of engines.
pub(crate) const ERRORS: usize = ENGINES;
pub(crate) const QUEUES: usize = ENGINES + 1;
/// A doorbell is followed by its records long before the device was asked so often.
pub(crate) const PATIENCE: u32 = 300_000;

/// The hardware queue of each of [`QUEUES`].
pub(crate) fn queues() -> [u8; QUEUES] {
    array::from_fn(|queue| match Engine::ALL.get(queue) {
        Some(engine) => engine.status_nq(),
        None => ERROR_NQ,
    })
}

/// What brings a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Request,
    Event,
    TxTail,
    RxTail,
}

/// As the device wants them.
pub(crate) const IN_ORDER: [Part; 4] = [Part::Request, Part::Event, Part::TxTail, Part::RxTail];

/// One notification ring, and how far it was read.
#[derive(Clone, Copy)]
struct Reader {
    ring: u64,
    read: u32,
}

/// A client of core 0.
pub(crate) struct Client<'n> {
    node: &'n Node,
    bar: u64,
    /// Chunks of the rings: Tx, Rx.
    rings: [u64; 2],
    /// Descriptors that were made.
    pairs: u32,
    ring_id: RingId,
    /// The increments of the event and of the tails: chunk and address.
    constants: (u64, u64),
    /// Where the request lies.
    request: (u64, u64),
    readers: [Reader; QUEUES],
}

impl<'n> Client<'n> {
    /// With rings of its own, all queues enabled.
    pub(crate) fn open(node: &'n Node) -> Self {
        let chunk = |host| {
            let chunk = node.chunk(host, PAGE);
            (chunk, node.pa(chunk))
        };
        let rings = [(); 2].map(|()| chunk(true).0);
        let (engine, queue) = map::engine_of(map::model_exec_queue(TPB));
        let init = DmaQueueInit {
            eng_id: engine,
            qid: queue,
            tx_desc_count: DESCRIPTORS,
            rx_desc_count: DESCRIPTORS,
            tx_handle: rings[0],
            rx_handle: rings[1],
            ..DmaQueueInit::ZEROED
        };
        assert_eq!(node.call(row::DMA_QUEUE_INIT, init), Done);
        let constants = chunk(true);
        // The event is set to 1; four pairs make a request.
        let mut increments = [1u32, 4];
        assert_eq!(
            node.copy(constants.0, 0, increments.as_mut_bytes(), true),
            Done
        );
        let mut client = Self {
            node,
            bar: node.bar(),
            rings,
            pairs: 0,
            ring_id: RingId::FIRST,
            constants,
            request: chunk(false),
            readers: queues().map(|nq| Reader {
                ring: notification_ring(node, nq),
                read: 0,
            }),
        };
        client.enable(u32::MAX);
        client
    }

    /// Enables the queues of a mask.
    pub(crate) fn enable(&mut self, mask: u32) {
        self.write_register(BLOCK + NQ_ENABLE, mask & 0x3FF);
    }

    /// A request for these programs, where the next publish finds it.
    pub(crate) fn load(&self, programs: &[Vec<Instruction>; ENGINES]) {
        let mut request = ExecRequest {
            do_model_switch: U32::new(1),
            reload_seq_config: U32::new(1),
            load_act_dve_tables: U32::new(1),
            ..ExecRequest::default()
        };
        for engine in Engine::ALL {
            let mut code = programs[engine.index()].as_bytes().to_vec();
            let chunk = self.node.chunk(false, PAGE);
            assert_eq!(self.node.copy(chunk, 0, &mut code, true), Done);
            request.set_engine_address(engine, DeviceAddr::new(self.node.pa(chunk)));
        }
        let mut buffer = RequestBuffer {
            body: request,
            cc_dma_increment: U32::ZERO,
        };
        let stored = self
            .node
            .copy(self.request.0, 0, buffer.as_mut_bytes(), true);
        assert_eq!(stored, Done);
    }

    /// Fills descriptors for these parts of a publish, in this order.
    pub(crate) fn publish(&mut self, parts: &[Part]) {
        let addresses = AddressMap::Chip(Arch::V2);
        let (event, tails) = (self.constants.1, self.constants.1 + 4);
        for part in parts {
            let (from, to, bytes) = match part {
                Part::Request => (self.request.1, addresses.sequencer_memory(TPB), 52),
                Part::Event => (event, addresses.event_register(TPB, map::REQUEST_LOADED), 4),
                Part::TxTail => (tails, addresses.tx_tail_increment(TPB), 4),
                Part::RxTail => (tails, addresses.rx_tail_increment(TPB), 4),
            };
            self.push(from, to, bytes);
        }
    }

    fn push(&mut self, from: u64, to: DeviceAddr, bytes: u32) {
        let pair = CopyPair::new(DeviceAddr::new(from), to, bytes, self.ring_id).unwrap();
        let offset = u64::from(self.pairs % DESCRIPTORS) * 16;
        for (mem_handle, mut descriptor, queue_type) in
            [(self.rings[0], pair.tx, 0), (self.rings[1], pair.rx, 1)]
        {
            let argument = DmaCopyDescriptors64 {
                mem_handle,
                buffer: address_of(&mut descriptor),
                num_descs: 1,
                offset,
                queue_type,
                ..DmaCopyDescriptors64::ZEROED
            };
            let copied = self.node.call(row::DMA_COPY_DESCRIPTORS64, argument);
            assert_eq!(copied, Done);
        }
        self.pairs += 1;
        if self.pairs.is_multiple_of(DESCRIPTORS) {
            self.ring_id = self.ring_id.next();
        }
    }

    /// Rings the doorbell.
    pub(crate) fn ring(&self) {
        let doorbell = Semaphore {
            nc_id: 0,
            semaphore_index: map::INFERENCE_START.get().into(),
            value: 1,
        };
        assert_eq!(self.node.call(row::SEMAPHORE_INCREMENT, doorbell), Done);
    }

    /// Publishes, as it should be, and rings.
    pub(crate) fn execute(&mut self) {
        self.publish(&IN_ORDER);
        self.ring();
    }

    /// The next record of a queue, if its phase bit says that there is one. Its space is not given back.
    pub(crate) fn next(&mut self, queue: usize) -> Option<[u8; 16]> {
        let Reader { ring, read } = self.readers[queue];
        let offset = u64::from(read % RECORDS * RECORD);
        // Set on the first lap, clear on the second, and so on.
        let expected = (read / RECORDS).is_multiple_of(2);
        let mut record = [0; 16];
        // The word with the phase first: only then are the others valid.
        let mut first = [0; 4];
        assert_eq!(self.node.copy(ring, offset, &mut first, false), Done);
        if (first[3] & ring_bits::PHASE != 0) != expected {
            return None;
        }
        assert_eq!(self.node.copy(ring, offset, &mut record, false), Done);
        self.readers[queue].read += 1;
        Some(record)
    }

    /// Asks until there is a record.
    pub(crate) fn await_next(&mut self, queue: usize) -> [u8; 16] {
        for _ in 0..PATIENCE {
            if let Some(record) = self.next(queue) {
                return record;
            }
            thread::yield_now();
        }
        panic!(
            "nothing comes in queue {queue}: {:?}",
            self.registers(queue)
        );
    }

    /// How many records of a queue were read.
    pub(crate) fn read(&self, queue: usize) -> u32 {
        self.readers[queue].read
    }

    /// Gives the space of a queue back as far as it was read.
    pub(crate) fn give_back(&self, queue: usize) {
        self.set_head(queue, self.readers[queue].read % RECORDS * RECORD);
    }

    pub(crate) fn set_head(&self, queue: usize, head: u32) {
        self.write_register(self.queue_register(queue, NQ_HEAD), head);
    }

    /// Head and tail of a queue.
    pub(crate) fn registers(&self, queue: usize) -> [u32; 2] {
        [NQ_HEAD, NQ_TAIL].map(|register| self.register(self.queue_register(queue, register)))
    }

    fn queue_register(&self, queue: usize, register: u64) -> u64 {
        // PANIC: one of those there are.
        BLOCK + NQ_STRIDE * u64::from(queues()[queue]) + register
    }

    pub(crate) fn register(&self, offset: u64) -> u32 {
        let mut value = 0u32;
        assert_eq!(self.access(row::BAR_READ, offset, &mut value), Done);
        value
    }

    /// Asks until a register is as expected.
    pub(crate) fn await_register(&self, offset: u64, expected: u32) {
        for _ in 0..PATIENCE {
            if self.register(offset) == expected {
                return;
            }
            thread::yield_now();
        }
        panic!("register {offset:#x} is {:#x}", self.register(offset));
    }

    pub(crate) fn write_register(&self, offset: u64, mut value: u32) {
        assert_eq!(self.access(row::BAR_WRITE, offset, &mut value), Done);
    }

    fn access(
        &self,
        row: xu_abi::driver::Ioctl,
        offset: u64,
        value: &mut u32,
    ) -> xu_abi::driver::errno::Answer {
        let argument = BarRw {
            address: address_of(&mut (self.bar + offset)),
            data: address_of(value),
            count: 1,
            ..BarRw::ZEROED
        };
        self.node.call(row, argument)
    }

    /// What the queue says that brings requests: its Tx side.
    pub(crate) fn queue_state(&self) -> DmaQueueState {
        let (eng_id, qid) = map::engine_of(map::model_exec_queue(TPB));
        let [mut tx, mut rx] = [DmaQueueState::ZEROED; 2];
        let argument = DmaQueueGetState {
            eng_id,
            qid,
            tx: address_of(&mut tx),
            rx: address_of(&mut rx),
        };
        assert_eq!(self.node.call(row::DMA_QUEUE_GET_STATE, argument), Done);
        tx
    }
}

/// A new ring in host memory, which the driver has zeroed: its chunk.
fn notification_ring(node: &Node, nq: u8) -> u64 {
    let mut ring = NotificationsInitWithReallocV2 {
        nq_type: NqType::Notify.raw(),
        engine_index: nq.into(),
        size: RING,
        on_host_memory: 1,
        force_alloc_mem: 1,
        ..NotificationsInitWithReallocV2::ZEROED
    };
    let made = node.ask(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, &mut ring);
    assert_eq!(made, Done);
    let mut zeroes = vec![0; RING as usize];
    assert_eq!(node.copy(ring.mem_handle, 0, &mut zeroes, true), Done);
    ring.mem_handle
}

/// Programs of all engines that end at once.
pub(crate) fn halting() -> [Vec<Instruction>; ENGINES] {
    Engine::ALL.map(|engine| vec![Instruction::halt(engine)])
}

/// What a status record says.
pub(crate) fn subtype(record: [u8; 16]) -> Subtype {
    StatusRecord::read_from_bytes(&record).unwrap().subtype()
}
