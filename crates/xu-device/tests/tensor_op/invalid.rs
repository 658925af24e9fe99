//! What is refused before anything exists.

use xu_abi::{DeviceAddr, Status, TpbIndex};
use xu_device::Place;
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::region::{OutOfRange, Region};
use xu_device::tensor_op::{InvalidOperation, Operation};

const HBM: Place = Place::Hbm(TpbIndex::new(0));
const BASE: u64 = 0x1000_0000;

fn region(offset: u64, bytes: u64) -> Region {
    Region::new(HBM, DeviceAddr::new(BASE + offset), bytes).unwrap()
}

fn refused(result: Result<Operation, InvalidOperation>) -> InvalidOperation {
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    error
}

#[test]
fn d4_a_range_is_inside_its_region_without_overflow() {
    let whole = region(0, 4096);
    for (offset, bytes) in [
        (0, 4097),
        (4096, 1),
        (u64::MAX - 3, 8),
        (1 << 63, 1 << 63),
        (1, u64::MAX),
    ] {
        let wanted = OutOfRange {
            offset,
            bytes,
            size: 4096,
        };
        assert_eq!(whole.slice(offset, bytes), Err(wanted));
        assert_eq!(wanted.status(), Status::INVALID);
    }
    assert_eq!(whole.slice(4096, 0).unwrap().bytes(), 0);
    assert_eq!(
        whole.slice(16, 32).unwrap().slice(8, 24).unwrap(),
        region(24, 24)
    );
    assert!(Region::new(HBM, DeviceAddr::new(u64::MAX - 7), 8).is_err());
    assert!(Region::new(HBM, DeviceAddr::new(u64::MAX - 8), 8).is_ok());
}

#[test]
fn regions_overlap_when_they_share_a_byte() {
    let middle = region(100, 50);
    for (offset, bytes, wanted) in [
        (0, 100, false),
        (0, 101, true),
        (149, 1, true),
        (150, 10, false),
        (120, 5, true),
        (0, 500, true),
        (120, 0, false),
    ] {
        assert_eq!(
            middle.overlaps(region(offset, bytes)),
            wanted,
            "{offset} {bytes}"
        );
        assert_eq!(
            region(offset, bytes).overlaps(middle),
            wanted,
            "{offset} {bytes}"
        );
    }
}

#[test]
fn d4_ranges_that_overlap_are_refused_unless_they_are_the_same() {
    let (from, to) = (region(0, 64), region(32, 64));
    let overlap = InvalidOperation::Overlap { from, to };
    assert_eq!(refused(Operation::copy(from, to)), overlap);
    assert_eq!(
        refused(Operation::cast(from, Dtype::Int32, to, Dtype::Float32, 16)),
        overlap
    );
    assert_eq!(
        refused(Operation::compute(
            ReduceOp::Add,
            Dtype::Int8,
            vec![region(200, 64), from],
            to,
            64
        )),
        overlap
    );
    assert_eq!(
        refused(Operation::fma(
            Dtype::Float32,
            [region(200, 64), region(300, 64), from],
            to,
            16
        )),
        overlap
    );
    // The same beginning is not the same range when the elements have different sizes.
    assert!(Operation::cast(from, Dtype::Int32, from, Dtype::Int16, 16).is_err());
    assert!(Operation::copy(from, from).is_ok());
    assert!(Operation::cast(from, Dtype::Int32, from, Dtype::Float32, 16).is_ok());
    assert!(Operation::compute(ReduceOp::Add, Dtype::Int8, vec![from, from], from, 64).is_ok());
    assert!(Operation::fma(Dtype::Float16, [from; 3], from, 32).is_ok());
}

#[test]
fn d4_regions_hold_as_many_elements_as_are_asked_for() {
    let (short, long) = (region(0, 63), region(100, 128));
    let too_short = InvalidOperation::TooShort {
        region: short,
        elements: 16,
        dtype: Dtype::Float32,
    };
    assert_eq!(
        refused(Operation::cast(
            short,
            Dtype::Float32,
            long,
            Dtype::Int8,
            16
        )),
        too_short
    );
    assert_eq!(
        refused(Operation::cast(
            long,
            Dtype::Int8,
            short,
            Dtype::Float32,
            16
        )),
        too_short
    );
    assert_eq!(
        refused(Operation::compute(
            ReduceOp::Max,
            Dtype::Float32,
            vec![long, short],
            long,
            16
        )),
        too_short
    );
    assert_eq!(
        refused(Operation::fma(
            Dtype::Float32,
            [long, long, short],
            long,
            16
        )),
        too_short
    );
    for elements in [u64::MAX, u64::MAX / 8 + 1, 1 << 62] {
        assert!(matches!(
            refused(Operation::cast(
                long,
                Dtype::Int64,
                region(400, 8),
                Dtype::Int8,
                elements
            )),
            InvalidOperation::TooShort { .. }
        ));
    }
    assert_eq!(
        refused(Operation::copy(region(0, 8), region(8, 9))),
        InvalidOperation::Lengths { from: 8, to: 9 }
    );
}

#[test]
fn d4_memory_of_the_host_or_of_another_core_is_refused() {
    let here = region(0, 64);
    let host = Region::new(Place::Host, DeviceAddr::new(BASE), 64).unwrap();
    let other = Place::Hbm(TpbIndex::new(1));
    let there = Region::new(other, DeviceAddr::new(BASE + 4096), 64).unwrap();
    let not_device = InvalidOperation::NotDeviceMemory {
        region: host,
        place: Place::Host,
    };
    assert_eq!(refused(Operation::write(host)), not_device);
    assert_eq!(refused(Operation::read(host)), not_device);
    assert_eq!(refused(Operation::memset(host, 0)), not_device);
    for pair in [(host, here), (here, host)] {
        assert_eq!(refused(Operation::copy(pair.0, pair.1)), not_device);
        assert_eq!(
            refused(Operation::cast(pair.0, Dtype::Int8, pair.1, Dtype::Int8, 1)),
            not_device
        );
    }
    assert_eq!(
        refused(Operation::compute(
            ReduceOp::Add,
            Dtype::Int8,
            vec![here, host],
            here,
            1
        )),
        not_device
    );
    let apart = |from, to| InvalidOperation::Apart { from, to };
    assert_eq!(refused(Operation::copy(here, there)), apart(HBM, other));
    assert_eq!(
        refused(Operation::cast(there, Dtype::Int8, here, Dtype::Int8, 1)),
        apart(other, HBM)
    );
    assert_eq!(
        refused(Operation::compute(
            ReduceOp::Add,
            Dtype::Int8,
            vec![here, there],
            here,
            1
        )),
        apart(other, HBM)
    );
    assert_eq!(
        refused(Operation::fma(Dtype::Float32, [here, there, here], here, 1)),
        apart(other, HBM)
    );
    assert!(Operation::copy_across(here, there).is_ok());
}

#[test]
fn d4_integers_are_not_multiplied_and_added_and_nothing_is_not_computed() {
    let here = region(0, 64);
    for dtype in Dtype::ALL {
        let made = Operation::fma(dtype, [here; 3], here, 1);
        if dtype.is_float() {
            assert!(made.is_ok());
        } else {
            assert_eq!(refused(made), InvalidOperation::NotFloat { dtype });
        }
    }
    let none = Operation::compute(ReduceOp::Min, Dtype::Int8, Vec::new(), here, 1);
    assert_eq!(refused(none), InvalidOperation::NoSources);
}

#[test]
fn only_writes_and_reads_need_bytes_of_the_host() {
    let here = region(0, 64);
    assert_eq!(Operation::write(here).unwrap().host_bytes(), 64);
    assert_eq!(Operation::read(here).unwrap().host_bytes(), 64);
    assert_eq!(Operation::memset(here, 1).unwrap().host_bytes(), 0);
    assert_eq!(
        Operation::copy(here, region(64, 64)).unwrap().host_bytes(),
        0
    );
}

#[test]
fn d4_a_move_without_the_bounce_buffer_is_between_host_and_device() {
    let device = region(0, 64);
    let host_of = |bytes| Region::new(Place::Host, DeviceAddr::new(BASE + 4096), bytes).unwrap();
    let host = host_of(64);
    for moved in [
        Operation::write_from(host, device),
        Operation::read_into(device, host),
    ] {
        // Nothing has to be lent by the host.
        assert_eq!(moved.unwrap().host_bytes(), 0);
    }
    let not_host = InvalidOperation::NotHostMemory {
        region: device,
        place: HBM,
    };
    let not_device = InvalidOperation::NotDeviceMemory {
        region: host,
        place: Place::Host,
    };
    assert_eq!(refused(Operation::write_from(device, device)), not_host);
    assert_eq!(refused(Operation::read_into(device, device)), not_host);
    assert_eq!(refused(Operation::write_from(host, host)), not_device);
    assert_eq!(refused(Operation::read_into(host, host)), not_device);
    let lengths = InvalidOperation::Lengths { from: 63, to: 64 };
    assert_eq!(refused(Operation::write_from(host_of(63), device)), lengths);
}
