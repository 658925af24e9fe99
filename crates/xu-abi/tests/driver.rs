//! The table of ioctls and its arguments, as a program sees them.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::collections::BTreeSet;
use xu_abi::driver::ioctl::{self, Argument, Direction};
use xu_abi::driver::{
    Arch, BarRw, DmaQueueInit, DmaQueueInitBatch, GetLogicalToPhysicalNcMap, Ioctl, MemAlloc,
    MemAllocV2MemType64, MemCopyAsync64, MemType, NqType, ProgramEngineNc64, errno, indirect,
    nq_id, unverified,
};
use xu_abi::layout::StructLayout;

fn pointers_of(layout: &StructLayout, argument: &[u8]) -> Vec<(usize, Option<u64>, bool)> {
    indirect::of(layout)
        .iter()
        .map(|pointer| {
            (
                pointer.field,
                pointer.bytes(argument),
                pointer.is_read(argument),
            )
        })
        .collect()
}

#[test]
fn every_request_has_one_row_and_names_are_unique() {
    let requests: BTreeSet<_> = ioctl::ALL.iter().map(Ioctl::request).collect();
    let names: BTreeSet<_> = ioctl::ALL.iter().map(|ioctl| ioctl.name).collect();
    assert_eq!(requests.len(), ioctl::ALL.len());
    assert_eq!(names.len(), ioctl::ALL.len());
    for ioctl in ioctl::ALL {
        assert_eq!(Ioctl::from_request(ioctl.request()), Some(ioctl));
    }
    assert_eq!(Ioctl::from_request(0x8008_4E99), None);
}

/// The gate is listed in section 1, the table in section 2.
#[test]
fn the_attach_gate_is_that_of_section_1() {
    let gated: BTreeSet<_> = ioctl::ALL
        .iter()
        .filter(|ioctl| ioctl.gated)
        .map(|ioctl| ioctl.name)
        .collect();
    let listed = "DMA_ENG_INIT DMA_ENG_SET_STATE DMA_QUEUE_INIT DMA_ACK_COMPLETED DMA_QUEUE_RELEASE \
        DMA_COPY_DESCRIPTORS MEM_ALLOC MEM_FREE MEM_COPY MEM_GET_PA MEM_COPY_ASYNC MEM_COPY_ASYNC_WAIT MEM_GET_INFO \
        BAR_WRITE POST_METRIC NOTIFICATIONS_INIT_V1 NOTIFICATIONS_INIT_V2 NOTIFICATIONS_INIT_WITH_REALLOC_V2 \
        DRIVER_INFO_SET";
    assert_eq!(gated, listed.split_whitespace().collect());
}

/// Traps 1, 2 and 4 of section 11.
#[test]
fn direction_and_size_of_a_request_are_not_those_of_the_data() {
    assert_eq!(ioctl::SEMAPHORE_INCREMENT.direction, Direction::Read);
    assert_eq!(ioctl::COMPATIBLE_VERSION.direction, Direction::Write);
    assert_eq!(ioctl::MEM_FREE.direction, Direction::Read);
    let pointer_typed =
        |ioctl: &&Ioctl| ioctl.encoded_size == 8 && !matches!(ioctl.argument.size(), 0 | 8);
    assert!(ioctl::ALL.iter().filter(pointer_typed).count() > 30);
    assert_eq!(ioctl::DMA_QUEUE_INIT_BATCH.request(), 0xB008_4E85);
    assert_eq!(
        usize::from(ioctl::DMA_QUEUE_INIT_BATCH.encoded_size),
        DmaQueueInitBatch::ABI.size
    );
}

#[test]
fn an_unknown_number_is_no_value() {
    assert_eq!(MemType::try_from(19), Ok(MemType::ContiguousScratchpad));
    assert_eq!(
        MemType::try_from(20).unwrap_err().to_string(),
        "type of memory is 20, allowed: 0 to 19"
    );
    assert_eq!(Arch::from_raw(1), None);
    // Nothing aliases another type: trap 28.
    assert_eq!(NqType::from_raw(16), None);
    assert_eq!(nq_id(NqType::Throttle, 15), 95);
}

#[test]
fn golden_bytes_of_an_allocation() {
    let allocation = MemAllocV2MemType64 {
        size: 0x1_0000_1000,
        align: 0x2000,
        dram_channel: 1,
        nc_id: 2,
        mem_type: MemType::TensorsDevice.raw(),
        mem_handle: 0x7FFF_0000_1234,
        ..MemAllocV2MemType64::ZEROED
    };
    let mut expected = [0; 56];
    expected[1] = 0x10;
    expected[4] = 1;
    expected[9] = 0x20;
    expected[20] = 1;
    expected[28] = 2;
    expected[32] = 9;
    expected[40..46].copy_from_slice(&[0x34, 0x12, 0, 0, 0xFF, 0x7F]);
    assert_eq!(allocation.to_bytes(), expected);
    let copy = MemCopyAsync64 {
        pwait_handle: -1,
        ..MemCopyAsync64::ZEROED
    };
    assert_eq!(copy.to_bytes()[48..52], [0xFF; 4]);
    assert!(copy.to_bytes()[..48].iter().all(|byte| *byte == 0));
}

#[test]
fn a_batch_is_read_whole_whatever_its_count() {
    let mut batch = DmaQueueInitBatch::ZEROED;
    batch.count = 1;
    batch.entries[255] = DmaQueueInit {
        eng_id: 7,
        ..DmaQueueInit::ZEROED
    };
    assert_eq!(batch.to_bytes()[8 + 255 * 48], 7);
    let room = u32::try_from(batch.entries.len()).unwrap();
    assert_eq!(DmaQueueInitBatch::MAX_COUNT, room - 1);
}

#[test]
fn buffers_are_as_long_as_the_argument_says() {
    let program = ProgramEngineNc64 {
        size: 100,
        offset: 28,
        ..ProgramEngineNc64::ZEROED
    };
    assert_eq!(
        pointers_of(&ProgramEngineNc64::ABI, &program.to_bytes()),
        [(16, Some(128), true)]
    );
    let registers = BarRw {
        count: 3,
        ..BarRw::ZEROED
    };
    assert_eq!(
        pointers_of(&BarRw::ABI, &registers.to_bytes()),
        [(8, Some(24), true), (16, Some(12), false)]
    );
    let map = GetLogicalToPhysicalNcMap {
        max_map_entries: 128,
        ..GetLogicalToPhysicalNcMap::ZEROED
    };
    assert_eq!(
        pointers_of(&GetLogicalToPhysicalNcMap::ABI, &map.to_bytes()),
        [(0, Some(1028), false)]
    );
    let overflow = ProgramEngineNc64 {
        size: u64::MAX,
        offset: 1,
        ..ProgramEngineNc64::ZEROED
    };
    assert_eq!(
        pointers_of(&ProgramEngineNc64::ABI, &overflow.to_bytes()),
        [(16, None, true)]
    );
    assert_eq!(
        pointers_of(&ProgramEngineNc64::ABI, &[0; 16]),
        [(16, None, true)]
    );
}

#[test]
fn a_pointer_is_a_field_of_eight_bytes() {
    for (layout, pointers) in indirect::TABLE {
        assert!(!pointers.is_empty());
        for pointer in *pointers {
            let field = layout.fields.iter().find(|f| f.offset == pointer.field);
            assert_eq!(field.map(|f| f.size), Some(8), "{}", layout.name);
        }
    }
    let [handle] = indirect::of(&MemAlloc::ABI) else {
        panic!("one pointer")
    };
    assert_eq!(handle.bytes(&MemAlloc::ZEROED.to_bytes()), Some(8));
}

/// The documentation of a field says that it is an address; the table says how long the buffer is.
#[test]
#[cfg(not(miri))] // Reads the source.
fn every_field_that_is_an_address_is_in_the_table() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver");
    let documented: usize = std::fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
        .map(|text| text.matches("/// → Address of ").count())
        .sum();
    let listed: usize = indirect::TABLE.iter().map(|(_, all)| all.len()).sum();
    assert_eq!(documented, listed);
}

#[test]
fn arguments_without_fields_are_few() {
    let opaque: Vec<_> = ioctl::ALL
        .iter()
        .filter(|ioctl| matches!(ioctl.argument, Argument::Opaque(_)))
        .map(|ioctl| ioctl.name)
        .collect();
    assert_eq!(
        opaque,
        ["NC_PID_STATE_DUMP", "HBM_SCRUB_START", "HBM_SCRUB_WAIT"]
    );
}

#[test]
fn error_numbers_have_names() {
    assert_eq!(errno::name(errno::ENOTSUPP), Some("ENOTSUPP"));
    assert_eq!(errno::name(4711), None);
    assert!(errno::NAMED.is_sorted());
}

#[test]
fn what_is_not_verified_is_named_once() {
    let names: BTreeSet<_> = unverified::TABLE.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), unverified::TABLE.len());
}
