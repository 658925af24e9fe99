//! Tests: a device that does something else than a fact says is found out.
//!
//! The emulated driver behind real system calls, and between it and the probe a kernel that changes single answers.

use super::report::Verdict;
use super::semaphores::{EVENT, SEMAPHORE};
use super::{ProbeArgs, Report, look};
use neuron_emu::seccomp::run_in;
use neuron_emu::{Config, Emulator};
use nrta::neuron::abi::errno::Answer;
use nrta::neuron::abi::nq_register::NQ_STRIDE;
use nrta::neuron::abi::unverified::{NQ_BACK_PRESSURE, NQ_ENABLE, NQ_OVERWRITE, NQ_THRESHOLD};
use nrta::neuron::abi::{ArchTable, Semaphore};
use nrta::neuron::{Access, Call, Descriptor, Grain, Kernel, Node, Pages, System};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What becomes of a call: it is made, or not, and its answer changed.
type Lie = dyn Fn(&Descriptor, &mut Call<'_, '_>) -> Answer + Send + Sync;

struct Liar {
    lie: Box<Lie>,
    /// Whether memory of the host is found with old bytes in it.
    is_dirty: bool,
}

impl fmt::Debug for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Liar")
    }
}

impl Kernel for Liar {
    fn open(&self, path: &Path, access: Access) -> Result<Descriptor, i32> {
        System.open(path, access)
    }

    fn ioctl(&self, descriptor: &Descriptor, call: &mut Call<'_, '_>) -> Answer {
        (self.lie)(descriptor, call)
    }

    fn map(
        &self,
        descriptor: &Descriptor,
        offset: u64,
        bytes: usize,
        access: Access,
        grain: Grain,
    ) -> Result<Pages, i32> {
        let pages = System.map(descriptor, offset, bytes, access, grain)?;
        if self.is_dirty && bytes == OLD_AT + 4096 {
            let word = pages.word(OLD_AT).unwrap();
            word.store(0xA5, Ordering::Relaxed);
        }
        Ok(pages)
    }

    fn unmap(&self, pages: Pages) -> Result<(), i32> {
        System.unmap(pages)
    }

    fn close(&self, descriptor: Descriptor) {
        System.close(descriptor);
    }
}

/// Where the old byte is: in the last page of the chunks that are looked into.
const OLD_AT: usize = (256 << 10) - 4096;

/// The report on a device whose calls of one name become something else; `None` where the emulation cannot be.
fn told(
    name: &'static str,
    lie: impl Fn(&Descriptor, &mut Call<'_, '_>) -> Answer + Send + Sync + 'static,
) -> Option<Report> {
    let lie =
        move |descriptor: &Descriptor, call: &mut Call<'_, '_>| match call.ioctl().name == name {
            true => lie(descriptor, call),
            false => System.ioctl(descriptor, call),
        };
    report(Liar {
        lie: Box::new(lie),
        is_dirty: false,
    })
}

fn report(liar: Liar) -> Option<Report> {
    let emulator = Emulator::start(small()).unwrap();
    let args = args();
    let probed = run_in(&emulator, &args.dev, || {
        look(Arc::new(liar), &args).unwrap()
    });
    assert!(emulator.bugs().is_empty(), "{:?}", emulator.bugs());
    match probed {
        Ok(report) => Some(report),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn small() -> Config {
    Config {
        hbm_bytes: 256 << 20,
        host_bytes: 64 << 20,
        ..Config::default()
    }
}

/// With a directory of its own: a process has a device of a directory open once.
fn args() -> ProbeArgs {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    ProbeArgs {
        dev: format!("/lies/{number}").into(),
        index: Some(0),
        ..ProbeArgs::default()
    }
}

/// What the probe changes of the last core, and of its block.
fn state(dev: &Path) -> (i32, bool, [u32; 4]) {
    let node = Node::open(Arc::new(System), dev, 0).unwrap();
    let run = ArchTable::V2.core_nq[0];
    let block = run.base + run.stride;
    let threshold = NQ_THRESHOLD + 9 * NQ_STRIDE;
    let offsets = [NQ_ENABLE, NQ_BACK_PRESSURE, NQ_OVERWRITE, threshold];
    let mut registers = [0; 4];
    node.read_registers(&offsets.map(|offset| block + offset), &mut registers)
        .unwrap();
    let semaphore = node.read_semaphore(1, SEMAPHORE).unwrap();
    (semaphore, node.is_event_set(1, EVENT).unwrap(), registers)
}

#[test]
fn what_the_probe_changes_it_puts_back() {
    let emulator = Emulator::start(small()).unwrap();
    let args = ProbeArgs {
        reset: false,
        ..args()
    };
    let compared = run_in(&emulator, &args.dev, || {
        let before = state(&args.dev);
        look(Arc::new(System), &args).unwrap();
        (before, state(&args.dev))
    });
    match compared {
        Ok((before, after)) => assert_eq!(before, after),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

fn refuted(report: &Report) -> Vec<&'static str> {
    let answers = report.answers();
    answers
        .iter()
        .filter(|(_, answer)| answer.verdict == Verdict::Refuted)
        .map(|(fact, _)| fact.name)
        .collect()
}

fn assert_refutes(report: Option<Report>, facts: &[&str]) {
    if let Some(report) = report {
        assert_eq!(refuted(&report), facts, "{}", super::text(&report));
    }
}

#[test]
fn nothing_is_refuted_where_nobody_lies() {
    assert_refutes(told("", |_, _| Answer::Done), &[]);
}

#[test]
fn an_enable_mask_that_is_not_0_after_a_reset_is_found_out() {
    let block = ArchTable::V2.core_nq[0];
    let lie = move |descriptor: &Descriptor, call: &mut Call<'_, '_>| {
        let answer = System.ioctl(descriptor, call);
        // The last core is looked at: its block is the second.
        let register = block.base + block.stride + NQ_ENABLE;
        let [addresses, values] = call.buffers() else {
            return answer;
        };
        let offsets = addresses.bytes().chunks_exact(8);
        for (place, offset) in offsets.enumerate() {
            let address = u64::from_ne_bytes(offset.try_into().unwrap());
            // The emulation has BAR0 at the beginning of 4 GiB.
            if address as u32 as u64 == register
                && let Some(values) = values.bytes_mut()
            {
                values[4 * place] |= 4;
            }
        }
        answer
    };
    assert_refutes(told("BAR_READ", lie), &["NQ_ENABLE"]);
}

#[test]
fn another_error_number_of_the_map_of_cores_is_found_out() {
    let name = "GET_LOGICAL_TO_PHYSICAL_NC_MAP";
    let report = told(name, |_, _| Answer::Errno(95));
    assert_refutes(report, &["LOGICAL_NC_MAP"]);
}

#[test]
fn a_semaphore_that_counts_otherwise_is_found_out() {
    let lie = |descriptor: &Descriptor, call: &mut Call<'_, '_>| {
        let answer = System.ioctl(descriptor, call);
        let mut semaphore = Semaphore::read(call.argument()).unwrap();
        semaphore.value += 1;
        call.argument_mut().copy_from_slice(&semaphore.to_bytes());
        answer
    };
    let report = told("SEMAPHORE_READ", lie);
    assert_refutes(report, &["SEMAPHORE_REGISTERS"]);
}

#[test]
fn an_engine_that_stops_at_the_first_wrap_is_found_out() {
    let started = AtomicU32::new(0);
    let lie = move |descriptor: &Descriptor, call: &mut Call<'_, '_>| {
        // 16 copies of two pairs are one lap.
        match started.fetch_add(1, Ordering::Relaxed) < 16 {
            true => System.ioctl(descriptor, call),
            false => Answer::Done,
        }
    };
    let report = told("DMA_QUEUE_COPY_START", lie);
    assert_refutes(report, &["RING_IDS"]);
}

#[test]
fn host_chunks_with_old_bytes_are_found_out() {
    let report = report(Liar {
        lie: Box::new(|descriptor, call| System.ioctl(descriptor, call)),
        is_dirty: true,
    });
    assert_refutes(report, &["HOST_CHUNKS_ZEROED"]);
}
