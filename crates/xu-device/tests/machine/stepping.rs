//! Virtual time: a run is a function of seed and calls, and nothing happens by itself.

use crate::support::{
    CORE, Client, NOWHERE, Rings, SEMAPHORE, WHOLE, at, halting, instruction, only, small, stepped,
};
use core::time::Duration;
use xu_abi::{Engine, SemIndex, TpbIndex};
use xu_device::simulated::isa::{Instruction, Opcode};
use xu_device::simulated::{
    Costs, Fault, FaultPlan, Machine, MachineConfig, Rule, Time, When, host_ns,
};
use xu_device::{Device, DeviceError, Place, map};
use zerocopy::little_endian::U32;
use zerocopy::{IntoBytes, transmute};

const SECOND: u64 = 1_000_000_000;

/// Everything that a run of two cores, of both transfer queues and of many faults shows.
fn run(seed: u64, mut look: impl FnMut(&Machine)) -> Vec<u8> {
    let engine = Engine::Act;
    let rule = |probability, fault| Rule {
        when: When {
            probability: Some(probability),
            ..When::default()
        },
        fault,
    };
    let faults = FaultPlan {
        rules: vec![
            rule(0.3, Fault::Transient),
            rule(0.3, Fault::LateEnd { engine, by_ns: 777 }),
            rule(0.3, Fault::Custom { engine, sub_id: 6 }),
        ],
    };
    let machine = Machine::start(MachineConfig {
        faults,
        ..stepped(2, seed)
    })
    .unwrap();
    let mut seen = Vec::new();
    let mut clients = [0, 1].map(|tpb| Client::open(&machine, TpbIndex::new(tpb), 4096));
    let mut rings = Rings::open(&machine, map::transfer_queue(CORE, 0));
    let bytes = machine.allocate(Place::Host, 0x2000, 64).unwrap();
    for round in 0..6 {
        for client in &mut clients {
            let data = client.place([1.0f32, -2.0].as_bytes());
            let out = client.place(&[0; 8]);
            let mut code = halting();
            code[0] = vec![
                Instruction::signal(Engine::Pe, SEMAPHORE),
                Instruction::halt(Engine::Pe),
            ];
            code[1] = vec![
                Instruction::wait(engine, SEMAPHORE),
                instruction(engine, Opcode::Relu, (1, 2), [data, NOWHERE, out]),
                Instruction::halt(engine),
            ];
            let request = client.request(&code);
            client.arm(&request, &WHOLE);
            client.fire();
        }
        rings.copy(&machine, bytes, at(bytes, 0x1000), 0x1000);
        machine.start_dma(rings.queue, 1).unwrap();
        for _ in 0..round {
            machine.step();
        }
        machine.advance(Duration::from_nanos(round));
        look(&machine);
        for client in &mut clients {
            let posted = client.drain();
            for record in posted.status.iter().flatten() {
                seen.extend_from_slice(record.as_bytes());
            }
            for record in &posted.errors {
                seen.extend_from_slice(record.as_bytes());
            }
        }
        seen.extend_from_slice(&machine.now_ns().to_le_bytes());
    }
    let mut memory = vec![0; 0x1_0000];
    machine
        .read(xu_abi::DeviceAddr::new(map::HBM_RESERVED), &mut memory)
        .unwrap();
    seen.extend(memory);
    seen.extend(format!("{:?} {:?}", machine.injected(), machine.clock()).into_bytes());
    seen
}

#[test]
fn the_same_seed_and_calls_give_the_same_records_stamps_and_bytes() {
    let first = run(5, |_| {});
    assert!(first == run(5, |_| {}));
    // Looking changes nothing.
    let looked = run(5, |machine| {
        let _ = (
            machine.next_due(),
            machine.now_ns(),
            machine.quiesce(CORE, std::time::Duration::from_secs(2)),
        );
        let _ = (
            machine.clock(),
            machine.injected(),
            machine.overflow_latched(CORE),
        );
    });
    assert!(first == looked);
}

#[test]
fn another_seed_gives_another_interleaving() {
    let order = |seed| {
        let mut client = Client::start(stepped(1, seed));
        client.run(&halting()).order()
    };
    let orders: std::collections::HashSet<_> = (0..16).map(order).collect();
    assert!(orders.len() > 8, "{} orders", orders.len());
}

#[test]
fn cores_of_one_machine_draw_different_orders() {
    let machine = Machine::start(stepped(8, 3)).unwrap();
    let orders: std::collections::HashSet<_> = (0..8)
        .map(|tpb| {
            Client::open(&machine, TpbIndex::new(tpb), 4096)
                .run(&halting())
                .order()
        })
        .collect();
    assert!(orders.len() > 4, "{} orders", orders.len());
}

#[test]
fn d7_opening_the_queue_again_forgets_a_request_that_is_half_received() {
    for steps in 1..=5 {
        let mut client = Client::start(MachineConfig {
            costs: Costs::FREE,
            ..stepped(1, 3)
        });
        let request = client.request(&halting());
        client.arm(&request, &WHOLE);
        client.fire();
        // The doorbell, then up to four pairs.
        for _ in 0..steps {
            assert!(client.machine.step());
        }
        client.rings = Rings::open(&client.machine, client.rings.queue);
        let posted = client.drain();
        if steps < 5 {
            assert_eq!(posted.status.concat(), []);
            assert_eq!(posted.errors, []);
        } else {
            // It was received as a whole.
            posted.assert_clean();
        }
        assert_eq!(
            client
                .machine
                .quiesce(CORE, std::time::Duration::from_secs(2)),
            Ok(())
        );
        assert_eq!(client.machine.check_dma(client.rings.queue), Ok(()));
        client.assert_still_works();
    }
}

/// Which cores step, in the order of their steps: seen in which of their START records comes first.
#[test]
fn another_seed_gives_another_order_between_cores() {
    let first_to_start = |seed| {
        let machine = Machine::start(MachineConfig {
            costs: Costs::FREE,
            ..stepped(2, seed)
        })
        .unwrap();
        let mut clients = [0, 1].map(|tpb| Client::open(&machine, TpbIndex::new(tpb), 4096));
        for client in &mut clients {
            let request = client.request(&halting());
            client.arm(&request, &WHOLE);
            client.fire();
        }
        loop {
            assert!(machine.step());
            for client in &mut clients {
                if client
                    .status
                    .iter_mut()
                    .any(|reader| reader.next(&machine).is_some())
                {
                    return client.tpb;
                }
            }
        }
    };
    let firsts: Vec<TpbIndex> = (0..32).map(first_to_start).collect();
    assert!(
        [0, 1]
            .iter()
            .all(|tpb| firsts.contains(&TpbIndex::new(*tpb)))
    );
}

#[test]
fn nothing_happens_and_no_time_passes_unless_the_machine_is_told() {
    let mut client = Client::start(stepped(1, 1));
    let machine = std::sync::Arc::clone(&client.machine);
    assert_eq!(machine.now_ns(), SECOND);
    assert!(!machine.step());
    assert_eq!(machine.next_due(), None);
    let request = client.request(&halting());
    client.arm(&request, &WHOLE);
    client.fire();
    // The doorbell is consumed at once; the first descriptor takes its time.
    assert_eq!(machine.read_semaphore(CORE, map::INFERENCE_START), Ok(1));
    assert_eq!(
        machine.quiesce(CORE, std::time::Duration::from_secs(2)),
        Err(DeviceError::Busy { tpb: CORE })
    );
    assert!(machine.step());
    assert_eq!(machine.read_semaphore(CORE, map::INFERENCE_START), Ok(0));
    assert!(!machine.step());
    let due = SECOND + Costs::nominal().per_descriptor_ns;
    assert_eq!((machine.next_due(), machine.now_ns()), (Some(due), SECOND));
    machine.advance(Duration::from_nanos(due - SECOND - 1));
    assert!(!machine.step());
    machine.advance(Duration::from_nanos(1));
    assert_eq!(machine.next_due(), None);
    assert!(machine.step());
    assert!(!machine.step());
    client.drain().assert_clean();
    assert_eq!(
        machine.quiesce(CORE, std::time::Duration::from_secs(2)),
        Ok(())
    );
    assert_eq!(machine.next_due(), None);
    assert!(machine.now_ns() > due);
    assert_eq!(machine.clock().host_ns, machine.now_ns());
}

#[test]
fn an_instruction_stores_its_result_when_its_time_has_passed_and_engines_overlap() {
    let costs = Costs {
        per_instruction_ns: 1000,
        ..Costs::FREE
    };
    let mut client = Client::start(MachineConfig {
        costs,
        ..stepped(1, 2)
    });
    let data = client.place([-1.0f32].as_bytes());
    let outs = [0, 1].map(|_| client.place([9.0f32].as_bytes()));
    let mut code = halting();
    for (engine, opcode, out) in [
        (Engine::Act, Opcode::Relu, outs[0]),
        (Engine::Dve, Opcode::Scale, outs[1]),
    ] {
        code[engine.index()] = vec![
            instruction(engine, opcode, (1, 1), [data, NOWHERE, out]),
            Instruction::halt(engine),
        ];
    }
    let request = client.request(&code);
    client.arm(&request, &WHOLE);
    client.fire();
    while client.machine.step() {}
    assert_eq!(client.machine.next_due(), Some(SECOND + 1000));
    assert_eq!(outs.map(|out| client.floats(out, 1)[0]), [9.0, 9.0]);
    client.machine.advance(Duration::from_nanos(1000));
    while client.machine.step() {}
    assert_eq!(outs.map(|out| client.floats(out, 1)[0]), [0.0, 0.0]);
    client.drain().assert_clean();
    // One instruction after the other on each engine, all engines at once.
    assert_eq!(client.machine.now_ns(), SECOND + 2000);
}

#[test]
fn work_is_paid_for_by_its_size() {
    let takes = |rows: u32| {
        let mut client = Client::start(MachineConfig {
            tpbs: 1,
            ..stepped(1, 2)
        });
        let data = client.place(&vec![0; 4 * 64 * 64]);
        let out = client.place(&vec![0; 4 * 64 * 64]);
        let mut product = instruction(Engine::Pe, Opcode::MatMul, (rows, 64), [data, data, out]);
        product.inner = U32::new(64);
        let before = client.machine.now_ns();
        client
            .run_one(Engine::Pe, &[product, Instruction::halt(Engine::Pe)])
            .assert_clean();
        client.machine.now_ns() - before
    };
    // 63 rows more: 63 * 64 * 64 * 2 operations, and 63 * 2 rows of 256 bytes.
    let costs = Costs::nominal();
    let more = 63 * 8 * costs.per_kilo_operation_ns + 63 * 512 * costs.per_kibibyte_ns / 1024;
    assert!((takes(64) - takes(1)).abs_diff(more) <= 2);
}

#[test]
fn a_matrix_that_cannot_exist_costs_no_time() {
    let mut client = Client::start(stepped(1, 2));
    let data = client.place(&[0; 64]);
    let huge = instruction(Engine::Act, Opcode::Relu, (u32::MAX, u32::MAX), [data; 3]);
    client
        .run_one(Engine::Act, &[huge])
        .assert_sequencer_error();
    assert!(client.machine.now_ns() < SECOND + 10_000);
}

#[test]
fn d5_a_transfer_has_not_arrived_before_it_was_walked() {
    let machine = Machine::start(stepped(1, 3)).unwrap();
    let mut rings = Rings::open(&machine, map::transfer_queue(CORE, 0));
    let memory = machine.allocate(Place::Host, 0x1000, 64).unwrap();
    machine
        .write(memory, &map::COMPLETION_MARKER.to_le_bytes())
        .unwrap();
    let targets = [0x400, 0x800].map(|offset| at(memory, offset));
    let arrived = || targets.map(|to| machine.load_acquire(to) == Ok(map::COMPLETION_MARKER));
    for to in targets {
        rings.copy(&machine, memory, to, 0x400);
    }
    machine.start_dma(rings.queue, 2).unwrap();
    assert_eq!(arrived(), [false, false]);
    assert!(!machine.step());
    machine.advance(Duration::from_nanos(
        machine.next_due().unwrap() - machine.now_ns(),
    ));
    assert!(machine.step());
    assert_eq!(arrived(), [true, false]);
    assert!(!machine.step());
    machine.run_until_idle();
    assert_eq!(arrived(), [true, true]);
    let costs = Costs::nominal();
    assert_eq!(
        machine.now_ns(),
        SECOND + 2 * costs.per_descriptor_ns + costs.per_kibibyte_ns
    );

    // Never more than the ring holds, and an abort shows after the walk.
    for _ in 0..32 {
        rings.copy(&machine, NOWHERE, memory, 4);
    }
    machine.start_dma(rings.queue, 30).unwrap();
    assert!(matches!(
        machine.start_dma(rings.queue, 3),
        Err(DeviceError::BadArgument { .. })
    ));
    assert_eq!(machine.check_dma(rings.queue), Ok(()));
    machine.run_until_idle();
    assert!(matches!(
        machine.check_dma(rings.queue),
        Err(DeviceError::DmaAborted { .. })
    ));
    assert_eq!(machine.next_due(), None);
}

#[test]
fn a_core_that_hangs_is_idle_time_and_goes_on_when_its_semaphore_is_raised() {
    let mut client = Client::start(stepped(1, 4));
    let code = [
        Instruction::wait(Engine::Sp, SEMAPHORE),
        Instruction::halt(Engine::Sp),
    ];
    let request = client.request(&only(Engine::Sp, &code));
    client.arm(&request, &WHOLE);
    client.fire();
    assert!(client.machine.run_until_idle());
    client.assert_hangs();
    client.machine.increment_semaphore(CORE, SEMAPHORE).unwrap();
    client.harvest().assert_clean();
}

#[test]
fn real_time_is_not_stepped_and_keeps_the_clock_of_the_host() {
    let machine = Machine::start(small(1, 0)).unwrap();
    machine.advance(Duration::from_secs(1000));
    let (before, now, after) = (host_ns(), machine.now_ns(), host_ns());
    assert!(before <= now && now <= after);
    assert!(!machine.step());
    assert!(machine.run_until_idle());
    assert_eq!(machine.next_due(), None);
    let text = format!("{machine:?}");
    assert!(
        text.contains("seed: 0") && text.contains("time: Realtime"),
        "{text}"
    );
    let text = format!("{:?}", Machine::start(stepped(1, 77)).unwrap());
    assert!(
        text.contains("seed: 77") && text.contains("time: Virtual"),
        "{text}"
    );
}

#[test]
fn durations_pass_in_real_time_too() {
    let costs = Costs {
        per_instruction_ns: 200_000,
        ..Costs::FREE
    };
    let mut client = Client::start(MachineConfig {
        costs,
        ..small(1, 0)
    });
    let posted = client.run(&halting());
    posted.assert_clean();
    for records in &posted.status {
        let [start, end] = [0, 1].map(|which: usize| records[which].device_ts.get());
        assert!(end - start >= 200_000);
    }
}

#[test]
fn d6_stamps_follow_a_clock_that_drifts() {
    for clock_drift in [0.5, 1.0, 2.0] {
        let mut client = Client::start(MachineConfig {
            clock_drift,
            ..stepped(1, 6)
        });
        client.assert_still_works();
        client.machine.advance(Duration::from_secs(3600));
        let rung = client.machine.now_ns();
        let posted = client.run(&halting());
        let clock = client.machine.clock();
        assert_eq!(clock.host_ns, client.machine.now_ns());
        for record in posted.status.iter().flatten() {
            let ns = clock.to_host_ns(record.device_ts.get());
            // Stamps of a core never repeat, so a few lie a few ticks ahead.
            assert!(
                rung <= ns + 2 && ns <= clock.host_ns + 32,
                "{clock_drift}: {rung} {ns}"
            );
        }
    }
}

#[test]
fn d1_rings_of_eight_records_wrap_at_every_offset() {
    let requests = if cfg!(debug_assertions) {
        20_000
    } else {
        100_000
    };
    let machine = Machine::start(MachineConfig {
        costs: Costs::FREE,
        ..stepped(1, 7)
    })
    .unwrap();
    let mut client = Client::open(&machine, CORE, 128);
    let request = client.request(&halting());
    client.execute(&request).assert_clean();
    // The trailer behind it is zero.
    let buffer = client.place(&[0; 56]);
    machine.write(buffer, request.as_bytes()).unwrap();
    for _ in 1..requests {
        client.publish(buffer, &WHOLE);
        client.fire();
        client.drain().assert_clean();
    }
    assert_eq!(machine.overflow_latched(CORE), Ok(false));
}

#[test]
fn d3_a_ring_of_sixteen_that_is_acknowledged_in_time_loses_nothing_and_one_that_is_not_says_so() {
    let custom = Fault::Custom {
        engine: Engine::Pe,
        sub_id: 6,
    };
    let rules = vec![
        Rule {
            when: When::default(),
            fault: custom
        };
        12
    ];
    let config = MachineConfig {
        faults: FaultPlan { rules },
        ..stepped(1, 8)
    };
    let machine = Machine::start(config).unwrap();
    let mut client = Client::open(&machine, CORE, 256);
    let request = client.request(&halting());
    // Fourteen records of PE for each execution, fifteen fit.
    for _ in 0..40 {
        client.arm(&request, &WHOLE);
        client.fire();
        assert_eq!(client.drain().status[0].len(), 14);
    }
    assert_eq!(machine.overflow_latched(CORE), Ok(false));
    for _ in 0..2 {
        client.arm(&request, &WHOLE);
        client.fire();
    }
    assert_eq!(client.drain().status[0].len(), 15);
    assert_eq!(machine.overflow_latched(CORE), Ok(true));
}

#[test]
fn two_hundred_and_fifty_six_cores_start_run_and_stop() {
    for time in [Time::Realtime, Time::Virtual] {
        let machine = Machine::start(MachineConfig {
            time,
            host_bytes: 16 << 20,
            ..small(256, 9)
        })
        .unwrap();
        let mut clients: Vec<Client> = (0..256)
            .map(|tpb| Client::open(&machine, TpbIndex::new(tpb), 64))
            .collect();
        for client in &mut clients {
            let request = client.request(&halting());
            client.arm(&request, &WHOLE);
            client.fire();
        }
        for client in &mut clients {
            client.harvest().assert_clean();
        }
    }
}

#[test]
fn semaphores_of_programs_are_seen_between_steps() {
    let mut client = Client::start(MachineConfig {
        costs: Costs::FREE,
        ..stepped(1, 5)
    });
    let semaphore = SemIndex::new(40);
    let code = [
        Instruction::signal(Engine::Dve, semaphore),
        Instruction::wait(Engine::Dve, semaphore),
        Instruction::halt(Engine::Dve),
    ];
    let request = client.request(&only(Engine::Dve, &code));
    client.arm(&request, &WHOLE);
    client.fire();
    let mut values = Vec::new();
    while client.machine.step() {
        values.push(client.machine.read_semaphore(CORE, semaphore).unwrap());
    }
    values.dedup();
    assert_eq!(values, [0, 1, 0]);
    let records = client.drain();
    records.assert_clean();
    let _: [u8; 16] = transmute!(records.status[0][0]);
}
