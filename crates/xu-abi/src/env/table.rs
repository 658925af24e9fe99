//! The table itself, in the order of the specification.
//!
//! Kept apart so that a row can be compared with its row in `env.md` without reading past code.

use super::BadValue::{Adjusted, Refused};
use super::Support::{Accepted, Full, Partial, Removed};
use super::{BadValue, Domain, Preset, Support, Variable};

const BOOL: Domain = Domain::Boolean;
const OFF: Preset = Preset::Boolean(false);
const ON: Preset = Preset::Boolean(true);
/// `INT_MAX` of C.
const INT_MAX: Option<u64> = Some(0x7FFF_FFFF);

const fn from(min: u64, max: Option<u64>, unit: &'static str) -> Domain {
    Domain::Integer { min, max, unit }
}

const fn row(
    section: u8,
    name: &'static str,
    preset: Preset,
    domain: Domain,
    support: Support,
    bad_value: BadValue,
) -> Variable {
    Variable {
        name,
        preset,
        domain,
        support,
        bad_value,
        section,
    }
}

use Domain::{OneOf, Text, Unknown as Any};
use Preset::{Derived, Integer, Text as Word, Unknown, Unset};

const LEVELS: Domain = OneOf(&[
    "QUIET", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "TRACE",
]);
const PLACE: Domain = Text("console, syslog, or the name of a file");
const SIM: Preset = Derived("from NEURON_RT_FAKE_INSTANCE_TYPE, else a small machine");

/// Every variable, in the order of `env.md`.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    // Section 2: asynchronous execution and queues.
    row(2, "NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS", Integer(8), from(1, Some(63), "requests"), Full, Adjusted),
    row(2, "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", Integer(0), from(0, INT_MAX, "requests"), Removed, Adjusted),
    row(2, "NEURON_RT_EXEC_TIMEOUT", Integer(30), from(0, INT_MAX, "seconds"), Full, Adjusted),
    row(2, "NEURON_RT_ONE_THREAD_PER_CORE", OFF, BOOL, Accepted, Adjusted),
    row(2, "NEURON_RT_RANKS_PER_NETWORK_PROXY", Integer(1), from(1, None, "ranks"), Accepted, Adjusted),
    row(2, "NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY", Unset, Text("CPU list such as 0-3,8"), Partial, Adjusted),
    row(2, "NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT", Unknown, from(0, Some(65_535), "port"), Accepted, Adjusted),
    row(2, "NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", Unknown, BOOL, Accepted, Adjusted),

    // Section 3: core selection and topology.
    row(3, "NEURON_RT_VISIBLE_CORES", Unset, Text("index, inclusive range a-b, or comma list of those, consecutive and increasing"), Full, Refused),
    row(3, "NEURON_RT_NUM_CORES", Integer(0), from(0, None, "cores"), Full, Refused),
    row(3, "NEURON_LOGICAL_NC_CONFIG", Derived("2 on the second and third generation, else 1"), from(1, Some(2), "physical cores"), Full, Refused),
    row(3, "NEURON_RT_VIRTUAL_CORE_SIZE", Unset, from(1, Some(2), "physical cores"), Full, Refused),
    row(3, "NEURON_RT_RESET_CORES", ON, BOOL, Partial, Adjusted),
    row(3, "NEURON_RT_ROOT_COMM_ID", Unset, Text("host:port, the host a name, an IPv4 address, or an IPv6 address in brackets"), Partial, Adjusted),
    row(3, "NEURON_PROCESS_TAG", Derived("the process id"), Text("any text"), Partial, Adjusted),
    row(3, "NEURON_DEVICE_COUNT", Unset, from(0, None, "devices"), Accepted, Adjusted),
    row(3, "NEURON_RT_FAKE_INSTANCE_TYPE", Unset, Text("instance name such as trn2.48xlarge"), Partial, Refused),

    // Section 4: models and memory.
    row(4, "NEURON_RT_VALIDATE_HASH", OFF, BOOL, Full, Adjusted),
    row(4, "NEURON_RT_ALLOW_LEGACY_NEFF", OFF, BOOL, Partial, Adjusted),
    row(4, "NEURON_RT_MULTI_INSTANCE_SHARED_WEIGHTS", OFF, BOOL, Partial, Adjusted),
    row(4, "NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG", ON, BOOL, Full, Adjusted),
    row(4, "NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", Integer(1_048_576), from(0, None, "entries"), Accepted, Adjusted),
    row(4, "NEURON_SCRATCHPAD_PAGE_SIZE", Integer(512), from(0, None, "MB"), Accepted, Adjusted),
    row(4, "NEURON_RT_CONTIGUOUS_SCRATCHPAD", Unknown, BOOL, Accepted, Adjusted),
    row(4, "NEURON_RT_MAP_HBM", Unknown, BOOL, Accepted, Adjusted),
    row(4, "NEURON_RT_ENABLE_P2P", ON, BOOL, Accepted, Adjusted),
    row(4, "NEURON_RT_STOCHASTIC_ROUNDING_EN", OFF, BOOL, Accepted, Adjusted),
    row(4, "NEURON_RT_STOCHASTIC_ROUNDING_SEED", Integer(0), from(0, Some(0xFFFF_FFFF), ""), Accepted, Adjusted),
    row(4, "NEURON_RT_DBG_CC_DMA_PACKET_SIZE", Unknown, from(0, None, "bytes"), Accepted, Adjusted),
    row(4, "NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", Unknown, from(0, None, "bytes"), Accepted, Adjusted),
    row(4, "NEURON_RT_DBG_CC_NOP", OFF, BOOL, Accepted, Adjusted),

    // Section 5: errors and diagnosis.
    row(5, "NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", Word("none"), OneOf(&["none", "warning", "critical"]), Partial, Adjusted),
    row(5, "NEURON_FAIL_ON_NAN", OFF, BOOL, Partial, Adjusted),
    row(5, "NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", Unset, from(0, INT_MAX, "status"), Partial, Adjusted),
    row(5, "NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY", Word("/tmp/neuron-core-dump/dt-%d-cid-%c"), Text("path template; empty turns it off"), Accepted, Adjusted),
    row(5, "NEURON_RT_S3_CORE_DUMP_PREFIX", Unset, Text("path template; empty turns it off"), Accepted, Adjusted),
    row(5, "NEURON_RT_ENABLE_DGE_NOTIFICATIONS", OFF, BOOL, Accepted, Adjusted),
    row(5, "NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", Integer(65_536), from(0, None, "events"), Accepted, Adjusted),
    row(5, "NEURON_RT_TRACE_NUM_ENTRIES", Integer(1_000_000), from(0, None, "entries"), Accepted, Adjusted),

    // Section 6: logging. One entry per component: device, model manager (written NMGR), API.
    row(6, "NEURON_RT_LOG_LEVEL", Word("ERROR"), LEVELS, Full, Adjusted),
    row(6, "NEURON_RT_LOG_LEVEL_TDRV", Unset, LEVELS, Full, Adjusted),
    row(6, "NEURON_RT_LOG_LEVEL_NMGR", Unset, LEVELS, Full, Adjusted),
    row(6, "NEURON_RT_LOG_LEVEL_NRT", Unset, LEVELS, Full, Adjusted),
    row(6, "NEURON_RT_LOG_LOCATION", Word("console"), OneOf(&["console", "syslog"]), Full, Adjusted),
    row(6, "NEURON_RT_LOG_LOCATION_TDRV", Unset, PLACE, Full, Adjusted),
    row(6, "NEURON_RT_LOG_LOCATION_NMGR", Unset, PLACE, Full, Adjusted),
    row(6, "NEURON_RT_LOG_LOCATION_NRT", Unset, PLACE, Full, Adjusted),
    row(6, "NEURON_RT_LOG_COALESCING_ENABLED", ON, BOOL, Full, Adjusted),

    // Section 7: profiling and system trace.
    row(7, "NEURON_RT_INSPECT_ENABLE", OFF, BOOL, Partial, Adjusted),
    row(7, "NEURON_RT_INSPECT_ON_FAIL", OFF, BOOL, Partial, Adjusted),
    row(7, "NEURON_RT_INSPECT_OUTPUT_DIR", Word("./output"), Text("path"), Partial, Adjusted),
    row(7, "NEURON_RT_INSPECT_SYSTEM_PROFILE", Derived("true once inspection is enabled"), BOOL, Partial, Adjusted),
    row(7, "NEURON_RT_INSPECT_DEVICE_PROFILE", Derived("0 once inspection is enabled"), OneOf(&["0", "1", "model", "session"]), Accepted, Adjusted),
    row(7, "NEURON_RT_INSPECT_HOST_MEMORY", OFF, BOOL, Accepted, Adjusted),
    row(7, "NEURON_RT_INSPECT_CPU_UTIL", OFF, BOOL, Accepted, Adjusted),
    row(7, "NEURON_RT_INSPECT_EVENT_FILTER_NC", Derived("all"), Text("core list"), Partial, Adjusted),
    row(7, "NEURON_RT_INSPECT_EVENT_FILTER_TYPE", Derived("all"), Text("event names, the categories hardware and software, ^name to exclude"), Partial, Adjusted),
    row(7, "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", Integer(1_000_000), from(1, None, "events"), Full, Adjusted),
    row(7, "NEURON_RT_INSPECT_DURATION_NSEC", Unknown, Any, Removed, Adjusted),
    row(7, "NEURON_RT_INSPECT_START_OFFSET_NSEC", Unknown, Any, Removed, Adjusted),
    row(7, "NEURON_RT_PROFILING_MODE", Unknown, Text("any text"), Accepted, Adjusted),
    row(7, "NEURON_RT_PROFILE_BUF_EVENT_MB", Unknown, from(0, None, "MB"), Accepted, Adjusted),
    row(7, "NEURON_RT_PROFILE_BUF_DMA_MB", Unknown, from(0, None, "MB"), Accepted, Adjusted),
    row(7, "NEURON_RT_PROFILE_BUF_THROTTLE_MB", Unknown, from(0, None, "MB"), Accepted, Adjusted),
    row(7, "NEURON_RT_PROFILE_BUF_CC_CORE_INSTRUCTION_MB", Unknown, from(0, None, "MB"), Accepted, Adjusted),
    row(7, "NEURON_RT_PROFILE_BUF_CC_CORE_EVENT_MB", Unknown, from(0, None, "MB"), Accepted, Adjusted),

    // Section 8: our own. The specification gives them no class; all are to be supported in full.
    row(8, "NRTA_BACKEND", Word("simulated"), OneOf(&["simulated", "real-driver"]), Full, Refused),
    row(8, "NRTA_SIM_CORES", SIM, from(1, None, "cores"), Full, Refused),
    row(8, "NRTA_SIM_DEVICES", SIM, from(1, None, "devices"), Full, Refused),
    row(8, "NRTA_SIM_HBM_MB", SIM, from(1, None, "MB"), Full, Refused),
    row(8, "NRTA_SIM_HOST", Unset, Text("an existing directory"), Full, Refused),
    row(8, "NRTA_SIM_FAULTS", Unset, Text("path or inline fault plan"), Full, Refused),
    row(8, "NRTA_POLL_POLICY", Word("adaptive"), OneOf(&["reference", "adaptive", "busy"]), Full, Adjusted),
    row(8, "NRTA_CLOSE_WARN_SECS", Integer(120), from(1, None, "seconds"), Full, Adjusted),
];
