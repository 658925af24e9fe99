//! Claims of cores: all or nothing, by the one descriptor that the kernel releases.

use super::script::{Driver, Script, V2, V3, refused};
use std::sync::Arc;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{AppInfo, CrwlNcMapExt, GetAppsInfo, ioctl};
use xu_device::neuron::{Claims, DriverError};

fn claims(driver: Driver, first: u32) -> (Arc<Script>, Arc<Claims>) {
    let script = Script::new(driver);
    let claims = Claims::open(script.kernel(), script.root(), first).unwrap();
    script.calls();
    (script, claims)
}

#[test]
fn p4_claims_are_made_through_a_descriptor_for_writing_only() {
    let (script, claims) = claims(V2, 0);
    assert_eq!(script.events(), ["open neuron0 Misc"]);
    let claim = claims.claim(1..4, &[]).unwrap();
    assert_eq!((script.marked(), claim.cores()), (vec![1, 2, 3], 1..4));
    drop(claims);
    // The claim keeps it open.
    assert!(script.events().is_empty());
    drop(claim);
    assert_eq!(
        (script.marked(), script.events()),
        (vec![], vec!["close".into()])
    );
}

#[test]
fn p4_a_process_has_one_such_descriptor() {
    let (script, claims) = claims(V2, 0);
    let error = Claims::open(script.kernel(), script.root(), 1).unwrap_err();
    assert!(matches!(error, DriverError::AlreadyOpen { .. }), "{error}");
    // The device itself is something else.
    script.open(0).unwrap();
    drop(claims);
    Claims::open(script.kernel(), script.root(), 1).unwrap();
}

/// Trap 13: by whatever path, it is one driver, and closing either drops all marks of the process.
#[test]
#[cfg_attr(miri, ignore = "files")]
fn p4_a_link_to_the_directory_is_the_same_directory() {
    let root = std::env::temp_dir().join(format!("neuron-claims-{}", std::process::id()));
    let (there, link) = (root.join("dev"), root.join("link"));
    std::fs::create_dir_all(&there).unwrap();
    std::os::unix::fs::symlink(&there, &link).unwrap();
    let script = Script::new(V2);
    let first = Claims::open(script.kernel(), &there, 0).unwrap();
    let second = Claims::open(script.kernel(), &link, 0).unwrap_err();
    std::fs::remove_dir_all(&root).unwrap();
    assert!(
        matches!(second, DriverError::AlreadyOpen { .. }),
        "{second}"
    );
    drop(first);
}

#[test]
fn p4_a_refusal_names_the_core_and_nothing_is_claimed() {
    let (script, claims) = claims(V2, 0);
    script.take_cores(&[3]);
    let error = claims.claim(0..4, &[]).unwrap_err();
    assert_eq!(error.to_string(), "core 3 is claimed already");
    assert_eq!(error.status(), xu_device::Status::EXEC_NC_BUSY);
    assert!(script.marked().is_empty());
    let claim = claims.claim(0..3, &[]).unwrap();
    assert_eq!(script.marked(), [0, 1, 2]);
    drop(claim);
    let error = claims.claim(3..4, &[]).unwrap_err();
    assert_eq!(error.to_string(), "core 3 is claimed already");
}

#[test]
fn p4_a_refusal_names_who_has_the_device_open() {
    let (script, claims) = claims(V2, 0);
    let node = Arc::new(script.open(1).unwrap());
    script.take_cores(&[3]);
    script.reply(&ioctl::DEVICE_GET_ALL_APPS_INFO, |call| {
        let app = |pid| {
            AppInfo {
                pid,
                ..AppInfo::ZEROED
            }
            .to_bytes()
        };
        let argument = call.argument_mut();
        let head = GetAppsInfo {
            // More than there is room for.
            size: 4000,
            ..GetAppsInfo::read(argument).unwrap()
        };
        assert_eq!(head.capacity, 16);
        argument[..16].copy_from_slice(&head.to_bytes());
        for (index, pid) in [std::process::id(), 4711].into_iter().enumerate() {
            argument[16 + 152 * index..][..152].copy_from_slice(&app(pid));
        }
        Answer::Done
    });
    let error = claims.claim(2..4, &[node]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "core 3 is claimed already; the device is open in process 4711"
    );
}

#[test]
fn p4_a_core_that_has_become_free_is_claimed() {
    let (script, claims) = claims(V2, 0);
    script.answer(&ioctl::CRWL_NC_RANGE_MARK_EXT0, Answer::Errno(16));
    let claim = claims.claim(0..4, &[]).unwrap();
    assert_eq!(script.marked(), [0, 1, 2, 3]);
    drop(claim);
    assert!(script.marked().is_empty());
}

#[test]
fn p4_any_other_failure_leaves_nothing_claimed() {
    let (script, claims) = claims(V2, 0);
    let mark = &ioctl::CRWL_NC_RANGE_MARK_EXT0;
    script.answer(mark, Answer::Errno(16));
    script.reply(mark, |call| {
        let asked = CrwlNcMapExt::read(call.argument()).unwrap();
        assert_eq!((asked.nc_count, asked.start_nc_index), (1, 0));
        Answer::Errno(22)
    });
    let error = claims.claim(0..4, &[]).unwrap_err();
    assert!(error.to_string().contains("EINVAL"), "{error}");
    assert!(script.marked().is_empty());
}

#[test]
fn d4_a_mark_of_other_cores_is_taken_back() {
    let (script, claims) = claims(V2, 0);
    script.reply(&ioctl::CRWL_NC_RANGE_MARK_EXT0, |call| {
        super::script::edit(call, |a: &mut CrwlNcMapExt| a.bitmap[0] = 0b1110)
    });
    let error = claims.claim(0..2, &[]).unwrap_err();
    assert!(matches!(error, DriverError::Nonsense { value: 14, .. }));
    let unmark: CrwlNcMapExt = script.calls()[1].argument();
    assert_eq!(unmark.bitmap[0], 0b1110);
}

/// The driver counts from the device of the descriptor.
#[test]
fn cores_are_counted_over_all_devices() {
    let (script, claims) = claims(V3, 2);
    let claim = claims.claim(18..20, &[]).unwrap();
    assert_eq!(script.marked(), [2, 3]);
    drop(claim);
    let text = refused_after(&script, claims.claim(15..17, &[]));
    assert_eq!(
        text,
        "CRWL_NC_RANGE_MARK_EXT0: first core is 15, allowed: 16 to 511"
    );
    script.take_cores(&[2]);
    let error = claims.claim(16..20, &[]).unwrap_err();
    assert_eq!(error.to_string(), "core 18 is claimed already");
}

#[test]
fn d4_a_range_that_cannot_be_is_refused() {
    let (script, claims) = claims(V3, 0);
    #[allow(clippy::reversed_empty_ranges, reason = "this is what is refused")]
    for cores in [0..0, 5..3, 0..513, 511..513, 512..513, 0..u32::MAX] {
        refused_after(&script, claims.claim(cores, &[]));
    }
    claims.claim(0..512, &[]).unwrap();
}

#[test]
fn an_older_driver_marks_64_cores() {
    let driver = Driver {
        features: Some(0xF7),
        ..V3
    };
    let (script, claims) = claims(driver, 0);
    refused_after(&script, claims.claim(0..65, &[]));
    let claim = claims.claim(60..64, &[]).unwrap();
    assert_eq!(script.marked(), [60, 61, 62, 63]);
    assert_eq!(script.names(), ["CRWL_NC_RANGE_MARK"]);
    drop(claim);
    assert_eq!(script.names(), ["CRWL_NC_RANGE_UNMARK"]);
    assert!(script.marked().is_empty());
}

fn refused_after<T: std::fmt::Debug>(script: &Script, result: Result<T, DriverError>) -> String {
    // A refused argument makes no call; those before it are of no interest.
    script.calls();
    refused(script, result)
}
