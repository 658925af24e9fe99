//! Drivers that are too old, too new or poorer than ours, as the backend meets them: what it refuses, and what it does without.
//!
//! Failure kind S2; spec `driver.md` sections 1 and 3. The trace of whoever answers says what was asked.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::DIGITS;
use neuron_emu::config::Identity;
use neuron_emu::seccomp::run_in;
use neuron_emu::{AccessMode, Config, Emulator, Event};
use nrta::{Backend, Model, Runtime};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use xu_abi::driver::arch::Versions;
use xu_abi::driver::ioctl::{self, COMPATIBLE_VERSION};
use xu_abi::driver::{Arch, Features};
use xu_device::neuron::{DriverError, Kernel, NeuronDevice, Node, Options, System, survey};

fn emulator(arch: Arch, identity: Identity) -> Arc<Emulator> {
    let config = Config {
        arch,
        identity,
        ..Config::default()
    };
    Emulator::start(config).unwrap()
}

/// Runs a test with the nodes in a directory of its own, or says why not.
fn under<T: Send>(emulator: &Arc<Emulator>, test: impl FnOnce(&Path) -> T + Send) -> Option<T> {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let directory = PathBuf::from(format!("/dev/negotiated-{number}"));
    let outcome = run_in(emulator, &directory, || test(&directory));
    if let Err(unavailable) = &outcome {
        println!("skipped: {unavailable}");
    }
    assert_eq!(emulator.bugs(), [], "the driver would have crashed");
    outcome.ok()
}

/// What programs did, in short.
fn done(emulator: &Emulator) -> Vec<String> {
    let trace = emulator.trace().into_iter();
    let done = trace.filter_map(|traced| match traced.event {
        Event::Open { mode, .. } => Some(format!("open {mode:?}")),
        Event::Close(_) => Some("close".to_owned()),
        Event::Ioctl { name, .. } => Some(name.unwrap_or("unknown").to_owned()),
        Event::Map { .. } => Some("map".to_owned()),
        _ => None,
    });
    done.collect()
}

/// Opens something, and says only what was refused.
type Opening = fn(Arc<dyn Kernel>, &Path) -> Option<DriverError>;

#[test]
fn s2_a_driver_outside_the_versions_is_refused_by_type_and_asked_nothing_else() {
    // Between the two that are spoken, below, above; none at all; upside down.
    let outside = [(8, 9), (1, 4), (12, u32::MAX), (0, 0), (7, 5)];
    let openings: [(AccessMode, Opening); 3] = [
        (AccessMode::WriteOnly, |kernel, directory| {
            let options = Options {
                directory: directory.to_owned(),
                ..Options::default()
            };
            NeuronDevice::open(&kernel, &options).err()
        }),
        (AccessMode::WriteOnly, |kernel, directory| {
            survey(&kernel, directory).err()
        }),
        (AccessMode::ReadWrite, |kernel, directory| {
            Node::open(kernel, directory, 0).err()
        }),
    ];
    for (arch, (min, max)) in Arch::ALL
        .iter()
        .flat_map(|arch| outside.map(|range| (arch, range)))
    {
        for (mode, opening) in openings {
            let driver = Versions { min, max };
            let identity = Identity {
                versions: Some(driver),
                ..Identity::default()
            };
            let emulator = emulator(*arch, identity);
            let Some(refused) = under(&emulator, |directory| opening(Arc::new(System), directory))
            else {
                return;
            };
            let ours = Arch::ALL.iter().map(|arch| arch.table().versions).collect();
            assert_eq!(refused, Some(DriverError::Version { driver, ours }));
            let opened = format!("open {mode:?}");
            assert_eq!(
                done(&emulator),
                [&*opened, COMPATIBLE_VERSION.name, "close"]
            );
        }
    }
}

/// What stands behind a feature: calls that a driver without it does not know.
const CALLS: [(u64, &[&str]); 8] = [
    (Features::DMABUF, &[ioctl::DMABUF_FD.name]),
    (
        Features::ASYNC_DMA,
        &[
            ioctl::MEM_COPY_ASYNC.name,
            ioctl::MEM_COPY_ASYNC64.name,
            ioctl::MEM_COPY_ASYNC_WAIT.name,
        ],
    ),
    (
        Features::BATCH_DMAQ_INIT,
        &[ioctl::DMA_QUEUE_INIT_BATCH.name],
    ),
    (
        Features::BIG_CORE_MAPS,
        &[
            ioctl::CRWL_NC_RANGE_MARK_EXT0.name,
            ioctl::CRWL_NC_RANGE_UNMARK_EXT0.name,
        ],
    ),
    (Features::MEM_ALLOC_TYPE, &[ioctl::MEM_ALLOC_V2MT.name]),
    (
        Features::HBM_SCRUB,
        &[ioctl::HBM_SCRUB_START.name, ioctl::HBM_SCRUB_WAIT.name],
    ),
    (
        Features::MEM_ALLOC64,
        &[
            ioctl::MEM_ALLOC_V2MT64.name,
            ioctl::MEM_BUF_COPY64.name,
            ioctl::MEM_COPY64.name,
            ioctl::MEMSET64.name,
            ioctl::DMA_COPY_DESCRIPTORS64.name,
            ioctl::PROGRAM_ENGINE_NC64.name,
        ],
    ),
    // A type of memory, which is never asked for.
    (Features::CONTIGUOUS_SCRATCHPAD, &[]),
];

/// The label of the first image that was held out.
fn first_label(directory: &Path) -> u8 {
    let builder = Runtime::builder()
        .backend(Backend::RealDriver)
        .neuron_device_directory(directory);
    let runtime = builder.open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, 1).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let held_out = std::fs::read(format!("{DIGITS}/heldout.xud")).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let pixels = held_out[24..24 + 64].to_vec();
    moves.write(&image, 0, pixels).unwrap().wait().unwrap();
    let compute = core.compute();
    let run = compute.execute(&loaded, &[&image], &[&outputs[0], &outputs[1]]);
    run.unwrap().wait().unwrap();
    let label = moves.read(&outputs[1], 0, vec![0; 4]).unwrap();
    label.wait().unwrap()[0]
}

/// The calls that a life of a runtime makes of a driver with these features.
fn calls(features: Features) -> Option<BTreeSet<String>> {
    let identity = Identity {
        features,
        ..Identity::default()
    };
    let emulator = emulator(Arch::V2, identity);
    let label = under(&emulator, first_label)?;
    let held_out = std::fs::read(format!("{DIGITS}/heldout.xud")).unwrap();
    let images = u32::from_le_bytes(held_out[12..16].try_into().unwrap()) as usize;
    assert_eq!(label, held_out[24 + images * 64], "without {features:?}");
    let remains = emulator.remains();
    assert!(remains.is_empty(), "{remains}");
    Some(done(&emulator).into_iter().collect())
}

#[test]
fn s2_without_a_feature_a_model_runs_and_no_call_of_it_is_made() {
    let all: u64 = CALLS.iter().map(|(bit, _)| bit).sum();
    assert_eq!(all, 0xFF);
    for (feature, names) in CALLS {
        let Some(made) = calls(Features::from_raw(all & !feature)) else {
            return;
        };
        let of_it: Vec<_> = names.iter().filter(|name| made.contains(**name)).collect();
        assert!(of_it.is_empty(), "{of_it:?} without bit {feature:#x}");
    }
    let Some(made) = calls(Features::from_raw(all)) else {
        return;
    };
    for call in [ioctl::MEM_ALLOC_V2MT64, ioctl::CRWL_NC_RANGE_MARK_EXT0] {
        assert!(made.contains(call.name), "with everything {call} is made");
    }
}
