//! Opening a device: who is asked what, in which order, and when nothing more is asked.

use super::script::{Driver, Script, V2, V3, edit};
use xu_abi::SemIndex;
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::{Arch, CompatibleVersion, Features, Semaphore, ioctl};
use xu_device::Status;
use xu_device::neuron::{DriverError, Meaning, Severity};

#[test]
fn s2_the_version_is_asked_first() {
    let script = Script::new(V2);
    let node = script.open(0).unwrap();
    let expected = [
        "COMPATIBLE_VERSION",
        "DEVICE_BASIC_INFO",
        "DRIVER_INFO_GET",
        "DEVICE_BDF_EXT",
    ];
    assert_eq!(script.names(), expected);
    let identity = node.identity();
    assert_eq!((identity.version, identity.arch), (7, Arch::V2));
    assert_eq!((identity.cores(), identity.revision), (2, 255));
    assert_eq!(identity.bdf.to_string(), "0000:5e:03.0");
    assert_eq!(script.events(), ["open neuron0 Full"]);
    drop(node);
    assert_eq!(script.events(), ["close"]);
}

#[test]
fn s2_a_driver_outside_the_range_is_asked_nothing_else() {
    for (versions, text) in [
        ((1, 4), "1 to 4"),
        ((8, 9), "8 to 9"),
        ((12, 13), "12 to 13"),
        // Turned round: it speaks nothing.
        ((7, 5), "7 to 5"),
    ] {
        let script = Script::new(Driver { versions, ..V2 });
        let error = script.open(0).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the driver speaks interface versions {text}, this library 5 to 7 and 10 to 11"
            )
        );
        assert_eq!(script.names(), ["COMPATIBLE_VERSION"]);
        assert_eq!(script.events(), ["open neuron0 Full", "close"]);
    }
}

#[test]
fn s2_the_highest_common_version_is_spoken() {
    for (driver, version) in [
        (V3, 11),
        (
            Driver {
                versions: (3, 6),
                ..V2
            },
            6,
        ),
        (
            Driver {
                versions: (10, 99),
                ..V3
            },
            11,
        ),
    ] {
        let node = Script::new(driver).open(0).unwrap();
        assert_eq!(node.identity().version, version);
    }
}

#[test]
fn s2_an_architecture_of_another_version_is_refused() {
    let script = Script::new(Driver { arch: 3, ..V2 });
    let error = script.open(0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the driver speaks interface versions 7 to 7, this library 10 to 11"
    );
    let script = Script::new(Driver { arch: 1, ..V2 });
    let error = script.open(0).unwrap_err();
    assert_eq!(error, DriverError::Architecture { architecture: 1 });
    assert_eq!(script.events(), ["open neuron0 Full", "close"]);
}

#[test]
fn s2_a_driver_that_does_not_say_has_no_features() {
    let script = Script::new(Driver {
        features: None,
        ..V2
    });
    let node = script.open(0).unwrap();
    assert_eq!(node.identity().features, Features::NONE);
}

#[test]
fn p3_each_step_of_open_undoes_itself() {
    for step in ["DEVICE_BASIC_INFO", "DRIVER_INFO_GET", "DEVICE_BDF_EXT"] {
        let script = Script::new(V2);
        script.answer(super::script::named(step), Answer::Errno(errno::EIO));
        let error = script.open(0).unwrap_err();
        assert_eq!(error.meaning(), Some(Meaning::Lost), "{step}");
        assert_eq!(script.events(), ["open neuron0 Full", "close"]);
        // It can be opened again.
        script.open(0).unwrap();
    }
}

#[test]
fn a_device_is_open_once_in_a_process() {
    let script = Script::new(V2);
    let node = script.open(3).unwrap();
    script.events();
    let error = script.open(3).unwrap_err();
    assert!(matches!(error, DriverError::AlreadyOpen { .. }), "{error}");
    assert!(script.events().is_empty());
    let other = script.open(4).unwrap();
    drop((node, other));
    script.open(3).unwrap();
}

#[test]
fn a_device_beyond_the_last_is_not_looked_for() {
    let script = Script::new(V2);
    let error = script.open(64).unwrap_err();
    assert_eq!(
        error.to_string(),
        "open: index of a device is 64, allowed: 0 to 63"
    );
    assert!(script.events().is_empty());
}

#[test]
fn d4_an_interrupted_call_is_made_again_with_the_same_argument() {
    let (script, node) = Script::node(V2);
    for _ in 0..3 {
        script.reply(&ioctl::SEMAPHORE_READ, |call| {
            edit(call, |a: &mut Semaphore| a.value = 0x5555);
            Answer::Errno(errno::EINTR)
        });
    }
    script.reply(&ioctl::SEMAPHORE_READ, |call| {
        edit(call, |a: &mut Semaphore| {
            assert_eq!(a.value, 0);
            a.value = -5;
        })
    });
    assert_eq!(node.read_semaphore(1, SemIndex::new(9)), Ok(-5));
    let calls = script.calls();
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|c| c.argument == calls[0].argument));
    assert_eq!(calls[0].argument::<Semaphore>().semaphore_index, 9);
}

#[test]
fn d4_a_positive_result_is_a_failure_of_the_call() {
    let (script, node) = Script::node(V2);
    script.answer(&ioctl::SEMAPHORE_INCREMENT, Answer::Positive(12));
    let error = node
        .increment_semaphore(0, SemIndex::new(0), 1)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "SEMAPHORE_INCREMENT: the driver answered 12"
    );
    assert_eq!(
        (error.status(), error.severity()),
        (Status::FAILURE, Severity::Call)
    );
    // The next one is made.
    node.increment_semaphore(0, SemIndex::new(0), 1).unwrap();
    assert_eq!(script.calls().len(), 2);
}

#[test]
fn d4_what_the_driver_writes_into_its_argument_is_seen() {
    let script = Script::new(V2);
    script.reply(&ioctl::COMPATIBLE_VERSION, |call| {
        edit(call, |a: &mut CompatibleVersion| (a.min, a.max) = (6, 6))
    });
    assert_eq!(script.open(0).unwrap().identity().version, 6);
}

#[test]
fn d7_after_the_device_is_lost_nothing_is_asked() {
    for (number, because) in [
        (errno::EIO, Meaning::Lost),
        (errno::EACCES, Meaning::NotAttached),
    ] {
        let (script, node) = Script::node(V2);
        script.answer(&ioctl::SEMAPHORE_WRITE, Answer::Errno(number));
        let error = node.write_semaphore(0, SemIndex::new(1), 1).unwrap_err();
        assert_eq!(error.severity(), Severity::Device);
        assert_eq!(node.lost(), Some(because));
        script.calls();
        let error = node.write_semaphore(0, SemIndex::new(1), 1).unwrap_err();
        assert_eq!(error, DriverError::Lost { because });
        assert!(script.calls().is_empty());
        drop(node);
        assert_eq!(script.events(), ["close"]);
    }
}
