//! The counters of a core, which move when a process is done.

use super::node;
use super::tree::{COUNTER, Tree};
use crate::driver::device::Device;
use crate::driver::totals::{CoreTotals, Counter};
use std::io;
use xu_abi::metric::CoreCounter as Of;

/// Directories below `stats/status`, and what each counts.
const STATUS: [(&str, Of); 24] = [
    ("success", Of::INFER_COMPLETED),
    ("failure", Of::GENERIC_FAIL),
    ("timeout", Of::INFER_TIMED_OUT),
    ("exec_bad_input", Of::INFER_INCORRECT_INPUT),
    ("hw_error", Of::ERR_HW),
    ("execute_completed_with_error", Of::INFER_COMPLETED_WITH_ERR),
    (
        "execute_completed_with_num_error",
        Of::INFER_COMPLETED_WITH_NUM_ERR,
    ),
    ("generic_error", Of::ERR_GENERIC),
    ("resource_error", Of::ERR_RESOURCE),
    ("resource_nc_error", Of::ERR_RESOURCE_NC),
    ("execute_failed_to_queue", Of::INFER_FAILED_TO_QUEUE),
    ("invalid_error", Of::ERR_INVALID),
    ("unsupported_neff_version", Of::ERR_UNSUPPORTED_NEFF_VERSION),
    ("oob_error", Of::OOB),
    ("hw_collectives_error", Of::HW_ERR_COLLECTIVES),
    ("hw_hbm_ue_error", Of::HW_ERR_HBM_UE),
    ("hw_nc_ue_error", Of::HW_ERR_NC_UE),
    ("hw_dma_abort_error", Of::HW_ERR_DMA_ABORT),
    ("execute_sw_nq_overflow", Of::ERR_SW_NQ_OVERFLOW),
    ("execute_sw_semaphore_error", Of::ERR_SW_SEMAPHORE_ERROR),
    ("execute_sw_event_error", Of::ERR_SW_EVENT_ERROR),
    ("execute_sw_psum_collision", Of::ERR_SW_PSUM_COLLISION),
    ("execute_sw_sequencer_fatal", Of::ERR_SW_SEQUENCER_FATAL),
    ("hw_repairable_hbm_ue_error", Of::HW_ERR_REPAIRABLE_HBM_UE),
];

/// What the tensor engine says that has not run: cycles of 4 groups of rows.
const TENSOR_ENGINE: &str =
    "xrow_grp,mm_active,wl_active,idle\n0,0,0,0\n1,0,0,0\n2,0,0,0\n3,0,0,0\n";

/// The counters of every core.
pub(super) fn write(tree: &mut Tree, device: &Device) -> io::Result<()> {
    for core in 0..device.table().cores {
        let totals = device.datastores.lock().totals().core(core);
        let stats = format!("{}/neuron_core{core}/stats", node(device));
        for (name, counter) in STATUS {
            tree.write_counter(&format!("{stats}/status/{name}"), totals.get(counter))?;
        }
        for (name, counter) in others(&totals) {
            tree.write_counter(&format!("{stats}/other_info/{name}"), counter)?;
        }
        let path = format!("{stats}/tensor_engine/pe_cntrs");
        tree.write(&path, TENSOR_ENGINE, COUNTER)?;
    }
    Ok(())
}

fn others(totals: &CoreTotals) -> [(&'static str, Counter); 6] {
    let macs = totals.get(Of::MAC_COUNT);
    [
        ("model_load_count", totals.get(Of::MODEL_LOAD_COUNT)),
        ("reset_req_count", totals.reset_requests),
        ("reset_fail_count", totals.reset_failures),
        ("inference_count", totals.get(Of::INFERENCE_COUNT)),
        (
            "flop_count",
            Counter {
                total: macs.total.wrapping_mul(2),
                present: macs.present.wrapping_mul(2),
            },
        ),
        ("nc_time_in_use", totals.get(Of::TIME_IN_USE)),
    ]
}
