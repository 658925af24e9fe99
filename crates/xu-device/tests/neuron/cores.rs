//! Initialisation and reset of cores.

use super::script::{Script, V2, edit, refused};
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{CinitSet, CoreInit, DeviceReady, DeviceReset, ioctl};
use xu_device::neuron::{DriverError, Meaning};

#[test]
fn a_core_is_initialised_by_who_is_told_so() {
    let (script, node) = Script::node(V2);
    let state = node.initialise_core(1, CoreInit::Started);
    assert_eq!(state, Ok(CoreInit::Started));
    // A state that there is not.
    script.reply(&ioctl::CINIT_SET_STATE, |call| {
        edit(call, |a: &mut CinitSet| a.new_state = 0)
    });
    let error = node.initialise_core(1, CoreInit::Started).unwrap_err();
    assert!(
        matches!(error, DriverError::Nonsense { value: 0, .. }),
        "{error}"
    );
    script.calls();
    refused(&script, node.initialise_core(2, CoreInit::Completed));
}

#[test]
fn d7_a_reset_is_over_when_the_driver_says_so() {
    let (script, node) = Script::node(V2);
    script.reply(&ioctl::NC_RESET, |call| {
        edit(call, |a: &mut DeviceReset| a.request_id = 99)
    });
    for result in [DeviceReady::INTERRUPTED, 0] {
        script.reply(&ioctl::NC_RESET_READY, move |call| {
            edit(call, |a: &mut DeviceReady| {
                assert_eq!(a.request_id, 99);
                a.result = result;
            })
        });
    }
    node.reset_cores(0b10).unwrap();
    let calls = script.calls();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[0].argument::<DeviceReset>().nc_map, 2);
}

/// Trap 9: the call succeeds, and so does one that writes nothing.
#[test]
fn d7_a_reset_that_failed_is_not_a_success() {
    for result in [Some(1), Some(-7), None] {
        let (script, node) = Script::node(V2);
        script.reply(&ioctl::NC_RESET_READY, move |call| {
            edit(call, |a: &mut DeviceReady| {
                if let Some(result) = result {
                    a.result = result;
                }
            })
        });
        let error = node.reset_device().unwrap_err();
        let result = result.unwrap_or(1);
        assert_eq!(error, DriverError::ResetFailed { result });
        let asked: DeviceReset = script.calls()[0].argument();
        assert_eq!(asked.nc_map, u32::MAX);
    }
}

#[test]
fn d7_a_reset_that_is_queued_already_is_told_by_a_positive_number() {
    let (script, node) = Script::node(V2);
    script.answer(&ioctl::NC_RESET, Answer::Positive(1));
    let error = node.reset_cores(1).unwrap_err();
    assert_eq!(error.meaning(), Some(Meaning::Busy));
    assert_eq!(script.names(), ["NC_RESET"]);
}

#[test]
fn d4_cores_that_do_not_exist_are_not_reset() {
    let (script, node) = Script::node(V2);
    for cores in [0, 0b100, u32::MAX] {
        let text = refused(&script, node.reset_cores(cores));
        assert!(text.ends_with("allowed: 1 to 3"), "{text}");
    }
}
