//! Faults of doorbells, DMA queues, reservations, and of the device as a whole.

use crate::support::{CORE, Client, Rings, SEMAPHORE, WHOLE, at, faulty, halting, small};
use std::sync::Arc;
use xu_abi::{SemIndex, TpbIndex};
use xu_device::simulated::{Fault, FaultPlan, Injection, Machine, MachineConfig, Rule, When};
use xu_device::{Device, DeviceError, Head, Place, map};

const LOST: DeviceError = DeviceError::Lost;

fn at_number(from: u64, fault: Fault) -> Rule {
    Rule {
        when: When {
            from,
            times: Some(1),
            ..When::default()
        },
        fault,
    }
}

#[test]
fn d4_a_queue_that_aborts_at_a_request_runs_nothing_and_posts_what_is_due() {
    let mut client = Client::start(faulty(1, vec![at_number(1, Fault::DmaAbort)]));
    client.assert_still_works();
    let data = client.place(&[1; 4]);
    client.run(&halting()).assert_sequencer_error();
    let (tpb, index) = (CORE, map::MODEL_EXEC_QUEUE);
    let aborted = Err(DeviceError::DmaAborted { tpb, index });
    assert_eq!(client.machine.check_dma(client.rings.queue), aborted);
    client.run(&halting()).assert_sequencer_error();
    assert_eq!(client.machine.memory_errors(CORE).unwrap().sram, 0);
    client.machine.release(data).unwrap();
    client.rings = Rings::open(&client.machine, client.rings.queue);
    client.assert_still_works();
}

#[test]
fn d2_a_doorbell_that_is_lost_starts_nothing_and_the_next_one_serves_its_request() {
    let mut client = Client::start(faulty(1, vec![at_number(1, Fault::DoorbellLost)]));
    client.assert_still_works();
    let request = client.request(&halting());
    client.arm(&request, &WHOLE);
    client.fire();
    assert_eq!(client.drain().status.concat(), []);
    assert_eq!(
        client
            .machine
            .quiesce(CORE, std::time::Duration::from_secs(2)),
        Ok(())
    );
    let start = client.machine.read_semaphore(CORE, map::INFERENCE_START);
    assert_eq!(start, Ok(0));
    client.fire();
    client.drain().assert_clean();
    let numbers: Vec<u64> = client
        .machine
        .injected()
        .iter()
        .map(|one| one.number)
        .collect();
    assert_eq!(numbers, [1]);
}

#[test]
fn d8_a_doorbell_that_fails_names_the_call_and_the_number_and_starts_nothing() {
    let mut client = Client::start(faulty(
        1,
        vec![at_number(0, Fault::DoorbellFails { errno: 5 })],
    ));
    let request = client.request(&halting());
    client.arm(&request, &WHOLE);
    let rung = client
        .machine
        .increment_semaphore(CORE, map::INFERENCE_START);
    let (call, errno) = ("SEMAPHORE_INCREMENT", 5);
    assert_eq!(rung, Err(DeviceError::Driver { call, errno }));
    assert_eq!(client.drain().status.concat(), []);
    // Other semaphores are not doorbells, and the next doorbell is another execution.
    client.machine.increment_semaphore(CORE, SEMAPHORE).unwrap();
    client.fire();
    client.drain().assert_clean();
}

#[test]
fn reservations_fail_by_number_on_their_core_and_say_that_memory_is_exhausted() {
    let mut rule = at_number(2, Fault::AllocationFails);
    rule.when.core = Some(1);
    let machine = Machine::start(faulty(2, vec![rule])).unwrap();
    let second = TpbIndex::new(1);
    let outcomes = |place| -> Vec<bool> {
        (0..4)
            .map(|_| machine.allocate(place, 64, 64).is_ok())
            .collect()
    };
    assert_eq!(outcomes(Place::Host), [true; 4]);
    assert_eq!(outcomes(Place::Hbm(CORE)), [true; 4]);
    assert_eq!(outcomes(Place::Hbm(second)), [true, true, false, true]);
    let always = Rule {
        when: When::default(),
        fault: Fault::AllocationFails,
    };
    let machine = Machine::start(faulty(1, vec![always])).unwrap();
    let refused = DeviceError::OutOfMemory {
        place: Place::Host,
        asked: 4096,
        free: 0,
        largest: 0,
    };
    assert_eq!(machine.allocate(Place::Host, 4096, 64), Err(refused));
    let injected = machine.injected()[0];
    assert_eq!(
        (injected.core, injected.number, injected.rule),
        (None, 0, 0)
    );
}

#[test]
fn memory_that_is_exhausted_says_what_is_free_and_where() {
    let machine = Machine::start(small(2, 0)).unwrap();
    let place = Place::Hbm(TpbIndex::new(1));
    let block = machine.allocate(place, 0x4_0000, 64).unwrap();
    machine.allocate(place, 0x4_0000, 64).unwrap();
    machine.release(block).unwrap();
    let refused = machine.allocate(place, 0xA_0000, 64).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "device memory of core 1 is exhausted: asked for 655360 bytes, 786432 free, largest block 524288"
    );
}

/// Starts one transfer of 64 bytes on a queue of its own; whether the bytes arrive, and what the queue says.
fn transfer(machine: &Arc<Machine>, rings: &mut Rings) -> (bool, Result<(), DeviceError>) {
    let memory = machine.allocate(Place::Host, 128, 64).unwrap();
    machine.write(memory, &[7; 64]).unwrap();
    rings.copy(machine, memory, at(memory, 64), 64);
    let started = machine.start_dma(rings.queue, 1);
    assert!(machine.run_until_idle());
    let mut moved = [0; 64];
    machine.read(at(memory, 64), &mut moved).unwrap();
    (
        moved == [7; 64],
        started.and(machine.check_dma(rings.queue)),
    )
}

#[test]
fn d4_transfers_abort_or_hang_by_number_until_their_queue_is_opened_again() {
    for virtually in [true, false] {
        for fault in [Fault::TransferAborts, Fault::TransferHangs] {
            let rules = vec![at_number(1, fault.clone())];
            let config = if virtually {
                faulty(1, rules)
            } else {
                MachineConfig {
                    faults: FaultPlan { rules },
                    ..small(1, 0)
                }
            };
            let machine = Machine::start(config).unwrap();
            let queue = map::transfer_queue(CORE, 1);
            let mut rings = Rings::open(&machine, queue);
            assert_eq!(transfer(&machine, &mut rings), (true, Ok(())));
            // Starting nothing is no start.
            machine.start_dma(queue, 0).unwrap();
            assert_eq!(machine.injected(), []);
            let (tpb, index) = (CORE, queue.index);
            let says = match fault {
                Fault::TransferAborts => Err(DeviceError::DmaAborted { tpb, index }),
                _ => Ok(()),
            };
            assert_eq!(transfer(&machine, &mut rings), (false, says.clone()));
            assert_eq!(transfer(&machine, &mut rings), (false, says));
            let mut rings = Rings::open(&machine, queue);
            assert_eq!(transfer(&machine, &mut rings), (true, Ok(())));
            let injected = machine.injected();
            assert!(matches!(
                injected[..],
                [Injection {
                    number: 1,
                    rule: 0,
                    ..
                }]
            ));
        }
    }
}

#[test]
fn d4_a_device_that_goes_fails_every_call_and_can_be_dropped() {
    for virtually in [true, false] {
        let rules = vec![at_number(1, Fault::DeviceLost)];
        let config = if virtually {
            faulty(2, rules)
        } else {
            MachineConfig {
                faults: FaultPlan { rules },
                ..small(2, 0)
            }
        };
        let mut client = Client::start(config);
        client.assert_still_works();
        let block = client.place(&[0; 64]);
        let request = client.request(&halting());
        client.arm(&request, &WHOLE);
        client.fire();
        let machine = &client.machine;
        machine.run_until_idle();
        // In real time the call waits until the device is gone.
        for tpb in [CORE, TpbIndex::new(1)] {
            while machine.quiesce(tpb, std::time::Duration::from_secs(2)) != Err(LOST) {
                std::thread::yield_now();
            }
        }
        let queue = map::transfer_queue(CORE, 0);
        assert_eq!(machine.allocate(Place::Host, 1, 1), Err(LOST));
        assert_eq!(machine.release(block), Err(LOST));
        assert_eq!(machine.write(block, &[1]), Err(LOST));
        assert_eq!(machine.read(block, &mut [1]), Err(LOST));
        assert_eq!(machine.load_acquire(block), Err(LOST));
        assert_eq!(machine.open_dma_queue(queue, block, block, 32), Err(LOST));
        assert_eq!(machine.start_dma(queue, 1), Err(LOST));
        assert_eq!(machine.check_dma(queue), Err(LOST));
        for semaphore in [map::INFERENCE_START, SemIndex::new(30)] {
            assert_eq!(machine.increment_semaphore(CORE, semaphore), Err(LOST));
            assert_eq!(machine.read_semaphore(CORE, semaphore), Err(LOST));
        }
        assert_eq!(machine.open_notification_queue(CORE, 4, 64), Err(LOST));
        assert_eq!(machine.acknowledge(CORE, &[Head::new(4, 0)]), Err(LOST));
        assert_eq!(machine.notification_tail(CORE, 4), Err(LOST));
        assert_eq!(machine.overflow_latched(CORE), Err(LOST));
        assert_eq!(machine.memory_errors(CORE), Err(LOST));
        assert!(!machine.step());
        assert_eq!(machine.next_due(), None);
        assert_eq!(machine.injected().len(), 1);
    }
}
