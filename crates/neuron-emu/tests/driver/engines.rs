//! DMA engines that are told to stop, to run and to give up.

use crate::program::emulator;
use crate::queues::{ENGINE, QUEUE, fill, init, pair, start, state};
use crate::user::{DEVICE, User};
use neuron_emu::Emulator;
use xu_abi::RingId;
use xu_abi::driver::errno::{Answer, EINVAL, EPERM};
use xu_abi::driver::ioctl::{
    DMA_ENG_SET_STATE, DMA_QUEUE_INIT, MEM_COPY_ASYNC_WAIT, MEM_COPY_ASYNC64, MEM_COPY64, NC_RESET,
    PROGRAM_ENGINE_NC64,
};
use xu_abi::driver::{
    CHAIN_START, DeviceReset, DmaEngSetState, DmaQueueInit, EngineState, MemAllocV2MemType64,
    MemCopy64, MemCopyAsync64, MemCopyAsyncWait, ProgramEngineNc64, QueueState,
};

/// Where a copy goes, in the chunk of its source.
const TO: u64 = 1000;
/// Of the driver's own copies: of the first core, and of the second.
const COPIES: [u32; 2] = [32, 33];

/// A queue that has copies of 4 bytes ready.
struct Bench<'e> {
    user: User<'e>,
    init: DmaQueueInit,
    data: u64,
}

impl<'e> Bench<'e> {
    fn new(emulator: &'e Emulator) -> Self {
        let user = User::new(emulator, 1);
        let (tx, rx, data) = (user.host(4096), user.host(4096), user.host(4096));
        let bench = Self {
            init: init(&user, tx, rx),
            user,
            data,
        };
        bench.fill();
        bench
    }

    fn fill(&self) {
        let (user, data) = (&self.user, self.user.pa(self.data));
        assert_eq!(user.write(self.data, 0, b"moved"), Answer::Done);
        let pair = pair(data, data + TO, 4, RingId::FIRST);
        let (tx, rx) = (self.init.tx_handle, self.init.rx_handle);
        assert_eq!(fill(user, tx, 0, 0, &[pair.tx; 8]), Answer::Done);
        assert_eq!(fill(user, rx, 0, 1, &[pair.rx; 8]), Answer::Done);
    }

    fn set(&self, eng_id: u32, state: EngineState) {
        let state = state.raw();
        let mut argument = DmaEngSetState { eng_id, state };
        let told = self.user.call(&DMA_ENG_SET_STATE, &mut argument);
        assert_eq!(told, Answer::Done);
    }

    fn tell(&self, state: EngineState) {
        self.set(ENGINE, state);
    }

    /// Starts one copy: whether it was made, and the head of the queue.
    fn start(&self) -> (bool, u32) {
        assert_eq!(start(&self.user, 1, 1), Answer::Done);
        self.look()
    }

    fn look(&self) -> (bool, u32) {
        let head = state(&self.user, ENGINE, QUEUE).unwrap()[0].head_pointer;
        let was_made = self.user.read(self.data, TO, 4) == b"move";
        if was_made {
            self.user.fill(self.data, TO, 0, 4);
        }
        (was_made, head)
    }

    fn status(&self) -> QueueState {
        let state = state(&self.user, ENGINE, QUEUE).unwrap();
        QueueState::from_raw(state[0].sw_status).unwrap()
    }

    fn init_again(&self) {
        let mut init = self.init;
        assert_eq!(self.user.call(&DMA_QUEUE_INIT, &mut init), Answer::Done);
    }
}

#[test]
fn an_engine_that_is_disabled_moves_nothing_until_it_runs_and_then_what_it_was_given() {
    let emulator = emulator(|_| ());
    let bench = Bench::new(&emulator);
    assert_eq!(bench.start(), (true, 1));
    bench.tell(EngineState::Disable);
    assert_eq!(bench.start(), (false, 1));
    assert_eq!(bench.start(), (false, 1));
    assert_eq!(bench.status(), QueueState::Enabled);
    bench.tell(EngineState::Normal);
    assert_eq!(bench.look(), (true, 3));
    assert_eq!(bench.start(), (true, 4));
}

#[test]
fn a_queue_that_is_initialised_on_an_engine_that_is_disabled_waits_with_it() {
    let emulator = emulator(|_| ());
    let bench = Bench::new(&emulator);
    bench.tell(EngineState::Disable);
    bench.init_again();
    assert_eq!(bench.start(), (false, 0));
    // One that was not there before.
    let mut other = DmaQueueInit {
        qid: QUEUE + 1,
        ..bench.init
    };
    assert_eq!(bench.user.call(&DMA_QUEUE_INIT, &mut other), Answer::Done);
    let head = || state(&bench.user, ENGINE, QUEUE + 1).unwrap()[0].head_pointer;
    let mut start = xu_abi::driver::DmaQueueCopyStart {
        eng_id: ENGINE,
        qid: QUEUE + 1,
        tx_desc_count: 1,
        rx_desc_count: 1,
    };
    let started = bench
        .user
        .call(&xu_abi::driver::ioctl::DMA_QUEUE_COPY_START, &mut start);
    assert_eq!((started, head()), (Answer::Done, 0));
    bench.tell(EngineState::Normal);
    assert_eq!(head(), 1);
    assert_eq!(bench.look(), (true, 1));
}

#[test]
fn queues_of_an_engine_that_aborts_give_up_until_it_runs_and_they_are_initialised() {
    let emulator = emulator(|_| ());
    let bench = Bench::new(&emulator);
    bench.tell(EngineState::Abort);
    assert_eq!(bench.status(), QueueState::Aborted);
    assert_eq!(bench.start(), (false, 0));
    bench.init_again();
    assert_eq!(bench.start(), (false, 0), "it does not run");
    bench.tell(EngineState::Abort);
    bench.tell(EngineState::Normal);
    assert_eq!(bench.look(), (false, 0));
    assert_eq!(bench.status(), QueueState::Aborted);
    bench.init_again();
    assert_eq!(bench.start(), (true, 1));
}

#[test]
fn after_a_reset_of_its_core_an_engine_runs_and_what_it_was_given_is_lost() {
    let emulator = emulator(|_| ());
    let bench = Bench::new(&emulator);
    bench.tell(EngineState::Disable);
    assert_eq!(bench.start(), (false, 0));
    let mut reset = DeviceReset {
        nc_map: 0b10,
        request_id: 0,
    };
    assert_eq!(bench.user.call(&NC_RESET, &mut reset), Answer::Done);
    assert_eq!(bench.look(), (false, 0));
    bench.init_again();
    assert_eq!(bench.start(), (true, 1));
}

/// Starts a copy of the driver's own inside a chunk.
fn begin(user: &User<'_>, chunk: u64) -> Answer {
    let mut copy = MemCopyAsync64 {
        src: chunk,
        dst: chunk,
        size: 4,
        dst_offset: 8,
        pwait_handle: CHAIN_START,
        ..MemCopyAsync64::ZEROED
    };
    user.call(&MEM_COPY_ASYNC64, &mut copy)
}

fn wait(user: &User<'_>, chunk: u64) -> Answer {
    let mut wait = MemCopyAsyncWait {
        src: chunk,
        dst: chunk,
        pwait_handle: 1,
        ..MemCopyAsyncWait::ZEROED
    };
    user.call(&MEM_COPY_ASYNC_WAIT, &mut wait)
}

/// Starts one, has its engine stop, and lets something happen: what there is once it runs again.
fn waiting(meanwhile: impl FnOnce(&Emulator, &User<'_>, u64)) -> (Vec<u8>, Answer, Vec<u8>) {
    let emulator = emulator(|_| ());
    let bench = Bench::new(&emulator);
    let user = &bench.user;
    let chunk = user.allocate(DEVICE);
    assert_eq!(user.write(chunk, 0, b"copy"), Answer::Done);
    assert_eq!(user.fill(chunk, 8, 0, 4), Answer::Done);
    assert_eq!(begin(user, chunk), Answer::Done);
    bench.set(COPIES[0], EngineState::Disable);
    meanwhile(&emulator, user, chunk);
    bench.set(COPIES[0], EngineState::Normal);
    let before = user.read(chunk, 8, 4);
    let waited = wait(user, chunk);
    (before, waited, user.read(chunk, 8, 4))
}

#[test]
fn copies_that_wait_are_not_made_while_their_engine_does_not_run() {
    let [zeroes, made] = [vec![0; 4], b"copy".to_vec()];
    // The slot is used again: the old one waits on.
    let outcome = waiting(|_, user, chunk| assert_eq!(begin(user, chunk), Answer::Done));
    assert_eq!(outcome, (zeroes.clone(), Answer::Done, made));
    // Somebody goes, before whom what has been started is made, and afterwards never.
    let outcome = waiting(|emulator, _, _| {
        let other = User::new(emulator, 2);
        other.program.close(other.file);
    });
    assert_eq!(outcome, (zeroes.clone(), Answer::Errno(EINVAL), zeroes));
}

#[test]
fn copies_of_the_driver_through_an_engine_that_does_not_run_time_out() {
    let emulator = emulator(|_| ());
    let bench = Bench::new(&emulator);
    let user = &bench.user;
    let [first, second] =
        [0, 1].map(|nc_id| user.allocate(MemAllocV2MemType64 { nc_id, ..DEVICE }));
    let copy = |chunk| {
        let mut copy = MemCopy64 {
            src: chunk,
            dst: chunk,
            size: 4,
            dst_offset: 8,
            ..MemCopy64::ZEROED
        };
        user.call(&MEM_COPY64, &mut copy)
    };
    let program = |nc_id| {
        let mut program = ProgramEngineNc64 {
            nc_id,
            dst: 0xFFF_C000_0000,
            buffer: crate::program::BUFFER,
            size: 4,
            ..ProgramEngineNc64::ZEROED
        };
        user.call(&PROGRAM_ENGINE_NC64, &mut program)
    };
    let begin = |chunk| begin(user, chunk);
    let wait = |chunk| wait(user, chunk);
    for stop in [EngineState::Disable, EngineState::Abort] {
        bench.set(COPIES[0], stop);
        let late = Answer::Errno(EPERM);
        assert_eq!([copy(first), copy(second)], [late, Answer::Done]);
        assert_eq!(user.write(first, 0, b"late"), late);
        assert_eq!(user.write(second, 0, b"fine"), Answer::Done);
        assert_eq!(user.fill(first, 0, 1, 4), late);
        assert_eq!([program(0), program(1)], [late, Answer::Done]);
        assert_eq!([begin(first), wait(first)], [Answer::Done, late]);
        assert_eq!([begin(second), wait(second)], [Answer::Done; 2]);
        // The kernel itself copies to memory of the host.
        assert_eq!(user.write(bench.data, 0, b"host"), Answer::Done);
        bench.set(COPIES[0], EngineState::Normal);
        assert_eq!([copy(first), copy(second)], [Answer::Done; 2]);
    }
}
