//! Rules between processes: how many there may be, what one may do with the memory of another, and what is left of one that was
//! killed.
//!
//! The other process is this program, in a role.

use crate::node::{Node, QUEUE, address_of, open_as, queue_init};
use crate::{small, under};
use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Emulator, Supervised};
use nix::errno::Errno as Number;
use nix::fcntl::OFlag;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use xu_abi::driver::errno::Answer::Done;
use xu_abi::driver::errno::EACCES;
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{DmaQueueGetState, DmaQueueState, NotificationsInitWithReallocV2, Semaphore};

const ROLE: &str = "NEURON_EMU_CONFORMANCE_ROLE";
/// Processes that a device takes.
const PROCESSES: usize = 16;
/// Descriptors of the holder's rings: a page.
const RING: u32 = 256;
/// Descriptors of the ring that the driver gives to queues that nobody has.
const DUMMY_RING: u32 = 64;
const PAGE: usize = 4096;
/// First byte of the holder's chunk.
const MARK: u8 = 0x3C;
/// A semaphore that the holder sets, and to what.
const SEMAPHORE: (u32, i32) = (77, 1234);

/// Where the holder's things are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    ring: u64,
    notifications: u64,
}

/// A notification queue of core 0: an existing one, or a new one.
fn notification_ring(node: &Node) -> u64 {
    let mut ring = NotificationsInitWithReallocV2 {
        engine_index: 4,
        size: 4096,
        on_host_memory: 1,
        ..NotificationsInitWithReallocV2::ZEROED
    };
    assert_eq!(
        node.ask(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, &mut ring),
        Done
    );
    ring.mmap_offset
}

fn hold(node: &Node) -> Held {
    let chunk = node.queue(RING);
    assert_eq!(node.copy(chunk, 0, &mut [MARK], true), Done);
    let semaphore = Semaphore {
        nc_id: 0,
        semaphore_index: SEMAPHORE.0,
        value: SEMAPHORE.1,
    };
    assert_eq!(node.call(row::SEMAPHORE_WRITE, semaphore), Done);
    Held {
        ring: node.pa(chunk),
        notifications: notification_ring(node),
    }
}

/// Not a test: what the other process does. Without the role nothing.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let node = Node::open(0);
    let held = hold(&node);
    let mut output = std::io::stdout();
    writeln!(output, "\n> {} {}", held.ring, held.notifications).unwrap();
    output.flush().unwrap();
    // Until it is killed, or nobody is there.
    let _ended = std::io::stdin().read_line(&mut String::new());
}

/// Starts another process, which has the device open and holds something of it.
fn holder(emulator: &Arc<Emulator>) -> Option<(Supervised, Held)> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["processes::role", "--exact", "--nocapture"])
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut process = match Supervised::spawn(emulator, &mut command) {
        Ok(process) => process,
        Err(SpawnError::Unavailable(why)) => {
            println!("skipped: {why}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let lines = BufReader::new(process.child().stdout.take().unwrap()).lines();
    let said = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("> ").map(str::to_owned))
        .expect("it holds something");
    let numbers: Vec<u64> = said.split(' ').map(|word| word.parse().unwrap()).collect();
    let held = Held {
        ring: numbers[0],
        notifications: numbers[1],
    };
    Some((process, held))
}

#[test]
fn a_device_takes_sixteen_processes_and_one_more_when_one_has_ended() {
    let emulator = Emulator::start(small()).unwrap();
    let mut holders = Vec::new();
    for _ in 0..PROCESSES {
        let Some((holder, _)) = holder(&emulator) else {
            return;
        };
        holders.push(holder);
    }
    let attempt = || under(&emulator, || open_as(0, OFlag::O_RDWR).map(drop)).unwrap();
    assert_eq!(attempt(), Err(Number::EBUSY));
    let mut first = holders.remove(0);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(attempt(), Ok(()));
    assert_eq!(emulator.bugs(), []);
}

#[test]
fn another_process_may_read_a_chunk_and_not_write_it() {
    let emulator = Emulator::start(small()).unwrap();
    let Some((_holder, held)) = holder(&emulator) else {
        return;
    };
    under(&emulator, || {
        let node = Node::open(0);
        let looked = node.map_and_look(held.ring, PAGE, false);
        assert_eq!(looked, Ok(("r--s".to_owned(), MARK)));
        // The driver would map it without the right to write; this front end cannot, and says so.
        let refused = node.map_and_look(held.ring, PAGE, true);
        assert_eq!(refused, Err(EACCES));
        // Its own it may.
        let own = node.chunk(true, PAGE as u64);
        let looked = node.map_and_look(node.pa(own), PAGE, true);
        assert_eq!(looked, Ok(("rw-s".to_owned(), 0)));
    });
    assert_eq!(emulator.bugs(), []);
}

#[test]
fn of_a_killed_process_rings_of_notifications_and_semaphores_stay_and_its_queues_have_a_dummy_ring()
{
    let emulator = Emulator::start(small()).unwrap();
    let Some((mut process, held)) = holder(&emulator) else {
        return;
    };
    let before = under(&emulator, || queue_states(&Node::open(0))).unwrap();
    assert_eq!(
        before.map(|state| (state.base_addr, state.length)),
        [(held.ring, RING); 2]
    );
    process.kill().unwrap();
    process.wait().unwrap();
    let remains = emulator.remains();
    assert!(remains.is_empty(), "{remains}");
    under(&emulator, || {
        let node = Node::open(0);
        let states = queue_states(&node);
        let [tx, rx] = states.map(|state| (state.base_addr, state.length));
        assert_eq!(tx, rx);
        assert!(![0, held.ring].contains(&tx.0), "{tx:?}");
        assert_eq!(tx.1, DUMMY_RING);
        let mut semaphore = Semaphore {
            nc_id: 0,
            semaphore_index: SEMAPHORE.0,
            value: 0,
        };
        assert_eq!(node.ask(row::SEMAPHORE_READ, &mut semaphore), Done);
        assert_eq!(semaphore.value, SEMAPHORE.1);
        assert_eq!(notification_ring(&node), held.notifications);
        // The queue takes rings of another process.
        let ring = node.chunk(true, 4096);
        assert_eq!(node.call(row::DMA_QUEUE_INIT, queue_init(ring, 64)), Done);
    });
    assert_eq!(emulator.bugs(), []);
}

/// The Tx and the Rx ring of the queue.
fn queue_states(node: &Node) -> [DmaQueueState; 2] {
    let [mut tx, mut rx] = [DmaQueueState::ZEROED; 2];
    let argument = DmaQueueGetState {
        eng_id: 0,
        qid: QUEUE,
        tx: address_of(&mut tx),
        rx: address_of(&mut rx),
    };
    assert_eq!(node.call(row::DMA_QUEUE_GET_STATE, argument), Done);
    [tx, rx]
}
