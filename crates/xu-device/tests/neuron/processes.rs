//! Who is attached to a device.

use super::script::{Script, V2};
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{AppInfo, GetAppsInfo, ioctl};
use xu_device::neuron::{Attached, Meaning};

#[test]
fn processes_are_told_with_their_memory_and_no_more_than_there_are() {
    let (script, node) = Script::node(V2);
    script.reply(&ioctl::DEVICE_GET_ALL_APPS_INFO, |call| {
        let argument = call.argument_mut();
        let head = GetAppsInfo::read(argument).unwrap();
        assert_eq!((head.flags, head.capacity), (0xF, 16));
        // More than there is room for; the second slot is nobody's.
        argument[..16].copy_from_slice(
            &GetAppsInfo {
                size: u32::MAX,
                ..head
            }
            .to_bytes(),
        );
        let app = AppInfo {
            pid: 4711,
            nc_lock_map: 2,
            host_mem_size: 4096,
            device_mem_size: 1 << 33,
            ..AppInfo::ZEROED
        };
        argument[16..168].copy_from_slice(&app.to_bytes());
        Answer::Done
    });
    let expected = Attached {
        pid: 4711,
        locked_cores: 2,
        host_bytes: 4096,
        device_bytes: 1 << 33,
    };
    assert_eq!(node.processes().unwrap(), [expected]);
}

#[test]
fn a_driver_that_does_not_tell_is_an_error() {
    let (script, node) = Script::node(V2);
    script.answer(&ioctl::DEVICE_GET_ALL_APPS_INFO, Answer::Errno(22));
    let error = node.processes().unwrap_err();
    assert_eq!(error.meaning(), Some(Meaning::BadArgument));
}
