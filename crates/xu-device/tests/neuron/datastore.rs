//! The counters of a process, and where things are in the host.

use super::script::{HOST_BIT, Script, V2, V3, edit, refused};
use std::sync::Arc;
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::{HostDeviceIdToRidMap, NcMap, NcMapEntry, NeuronDsInfo, ioctl};
use xu_abi::metric::{CoreCounter, DeviceCounter};
use xu_device::neuron::{Datastore, DriverError, Meaning, Node};
use zerocopy::IntoBytes;

fn say(script: &Script, size: u32) {
    script.reply(&ioctl::ACQUIRE_NEURON_DS, move |call| {
        edit(call, |a: &mut NeuronDsInfo| {
            (a.mmap_offset, a.size) = (HOST_BIT | 0x5000, size);
        })
    });
}

fn open(script: &Script, node: &Arc<Node>) -> Datastore {
    say(script, 262_144);
    Datastore::own(node, 1).unwrap()
}

#[test]
fn counters_are_added_up_and_released() {
    let (script, node) = Script::node(V2);
    let store = open(&script, &node);
    let asked: NeuronDsInfo = script.calls()[0].argument();
    assert_eq!(asked.pid, 0);
    let offset = HOST_BIT | 0x5000;
    assert_eq!(script.events(), [format!("map {offset:#x} 262144 Full")]);
    store.add(1, CoreCounter::INFER_COMPLETED, 3).unwrap();
    store.add(1, CoreCounter::INFER_COMPLETED, 4).unwrap();
    store.set(15, CoreCounter::NC_TIME, 9).unwrap();
    assert_eq!(store.get(1, CoreCounter::INFER_COMPLETED), Ok(7));
    assert_eq!(store.get(0, CoreCounter::INFER_COMPLETED), Ok(0));
    assert_eq!(store.get(15, CoreCounter::NC_TIME), Ok(9));
    store.set_device(DeviceCounter::RUNTIME_VERSION, 5).unwrap();
    drop(store);
    assert_eq!(script.names(), ["RELEASE_NEURON_DS"]);
    assert_eq!(script.events(), ["unmap 262144"]);
}

/// Trap 29.
#[test]
fn d4_the_bitmap_of_dynamic_metrics_stays_0() {
    let (script, node) = Script::node(V2);
    let store = open(&script, &node);
    script.calls();
    let bitmap = DeviceCounter::DYNAMIC_SYSFS_METRIC_BITMAP;
    refused(&script, store.set_device(bitmap, 1));
    refused(&script, store.add(16, CoreCounter::OOB, 1));
    refused(&script, Datastore::of(&node, 0));
    refused(&script, Datastore::of(&node, 1 << 31));
}

#[test]
fn a_monitor_reads_and_does_not_release() {
    let (script, node) = Script::node(V2);
    say(&script, 262_144);
    let other = Datastore::of(&node, 4711).unwrap();
    other.add(0, CoreCounter::OOB, 1).unwrap();
    assert_eq!(other.get(0, CoreCounter::OOB), Ok(0));
    drop(other);
    assert_eq!(script.names(), ["ACQUIRE_NEURON_DS"]);
    script.answer(&ioctl::ACQUIRE_NEURON_DS, Answer::Errno(errno::ENOENT));
    let error = Datastore::of(&node, 4711).unwrap_err();
    assert_eq!(error.meaning(), Some(Meaning::Missing));
}

#[test]
fn d4_an_area_that_is_too_small_is_not_mapped() {
    for size in [0, 4096, 67_200, 65_536] {
        let (script, node) = Script::node(V2);
        say(&script, size);
        let error = Datastore::own(&node, 1).unwrap_err();
        assert!(matches!(error, DriverError::Nonsense { .. }), "{error}");
        assert!(script.events().is_empty());
    }
}

#[test]
fn d4_more_entries_than_there_is_room_for_are_no_answer() {
    let (script, node) = Script::node(V3);
    for (said, entries) in [
        (2, Some(2)),
        (128, Some(128)),
        (129, None),
        (u32::MAX, None),
    ] {
        script.reply(&ioctl::GET_LOGICAL_TO_PHYSICAL_NC_MAP, move |call| {
            let mut map = NcMap::ZEROED;
            map.num_entries = said;
            map.entries[1] = NcMapEntry {
                device_id: 0,
                device_nc_idx: 5,
            };
            let buffer = call.buffers()[0].bytes_mut().unwrap();
            buffer.copy_from_slice(map.as_bytes());
            Answer::Done
        });
        let cores = node.logical_cores().ok();
        assert_eq!(cores.as_ref().map(Vec::len), entries);
        assert!(cores.is_none_or(|cores| cores[1].device_nc_idx == 5));
    }
    script.reply(&ioctl::HOST_DEVICE_ID_TO_RID_MAP, |call| {
        edit(call, |a: &mut HostDeviceIdToRidMap| a.count = 65)
    });
    let error = node.routing_ids().unwrap_err();
    assert!(matches!(error, DriverError::Nonsense { value: 65, .. }));
    assert_eq!(node.routing_ids(), Ok(vec![]));
    script.reply(&ioctl::HOST_DEVICE_ID, |call| {
        call.argument_mut().copy_from_slice(&64_u32.to_ne_bytes());
        Answer::Done
    });
    let error = node.host_device().unwrap_err();
    assert!(matches!(error, DriverError::Nonsense { value: 64, .. }));
    assert_eq!(node.host_device(), Ok(0));
}
