//! What must hold of every decoder for whatever bytes it is given: one function per decoder.
//!
//! Called by the property tests beside this file, and by the fuzz targets in `fuzz/`, which include it by path.
//! Expected values are read from the bytes at the offsets of the specification, not through the types under test.

use xu_abi::chain::{ChainError, CopyChain, Framing, MAX_PACKET_PAIRS, Placed, RingPosition};
use xu_abi::descriptor::len_ctrl;
use xu_abi::metric::{CoreCounter, DeviceCounter, ErrorFlag};
use xu_abi::record::{Custom, ErrorKind, Subtype};
use xu_abi::status::Priority;
use xu_abi::unit::{Health, Unit, UnitBase, Worker};
use xu_abi::work_item::{InferResponse, ScheduleView, Timespec, WorkItem, WorkKind};
use xu_abi::{
    Cursor, Descriptor, DeviceAddr, Engine, ErrorRecord, EventIndex, ExecRequest, QueueHeader,
    RequestBuffer, RingId, SemIndex, SeqId, Slot, Status, StatusRecord, TpbIndex, XuId, XuType,
};

/// The first `N` bytes, or zeros when there are too few.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(first(&bytes[at..]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(first(&bytes[at..]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(first(&bytes[at..]))
}

/// Reads a struct, demands that it was read exactly when there were enough bytes, and that they come out again.
macro_rules! read {
    ($ty:ident, $size:literal, $bytes:expr) => {{
        let bytes: &[u8] = $bytes;
        match $ty::read(bytes) {
            Ok(read) => {
                assert_eq!(read.to_bytes(), bytes[..$size]);
                assert_eq!($ty::from_bytes(read.to_bytes()).to_bytes(), bytes[..$size]);
                let _ = format!("{read:?}");
                read
            }
            Err(refused) => {
                assert!(bytes.len() < $size);
                assert_eq!(refused.value, bytes.len() as u64);
                return;
            }
        }
    }};
}

/// The 52-byte request.
pub fn request(bytes: &[u8]) {
    let request = read!(ExecRequest, 52, bytes);
    assert_eq!(request.do_model_switch.get(), u32_at(bytes, 0x00));
    assert_eq!(request.reload_seq_config.get(), u32_at(bytes, 0x2C));
    assert_eq!(request.load_act_dve_tables.get(), u32_at(bytes, 0x30));
    for engine in Engine::ALL {
        let lo = u64::from(u32_at(bytes, 0x04 + 4 * engine.index()));
        let hi = u64::from(u32_at(bytes, 0x18 + 4 * engine.index()));
        let addr = DeviceAddr::new(hi << 32 | lo);
        assert_eq!(request.engine_address(engine), addr);
        let mut again = request;
        again.set_engine_address(engine, DeviceAddr::new(!addr.get()));
        assert_ne!(again, request);
        again.set_engine_address(engine, addr);
        assert_eq!(again, request);
    }
}

/// The 56-byte request buffer.
pub fn request_buffer(bytes: &[u8]) {
    let buffer = read!(RequestBuffer, 56, bytes);
    assert_eq!(buffer.body.to_bytes(), bytes[..52]);
    assert_eq!(buffer.cc_dma_increment.get(), u32_at(bytes, 0x34));
    request(bytes);
}

/// A record of a status ring.
pub fn status_record(bytes: &[u8]) {
    let record = read!(StatusRecord, 16, bytes);
    let (line_lo, sub_id, raw) = (u16_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6));
    assert_eq!(record.device_ts.get(), u64_at(bytes, 8));
    assert_eq!(record.debug_hint(), bytes[2] / 16);
    assert_eq!(record.nq_id_tag(), bytes[3] % 32);
    let line = u32::from(bytes[2] % 16) * 65_536 + u32::from(line_lo);
    assert_eq!(record.isa_line(), line);

    let subtype = record.subtype();
    assert_eq!(subtype.raw(), raw);
    let expected = matches!(raw, 2 | 3 | 6 | 7 | 8);
    assert_eq!(matches!(subtype, Subtype::Unexpected(_)), !expected);
    let custom = record.custom();
    assert_eq!(custom.raw(), sub_id);
    assert_eq!(
        matches!(custom, Custom::OutOfBounds(_)),
        matches!(sub_id, 0..=5 | 9 | 10)
    );
    assert_eq!(matches!(custom, Custom::Unknown(_)), sub_id > 10);

    let made = StatusRecord::new(subtype, bytes[3], u64_at(bytes, 8));
    assert_eq!(made.subtype(), subtype);
    assert_eq!(made.nq_id_tag(), record.nq_id_tag());
    assert_eq!(
        made.ring_and_tag & 0xE0,
        0,
        "the ring's bits are the ring's"
    );
}

/// A record of the error ring.
pub fn error_record(bytes: &[u8]) {
    let record = read!(ErrorRecord, 16, bytes);
    assert_eq!(record.mask.get(), u16_at(bytes, 1));
    assert_eq!(record.ring_and_tag, bytes[3]);
    assert_eq!(record.device_ts.get(), u64_at(bytes, 8));
    assert_eq!(record.kind().raw(), bytes[0]);
    let known = !matches!(record.kind(), ErrorKind::Unknown(_));
    assert_eq!(known, bytes[0] < 5);
    let made = ErrorRecord::new(record.kind(), u16_at(bytes, 1), u64_at(bytes, 8));
    assert_eq!((made.kind(), made.mask), (record.kind(), record.mask));
}

/// A descriptor.
pub fn descriptor(bytes: &[u8]) {
    let descriptor = read!(Descriptor, 16, bytes);
    let (control, meta) = (u32_at(bytes, 0), u32_at(bytes, 4));
    let len = descriptor.transfer_len();
    assert!((1..=65_536).contains(&len));
    assert_eq!(len % 65_536, control % 65_536);
    assert_eq!(
        u32::from(descriptor.ring_id().get()),
        control / (1 << 24) % 4
    );
    assert_eq!(descriptor.addr().get(), u64_at(bytes, 8));
    assert!(descriptor.has(control));
    for bit in (0..32).map(|bit| 1 << bit) {
        assert_eq!(descriptor.has(bit), control & bit != 0);
    }
    let plain = matches!(meta, 0x0108_0003 | 0x0508_0003);
    assert_eq!(descriptor.is_plain_copy(), plain);
    assert_eq!(descriptor.has_write_barrier(), meta / (1 << 26) % 2 == 1);
    assert_eq!(RingId::new(bytes[0]).is_some(), bytes[0] < 4);
    assert_eq!(RingId::try_from(bytes[0]).is_ok(), bytes[0] < 4);
}

/// Ids and indices: eight bytes taken for each of them.
pub fn ids(bytes: &[u8]) {
    let raw = u64::from_le_bytes(first(bytes));
    let seq = SeqId::from_raw(raw);
    let (number, xu_raw) = (raw % (1 << 48), (raw >> 48) as u16);
    assert_eq!(
        (seq.raw(), seq.cursor().get(), seq.xu().raw()),
        (raw, number, xu_raw)
    );
    assert_eq!(SeqId::new(seq.xu(), seq.cursor()), seq);
    assert_eq!(u64::from(seq.xu().vnc()), raw >> 56);
    assert_eq!(seq.is_done_at(seq), Some(true));
    let other = SeqId::from_raw(u64_at(
        &[first::<8>(bytes), first(bytes.get(8..).unwrap_or_default())].concat(),
        8,
    ));
    let comparable = other.xu() == seq.xu();
    assert_eq!(seq.is_done_at(other).is_some(), comparable);
    assert_eq!(other.is_done_at(seq).is_some(), comparable);
    let _ = format!("{seq:?} {seq}");

    let queues = match xu_raw % 16 {
        0 => 2,
        1 | 2 => 1,
        _ => 0,
    };
    let exists = xu_raw / 16 % 16 < queues;
    let xu = XuId::from_raw(xu_raw);
    assert_eq!(XuId::checked(xu_raw).is_ok(), exists);
    assert_eq!(xu.xu_type().is_some(), queues > 0);
    let packed = xu
        .xu_type()
        .and_then(|xu_type| XuId::new(xu_type, xu.queue(), xu.vnc()));
    assert_eq!(packed, exists.then_some(xu));
    let issuable = number != 0 && number != (1 << 48) - 1;
    assert_eq!(SeqId::checked(raw).is_ok(), exists && issuable);

    let cursor = seq.cursor();
    assert_eq!(Cursor::new(number), Some(cursor));
    assert_eq!(Cursor::try_from(raw).is_ok(), raw < 1 << 48);
    assert!(cursor.next().get() < 1 << 48);
    assert_eq!(cursor.next().prev() == cursor, number != (1 << 48) - 1);

    let word = raw as u32;
    assert_eq!(
        XuType::try_from(word).map(|known| known as u32).ok(),
        (word < 3).then_some(word)
    );
    assert_eq!(
        Health::try_from(word).map(Health::raw).ok(),
        (word < 3).then_some(word)
    );
    assert_eq!(
        WorkKind::try_from(word).map(WorkKind::raw).ok(),
        (word < 2).then_some(word)
    );
    let byte = raw as u8;
    assert_eq!(Engine::from_index(usize::from(byte)).is_some(), byte < 5);
    assert_eq!(Engine::try_from(usize::from(byte)).is_ok(), byte < 5);
    match Engine::from_status_nq(byte) {
        Some(engine) => assert_eq!(engine.status_nq(), byte),
        None => assert!(!(4..=8).contains(&byte)),
    }
    assert_eq!(CoreCounter::new(byte).is_some(), byte < 95);
    assert_eq!(DeviceCounter::new(byte).is_some(), byte < 31);
    assert_eq!(ErrorFlag::new(byte).is_some(), byte < 9);
    let flag = ErrorFlag::new(byte).and_then(ErrorFlag::counter);
    assert_eq!(
        flag.map(CoreCounter::ordinal),
        (5..=8).contains(&byte).then(|| byte + 31)
    );
    assert_eq!(SemIndex::try_from(raw).is_ok(), raw < 256);
    assert_eq!(EventIndex::try_from(raw).is_ok(), raw < 256);
    assert_eq!(TpbIndex::try_from(raw).is_ok(), raw < 65_536);
}

/// A status, and the one that stands for two.
pub fn status(bytes: &[u8]) {
    let raw = i32::from_le_bytes(first(bytes));
    let other = Status::from_raw(i32::from_le_bytes(first(
        bytes.get(4..).unwrap_or_default(),
    )));
    let status = Status::from_raw(raw);
    assert_eq!(status.raw(), raw);
    assert_eq!(status.is_success(), raw == 0);
    assert_eq!(status.name().is_some(), Status::NAMED.contains(&status));
    let shown = status.to_string();
    assert!(shown.contains(&raw.to_string()), "{shown}");

    let rank = match raw {
        0 => 0,
        5 | 6 | 1200 | 1204 | 1206 => 2,
        1004..=1205 => 3,
        _ => 1,
    };
    assert_eq!(status.priority() as u8, rank);
    assert_eq!(status.priority() == Priority::None, raw == 0);
    let stands = status.resolve(other);
    assert!(stands == status || stands == other);
    assert_eq!(stands.priority(), status.priority().max(other.priority()));
    assert_eq!(status.resolve(status), status);
    assert_eq!(Status::SUCCESS.resolve(status), status);

    let counted = match raw {
        0 => Some(1),
        1 => Some(16),
        2 => Some(19),
        5 => Some(4),
        6 => Some(11),
        7 => Some(6),
        1004 => Some(2),
        1006 => Some(30),
        1201 => Some(32),
        1202 => Some(33),
        _ => None,
    };
    let counter = CoreCounter::of_status(status);
    assert_eq!(counter.map(CoreCounter::ordinal), counted);
}

/// A work item in both of its views.
pub fn work_item(bytes: &[u8]) {
    let mut item = read!(WorkItem, 208, bytes);
    let view = *item.schedule();
    assert_eq!(view.to_bytes(), item.to_bytes());
    assert_eq!(view.execute().to_bytes(), item.to_bytes());
    assert_eq!(ScheduleView::from_bytes(item.to_bytes()), view);

    let kind = u32_at(bytes, 0);
    assert_eq!(item.kind, kind);
    assert_eq!(item.work_kind().is_ok(), kind < 2);
    assert_eq!(
        (item.mod_ref, item.resources),
        (u64_at(bytes, 0x08), u64_at(bytes, 0x10))
    );
    assert_eq!(item.compute_idx, u64_at(bytes, 0x18));
    assert_eq!(item.sync_point_cpu_timestamp, u64_at(bytes, 0x20));
    assert_eq!(item.wait_event_tracking_id, u64_at(bytes, 0xC0));
    assert_eq!(item.resp.to_bytes(), bytes[0x28..0x98]);
    assert_eq!(item.resp.mla_time.to_bits(), u64_at(bytes, 0x68));
    assert_eq!(
        InferResponse::from_bytes(item.resp.to_bytes()).to_bytes(),
        bytes[0x28..0x98]
    );

    assert_eq!(
        (view.device_id, view.device_tpb_idx),
        (u16_at(bytes, 0x90), u16_at(bytes, 0x92))
    );
    assert_eq!(
        (view.device_id, view.device_tpb_idx),
        (item.resp.start_nd, item.resp.start_nc)
    );
    assert_eq!(
        view.is_sync().ok(),
        [false, true].get(usize::from(bytes[0xC8])).copied()
    );
    let at = item.submission_time();
    let (sec, nsec) = (u64_at(bytes, 0x38) as i64, u64_at(bytes, 0x40) as i64);
    assert_eq!((at.sec, at.nsec), (sec, nsec));
    let sound = (0..1_000_000_000).contains(&nsec);
    assert_eq!(at.checked().is_ok(), sound);
    match view.submission_duration() {
        Ok(time) => assert_eq!(Timespec::try_from(time), Ok(at)),
        Err(_) => assert!(!sound || sec < 0),
    }
    item.set_submission_time(Timespec { sec: !sec, nsec });
    item.set_submission_time(at);
    assert_eq!(item.to_bytes(), bytes[..208]);
}

/// Ring header, slot, unit and worker.
pub fn host(bytes: &[u8]) {
    let slot = read!(Slot, 32, bytes);
    assert_eq!(
        (slot.seq_id, slot.exec_info),
        (u64_at(bytes, 0x00), u64_at(bytes, 0x18))
    );
    assert_eq!(
        (slot.mark_comp_efd as u32, slot.efd_from_pool),
        (u32_at(bytes, 0x10), bytes[0x14])
    );
    let worker = read!(Worker, 88, bytes);
    let count = u64_at(bytes, 0x50);
    match worker.units() {
        Ok(units) => assert_eq!(units.len() as u64, count),
        Err(refused) => assert!(count > 8 && refused.value == count),
    }
    let header = read!(QueueHeader, 256, bytes);
    assert_eq!(
        (header.xu_id, header.capacity),
        (u16_at(bytes, 0x00), u64_at(bytes, 0x10))
    );
    assert_eq!(
        (header.exec_head, header.scheduled_head),
        (u64_at(bytes, 0x40), u64_at(bytes, 0x80))
    );
    assert_eq!(header.scheduled_tail, u64_at(bytes, 0xC0));
    let base = read!(UnitBase, 448, bytes);
    let health = u32_at(bytes, 0x14);
    assert_eq!(
        base.health().map(Health::raw).ok(),
        (health < 3).then_some(health)
    );
    assert_eq!(base.work_queue.to_bytes(), bytes[0x40..0x140]);
    let unit = read!(Unit, 576, bytes);
    assert_eq!(unit.base, base);
    assert_eq!(unit.last_posted_model_id(), u32_at(bytes, 0x1D0));
    assert_eq!(
        unit.last_exec_model,
        [u32_at(bytes, 0x1E8), u32_at(bytes, 0x1EC)]
    );
}

/// A chain of pairs: 8 bytes source, 8 destination, 8 length, 4 ring size, 4 laps already made, 1 options.
pub fn chain(bytes: &[u8]) {
    if bytes.len() < 33 {
        return;
    }
    let (from, to) = (
        DeviceAddr::new(u64_at(bytes, 0)),
        DeviceAddr::new(u64_at(bytes, 8)),
    );
    let (len, options) = (u64_at(bytes, 16), bytes[32]);
    let framing = if options & 1 == 0 {
        Framing::Separate
    } else {
        Framing::Linked
    };
    let barrier = options & 2 != 0;
    let fits = |addr: DeviceAddr| len == 0 || addr.get() <= u64::MAX - (len - 1);
    let mut chain = match CopyChain::new(from, to, len, framing) {
        Ok(chain) => chain,
        Err(ChainError::Empty) => return assert_eq!(len, 0),
        Err(ChainError::PastEnd { addr, .. }) => return assert!(!fits(addr)),
        Err(other) => panic!("{other}"),
    };
    assert!(len > 0 && fits(from) && fits(to));
    if barrier {
        chain = chain.with_write_barrier();
    }
    let descriptors = u32_at(bytes, 24);
    let Some(mut position) = RingPosition::new(descriptors) else {
        return assert!(descriptors == 0 || descriptors > 16_777_200);
    };
    let before = u32_at(bytes, 28) % 256;
    for _ in 0..before {
        position.advance();
    }
    let pairs = chain.pairs_left();
    assert_eq!(pairs, len / 65_536 + u64::from(len % 65_536 != 0));

    // Long enough for two packets; a copy of all memory would take years.
    let looked_at = 2 * u64::from(MAX_PACKET_PAIRS) + 3;
    let mut done = 0;
    let placed = chain.place(&mut position).take(looked_at as usize);
    for (index, Placed { offset, pair }) in (0..).zip(placed) {
        let (tx, rx) = (pair.tx, pair.rx);
        let bytes = u64::from(tx.transfer_len());
        assert_eq!(bytes, (len - done).min(65_536));
        assert_eq!(tx.transfer_len(), rx.transfer_len());
        assert_eq!(
            (tx.addr().get(), rx.addr().get()),
            (from.get() + done, to.get() + done)
        );
        done += bytes;

        let slot = u64::from(before) + index;
        assert_eq!(offset, slot % u64::from(descriptors) * 16);
        let ring_id = ((1 + slot / u64::from(descriptors)) % 4) as u8;
        assert_eq!((tx.ring_id().get(), rx.ring_id().get()), (ring_id, ring_id));

        let ends = done == len;
        let (first, last) = match framing {
            Framing::Separate => (true, true),
            Framing::Linked => (index % 64 == 0, ends || index % 64 == 63),
        };
        assert_eq!(tx.has(len_ctrl::FIRST), first);
        assert_eq!(tx.has(len_ctrl::CONCAT), !first);
        assert_eq!(tx.has(len_ctrl::LAST), last);
        let flags = len_ctrl::FIRST | len_ctrl::LAST | len_ctrl::CONCAT;
        assert_eq!(rx.len_ctrl.get(), tx.len_ctrl.get() & !flags);
        assert!(tx.is_plain_copy());
        assert_eq!(tx.has_write_barrier(), barrier && ends);
        assert_eq!(rx.meta_ctrl.get(), 0);
    }
    assert_eq!(done == len, pairs <= looked_at);
}
