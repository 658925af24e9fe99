//! The machine as a driver sees it: queues of engines, notification registers, semaphores, reset.

use crate::support::{CORE, Client, SEMAPHORE, WHOLE, halting, only, small, stepped};
use std::sync::Arc;
use xu_abi::descriptor::CopyPair;
use xu_abi::device::ERROR_NQ;
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{DeviceAddr, Engine, EventIndex, RingId, SemIndex};
use xu_device::simulated::isa::Instruction;
use xu_device::simulated::{Machine, QueueStatus, RingSpec};
use xu_device::{Device, DeviceError, Place, map};
use zerocopy::IntoBytes;

/// Those that belong to no core.
const ENGINE: u32 = 5;
const QUEUE: u32 = 3;
const NQ: u8 = 4;

/// Rings of different lengths on a queue that belongs to no core.
struct Uneven {
    machine: Arc<Machine>,
    tx: RingSpec,
    rx: RingSpec,
    /// Descriptors written to each.
    written: [u32; 2],
    from: DeviceAddr,
    to: DeviceAddr,
}

impl Uneven {
    fn new(machine: &Arc<Machine>, tx: u32, rx: u32) -> Self {
        let ring = |descriptors: u32| RingSpec {
            base: machine
                .allocate(Place::Host, u64::from(descriptors) * 16, 256)
                .unwrap(),
            descriptors,
        };
        let place = || machine.allocate(Place::Host, 64, 64).unwrap();
        let (tx, rx) = (ring(tx), ring(rx));
        machine.ports().init_queue(ENGINE, QUEUE, tx, rx).unwrap();
        Self {
            machine: Arc::clone(machine),
            tx,
            rx,
            written: [0; 2],
            from: place(),
            to: place(),
        }
    }

    /// The ring id of a lap, counted from 0.
    fn id(lap: u32) -> RingId {
        (0..lap).fold(RingId::FIRST, |id, _| id.next())
    }

    fn source(&mut self, bytes: u32) {
        let [written, _] = self.written;
        let pair = self.pair(written / self.tx.descriptors, bytes);
        self.put(self.tx, written, pair.tx.as_bytes());
        self.written[0] += 1;
    }

    fn destination(&mut self, bytes: u32) {
        let [_, written] = self.written;
        let pair = self.pair(written / self.rx.descriptors, bytes);
        self.put(self.rx, written, pair.rx.as_bytes());
        self.written[1] += 1;
    }

    fn pair(&self, lap: u32, bytes: u32) -> CopyPair {
        CopyPair::new(self.from, self.to, bytes, Self::id(lap)).unwrap()
    }

    fn put(&self, ring: RingSpec, written: u32, descriptor: &[u8]) {
        let offset = u64::from(written % ring.descriptors) * 16;
        let at = ring.base.checked_add(offset).unwrap();
        self.machine.write(at, descriptor).unwrap();
    }

    fn start(&self, tx: u32, rx: u32) -> QueueStatus {
        let ports = self.machine.ports();
        ports.start_queue(ENGINE, QUEUE, tx, rx).unwrap();
        ports.queue_state(ENGINE, QUEUE).0
    }

    fn word(&self) -> u32 {
        self.machine.load_acquire(self.to).unwrap()
    }
}

#[test]
fn ring_ids_advance_at_each_rings_own_wrap_for_five_wraps() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let mut uneven = Uneven::new(&machine, 32, 48);
    for number in 0..5 * 48 {
        machine.write(uneven.from, number.as_bytes()).unwrap();
        uneven.source(4);
        uneven.destination(4);
        assert_eq!(uneven.start(1, 1), QueueStatus::Running, "{number}");
        assert_eq!(uneven.word(), number);
        let done = number + 1;
        let (_, [tx, rx]) = machine.ports().queue_state(ENGINE, QUEUE);
        for (state, length) in [(tx, 32), (rx, 48)] {
            let id = Uneven::id(done / length).get();
            assert_eq!((state.head, state.tail), (done % length, done % length));
            assert_eq!((state.head_id, state.tail_id), (id, id));
            assert_eq!(state.ring.descriptors, length);
        }
    }
}

#[test]
fn a_descriptor_of_the_last_lap_of_either_ring_aborts() {
    for stale_tx in [true, false] {
        let machine = Machine::start(small(1, 0)).unwrap();
        let mut uneven = Uneven::new(&machine, 32, 32);
        for _ in 0..32 {
            uneven.source(4);
            uneven.destination(4);
        }
        assert_eq!(uneven.start(32, 32), QueueStatus::Running);
        if stale_tx {
            uneven.destination(4);
        } else {
            uneven.source(4);
        }
        assert_eq!(uneven.start(1, 1), QueueStatus::Aborted);
    }
}

#[test]
fn destinations_may_come_first_and_sources_may_not() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let mut uneven = Uneven::new(&machine, 32, 32);
    machine.write(uneven.from, 9u32.as_bytes()).unwrap();
    for _ in 0..3 {
        uneven.destination(4);
    }
    assert_eq!(uneven.start(0, 3), QueueStatus::Running);
    let (_, [tx, rx]) = machine.ports().queue_state(ENGINE, QUEUE);
    assert_eq!((tx.head, tx.tail, rx.head, rx.tail), (0, 0, 0, 3));
    assert_ne!(uneven.word(), 9);
    uneven.source(4);
    assert_eq!(uneven.start(1, 0), QueueStatus::Running);
    assert_eq!(uneven.word(), 9);
    for _ in 0..3 {
        uneven.source(4);
    }
    // Three sources, and two destinations are left.
    assert_eq!(uneven.start(3, 0), QueueStatus::Aborted);
    let (_, [tx, rx]) = machine.ports().queue_state(ENGINE, QUEUE);
    assert_eq!((tx.head, tx.tail, rx.head, rx.tail), (3, 4, 3, 3));
}

#[test]
fn lengths_that_differ_abort_until_the_queue_is_initialised_again() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let mut uneven = Uneven::new(&machine, 32, 32);
    uneven.source(4);
    uneven.destination(8);
    assert_eq!(uneven.start(1, 1), QueueStatus::Aborted);
    let mut again = Uneven::new(&machine, 32, 32);
    again.source(4);
    again.destination(4);
    assert_eq!(again.start(1, 1), QueueStatus::Running);
}

#[test]
fn an_engine_that_is_held_moves_nothing_and_then_what_it_was_given() {
    for config in [small(1, 0), stepped(1, 0)] {
        let machine = Machine::start(config).unwrap();
        let ports = machine.ports();
        ports.hold_engine(ENGINE, true).unwrap();
        // A queue that is opened on it waits with it.
        let mut uneven = Uneven::new(&machine, 32, 32);
        machine.write(uneven.from, 9u32.as_bytes()).unwrap();
        uneven.source(4);
        uneven.destination(4);
        assert_eq!(uneven.start(1, 1), QueueStatus::Running);
        assert_ne!(uneven.word(), 9);
        ports.hold_engine(ENGINE, false).unwrap();
        assert_eq!(uneven.word(), 9);
        let (status, [tx, rx]) = ports.queue_state(ENGINE, QUEUE);
        assert_eq!((status, tx.head, rx.head), (QueueStatus::Running, 1, 1));
    }
}

#[test]
fn queues_of_an_engine_that_aborts_move_nothing_until_they_are_initialised_again() {
    for config in [small(1, 0), stepped(1, 0)] {
        let machine = Machine::start(config).unwrap();
        let mut uneven = Uneven::new(&machine, 32, 32);
        machine.write(uneven.from, 9u32.as_bytes()).unwrap();
        machine.ports().abort_engine(ENGINE).unwrap();
        uneven.source(4);
        uneven.destination(4);
        assert_eq!(uneven.start(1, 1), QueueStatus::Aborted);
        assert_ne!(uneven.word(), 9);
        let mut again = Uneven::new(&machine, 32, 32);
        machine.write(again.from, 9u32.as_bytes()).unwrap();
        again.source(4);
        again.destination(4);
        assert_eq!(again.start(1, 1), QueueStatus::Running);
        assert_eq!(again.word(), 9);
    }
}

#[test]
fn a_queue_without_rings_is_closed_and_starting_it_does_nothing() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let ports = machine.ports();
    for engine in [ENGINE, 0, 1, 131, u32::MAX] {
        ports.start_queue(engine, 0, 1, 1).unwrap();
        assert_eq!(ports.queue_state(engine, 0), Default::default());
    }
    let none = RingSpec::default();
    ports.init_queue(ENGINE, QUEUE, none, none).unwrap();
    ports.start_queue(ENGINE, QUEUE, 1, 1).unwrap();
    assert_eq!(ports.queue_state(ENGINE, QUEUE).0, QueueStatus::Aborted);
}

#[test]
fn a_copy_moves_pieces_and_stops_where_nothing_is() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let bytes: Vec<u8> = (0..200_001u32).map(|byte| byte as u8).collect();
    let length = bytes.len() as u64;
    let from = machine.allocate(Place::Host, length, 64).unwrap();
    let to = machine.allocate(Place::Hbm(CORE), length, 64).unwrap();
    machine.write(from, &bytes).unwrap();
    for count in [0, 1, 65_535, 65_536, 65_537, 200_001] {
        machine.write(to, &vec![0xEE; bytes.len()]).unwrap();
        machine.ports().copy(from, to, count).unwrap();
        let mut back = vec![0; bytes.len()];
        machine.read(to, &mut back).unwrap();
        let (copied, rest) = back.split_at(count as usize);
        assert_eq!(copied, &bytes[..copied.len()]);
        assert!(rest.iter().all(|byte| *byte == 0xEE));
    }
    let nowhere = DeviceAddr::new(u64::MAX - 4);
    for (from, to) in [(from, nowhere), (nowhere, to)] {
        let refused = machine.ports().copy(from, to, 1 << 20);
        assert!(matches!(refused, Err(DeviceError::BadAddress { .. })));
    }
}

/// A stepped machine with a client, one of whose queues has a ring of this many records.
fn with_ring(records: u64) -> (Client, DeviceAddr) {
    let client = Client::start(stepped(1, 4));
    let bytes = records * RECORD_SIZE;
    let base = client.machine.allocate(Place::Host, bytes, 64).unwrap();
    client
        .machine
        .ports()
        .program_notification(CORE, NQ, base, bytes as u32)
        .unwrap();
    (client, base)
}

/// Executes programs that halt: two records on each queue of an engine.
fn execute(client: &mut Client, times: usize) {
    let request = client.request(&halting());
    for _ in 0..times {
        client.arm(&request, &WHOLE);
        client.fire();
        assert!(client.machine.run_until_idle());
    }
}

/// Byte 3 of a record: phase, overflow, tag.
fn bits(client: &Client, base: DeviceAddr, index: u64) -> u8 {
    let at = base.checked_add(index * RECORD_SIZE).unwrap();
    client.machine.load_acquire(at).unwrap().to_le_bytes()[3]
}

#[test]
fn the_phase_flips_at_each_wrap_for_five_laps_of_programmed_rings() {
    let (mut client, base) = with_ring(8);
    let ports = client.machine.clone();
    let ports = ports.ports();
    for lap in 0..5 {
        for pair in 0..4 {
            execute(&mut client, 1);
            let tail = (pair + 1) * 2 % 8 * RECORD_SIZE;
            assert_eq!(ports.notification_ends(CORE, NQ).unwrap().1, tail);
            for index in [2 * pair, 2 * pair + 1] {
                let phase = bits(&client, base, index) & ring_bits::PHASE != 0;
                assert_eq!(phase, lap % 2 == 0, "lap {lap}, record {index}");
            }
            ports.move_notification_head(CORE, NQ, tail).unwrap();
        }
    }
    assert_eq!(ports.notification_overflows(CORE), Ok(0));
}

#[test]
fn a_queue_that_is_not_enabled_or_halted_drops_without_a_trace() {
    let (mut client, base) = with_ring(8);
    let machine = Arc::clone(&client.machine);
    let ports = machine.ports();
    let enabled = ports.notification_policy(CORE).unwrap().enabled;
    assert_eq!(enabled, 0b1_1111_0100, "those that were opened");
    machine.write(base, &[0; 8 * 16]).unwrap();
    ports
        .change_notification_policy(CORE, |policy| policy.enabled &= !(1 << NQ))
        .unwrap();
    execute(&mut client, 1);
    assert_eq!(ports.notification_ends(CORE, NQ), Ok((0, 0)));
    assert_eq!(bits(&client, base, 0), 0);
    ports
        .change_notification_policy(CORE, |policy| policy.enabled |= 1 << NQ)
        .unwrap();
    execute(&mut client, 1);
    assert_eq!(ports.notification_ends(CORE, NQ), Ok((0, 32)));
    let halt = ports.program_notification(CORE, NQ, base, 0);
    assert_eq!(halt, Ok(()));
    execute(&mut client, 1);
    assert!(ports.notification_ends(CORE, NQ).is_err());
    assert!(ports.move_notification_head(CORE, NQ, 0).is_err());
    assert_eq!(ports.notification_overflows(CORE), Ok(0));
}

#[test]
fn a_full_ring_drops_latches_and_the_next_record_carries_bit_29() {
    let (mut client, base) = with_ring(4);
    let machine = Arc::clone(&client.machine);
    let ports = machine.ports();
    execute(&mut client, 2);
    assert_eq!(ports.notification_overflows(CORE), Ok(1 << NQ));
    assert_eq!(ports.notification_ends(CORE, NQ), Ok((0, 48)));
    for head in [8, 64, u64::MAX] {
        assert!(ports.move_notification_head(CORE, NQ, head).is_err());
    }
    ports.move_notification_head(CORE, NQ, 48).unwrap();
    // Beyond the tail.
    assert!(ports.move_notification_head(CORE, NQ, 0).is_err());
    execute(&mut client, 1);
    assert_ne!(bits(&client, base, 3) & ring_bits::RING_OVERFLOW, 0);
    assert_eq!(bits(&client, base, 0) & ring_bits::RING_OVERFLOW, 0);
    // The cause stays until the ring is programmed again.
    assert_eq!(ports.notification_overflows(CORE), Ok(1 << NQ));
    ports.program_notification(CORE, NQ, base, 64).unwrap();
    assert_eq!(ports.notification_overflows(CORE), Ok(0));
}

#[test]
fn a_queue_that_overwrites_loses_the_oldest_records() {
    let (mut client, _) = with_ring(4);
    let machine = Arc::clone(&client.machine);
    let ports = machine.ports();
    ports
        .change_notification_policy(CORE, |policy| policy.overwrites = 1 << NQ)
        .unwrap();
    execute(&mut client, 3);
    // Six records, three of which are there.
    assert_eq!(ports.notification_ends(CORE, NQ), Ok((48, 32)));
    assert_eq!(ports.notification_overflows(CORE), Ok(0));
}

#[test]
fn a_core_stalls_on_a_full_queue_until_space_is_returned_and_loses_nothing() {
    let (mut client, base) = with_ring(4);
    let machine = Arc::clone(&client.machine);
    let ports = machine.ports();
    ports
        .change_notification_policy(CORE, |policy| policy.stalls = 1 << NQ)
        .unwrap();
    let request = client.request(&halting());
    for _ in 0..4 {
        client.arm(&request, &WHOLE);
        client.fire();
    }
    assert!(machine.run_until_idle());
    assert_eq!(ports.notification_ends(CORE, NQ), Ok((0, 48)));
    assert!(machine.quiesce(CORE, core::time::Duration::ZERO).is_err());
    let mut seen = 0;
    let mut marks = Vec::new();
    while seen < 8 {
        let (head, tail) = ports.notification_ends(CORE, NQ).unwrap();
        assert_ne!(head, tail, "after {seen} records");
        let at = base.checked_add(head).unwrap();
        let mut record = [0; 16];
        machine.read(at, &mut record).unwrap();
        assert_eq!(record[3] & ring_bits::RING_OVERFLOW, 0);
        assert_eq!(record[3] & ring_bits::PHASE != 0, seen / 4 % 2 == 0);
        marks.push(u64::from_le_bytes(record[8..].try_into().unwrap()));
        seen += 1;
        ports
            .move_notification_head(CORE, NQ, seen * RECORD_SIZE % 64)
            .unwrap();
        assert!(machine.run_until_idle());
    }
    assert!(marks.is_sorted(), "{marks:?}");
    assert_eq!(ports.notification_overflows(CORE), Ok(0));
    assert_eq!(machine.quiesce(CORE, core::time::Duration::ZERO), Ok(()));
}

#[test]
fn records_that_wait_follow_the_policy_when_it_changes() {
    let (mut client, _) = with_ring(4);
    let machine = Arc::clone(&client.machine);
    let ports = machine.ports();
    ports
        .change_notification_policy(CORE, |policy| policy.stalls = 1 << NQ)
        .unwrap();
    execute(&mut client, 2);
    assert!(machine.quiesce(CORE, core::time::Duration::ZERO).is_err());
    ports
        .change_notification_policy(CORE, |policy| policy.stalls = 0)
        .unwrap();
    assert!(machine.run_until_idle());
    assert_eq!(ports.notification_overflows(CORE), Ok(1 << NQ));
    assert_eq!(machine.quiesce(CORE, core::time::Duration::ZERO), Ok(()));
}

#[test]
fn semaphores_are_set_and_added_to_below_zero_and_saturate() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let ports = machine.ports();
    let value = || ports.semaphore(CORE, SEMAPHORE).unwrap();
    ports.add_to_semaphore(CORE, SEMAPHORE, -3).unwrap();
    assert_eq!(value(), -3);
    ports.add_to_semaphore(CORE, SEMAPHORE, i32::MIN).unwrap();
    assert_eq!(value(), i32::MIN);
    ports.set_semaphore(CORE, SEMAPHORE, i32::MAX).unwrap();
    ports.add_to_semaphore(CORE, SEMAPHORE, 1).unwrap();
    assert_eq!(value(), i32::MAX);
    let event = EventIndex::new(255);
    assert_eq!(ports.event(CORE, event), Ok(false));
    ports.set_event(CORE, event, true).unwrap();
    assert_eq!(ports.event(CORE, event), Ok(true));
}

#[test]
fn an_execution_begins_for_each_one_that_the_start_semaphore_is_above_zero() {
    for (below, added, runs) in [(0, 3, 3), (2, 3, 1), (2, 2, 0), (0, i32::MIN, 0)] {
        let (mut client, _) = with_ring(64);
        let machine = Arc::clone(&client.machine);
        let ports = machine.ports();
        let request = client.request(&halting());
        for _ in 0..runs {
            client.arm(&request, &WHOLE);
        }
        for value in [-below, added] {
            ports
                .add_to_semaphore(CORE, map::INFERENCE_START, value)
                .unwrap();
        }
        assert!(machine.run_until_idle());
        let (_, tail) = ports.notification_ends(CORE, NQ).unwrap();
        assert_eq!(tail, runs * 2 * RECORD_SIZE, "{below} below, {added}");
        assert_eq!(ports.notification_ends(CORE, ERROR_NQ), Ok((0, 0)));
    }
}

#[test]
fn a_core_that_is_reset_while_it_runs_posts_nothing_more_and_serves_the_next_client() {
    let machine = Machine::start(small(2, 5)).unwrap();
    let ports = machine.ports();
    let forever = {
        let pe = [Instruction::wait(Engine::Pe, SEMAPHORE)];
        only(Engine::Pe, &pe)
    };
    for _ in 0..20 {
        let mut client = Client::open(&machine, CORE, 4096);
        let request = client.request(&forever);
        client.arm(&request, &WHOLE);
        client.fire();
        // Whether it has begun or not.
        ports.reset(CORE).unwrap();
        for nq in 0..map::NOTIFICATION_QUEUES {
            assert!(ports.notification_ends(CORE, nq).is_err());
        }
        assert_eq!(ports.notification_policy(CORE), Ok(Default::default()));
        assert_eq!(ports.semaphore(CORE, map::INFERENCE_START), Ok(0));
        let (engine, queue) = map::engine_of(map::model_exec_queue(CORE));
        assert_eq!(ports.queue_state(engine, queue).0, QueueStatus::Closed);
        assert_eq!(machine.quiesce(CORE, core::time::Duration::ZERO), Ok(()));
        let mut next = Client::open(&machine, CORE, 4096);
        // What was dropped waits for this; it must not come back.
        machine.increment_semaphore(CORE, SEMAPHORE).unwrap();
        next.assert_still_works();
        ports.reset(CORE).unwrap();
        for client in [&client, &next] {
            for ring in [client.rings.tx, client.rings.rx, client.constants] {
                machine.release(ring).unwrap();
            }
        }
    }
}

#[test]
fn a_reset_forgets_semaphores_events_and_what_the_sequencer_has_loaded() {
    let (mut client, _) = with_ring(8);
    let machine = Arc::clone(&client.machine);
    let ports = machine.ports();
    execute(&mut client, 1);
    ports.set_semaphore(CORE, SemIndex::new(200), -4).unwrap();
    ports.set_event(CORE, EventIndex::new(9), true).unwrap();
    ports.reset(CORE).unwrap();
    assert_eq!(ports.semaphore(CORE, SemIndex::new(200)), Ok(0));
    assert_eq!(ports.event(CORE, EventIndex::new(9)), Ok(false));
    let mut next = Client::open(&machine, CORE, 4096);
    let mut keeping = next.request(&halting());
    keeping.reload_seq_config.set(0);
    next.arm(&keeping, &WHOLE);
    next.fire();
    next.harvest().assert_sequencer_error();
}

#[test]
fn a_lost_machine_refuses_every_port() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let ports = machine.ports();
    assert!(!ports.is_lost());
    ports.lose();
    assert!(ports.is_lost());
    let none = RingSpec::default();
    let lost = Err(DeviceError::Lost);
    assert_eq!(ports.set_semaphore(CORE, SEMAPHORE, 1), lost);
    assert_eq!(ports.init_queue(ENGINE, QUEUE, none, none), lost);
    assert_eq!(ports.start_queue(ENGINE, QUEUE, 1, 1), lost);
    assert_eq!(ports.reset(CORE), lost);
    let ring = DeviceAddr::new(map::HOST_BASE);
    assert_eq!(ports.program_notification(CORE, NQ, ring, 64), lost);
}
