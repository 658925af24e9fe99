//! By hand, straight into memory: no call, no check, no seam.

use std::hint::black_box;
use xu_abi::Engine;

use super::{Memory, PHASE, RECORD, RECORDS};
use crate::device::null::Doorbell;

const BYTES: usize = 1 << 19;
const QUEUES: usize = 10;

/// The memory, and the writer's ends of the rings in it.
pub(crate) struct IntoMemory {
    bytes: Vec<u8>,
    reserved: u64,
    doorbell: Doorbell,
    rings: [[Ring; QUEUES]; 2],
    /// What was given back last.
    head: u64,
}

#[derive(Clone, Copy, Default)]
struct Ring {
    base: u64,
    written: u64,
}

impl IntoMemory {
    fn post(&mut self, tpb: usize, nq: u8, subtype: u16) {
        let ring = &mut self.rings[tpb][usize::from(nq)];
        let records = u64::from(RECORDS);
        let at = ring.base + ring.written % records * RECORD;
        let mut record = [0; 16];
        if (ring.written / records).is_multiple_of(2) {
            record[..4].copy_from_slice(&PHASE.to_le_bytes());
        }
        record[6..8].copy_from_slice(&subtype.to_le_bytes());
        record[8..].copy_from_slice(&ring.written.to_le_bytes());
        ring.written += 1;
        self.write(at, &record);
    }

    fn chunk<const N: usize>(&self, at: u64) -> [u8; N] {
        // CAST: addresses are offsets into the memory.
        let chunk = self.bytes[at as usize..].first_chunk();
        chunk.copied().unwrap_or([0; N])
    }
}

impl Memory for IntoMemory {
    fn open(doorbell: Doorbell) -> Self {
        Self {
            bytes: vec![0; BYTES],
            reserved: 0,
            doorbell,
            rings: Default::default(),
            head: 0,
        }
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        let at = self.reserved;
        self.reserved += bytes.next_multiple_of(256);
        at
    }

    fn open_notifications(&mut self, tpb: usize, nq: u8) -> u64 {
        let base = self.reserve(u64::from(RECORDS) * RECORD);
        self.rings[tpb][usize::from(nq)].base = base;
        base
    }

    #[inline]
    fn write(&mut self, at: u64, bytes: &[u8]) {
        // CAST: addresses are offsets into the memory.
        let at = at as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn word(&mut self, at: u64) -> u32 {
        u32::from_le_bytes(self.chunk(at))
    }

    #[inline]
    fn record(&mut self, at: u64) -> [u8; 16] {
        self.chunk(at)
    }

    /// All that was written is seen.
    #[inline]
    fn ring_doorbell(&mut self, tpb: usize) {
        black_box(&mut self.bytes);
        if self.doorbell == Doorbell::Answers {
            self.run_execution(tpb);
        }
    }

    #[inline]
    fn acknowledge(&mut self, _: usize, _: u8, head: u64) {
        self.head = black_box(head);
    }

    fn run_execution(&mut self, tpb: usize) {
        for engine in Engine::ALL {
            self.post(tpb, engine.status_nq(), 2);
            self.post(tpb, engine.status_nq(), 3);
        }
    }

    fn is_sound(&self) -> bool {
        self.reserved <= BYTES as u64
    }
}
