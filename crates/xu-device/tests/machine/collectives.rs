//! Cores that wait for each other: the context, the rendezvous, the count of barriers.

use crate::support::{
    CORE, Client, Part, Posted, Rings, WHOLE, at, faulty, halting, small, stepped,
};
use std::sync::Arc;
use xu_abi::record::ErrorKind;
use xu_abi::{Engine, ExecRequest, RequestBuffer, TpbIndex};
use xu_device::program::Membership;
use xu_device::simulated::isa::Instruction;
use xu_device::simulated::{Fault, Machine, Rule, When};
use xu_device::{Device, DeviceError, map};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// What a publish with a context consists of, each part of which a test may get wrong.
#[derive(Clone)]
struct Publish {
    context: [u8; 64],
    /// Bytes of the context that are copied.
    len: u32,
    trailer: u32,
    /// Where the increment lies among the constants: 1, 4, 5.
    increment: u64,
    /// Whether the context comes before the event instead of after it.
    early: bool,
}

impl Publish {
    fn of(group: u32, rank: u32, ranks: u32) -> Self {
        Self {
            context: Membership { group, rank, ranks }.context(),
            len: 64,
            trailer: 1,
            increment: 8,
            early: false,
        }
    }

    fn arm(&self, client: &mut Client, request: &ExecRequest) {
        let buffer = RequestBuffer {
            body: *request,
            cc_dma_increment: U32::new(self.trailer),
        };
        let buffer = client.place(buffer.as_bytes());
        let context = client.place(&self.context);
        let (tpb, constants) = (client.tpb, client.constants);
        let increment = at(constants, self.increment);
        let mut copies = vec![
            (buffer, map::AddressMap::Simulated.sequencer_memory(tpb), 52),
            (
                constants,
                map::AddressMap::Simulated.event_register(tpb, map::REQUEST_LOADED),
                4,
            ),
            (
                context,
                map::AddressMap::Simulated.collectives_context(tpb),
                self.len,
            ),
            (
                increment,
                map::AddressMap::Simulated.tx_tail_increment(tpb),
                4,
            ),
            (
                increment,
                map::AddressMap::Simulated.rx_tail_increment(tpb),
                4,
            ),
        ];
        if self.early {
            copies.swap(1, 2);
        }
        for (from, to, len) in copies {
            client.rings.copy(&client.machine, from, to, len);
        }
    }
}

/// Rings a core with a rank of a group.
fn join(client: &mut Client, group: u32, rank: u32, ranks: u32) {
    let request = client.request(&halting());
    Publish::of(group, rank, ranks).arm(client, &request);
    client.fire();
}

fn clients(machine: &Arc<Machine>) -> Vec<Client> {
    (0..machine.shape().tpbs)
        .map(|tpb| Client::open(machine, TpbIndex::new(tpb), 4096))
        .collect()
}

fn barriers(client: &Client) -> i32 {
    let semaphore = map::COLLECTIVES_BARRIER;
    client
        .machine
        .read_semaphore(client.tpb, semaphore)
        .unwrap()
}

fn is_busy(client: &Client) -> bool {
    let tpb = client.tpb;
    client
        .machine
        .quiesce(tpb, std::time::Duration::from_secs(2))
        == Err(DeviceError::Busy { tpb })
}

fn assert_silent(posted: &Posted) {
    assert_eq!(posted.status.concat(), []);
    assert_eq!(posted.errors, []);
}

#[test]
fn no_engine_starts_before_the_last_rank_has_come_however_late() {
    for ranks in 2..=4u16 {
        for late in 0..ranks {
            let machine = Machine::start(stepped(ranks, 3)).unwrap();
            let mut clients = clients(&machine);
            let others = (0..ranks).filter(|rank| *rank != late);
            for rank in others.clone() {
                join(
                    &mut clients[usize::from(rank)],
                    9,
                    rank.into(),
                    ranks.into(),
                );
                machine.run_until_idle();
                machine.advance(core::time::Duration::from_secs(600));
            }
            for rank in others {
                let client = &mut clients[usize::from(rank)];
                assert_silent(&client.drain());
                assert!(is_busy(client));
                assert_eq!(barriers(client), 0);
            }
            join(
                &mut clients[usize::from(late)],
                9,
                late.into(),
                ranks.into(),
            );
            for client in &mut clients {
                client.drain().assert_clean();
                assert_eq!(barriers(client), 1);
                assert!(!is_busy(client));
            }
        }
    }
}

#[test]
fn generations_of_a_group_follow_each_other_and_groups_do_not_mix() {
    let machine = Machine::start(stepped(4, 4)).unwrap();
    let mut clients = clients(&machine);
    for generation in 1..=5 {
        for (core, (group, rank)) in [(7, 0), (8, 1), (7, 1)].into_iter().enumerate() {
            join(&mut clients[core], group, rank, 2);
        }
        clients[0].drain().assert_clean();
        clients[2].drain().assert_clean();
        assert_silent(&clients[1].drain());
        assert!(is_busy(&clients[1]));
        join(&mut clients[3], 8, 0, 2);
        for client in [1, 3] {
            clients[client].drain().assert_clean();
        }
        assert_eq!(
            [0, 1, 2, 3].map(|core| barriers(&clients[core])),
            [generation; 4]
        );
        // An execution without a context passes no barrier.
        clients[0].assert_still_works();
        assert_eq!(barriers(&clients[0]), generation);
    }
}

#[test]
fn a_core_alone_passes_at_once() {
    let mut client = Client::start(stepped(1, 4));
    join(&mut client, 0, 0, 1);
    client.drain().assert_clean();
    assert_eq!(barriers(&client), 1);
}

#[test]
fn ranks_meet_in_real_time_and_one_that_waits_is_busy_at_once() {
    let machine = Machine::start(small(3, 5)).unwrap();
    let mut clients = clients(&machine);
    for generation in 1..=50 {
        for rank in 0..2 {
            join(&mut clients[rank as usize], 1, rank, 3);
        }
        clients[0].assert_hangs();
        join(&mut clients[2], 1, 2, 3);
        for client in &mut clients {
            client.harvest().assert_clean();
            assert_eq!(barriers(client), generation);
            assert_eq!(
                machine.quiesce(client.tpb, std::time::Duration::from_secs(2)),
                Ok(())
            );
        }
    }
    join(&mut clients[1], 1, 0, 3);
    clients[1].assert_hangs();
    // Dropped while one waits.
}

#[test]
fn d2_a_publish_whose_trailer_does_not_count_its_pairs_is_an_error() {
    let right = Publish::of(1, 0, 1);
    let with = |alter: fn(&mut Publish)| {
        let mut publish = right.clone();
        alter(&mut publish);
        publish
    };
    let wrong = [
        with(|publish| publish.trailer = 0),
        with(|publish| publish.trailer = 2),
        with(|publish| publish.trailer = 0xA5A5_A5A5),
        with(|publish| publish.increment = 4),
        with(|publish| publish.len = 60),
        with(|publish| publish.early = true),
        Publish::of(1, 1, 1),
        Publish::of(1, 0, 0),
    ];
    for (case, publish) in wrong.iter().enumerate() {
        let mut client = Client::start(stepped(1, 6));
        let request = client.request(&halting());
        publish.arm(&mut client, &request);
        client.fire();
        client.drain().assert_sequencer_error();
        assert_eq!(barriers(&client), 0, "{case}");
        client.assert_still_works();
        join(&mut client, 1, 0, 1);
        client.drain().assert_clean();
        assert_eq!(barriers(&client), 1);
    }
    // And a plain publish whose trailer promises a context.
    let mut client = Client::start(stepped(1, 6));
    let request = client.request(&halting());
    let buffer = RequestBuffer {
        body: request,
        cc_dma_increment: U32::new(1),
    };
    let buffer = client.place(buffer.as_bytes());
    let to = map::AddressMap::Simulated.sequencer_memory(client.tpb);
    client.rings.copy(&client.machine, buffer, to, 52);
    client.arm(&request, &[Part::Event, Part::TxTail, Part::RxTail]);
    client.fire();
    client.drain().assert_sequencer_error();
    client.arm(&request, &WHOLE);
    client.fire();
    client.drain().assert_clean();
}

#[test]
fn d4_a_rank_that_is_taken_or_counts_differently_is_an_error_of_its_own_core() {
    let machine = Machine::start(stepped(3, 7)).unwrap();
    let mut clients = clients(&machine);
    join(&mut clients[0], 1, 0, 2);
    assert_silent(&clients[0].drain());
    for (rank, ranks) in [(0, 2), (1, 3)] {
        join(&mut clients[1], 1, rank, ranks);
        clients[1].drain().assert_sequencer_error();
        assert_silent(&clients[0].drain());
        assert!(is_busy(&clients[0]));
    }
    join(&mut clients[2], 1, 1, 2);
    clients[0].drain().assert_clean();
    clients[2].drain().assert_clean();
    assert_eq!([0, 1, 2].map(|core| barriers(&clients[core])), [1, 0, 1]);
}

#[test]
fn d7_a_core_whose_queue_is_opened_again_leaves_its_group_and_counts_from_zero() {
    let machine = Machine::start(stepped(2, 8)).unwrap();
    let mut clients = clients(&machine);
    for rank in 0..2 {
        join(&mut clients[rank as usize], 1, rank, 2);
    }
    for client in &mut clients {
        client.drain().assert_clean();
    }
    join(&mut clients[0], 1, 0, 2);
    assert_silent(&clients[0].drain());
    clients[0].rings = Rings::open(&machine, map::model_exec_queue(CORE));
    assert_eq!([0, 1].map(|core| barriers(&clients[core])), [0, 1]);
    // What it held back is gone, without a record.
    assert_silent(&clients[0].drain());
    assert!(!is_busy(&clients[0]));
    join(&mut clients[1], 1, 1, 2);
    assert_silent(&clients[1].drain());
    join(&mut clients[0], 1, 0, 2);
    for client in &mut clients {
        client.drain().assert_clean();
    }
    assert_eq!([0, 1].map(|core| barriers(&clients[core])), [1, 2]);
}

#[test]
fn d7_in_real_time_too_a_core_comes_to_rest_when_its_queue_is_opened_again() {
    let machine = Machine::start(small(2, 8)).unwrap();
    let mut clients = clients(&machine);
    for _ in 0..20 {
        join(&mut clients[0], 1, 0, 2);
        clients[0].assert_hangs();
        clients[0].rings = Rings::open(&machine, map::model_exec_queue(CORE));
        assert_eq!(
            machine.quiesce(CORE, std::time::Duration::from_secs(2)),
            Ok(())
        );
    }
    for rank in 0..2 {
        join(&mut clients[rank as usize], 1, rank, 2);
    }
    for client in &mut clients {
        client.harvest().assert_clean();
        assert_eq!(barriers(client), 1);
    }
}

#[test]
fn programs_keep_their_hands_off_the_barrier() {
    let mut client = Client::start(stepped(1, 9));
    let signal = Instruction::signal(Engine::Sp, map::COLLECTIVES_BARRIER);
    let posted = client.run_one(Engine::Sp, &[signal]);
    assert_eq!(posted.kinds(), [ErrorKind::SoftwareSequencer]);
    assert_eq!(barriers(&client), 0);
}

#[test]
fn a_fault_in_a_collective_hits_its_core_after_the_barrier() {
    let hang = Rule {
        when: When {
            core: Some(1),
            ..When::default()
        },
        fault: Fault::HangEngine { engine: Engine::Pe },
    };
    let machine = Machine::start(faulty(2, vec![hang])).unwrap();
    let mut clients = clients(&machine);
    for rank in 0..2 {
        join(&mut clients[rank as usize], 1, rank, 2);
    }
    clients[0].drain().assert_clean();
    let posted = clients[1].drain();
    assert_eq!(posted.status[Engine::Pe.index()].len(), 1);
    assert_eq!([0, 1].map(|core| barriers(&clients[core])), [1, 1]);
    assert!(is_busy(&clients[1]));
}
