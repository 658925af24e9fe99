//! Chunks: what is asked for, what is refused, and in which order they go.

use super::script::{Driver, HOST_BIT, Script, V2, V3, chunk, edit, named, refused};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xu_abi::DeviceAddr;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{
    MemAllocV2, MemAllocV2MemType, MemAllocV2MemType64, MemBufCopy, MemBufCopy64, MemFree,
    MemGetExtendedInfo, MemType, Memset64, ioctl,
};
use xu_device::neuron::{Chunk, ChunkSpec, DriverError, Location, Meaning, Severity};

pub(super) const DEVICE: ChunkSpec = ChunkSpec {
    bytes: 1 << 20,
    align: 0,
    location: Location::Device { channel: 1 },
    core: 1,
    mem_type: MemType::TensorsDevice,
};
pub(super) const HOST: ChunkSpec = ChunkSpec {
    bytes: 5000,
    align: 0,
    location: Location::Host,
    core: 0,
    mem_type: MemType::TensorsHost,
};

#[test]
fn the_attachment_is_checked_before_each_allocation() {
    let (script, node) = Script::node(V2);
    let chunk = Chunk::allocate(&node, DEVICE).unwrap();
    assert_eq!(
        script.names(),
        ["DMA_ENG_INIT", "MEM_ALLOC_V2MT64", "MEM_GET_EXTENDED_INFO"]
    );
    drop(chunk);
    script.answer(&ioctl::DMA_ENG_INIT, Answer::Errno(13));
    script.calls();
    // Trap 11: the allocation would crash the kernel.
    let error = Chunk::allocate(&node, DEVICE).unwrap_err();
    assert_eq!(error.meaning(), Some(Meaning::NotAttached));
    assert_eq!(script.names(), ["DMA_ENG_INIT"]);
}

#[test]
fn an_allocation_says_what_is_wanted() {
    let (script, node) = Script::node(V2);
    let spec = ChunkSpec {
        align: 1 << 21,
        ..DEVICE
    };
    let chunk = Chunk::allocate(&node, spec).unwrap();
    let asked: MemAllocV2MemType64 = script.calls()[1].argument();
    assert_eq!((asked.size, asked.align), (1 << 20, 1 << 21));
    assert_eq!(
        (asked.host_memory, asked.dram_channel, asked.nc_id),
        (0, 1, 1)
    );
    assert_eq!((asked.mem_type, asked.dram_region), (9, 0));
    assert_eq!(chunk.addr(), DeviceAddr::new(1 << 24 | 1 << 36));
}

#[test]
fn an_older_driver_is_asked_in_its_own_way() {
    for (features, name) in [
        (Some(0xBF), "MEM_ALLOC_V2MT"),
        (Some(0xAF), "MEM_ALLOC_V2"),
        (None, "MEM_ALLOC_V2"),
    ] {
        let (script, node) = Script::node(Driver { features, ..V2 });
        let chunk = Chunk::allocate(&node, DEVICE).unwrap();
        let calls = script.calls();
        assert_eq!(calls[1].name, name);
        match name {
            "MEM_ALLOC_V2" => assert_eq!(calls[1].argument::<MemAllocV2>().nc_id, 1),
            _ => assert_eq!(calls[1].argument::<MemAllocV2MemType>().mem_type, 9),
        }
        chunk.write(8, &[1; 100]).unwrap();
        let calls = script.calls();
        assert_eq!(calls[0].name, "MEM_BUF_COPY");
        let copy: MemBufCopy = calls[0].argument();
        assert_eq!(
            (copy.size, copy.offset, copy.copy_to_mem_handle),
            (100, 8, 1)
        );
        chunk.fill(0, 16, 7).unwrap();
        chunk.copy_to(0, &chunk, 4096, 16).unwrap();
        assert_eq!(script.names(), ["MEMSET", "MEM_COPY"]);
    }
}

/// The 4 GiB rule.
#[test]
fn d4_a_large_chunk_needs_the_calls_for_it() {
    let (script, node) = Script::node(Driver {
        features: Some(0xBF),
        ..V3
    });
    let large = |bytes| ChunkSpec { bytes, ..DEVICE };
    let text = refused(&script, Chunk::allocate(&node, large(1 << 32)));
    assert_eq!(
        text,
        "MEM_ALLOC_V2MT: number of bytes is 4294967296, allowed: 1 to 4294963200"
    );
    refused(&script, Chunk::allocate(&node, large((1 << 32) - 1)));
    Chunk::allocate(&node, large((1 << 32) - 4096)).unwrap();
    let (_, node) = Script::node(V3);
    let chunk = Chunk::allocate(&node, large((1 << 32) + 1)).unwrap();
    assert_eq!(chunk.bytes(), (1 << 32) + 4096);
}

#[test]
fn d4_what_the_driver_cannot_allocate_is_refused() {
    let (script, node) = Script::node(V2);
    let host = Location::Host;
    let beyond = Location::Device { channel: 2 };
    let specs = [
        ("number of bytes is 0", ChunkSpec { bytes: 0, ..DEVICE }),
        (
            "number of bytes",
            ChunkSpec {
                bytes: 1 << 63,
                ..DEVICE
            },
        ),
        (
            "number of bytes",
            ChunkSpec {
                bytes: u64::MAX,
                ..HOST
            },
        ),
        ("core is 2", ChunkSpec { core: 2, ..DEVICE }),
        (
            "memory channel is 2",
            ChunkSpec {
                location: beyond,
                ..DEVICE
            },
        ),
        (
            "alignment is 12288",
            ChunkSpec {
                align: 12_288,
                ..DEVICE
            },
        ),
        (
            "alignment is 2147483648",
            ChunkSpec {
                align: 1 << 31,
                ..DEVICE
            },
        ),
        (
            "alignment of host memory is 4096",
            ChunkSpec {
                align: 4096,
                ..HOST
            },
        ),
        (
            "type of memory is 2",
            ChunkSpec {
                mem_type: MemType::TensorsHost,
                ..DEVICE
            },
        ),
        // Trap 25: a null dereference in the kernel.
        (
            "type of memory is 19",
            ChunkSpec {
                mem_type: MemType::ContiguousScratchpad,
                location: host,
                ..HOST
            },
        ),
    ];
    for (expected, spec) in specs {
        let text = refused(&script, Chunk::allocate(&node, spec));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn d4_a_chunk_that_cannot_be_is_given_back() {
    type Lie = fn(&mut MemGetExtendedInfo);
    let lies: [(&str, Lie); 5] = [
        ("the size is 4096", |a| a.size = 4096),
        ("host_memory is 1", |a| a.host_memory = 1),
        ("the address is 1", |a| a.pa = 1),
        ("the address is 175", |a| a.pa = HOST_BIT),
        ("the offset for mmap is 7", |a| a.mmap_offset = 7),
    ];
    for (expected, lie) in lies {
        let (script, node) = Script::node(V2);
        script.reply(&ioctl::MEM_GET_EXTENDED_INFO, move |call| {
            edit(call, |a: &mut MemGetExtendedInfo| {
                *a = MemGetExtendedInfo {
                    size: 1 << 20,
                    pa: 1 << 36,
                    mmap_offset: 1 << 36,
                    ..*a
                };
                lie(a);
            })
        });
        let error = Chunk::allocate(&node, DEVICE).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.severity(), Severity::Unit);
        let calls = script.calls();
        assert_eq!(calls.last().unwrap().argument::<MemFree>().mem_handle, 1);
    }
    for handle in [0, 4_194_304, u64::MAX] {
        let (script, node) = Script::node(V2);
        script.reply(&ioctl::MEM_ALLOC_V2MT64, move |call| {
            let buffer = call.buffers()[0].bytes_mut().unwrap();
            buffer.copy_from_slice(&u64::to_ne_bytes(handle));
            Answer::Done
        });
        let error = Chunk::allocate(&node, DEVICE).unwrap_err();
        assert!(matches!(error, DriverError::Nonsense { value, .. } if value == handle));
    }
}

/// Trap 7.
#[test]
fn d4_a_bad_handle_is_told_by_a_positive_number() {
    let (script, node) = Script::node(V2);
    script.answer(&ioctl::MEM_GET_EXTENDED_INFO, Answer::Positive(22));
    let error = Chunk::allocate(&node, DEVICE).unwrap_err();
    assert_eq!(error.meaning(), Some(Meaning::BadHandle));
    // The handle is what the allocation gave, and not what the failing call left in its argument.
    let calls = script.calls();
    assert_eq!(calls.last().unwrap().argument::<MemFree>().mem_handle, 1);
}

#[test]
fn a_chunk_is_unmapped_before_it_is_freed() {
    let (script, node) = Script::node(V2);
    let chunk = Chunk::allocate(&node, HOST).unwrap();
    let mapping = chunk.map().unwrap();
    assert_eq!(mapping.bytes(), 8192);
    mapping.word(8188).unwrap().store(9, Ordering::Relaxed);
    assert!(mapping.word(8190).is_none() && mapping.word(8192).is_none());
    // Accesses of two sizes to one place may race.
    assert!(mapping.double_word(8184).is_none());
    assert!(mapping.clear());
    assert_eq!(mapping.word(8188).unwrap().load(Ordering::Relaxed), 0);
    chunk.map().unwrap();
    drop(chunk);
    let offset = HOST_BIT | 1 << 24;
    assert_eq!(
        script.events(),
        [
            format!("map {offset:#x} 8192 Full"),
            "unmap 8192".into(),
            "MEM_FREE".into()
        ]
    );
}

#[test]
fn a_leaked_chunk_is_not_freed() {
    let (script, node) = Script::node(V2);
    let chunk = Chunk::allocate(&node, HOST).unwrap();
    chunk.leak();
    drop(chunk);
    assert!(!script.names().contains(&"MEM_FREE"));
}

/// Trap 24, and what leaves the chunk.
#[test]
fn d4_a_range_that_leaves_the_chunk_is_refused() {
    let (script, node) = Script::node(V2);
    let chunk = chunk(&script, &node, DEVICE);
    let size = chunk.bytes();
    let mut buffer = [0; 16];
    for offset in [size - 15, size, u64::MAX - 15, u64::MAX] {
        let text = refused(&script, chunk.write(offset, &buffer));
        assert!(text.contains(&format!("offset is {offset}")), "{text}");
        refused(&script, chunk.read(offset, &mut buffer));
        refused(&script, chunk.fill(offset, 16, 0));
        refused(&script, chunk.copy_to(offset, &chunk, 0, 16));
        refused(&script, chunk.copy_to(0, &chunk, offset, 16));
    }
    refused(&script, chunk.fill(0, size + 1, 0));
    refused(&script, chunk.fill(1, u64::MAX, 0));
    chunk.fill(0, size, 0xAB).unwrap();
    let fill: Memset64 = script.calls()[0].argument();
    assert_eq!((fill.size, fill.value), (size, 0xAB));
}

/// Traps 22, 23 and 26.
#[test]
fn d4_nothing_empty_reaches_the_driver() {
    let (script, node) = Script::node(V2);
    let chunk = chunk(&script, &node, DEVICE);
    chunk.write(0, &[]).unwrap();
    chunk.read(0, &mut []).unwrap();
    assert!(script.calls().is_empty());
    refused(&script, chunk.fill(0, 0, 0));
    refused(&script, chunk.copy_to(0, &chunk, 0, 0));
}

#[test]
fn d4_a_chunk_of_another_device_is_refused() {
    let script = Script::new(V2);
    let one = Arc::new(script.open(0).unwrap());
    let other = Arc::new(script.open(1).unwrap());
    let (from, to) = (chunk(&script, &one, DEVICE), chunk(&script, &other, DEVICE));
    let text = refused(&script, from.copy_to(0, &to, 0, 16));
    assert_eq!(text, "MEM_COPY64: device of a chunk is 1, allowed: 0");
}

#[test]
fn bytes_go_both_ways() {
    let (script, node) = Script::node(V2);
    let chunk = chunk(&script, &node, DEVICE);
    chunk.write(3, b"abc").unwrap();
    script.reply(&ioctl::MEM_BUF_COPY64, |call| {
        call.buffers()[0].bytes_mut().unwrap().fill(7);
        Answer::Done
    });
    let mut back = [0; 3];
    chunk.read(5, &mut back).unwrap();
    assert_eq!(back, [7; 3]);
    let calls = script.calls();
    let [write, read] = &*calls else {
        panic!("{calls:?}")
    };
    assert_eq!(write.buffers, [b"abc"]);
    let (write, read): (MemBufCopy64, MemBufCopy64) = (write.argument(), read.argument());
    assert_eq!(
        (write.offset, write.size, write.copy_to_mem_handle),
        (3, 3, 1)
    );
    assert_eq!((read.offset, read.size, read.copy_to_mem_handle), (5, 3, 0));
    assert_eq!((write.buffer, read.buffer), (0, 0));
}

/// A table of 64 pages overruns when an unaligned buffer spans 65: trap 22.
#[test]
fn d4_what_is_pinned_begins_at_a_page() {
    let (script, node) = Script::node(V2);
    let chunk = chunk(&script, &node, DEVICE);
    let buffer: Vec<u8> = (0..300_000_u32).map(|byte| byte as u8).collect();
    for start in [0, 1, 100, 4095, 4096] {
        let from = &buffer[start..start + 256 * 1024];
        chunk.write(11, from).unwrap();
        let calls = script.calls();
        let mut at = 11;
        let mut seen = Vec::new();
        for made in &calls {
            let copy: MemBufCopy64 = made.argument();
            assert_eq!(copy.offset, at);
            if made.name == "MEM_BUF_ZEROCOPY64" {
                let so_far = seen.len();
                let address = from.as_ptr().addr() + so_far;
                assert_eq!(address % 4096, 0, "from {start}");
            }
            at += copy.size;
            seen.extend_from_slice(&made.buffers[0]);
        }
        assert_eq!(seen, from);
        assert_eq!(calls.last().unwrap().name, "MEM_BUF_ZEROCOPY64");
    }
}

/// The device may write into a pinned buffer after the call has timed out.
#[test]
fn d7_what_is_read_is_never_pinned() {
    let (script, node) = Script::node(V2);
    let device = chunk(&script, &node, DEVICE);
    let host = chunk(
        &script,
        &node,
        ChunkSpec {
            bytes: 1 << 20,
            ..HOST
        },
    );
    device.read(0, &mut vec![0; 1 << 20]).unwrap();
    host.write(0, &vec![0; 1 << 20]).unwrap();
    assert_eq!(script.names(), ["MEM_BUF_COPY64", "MEM_BUF_COPY64"]);
}

#[test]
fn d4_a_copy_that_times_out_says_so() {
    let (script, node) = Script::node(V2);
    let chunk = chunk(&script, &node, DEVICE);
    for name in [
        "MEM_BUF_COPY64",
        "MEMSET64",
        "MEM_COPY64",
        "MEM_BUF_ZEROCOPY64",
    ] {
        script.answer(named(name), Answer::Errno(1));
    }
    let errors = [
        chunk.write(0, &[0; 8]),
        chunk.fill(0, 8, 0),
        chunk.copy_to(0, &chunk, 64, 8),
        chunk.write(0, &vec![0; 200_000]),
    ];
    for error in errors {
        let status = error.unwrap_err().status();
        assert_eq!(status, xu_device::Status::EXEC_HW_ERR_DMA_ABORT);
    }
}
