//! Memory of a chip as a device: what is mapped, what is copied, what is refused.

use super::device::{HBM, open};
use super::script::{HOST_BIT, V2, V3, edit};
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::{MemAllocV2MemType64, ioctl};
use xu_abi::{DeviceAddr, Status, TpbIndex};
use xu_device::{Device, DeviceError, Place};

#[test]
fn host_memory_is_mapped_at_once_and_reached_without_a_call() {
    let (script, device) = open(V2);
    let memory = device.allocate(Place::Host, 100, 64).unwrap();
    assert!(memory.get() & HOST_BIT != 0);
    assert_eq!(
        script.names(),
        ["DMA_ENG_INIT", "MEM_ALLOC_V2MT64", "MEM_GET_EXTENDED_INFO"]
    );
    assert_eq!(script.events().len(), 1, "mapped");
    let inside = DeviceAddr::new(memory.get() + 3);
    device.write(inside, b"hello").unwrap();
    let mut back = [0; 5];
    device.read(inside, &mut back).unwrap();
    assert_eq!(&back, b"hello");
    let word = DeviceAddr::new(memory.get() + 4);
    assert_eq!(device.load_acquire(word).unwrap().to_ne_bytes(), *b"ello");
    assert!(device.load_acquire(inside).is_err(), "not aligned");
    assert!(script.names().is_empty());
    device.release(memory).unwrap();
    assert_eq!(script.events(), ["unmap 4096", "MEM_FREE"]);
}

#[test]
fn small_device_memory_is_mapped_and_large_is_copied() {
    let (script, device) = open(V2);
    let small = device.allocate(HBM, 1 << 20, 64).unwrap();
    let large = device.allocate(HBM, (1 << 20) + 1, 64).unwrap();
    script.calls();
    device.write(small, &[7; 64]).unwrap();
    let mut back = [0; 256];
    device.read(small, &mut back).unwrap();
    assert_eq!(back[..64], [7; 64]);
    assert!(script.names().is_empty());
    // Parts of words would need a locked instruction on the device's memory.
    device
        .write(DeviceAddr::new(small.get() + 1), &[7; 3])
        .unwrap();
    device.write(small, &[7; 6]).unwrap();
    assert_eq!(script.names(), ["MEM_BUF_COPY64"; 2]);
    // Loads of device memory are slow.
    device.read(small, &mut [0; 257]).unwrap();
    device.write(large, &[7; 64]).unwrap();
    device.load_acquire(large).unwrap();
    assert_eq!(script.names(), ["MEM_BUF_COPY64"; 3]);
}

#[test]
fn memory_lies_beside_its_core() {
    let (script, device) = open(V3);
    for (core, channel) in [(0, 0), (1, 0), (2, 1), (5, 2), (7, 3)] {
        device
            .allocate(Place::Hbm(TpbIndex::new(core)), 64, 64)
            .unwrap();
        let calls = script.calls();
        let asked: MemAllocV2MemType64 = calls[1].argument();
        assert_eq!((asked.dram_channel, asked.nc_id), (channel, core.into()));
    }
}

#[test]
fn d4_memory_that_is_not_ours_is_refused_without_a_call() {
    let (script, device) = open(V2);
    let memory = device.allocate(Place::Host, 4096, 64).unwrap();
    script.calls();
    let end = DeviceAddr::new(memory.get() + 4095);
    let before = DeviceAddr::new(memory.get() - 1);
    for (addr, bytes) in [
        (end, 2),
        (before, 1),
        (DeviceAddr::new(u64::MAX), 8),
        (DeviceAddr::new(0), 1),
    ] {
        let refused = Err(DeviceError::BadAddress {
            addr,
            bytes: bytes as u64,
        });
        assert_eq!(device.read(addr, &mut vec![0; bytes]), refused);
        assert_eq!(device.write(addr, &vec![0; bytes]), refused);
    }
    let inside = DeviceAddr::new(memory.get() + 64);
    assert!(device.release(inside).is_err());
    device.release(memory).unwrap();
    assert!(device.release(memory).is_err());
    for (place, bytes, align) in [
        (Place::Host, 0, 64),
        (Place::Host, 64, 8192),
        (HBM, 64, 3),
        (Place::Hbm(TpbIndex::new(2)), 64, 64),
    ] {
        let refused = device.allocate(place, bytes, align).unwrap_err();
        assert_eq!(refused.status(), Status::INVALID, "{refused}");
    }
}

/// Trap 27.
#[test]
fn d4_memory_that_ends_an_hbm_is_not_mapped() {
    let (script, device) = open(V2);
    script.reply(&ioctl::MEM_GET_EXTENDED_INFO, |call| {
        edit(call, |info: &mut xu_abi::driver::MemGetExtendedInfo| {
            let pa = (16 << 30) - 4096;
            (info.pa, info.mmap_offset, info.size) = (pa, pa, 4096);
        })
    });
    let memory = device.allocate(HBM, 4096, 64).unwrap();
    assert_ne!(memory.get(), (16 << 30) - 4096);
    // Another one was taken, and the one at the end given back.
    let events = script.events();
    assert!(events[0].starts_with("map"), "{events:?}");
    assert_eq!(events[1..], ["MEM_FREE"]);
}

#[test]
fn memory_is_counted_by_core_and_its_exhaustion_says_what_is_left() {
    let (script, device) = open(V2);
    assert_eq!(device.memory_use(Place::Host), None);
    let memory = device.allocate(HBM, 5000, 64).unwrap();
    let now = device.memory_use(HBM).unwrap();
    assert_eq!((now.used, now.limit), (8192, 16 << 30));
    let other = device.memory_use(Place::Hbm(TpbIndex::new(1))).unwrap();
    assert_eq!(other.used, 0);
    script.answer(&ioctl::MEM_ALLOC_V2MT64, Answer::Errno(errno::ENOMEM));
    let refused = device.allocate(HBM, 64, 64).unwrap_err();
    // What is left the driver does not say, and nobody makes it up.
    let text = refused.to_string();
    assert_eq!(
        text,
        "device memory of core 0 is exhausted: asked for 64 bytes"
    );
    assert_eq!(device.memory_use(HBM).unwrap().used, 8192);
    let free = (16 << 30) - 8192;
    let asked = free + 1;
    assert_eq!(
        device.allocate(HBM, asked, 64),
        Err(DeviceError::OutOfMemory {
            place: HBM,
            asked,
            free,
            largest: free,
        })
    );
    device.release(memory).unwrap();
    assert_eq!(device.memory_use(HBM).unwrap().used, 0);
}

/// `driver.md` section 3: a copy that has timed out may still be under way.
#[test]
fn d4_memory_of_a_copy_that_timed_out_is_not_given_back_to_the_driver() {
    let (script, device) = open(V2);
    let memory = device.allocate(HBM, 2 << 20, 64).unwrap();
    script.answer(&ioctl::MEM_BUF_COPY64, Answer::Errno(errno::EPERM));
    let refused = device.write(memory, &[1; 8]).unwrap_err();
    assert_eq!(refused.status(), Status::EXEC_HW_ERR_DMA_ABORT);
    script.calls();
    device.release(memory).unwrap();
    assert!(!script.names().contains(&"MEM_FREE"));
}
