//! A chip as a device: which calls each of its functions makes, in which order, and which none.

use super::script::{BAR0, Driver, Script, V2, V3, edit};
use std::sync::Arc;
use std::time::Duration;
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::{
    AppInfo, DeviceReady, DeviceReset, DmaQueueInit, DmaQueueState, GetAppsInfo, Semaphore, ioctl,
};
use xu_abi::metric::CoreCounter;
use xu_abi::record::{StatusRecord, Subtype};
use xu_abi::{DeviceAddr, Engine, SemIndex, Status};
use xu_device::metrics::{Finished, Metrics};
use xu_device::neuron::{DriverError, Meaning, NeuronDevice, Options, survey};
use xu_device::{Device, DeviceError, DmaQueue, Head, MemoryErrors, Place, TpbIndex, map};
use zerocopy::IntoBytes;

pub(crate) const CORE: TpbIndex = TpbIndex::new(0);
pub(crate) const HBM: Place = Place::Hbm(CORE);
/// Of core 0 of v2.
const NQ_BLOCK: u64 = 0x3053_5000;

fn options(script: &Script) -> Options {
    Options {
        directory: script.root().to_owned(),
        sysfs: script.root().join("sys"),
        ..Options::default()
    }
}

pub(crate) fn open(driver: Driver) -> (Arc<Script>, Arc<NeuronDevice>) {
    let script = Script::new(driver);
    let device = NeuronDevice::open(&script.kernel(), &options(&script)).unwrap();
    script.calls();
    script.events();
    (script, device)
}

fn core_of(script: &Arc<Script>, core: u8) -> Result<Arc<NeuronDevice>, DriverError> {
    let cores = Some(core..core + 1);
    let options = Options {
        cores,
        ..options(script)
    };
    NeuronDevice::open(&script.kernel(), &options)
}

#[test]
fn d3_cores_are_claimed_before_the_process_is_attached_and_reset_before_they_are_used() {
    let script = Script::new(V2);
    let device = NeuronDevice::open(&script.kernel(), &options(&script)).unwrap();
    let identity = [
        "COMPATIBLE_VERSION",
        "DEVICE_BASIC_INFO",
        "DRIVER_INFO_GET",
        "DEVICE_BDF_EXT",
    ];
    let names = script.names();
    let mut expected = identity.to_vec();
    expected.push("CRWL_NC_RANGE_MARK_EXT0");
    expected.extend(identity);
    expected.extend(["ACQUIRE_NEURON_DS", "NC_RESET", "NC_RESET_READY"]);
    expected.extend(["CINIT_SET_STATE"; 4]);
    assert_eq!(names[..expected.len()], expected);
    // Then the clock.
    let clock = &names[expected.len()..];
    assert_eq!(clock[0], "DEVICE_INFO");
    assert!(clock[1..].iter().all(|name| *name == "BAR_READ"));
    let events = script.events();
    assert_eq!(events[..2], ["open neuron0 Misc", "open neuron0 Full"]);
    assert_eq!(script.marked(), [0, 1]);
    let shape = device.shape();
    assert_eq!((shape.arch, shape.tpbs, shape.hbm_bytes), (2, 2, 16 << 30));
    assert_eq!(device.cores(), 0..2);
}

#[test]
fn d3_what_was_opened_last_is_closed_first() {
    let (script, device) = open(V2);
    drop(device);
    let names = script.names();
    assert_eq!(names, ["RELEASE_NEURON_DS", "CRWL_NC_RANGE_UNMARK_EXT0"]);
    let events = script.events();
    assert_eq!(events, [&format!("unmap {}", 256 << 10), "close", "close"]);
    assert_eq!(script.marked(), [0_u32; 0]);
}

#[test]
fn d3_a_refused_core_is_named_with_the_processes_that_have_its_device() {
    let script = Script::new(V2);
    script.take_cores(&[1]);
    script.reply(&ioctl::DEVICE_GET_ALL_APPS_INFO, |call| {
        let head = GetAppsInfo::ABI.size;
        let mut argument = call.argument().to_vec();
        argument[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        let app = AppInfo {
            pid: 4711,
            ..AppInfo::ZEROED
        };
        argument[head..head + AppInfo::ABI.size].copy_from_slice(app.as_bytes());
        call.argument_mut().copy_from_slice(&argument);
        Answer::Done
    });
    let refused = NeuronDevice::open(&script.kernel(), &options(&script)).unwrap_err();
    let taken = DriverError::CoreTaken {
        core: 1,
        free: 1,
        attached: vec![4711],
    };
    assert_eq!(refused, taken);
    // All or nothing, and nothing stays open.
    assert_eq!(script.marked(), [0_u32; 0]);
    let events = script.events();
    let opened = events.iter().filter(|event| event.starts_with("open"));
    let closed = events.iter().filter(|event| *event == "close");
    assert_eq!((opened.count(), closed.count()), (2, 2));
    assert!(!script.names().contains(&"NC_RESET"));
}

#[test]
fn d3_a_core_of_this_process_is_refused_in_its_name() {
    let script = Script::new(V2);
    let _first = core_of(&script, 0).unwrap();
    let refused = core_of(&script, 0).unwrap_err();
    let attached = vec![std::process::id()];
    assert!(
        matches!(&refused, DriverError::CoreTaken { core: 0, attached: by, .. } if *by == attached),
        "{refused:?}"
    );
}

/// Traps 11 and 13.
#[test]
fn d3_two_devices_of_one_chip_share_its_descriptors() {
    let script = Script::new(V2);
    let first = core_of(&script, 0).unwrap();
    let second = core_of(&script, 1).unwrap();
    let opened = script.events();
    assert_eq!(opened.iter().filter(|e| e.starts_with("open")).count(), 2);
    let resets: Vec<u32> = script
        .calls()
        .iter()
        .filter(|made| made.name == "NC_RESET")
        .map(|made| made.argument::<DeviceReset>().nc_map)
        .collect();
    assert_eq!(resets, [1, 2]);
    // Each uses its own cores.
    assert!(
        first
            .read_semaphore(TpbIndex::new(1), SemIndex::new(0))
            .is_err()
    );
    assert!(
        second
            .read_semaphore(TpbIndex::new(1), SemIndex::new(0))
            .is_ok()
    );
    drop(first);
    assert!(!script.events().contains(&"close".to_owned()));
    assert_eq!(script.marked(), [1]);
    drop(second);
    assert_eq!(script.events().iter().filter(|e| *e == "close").count(), 2);
}

#[test]
fn d3_a_reset_that_fails_leaves_nothing_open() {
    let script = Script::new(V2);
    script.reply(&ioctl::NC_RESET_READY, |call| {
        edit(call, |ready: &mut DeviceReady| ready.result = 1)
    });
    let failed = NeuronDevice::open(&script.kernel(), &options(&script)).unwrap_err();
    assert_eq!(failed, DriverError::ResetFailed { result: 1 });
    assert_eq!(script.marked(), [0_u32; 0]);
    assert_eq!(script.events().iter().filter(|e| *e == "close").count(), 2);
}

#[test]
fn cores_that_the_chip_does_not_have_are_refused() {
    let script = Script::new(V2);
    for cores in [2..3, 0..3, 1..1, 255..255] {
        let options = Options {
            cores: Some(cores.clone()),
            ..options(&script)
        };
        let refused = NeuronDevice::open(&script.kernel(), &options).unwrap_err();
        assert!(
            matches!(refused, DriverError::BadArgument { .. }),
            "{cores:?}: {refused}"
        );
        assert_eq!(script.marked(), [0_u32; 0]);
    }
}

#[test]
fn a_device_that_cannot_be_is_refused_without_a_call() {
    let script = Script::new(V2);
    for device in [64, u32::MAX] {
        let options = Options {
            device,
            ..options(&script)
        };
        let refused = NeuronDevice::open(&script.kernel(), &options).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains(&device.to_string()), "{text}");
        assert!(script.events().is_empty());
    }
}

/// A reset destroys the rings, and a mapping does not keep them.
#[test]
fn d7_notification_rings_are_unmapped_before_the_reset_that_frees_them() {
    let (script, device) = open(V2);
    device.open_notification_queue(CORE, 4, 4096).unwrap();
    let _kept = device.allocate(Place::Host, 64, 64).unwrap();
    script.events();
    device.close();
    let events = script.events();
    let first = |name: &str| events.iter().position(|event| event.starts_with(name));
    let reset = first("NC_RESET").unwrap();
    assert!(
        first("unmap 4096").is_some_and(|unmap| unmap < reset),
        "{events:?}"
    );
}

/// What the cores may be at for ever is not given to anybody else.
#[test]
fn d7_memory_that_is_left_stays_when_the_reset_at_the_end_fails() {
    let (script, device) = open(V2);
    let _kept = device.allocate(Place::Host, 64, 64).unwrap();
    script.reply(&ioctl::NC_RESET_READY, |call| {
        edit(call, |ready: &mut DeviceReady| ready.result = 1)
    });
    script.events();
    device.close();
    assert!(
        !script.names().contains(&"MEM_FREE"),
        "{:?}",
        script.names()
    );
}

#[test]
fn a_survey_attaches_to_nothing() {
    let script = Script::new(V3);
    let found = survey(&script.kernel(), script.root()).unwrap();
    assert_eq!((found.identity.cores(), found.devices), (8, vec![0]));
    assert_eq!(script.events(), ["open neuron0 Misc", "close"]);
}

const QUEUE: DmaQueue = DmaQueue {
    tpb: TpbIndex::new(1),
    index: 2,
};

fn with_queue(script: &Script, device: &NeuronDevice, queue: DmaQueue) -> [DeviceAddr; 2] {
    let rings = [(); 2].map(|()| device.allocate(Place::Host, 1024, 256).unwrap());
    device
        .open_dma_queue(queue, rings[0], rings[1], 64)
        .unwrap();
    script.calls();
    script.events();
    rings
}

#[test]
fn a_dma_queue_is_one_of_an_engine() {
    let (script, device) = open(V2);
    let rings = [(); 2].map(|()| device.allocate(Place::Host, 1024, 256).unwrap());
    device
        .open_dma_queue(QUEUE, rings[0], rings[1], 64)
        .unwrap();
    let init: DmaQueueInit = script.calls().last().unwrap().argument();
    assert_eq!((init.eng_id, init.qid), map::engine_of(QUEUE));
    device.start_dma(QUEUE, 3).unwrap();
    assert_eq!(script.names(), ["DMA_QUEUE_COPY_START"]);
    for (descriptors, queue) in [(65, QUEUE), (1, DmaQueue { index: 3, ..QUEUE })] {
        let refused = device.start_dma(queue, descriptors).unwrap_err();
        assert_eq!(refused.status(), Status::INVALID);
    }
    let inside = DeviceAddr::new(rings[0].get() + 256);
    assert!(device.open_dma_queue(QUEUE, inside, rings[1], 32).is_err());
    for queue in [4, u8::MAX] {
        let queue = DmaQueue {
            index: queue,
            ..QUEUE
        };
        assert!(device.check_dma(queue).is_err());
        assert!(
            device
                .open_dma_queue(queue, rings[0], rings[1], 32)
                .is_err()
        );
    }
    assert!(script.names().is_empty());
}

/// Its sequencer does.
#[test]
fn a_model_exec_queue_is_not_started() {
    let (script, device) = open(V2);
    let queue = map::model_exec_queue(CORE);
    with_queue(&script, &device, queue);
    device.start_dma(queue, 4).unwrap();
    assert_eq!(script.names(), ["DMA_QUEUE_GET_STATE"]);
}

/// Trap 14.
#[test]
fn d7_rings_that_are_given_back_stay_until_their_queue_is_opened_anew() {
    let (script, device) = open(V2);
    let rings = with_queue(&script, &device, QUEUE);
    for ring in rings {
        device.release(ring).unwrap();
    }
    assert!(script.events().is_empty(), "nothing is freed");
    let new = [(); 2].map(|()| device.allocate(Place::Host, 1024, 256).unwrap());
    script.calls();
    device.open_dma_queue(QUEUE, new[0], new[1], 64).unwrap();
    // Parked, freed, initialised.
    let names = script.names();
    assert_eq!(
        names,
        ["DMA_QUEUE_INIT", "MEM_FREE", "MEM_FREE", "DMA_QUEUE_INIT"]
    );
}

#[test]
fn d6_a_queue_that_has_stopped_is_told() {
    let (script, device) = open(V2);
    with_queue(&script, &device, QUEUE);
    device.check_dma(QUEUE).unwrap();
    script.reply(&ioctl::DMA_QUEUE_GET_STATE, |call| {
        let state = DmaQueueState {
            sw_status: 3,
            ..DmaQueueState::ZEROED
        };
        call.buffers()[1]
            .bytes_mut()
            .unwrap()
            .copy_from_slice(state.as_bytes());
        Answer::Done
    });
    assert_eq!(
        device.check_dma(QUEUE),
        Err(DeviceError::DmaAborted {
            tpb: QUEUE.tpb,
            index: QUEUE.index
        })
    );
}

/// A second doorbell would be a second execution, and a second start walks what nobody wrote.
#[test]
fn d4_an_interrupted_doorbell_is_not_rung_again() {
    let (script, device) = open(V2);
    with_queue(&script, &device, QUEUE);
    script.answer(&ioctl::SEMAPHORE_INCREMENT, Answer::Errno(errno::EINTR));
    let error = device
        .increment_semaphore(CORE, map::INFERENCE_START)
        .unwrap_err();
    assert_eq!(
        error,
        DeviceError::Driver {
            call: "SEMAPHORE_INCREMENT",
            errno: errno::EINTR
        }
    );
    script.answer(&ioctl::DMA_QUEUE_COPY_START, Answer::Errno(errno::EINTR));
    assert!(device.start_dma(QUEUE, 1).is_err());
    assert_eq!(
        script.names(),
        ["SEMAPHORE_INCREMENT", "DMA_QUEUE_COPY_START"]
    );
    script.answer(&ioctl::SEMAPHORE_READ, Answer::Errno(errno::EINTR));
    device.read_semaphore(CORE, map::INFERENCE_START).unwrap();
    assert_eq!(script.names(), ["SEMAPHORE_READ"; 2]);
}

#[test]
fn d7_a_notification_queue_is_zeroed_and_empty_before_it_is_enabled() {
    let (script, device) = open(V2);
    for (register, value) in [(0x08, 0xFFFF), (0x18, 0xFFFF), (0x14, 0x0101)] {
        script.set_register(BAR0 + NQ_BLOCK + register, value);
    }
    let ring = device.open_notification_queue(CORE, 4, 4096).unwrap();
    let init = "NOTIFICATIONS_INIT_WITH_REALLOC_V2";
    assert_eq!(
        script.names(),
        ["BAR_READ", "BAR_WRITE", init, "BAR_READ", "BAR_WRITE"]
    );
    // Neither stalls nor overwrites; the queues beside it are as they were.
    let registers = [0x08, 0x18, 0x14, 4 * 0x28 + 0x10C]
        .map(|register| script.register(BAR0 + NQ_BLOCK + register));
    assert_eq!(registers, [0xFFEF, 0xFFEF, 0x0111, 0]);
    let mut records = vec![0xEE; 4096];
    device.read(ring, &mut records).unwrap();
    assert!(records.iter().all(|byte| *byte == 0));
    device.acknowledge(CORE, &[Head::new(4, 4080)]).unwrap();
    assert_eq!(script.register(BAR0 + NQ_BLOCK + 4 * 0x28 + 0x10C), 4080);
    script.set_register(BAR0 + NQ_BLOCK + 4 * 0x28 + 0x110, 64);
    assert_eq!(device.notification_tail(CORE, 4), Ok(64));
    script.calls();
    // The head before the one that cannot be stays as it was.
    for head in [4096, 8, u64::MAX] {
        let refused = device.acknowledge(CORE, &[Head::new(4, 16), Head::new(4, head)]);
        assert!(
            matches!(refused, Err(DeviceError::BadArgument { value, .. }) if value == head),
            "{refused:?}"
        );
    }
    assert_eq!(device.acknowledge(CORE, &[]), Ok(()));
    for (nq, bytes) in [(10, 4096), (255, 4096), (4, 2048), (4, 5000), (4, 1 << 32)] {
        assert!(device.open_notification_queue(CORE, nq, bytes).is_err());
    }
    assert!(
        device.acknowledge(CORE, &[Head::new(5, 0)]).is_err(),
        "not open"
    );
    assert!(device.notification_tail(CORE, 255).is_err());
    assert!(script.names().is_empty());
    device.open_notification_queue(CORE, 5, 4096).unwrap();
    script.calls();
    let heads = [Head::new(4, 32), Head::new(5, 48)];
    device.acknowledge(CORE, &heads).unwrap();
    assert_eq!(script.names(), ["BAR_WRITE"]);
    let registers = [4, 5].map(|nq| script.register(BAR0 + NQ_BLOCK + nq * 0x28 + 0x10C));
    assert_eq!(registers, [32, 48]);
}

#[test]
fn an_overflow_is_one_of_a_queue_that_is_open() {
    let (script, device) = open(V2);
    device.open_notification_queue(CORE, 4, 4096).unwrap();
    assert_eq!(device.overflow_latched(CORE), Ok(false));
    script.set_register(BAR0 + NQ_BLOCK + 0xC4, 1 << 5);
    assert_eq!(device.overflow_latched(CORE), Ok(false));
    script.set_register(BAR0 + NQ_BLOCK + 0xC4, 1 << 4);
    assert_eq!(device.overflow_latched(CORE), Ok(true));
}

#[test]
fn a_notification_queue_can_be_opened_anew_and_is_disabled_at_the_end() {
    let (script, device) = open(V2);
    let first = device.open_notification_queue(CORE, 4, 4096).unwrap();
    let second = device.open_notification_queue(CORE, 4, 8192).unwrap();
    assert_ne!(first, second);
    assert!(
        device.read(first, &mut [0; 16]).is_err(),
        "the old one is gone"
    );
    device.read(second, &mut [0; 16]).unwrap();
    assert_eq!(script.register(BAR0 + NQ_BLOCK + 0x14), 1 << 4);
    drop(device);
    assert_eq!(script.register(BAR0 + NQ_BLOCK + 0x14), 0);
}

/// The device may still touch what was never given back.
#[test]
fn d1_cores_are_reset_before_memory_is_freed_that_was_never_given_back() {
    let (script, device) = open(V2);
    let memory = device.allocate(Place::Host, 64, 64).unwrap();
    let _kept = memory;
    script.calls();
    device.close();
    let names = script.names();
    let at = |name: &str| names.iter().position(|made| *made == name).unwrap();
    assert!(at("NC_RESET_READY") < at("MEM_FREE"), "{names:?}");
    assert_eq!(device.read(memory, &mut [0; 4]), Err(DeviceError::Lost));
    assert_eq!(device.release(memory), Err(DeviceError::Lost));
    assert!(device.clock().host_ns > 0);
    assert!(script.names().is_empty());
}

#[test]
fn d1_a_device_that_is_lost_does_not_answer_from_its_mappings() {
    let (script, device) = open(V2);
    let memory = device.allocate(Place::Host, 64, 64).unwrap();
    script.answer(&ioctl::SEMAPHORE_READ, Answer::Errno(errno::EIO));
    let lost = Err(DeviceError::Lost);
    assert_eq!(
        device.read_semaphore(CORE, SemIndex::new(0)),
        lost.clone().map(|()| 0)
    );
    script.calls();
    assert_eq!(device.read(memory, &mut [0; 4]), lost);
    assert_eq!(device.write(memory, &[0; 4]), lost);
    assert_eq!(device.load_acquire(memory), lost.clone().map(|()| 0));
    assert_eq!(device.increment_semaphore(CORE, SemIndex::new(0)), lost);
    assert!(script.names().is_empty());
}

#[test]
fn a_core_is_at_rest_when_no_doorbell_waits_and_no_queue_has_anything_left() {
    let (script, device) = open(V2);
    with_queue(&script, &device, QUEUE);
    let tpb = QUEUE.tpb;
    device.quiesce(tpb, Duration::ZERO).unwrap();
    script.reply(&ioctl::SEMAPHORE_READ, |call| {
        edit(call, |semaphore: &mut Semaphore| semaphore.value = 1)
    });
    let busy = Err(DeviceError::Busy { tpb });
    assert_eq!(device.quiesce(tpb, Duration::ZERO), busy);
    script.reply(&ioctl::DMA_QUEUE_GET_STATE, |call| {
        let state = DmaQueueState {
            tail_pointer: 4,
            ..DmaQueueState::ZEROED
        };
        call.buffers()[0]
            .bytes_mut()
            .unwrap()
            .copy_from_slice(state.as_bytes());
        Answer::Done
    });
    assert_eq!(device.quiesce(tpb, Duration::ZERO), busy);
    // It is asked again while there is time.
    script.reply(&ioctl::SEMAPHORE_READ, |call| {
        edit(call, |semaphore: &mut Semaphore| semaphore.value = 1)
    });
    device.quiesce(tpb, Duration::MAX).unwrap();
}

/// An END that is lost cannot be told from one that is to come.
#[test]
fn d7_a_core_is_not_at_rest_while_an_engine_has_not_said_end_for_each_doorbell() {
    let (script, device) = open(V2);
    let nq = Engine::Pe.status_nq();
    let ring = device.open_notification_queue(CORE, nq, 4096).unwrap();
    let tail = BAR0 + NQ_BLOCK + u64::from(nq) * 0x28 + 0x110;
    let mut written = 0_u64;
    let mut post = |subtype, arrives: bool| {
        let record = StatusRecord::new(subtype, 0, 0);
        let mut bytes: [u8; 16] = record.as_bytes().try_into().unwrap();
        // The first lap has the phase bit set, the second has not, and so on.
        let is_set = (written / 256).is_multiple_of(2) == arrives;
        bytes[3] = if is_set {
            bytes[3] | 0x80
        } else {
            bytes[3] & !0x80
        };
        let at = DeviceAddr::new(ring.get() + written % 256 * 16);
        device.write(at, &bytes).unwrap();
        written += 1;
        script.set_register(tail, (written % 256 * 16) as u32);
        written
    };
    let rests = || device.quiesce(CORE, Duration::ZERO);
    let busy = Err(DeviceError::Busy { tpb: CORE });
    assert_eq!(rests(), Ok(()));
    for round in 0..200 {
        device
            .increment_semaphore(CORE, map::INFERENCE_START)
            .unwrap();
        assert_eq!(rests(), busy, "round {round}");
        post(Subtype::Start, true);
        assert_eq!(rests(), busy, "round {round}");
        let written = post(Subtype::End, true);
        assert_eq!(rests(), Ok(()), "round {round}");
        if round % 3 == 0 {
            device
                .acknowledge(CORE, &[Head::new(nq, written % 256 * 16)])
                .unwrap();
            assert_eq!(rests(), Ok(()), "round {round}");
        }
    }
    // Other semaphores start nothing.
    device.increment_semaphore(CORE, SemIndex::new(7)).unwrap();
    assert_eq!(rests(), Ok(()));
    // The tail is no proof that a record has arrived.
    device
        .increment_semaphore(CORE, map::INFERENCE_START)
        .unwrap();
    post(Subtype::End, false);
    assert_eq!(rests(), busy);
    // A ring that is opened anew begins with nothing to wait for.
    device.open_notification_queue(CORE, nq, 4096).unwrap();
    script.set_register(tail, 0);
    assert_eq!(rests(), Ok(()));
}

#[test]
fn counters_reach_the_datastore_of_the_driver() {
    let (script, device) = open(V2);
    let metrics = Metrics::new(2);
    let finished = Finished {
        status: Status::SUCCESS,
        total: Some(Duration::from_micros(5)),
        ..Finished::default()
    };
    metrics.record(CORE, &finished).unwrap();
    device.publish(CORE, &metrics);
    // A core that it does not have.
    device.publish(TpbIndex::new(7), &metrics);
    assert!(script.names().is_empty());
    drop(device);
    let counter =
        |counter: CoreCounter| script.datastore_word(counter.datastore_offset(0).unwrap());
    assert_eq!(counter(CoreCounter::INFER_COMPLETED), 1);
    assert_eq!(counter(CoreCounter::LATENCY_TOTAL), 5);
}

/// The driver adds only what the area holds when it is released.
#[test]
fn counters_of_an_earlier_device_of_the_process_are_not_lost() {
    let script = Script::new(V2);
    let other = core_of(&script, 1).unwrap();
    let finished = Finished {
        status: Status::SUCCESS,
        total: Some(Duration::from_micros(5)),
        ..Finished::default()
    };
    for _ in 0..2 {
        let device = core_of(&script, 0).unwrap();
        // As a second runtime on the same device: it counts from 0.
        for executions in [2, 1] {
            let metrics = Metrics::new(2);
            for _ in 0..executions {
                metrics.record(CORE, &finished).unwrap();
                device.publish(CORE, &metrics);
            }
        }
    }
    drop(other);
    let counter =
        |counter: CoreCounter| script.datastore_word(counter.datastore_offset(0).unwrap());
    assert_eq!(counter(CoreCounter::INFER_COMPLETED), 6);
    assert_eq!(counter(CoreCounter::LATENCY_TOTAL), 5);
}

#[test]
fn a_driver_without_an_area_for_counters_runs_all_the_same() {
    let script = Script::new(V2);
    script.answer(&ioctl::ACQUIRE_NEURON_DS, Answer::Errno(errno::ENOMEM));
    let device = NeuronDevice::open(&script.kernel(), &options(&script)).unwrap();
    device.publish(CORE, &Metrics::new(2));
    drop(device);
    assert!(!script.names().contains(&"RELEASE_NEURON_DS"));
}

#[test]
#[cfg_attr(miri, ignore = "files")]
fn memory_errors_are_those_of_sysfs_and_none_where_it_is_not() {
    let root = std::env::temp_dir().join(format!("neuron-errors-{}", std::process::id()));
    let files = root.join("class/neuron_device/neuron0/stats/hardware");
    let script = Script::new(V2);
    let options = Options {
        sysfs: root.clone(),
        ..options(&script)
    };
    let device = NeuronDevice::open(&script.kernel(), &options).unwrap();
    assert_eq!(device.memory_errors(CORE), Ok(MemoryErrors::default()));
    std::fs::create_dir_all(&files).unwrap();
    for (name, text) in [
        ("sram_ecc_uncorrected", "3\n"),
        ("mem_ecc_uncorrected", "4"),
    ] {
        std::fs::write(files.join(name), text).unwrap();
    }
    let errors = MemoryErrors {
        sram: 3,
        hbm: 4,
        hbm_repairable: 0,
    };
    assert_eq!(device.memory_errors(CORE), Ok(errors));
    std::fs::write(files.join("mem_ecc_uncorrected"), "many").unwrap();
    let refused = device.memory_errors(CORE).unwrap_err();
    std::fs::remove_dir_all(&root).unwrap();
    assert!(
        refused.to_string().contains("\"many\" is no number"),
        "{refused}"
    );
}

#[test]
fn the_clock_is_that_of_the_notification_block() {
    let (script, device) = open(V2);
    script.set_register(BAR0 + NQ_BLOCK, 0x89AB_CDEF);
    script.set_register(BAR0 + NQ_BLOCK + 4, 0x0123_4567);
    let clock = device.clock();
    assert_eq!(clock.ticks, 0x0123_4567_89AB_CDEF);
    assert_eq!(clock.to_host_ns(clock.ticks), clock.host_ns);
    assert_eq!(script.names(), ["BAR_READ"]);
}

#[test]
fn an_error_of_the_driver_is_one_of_the_device() {
    let (script, device) = open(V2);
    script.answer(&ioctl::MEM_ALLOC_V2MT64, Answer::Errno(errno::EBUSY));
    let error = device.allocate(Place::Host, 64, 64).unwrap_err();
    assert_eq!(error.status(), Status::EXEC_NC_BUSY);
    // Positive numbers are no success.
    script.answer(&ioctl::MEM_ALLOC_V2MT64, Answer::Positive(56));
    let error = device.allocate(Place::Host, 64, 64).unwrap_err();
    assert_eq!(error.status(), Status::FAILURE, "{error}");
    // What EPERM means is said by the table of answers, and not by the number alone.
    script.answer(&ioctl::DMA_QUEUE_INIT, Answer::Errno(errno::EPERM));
    let rings = [(); 2].map(|()| device.allocate(Place::Host, 1024, 256).unwrap());
    let queue = DmaQueue {
        tpb: CORE,
        index: 1,
    };
    let error = device
        .open_dma_queue(queue, rings[0], rings[1], 64)
        .unwrap_err();
    assert_eq!(error.status(), Status::INVALID, "{error}");
    assert_eq!(Meaning::Lost.status(), DeviceError::Lost.status());
}
