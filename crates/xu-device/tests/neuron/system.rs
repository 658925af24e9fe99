//! The real system calls, on files that are no devices.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::{MemBufCopy64, ioctl};
use xu_device::neuron::{
    Access, Buffer, Call, Descriptor, DriverError, Grain, Kernel, Meaning, Node, System, discovery,
};

/// A directory with nodes that are files.
fn directory(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    for node in [
        "neuron0", "neuron12", "neuron3", "neuron64", "neuron_x", "null",
    ] {
        fs::write(root.join(node), [0; 8192]).unwrap();
    }
    root
}

#[test]
fn devices_are_found_by_the_names_of_their_nodes() {
    let root = directory("found");
    assert_eq!(discovery::devices(&root), Ok(vec![0, 3, 12]));
    let missing = root.join("missing");
    let error = discovery::devices(&missing).unwrap_err();
    assert!(matches!(error, DriverError::Directory { .. }), "{error}");
}

#[test]
fn d4_a_file_that_is_no_device_is_told_by_its_first_answer() {
    let root = directory("file");
    let error = Node::open(Arc::new(System), &root, 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "COMPATIBLE_VERSION: the driver answered ENOTTY (25)"
    );
    assert_eq!(error.meaning(), Some(Meaning::Unsupported));
    let error = Node::open(Arc::new(System), &root, 5).unwrap_err();
    assert!(matches!(
        error,
        DriverError::Open {
            errno: errno::ENOENT,
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.contains("neuron5 cannot be opened, ENOENT (2): there is no such node"),
        "{text}"
    );
}

/// What `/proc` says of the descriptors that are open on a path: their flags, octal.
fn flags(path: &PathBuf) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap();
        if fs::read_link(entry.path()).is_ok_and(|target| target == *path) {
            let info = format!("/proc/self/fdinfo/{}", entry.file_name().to_str().unwrap());
            let text = fs::read_to_string(info).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("flags:"));
            found.push(u32::from_str_radix(line.unwrap().trim(), 8).unwrap());
        }
    }
    found
}

#[test]
fn p1_descriptors_are_closed_on_exec_and_once() {
    const CLOEXEC: u32 = 0o2_000_000;
    let path = fs::canonicalize(directory("exec").join("neuron0")).unwrap();
    for (access, mode) in [(Access::Full, 2), (Access::Misc, 1), (Access::ReadOnly, 0)] {
        let descriptor = System.open(&path, access).unwrap();
        let flags_of = flags(&path);
        let [found] = &*flags_of else {
            panic!("{flags_of:?}")
        };
        assert_eq!((found & CLOEXEC, found & 3), (CLOEXEC, mode));
        System.close(descriptor);
        assert!(flags(&path).is_empty());
    }
}

#[test]
fn a_mapping_is_shared_with_the_file() {
    let path = directory("map").join("neuron0");
    let descriptor = System.open(&path, Access::Full).unwrap();
    let pages = System
        .map(&descriptor, 4096, 4096, Access::Full, Grain::Word)
        .unwrap();
    pages.word(8).unwrap().store(0x0403_0201, Ordering::Relaxed);
    assert_eq!(fs::read(&path).unwrap()[4104..4108], [1, 2, 3, 4]);
    System.unmap(pages).unwrap();
    for (offset, bytes) in [(0, 0), (1, 4096), (u64::MAX, 4096)] {
        let refused = System.map(&descriptor, offset, bytes, Access::Full, Grain::Word);
        assert_eq!(refused.unwrap_err(), errno::EINVAL);
    }
    System.close(descriptor);
    // A descriptor for writing only cannot be mapped: the kernel says so.
    let descriptor = System.open(&path, Access::Misc).unwrap();
    let refused = System.map(&descriptor, 0, 4096, Access::Full, Grain::Word);
    assert_eq!(refused.unwrap_err(), errno::EACCES);
    System.close(descriptor);
}

#[test]
fn d4_no_address_is_left_behind() {
    let path = directory("address").join("neuron0");
    let descriptor = System.open(&path, Access::Full).unwrap();
    let bytes = [1; 4];
    let mut argument = MemBufCopy64 {
        mem_handle: 5,
        size: 4,
        copy_to_mem_handle: 1,
        ..MemBufCopy64::ZEROED
    }
    .to_bytes();
    let before = argument;
    let mut buffers = [Buffer::Read(&bytes)];
    let mut call = Call::new(&ioctl::MEM_BUF_COPY64, &mut argument, &mut buffers).unwrap();
    let answer = System.ioctl(&descriptor, &mut call);
    assert_eq!(answer, Answer::Errno(errno::ENOTTY));
    assert_eq!(argument, before);
    // No file is behind a descriptor with a number.
    let mut call = Call::new(&ioctl::MEM_BUF_COPY64, &mut argument, &mut buffers).unwrap();
    let answer = System.ioctl(&Descriptor::numbered(0), &mut call);
    assert_eq!(answer, Answer::Errno(errno::EBADF));
    System.close(descriptor);
}
