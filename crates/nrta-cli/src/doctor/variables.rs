//! The environment: what a runtime would make of it. `nrta config` shows every setting; here is what somebody has set.

use super::finding::Finding;
use super::host::Host;
use nrta::{Builder, Origin, Settings};

/// Looks at the variables of the runtime.
pub(super) fn examine(host: &Host, findings: &mut Vec<Finding>) {
    let topic = "environment";
    let read = |name: &str| {
        let mut all = host.variables.iter();
        all.find(|(variable, _)| variable == name)
            .map(|(_, value)| value.clone())
    };
    let settings = match Builder::from_variables(read).and_then(|builder| builder.settings()) {
        Ok(settings) => settings,
        Err(error) => {
            let remedy =
                "set the variable to what is allowed, or unset it (`nrta config` shows the rest)";
            findings.push(Finding::problem(topic, error.to_string(), remedy));
            return;
        }
    };
    let before = findings.len();
    findings.extend(used(&settings));
    findings.extend(unused(host, &settings));
    if findings.len() == before {
        findings.push(Finding::ok(topic, "no variable of the runtime is set"));
    }
}

/// A line for each setting that a variable decides.
fn used(settings: &Settings) -> Vec<Finding> {
    let of_row = |row: nrta::settings::Row<'_>| match row.origin {
        Origin::Environment {
            variable,
            given,
            adjusted,
        } => {
            let value = format!("{variable}={given:?}: {} is {}", row.name, row.value);
            Some(if *adjusted {
                let remedy = format!(
                    "{given:?} is out of range or unreadable: set {variable} to what is meant"
                );
                Finding::warning("environment", value, remedy)
            } else {
                Finding::ok("environment", value)
            })
        }
        _ => None,
    };
    settings.rows().into_iter().filter_map(of_row).collect()
}

/// A line for each variable that looks like one of the runtime's and decides nothing.
fn unused(host: &Host, settings: &Settings) -> Vec<Finding> {
    let rows = settings.rows();
    let decides = |name: &str| {
        rows.iter().any(
            |row| matches!(row.origin, Origin::Environment { variable, .. } if *variable == name),
        )
    };
    host.variables
        .iter()
        .filter_map(|(name, _)| name.to_str())
        .filter(|name| name.starts_with("NEURON_RT_") || name.starts_with("NRTA_"))
        .filter(|name| !decides(name))
        .map(|name| {
            Finding::warning(
                "environment",
                format!("{name} is set and decides nothing"),
                "unset it, or look for the name that is meant in the table of `nrta config`",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::super::finding::Standing;
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Vec<Finding> {
        let fake = FakeHost::new("environment");
        let host = Host {
            variables: variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ..fake.host()
        };
        let mut findings = Vec::new();
        examine(&host, &mut findings);
        findings
    }

    #[test]
    fn a_variable_is_told_with_what_becomes_of_it() {
        let findings = found(&[
            ("NEURON_RT_NUM_CORES", "1"),
            ("NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS", "99"),
            ("NRTA_SIM_CORE", "4"),
            ("PATH", "/bin"),
        ]);
        let told: Vec<_> = findings
            .iter()
            .map(|finding| (finding.standing(), finding.value()))
            .collect();
        assert_eq!(
            told,
            [
                (Standing::Ok, r#"NEURON_RT_NUM_CORES="1": cores is 1"#),
                (
                    Standing::Warning,
                    r#"NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS="99": compute_limit is 63"#
                ),
                (
                    Standing::Warning,
                    "NRTA_SIM_CORE is set and decides nothing"
                ),
            ]
        );
    }

    #[test]
    fn a_variable_that_would_refuse_the_runtime_is_a_problem() {
        let findings = found(&[("NRTA_SIM_CORES", "none")]);
        assert_eq!(findings[0].standing(), Standing::Problem);
        assert!(findings[0].value().contains("NRTA_SIM_CORES"));
        let findings = found(&[]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].standing(), Standing::Ok);
    }
}
