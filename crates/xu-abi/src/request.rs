//! What the device fetches for one execution: the 52-byte request and its 4-byte trailer.
//!
//! Built by the stager, read by the sequencer. Spec `xu.md` section 2.8.

use crate::device::{DeviceAddr, Engine};
use crate::layout::{assert_layout, bytes_of};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The 52-byte body: flags and the five engines' instruction-block addresses.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct ExecRequest {
    /// 1 when the previous execution on this queue ran another model.
    pub do_model_switch: U32,
    /// Low halves, in order PE, ACT, POOL, DVE, SP.
    pub eng_addresses_lo: [U32; 5],
    /// High halves, same order.
    pub eng_addresses_hi: [U32; 5],
    /// 0 lets the sequencer keep its loaded configuration.
    pub reload_seq_config: U32,
    /// 0 lets ACT and DVE keep their loaded tables.
    pub load_act_dve_tables: U32,
}

assert_layout! { ExecRequest is "device_exec_request_t" in "xu.md 2.8": 52 bytes, align 1;
do_model_switch @ 0x00  eng_addresses_lo @ 0x04  eng_addresses_hi @ 0x18
reload_seq_config @ 0x2C  load_act_dve_tables @ 0x30 }
bytes_of! { ExecRequest: 52 }

impl ExecRequest {
    /// Sets where `engine` fetches its first instruction.
    pub fn set_engine_address(&mut self, engine: Engine, addr: DeviceAddr) {
        let raw = addr.get();
        // CAST: the halves are cut on purpose.
        self.eng_addresses_lo[engine.index()] = U32::new(raw as u32);
        self.eng_addresses_hi[engine.index()] = U32::new((raw >> 32) as u32);
    }

    /// Where `engine` fetches its first instruction.
    #[must_use]
    pub fn engine_address(&self, engine: Engine) -> DeviceAddr {
        let lo = u64::from(self.eng_addresses_lo[engine.index()].get());
        let hi = u64::from(self.eng_addresses_hi[engine.index()].get());
        DeviceAddr::new(hi << 32 | lo)
    }
}

/// The 56 bytes in device-visible memory: body, then the trailer that a second write brings.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct RequestBuffer {
    /// Copied first.
    pub body: ExecRequest,
    /// Copied second; not part of the body.
    pub cc_dma_increment: U32,
}

assert_layout! { RequestBuffer is "request buffer" in "xu.md 2.8": 56 bytes, align 1; body @ 0x00 cc_dma_increment @ 0x34 }
bytes_of! { RequestBuffer: 56 }

impl RequestBuffer {
    /// Offset of the trailer.
    pub const TRAILER_OFFSET: u64 = 0x34;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut request = ExecRequest {
            do_model_switch: U32::new(1),
            ..Default::default()
        };
        request.set_engine_address(Engine::Act, DeviceAddr::new(0x1122_3344_5566_7788));
        request.load_act_dve_tables = U32::new(1);
        let mut expected = [0u8; 52];
        expected[0x00] = 1;
        expected[0x08..0x0C].copy_from_slice(&[0x88, 0x77, 0x66, 0x55]);
        expected[0x1C..0x20].copy_from_slice(&[0x44, 0x33, 0x22, 0x11]);
        expected[0x30] = 1;
        assert_eq!(request.as_bytes(), expected);
        assert_eq!(
            request.engine_address(Engine::Act),
            DeviceAddr::new(0x1122_3344_5566_7788)
        );
    }
}
