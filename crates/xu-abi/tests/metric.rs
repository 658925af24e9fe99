//! Counters against the tables of the specification, `xu.md` section 7 and `driver.md` section 9, written here by hand.

use xu_abi::Status;
use xu_abi::metric::{CoreCounter, DeviceCounter, ErrorFlag, Latency};

#[test]
fn statuses_move_the_counters_of_the_table() {
    let table = [
        (0, 1),
        (1004, 2),
        (5, 4),
        (7, 6),
        (6, 11),
        (1, 16),
        (2, 19),
        (1006, 30),
        (1201, 32),
        (1202, 33),
    ];
    for (status, ordinal) in table {
        let counter = CoreCounter::of_status(Status::from_raw(status));
        assert_eq!(counter.map(CoreCounter::ordinal), Some(ordinal), "{status}");
    }
    let others = Status::NAMED
        .iter()
        .filter(|status| !table.iter().any(|(raw, _)| *raw == status.raw()));
    for status in others {
        assert_eq!(CoreCounter::of_status(*status), None, "{status}");
    }
}

#[test]
fn four_of_nine_error_flags_are_counted() {
    let counters: Vec<_> = ErrorFlag::all()
        .map(|flag| {
            flag.counter()
                .map(|counter| (counter.ordinal(), counter.name().unwrap()))
        })
        .collect();
    let expected = [
        None,
        None,
        None,
        None,
        None,
        Some((36, "ERR_SW_SEMAPHORE_ERROR")),
        Some((37, "ERR_SW_EVENT_ERROR")),
        Some((38, "ERR_SW_PSUM_COLLISION")),
        Some((39, "ERR_SW_SEQUENCER_FATAL")),
    ];
    assert_eq!(counters, expected);
    assert!(ErrorFlag::new(9).is_none());
}

#[test]
fn latencies_have_four_counters() {
    let counters = Latency::ALL.map(|latency| {
        let counter = latency.counter();
        (counter.ordinal(), counter.name().unwrap())
    });
    let expected = [
        (13, "LATENCY_DEVICE"),
        (14, "LATENCY_TOTAL"),
        (15, "NC_TIME"),
        (21, "CC_TIME"),
    ];
    assert_eq!(counters, expected);
}

#[test]
fn core_counters_are_those_of_the_driver() {
    let names = [
        "TIME_IN_USE",
        "INFER_COMPLETED",
        "INFER_COMPLETED_WITH_ERR",
        "INFER_COMPLETED_WITH_NUM_ERR",
        "INFER_TIMED_OUT",
        "INFER_INCORRECT_INPUT",
        "INFER_FAILED_TO_QUEUE",
        "ERR_GENERIC",
        "ERR_NUMERICAL",
        "ERR_MODEL",
        "ERR_TRANSIENT",
        "ERR_HW",
        "ERR_RT",
        "LATENCY_DEVICE",
        "LATENCY_TOTAL",
        "NC_TIME",
        "GENERIC_FAIL",
        "ERR_RESOURCE",
        "ERR_RESOURCE_NC",
        "ERR_INVALID",
        "ERR_UNSUPPORTED_NEFF_VERSION",
        "CC_TIME",
        "MEM_USAGE_CODE_DEVICE",
        "MEM_USAGE_TENSORS_DEVICE",
        "MEM_USAGE_CONSTANTS_DEVICE",
        "MEM_USAGE_SCRATCHPAD_DEVICE",
        "MEM_USAGE_MISC_DEVICE",
        "MODEL_LOAD_COUNT",
        "INFERENCE_COUNT",
        "MAC_COUNT",
        "OOB",
        "HW_ERR_COLLECTIVES",
        "HW_ERR_HBM_UE",
        "HW_ERR_NC_UE",
        "HW_ERR_DMA_ABORT",
        "ERR_SW_NQ_OVERFLOW",
        "ERR_SW_SEMAPHORE_ERROR",
        "ERR_SW_EVENT_ERROR",
        "ERR_SW_PSUM_COLLISION",
        "ERR_SW_SEQUENCER_FATAL",
        "HW_ERR_REPAIRABLE_HBM_UE",
    ];
    for ordinal in 0..95 {
        let counter = CoreCounter::new(ordinal).unwrap();
        assert_eq!(counter.name(), names.get(usize::from(ordinal)).copied());
        let prefix = if ordinal < 31 {
            "NDS_NC_COUNTER_"
        } else {
            "NDS_EXT_NC_COUNTER_"
        };
        assert_eq!(counter.prefix(), prefix);
    }
    assert_eq!(CoreCounter::new(95), None);
    assert_eq!(CoreCounter::NAMED.len(), names.len());
    let reserved = CoreCounter::new(94).unwrap();
    assert_eq!(format!("{reserved:?}"), "CoreCounter(reserved 94)");
}

#[test]
fn device_counters_are_those_of_the_driver() {
    let names = [
        "RUNTIME_VERSION",
        "FRAMEWORK_VERSION",
        "FAL_VERSION",
        "FEATURE_BITMAP",
        "MIN_NEFF_VERSION",
        "MAX_NEFF_VERSION",
        "MEM_USAGE_CODE_HOST",
        "MEM_USAGE_TENSORS_HOST",
        "MEM_USAGE_CONSTANTS_HOST",
        "MEM_USAGE_SCRATCHPAD_HOST",
        "MEM_USAGE_MISC_HOST",
        "DYNAMIC_SYSFS_METRIC_BITMAP",
        "DEVICE_CLUSTER_ID",
    ];
    for ordinal in 0..31 {
        let counter = DeviceCounter::new(ordinal).unwrap();
        assert_eq!(counter.name(), names.get(usize::from(ordinal)).copied());
        assert_eq!(counter.datastore_offset(), 8 + 8 * u32::from(ordinal));
    }
    assert_eq!(DeviceCounter::new(31), None);
}

/// Begin and end of each region of the datastore, and no two counters at one place.
#[test]
fn counters_lie_where_the_driver_looks_for_them() {
    let at = |ordinal, core| CoreCounter::new(ordinal).unwrap().datastore_offset(core);
    assert_eq!(at(0, 0), Some(256));
    assert_eq!(at(30, 3), Some(1248 - 8));
    assert_eq!(at(31, 0), Some(0xDA80));
    assert_eq!(at(94, 3), Some(0xE280 - 8));
    assert_eq!(at(0, 4), Some(0xE280));
    // One word of padding ends each later core.
    assert_eq!(at(94, 15), Some(67_200 - 16));
    assert_eq!(at(0, 16), None);

    let mut all: Vec<_> = (0..16)
        .flat_map(|core| (0..95).map(move |ordinal| at(ordinal, core).unwrap()))
        .chain((0..31).map(|ordinal| DeviceCounter::new(ordinal).unwrap().datastore_offset()))
        .collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] + 8 <= pair[1]));
}
