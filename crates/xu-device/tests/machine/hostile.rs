//! Arguments out of range. Random programs, requests and descriptors are run on both machines, in `tests/tests/device`.

use crate::support::{CORE, NOWHERE, SEMAPHORE, at, small};
use xu_abi::TpbIndex;
use xu_device::simulated::{Machine, MachineConfig};
use xu_device::{Device, DeviceError, DmaQueue, Place, map};

#[test]
fn arguments_out_of_range_are_refused() {
    let bad = |result: Result<(), DeviceError>| {
        assert!(
            matches!(result, Err(DeviceError::BadArgument { .. })),
            "{result:?}"
        );
    };
    let base = small(1, 0);
    for config in [
        MachineConfig {
            arch: 1,
            ..base.clone()
        },
        MachineConfig {
            tpbs: 0,
            ..base.clone()
        },
        MachineConfig {
            tpbs: 257,
            ..base.clone()
        },
        MachineConfig {
            hbm_bytes: 4096,
            ..base.clone()
        },
        MachineConfig {
            host_bytes: 1 << 40,
            ..base.clone()
        },
        MachineConfig {
            clock_drift: f64::NAN,
            ..base.clone()
        },
    ] {
        bad(Machine::start(config).map(drop));
    }
    let machine = Machine::start(base).unwrap();
    let absent = TpbIndex::new(1);
    bad(machine.increment_semaphore(absent, SEMAPHORE));
    bad(machine.read_semaphore(absent, SEMAPHORE).map(drop));
    bad(machine.quiesce(absent, std::time::Duration::from_secs(2)));
    bad(machine.overflow_latched(absent).map(drop));
    bad(machine.allocate(Place::Hbm(absent), 1, 1).map(drop));
    bad(machine.allocate(Place::Host, 0, 1).map(drop));
    bad(machine.allocate(Place::Host, 1, 3).map(drop));
    bad(machine.open_notification_queue(CORE, 10, 64).map(drop));
    for bytes in [0, 16, 32, 96] {
        bad(machine.open_notification_queue(CORE, 4, bytes).map(drop));
    }
    bad(machine.start_dma(map::model_exec_queue(CORE), 1));
    bad(machine.start_dma(
        DmaQueue {
            tpb: CORE,
            index: xu_device::map::DMA_QUEUES,
        },
        1,
    ));

    let ring = machine.allocate(Place::Host, 4096, 256).unwrap();
    let queue = map::transfer_queue(CORE, 0);
    for descriptors in [0, 16, 33, 16_777_216] {
        bad(machine.open_dma_queue(queue, ring, ring, descriptors));
    }
    for base in [NOWHERE, at(ring, 64)] {
        let opened = machine.open_dma_queue(queue, ring, base, 32);
        assert!(matches!(opened, Err(DeviceError::BadAddress { .. })));
    }
    machine.open_dma_queue(queue, ring, ring, 32).unwrap();
    bad(machine.start_dma(queue, 33));

    // The machine's own memory is not the client's to release.
    let nq = machine.open_notification_queue(CORE, 4, 64).unwrap();
    for addr in [nq, at(ring, 1), NOWHERE] {
        assert!(matches!(
            machine.release(addr),
            Err(DeviceError::BadAddress { .. })
        ));
    }
    let error = machine.allocate(Place::Host, 2 << 20, 1).unwrap_err();
    assert!(matches!(
        error,
        DeviceError::OutOfMemory {
            asked: 0x20_0000,
            ..
        }
    ));
}
