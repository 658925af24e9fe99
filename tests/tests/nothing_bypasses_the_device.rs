//! Corrupt one staged byte, and the result changes or the request fails: nothing bypasses the device.
//!
//! Each test alters the bytes of one kind on their way into device memory. With the byte intact the
//! scores are exactly the reference scores; with it corrupted they must not be reported as a success
//! with the same scores.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{AlterWrite, DIGITS, Meddler};
use nrta::{Health, Model, Runtime, Status};
use std::sync::Arc;
use std::time::Duration;
use xu_abi::{Engine, SemIndex};
use xu_device::map;
use xu_device::simulated::isa::{INSTRUCTION_SIZE, Opcode};
use xu_device::simulated::{Machine, MachineConfig};

/// Length of the execution request that the stager writes.
const REQUEST: usize = 52;
/// Length of a descriptor.
const DESCRIPTOR: usize = 16;

/// What one execution of the digits model on a fixed image ends with.
fn classify(meddle: impl FnOnce(&Meddler)) -> (Result<Vec<u8>, Status>, Health) {
    let device = Meddler::new(Machine::start(MachineConfig::default()).unwrap());
    let runtime = Runtime::builder()
        .device(Arc::clone(&device) as Arc<dyn nrta::Device>)
        .exec_timeout(Some(Duration::from_millis(100)))
        .open()
        .unwrap();
    let core = runtime.core(0).unwrap();
    // Code corrupted at load time must be altered before the load.
    meddle(&device);
    let loaded = core
        .load(&Model::open(format!("{DIGITS}/model.xum")).unwrap(), 1)
        .unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let (scores, label) = (
        loaded.allocate_output(0).unwrap(),
        loaded.allocate_output(1).unwrap(),
    );
    let moves = core.tensor_op(0).unwrap();
    let pixels = (0..64).map(|pixel| pixel % 17).collect();
    for (tensor, bytes) in [(&image, pixels), (&scores, vec![0; 40])] {
        let written = match moves.write(tensor, 0, bytes) {
            Ok(pending) => pending.wait().map(drop).map_err(|error| error.status),
            Err(refused) => Err(refused.reason.status()),
        };
        if let Err(status) = written {
            return (Err(status), moves.health());
        }
    }
    let run = match core
        .compute()
        .execute(&loaded, &[&image], &[&scores, &label])
    {
        Ok(pending) => pending.wait().map(drop).map_err(|error| error.status),
        Err(refused) => Err(refused.reason.status()),
    };
    let health = core.compute().health();
    if let Err(status) = run {
        return (Err(status), health);
    }
    let read = moves
        .read(&scores, 0, vec![0; 40])
        .unwrap()
        .wait()
        .map_err(|error| error.status);
    (read, health)
}

/// Flips bit `bit` of byte `byte` in the `nth` write (from 0) for which `of_kind` holds.
fn flip(
    nth: usize,
    byte: usize,
    bit: u8,
    of_kind: impl Fn(&[u8]) -> bool + Send + 'static,
) -> AlterWrite {
    let mut seen = 0;
    Box::new(move |_, bytes| {
        if of_kind(bytes) {
            if seen == nth {
                bytes[byte] ^= 1 << bit;
            }
            seen += 1;
        }
    })
}

fn reference() -> Vec<u8> {
    let (scores, health) = classify(|_| ());
    assert_eq!(health, Health::Healthy);
    scores.expect("an untouched execution succeeds")
}

fn assert_noticed(what: &str, outcome: &Result<Vec<u8>, Status>, reference: &[u8]) {
    assert_ne!(outcome.as_deref(), Ok(reference), "{what}: nobody noticed");
}

#[test]
fn the_reference_is_reproducible() {
    assert_eq!(reference(), reference());
}

#[test]
fn an_engine_address() {
    let reference = reference();
    for engine in Engine::ALL {
        // Bit 3: still 8-aligned, but in the middle of an instruction.
        for (bit, part) in [(3, 0x04), (0, 0x18)] {
            let byte = part + 4 * engine.index();
            let alter = flip(0, byte, bit, |bytes| bytes.len() == REQUEST);
            let (outcome, _) = classify(|device| device.alter_writes(alter));
            assert_noticed(
                &format!("{engine} address, byte {byte:#x}"),
                &outcome,
                &reference,
            );
        }
    }
}

#[test]
fn a_descriptor_of_the_request_ring() {
    let reference = reference();
    // Length, ring id, and address, of each of the four pairs, on both rings.
    for (byte, bit) in [(0, 2), (3, 0), (8, 4), (13, 5)] {
        for nth in 0..8 {
            let alter = {
                let mut armed = false;
                let mut inner = flip(nth, byte, bit, |bytes: &[u8]| bytes.len() == DESCRIPTOR);
                let alter: AlterWrite = Box::new(move |addr, bytes| {
                    armed |= bytes.len() == REQUEST;
                    if armed {
                        inner(addr, bytes);
                    }
                });
                alter
            };
            let (outcome, _) = classify(|device| device.alter_writes(alter));
            assert_noticed(
                &format!("descriptor {nth}, byte {byte}"),
                &outcome,
                &reference,
            );
        }
    }
}

#[test]
fn a_descriptor_of_a_tensor_move() {
    let reference = reference();
    for nth in 0..4 {
        // Bit 46 of the address: no memory there.
        let alter = flip(nth, 13, 6, |bytes| bytes.len() == DESCRIPTOR);
        let (outcome, health) = classify(|device| device.alter_writes(alter));
        assert_noticed(&format!("descriptor {nth}"), &outcome, &reference);
        assert_eq!(health, Health::Degraded);
    }
}

#[test]
fn the_start_semaphore() {
    let (outcome, health) = classify(|device| {
        device.alter_doorbells(Box::new(|index| {
            if index == map::INFERENCE_START {
                SemIndex::new(77)
            } else {
                index
            }
        }));
    });
    assert_eq!((outcome, health), (Err(Status::TIMEOUT), Health::Degraded));
}

#[test]
fn a_semaphore_number_in_the_program() {
    let reference = reference();
    // The first instruction of the PE body waits for SP.
    let is_pe_body = |bytes: &[u8]| {
        bytes.len() > 2 * INSTRUCTION_SIZE as usize
            && bytes[0] == Opcode::Wait as u8
            && bytes[1] == Engine::Pe as u8
    };
    let alter = flip(0, 3, 6, is_pe_body);
    let (outcome, health) = classify(|device| device.alter_writes(alter));
    assert_noticed("semaphore of a wait", &outcome, &reference);
    assert_eq!((outcome, health), (Err(Status::TIMEOUT), Health::Degraded));
}

#[test]
fn an_opcode_in_the_program() {
    let reference = reference();
    for engine in Engine::ALL {
        let is_body = move |bytes: &[u8]| {
            bytes.len() > 2 * INSTRUCTION_SIZE as usize
                && bytes.len().is_multiple_of(INSTRUCTION_SIZE as usize)
                && (bytes[0] == Opcode::Wait as u8 || bytes[0] == Opcode::Signal as u8)
                && bytes[1] == engine as u8
        };
        let alter = flip(0, 0, 7, is_body);
        let (outcome, health) = classify(|device| device.alter_writes(alter));
        assert_noticed(&format!("opcode of {engine}"), &outcome, &reference);
        // An illegal instruction is an error of this execution, not of the unit.
        assert_eq!(
            (outcome, health),
            (Err(Status::EXEC_COMPLETED_WITH_ERR), Health::Healthy)
        );
    }
}

#[test]
fn a_bound_tensor() {
    let reference = reference();
    // The stager writes one address per bound tensor: input first.
    for nth in 0..2 {
        let alter = {
            let mut seen = 0;
            let alter: AlterWrite = Box::new(move |_, bytes| {
                if bytes.len() == 8 {
                    if seen == nth {
                        bytes[1] ^= 1;
                    }
                    seen += 1;
                }
            });
            alter
        };
        let (outcome, _) = classify(|device| device.alter_writes(alter));
        assert_noticed(&format!("binding {nth}"), &outcome, &reference);
    }
}

#[test]
fn one_byte_of_the_input() {
    let reference = reference();
    let alter = flip(0, 10, 3, |bytes| {
        bytes.len() == 64 && bytes[1] == 1 && bytes[2] == 2
    });
    let (outcome, health) = classify(|device| device.alter_writes(alter));
    assert_noticed("a pixel", &outcome, &reference);
    assert_eq!(health, Health::Healthy);
}
