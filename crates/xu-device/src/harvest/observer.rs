//! Who wants to know what a device says on the side.
//!
//! Implemented by the engine that drives a [`Harvester`](super::Harvester), and called from within its steps.
//! None of it changes the status of an execution.

use crate::device::DeviceError;
use core::time::Duration;
use xu_abi::record::ErrorKind;
use xu_abi::{Engine, TpbIndex};

/// Told of what happens during a step. Every method does nothing unless it is overridden.
///
/// Methods are called on the worker thread and must neither block nor panic.
pub trait Observer {
    /// A collectives barrier of `tpb` has outlasted its warning threshold, which has doubled with that.
    fn barrier_overdue(&mut self, tpb: TpbIndex, waited: Duration) {
        let _ = (tpb, waited);
    }

    /// Output `id` is complete, though the execution may still run: whoever waits for that output can go on.
    fn tensor_done(&mut self, tpb: TpbIndex, engine: Engine, id: u32) {
        let _ = (tpb, engine, id);
    }

    /// An instruction reported a debug value, 20 bits.
    fn debug_value(&mut self, tpb: TpbIndex, engine: Engine, value: u32) {
        let _ = (tpb, engine, value);
    }

    /// A debug read of tensor `id` took place.
    fn tensor_read(&mut self, tpb: TpbIndex, engine: Engine, id: u32) {
        let _ = (tpb, engine, id);
    }

    /// A question about an execution that did not succeed, or whose barrier stands for long, was not answered. The execution
    /// keeps the status that it has.
    fn unanswered(&mut self, tpb: TpbIndex, error: &DeviceError) {
        let _ = (tpb, error);
    }

    /// The error ring of `tpb` holds errors of this kind. Once for each kind and sweep; `mask` is that of the first.
    fn device_error(&mut self, tpb: TpbIndex, kind: ErrorKind, mask: u16) {
        let _ = (tpb, kind, mask);
    }
}

/// Does not want to know.
impl Observer for () {}
