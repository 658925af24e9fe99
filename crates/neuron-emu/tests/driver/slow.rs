//! A program whose memory takes its time, as one does that has to be fetched: the driver waits for it, and nobody else does.

use crate::program::{ARGUMENT, BUFFER, Program, WriteOnly};
use crate::user::User;
use neuron_emu::{Caller, Config, Emulator, FileId, NotCopied};
use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{
    BarRw, CrwlNcMap, DeviceReady, DmaCopyDescriptors64, DmaDescriptorCopyout, DmaEngGetState,
    DmaQueueInit, DumpMemChunks, Ioctl, MemBufCopy64, MemCopy64, NeuronDsInfo, NotificationsInitV1,
    ProgramEngineNc64, Semaphore,
};
use zerocopy::{Immutable, IntoBytes};

/// Who is held up by the slow one waits for ever. Nobody else takes so long.
const FOR_EVER: Duration = Duration::from_secs(30);
/// Bytes of any argument.
const LARGEST: usize = 1 << 14;
const TPB: u64 = 0xFFF_C000_0000;

/// A program of which every access to its memory lasts until another process has used all of the driver.
struct Slow<'e> {
    program: &'e Program<'e>,
    emulator: &'e Arc<Emulator>,
    accesses: Cell<u32>,
}

impl Slow<'_> {
    fn wait_for_others(&self) {
        self.accesses.set(self.accesses.get() + 1);
        let (emulator, (done, told)) = (Arc::clone(self.emulator), mpsc::channel());
        let other = thread::spawn(move || {
            use_everything(&emulator);
            // Nobody listens any more when this one was held up.
            let _ = done.send(());
        });
        assert!(
            told.recv_timeout(FOR_EVER).is_ok(),
            "another process is held up"
        );
        other.join().unwrap();
    }
}

impl Caller for Slow<'_> {
    fn pid(&self) -> u32 {
        self.program.pid()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotCopied> {
        self.wait_for_others();
        self.program.read(address, into)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), NotCopied> {
        self.wait_for_others();
        self.program.write(address, bytes)
    }

    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Calls that take each of the driver's locks. What they are answered is no matter: the device may be dead.
fn use_everything(emulator: &Emulator) {
    let program = Program::new(emulator, 2);
    let Ok(file) = program.try_open(0, crate::program::ReadWrite) else {
        return;
    };
    let user = User {
        emulator,
        program,
        file,
    };
    program_calls(&user);
    let misc = user.program.try_open(0, WriteOnly).unwrap();
    let mut mark = CrwlNcMap {
        nc_count: 1,
        end_nc_index: 1,
        ..CrwlNcMap::ZEROED
    };
    user.program.call(misc, &row::CRWL_NC_RANGE_MARK, &mut mark);
    user.program.close(misc);
    user.program.close(file);
    let _locks_are_taken = emulator.remains();
}

fn program_calls(user: &User<'_>) {
    let Ok(chunk) = user.try_allocate(crate::user::DEVICE) else {
        return;
    };
    user.call(
        &row::MEM_COPY64,
        &mut MemCopy64 {
            src: chunk,
            dst: chunk,
            size: 1,
            dst_offset: 1,
            ..MemCopy64::ZEROED
        },
    );
    user.free(chunk);
    user.program.put(BUFFER, &[0; 64]);
    user.call(
        &row::DMA_ENG_GET_STATE,
        &mut DmaEngGetState {
            state: BUFFER,
            ..DmaEngGetState::ZEROED
        },
    );
    let mut ring = NotificationsInitV1 {
        size: 4096,
        engine_index: 9,
        ..NotificationsInitV1::ZEROED
    };
    user.call(&row::NOTIFICATIONS_INIT_V1, &mut ring);
    user.call(&row::SEMAPHORE_READ, &mut { Semaphore::ZEROED });
    user.call(&row::ACQUIRE_NEURON_DS, &mut { NeuronDsInfo::ZEROED });
    user.call(&row::NC_RESET_READY, &mut { DeviceReady::ZEROED });
    user.call(&row::NC_MODEL_STARTED_COUNT, &mut [0u64; 2]);
    user.call(&row::CRWL_READER_EXIT, &mut [0u32; 9]);
}

fn small() -> Arc<Emulator> {
    Emulator::start(Config {
        hbm_bytes: 32 << 20,
        host_bytes: 16 << 20,
        ..Config::default()
    })
    .unwrap()
}

/// Makes a call slowly; how often it has reached for memory.
fn slowly(
    emulator: &Arc<Emulator>,
    program: &Program<'_>,
    file: FileId,
    ioctl: &Ioctl,
) -> (Answer, u32) {
    let slow = Slow {
        program,
        emulator,
        accesses: Cell::new(0),
    };
    let answer = emulator.ioctl(&slow, file, ioctl.request(), ARGUMENT);
    (answer, slow.accesses.get())
}

#[test]
fn no_call_holds_others_up_while_its_argument_is_fetched() {
    for ioctl in row::ALL {
        let emulator = small();
        let program = Program::new(&emulator, 1);
        let file = program.open();
        program.put(ARGUMENT, &[0; LARGEST]);
        slowly(&emulator, &program, file, ioctl);
    }
}

/// Makes a call slowly that reaches for more than its argument.
fn assert_slow<A: IntoBytes + Immutable>(prepare: impl FnOnce(&User<'_>) -> (Ioctl, A)) {
    let emulator = small();
    let user = User::new(&emulator, 1);
    let (ioctl, argument) = prepare(&user);
    user.program.put(ARGUMENT, argument.as_bytes());
    user.program.put(BUFFER, &[0; 200_000]);
    let (answer, accesses) = slowly(&emulator, &user.program, user.file, &ioctl);
    assert_eq!(answer, Answer::Done, "{ioctl}");
    assert!(accesses > 1, "{ioctl}: {accesses}");
}

#[test]
fn no_call_holds_others_up_while_what_it_points_at_is_fetched() {
    for into_chunk in [0, 1] {
        let buffer = |user: &User<'_>, ioctl| {
            let argument = MemBufCopy64 {
                mem_handle: user.device(1 << 20),
                buffer: BUFFER,
                size: 131_072,
                copy_to_mem_handle: into_chunk,
                ..MemBufCopy64::ZEROED
            };
            (ioctl, argument)
        };
        assert_slow(|user| buffer(user, row::MEM_BUF_COPY64));
        assert_slow(|user| buffer(user, row::MEM_BUF_ZEROCOPY64));
    }
    assert_slow(|_| {
        let argument = ProgramEngineNc64 {
            dst: TPB,
            buffer: BUFFER,
            size: 131_072,
            ..ProgramEngineNc64::ZEROED
        };
        (row::PROGRAM_ENGINE_NC64, argument)
    });
    assert_slow(|user| {
        let argument = DmaCopyDescriptors64 {
            mem_handle: user.device(1 << 20),
            buffer: BUFFER,
            num_descs: 4,
            ..DmaCopyDescriptors64::ZEROED
        };
        (row::DMA_COPY_DESCRIPTORS64, argument)
    });
    assert_slow(|user| {
        let ring = user.host(1 << 18);
        let mut init = DmaQueueInit {
            eng_id: 3,
            qid: 4,
            tx_desc_count: 8192,
            rx_desc_count: 64,
            tx_handle: ring,
            rx_handle: ring,
            ..DmaQueueInit::ZEROED
        };
        assert_eq!(user.call(&row::DMA_QUEUE_INIT, &mut init), Answer::Done);
        let argument = DmaDescriptorCopyout {
            eng_id: 3,
            qid: 4,
            count: 8192,
            buffer: BUFFER,
            ..DmaDescriptorCopyout::ZEROED
        };
        (row::DMA_DESCRIPTOR_COPYOUT, argument)
    });
    assert_slow(|user| {
        user.device(4096);
        let argument = DumpMemChunks {
            num_entries_in: 16,
            data: BUFFER,
            ..DumpMemChunks::ZEROED
        };
        (row::DUMP_MEM_CHUNKS, argument)
    });
    assert_slow(|_| {
        let argument = BarRw {
            address: BUFFER,
            data: BUFFER,
            ..BarRw::ZEROED
        };
        (row::BAR_READ, argument)
    });
}
