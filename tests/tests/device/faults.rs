//! Requests and programs that are wrong: what is reported, and that the next execution is not harmed.

use crate::client;
use crate::client::{CORE, NOWHERE, Part, Rings, SEMAPHORE, at, halting, instruction, only};
use lane_tests::Rig;
use xu_abi::record::{Custom, ErrorKind, Subtype};
use xu_abi::{DeviceAddr, Engine, ExecRequest, SemIndex};
use xu_device::simulated::isa::{Dtype, Instruction, Opcode, Operand};
use xu_device::{DeviceError, Place, map};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

lane_tests::on_both! {
    an_incomplete_publish_is_an_error_and_one_that_ends_nowhere_stops_the_queue,
    a_request_that_does_not_arrive_whole_is_an_error,
    an_aborted_model_exec_queue_fails_every_doorbell_until_it_is_opened_again,
    skipping_what_was_never_loaded_is_an_error,
    instructions_that_cannot_be_executed_end_the_execution_with_an_error,
    an_address_outside_memory_is_reported_with_its_line,
    nan_is_reported_once_per_engine_and_the_result_stands,
}

fn an_incomplete_publish_is_an_error_and_one_that_ends_nowhere_stops_the_queue(rig: &Rig) {
    use Part::{Event, Request, RxTail, TxTail};
    let orders: [&[Part]; 10] = [
        &[],
        &[Event, TxTail, RxTail],
        &[Request, TxTail, RxTail],
        &[Request, Event, RxTail],
        &[Request, Event, TxTail],
        &[Request, Event],
        &[TxTail, RxTail, Request, Event],
        &[Event, Request, TxTail, RxTail],
        // Five copies, of which four are published.
        &[Request, Request, Event, TxTail, RxTail],
        &[Request, Event, TxTail, TxTail],
    ];
    for order in orders {
        let mut client = client(rig);
        let request = client.request(&halting());
        client.arm(&request, order);
        client.fire();
        client.harvest().assert_sequencer_error();
        let queue = map::model_exec_queue(client.tpb);
        if order.contains(&TxTail) && order.contains(&RxTail) {
            assert_eq!(client.machine.check_dma(queue), Ok(()));
            client.assert_still_works();
        } else {
            // The walker ran into a stale descriptor.
            let (tpb, index) = (queue.tpb, queue.index);
            let aborted = Err(DeviceError::DmaAborted { tpb, index });
            assert_eq!(client.machine.check_dma(queue), aborted);
            client.fire();
            client.harvest().assert_sequencer_error();
        }
    }
}

fn a_request_that_does_not_arrive_whole_is_an_error(rig: &Rig) {
    let mut client = client(rig);
    let request = client.request(&halting());
    // The trailer was never written: something stands in its place.
    let body = client.place(&[request.as_bytes(), &[0xA5; 4]].concat());
    let (increment, tpb) = (at(client.constants, 4), client.tpb);
    let addresses = client.machine.shape().addresses;
    for (from, to, len) in [
        (body, addresses.sequencer_memory(tpb), 52),
        (
            client.constants,
            addresses.event_register(tpb, map::REQUEST_LOADED),
            4,
        ),
        (increment, addresses.tx_tail_increment(tpb), 4),
        (increment, addresses.rx_tail_increment(tpb), 4),
    ] {
        client.rings.copy(&client.machine, from, to, len);
    }
    client.fire();
    client.harvest().assert_sequencer_error();
    client.assert_still_works();
}

fn an_aborted_model_exec_queue_fails_every_doorbell_until_it_is_opened_again(rig: &Rig) {
    let mut client = client(rig);
    let queue = client.rings.queue;
    let sequencer = client.machine.shape().addresses.sequencer_memory(CORE);
    client.rings.copy(&client.machine, NOWHERE, sequencer, 52);
    client.fire();
    client.harvest().assert_sequencer_error();
    let aborted = Err(DeviceError::DmaAborted {
        tpb: CORE,
        index: queue.index,
    });
    assert_eq!(client.machine.start_dma(queue, 4), aborted);
    client.run(&halting()).assert_sequencer_error();
    client.rings = Rings::open(&client.machine, queue);
    assert_eq!(client.machine.start_dma(queue, 4), Ok(()));
    client.assert_still_works();
}

fn skipping_what_was_never_loaded_is_an_error(rig: &Rig) {
    let mut client = client(rig);
    let whole = client.request(&halting());
    let skipping = [
        ExecRequest {
            reload_seq_config: U32::ZERO,
            ..whole
        },
        ExecRequest {
            load_act_dve_tables: U32::ZERO,
            ..whole
        },
    ];
    for request in &skipping {
        client.execute(request).assert_sequencer_error();
    }
    client.execute(&whole).assert_clean();
    for request in &skipping {
        client.execute(request).assert_clean();
    }
    client.rings = Rings::open(&client.machine, client.rings.queue);
    client.execute(&skipping[0]).assert_sequencer_error();
}

fn instructions_that_cannot_be_executed_end_the_execution_with_an_error(rig: &Rig) {
    let mut client = client(rig);
    let data = client.place(&[0; 1024]);
    let relu = instruction(Engine::Act, Opcode::Relu, (2, 2), [data, NOWHERE, data]);
    let wrong = |alter: fn(&mut Instruction)| {
        let mut instruction = relu;
        alter(&mut instruction);
        instruction
    };
    let unbound = Operand::Bound {
        index: 0,
        offset: 0,
    };
    let cases = [
        Instruction::default(),
        wrong(|relu| relu.opcode = 0xFF),
        wrong(|relu| relu.engine = Engine::Dve.index() as u8),
        wrong(|relu| relu.engine = 5),
        wrong(|relu| relu.opcode = Opcode::MatMul as u8),
        wrong(|relu| relu.dtype = 3),
        wrong(|relu| relu.dtype = Dtype::U8 as u8),
        wrong(|relu| relu.rows = U32::ZERO),
        wrong(|relu| (relu.rows, relu.cols) = (U32::new(u32::MAX), U32::new(u32::MAX))),
        Instruction::wait(Engine::Act, map::INFERENCE_START),
        Instruction::signal(Engine::Act, map::INFERENCE_START),
        relu.operands(unbound, unbound, unbound),
        Instruction {
            a: U64::new(unbound.to_raw()),
            ..Instruction::jump(Engine::Act, data)
        },
    ];
    for case in cases {
        let mut code = only(Engine::Act, &[relu, case]);
        // Engines that wait for the one that fails are ended too, and what they would take is gone.
        code[4] = vec![
            Instruction::signal(Engine::Sp, SEMAPHORE),
            Instruction::wait(Engine::Sp, SemIndex::new(21)),
        ];
        let posted = client.run(&code);
        posted.assert_sequencer_error();
        assert_eq!(posted.errors[0].mask.get(), 1 << Engine::Act.index());
        assert_eq!(client.machine.read_semaphore(CORE, SEMAPHORE), Ok(0));
        client.assert_still_works();
    }
}

fn an_address_outside_memory_is_reported_with_its_line(rig: &Rig) {
    let mut client = client(rig);
    let data = client.place(&[0; 64]);
    let end = DeviceAddr::new(rig.end_of_hbm() - 4);
    let addresses = client.machine.shape().addresses;
    let nop = instruction(Engine::Pool, Opcode::Sum, (1, 1), [data, NOWHERE, data]);
    let reach = |a, out| instruction(Engine::Pool, Opcode::Sum, (2, 2), [a, NOWHERE, out]);
    let table = Instruction::bind(Engine::Pool, NOWHERE);
    let bound = Operand::Bound {
        index: 1,
        offset: 0,
    };
    let body = client.place([nop, nop, nop, reach(NOWHERE, data)].as_bytes());
    let host = client.machine.allocate(Place::Host, 64, 64).unwrap();
    let jump = |to| Instruction::jump(Engine::Pool, to);
    let cases = [
        (vec![reach(NOWHERE, data)], 0),
        (vec![nop, reach(end, data)], 1),
        (vec![nop, nop, reach(data, end)], 2),
        (vec![nop, reach(data, addresses.sequencer_memory(CORE))], 1),
        (vec![table, nop.operands(bound, bound, bound)], 1),
        // After a jump, lines count from where it went.
        (vec![nop, jump(body)], 3),
        (vec![nop, jump(NOWHERE)], 0),
        // Operands may lie in host memory, instructions may not.
        (vec![jump(host)], 0),
        (vec![jump(end)], 0),
    ];
    for (instructions, line) in cases {
        let posted = client.run_one(Engine::Pool, &instructions);
        let expected = [Subtype::Start, Subtype::Custom, Subtype::End];
        assert_eq!(posted.subtypes(Engine::Pool), expected);
        let custom = &posted.status[Engine::Pool.index()][1];
        assert_eq!(
            (custom.custom(), custom.isa_line()),
            (Custom::OutOfBounds(0), line)
        );
        assert_eq!(posted.errors, []);
        client.assert_still_works();
    }
}

fn nan_is_reported_once_per_engine_and_the_result_stands(rig: &Rig) {
    let mut client = client(rig);
    let input = client.place([f32::NAN, 1.0, 2.0, 2.0].as_bytes());
    let out = client.place(&[0; 16]);
    let softmax = instruction(Engine::Act, Opcode::Softmax, (2, 2), [input, NOWHERE, out]);
    let halt = Instruction::halt(Engine::Act);
    let posted = client.run_one(Engine::Act, &[softmax, softmax, halt]);
    posted.assert_start_and_end_only();
    assert_eq!(posted.kinds(), [ErrorKind::Numerical]);
    let end = posted.status[Engine::Act.index()][1].device_ts.get();
    assert!(posted.errors[0].device_ts.get() < end);
    let result = client.floats(out, 4);
    assert!(result[0].is_nan() && result[1].is_nan());
    assert_eq!(result[2..], [0.5, 0.5]);
}
