//! The table of variables against `env.md` sections 2 to 8, written here by hand.

use std::collections::BTreeSet;
use xu_abi::env::{self, BadValue, Domain, Support, VARIABLES};

/// Name, default, what is allowed, class. Sections begin with their number.
const SPEC: &str = "
2
NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS | 8 | 1 to 63 requests | F
NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS | 0 | 0 to 2147483647 requests | R
NEURON_RT_EXEC_TIMEOUT | 30 | 0 to 2147483647 seconds | F
NEURON_RT_ONE_THREAD_PER_CORE | false | boolean | A
NEURON_RT_RANKS_PER_NETWORK_PROXY | 1 | 1 or more ranks | A
NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY | unset | CPU list such as 0-3,8 | P
NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT | unknown | 0 to 65535 port | A
NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED | unknown | boolean | A
3
NEURON_RT_VISIBLE_CORES | unset | index, inclusive range a-b, or comma list of those, consecutive and increasing | F
NEURON_RT_NUM_CORES | 0 | 0 or more cores | F
NEURON_LOGICAL_NC_CONFIG | 2 on the second and third generation, else 1 | 1 to 2 physical cores | F
NEURON_RT_VIRTUAL_CORE_SIZE | unset | 1 to 2 physical cores | F
NEURON_RT_RESET_CORES | true | boolean | P
NEURON_RT_ROOT_COMM_ID | unset | host:port, the host a name, an IPv4 address, or an IPv6 address in brackets | P
NEURON_PROCESS_TAG | the process id | any text | P
NEURON_DEVICE_COUNT | unset | 0 or more devices | A
NEURON_RT_FAKE_INSTANCE_TYPE | unset | instance name such as trn2.48xlarge | P
4
NEURON_RT_VALIDATE_HASH | false | boolean | F
NEURON_RT_ALLOW_LEGACY_NEFF | false | boolean | P
NEURON_RT_MULTI_INSTANCE_SHARED_WEIGHTS | false | boolean | P
NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG | true | boolean | F
NEURON_RT_DEBUG_MEMLOG_MAX_SIZE | 1048576 | 0 or more entries | A
NEURON_SCRATCHPAD_PAGE_SIZE | 512 | 0 or more MB | A
NEURON_RT_CONTIGUOUS_SCRATCHPAD | unknown | boolean | A
NEURON_RT_MAP_HBM | unknown | boolean | A
NEURON_RT_ENABLE_P2P | true | boolean | A
NEURON_RT_STOCHASTIC_ROUNDING_EN | false | boolean | A
NEURON_RT_STOCHASTIC_ROUNDING_SEED | 0 | 0 to 4294967295 | A
NEURON_RT_DBG_CC_DMA_PACKET_SIZE | unknown | 0 or more bytes | A
NEURON_RT_DBG_DMA_PACKETIZATION_SIZE | unknown | 0 or more bytes | A
NEURON_RT_DBG_CC_NOP | false | boolean | A
5
NEURON_RT_NUMERICAL_ERRORS_VERBOSITY | none | none, warning, critical | P
NEURON_FAIL_ON_NAN | false | boolean | P
NEURON_RT_DBG_DUMP_INPUTS_ON_ERR | unset | 0 to 2147483647 status | P
NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY | /tmp/neuron-core-dump/dt-%d-cid-%c | path template; empty turns it off | A
NEURON_RT_S3_CORE_DUMP_PREFIX | unset | path template; empty turns it off | A
NEURON_RT_ENABLE_DGE_NOTIFICATIONS | false | boolean | A
NEURON_RT_DEBUG_STREAM_BUFFER_SIZE | 65536 | 0 or more events | A
NEURON_RT_TRACE_NUM_ENTRIES | 1000000 | 0 or more entries | A
6
NEURON_RT_LOG_LEVEL | ERROR | QUIET, ERROR, WARNING, WARN, INFO, DEBUG, TRACE | F
NEURON_RT_LOG_LEVEL_TDRV | unset | QUIET, ERROR, WARNING, WARN, INFO, DEBUG, TRACE | F
NEURON_RT_LOG_LEVEL_NMGR | unset | QUIET, ERROR, WARNING, WARN, INFO, DEBUG, TRACE | F
NEURON_RT_LOG_LEVEL_NRT | unset | QUIET, ERROR, WARNING, WARN, INFO, DEBUG, TRACE | F
NEURON_RT_LOG_LOCATION | console | console, syslog | F
NEURON_RT_LOG_LOCATION_TDRV | unset | console, syslog, or the name of a file | F
NEURON_RT_LOG_LOCATION_NMGR | unset | console, syslog, or the name of a file | F
NEURON_RT_LOG_LOCATION_NRT | unset | console, syslog, or the name of a file | F
NEURON_RT_LOG_COALESCING_ENABLED | true | boolean | F
7
NEURON_RT_INSPECT_ENABLE | false | boolean | P
NEURON_RT_INSPECT_ON_FAIL | false | boolean | P
NEURON_RT_INSPECT_OUTPUT_DIR | ./output | path | P
NEURON_RT_INSPECT_SYSTEM_PROFILE | true once inspection is enabled | boolean | P
NEURON_RT_INSPECT_DEVICE_PROFILE | 0 once inspection is enabled | 0, 1, model, session | A
NEURON_RT_INSPECT_HOST_MEMORY | false | boolean | A
NEURON_RT_INSPECT_CPU_UTIL | false | boolean | A
NEURON_RT_INSPECT_EVENT_FILTER_NC | all | core list | P
NEURON_RT_INSPECT_EVENT_FILTER_TYPE | all | event names, the categories hardware and software, ^name to exclude | P
NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC | 1000000 | 1 or more events | F
NEURON_RT_INSPECT_DURATION_NSEC | unknown | unknown | R
NEURON_RT_INSPECT_START_OFFSET_NSEC | unknown | unknown | R
NEURON_RT_PROFILING_MODE | unknown | any text | A
NEURON_RT_PROFILE_BUF_EVENT_MB | unknown | 0 or more MB | A
NEURON_RT_PROFILE_BUF_DMA_MB | unknown | 0 or more MB | A
NEURON_RT_PROFILE_BUF_THROTTLE_MB | unknown | 0 or more MB | A
NEURON_RT_PROFILE_BUF_CC_CORE_INSTRUCTION_MB | unknown | 0 or more MB | A
NEURON_RT_PROFILE_BUF_CC_CORE_EVENT_MB | unknown | 0 or more MB | A
8
NRTA_BACKEND | simulated | simulated, real-driver | F
NRTA_SIM_CORES | from NEURON_RT_FAKE_INSTANCE_TYPE, else a small machine | 1 or more cores | F
NRTA_SIM_DEVICES | from NEURON_RT_FAKE_INSTANCE_TYPE, else a small machine | 1 or more devices | F
NRTA_SIM_HBM_MB | from NEURON_RT_FAKE_INSTANCE_TYPE, else a small machine | 1 or more MB | F
NRTA_SIM_HOST | unset | an existing directory | F
NRTA_SIM_FAULTS | unset | path or inline fault plan | F
NRTA_POLL_POLICY | adaptive | reference, adaptive, busy | F
NRTA_CLOSE_WARN_SECS | 120 | 1 or more seconds | F
";

#[test]
fn every_row_of_the_specification_is_there() {
    let mut section = 0;
    let mut variables = VARIABLES.iter();
    for line in SPEC.lines().skip(1) {
        if let Ok(number) = line.parse() {
            section = number;
            continue;
        }
        let variable = variables
            .next()
            .unwrap_or_else(|| panic!("missing: {line}"));
        let found = format!(
            "{} | {} | {} | {}",
            variable.name,
            variable.preset,
            variable.domain.to_string().trim_end(),
            variable.support.letter()
        );
        assert_eq!(found, line);
        assert_eq!(variable.section, section, "{line}");
    }
    assert_eq!(variables.next(), None);
}

#[test]
fn names_are_unique_and_found() {
    let names: BTreeSet<_> = VARIABLES.iter().map(|variable| variable.name).collect();
    assert_eq!(names.len(), VARIABLES.len());
    for variable in VARIABLES {
        assert_eq!(env::named(variable.name), Some(variable));
        let ours = variable.name.starts_with("NRTA_");
        assert!(ours || variable.name.starts_with("NEURON_"));
        assert_eq!(ours, variable.section == 8);
    }
    assert_eq!(env::named("NEURON_RT_XU_COMPUTE"), None);
}

/// Core selection and the shape of the simulated machine are strict (rule P6), and so is the choice of the machine.
#[test]
fn strict_variables_are_those_of_the_rule() {
    let strict: Vec<_> = VARIABLES
        .iter()
        .filter(|variable| variable.bad_value == BadValue::Refused)
        .map(|variable| variable.name)
        .collect();
    let expected = [
        "NEURON_RT_VISIBLE_CORES",
        "NEURON_RT_NUM_CORES",
        "NEURON_LOGICAL_NC_CONFIG",
        "NEURON_RT_VIRTUAL_CORE_SIZE",
        "NEURON_RT_FAKE_INSTANCE_TYPE",
        "NRTA_BACKEND",
        "NRTA_SIM_CORES",
        "NRTA_SIM_DEVICES",
        "NRTA_SIM_HBM_MB",
        "NRTA_SIM_HOST",
        "NRTA_SIM_FAULTS",
    ];
    assert_eq!(strict, expected);
}

#[test]
fn a_number_is_in_its_range_or_not() {
    let limit = env::named("NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS").unwrap();
    let allowed: Vec<u64> = (0..70).filter(|n| limit.domain.contains(*n)).collect();
    assert_eq!(allowed, (1..=63).collect::<Vec<_>>());
    let ring = env::named("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC").unwrap();
    assert!(ring.domain.contains(u64::MAX) && !ring.domain.contains(0));
    assert!(!Domain::Boolean.contains(1));
}

#[test]
fn a_preset_lies_in_its_domain() {
    for variable in VARIABLES {
        match (variable.preset, variable.domain) {
            (env::Preset::Integer(number), domain) => {
                assert!(domain.contains(number), "{}", variable.name);
            }
            (env::Preset::Text(word), Domain::OneOf(words)) => {
                assert!(words.contains(&word), "{}", variable.name);
            }
            (env::Preset::Boolean(_), domain) => assert_eq!(domain, Domain::Boolean),
            _ => {}
        }
    }
}

#[test]
fn letters_of_support_go_both_ways() {
    for support in Support::ALL {
        assert_eq!(Support::from_letter(support.letter()), Some(support));
    }
    assert_eq!(Support::from_letter('X'), None);
}
