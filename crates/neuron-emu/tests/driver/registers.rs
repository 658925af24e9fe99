//! Registers through BAR0, and hardware counters.

use crate::program::{BUFFER, NOWHERE, emulator};
use crate::user::{User, traps, warnings};
use xu_abi::driver::errno::{Answer, EINVAL, EIO, ENOMEM};
use xu_abi::driver::ioctl::{
    BAR_READ, BAR_WRITE, DEVICE_INFO, NOTIFICATIONS_INIT_V1, READ_HW_COUNTERS, SEMAPHORE_READ,
};
use xu_abi::driver::{BarRw, DeviceInfo, Ioctl, NotificationsInitV1, ReadHwCounters, Semaphore};
use zerocopy::IntoBytes;

const DATA: u64 = BUFFER + 0x1_0000;
/// Registers that nothing is known of.
const FREE: [u64; 3] = [0x1230_0000, 0x1230_0004, 0x1230_0008];
/// The mailbox of the firmware of v2.
const MAILBOX: u64 = 0x30FA_0000 + 0x1F0;
/// The head of notification queue 3 of core 0 of v2.
const HEAD: u64 = 0x3053_5000 + 0x10C + 3 * 0x28;

fn base(user: &User<'_>) -> u64 {
    let mut info = DeviceInfo::ZEROED;
    assert_eq!(user.call(&DEVICE_INFO, &mut info), Answer::Done);
    info.bar_address[0]
}

fn access(user: &User<'_>, ioctl: &Ioctl, addresses: &[u64]) -> Answer {
    user.program.put(BUFFER, addresses.as_bytes());
    let mut argument = BarRw {
        address: BUFFER,
        data: DATA,
        count: addresses.len().try_into().unwrap(),
        ..BarRw::ZEROED
    };
    user.call(ioctl, &mut argument)
}

fn write(user: &User<'_>, offsets: &[u64], values: &[u32]) -> Answer {
    user.program.put(DATA, values.as_bytes());
    let base = base(user);
    let addresses: Vec<_> = offsets.iter().map(|offset| base + offset).collect();
    access(user, &BAR_WRITE, &addresses)
}

fn read(user: &User<'_>, offsets: &[u64]) -> Vec<u32> {
    user.program.put(DATA, &vec![0; 4 * offsets.len()]);
    let base = base(user);
    let addresses: Vec<_> = offsets.iter().map(|offset| base + offset).collect();
    assert_eq!(access(user, &BAR_READ, &addresses), Answer::Done);
    let bytes = user.program.get(DATA);
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

#[test]
fn registers_are_known_by_absolute_addresses() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    assert_eq!(write(&user, &FREE, &[1, 2, 3]), Answer::Done);
    assert_eq!(read(&user, &[FREE[2], FREE[0]]), [3, 1]);
    // Semaphore 200 of core 1: set to 6, add 5.
    let core = 0x400_0000;
    let windows = [core + 0x270_1400 + 800, core + 0x270_1800 + 800];
    assert_eq!(write(&user, &windows, &[6, 5]), Answer::Done);
    let mut semaphore = Semaphore {
        nc_id: 1,
        semaphore_index: 200,
        value: 0,
    };
    assert_eq!(user.call(&SEMAPHORE_READ, &mut semaphore), Answer::Done);
    assert_eq!(semaphore.value, 11);
    assert_eq!(read(&user, &[core + 0x270_1000 + 800]), [11]);
}

#[test]
fn a_write_stops_at_what_is_refused_and_what_came_before_is_written() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let offsets = [FREE[0], MAILBOX, FREE[1]];
    assert_eq!(write(&user, &offsets, &[7, 7, 7]), Answer::Errno(EINVAL));
    assert_eq!(read(&user, &[FREE[0], FREE[1], MAILBOX]), [7, 0, 0]);
    let doorbell = 0x3000_0000 + 0x1000 + 0x38;
    assert_eq!(write(&user, &[doorbell], &[1]), Answer::Errno(EINVAL));
    for beyond in [1 << 32, 1 << 36, (1_u64 << 20).wrapping_neg()] {
        let address = base(&user).wrapping_add(beyond);
        assert_eq!(access(&user, &BAR_WRITE, &[address]), Answer::Errno(EINVAL));
    }
    assert!(emulator.bugs().is_empty());
}

#[test]
fn the_limits_of_one_call() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let offsets = [FREE[0]; 101];
    let addresses = offsets.map(|offset| base(&user) + offset);
    assert_eq!(read(&user, &offsets[1..]).len(), 100);
    assert_eq!(access(&user, &BAR_READ, &addresses), Answer::Errno(EINVAL));
    assert_eq!(
        write(&user, &offsets, &[4; 101]),
        Answer::Done,
        "only reads are limited"
    );
    let with = |ioctl, change: fn(&mut BarRw)| {
        user.program.put(BUFFER, addresses.as_bytes());
        user.program.put(DATA, &[0; 404]);
        let mut argument = BarRw {
            address: BUFFER,
            data: DATA,
            count: 1,
            ..BarRw::ZEROED
        };
        change(&mut argument);
        user.call(ioctl, &mut argument)
    };
    for ioctl in [&BAR_READ, &BAR_WRITE] {
        assert_eq!(with(ioctl, |_| ()), Answer::Done);
        assert_eq!(with(ioctl, |a| a.bar = 1), Answer::Errno(EINVAL));
        assert_eq!(with(ioctl, |a| a.bar = 2), Answer::Errno(EINVAL));
        assert_eq!(with(ioctl, |a| a.address = NOWHERE), Answer::Positive(8));
        assert_eq!(with(ioctl, |a| a.data = NOWHERE), Answer::Positive(4));
        assert_eq!(with(ioctl, |a| a.count = 0), Answer::Done);
    }
    assert_eq!(
        with(&BAR_WRITE, |a| a.count = u32::MAX),
        Answer::Errno(ENOMEM)
    );
    assert_eq!(
        with(&BAR_WRITE, |a| (a.bar, a.count) = (2, 2)),
        Answer::Errno(EINVAL)
    );
}

#[test]
fn trap_20_reads_outside_bar0_crash() {
    let reads: [fn(&User<'_>) -> Answer; 4] = [
        |user| access(user, &BAR_READ, &[base(user) + (1 << 32)]),
        |user| access(user, &BAR_READ, &[base(user) - 4]),
        |user| access(user, &BAR_READ, &[0]),
        |user| {
            let mut argument = BarRw {
                bar: 2,
                count: 2,
                ..BarRw::ZEROED
            };
            user.call(&BAR_READ, &mut argument)
        },
    ];
    for read in reads {
        let emulator = emulator(|_| ());
        let user = User::new(&emulator, 1);
        assert_eq!(read(&user), Answer::Errno(EIO));
        assert_eq!(traps(&emulator), [20]);
    }
}

#[test]
fn a_head_that_cannot_be_is_a_bug_of_the_client() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let mut ring = NotificationsInitV1 {
        engine_index: 3,
        size: 4096,
        ..NotificationsInitV1::ZEROED
    };
    assert_eq!(user.call(&NOTIFICATIONS_INIT_V1, &mut ring), Answer::Done);
    assert_eq!(write(&user, &[HEAD], &[0]), Answer::Done);
    assert!(warnings(&emulator).is_empty());
    for (count, head) in [8, 4096, 16].into_iter().enumerate() {
        assert_eq!(write(&user, &[HEAD], &[head]), Answer::Done);
        assert_eq!(warnings(&emulator).len(), count + 1, "{head}");
        assert_eq!(read(&user, &[HEAD]), [0]);
    }
}

#[test]
fn counters_are_words_of_memory_and_nothing_elsewhere() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let handle = user.device(4096);
    assert_eq!(user.write(handle, 8, &1234_u32.to_ne_bytes()), Answer::Done);
    let addresses = [user.pa(handle) + 8, 0xFFF_FFFF_0000];
    user.program.put(BUFFER, addresses.as_bytes());
    user.program.put(DATA, &[9; 8]);
    let counters = |count, data| {
        let (address, zeroed) = (BUFFER, ReadHwCounters::ZEROED);
        let mut argument = ReadHwCounters {
            address,
            data,
            count,
            ..zeroed
        };
        user.call(&READ_HW_COUNTERS, &mut argument)
    };
    assert_eq!(counters(2, DATA), Answer::Done);
    assert_eq!(user.program.get(DATA), [1234_u32, 0].as_bytes());
    assert_eq!(
        counters(3, DATA),
        Answer::Positive(8),
        "one address is missing"
    );
    assert_eq!(counters(2, NOWHERE), Answer::Positive(8));
    // Trap 25: nothing bounds the count.
    assert_eq!(counters(1 << 20, DATA), Answer::Errno(EIO));
    assert_eq!(traps(&emulator), [25]);
}
