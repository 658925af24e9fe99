//! Arguments out of range, random programs, random requests and random descriptors.

use crate::support::{CORE, Client, NOWHERE, Rings, SEMAPHORE, WHOLE, at, small};
use proptest::prelude::*;
use xu_abi::descriptor::{CopyPair, DESCRIPTOR_SIZE};
use xu_abi::record::Subtype;
use xu_abi::{DeviceAddr, Engine, ExecRequest, TpbIndex};
use xu_device::simulated::isa::{Instruction, Opcode, Operand};
use xu_device::simulated::{Machine, MachineConfig};
use xu_device::{Device, DeviceError, DmaQueue, Place, map};
use zerocopy::little_endian::{U32, U64};
use zerocopy::transmute;

#[test]
fn arguments_out_of_range_are_refused() {
    let bad = |result: Result<(), DeviceError>| {
        assert!(
            matches!(result, Err(DeviceError::BadArgument { .. })),
            "{result:?}"
        );
    };
    let base = small(1, 0);
    for config in [
        MachineConfig {
            arch: 1,
            ..base.clone()
        },
        MachineConfig {
            tpbs: 0,
            ..base.clone()
        },
        MachineConfig {
            tpbs: 257,
            ..base.clone()
        },
        MachineConfig {
            hbm_bytes: 4096,
            ..base.clone()
        },
        MachineConfig {
            host_bytes: 1 << 40,
            ..base.clone()
        },
        MachineConfig {
            clock_drift: f64::NAN,
            ..base.clone()
        },
    ] {
        bad(Machine::start(config).map(drop));
    }
    let machine = Machine::start(base).unwrap();
    let absent = TpbIndex::new(1);
    bad(machine.increment_semaphore(absent, SEMAPHORE));
    bad(machine.read_semaphore(absent, SEMAPHORE).map(drop));
    bad(machine.quiesce(absent, std::time::Duration::from_secs(2)));
    bad(machine.overflow_latched(absent).map(drop));
    bad(machine.allocate(Place::Hbm(absent), 1, 1).map(drop));
    bad(machine.allocate(Place::Host, 0, 1).map(drop));
    bad(machine.allocate(Place::Host, 1, 3).map(drop));
    bad(machine.open_notification_queue(CORE, 10, 64).map(drop));
    for bytes in [0, 16, 32, 96] {
        bad(machine.open_notification_queue(CORE, 4, bytes).map(drop));
    }
    bad(machine.start_dma(map::model_exec_queue(CORE), 1));
    bad(machine.start_dma(
        DmaQueue {
            tpb: CORE,
            index: xu_device::map::DMA_QUEUES,
        },
        1,
    ));

    let ring = machine.allocate(Place::Host, 4096, 256).unwrap();
    let queue = map::transfer_queue(CORE, 0);
    for descriptors in [0, 16, 33, 16_777_216] {
        bad(machine.open_dma_queue(queue, ring, ring, descriptors));
    }
    for base in [NOWHERE, at(ring, 64)] {
        let opened = machine.open_dma_queue(queue, ring, base, 32);
        assert!(matches!(opened, Err(DeviceError::BadAddress { .. })));
    }
    machine.open_dma_queue(queue, ring, ring, 32).unwrap();
    bad(machine.start_dma(queue, 33));

    // The machine's own memory is not the client's to release.
    let nq = machine.open_notification_queue(CORE, 4, 64).unwrap();
    for addr in [nq, at(ring, 1), NOWHERE] {
        assert!(matches!(
            machine.release(addr),
            Err(DeviceError::BadAddress { .. })
        ));
    }
    let error = machine.allocate(Place::Host, 2 << 20, 1).unwrap_err();
    assert!(matches!(
        error,
        DeviceError::OutOfMemory {
            asked: 0x20_0000,
            ..
        }
    ));
}

/// Instructions that are close to good ones: most run, some loop, stall or fault.
fn any_instruction(engine: Engine, data: DeviceAddr) -> impl Strategy<Value = Instruction> {
    let opcodes: Vec<Opcode> = Opcode::ALL
        .iter()
        .copied()
        .filter(|opcode| opcode.runs_on(engine))
        .collect();
    let operand = prop_oneof![
        6 => (0u64..2048).prop_map(move |offset| data.get() + offset),
        2 => (0u16..4, 0u64..64).prop_map(|(index, offset)| {
            Operand::Bound { index, offset }.to_raw()
        }),
        1 => any::<u64>(),
    ];
    let dimension = prop_oneof![8 => 1u32..20, 1 => any::<u32>()];
    (
        prop_oneof![12 => proptest::sample::select(opcodes).prop_map(|opcode| opcode as u8), 1 => any::<u8>()],
        prop_oneof![12 => Just(0u8), 1 => any::<u8>()],
        prop_oneof![8 => 16u8..20, 1 => any::<u8>()],
        [dimension.clone(), dimension.clone(), dimension],
        [operand.clone(), operand.clone(), operand],
    )
        .prop_map(move |(opcode, dtype, semaphore, dimensions, operands)| Instruction {
            opcode,
            engine: engine.index() as u8,
            dtype,
            semaphore,
            rows: U32::new(dimensions[0]),
            cols: U32::new(dimensions[1]),
            inner: U32::new(dimensions[2]),
            a: U64::new(operands[0]),
            b: U64::new(operands[1]),
            out: U64::new(operands[2]),
            ..Instruction::default()
        })
}

proptest! {
    // A case that fails is shrunk and belongs here as a named test, not in a file of seeds.
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the engines are given, the machine answers or hangs, and can be dropped.
    #[test]
    fn no_program_panics_the_machine_or_keeps_it_from_being_dropped(
        seed in any::<u64>(),
        // The first block of a fresh core lies at the start of its HBM.
        blocks in Engine::ALL.map(|engine| {
            let data = DeviceAddr::new(map::HBM_RESERVED);
            prop::collection::vec(any_instruction(engine, data), 1..12)
        }),
        noise in prop::collection::vec(any::<u8>(), 0..256),
        noisy_engine in 0usize..10,
    ) {
        let mut client = Client::start(small(1, seed));
        client.place(&[0; 8192]);
        let mut request = client.request(&blocks);
        if let Some(engine) = Engine::from_index(noisy_engine) && !noise.is_empty() {
            request.set_engine_address(engine, client.place(&noise));
        }
        client.arm(&request, &WHOLE);
        client.fire();
        for _ in 0..50 {
            std::thread::yield_now();
        }
        // A core whose thread had panicked would be lost.
        prop_assert!(client.machine.read_semaphore(CORE, SEMAPHORE).is_ok());
    }

    /// Every doorbell whose request names no endless program is answered by five ENDs.
    #[test]
    fn no_request_and_no_descriptor_goes_without_an_answer(
        seed in any::<u64>(),
        request in any::<[u32; 13]>(),
        descriptors in prop::collection::vec((any::<[u32; 8]>(), 0usize..64, any::<bool>()), 0..24),
    ) {
        let mut client = Client::start(small(1, seed));
        let request: ExecRequest = transmute!(request);
        client.arm(&request, &WHOLE);
        for (words, near, exec) in &descriptors {
            let mut pair: CopyPair = {
                let words: [[u8; 16]; 2] = transmute!(*words);
                CopyPair { tx: transmute!(words[0]), rx: transmute!(words[1]) }
            };
            if *exec {
                // Fresh, well formed, and pointing at something.
                let from = at(client.constants, 0);
                let to = at(map::AddressMap::Simulated.sequencer_memory(CORE), *near as u64);
                pair = CopyPair::new(from, to, 4, client.rings.ring_id).unwrap();
            }
            client.rings.push(&client.machine, pair);
        }
        client.fire();
        let first = client.harvest();
        for engine in Engine::ALL {
            let subtypes = first.subtypes(engine);
            prop_assert_eq!(subtypes.first(), Some(&Subtype::Start));
        }
        client.fire();
        client.harvest();
        let rings = Rings::open(&client.machine, map::transfer_queue(CORE, 0));
        for (slot, (words, ..)) in (0u64..).zip(&descriptors) {
            let bytes: [u8; 32] = transmute!(*words);
            client.machine.write(at(rings.tx, slot * DESCRIPTOR_SIZE), &bytes[..16]).unwrap();
            client.machine.write(at(rings.rx, slot * DESCRIPTOR_SIZE), &bytes[16..]).unwrap();
        }
        let started = descriptors.len() as u32;
        prop_assert!(client.machine.start_dma(rings.queue, started).is_ok());
        prop_assert!(client.machine.quiesce(CORE, std::time::Duration::from_secs(2)).is_ok());
    }
}
