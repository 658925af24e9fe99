//! Random programs, random requests and random descriptors.

use crate::client::{CORE, Rings, SEMAPHORE, WHOLE, at};
use crate::{cases, client};
use lane_tests::{Kind, Rig};
use proptest::prelude::*;
use xu_abi::descriptor::{CopyPair, DESCRIPTOR_SIZE};
use xu_abi::record::Subtype;
use xu_abi::{DeviceAddr, Engine, ExecRequest};
use xu_device::map;
use xu_device::simulated::isa::{Instruction, Opcode, Operand};
use zerocopy::little_endian::{U32, U64};
use zerocopy::transmute;

lane_tests::on_both! {
    no_program_breaks_the_device_or_keeps_it_from_being_dropped,
    no_request_and_no_descriptor_goes_without_an_answer,
}

/// Cases of a property. Behind the driver's interface each opens the device anew, which resets it.
fn count(rig: &Rig) -> u32 {
    match rig.kind() {
        Kind::Simulated => 128,
        Kind::Neuron => 48,
    }
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

/// Whatever the engines are given, the device answers or hangs, and can be dropped.
fn no_program_breaks_the_device_or_keeps_it_from_being_dropped(rig: &Rig) {
    // The first block of a device that was just opened is always the same.
    let data = client(rig).place(&[0; 8192]);
    proptest!(cases(count(rig)), |(
        blocks in Engine::ALL.map(|engine| {
            prop::collection::vec(any_instruction(engine, data), 1..12)
        }),
        noise in prop::collection::vec(any::<u8>(), 0..256),
        noisy_engine in 0usize..10,
    )| {
        let mut client = client(rig);
        prop_assert_eq!(client.place(&[0; 8192]), data);
        let mut request = client.request(&blocks);
        if let Some(engine) = Engine::from_index(noisy_engine) && !noise.is_empty() {
            request.set_engine_address(engine, client.place(&noise));
        }
        client.arm(&request, &WHOLE);
        client.fire();
        for _ in 0..50 {
            std::thread::yield_now();
        }
        // A core whose thread had panicked would be lost. The device goes while it runs, and the next one is as new.
        prop_assert!(client.machine.read_semaphore(CORE, SEMAPHORE).is_ok());
    });
}

/// Every doorbell whose request names no endless program is answered by five ENDs.
fn no_request_and_no_descriptor_goes_without_an_answer(rig: &Rig) {
    proptest!(cases(count(rig)), |(
        request in any::<[u32; 13]>(),
        descriptors in prop::collection::vec((any::<[u32; 8]>(), 0usize..64, any::<bool>()), 0..24),
    )| {
        let mut client = client(rig);
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
                let to = at(client.machine.shape().addresses.sequencer_memory(CORE), *near as u64);
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
        prop_assert!(client.machine.quiesce(CORE, std::time::Duration::from_secs(60)).is_ok());
    });
}
