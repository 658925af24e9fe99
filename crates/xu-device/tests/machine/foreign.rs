//! A machine over memory that the test keeps, at the addresses of a chip.

use crate::support::small;
use std::sync::Arc;
use xu_abi::descriptor::CopyPair;
use xu_abi::device::ERROR_NQ;
use xu_abi::driver::Arch;
use xu_abi::record::{Subtype, ring_bits};
use xu_abi::{DeviceAddr, Engine, ExecRequest, RequestBuffer, RingId, StatusRecord, TpbIndex};
use xu_device::map::{self, AddressMap};
use xu_device::simulated::isa::{Instruction, Opcode, Operand};
use xu_device::simulated::{Backing, Machine, MachineConfig, RingSpec};
use xu_device::{Device, DeviceError, Place};
use zerocopy::little_endian::U32;
use zerocopy::{IntoBytes, transmute};

const HBM: u64 = 0x10_0000_0000;
const HOST: u64 = 1 << 44;
const BYTES: usize = 1 << 20;
const CORE: TpbIndex = TpbIndex::new(1);
const ADDRESSES: AddressMap = AddressMap::Chip(Arch::V2);

/// One HBM and host memory.
#[derive(Debug)]
struct Shared(parking_lot::RwLock<[Vec<u8>; 2]>);

impl Shared {
    fn locate(addr: DeviceAddr, bytes: usize) -> Result<(usize, usize), DeviceError> {
        let inside = |base: u64| {
            let offset = addr.get().checked_sub(base)?;
            let end = offset.checked_add(bytes as u64)?;
            (end <= BYTES as u64).then_some(offset as usize)
        };
        [HBM, HOST]
            .iter()
            .enumerate()
            .find_map(|(memory, base)| Some((memory, inside(*base)?)))
            .ok_or(DeviceError::BadAddress {
                addr,
                bytes: bytes as u64,
            })
    }
}

impl Backing for Shared {
    fn contains(&self, addr: DeviceAddr, bytes: u64) -> bool {
        usize::try_from(bytes).is_ok_and(|bytes| Self::locate(addr, bytes).is_ok())
    }

    fn is_hbm(&self, addr: DeviceAddr) -> bool {
        addr.get() < HOST
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        let (memory, offset) = Self::locate(from, into.len())?;
        into.copy_from_slice(&self.0.read()[memory][offset..offset + into.len()]);
        Ok(())
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let (memory, offset) = Self::locate(to, bytes.len())?;
        self.0.write()[memory][offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        let mut word = [0; 4];
        self.read(from, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    fn store_release(&self, to: DeviceAddr, word: u32) -> Result<(), DeviceError> {
        self.write(to, &word.to_le_bytes())
    }
}

fn config() -> MachineConfig {
    MachineConfig {
        time: xu_device::simulated::Time::Virtual,
        ..small(2, 3)
    }
}

fn machine() -> (Arc<Machine>, Arc<Shared>) {
    let shared = Arc::new(Shared(parking_lot::RwLock::new([
        vec![0; BYTES],
        vec![0; BYTES],
    ])));
    let backing = Arc::clone(&shared) as Arc<dyn Backing>;
    (
        Machine::start_on(config(), ADDRESSES, backing).unwrap(),
        shared,
    )
}

fn at(addr: u64) -> DeviceAddr {
    DeviceAddr::new(addr)
}

#[test]
fn an_execution_runs_over_memory_that_somebody_else_keeps() {
    let (machine, shared) = machine();
    let ports = machine.ports();
    let [code, operands, buffer, constants] = [HBM, HBM + 0x4000, HBM + 0x8000, HOST];
    let [tx, rx, nqs] = [HOST + 0x1000, HOST + 0x2000, HOST + 0x4000];
    let mut request = ExecRequest {
        do_model_switch: U32::new(1),
        reload_seq_config: U32::new(1),
        load_act_dve_tables: U32::new(1),
        ..ExecRequest::default()
    };
    let operand = |index: u64| Operand::Address(at(operands + 4 * index));
    for (place, engine) in (0..).zip(Engine::ALL) {
        let mut block = vec![Instruction::halt(engine)];
        if engine == Engine::Dve {
            let add = Instruction::new(engine, Opcode::Add).shape(1, 1);
            block.insert(0, add.operands(operand(0), operand(1), operand(2)));
        }
        let entry = at(code + 0x400 * place);
        shared.write(entry, block.as_bytes()).unwrap();
        request.set_engine_address(engine, entry);
    }
    shared
        .write(at(operands), [1.0f32, 2.5].as_bytes())
        .unwrap();
    shared.write(at(constants), [1u32, 4].as_bytes()).unwrap();
    let body = RequestBuffer {
        body: request,
        cc_dma_increment: U32::ZERO,
    };
    shared.write(at(buffer), body.as_bytes()).unwrap();
    let copies = [
        (buffer, ADDRESSES.sequencer_memory(CORE), 52),
        (
            constants,
            ADDRESSES.event_register(CORE, map::REQUEST_LOADED),
            4,
        ),
        (constants + 4, ADDRESSES.tx_tail_increment(CORE), 4),
        (constants + 4, ADDRESSES.rx_tail_increment(CORE), 4),
    ];
    for (index, (from, to, bytes)) in (0..).zip(copies) {
        let pair = CopyPair::new(at(from), to, bytes, RingId::FIRST).unwrap();
        shared
            .write(at(tx + 16 * index), pair.tx.as_bytes())
            .unwrap();
        shared
            .write(at(rx + 16 * index), pair.rx.as_bytes())
            .unwrap();
    }
    let ring = |base| RingSpec {
        base: at(base),
        descriptors: 32,
    };
    let (engine, queue) = map::engine_of(map::model_exec_queue(CORE));
    ports.init_queue(engine, queue, ring(tx), ring(rx)).unwrap();
    for nq in 0..10 {
        let base = at(nqs + 0x100 * u64::from(nq));
        ports.program_notification(CORE, nq, base, 0x100).unwrap();
    }
    ports
        .change_notification_policy(CORE, |policy| policy.enabled = 0x3FF)
        .unwrap();
    ports
        .add_to_semaphore(CORE, map::INFERENCE_START, 1)
        .unwrap();
    assert!(machine.run_until_idle());
    for engine in Engine::ALL {
        for (index, subtype) in [(0, Subtype::Start), (1, Subtype::End)] {
            let mut record = [0; 16];
            let ring = nqs + 0x100 * u64::from(engine.status_nq());
            shared.read(at(ring + 16 * index), &mut record).unwrap();
            let record: StatusRecord = transmute!(record);
            assert_eq!(record.subtype(), subtype);
            assert_ne!(record.ring_and_tag & ring_bits::PHASE, 0);
        }
        let ends = ports.notification_ends(CORE, engine.status_nq());
        assert_eq!(ends, Ok((0, 32)));
    }
    assert_eq!(ports.notification_ends(CORE, ERROR_NQ), Ok((0, 0)));
    let mut sum = [0; 4];
    shared.read(at(operands + 8), &mut sum).unwrap();
    assert_eq!(f32::from_le_bytes(sum), 3.5);
    // The registers of the queue that brings requests: four pairs, published and walked.
    let (_, rings) = ports.queue_state(engine, queue);
    for state in rings {
        assert_eq!((state.head, state.tail), (4, 4));
    }
}

#[test]
fn nothing_can_be_reserved_in_memory_that_somebody_else_keeps() {
    let (machine, _) = machine();
    for place in [Place::Host, Place::Hbm(CORE)] {
        let refused = machine.allocate(place, 64, 64);
        assert!(
            matches!(refused, Err(DeviceError::OutOfMemory { free: 0, .. })),
            "{refused:?}"
        );
        assert_eq!(machine.memory_use(place), None);
    }
    assert!(machine.release(at(HOST)).is_err());
    assert!(machine.open_notification_queue(CORE, 4, 64).is_err());
}

#[test]
fn instructions_come_from_hbm_and_cores_are_those_of_the_chip() {
    let (machine, shared) = machine();
    assert_eq!(machine.shape().addresses, ADDRESSES);
    assert!(shared.is_hbm(at(HBM)) && !shared.is_hbm(at(HOST)));
    let three = MachineConfig {
        tpbs: 3,
        ..config()
    };
    let refused = Machine::start_on(three, ADDRESSES, shared);
    assert!(matches!(
        refused,
        Err(DeviceError::BadArgument { value: 3, .. })
    ));
}
