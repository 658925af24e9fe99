//! Copies between chunks and buffers, fills, and copies into engines.

use crate::program::{BUFFER, NOWHERE, emulator};
use crate::user::{User, pattern, traps, warnings};
use neuron_emu::config::{DriverFault, DriverRule};
use xu_abi::driver::errno::{Answer, EINVAL, EIO, ENOMEM, EPERM};
use xu_abi::driver::ioctl::{
    MEM_BUF_COPY, MEM_BUF_COPY64, MEM_BUF_ZEROCOPY64, MEM_COPY, MEM_COPY64, MEMSET, MEMSET64,
    PROGRAM_ENGINE, PROGRAM_ENGINE_NC, PROGRAM_ENGINE_NC64,
};
use xu_abi::driver::{
    Arch, Ioctl, MemBufCopy, MemBufCopy64, MemCopy, MemCopy64, Memset, Memset64, ProgramEngine,
    ProgramEngineNc, ProgramEngineNc64,
};

/// Around one descriptor of 64 KiB.
const SIZES: [usize; 4] = [1, 65_535, 65_536, 65_537];
const GIB: u64 = 1 << 30;

#[test]
fn copies_between_all_kinds_of_chunks_have_every_size() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let bytes = 1 << 18;
    let chunks = [
        user.host(bytes),
        user.device(bytes),
        user.host(bytes),
        user.device(bytes),
    ];
    let pairs = [(0, 1), (1, 0), (0, 2), (1, 3)];
    for (seed, (size, (from, to))) in SIZES.into_iter().zip(pairs).enumerate() {
        let (src, dst) = (chunks[from], chunks[to]);
        let content = pattern(size, seed.try_into().unwrap());
        assert_eq!(user.write(src, 11, &content), Answer::Done);
        assert_eq!(user.fill(dst, 0, 0xEE, bytes), Answer::Done);
        let size = size.try_into().unwrap();
        let mut copy = MemCopy64 {
            src,
            dst,
            size,
            src_offset: 11,
            dst_offset: 4097,
        };
        assert_eq!(user.call(&MEM_COPY64, &mut copy), Answer::Done);
        let mut expected = content.clone();
        expected.insert(0, 0xEE);
        expected.push(0xEE);
        assert_eq!(user.read(dst, 4096, expected.len()), expected);
    }
    assert!(warnings(&emulator).is_empty());
}

#[test]
fn the_narrow_variants_do_the_same() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let (src, dst) = (user.device(8192), user.host(8192));
    let content = pattern(100, 1);
    user.program.put(BUFFER, &content);
    let mut there = MemBufCopy {
        mem_handle: src,
        buffer: BUFFER,
        size: 100,
        offset: 4,
        copy_to_mem_handle: 1,
        ..MemBufCopy::ZEROED
    };
    assert_eq!(user.call(&MEM_BUF_COPY, &mut there), Answer::Done);
    let mut copy = MemCopy {
        src,
        dst,
        size: 100,
        src_offset: 4,
        dst_offset: 8,
        ..MemCopy::ZEROED
    };
    assert_eq!(user.call(&MEM_COPY, &mut copy), Answer::Done);
    assert_eq!(user.read(dst, 8, 100), content);
    let mut fill = Memset {
        mem_handle: dst,
        offset: 9,
        value: 0x1FF,
        size: 2,
    };
    assert_eq!(user.call(&MEMSET, &mut fill), Answer::Done);
    assert_eq!(user.read(dst, 8, 4), [content[0], 0xFF, 0xFF, content[3]]);
}

#[test]
fn trap_23_a_copy_or_fill_of_nothing_moves_64_kib_and_warns() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let (src, dst) = (user.host(1 << 17), user.host(1 << 17));
    let content = pattern(65_537, 1);
    assert_eq!(user.write(src, 0, &content), Answer::Done);
    let mut copy = MemCopy64 {
        src,
        dst,
        ..MemCopy64::ZEROED
    };
    assert_eq!(user.call(&MEM_COPY64, &mut copy), Answer::Done);
    assert_eq!(user.read(dst, 0, 65_536), content[..65_536]);
    assert_eq!(user.read(dst, 65_536, 1), [0]);
    assert_eq!(warnings(&emulator).len(), 1);
    assert_eq!(user.fill(dst, 0, 3, 0), Answer::Done);
    assert_eq!(user.read(dst, 65_535, 2), [3, 0]);
    assert_eq!(warnings(&emulator).len(), 2);
    // A copy with a buffer of no bytes moves none.
    assert_eq!(user.write(dst, 0, &[]), Answer::Done);
    assert_eq!(user.read(dst, 0, 1), [3]);
    assert_eq!(warnings(&emulator).len(), 2);
}

#[test]
fn buffers_of_every_size_come_and_go() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    for chunk in [user.host(1 << 18), user.device(1 << 18)] {
        for size in SIZES {
            let content = pattern(size, chunk.try_into().unwrap());
            assert_eq!(user.fill(chunk, 0, 0x11, 1 << 18), Answer::Done);
            assert_eq!(user.write(chunk, 3, &content), Answer::Done);
            assert_eq!(user.read(chunk, 3, size), content);
            assert_eq!(user.read(chunk, 3 + size as u64, 1), [0x11]);
        }
    }
}

#[test]
fn a_copy_with_a_buffer_is_modulo_4_gib() {
    let emulator = emulator(|c| c.hbm_bytes = 16 * GIB);
    let user = User::new(&emulator, 1);
    let mem_handle = user.device(5 * GIB);
    user.program.put(BUFFER, &[1, 2, 3]);
    let mut copy = MemBufCopy64 {
        mem_handle,
        buffer: BUFFER,
        size: 4 * GIB,
        copy_to_mem_handle: 1,
        ..MemBufCopy64::ZEROED
    };
    assert_eq!(user.call(&MEM_BUF_COPY64, &mut copy), Answer::Done);
    assert_eq!(user.read(mem_handle, 0, 3), [0xA5; 3]);
    user.program.put(BUFFER, &[1, 2, 3]);
    copy.size = 4 * GIB + 2;
    assert_eq!(user.call(&MEM_BUF_COPY64, &mut copy), Answer::Done);
    assert_eq!(user.read(mem_handle, 0, 3), [1, 2, 0xA5]);
    // The bounds are those of the whole size.
    copy.size = 5 * GIB + 1;
    assert_eq!(user.call(&MEM_BUF_COPY64, &mut copy), Answer::Errno(EINVAL));
}

#[test]
fn one_byte_less_than_4_gib_is_filled_sparsely() {
    let emulator = emulator(|c| c.hbm_bytes = 8 * GIB);
    let user = User::new(&emulator, 1);
    let mem_handle = user.device(4 * GIB + 8192);
    let last = 4 * GIB - 1;
    assert_eq!(user.write(mem_handle, last - 1, &[8, 9, 10]), Answer::Done);
    assert_eq!(user.fill(mem_handle, 1, 0, last - 1), Answer::Done);
    assert_eq!(user.read(mem_handle, 0, 2), [0xA5, 0]);
    assert_eq!(user.read(mem_handle, last - 1, 3), [0, 9, 10]);
    assert_eq!(user.read(mem_handle, 2 * GIB, 3), [0; 3]);
}

#[test]
fn what_lies_outside_a_chunk_is_refused() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let (src, dst) = (user.host(8192), user.device(4096));
    let copy = |size, src_offset, dst_offset| {
        let mut copy = MemCopy64 {
            src,
            dst,
            size,
            src_offset,
            dst_offset,
        };
        user.call(&MEM_COPY64, &mut copy)
    };
    assert_eq!(copy(4096, 4096, 0), Answer::Done);
    for (size, src_offset, dst_offset) in [
        (4097, 0, 0),
        (4096, 4097, 0),
        (1, 0, 4096),
        (1, u64::MAX - 1, 0),
    ] {
        assert_eq!(copy(size, src_offset, dst_offset), Answer::Errno(EINVAL));
    }
    assert_eq!(user.write(dst, 4095, &[1, 2]), Answer::Errno(EINVAL));
    assert_eq!(user.fill(dst, 1, 0, 4096), Answer::Errno(EINVAL));
    for bad in [0, 77] {
        let mut copy = MemCopy64 {
            src: bad,
            dst,
            size: 1,
            ..MemCopy64::ZEROED
        };
        assert_eq!(user.call(&MEM_COPY64, &mut copy), Answer::Errno(EINVAL));
        let mut copy = MemCopy64 {
            src,
            dst: bad,
            size: 1,
            ..MemCopy64::ZEROED
        };
        assert_eq!(user.call(&MEM_COPY64, &mut copy), Answer::Errno(EINVAL));
        assert_eq!(user.fill(bad, 0, 0, 1), Answer::Errno(EINVAL));
        assert_eq!(user.write(bad, 0, &[1]), Answer::Errno(EINVAL));
    }
    assert!(emulator.bugs().is_empty());
}

#[test]
fn trap_24_offset_and_size_that_wrap_around_crash() {
    let wraps: [fn(&User<'_>, u64) -> Answer; 3] = [
        |user, handle| user.fill(handle, u64::MAX, 1, 2),
        |user, handle| user.write(handle, u64::MAX, &[1]),
        |user, handle| {
            let (src, dst, dst_offset) = (handle, handle, 1_u64.wrapping_neg());
            let mut copy = MemCopy64 {
                src,
                dst,
                size: 2,
                src_offset: 0,
                dst_offset,
            };
            user.call(&MEM_COPY64, &mut copy)
        },
    ];
    for wrap in wraps {
        let emulator = emulator(|_| ());
        let user = User::new(&emulator, 1);
        let handle = user.device(4096);
        assert_eq!(wrap(&user, handle), Answer::Errno(EIO));
        assert_eq!(traps(&emulator), [24]);
    }
}

#[test]
fn a_bad_buffer_says_how_much_was_not_copied() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let (host, device) = (user.host(1 << 18), user.device(1 << 18));
    let copy = |mem_handle, size, buffer, to| {
        user.program.put(BUFFER, &[5; 65_536]);
        let mut copy = MemBufCopy64 {
            mem_handle,
            buffer,
            size,
            copy_to_mem_handle: to,
            ..MemBufCopy64::ZEROED
        };
        user.call(&MEM_BUF_COPY64, &mut copy)
    };
    for to in [0, 1] {
        assert_eq!(copy(device, 100, NOWHERE, to), Answer::Positive(100));
        // A device chunk is copied in steps; of a host chunk all is one.
        assert_eq!(
            copy(device, 65_536 * 3, BUFFER, to),
            Answer::Positive(65_536)
        );
        assert_eq!(
            copy(host, 65_536 * 3, BUFFER, to),
            Answer::Positive(65_536 * 2)
        );
    }
    assert_eq!(
        user.read(device, 65_535, 2),
        [5, 0xA5],
        "the steps before it were made"
    );
}

#[test]
fn zerocopy_moves_any_size_from_aligned_buffers() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let mem_handle = user.device(1 << 20);
    let copy = |buffer, size, copy_to_mem_handle| {
        let (offset, zeroed) = (1, MemBufCopy64::ZEROED);
        let mut copy = MemBufCopy64 {
            mem_handle,
            buffer,
            size,
            offset,
            copy_to_mem_handle,
            ..zeroed
        };
        user.call(&MEM_BUF_ZEROCOPY64, &mut copy)
    };
    let content = pattern(300_000, 5);
    user.program.put(BUFFER, &content);
    assert_eq!(copy(BUFFER, 300_000, 1), Answer::Done);
    assert_eq!(user.read(mem_handle, 1, 300_000), content);
    user.program.put(BUFFER, &vec![0; 300_000]);
    assert_eq!(copy(BUFFER, 300_000, 0), Answer::Done);
    assert_eq!(user.program.get(BUFFER), content);
    // Not aligned: within 64 pages, or more than 64.
    assert_eq!(copy(BUFFER + 1, (256 << 10) - 1, 1), Answer::Done);
    assert_eq!(copy(BUFFER + 1, (256 << 10) + 1, 1), Answer::Done);
    assert_eq!(copy(BUFFER, 1 << 20, 1), Answer::Errno(EINVAL));
    assert_eq!(copy(NOWHERE, 100, 1), Answer::Positive(100));
    assert!(emulator.bugs().is_empty());
}

#[test]
fn trap_22_zerocopy_of_nothing_or_of_65_pages_crashes() {
    for (into_page, size) in [(0, 0), (1, 256 << 10), (4095, (256 << 10) - 4094)] {
        let emulator = emulator(|_| ());
        let user = User::new(&emulator, 1);
        let mut copy = MemBufCopy64 {
            mem_handle: user.device(1 << 20),
            buffer: BUFFER + into_page,
            size,
            ..MemBufCopy64::ZEROED
        };
        let answer = user.call(&MEM_BUF_ZEROCOPY64, &mut copy);
        assert_eq!((answer, traps(&emulator)), (Answer::Errno(EIO), vec![22]));
    }
}

#[test]
fn a_copy_times_out_when_the_plan_says_so() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule {
            every: 2,
            ..DriverRule::always(DriverFault::CopyTimeout)
        }];
    });
    let user = User::new(&emulator, 1);
    let (host, device) = (user.host(4096), user.device(4096));
    assert_eq!(user.write(device, 0, &[1]), Answer::Errno(EPERM));
    assert_eq!(user.write(device, 0, &[2]), Answer::Done);
    let mut copy = MemCopy64 {
        src: device,
        dst: host,
        size: 1,
        ..MemCopy64::ZEROED
    };
    assert_eq!(user.call(&MEM_COPY64, &mut copy), Answer::Errno(EPERM));
    assert_eq!(user.call(&MEM_COPY64, &mut copy), Answer::Done);
    // Nothing that takes time moves host memory.
    assert_eq!(user.read(host, 0, 1), [2]);
    assert_eq!(user.fill(host, 0, 9, 1), Answer::Errno(EPERM));
    assert_eq!(user.fill(host, 0, 9, 1), Answer::Done);
}

#[test]
fn programming_adds_the_offset_to_both_sides_and_reaches_windows_only() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let content = pattern(70_000, 2);
    user.program.put(BUFFER, &content);
    let core = 0xFFF_C000_0000;
    let go = |ioctl: &Ioctl, dst, size, offset| {
        let (nc_id, buffer) = (1, BUFFER);
        let mut wide = ProgramEngineNc64 {
            nc_id,
            dst,
            buffer,
            size,
            offset,
            ..ProgramEngineNc64::ZEROED
        };
        let (size, offset) = (size as u32, offset as u32);
        let mut narrow = ProgramEngineNc {
            nc_id,
            dst,
            buffer,
            size,
            offset,
            ..ProgramEngineNc::ZEROED
        };
        let mut old = ProgramEngine {
            dst,
            buffer,
            size,
            offset,
        };
        match ioctl.argument.size() {
            40 => user.call(ioctl, &mut wide),
            32 => user.call(ioctl, &mut narrow),
            _ => user.call(ioctl, &mut old),
        }
    };
    for ioctl in [PROGRAM_ENGINE, PROGRAM_ENGINE_NC, PROGRAM_ENGINE_NC64] {
        assert_eq!(go(&ioctl, core, 69_000, 1000), Answer::Done, "{ioctl}");
        assert_eq!(user.at(core + 1000, 69_000), content[1000..]);
    }
    let ioctl = PROGRAM_ENGINE_NC64;
    let end = core + 2 * 0x400_0000;
    for dst in [0, 0x100_0000, end, end - 10, core - 10, 1 << 44] {
        assert_eq!(go(&ioctl, dst, 20, 0), Answer::Errno(ENOMEM), "{dst:#x}");
    }
    assert_eq!(go(&ioctl, 0xFFF_D000_0000, 20, 0), Answer::Done, "a TOPSP");
    let mut beyond = ProgramEngineNc64 {
        nc_id: 2,
        dst: core,
        ..ProgramEngineNc64::ZEROED
    };
    assert_eq!(user.call(&ioctl, &mut beyond), Answer::Errno(EINVAL));
    user.program.put(BUFFER, &[]);
    assert_eq!(go(&ioctl, core, 20, 0), Answer::Positive(20));
    assert_eq!(go(&ioctl, core, u64::MAX, 0), Answer::Errno(EIO));
    assert_eq!(traps(&emulator), [24]);
}

#[test]
fn on_v3_memory_can_be_programmed_too() {
    let emulator = emulator(|c| c.arch = Arch::V3);
    let user = User::new(&emulator, 1);
    user.program.put(BUFFER, &[1, 2, 3, 4]);
    for dst in [
        0x100_0000,
        0x8040_0000_0000,
        0x20_0000_0000,
        0x8070_0000_0000,
    ] {
        let zeroed = ProgramEngineNc64::ZEROED;
        let mut program = ProgramEngineNc64 {
            dst,
            buffer: BUFFER,
            size: 4,
            ..zeroed
        };
        assert_eq!(user.call(&PROGRAM_ENGINE_NC64, &mut program), Answer::Done);
    }
    assert_eq!(user.at(0x8040_0000_0000, 4), [1, 2, 3, 4]);
}

#[test]
fn a_fill_takes_the_low_byte() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let mem_handle = user.device(1 << 21);
    let mut fill = Memset64 {
        mem_handle,
        offset: 1,
        value: 0x1234,
        size: 65_537,
        ..Memset64::ZEROED
    };
    assert_eq!(user.call(&MEMSET64, &mut fill), Answer::Done);
    assert_eq!(user.read(mem_handle, 0, 3), [0xA5, 0x34, 0x34]);
    assert_eq!(user.read(mem_handle, 65_537, 2), [0x34, 0xA5]);
    // Zeroes over much memory give pages back, at any alignment.
    assert_eq!(user.fill(mem_handle, 0, 1, 1 << 21), Answer::Done);
    assert_eq!(user.fill(mem_handle, 100, 0, (1 << 21) - 200), Answer::Done);
    assert_eq!(user.read(mem_handle, 99, 2), [1, 0]);
    assert_eq!(user.read(mem_handle, (1 << 21) - 101, 2), [0, 1]);
    assert!(
        user.read(mem_handle, 100, 1 << 20)
            .iter()
            .all(|byte| *byte == 0)
    );
}
