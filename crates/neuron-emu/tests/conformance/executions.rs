//! Doorbells: what is published too late or in another order is told, and what runs while its core is reset is dropped.
//!
//! Spec `driver_emulation.md` section 5, the sequencer.

use crate::client::{BLOCK, Client, ENGINES, ERRORS, IN_ORDER, Part, halting, queues, subtype};
use crate::node::Node;
use crate::{small, with_node};
use xu_abi::driver::dma::QueueState;
use xu_abi::driver::errno::Answer::Done;
use xu_abi::driver::unverified::{NQ_ENABLE, NQ_TAIL};
use xu_abi::driver::{
    DmaEngSetState, EngineState, Semaphore, ioctl as row, nq_register::NQ_STRIDE,
};
use xu_abi::record::Subtype;
use xu_abi::{Engine, ErrorRecord, SemIndex};
use xu_device::simulated::isa::Instruction;
use zerocopy::FromBytes;

/// One that programs may wait for.
const SEMAPHORE: u8 = 20;

/// What the engines post for one doorbell, and whether there is an error.
fn outcome(client: &mut Client<'_>) -> ([Vec<Subtype>; ENGINES], bool) {
    let mut seen: [Vec<Subtype>; ENGINES] = Default::default();
    for (queue, subtypes) in seen.iter_mut().enumerate() {
        while subtypes.last() != Some(&Subtype::End) {
            subtypes.push(subtype(client.await_next(queue)));
        }
    }
    let error = client.next(ERRORS);
    if let Some(record) = error {
        ErrorRecord::read_from_bytes(&record).unwrap();
    }
    (seen, error.is_some())
}

fn succeeded() -> ([Vec<Subtype>; ENGINES], bool) {
    let both = [Subtype::Start, Subtype::End];
    (std::array::from_fn(|_| both.to_vec()), false)
}

#[test]
fn a_doorbell_before_its_request_is_an_error_and_not_a_success() {
    use Part::{Event, Request, RxTail, TxTail};
    let orders: [&[Part]; 7] = [
        // Nothing at all, or the tails alone.
        &[],
        &[TxTail, RxTail],
        // The tails before the request, before the event, and before both.
        &[TxTail, RxTail, Request, Event],
        &[Request, TxTail, RxTail, Event],
        &[Event, TxTail, RxTail, Request],
        // Something is missing.
        &[Request, TxTail, RxTail],
        &[Event, TxTail, RxTail],
    ];
    for order in orders {
        with_node(small(), |node| {
            let mut client = Client::open(node);
            client.load(&halting());
            client.execute();
            assert_eq!(outcome(&mut client), succeeded());
            // The rings have what was published, as far as it is in them when the bell rings.
            client.publish(order);
            client.ring();
            let (_, is_error) = outcome(&mut client);
            assert!(is_error, "{order:?}");
        });
    }
}

#[test]
fn a_doorbell_before_its_descriptors_are_in_memory_is_an_error() {
    with_node(small(), |node| {
        let mut client = Client::open(node);
        client.load(&halting());
        client.ring();
        let (_, is_error) = outcome(&mut client);
        assert!(is_error);
        // The queue has stopped: what is published now comes too late.
        let state = client.queue_state().sw_status;
        assert_eq!(state, QueueState::Aborted.raw());
        client.publish(&IN_ORDER);
        client.ring();
        assert!(outcome(&mut client).1);
    });
}

#[test]
fn a_doorbell_before_the_bytes_of_its_request_are_in_memory_is_an_error() {
    with_node(small(), |node| {
        let mut client = Client::open(node);
        // Memory of the device is not zero, so that nobody relies on it.
        client.execute();
        assert!(outcome(&mut client).1);
        client.load(&halting());
        client.execute();
        assert_eq!(outcome(&mut client), succeeded());
    });
}

/// The first engine waits for a semaphore, the others end.
fn waiting() -> [Vec<Instruction>; ENGINES] {
    let mut programs = halting();
    let wait = Instruction::wait(Engine::Pe, SemIndex::new(SEMAPHORE));
    programs[Engine::Pe.index()].insert(0, wait);
    programs
}

#[test]
fn what_runs_while_its_core_is_reset_is_dropped_and_the_core_works_again() {
    with_node(small(), |node| {
        for round in 0..5 {
            let mut client = Client::open(node);
            client.load(&waiting());
            client.execute();
            // It runs.
            let begun = subtype(client.await_next(Engine::Pe.index()));
            assert_eq!(begun, Subtype::Start);
            node.reset_core();
            assert_eq!(client.register(BLOCK + NQ_ENABLE), 0, "round {round}");
            assert_eq!(
                client.queue_state().sw_status,
                QueueState::Disabled.raw(),
                "round {round}"
            );
            let mut again = Client::open(node);
            again.load(&halting());
            // What it waited for comes, and nobody is there who would post in rings that are not for it.
            let release = Semaphore {
                nc_id: 0,
                semaphore_index: SEMAPHORE.into(),
                value: 1,
            };
            assert_eq!(node.call(row::SEMAPHORE_INCREMENT, release), Done);
            again.execute();
            assert_eq!(outcome(&mut again), succeeded(), "round {round}");
            for nq in queues().into_iter().take(ENGINES) {
                let tail = BLOCK + NQ_STRIDE * u64::from(nq) + NQ_TAIL;
                assert_eq!(again.register(tail), 32, "round {round}");
            }
            node.reset_core();
        }
    });
}

fn tell(node: &Node, state: EngineState) {
    let argument = DmaEngSetState {
        // It brings core 0 its requests.
        eng_id: 0,
        state: state.raw(),
    };
    assert_eq!(node.call(row::DMA_ENG_SET_STATE, argument), Done);
}

#[test]
fn a_request_waits_for_an_engine_that_is_disabled_and_ends_in_error_when_it_aborts() {
    with_node(small(), |node| {
        let mut client = Client::open(node);
        client.load(&halting());
        client.execute();
        assert_eq!(outcome(&mut client), succeeded());
        tell(node, EngineState::Disable);
        client.execute();
        assert_eq!(client.queue_state().head_pointer, 4, "nothing is fetched");
        tell(node, EngineState::Normal);
        assert_eq!(outcome(&mut client), succeeded());
        tell(node, EngineState::Disable);
        client.execute();
        tell(node, EngineState::Abort);
        assert!(outcome(&mut client).1);
        assert_eq!(client.queue_state().sw_status, QueueState::Aborted.raw());
        tell(node, EngineState::Normal);
        let mut again = Client::open(node);
        again.load(&halting());
        again.execute();
        assert_eq!(outcome(&mut again), succeeded());
    });
}
