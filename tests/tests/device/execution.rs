//! What an execution computes, and in which order executions, engines and cores run.

use crate::client;
use crate::client::{CORE, Client, NOWHERE, SEMAPHORE, WHOLE, fixed, halting, instruction, only};
use lane_tests::Rig;
use std::sync::Barrier;
use xu_abi::{Engine, SemIndex, TpbIndex};
use xu_device::simulated::isa::{Dtype, Instruction, Opcode, Operand};
use xu_device::{Place, map};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{F32, U32};

lane_tests::on_both! {
    a_network_runs_from_bytes_to_records,
    elementwise_and_reductions,
    one_program_serves_two_tables,
    executions_queue_behind_each_other,
    two_cores_run_at_the_same_time,
}

fn a_network_runs_from_bytes_to_records(rig: &Rig) {
    let mut client = client(rig);
    let x = client.place([1.0f32, 2.0, -1.0, 0.5].as_bytes());
    let w = client.place([1.0f32, 0.0, 2.0, 0.0, 1.0, -1.0].as_bytes());
    let bias = client.place([0.0f32, -3.0, 1.0].as_bytes());
    let hidden = client.place(&[0; 24]);
    let y = client.place(&[0; 24]);
    let best = client.place(&[0; 8]);
    let (ready, done) = (SemIndex::new(16), SemIndex::new(255));
    let mut product = instruction(Engine::Pe, Opcode::MatMul, (2, 3), [x, w, hidden]);
    product.inner = U32::new(2);
    let act = Engine::Act;
    let mut code = halting();
    code[0] = vec![
        product,
        Instruction::signal(Engine::Pe, ready),
        Instruction::halt(Engine::Pe),
    ];
    code[1] = vec![
        Instruction::wait(act, ready),
        instruction(act, Opcode::Bias, (2, 3), [hidden, bias, hidden]),
        instruction(act, Opcode::Relu, (2, 3), [hidden, NOWHERE, hidden]),
        instruction(act, Opcode::Softmax, (2, 3), [hidden, NOWHERE, y]),
        Instruction::signal(act, done),
        Instruction::halt(act),
    ];
    code[2] = vec![
        Instruction::wait(Engine::Pool, done),
        instruction(Engine::Pool, Opcode::ArgMax, (2, 3), [y, NOWHERE, best]),
        Instruction::halt(Engine::Pool),
    ];
    let before = client.machine.now_ns();
    let posted = client.run(&code);
    let after = client.machine.now_ns();
    posted.assert_clean();

    // x w = [1 2 0; -1 0.5 -2.5]; with the bias [1 -1 1; -1 -2.5 -1.5]; after relu [1 0 1; 0 0 0].
    assert_eq!(client.floats(hidden, 6), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    let e = core::f32::consts::E;
    let (large, little) = (e / (2.0 * e + 1.0), 1.0 / (2.0 * e + 1.0));
    let third = 1.0 / 3.0;
    for (got, expected) in client
        .floats(y, 6)
        .iter()
        .zip([large, little, large, third, third, third])
    {
        assert!((got - expected).abs() < 1e-6, "{got} {expected}");
    }
    let mut indices = [9u32; 2];
    client.machine.read(best, indices.as_mut_bytes()).unwrap();
    assert_eq!(indices, [0, 0]);

    let clock = client.machine.clock();
    for (engine, records) in Engine::ALL.iter().zip(&posted.status) {
        for record in records {
            assert_eq!(
                (record.nq_id_tag(), record.debug_hint()),
                (engine.status_nq(), 0)
            );
            let ns = clock.to_host_ns(record.device_ts.get());
            // Rounding may cost a tick or two.
            assert!(before <= ns + 2 && ns <= after + 2, "{before} {ns} {after}");
        }
        assert!(records[0].device_ts.get() < records[1].device_ts.get());
    }
    client.assert_at_rest();
    assert_eq!(client.machine.read_semaphore(CORE, ready), Ok(0));
}

fn elementwise_and_reductions(rig: &Rig) {
    let mut client = client(rig);
    let a = client.place([1.0f32, -2.0, 3.0, 4.0, 5.0, -6.0].as_bytes());
    let b = client.place([2.0f32, 2.0, 0.5, 1.0, 0.0, 1.0].as_bytes());
    let pixels = client.place(&[0, 255, 51]);
    let [sum, product, scaled, sums, maxima] =
        [24, 24, 12, 8, 8].map(|n| client.place(&vec![0; n]));
    let shape = (2, 3);
    let mut scale = instruction(
        Engine::Dve,
        Opcode::Scale,
        (1, 3),
        [pixels, NOWHERE, scaled],
    );
    scale.dtype = Dtype::U8 as u8;
    scale.immediate = F32::new(1.0 / 255.0);
    let mut code = halting();
    code[3] = vec![
        instruction(Engine::Dve, Opcode::Add, shape, [a, b, sum]),
        instruction(Engine::Dve, Opcode::Mul, shape, [a, b, product]),
        scale,
        Instruction::halt(Engine::Dve),
    ];
    code[2] = vec![
        instruction(Engine::Pool, Opcode::Sum, shape, [a, NOWHERE, sums]),
        instruction(Engine::Pool, Opcode::Max, shape, [a, NOWHERE, maxima]),
        Instruction::halt(Engine::Pool),
    ];
    client.run(&code).assert_clean();
    assert_eq!(client.floats(sum, 6), [3.0, 0.0, 3.5, 5.0, 5.0, -5.0]);
    assert_eq!(client.floats(product, 6), [2.0, -4.0, 1.5, 4.0, 0.0, -6.0]);
    assert_eq!(client.floats(sums, 2), [2.0, 3.0]);
    assert_eq!(client.floats(maxima, 2), [3.0, 5.0]);
    for (got, expected) in client.floats(scaled, 3).iter().zip([0.0, 1.0, 0.2]) {
        assert!((got - expected).abs() < 1e-6, "{got}");
    }
}

fn one_program_serves_two_tables(rig: &Rig) {
    let mut client = client(rig);
    let bound = |index, offset| Operand::Bound { index, offset };
    let body = client.place(
        [
            Instruction::new(Engine::Act, Opcode::Relu)
                .shape(1, 2)
                .operands(bound(0, 4), fixed(NOWHERE), bound(1, 0)),
            Instruction::halt(Engine::Act),
        ]
        .as_bytes(),
    );
    for expected in [[1.0f32, 0.0], [0.0, 7.0]] {
        let input = [
            9.0,
            expected[0],
            expected[1] - 2.0 * f32::from(u8::from(expected[0] > 0.0)),
        ];
        let input = client.place(input.as_bytes());
        let out = client.machine.allocate(Place::Host, 8, 4).unwrap();
        let table = client.place([input.get(), out.get()].as_bytes());
        let entry = [
            Instruction::bind(Engine::Act, table),
            Instruction::jump(Engine::Act, body),
        ];
        client.run_one(Engine::Act, &entry).assert_clean();
        assert_eq!(client.floats(out, 2), expected);
    }
}

fn executions_queue_behind_each_other(rig: &Rig) {
    let mut client = client(rig);
    let request = client.request(&halting());
    // More than two laps of the descriptor rings, never more than a ring's worth at once.
    for _ in 0..6 {
        for _ in 0..4 {
            client.arm(&request, &WHOLE);
        }
        for _ in 0..4 {
            client.fire();
        }
        for _ in 0..4 {
            client.harvest().assert_clean();
        }
    }
    client.assert_at_rest();
    assert_eq!(
        client.machine.read_semaphore(CORE, map::INFERENCE_START),
        Ok(0)
    );
}

fn two_cores_run_at_the_same_time(rig: &Rig) {
    let machine = rig.device();
    let mut clients = [0, 1].map(|tpb| Client::open(&machine, TpbIndex::new(tpb), 4096));
    // Each core is under way before the other can go on: both run at once.
    let both_wait = Barrier::new(2);
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let both_wait = &both_wait;
            scope.spawn(move || {
                let out = client.place(&[0; 4]);
                let input = client.place([number as f32 + 1.0].as_bytes());
                let code = [
                    Instruction::wait(Engine::Act, SEMAPHORE),
                    instruction(Engine::Act, Opcode::Relu, (1, 1), [input, NOWHERE, out]),
                    Instruction::halt(Engine::Act),
                ];
                let request = client.request(&only(Engine::Act, &code));
                client.arm(&request, &WHOLE);
                client.fire();
                client.until_started(Engine::Act);
                client.assert_hangs();
                both_wait.wait();
                let other = TpbIndex::new(1 - number as u16);
                client
                    .machine
                    .increment_semaphore(other, SEMAPHORE)
                    .unwrap();
                client.harvest().assert_clean();
                assert_eq!(client.floats(out, 1), [number as f32 + 1.0]);
            });
        }
    });
}
