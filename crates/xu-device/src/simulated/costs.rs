//! How long the machine's work takes, in nanoseconds of its clock.
//!
//! Part of the machine's configuration, asked for each instruction and each descriptor.
//! A duration passes first and the effect comes at its end, so that engines overlap and a client can look before
//! something has happened. Zero everywhere means: as fast as the host computes.
//!
//! ```text
//!   instruction  --- per_instruction + work of its opcode --->  effect: operands read, result stored
//!   descriptor   --- per_descriptor --->  bytes moved  --- per_kibibyte --->  next descriptor
//! ```

/// Durations of a machine's work.
///
/// ```
/// use xu_device::simulated::Costs;
/// assert_eq!(Costs::default(), Costs::FREE);
/// assert_ne!(Costs::nominal(), Costs::FREE);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Each instruction, nanoseconds.
    pub per_instruction_ns: u64,
    /// Each 1,024 operations on 32-bit floats of a computing instruction, nanoseconds.
    pub per_kilo_operation_ns: u64,
    /// Each 1,024 bytes that a computing instruction loads and stores or that a descriptor moves, nanoseconds.
    pub per_kibibyte_ns: u64,
    /// Each pair of descriptors, nanoseconds. For transfer queues only in virtual time: in real time they are walked
    /// inside the call that starts them.
    pub per_descriptor_ns: u64,
}

/// How much a computing instruction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Operations on floats.
    pub(super) operations: u64,
    /// Bytes loaded and stored.
    pub(super) bytes: u64,
}

impl Costs {
    /// Nothing takes time.
    pub const FREE: Self = Self {
        per_instruction_ns: 0,
        per_kilo_operation_ns: 0,
        per_kibibyte_ns: 0,
        per_descriptor_ns: 0,
    };

    /// Round numbers for a machine of about 1 Tflop/s and 100 GB/s: chosen, not measured on any hardware.
    #[must_use]
    pub const fn nominal() -> Self {
        Self {
            per_instruction_ns: 50,
            per_kilo_operation_ns: 1,
            per_kibibyte_ns: 10,
            per_descriptor_ns: 200,
        }
    }

    /// What an instruction takes. Saturates.
    pub(super) const fn of_instruction(self, work: Work) -> u64 {
        self.per_instruction_ns
            .saturating_add(per_1024(self.per_kilo_operation_ns, work.operations))
            .saturating_add(per_1024(self.per_kibibyte_ns, work.bytes))
    }

    /// What must pass after a descriptor has moved `bytes`, before the next one can.
    pub(super) const fn of_bytes(self, bytes: u32) -> u64 {
        // CAST: widens.
        per_1024(self.per_kibibyte_ns, bytes as u64)
    }

    /// Whether instructions take no time.
    pub(super) const fn instructions_are_free(self) -> bool {
        self.per_instruction_ns | self.per_kilo_operation_ns | self.per_kibibyte_ns == 0
    }
}

/// Started units of 1,024 count proportionally, rounded up.
const fn per_1024(ns: u64, count: u64) -> u64 {
    ns.saturating_mul(count).div_ceil(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_costs_its_fixed_time_and_its_work() {
        let costs = Costs {
            per_instruction_ns: 5,
            per_kilo_operation_ns: 2,
            per_kibibyte_ns: 1024,
            per_descriptor_ns: 0,
        };
        let work = |operations, bytes| Work { operations, bytes };
        assert_eq!(costs.of_instruction(work(0, 0)), 5);
        assert_eq!(costs.of_instruction(work(1024, 3)), 5 + 2 + 3);
        assert_eq!(costs.of_instruction(work(1, 0)), 5 + 1);
        assert_eq!(
            costs.of_instruction(work(u64::MAX, u64::MAX)),
            (u64::MAX.div_ceil(1024)) * 2 + 5
        );
        assert_eq!(costs.of_bytes(7), 7);
        assert!(Costs::FREE.instructions_are_free());
        assert!(!costs.instructions_are_free());
    }
}
