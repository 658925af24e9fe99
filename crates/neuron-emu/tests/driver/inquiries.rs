//! What can be asked about chunks.

use crate::program::{BUFFER, NOWHERE, emulator};
use crate::user::{DEVICE, HOST, User};
use xu_abi::driver::errno::{Answer, EAGAIN, EINVAL, ENOMEM, EPROTONOSUPPORT};
use xu_abi::driver::ioctl::{
    DMABUF_FD, DUMP_MEM_CHUNKS, MEM_GET_EXTENDED_INFO, MEM_GET_INFO, MEM_GET_PA, MEM_MC_GET_INFO,
    MEM_MC_GET_INFO_V2,
};
use xu_abi::driver::{
    DmabufFd, DumpMemChunks, MemAllocV2MemType64, MemChunk, MemGetExtendedInfo, MemGetInfo,
    MemGetMcMmapInfo, MemGetMcMmapInfoV2, MemGetPa, MemType,
};

const SECOND: u64 = BUFFER + 0x1000;

#[test]
fn address_and_mmap_offset_are_one_number() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 9);
    let handle = user.host(5000);
    let expected = user.pa(handle);
    user.program.put(BUFFER, &[0; 8]);
    user.program.put(SECOND, &[0; 8]);
    let mut get = MemGetPa {
        mem_handle: handle,
        pa: BUFFER,
    };
    assert_eq!(user.call(&MEM_GET_PA, &mut get), Answer::Done);
    assert_eq!(user.word(BUFFER), expected);
    let mut get = MemGetInfo {
        mem_handle: handle,
        mmap_offset: SECOND,
        pa: BUFFER,
    };
    assert_eq!(user.call(&MEM_GET_INFO, &mut get), Answer::Done);
    assert_eq!([user.word(BUFFER), user.word(SECOND)], [expected; 2]);
    let info = user.info(handle).unwrap();
    assert_eq!(
        (info.pa, info.mmap_offset, info.size),
        (expected, expected, 8192)
    );
    assert_eq!((info.host_memory, info.pid), (1, 9));
}

#[test]
fn the_offset_of_get_info_may_be_null_and_the_address_may_not() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let mem_handle = user.host(1);
    user.program.put(BUFFER, &[0; 8]);
    let mut get = MemGetInfo {
        mem_handle,
        mmap_offset: 0,
        pa: BUFFER,
    };
    assert_eq!(user.call(&MEM_GET_INFO, &mut get), Answer::Done);
    let mut get = MemGetInfo {
        mem_handle,
        mmap_offset: BUFFER,
        pa: 0,
    };
    assert_eq!(user.call(&MEM_GET_INFO, &mut get), Answer::Positive(8));
    let mut get = MemGetPa {
        mem_handle,
        pa: NOWHERE,
    };
    assert_eq!(user.call(&MEM_GET_PA, &mut get), Answer::Positive(8));
}

#[test]
fn extended_info_overwrites_the_handle_and_says_22_for_a_bad_one() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let mem_handle = user.device(1);
    let mut info = MemGetExtendedInfo {
        mem_handle,
        version: 1,
        ..MemGetExtendedInfo::ZEROED
    };
    assert_eq!(user.call(&MEM_GET_EXTENDED_INFO, &mut info), Answer::Done);
    assert_ne!(info.mem_handle, mem_handle);
    assert_eq!(user.info(info.mem_handle), Err(Answer::Positive(22)));
    for bad in [0, 2, u64::MAX] {
        assert_eq!(user.info(bad), Err(Answer::Positive(22)));
        let mut get = MemGetPa {
            mem_handle: bad,
            pa: BUFFER,
        };
        assert_eq!(user.call(&MEM_GET_PA, &mut get), Answer::Errno(EINVAL));
        let mut get = MemGetInfo {
            mem_handle: bad,
            mmap_offset: 0,
            pa: BUFFER,
        };
        assert_eq!(user.call(&MEM_GET_INFO, &mut get), Answer::Errno(EINVAL));
    }
}

#[test]
fn a_chunk_is_found_by_any_address_inside() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let handle = user.host(8192);
    let start = user.pa(handle);
    for pa in [start, start + 4097, start + 8191] {
        let mut find = MemGetMcMmapInfo {
            pa,
            ..MemGetMcMmapInfo::ZEROED
        };
        assert_eq!(user.call(&MEM_MC_GET_INFO, &mut find), Answer::Done);
        assert_eq!((find.mmap_offset, find.size), (start, 8192));
        let mut find = MemGetMcMmapInfoV2 {
            pa,
            ..MemGetMcMmapInfoV2::ZEROED
        };
        assert_eq!(user.call(&MEM_MC_GET_INFO_V2, &mut find), Answer::Done);
        assert_eq!(
            (find.mmap_offset, find.size, find.mem_handle),
            (start, 8192, handle)
        );
    }
    for pa in [start + 8192, start - 1, 0, u64::MAX] {
        let mut find = MemGetMcMmapInfoV2 {
            pa,
            ..MemGetMcMmapInfoV2::ZEROED
        };
        assert_eq!(
            user.call(&MEM_MC_GET_INFO_V2, &mut find),
            Answer::Errno(ENOMEM)
        );
    }
}

#[test]
fn a_dump_has_the_chunks_of_one_hbm_or_says_how_many_there_are() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let handles = [user.device(4096), user.device(8192)];
    user.host(4096);
    user.allocate(MemAllocV2MemType64 {
        dram_channel: 1,
        ..DEVICE
    });
    let dump = |hbm_index, num_entries_in| {
        user.program.put(BUFFER, &[0; 2 * MemChunk::ABI.size]);
        let mut dump = DumpMemChunks {
            hbm_index,
            num_entries_in,
            data: BUFFER,
            ..DumpMemChunks::ZEROED
        };
        let answer = user.call(&DUMP_MEM_CHUNKS, &mut dump);
        (answer, dump.num_entries_out)
    };
    assert_eq!(dump(0, 1), (Answer::Errno(EAGAIN), 2));
    assert_eq!(dump(2, 2).0, Answer::Errno(EINVAL));
    assert_eq!(dump(1, 2), (Answer::Done, 1));
    assert_eq!(dump(0, 2), (Answer::Done, 2));
    let bytes = user.program.get(BUFFER);
    let (entries, _) = bytes.as_chunks();
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| MemChunk::from_bytes(*entry))
        .collect();
    for (entry, handle) in entries.iter().zip(handles) {
        let info = user.info(handle).unwrap();
        let expected = (info.pa, info.size, MemType::TensorsDevice.raw());
        assert_eq!((entry.pa, entry.size, entry.mem_type), expected);
    }
}

#[test]
fn there_are_no_dma_buffers() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    user.allocate(HOST);
    let answer = user.call(
        &DMABUF_FD,
        &mut DmabufFd {
            size: 4096,
            ..DmabufFd::ZEROED
        },
    );
    assert_eq!(answer, Answer::Errno(EPROTONOSUPPORT));
}
