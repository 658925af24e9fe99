//! Executions that do not end by themselves: what goes on beside them, and how they are left.

use crate::client;
use crate::client::{CORE, SEMAPHORE, WHOLE, instruction, only};
use lane_tests::Rig;
use xu_abi::Engine;
use xu_abi::record::Subtype;
use xu_device::simulated::isa::{Instruction, Opcode};
use xu_device::{Place, map};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

lane_tests::on_both! {
    a_semaphore_that_nobody_raises_hangs_the_core_until_it_is_dropped,
    a_hung_core_goes_on_when_the_semaphore_is_raised_from_outside,
    an_endless_program_holds_up_neither_other_engines_nor_the_drop,
}

fn a_semaphore_that_nobody_raises_hangs_the_core_until_it_is_dropped(rig: &Rig) {
    let mut client = client(rig);
    let halt = Instruction::halt(Engine::Sp);
    let request = client.request(&only(
        Engine::Sp,
        &[Instruction::wait(Engine::Sp, SEMAPHORE), halt],
    ));
    client.arm(&request, &WHOLE);
    client.fire();
    client.until_started(Engine::Sp);
    client.assert_hangs();
    client.fire();
    client.fire();
    assert_eq!(
        client.machine.read_semaphore(CORE, map::INFERENCE_START),
        Ok(2)
    );
    client.assert_hangs();
    assert_eq!(client.next_record(Engine::Sp).subtype(), Subtype::Start);
    let sp = &mut client.status[Engine::Sp.index()];
    assert!(sp.next(&client.machine).is_none());
}

fn a_hung_core_goes_on_when_the_semaphore_is_raised_from_outside(rig: &Rig) {
    let mut client = client(rig);
    let code = [
        Instruction::wait(Engine::Sp, SEMAPHORE),
        Instruction::halt(Engine::Sp),
    ];
    let request = client.request(&only(Engine::Sp, &code));
    client.arm(&request, &WHOLE);
    client.fire();
    client.until_started(Engine::Sp);
    client.assert_hangs();
    client.machine.increment_semaphore(CORE, SEMAPHORE).unwrap();
    client.harvest().assert_clean();
    client.assert_at_rest();
}

fn an_endless_program_holds_up_neither_other_engines_nor_the_drop(rig: &Rig) {
    let mut client = client(rig);
    let body = client.machine.allocate(Place::Hbm(CORE), 64, 64).unwrap();
    let jump = Instruction::jump(Engine::Dve, body);
    client.machine.write(body, jump.as_bytes()).unwrap();
    let mut code = only(Engine::Dve, &[jump]);
    // SP stalls long before PE has done its work.
    let data = client.place(&[0; 4]);
    code[0] = vec![instruction(Engine::Pe, Opcode::MatMul, (1, 1), [data; 3]); 64];
    code[0]
        .iter_mut()
        .for_each(|product| product.inner = U32::new(1));
    code[0].push(Instruction::signal(Engine::Pe, SEMAPHORE));
    code[0].push(Instruction::halt(Engine::Pe));
    code[4] = vec![
        Instruction::wait(Engine::Sp, SEMAPHORE),
        Instruction::halt(Engine::Sp),
    ];
    let request = client.request(&code);
    client.arm(&request, &WHOLE);
    client.fire();
    for (engine, subtype) in [
        (Engine::Dve, Subtype::Start),
        (Engine::Sp, Subtype::Start),
        (Engine::Sp, Subtype::End),
    ] {
        assert_eq!(client.next_record(engine).subtype(), subtype, "{engine}");
    }
}
