//! Notification queues: a ring in host memory, mapped and zeroed.
//!
//! Enabling the queue and returning space are register writes, and not done here: `driver.md` section 5 gives the order
//! *ring, map and zero, policy, head, enable*.

use super::{refuse, within};
use crate::neuron::error::DriverError;
use crate::neuron::kernel::{Access, Grain};
use crate::neuron::mapping::Mapping;
use crate::neuron::node::Node;
use std::sync::Arc;
use xu_abi::DeviceAddr;
use xu_abi::driver::{
    NQ_ENGINE_INDICES, NQ_MIN_MAPPED, NQ_NOT_MAPPED, NotificationsInitWithReallocV2, NqDevice,
    NqType, PAGE, ioctl,
};

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NqSpec {
    /// Of what.
    pub device: NqDevice,
    /// Which of them.
    pub id: u8,
    /// What it carries.
    pub nq_type: NqType,
    /// The hardware queue; for [`NqType::TraceDma`] the SDMA engine.
    pub engine_index: u8,
    /// Bytes of the ring: a power of two from 4096.
    pub bytes: u32,
}

/// The hardware that a queue occupies, whatever its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::neuron) struct HardwareQueue {
    device: NqDevice,
    id: u8,
    in_sdma: bool,
    index: u8,
}

/// A notification queue that this process reads. The ring outlives it: the driver keeps it until the core is reset.
#[derive(Debug)]
pub struct NqRing {
    node: Arc<Node>,
    spec: NqSpec,
    addr: DeviceAddr,
    mapping: Mapping,
}

impl NqRing {
    /// Gives a queue a new ring, so that no record of another process is in it, and zeroes it.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for a size that is no power of two from 4096, for a core, TOPSP or hardware queue
    /// that does not exist, and for a hardware queue that another ring of this process has;
    /// [`DriverError::Nonsense`] for an offset that cannot be.
    pub fn open(node: &Arc<Node>, spec: NqSpec) -> Result<Self, DriverError> {
        check(node, spec)?;
        let hardware = spec.hardware();
        if !node.rings().lock().notification.insert(hardware) {
            return Err(refuse(
                IOCTL,
                "hardware queue",
                spec.engine_index.into(),
                "one that no other ring has",
            ));
        }
        match map_new(node, spec) {
            Ok((addr, mapping)) => Ok(Self {
                node: Arc::clone(node),
                spec,
                addr,
                mapping,
            }),
            Err(error) => {
                node.rings().lock().notification.remove(&hardware);
                Err(error)
            }
        }
    }

    /// Which queue.
    #[must_use]
    pub fn spec(&self) -> NqSpec {
        self.spec
    }

    /// Where it begins, as the device sees it.
    #[must_use]
    pub fn addr(&self) -> DeviceAddr {
        self.addr
    }

    /// The records.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

impl Drop for NqRing {
    fn drop(&mut self) {
        if self.node.owner().is_here() {
            let hardware = self.spec.hardware();
            self.node.rings().lock().notification.remove(&hardware);
        }
    }
}

impl NqSpec {
    fn hardware(self) -> HardwareQueue {
        HardwareQueue {
            device: self.device,
            id: self.id,
            in_sdma: self.nq_type == NqType::TraceDma,
            index: self.engine_index,
        }
    }
}

const IOCTL: &xu_abi::driver::Ioctl = &ioctl::NOTIFICATIONS_INIT_WITH_REALLOC_V2;

fn check(node: &Node, spec: NqSpec) -> Result<(), DriverError> {
    let table = node.identity().table();
    let (what, count) = match spec.device {
        NqDevice::Core => ("core", table.cores),
        NqDevice::Topsp => ("TOPSP", table.topsps),
    };
    within(IOCTL, what, spec.id, 0..=u64::from(count) - 1)?;
    let last = u64::from(NQ_ENGINE_INDICES) - 1;
    within(IOCTL, "hardware queue", spec.engine_index, 0..=last)?;
    if spec.device == NqDevice::Topsp && spec.nq_type == NqType::TraceDma {
        let raw = spec.nq_type.raw().into();
        return Err(refuse(IOCTL, "type of a TOPSP's queue", raw, "any but 4"));
    }
    if !spec.bytes.is_power_of_two() || spec.bytes < NQ_MIN_MAPPED {
        return Err(refuse(
            IOCTL,
            "number of bytes",
            spec.bytes.into(),
            "powers of two from 4096",
        ));
    }
    Ok(())
}

fn map_new(node: &Node, spec: NqSpec) -> Result<(DeviceAddr, Mapping), DriverError> {
    let mut argument = NotificationsInitWithReallocV2 {
        nq_dev_id: spec.id.into(),
        nq_dev_type: spec.device.raw(),
        nq_type: spec.nq_type.raw(),
        engine_index: spec.engine_index.into(),
        size: spec.bytes,
        on_host_memory: 1,
        force_alloc_mem: 1,
        mmap_offset: NQ_NOT_MAPPED,
        ..NotificationsInitWithReallocV2::ZEROED
    };
    node.ask(IOCTL, &mut argument)?;
    let offset = argument.mmap_offset;
    let in_host = offset & node.identity().table().host_bit != 0;
    if offset == NQ_NOT_MAPPED || !in_host || !offset.is_multiple_of(PAGE) {
        return Err(DriverError::Nonsense {
            call: IOCTL.name,
            what: "the offset of the ring",
            value: offset,
        });
    }
    let mapping = node.map(offset, spec.bytes.into(), Access::Full, Grain::Word)?;
    if mapping.clear() {
        // The offset of a ring in host memory is its address.
        Ok((DeviceAddr::new(offset), mapping))
    } else {
        Err(DriverError::Forked)
    }
}
