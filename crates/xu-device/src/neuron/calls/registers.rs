//! Registers of BAR0, hardware counters, and windows of registers that can be mapped.

use super::{refuse, within};
use crate::neuron::call::Buffer;
use crate::neuron::error::DriverError;
use crate::neuron::kernel::{Access, Grain};
use crate::neuron::mapping::Mapping;
use crate::neuron::node::Node;
use xu_abi::driver::window::{Block, Resource, Window};
use xu_abi::driver::{
    ArchTable, BarRw, DeviceInfo, Ioctl, MAILBOX_BLOCKED, QUEUES_PER_ENGINE, ReadHwCounters,
    ResourceMmapInfo, arch, ioctl, queue_register,
};
use zerocopy::IntoBytes;

/// Registers of one call.
const MOST: usize = BarRw::MAX_COUNT as usize;
/// What a counter holds that the driver has not written.
const UNWRITTEN: u32 = 0xDEAD_C0DE;
/// Bytes of a register.
const REGISTER: u64 = 4;

/// Where BAR0 is, as the driver counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::neuron) struct Bar0 {
    base: u64,
    bytes: u64,
}

impl Node {
    /// Reads registers at offsets in BAR0, one value each.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for none or more than 100, for as many values as offsets not, and for an offset
    /// outside BAR0 or not a multiple of 4: the driver does not look at them.
    pub fn read_registers(&self, offsets: &[u64], values: &mut [u32]) -> Result<(), DriverError> {
        let ioctl = &ioctl::BAR_READ;
        let addresses = self.addresses(ioctl, offsets, values.len())?;
        self.registers(ioctl, &addresses, offsets.len(), values)
    }

    /// Writes registers at offsets in BAR0, one value each, in order.
    ///
    /// # Errors
    /// As [`Node::read_registers`]; also for the registers that the driver refuses after it has written those before.
    pub fn write_registers(&self, writes: &[(u64, u32)]) -> Result<(), DriverError> {
        let ioctl = &ioctl::BAR_WRITE;
        within(
            ioctl,
            "number of registers",
            writes.len() as u64,
            1..=MOST as u64,
        )?;
        let mut offsets = [0; MOST];
        let mut values = [0; MOST];
        // PANIC: neither here nor below; there are at most `MOST`.
        for (index, (offset, value)) in writes.iter().enumerate() {
            if is_blocked(self.identity().table(), *offset) {
                return Err(refuse(
                    ioctl,
                    "offset of a register",
                    *offset,
                    "none of the mailbox, no base and no doorbell of a DMA queue",
                ));
            }
            (offsets[index], values[index]) = (*offset, *value);
        }
        let count = writes.len();
        let addresses = self.addresses(ioctl, &offsets[..count], count)?;
        self.registers(ioctl, &addresses, count, &mut values[..count])
    }

    /// Reads hardware counters at device addresses, through the firmware: up to 15 seconds when that is dead.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for none or more than 100; [`DriverError::Nonsense`] when the driver succeeds and
    /// writes nothing, which it does when memory runs out.
    pub fn read_counters(&self, addresses: &[u64], values: &mut [u32]) -> Result<(), DriverError> {
        let ioctl = &ioctl::READ_HW_COUNTERS;
        check_count(ioctl, addresses.len(), values.len())?;
        values.fill(UNWRITTEN);
        let mut argument = ReadHwCounters {
            // CAST: at most 100.
            count: addresses.len() as u32,
            ..ReadHwCounters::ZEROED
        };
        let mut buffers = [
            Buffer::Read(addresses.as_bytes()),
            Buffer::Written(values.as_mut_bytes()),
        ];
        self.call(ioctl, &mut argument, &mut buffers)?;
        if values.iter().all(|value| *value == UNWRITTEN) {
            return Err(DriverError::Nonsense {
                call: ioctl.name,
                what: "every counter",
                value: UNWRITTEN.into(),
            });
        }
        Ok(())
    }

    /// Maps a window of registers or of a memory. It can be written, unless it shows a whole block.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for a window that the architecture does not have; [`DriverError::Nonsense`] when the
    /// driver puts it elsewhere.
    pub fn map_window(
        &self,
        block: Block,
        id: u32,
        resource: Resource,
    ) -> Result<Mapping, DriverError> {
        let ioctl = &ioctl::RESOURCE_MMAP_INFO;
        let window = Window::of(self.identity().arch, block, id, resource).ok_or_else(|| {
            refuse(
                ioctl,
                "id of a block",
                id.into(),
                "those of the architecture",
            )
        })?;
        let mut argument = ResourceMmapInfo {
            block: block.raw(),
            block_id: id,
            resource: resource.raw(),
            ..ResourceMmapInfo::ZEROED
        };
        self.ask(ioctl, &mut argument)?;
        let said = [
            ("the offset", argument.offset, window.offset),
            ("the size", argument.size, window.bytes),
        ];
        for (what, value, expected) in said {
            if value != expected {
                return Err(DriverError::Nonsense {
                    call: ioctl.name,
                    what,
                    value,
                });
            }
        }
        let access = match resource {
            Resource::All => Access::ReadOnly,
            _ => Access::Full,
        };
        self.map(window.offset, window.bytes, access, Grain::Word)
    }

    fn registers(
        &self,
        ioctl: &'static Ioctl,
        addresses: &[u64; MOST],
        count: usize,
        values: &mut [u32],
    ) -> Result<(), DriverError> {
        let mut argument = BarRw {
            // CAST: at most 100.
            count: count as u32,
            ..BarRw::ZEROED
        };
        let mut buffers = [
            Buffer::Read(addresses[..count].as_bytes()),
            Buffer::Written(values.as_mut_bytes()),
        ];
        self.call(ioctl, &mut argument, &mut buffers)
    }

    /// What the driver calls the registers at these offsets.
    fn addresses(
        &self,
        ioctl: &'static Ioctl,
        offsets: &[u64],
        values: usize,
    ) -> Result<[u64; MOST], DriverError> {
        check_count(ioctl, offsets.len(), values)?;
        let bar = self.bar0()?;
        let mut addresses = [0; MOST];
        for (address, offset) in addresses.iter_mut().zip(offsets) {
            within(
                ioctl,
                "offset of a register",
                *offset,
                0..=bar.bytes - REGISTER,
            )?;
            if !offset.is_multiple_of(REGISTER) {
                return Err(refuse(
                    ioctl,
                    "offset of a register",
                    *offset,
                    "multiples of 4",
                ));
            }
            // Does not wrap: the end of BAR0 does not.
            *address = bar.base + offset;
        }
        Ok(addresses)
    }

    /// Where BAR0 is; asked once.
    fn bar0(&self) -> Result<Bar0, DriverError> {
        if let Some(bar) = self.known_bar0().get() {
            return Ok(*bar);
        }
        let ioctl = &ioctl::DEVICE_INFO;
        let mut info = DeviceInfo::ZEROED;
        self.ask(ioctl, &mut info)?;
        let bar = Bar0 {
            base: info.bar_address[0],
            bytes: info.bar_size[0],
        };
        if bar.bytes < REGISTER || bar.base.checked_add(bar.bytes).is_none() {
            return Err(DriverError::Nonsense {
                call: ioctl.name,
                what: "the size of BAR0",
                value: bar.bytes,
            });
        }
        // Two threads may both have asked; they were told the same.
        Ok(*self.known_bar0().get_or_init(|| bar))
    }
}

fn check_count(ioctl: &Ioctl, registers: usize, values: usize) -> Result<(), DriverError> {
    // CAST: lengths fit 64 bits.
    within(
        ioctl,
        "number of registers",
        registers as u64,
        1..=MOST as u64,
    )?;
    let count = registers as u64;
    within(ioctl, "number of values", values as u64, count..=count)
}

/// Whether BAR_WRITE refuses this register.
fn is_blocked(table: &ArchTable, offset: u64) -> bool {
    let in_mailbox = MAILBOX_BLOCKED
        .iter()
        .any(|register| table.misc_ram + register == offset);
    in_mailbox || is_blocked_in_queue(table, offset)
}

fn is_blocked_in_queue(table: &ArchTable, offset: u64) -> bool {
    let engines = (0..table.core_engines).filter_map(|engine| arch::at(table.engine_bar0, engine));
    let own = (0..table.h2t_engines).filter_map(|engine| arch::at(table.h2t_bar0, engine));
    let queues = u64::from(QUEUES_PER_ENGINE) * queue_register::QUEUE_STRIDE;
    engines.chain(own).any(|engine| {
        [queue_register::TX_BLOCK, queue_register::RX_BLOCK]
            .iter()
            .filter_map(|block| offset.checked_sub(engine + block))
            .filter(|inside| *inside < queues)
            .any(|inside| {
                queue_register::BLOCKED.contains(&(inside % queue_register::QUEUE_STRIDE))
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use xu_abi::driver::Arch;

    #[test]
    fn registers_that_the_driver_refuses_are_known() {
        let (v2, v3) = (Arch::V2.table(), Arch::V3.table());
        for (table, offset) in [
            (v2, 0x30FA_01F0),
            (v2, 0x30FA_0800),
            (v3, 0x06C8_41FC),
            // Tx queue 0 and Rx queue 15 of engine 0 of v2: the doorbell, and the ring's base.
            (v2, 0x3000_1038),
            (v2, 0x3003_0028),
            // The driver's own engines.
            (v2, 0x30D0_1044),
            (v3, 0x4690_1048),
            (v3, 0xB400_0000 + 31 * 0x10_0000 + 0x2_1000 + 0x38),
        ] {
            assert!(is_blocked(table, offset), "{offset:#x}");
        }
        for offset in [
            // Head of a notification queue, a semaphore, head of a DMA queue, mailbox of the other architecture.
            0x3053_510C,
            0x0270_1800,
            0x3000_1034,
            0x06C8_41FC,
        ] {
            assert!(!is_blocked(v2, offset), "{offset:#x}");
        }
    }
}
