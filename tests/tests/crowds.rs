//! Many threads of one process that open and close runtimes, on the same cores and on others, on two devices, while executions are
//! in flight.
//!
//! Never do two runtimes have a core; who is refused is told that this process has it; a runtime that is closed under a thread that
//! uses it refuses, and does not hang; and when all are closed nothing is left, in the driver or in the process.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::life::Means;
use neuron_emu::seccomp::run_in;
use neuron_emu::{Config, Emulator};
use nrta::{Backend, Builder, Core, Error, Runtime, Status};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const THREADS: u64 = 6;
/// Opens of each thread; this variable says another number.
const OPENS: u64 = 18;
const MORE: &str = "LANE_TESTS_OPENS";
/// Of two devices with two each.
const CORES: usize = 4;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

struct Crowd<'d> {
    directory: &'d Path,
    means: Means,
    expected: Vec<u8>,
    /// Set after a core was opened, and cleared before it is closed.
    taken: [AtomicBool; CORES],
    had: AtomicU64,
    refused: AtomicU64,
}

impl Crowd<'_> {
    fn builder(&self) -> Builder {
        Runtime::builder()
            .backend(Backend::RealDriver)
            .neuron_device_directory(self.directory)
    }

    fn one(&self, seed: u64, opens: u64) {
        let mut state = 0x9E37_79B9_7F4A_7C15 ^ (seed << 32);
        for _ in 0..opens {
            // CAST: a core.
            let core = (random(&mut state) % CORES as u64) as u32;
            let choice = match random(&mut state) % 4 {
                0 => self.builder().cores(1),
                // Both of a device.
                1 => self.builder().cores(2).first_core(core & !1),
                _ => self.builder().cores(1).first_core(core),
            };
            match choice.open() {
                Ok(runtime) => self.use_and_close(runtime, random(&mut state)),
                Err(Error::Busy(busy)) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    let holder = busy.holder.as_ref().and_then(|holder| holder.pid);
                    assert_eq!(holder, Some(std::process::id()), "{busy}");
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }

    fn use_and_close(&self, runtime: Runtime, random: u64) {
        let settings = runtime.settings();
        let first = settings.first_core.value as usize;
        let cores = first..first + settings.cores.value as usize;
        for core in cores.clone() {
            let was = self.taken[core].swap(true, Ordering::AcqRel);
            assert!(!was, "two runtimes have core {core}");
        }
        self.had.fetch_add(1, Ordering::Relaxed);
        let leave = || {
            for core in cores {
                self.taken[core].store(false, Ordering::Release);
            }
        };
        match random % 4 {
            0 => {
                assert_eq!(self.means.compute(&runtime).as_ref(), Ok(&self.expected));
                leave();
                runtime.close();
            }
            // Closed by drop, with a request in flight.
            1 => {
                let core = runtime.core(0).unwrap();
                let tensor = core.allocate(1 << 16).unwrap();
                let moves = core.tensor_op(0).unwrap();
                let pending = moves.write(&tensor, 0, vec![7; 1 << 16]).unwrap();
                leave();
                drop(runtime);
                drop(pending);
            }
            // Closed while another thread uses it.
            2 => {
                let core = runtime.core(0).unwrap();
                let begun = std::sync::Barrier::new(2);
                std::thread::scope(|scope| {
                    let user = scope.spawn(|| use_until_refused(&core, &begun));
                    begun.wait();
                    leave();
                    runtime.close();
                    user.join().unwrap();
                })
            }
            _ => {
                leave();
                runtime.close();
            }
        }
    }
}

/// Writes and reads until that is refused or fails: it has a status.
fn use_until_refused(core: &Core, begun: &std::sync::Barrier) {
    let tensor = core.allocate(256).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let write = || moves.write(&tensor, 0, vec![9; 256]);
    write().unwrap().wait().unwrap();
    begun.wait();
    loop {
        match write() {
            Ok(pending) => {
                if let Err(error) = pending.wait() {
                    return assert_ne!(error.status, Status::SUCCESS, "{error}");
                }
            }
            Err(refused) => return assert_ne!(refused.status(), Status::SUCCESS, "{refused}"),
        }
    }
}

/// Descriptors that are open, but for those of whoever looks at processes at the moment: this, and the emulator beside it.
fn open_descriptors() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets
        .filter(|target| !target.starts_with("/proc"))
        .count()
}

#[test]
fn threads_that_open_and_close_at_once_never_share_a_core_and_leave_nothing() {
    let emulator = Emulator::start(Config {
        devices: 2,
        hbm_bytes: 128 << 20,
        host_bytes: 64 << 20,
        trace_entries: 256,
        ..Config::default()
    })
    .unwrap();
    let more = std::env::var(MORE)
        .ok()
        .and_then(|opens| opens.parse().ok());
    let opens = more.unwrap_or(OPENS);
    let means = Means::read();
    let crowd = Crowd {
        directory: Path::new("/dev/crowds"),
        expected: means.expected(),
        means,
        taken: Default::default(),
        had: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    };
    let outcome = run_in(&emulator, crowd.directory, || {
        // What a process opens once.
        assert_eq!(
            crowd.means.live(crowd.builder()).as_ref(),
            Ok(&crowd.expected)
        );
        let before = open_descriptors();
        std::thread::scope(|scope| {
            for seed in 1..=THREADS {
                let crowd = &crowd;
                scope.spawn(move || crowd.one(seed, opens));
            }
        });
        (
            before,
            open_descriptors(),
            crowd.means.live(crowd.builder().cores(2)),
        )
    });
    let (before, after, next) = match outcome {
        Ok(outcome) => outcome,
        Err(why) => return println!("skipped: {why}"),
    };
    println!("{:?} runtimes, {:?} refusals", crowd.had, crowd.refused);
    assert_eq!(next.as_ref(), Ok(&crowd.expected));
    assert_eq!(before, after, "descriptors");
    assert!(crowd.had.into_inner() > 0 && crowd.refused.into_inner() > 0);
    assert_eq!(emulator.bugs(), []);
    let remains = emulator.remains();
    assert!(remains.is_empty(), "{remains}");
}
