//! Transfer queues: bytes that move, and descriptors that stop a queue.

use crate::client::{CORE, DESCRIPTORS, NOWHERE, Rings, at};
use core::time::Duration;
use lane_tests::Rig;
use std::sync::Arc;
use xu_abi::descriptor::CopyPair;
use xu_abi::{DeviceAddr, EventIndex, RingId};
use xu_device::{Device, DeviceError, Place, map};
use zerocopy::little_endian::U32;

lane_tests::on_both! {
    transfers_move_bytes_for_five_laps,
    a_bad_descriptor_aborts_its_queue_until_it_is_opened_again,
}

/// Waits until no queue has anything left to move; one that has stopped has not.
fn settle(machine: &Arc<dyn Device>) {
    assert_eq!(machine.quiesce(CORE, Duration::from_secs(60)), Ok(()));
}

fn transfers_move_bytes_for_five_laps(rig: &Rig) {
    let machine = rig.device();
    let mut rings = Rings::open(&machine, map::transfer_queue(CORE, 1));
    let from = machine.allocate(Place::Host, 0x1_0000, 64).unwrap();
    let to = machine.allocate(Place::Hbm(CORE), 0x1_0000, 64).unwrap();
    for lap in 0..5 * DESCRIPTORS / 2 {
        let bytes: Vec<u8> = (0..0x1_0000u32).map(|byte| (byte ^ lap) as u8).collect();
        machine.write(from, &bytes).unwrap();
        machine.write(at(to, 0xFFFF), &[0]).unwrap();
        let mut marker = [0; 4];
        rings.copy(&machine, from, to, 0x1_0000);
        rings.copy(&machine, to, at(from, 0xFFFC), 4);
        machine.start_dma(rings.queue, 2).unwrap();
        settle(&machine);
        let mut back = vec![0; 0x1_0000];
        machine.read(to, &mut back).unwrap();
        assert_eq!(back, bytes);
        machine.read(at(from, 0xFFFC), &mut marker).unwrap();
        assert_eq!(marker, bytes[..4]);
    }
    assert_eq!(machine.start_dma(rings.queue, 0), Ok(()));
}

fn a_bad_descriptor_aborts_its_queue_until_it_is_opened_again(rig: &Rig) {
    let machine = rig.device();
    let queue = map::transfer_queue(CORE, 0);
    let memory = machine.allocate(Place::Host, 256, 64).unwrap();
    let pair = |from, to, ring_id| CopyPair::new(from, to, 64, ring_id).unwrap();
    let good = pair(memory, at(memory, 64), RingId::FIRST);
    let altered = |alter: fn(&mut CopyPair)| {
        let mut pair = good;
        alter(&mut pair);
        pair
    };
    let event = machine
        .shape()
        .addresses
        .event_register(CORE, EventIndex::new(3));
    let bad = [
        pair(memory, at(memory, 64), RingId::FIRST.next()),
        altered(|pair| pair.rx.len_ctrl = U32::new(pair.rx.len_ctrl.get() + 1)),
        altered(|pair| pair.rx.len_ctrl = U32::new(pair.rx.len_ctrl.get() ^ 1 << 24)),
        altered(|pair| pair.tx.meta_ctrl = U32::ZERO),
        altered(|pair| pair.rx.meta_ctrl = pair.tx.meta_ctrl),
        pair(NOWHERE, memory, RingId::FIRST),
        pair(memory, NOWHERE, RingId::FIRST),
        pair(memory, event, RingId::FIRST),
        pair(memory, DeviceAddr::new(u64::MAX - 8), RingId::FIRST),
    ];
    for pair in bad {
        let mut rings = Rings::open(&machine, queue);
        machine.write(memory, &[7; 64]).unwrap();
        machine.write(at(memory, 64), &[0; 128]).unwrap();
        rings.push(&machine, good);
        rings.push(&machine, pair);
        // The doorbell is posted: the abort shows afterwards.
        assert_eq!(machine.start_dma(queue, 2), Ok(()));
        settle(&machine);
        let mut moved = [0; 64];
        machine.read(at(memory, 64), &mut moved).unwrap();
        assert_eq!(moved, [7; 64]);
        let aborted = Err(DeviceError::DmaAborted {
            tpb: CORE,
            index: queue.index,
        });
        assert_eq!(machine.check_dma(queue), aborted, "{pair:?}");
        assert_eq!(machine.start_dma(queue, 0), aborted);
        // Whether or not that is refused at once, what comes later does not move.
        rings.copy(&machine, memory, at(memory, 128), 64);
        let posted = machine.start_dma(queue, 1);
        assert!(posted == Ok(()) || posted == aborted, "{posted:?}");
        settle(&machine);
        machine.read(at(memory, 128), &mut moved).unwrap();
        assert_eq!(moved, [0; 64]);
        assert_eq!(machine.check_dma(queue), aborted);
        // Its neighbour is not affected.
        let neighbour = Rings::open(&machine, map::transfer_queue(CORE, 1));
        assert_eq!(machine.start_dma(neighbour.queue, 0), Ok(()));
        for ring in [rings.tx, rings.rx, neighbour.tx, neighbour.rx] {
            machine.release(ring).unwrap();
        }
    }
}
