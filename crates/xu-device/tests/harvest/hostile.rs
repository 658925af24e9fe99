//! What must hold of a harvester and of a reader of a queue whatever bytes a device consists of.
//!
//! Called by the property tests of this crate and by the fuzz targets, which is why it needs nothing but the scripted
//! device at the root of the crate.

use crate::scripted::Scripted;
use core::time::Duration;
use std::sync::Arc;
use xu_abi::device::ERROR_NQ;
use xu_abi::record::RECORD_SIZE;
use xu_abi::{Engine, Status, TpbIndex};
use xu_device::harvest::{Harvester, Progress};
use xu_device::nq::{Mode, NqReader};
use xu_device::stage::Staged;
use xu_device::{Device, MemoryErrors, map};

const TPBS: [TpbIndex; 2] = [TpbIndex::new(0), TpbIndex::new(1)];
const LIMIT: Duration = Duration::from_millis(1);

/// Bytes, one after another; zero when there are no more.
struct Bytes<'a>(core::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        self.0.next().copied()
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.byte())
    }

    /// A core, from one bit.
    fn tpb(&mut self) -> TpbIndex {
        TPBS[usize::from(self.byte() & 1)]
    }
}

/// What the device has said about STARTs and ENDs, told apart by engine, in order.
#[derive(Default)]
struct Posted([[Vec<u16>; 5]; 2]);

impl Posted {
    fn push(&mut self, tpb: TpbIndex, engine: Engine, subtype: u16) {
        if subtype == 2 || subtype == 3 {
            self.0[usize::from(tpb.get())][engine.index()].push(subtype);
        }
    }

    /// Whether every engine has posted START and END for as many executions, one after the other.
    fn covers(&self, executions: usize, cores: usize) -> bool {
        let is_turn = |(index, subtype): (usize, &u16)| *subtype == 2 + (index % 2) as u16;
        self.0[..cores].iter().flatten().all(|subtypes| {
            let mut needed = subtypes.iter().take(2 * executions).enumerate();
            subtypes.len() >= 2 * executions && needed.all(is_turn)
        })
    }
}

/// The first byte chooses generation, cores and mode, each later one a call, with its arguments in the bytes behind it.
///
/// # Panics
/// When an execution ends twice, succeeds without START and END of every engine, or ends after a fault.
pub(crate) fn any_device(bytes: &[u8]) {
    let mut bytes = Bytes(bytes.iter());
    let setup = bytes.byte();
    let (scripted, device) = Scripted::new(setup % 8);
    let cores = 1 + usize::from(setup >> 7);
    scripted.be_quiet();
    let mode = if setup & 0x40 == 0 {
        Mode::Phase
    } else {
        Mode::Tail
    };
    let mut harvester = Harvester::open_in(mode, &device, &TPBS[..cores]).expect("one core or two");
    let mut posted = Posted::default();
    let (mut now, mut running, mut done, mut over) = (0_u64, false, 0, false);
    while let Some(call) = bytes.next() {
        match call % 16 {
            // A record that is nearly sound, and the two that every execution needs.
            kind @ 0..=5 => {
                let (tpb, engine) = (bytes.tpb(), engine(bytes.byte()));
                let mut record: [u8; 16] = [0; 16];
                record[8] = bytes.byte();
                record[6] = match kind {
                    0 | 1 => 2,
                    2 | 3 => 3,
                    4 => 6,
                    _ => bytes.byte() % 16,
                };
                record[4] = bytes.byte() % 12;
                post(&scripted, &mut posted, &TPBS[..cores], tpb, engine, record);
            }
            6 => {
                let (tpb, engine) = (bytes.tpb(), engine(bytes.byte()));
                let record = bytes.array();
                post(&scripted, &mut posted, &TPBS[..cores], tpb, engine, record);
            }
            // START and END of every engine of one core or of all.
            7 => {
                let only = bytes.byte();
                for tpb in &TPBS[..cores] {
                    if only & 3 == 2 + tpb.get() as u8 {
                        continue;
                    }
                    for engine in Engine::ALL {
                        for subtype in [2, 3] {
                            let mut record = [0; 16];
                            record[6] = subtype;
                            post(&scripted, &mut posted, &TPBS[..cores], *tpb, engine, record);
                        }
                    }
                }
            }
            8 => {
                let (tpb, record) = (bytes.tpb(), bytes.array());
                if TPBS[..cores].contains(&tpb) && scripted.has_room(tpb, ERROR_NQ) {
                    scripted.post(tpb, ERROR_NQ, record);
                }
            }
            9 => match bytes.byte() {
                0 => scripted.latch_overflow(bytes.tpb()),
                nq => {
                    let tail = u64::from(u16::from_le_bytes(bytes.array()));
                    scripted.set_tail(bytes.tpb(), nq % 10, tail);
                }
            },
            10 => {
                let errors = MemoryErrors {
                    sram: u64::from(bytes.byte()),
                    hbm: u64::from(bytes.byte()),
                    hbm_repairable: u64::from(bytes.byte()),
                };
                scripted.set_memory_errors(bytes.tpb(), errors);
            }
            11 => {
                let count = i32::from_le_bytes(bytes.array());
                scripted.set_semaphore(bytes.tpb(), map::COLLECTIVES_BARRIER, count);
            }
            12 if !running => {
                let mut barrier = || (bytes.byte() & 3 == 3).then(|| bytes.byte().into());
                let staged = Staged {
                    barriers: [barrier(), barrier()],
                    ..Staged::default()
                };
                let limited = bytes.byte() & 1 == 0;
                harvester.begin(now, staged, limited.then_some(LIMIT));
                running = true;
            }
            13 => {
                harvester.late_records();
            }
            _ => {
                now = now.saturating_add(u64::from(bytes.byte()) << (bytes.byte() % 57));
                let progress = harvester.step(now, &mut ());
                let ended = progress != Progress::Continue;
                assert!(running || !ended, "ended twice");
                running &= !ended;
                match progress {
                    Progress::Continue => assert!(!over || !running, "runs after a fault"),
                    Progress::Done(report) => {
                        done += 1;
                        assert!(!over, "done after a fault");
                        assert!(posted.covers(done, cores), "{report:?}");
                        assert!(report.device_time().is_some());
                    }
                    Progress::Fatal(report, fault) => {
                        assert!(!report.status.is_success());
                        assert_eq!(report.status, fault.status());
                        let refused = report.status == Status::EXEC_UNIT_UNRECOVERABLE;
                        assert_eq!(refused, over);
                        over = true;
                    }
                }
            }
        }
    }
}

fn engine(byte: u8) -> Engine {
    Engine::ALL[usize::from(byte) % 5]
}

/// Posts a record if there is such a core and room.
fn post(
    scripted: &Scripted,
    posted: &mut Posted,
    tpbs: &[TpbIndex],
    tpb: TpbIndex,
    engine: Engine,
    record: [u8; 16],
) {
    let nq = engine.status_nq();
    if tpbs.contains(&tpb) && scripted.has_room(tpb, nq) {
        scripted.post(tpb, nq, record);
        posted.push(tpb, engine, u16::from_le_bytes([record[6], record[7]]));
    }
}

/// The first byte chooses mode and size, then come the contents of the ring, then calls: a tail, or a read.
///
/// # Panics
/// When a call looks at more than one record, or at one outside of the ring, or reads something that is not there.
pub(crate) fn any_ring(bytes: &[u8]) {
    let mut bytes = Bytes(bytes.iter());
    let setup = bytes.byte();
    let mode = if setup & 0x80 == 0 {
        Mode::Phase
    } else {
        Mode::Tail
    };
    let entries = 4_u32 << (setup % 3);
    let (scripted, device): (Arc<Scripted>, Arc<dyn Device>) = Scripted::new(2);
    let mut reader = NqReader::open(&device, TPBS[0], 5, entries, mode).expect("a power of two");
    let ring = scripted.ring(TPBS[0], 5);
    let contents: Vec<u8> = (0..entries * 16).map(|_| bytes.byte()).collect();
    scripted.poke(ring, &contents);
    let ring_bytes = u64::from(entries) * RECORD_SIZE;
    let (mut read, mut acknowledged, mut tail) = (0, 0, 0);
    while let Some(call) = bytes.next() {
        if call & 3 == 0 {
            tail = u64::from_le_bytes(bytes.array());
            if call & 4 != 0 {
                // Mostly inside the ring.
                tail %= ring_bytes + 32;
            }
            scripted.set_tail(TPBS[0], 5, tail);
            continue;
        }
        scripted.forget();
        let record = reader.next_record();
        let here = ring
            .checked_add(read * RECORD_SIZE % ring_bytes)
            .expect("in memory");
        let mut vouched = None;
        let given_back = acknowledged;
        for call in scripted.log() {
            use crate::scripted::Call::{Acknowledge, Load, Read, Tail};
            match call {
                Load(at) => assert_eq!(at, here),
                Read(at, bytes) => assert_eq!((at, bytes), (here, 16)),
                Tail(..) => vouched = Some(tail),
                Acknowledge(_, heads) => {
                    let inside =
                        |offset: u64| offset < ring_bytes && offset.is_multiple_of(RECORD_SIZE);
                    assert!(heads.iter().flatten().all(|head| inside(head.offset)));
                    acknowledged = read + 1;
                }
                other => panic!("{other:?}"),
            }
        }
        let Ok(Some(record)) = record else {
            continue;
        };
        // CAST: a ring of this test has at most 256 bytes.
        let start = (here.get() - ring.get()) as usize;
        assert_eq!(record[..], contents[start..start + 16]);
        if let Some(tail) = vouched {
            assert_eq!(mode, Mode::Tail);
            assert!(tail < ring_bytes && tail.is_multiple_of(RECORD_SIZE));
            // From what was given back on, the tail comes after the record.
            let given_back = given_back * RECORD_SIZE % ring_bytes;
            let ahead = |offset: u64| (offset + ring_bytes - given_back) % ring_bytes;
            assert!(ahead(tail) > ahead(start as u64), "{tail} at {start}");
        }
        read += 1;
        // No record is fresh on two laps, and nobody writes.
        assert!(read <= u64::from(entries));
    }
}
