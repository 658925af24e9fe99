//! `nrta doctor`: what of this host a runtime on real devices needs, and what to do about what is not as it should be.
//!
//! ```text
//!  Host (roots of dev, sys, proc; the kernel; the environment)
//!    |
//!  one probe per subject ── findings: ok, or a warning or a problem with its remedy ──> render: lines or JSON
//! ```
//!
//! Probes read files and, of each device, open its node for writing only: such a descriptor attaches nobody and waits for
//! nothing. A core is tried by claiming it and giving it back at once, which takes microseconds; a process that claims the
//! same core in that moment is refused. Only with `--deep` is a device opened as a runtime opens it: that takes one of its 16
//! places for processes, and waits while it is being reset.
//!
//! | module | subject |
//! |---|---|
//! | [`finding`] | one line of the report |
//! | [`host`] | where to look |
//! | [`module`] | the kernel module and the PCI devices |
//! | [`nodes`] | the device nodes and their permissions |
//! | [`driver`] | what the driver says of each device, and whose cores are taken |
//! | [`holders`] | processes that have a node open |
//! | [`attached`] | what only an attached process may ask (`--deep`) |
//! | [`memory`] | memory of the host, as devices need it |
//! | [`limits`] | limits of a process, processors, the kernel |
//! | [`variables`] | the environment of a runtime |
//! | [`simulated`] | that the machine without hardware works |
//! | [`render`] | print it |

mod attached;
mod driver;
#[cfg(test)]
mod fake;
mod finding;
mod holders;
mod host;
mod limits;
mod memory;
mod module;
mod nodes;
mod render;
mod simulated;
mod variables;

pub(crate) use finding::{Finding, Standing};
pub(crate) use host::Host;
pub(crate) use render::{json, text};

/// What the report is to cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Whether devices are opened as a runtime opens them.
    pub(crate) deep: bool,
    /// Whether a host without a device has a problem: it is meant to have one.
    pub(crate) needs_device: bool,
}

/// Examines a host. Findings come in the order in which a person would look.
pub(crate) fn examine(host: &Host, scope: Scope) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pci = module::examine(host, &mut findings);
    let devices = nodes::examine(host, pci, scope, &mut findings);
    let reached = driver::examine(host, &devices, &mut findings);
    holders::examine(host, &devices, &mut findings);
    if scope.deep {
        attached::examine(host, &reached, &mut findings);
    }
    memory::examine(host, &reached, &mut findings);
    limits::examine(host, !devices.is_empty(), &mut findings);
    variables::examine(host, &mut findings);
    simulated::examine(&mut findings);
    findings
}

/// Whether there is a problem among them: the exit code is 1 then.
pub(crate) fn has_problem(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.standing() == Standing::Problem)
}

#[cfg(test)]
mod tests {
    use super::fake::{Device, FakeHost};
    use super::*;

    fn shallow(fake: &FakeHost) -> Vec<Finding> {
        examine(&fake.host(), Scope::default())
    }

    #[test]
    fn a_host_without_a_device_has_no_problem_unless_it_is_meant_to_have_one() {
        let fake = FakeHost::new("bare");
        let findings = shallow(&fake);
        assert!(!has_problem(&findings), "{}", text(&findings));
        let report = text(&findings);
        assert!(report.contains("no Neuron device"), "{report}");
        assert!(report.contains("nrta run examples/digits"), "{report}");
        let needs_device = Scope {
            needs_device: true,
            ..Scope::default()
        };
        assert!(has_problem(&examine(&fake.host(), needs_device)));
    }

    #[test]
    fn a_healthy_host_has_nothing_to_remedy() {
        let fake = FakeHost::new("healthy");
        fake.with_driver("2.24.7.0").with_device(0, Device::v2());
        let findings = shallow(&fake);
        let bad: Vec<_> = findings
            .iter()
            .filter(|finding| finding.standing() != Standing::Ok)
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
    }

    #[test]
    fn every_finding_that_is_not_ok_has_a_remedy() {
        let fake = FakeHost::new("remedies");
        fake.with_driver("2.24.7.0")
            .with_device(0, Device::v2().taken(1))
            .with_device(3, Device::unreadable());
        let findings = shallow(&fake);
        assert!(has_problem(&findings));
        for finding in findings {
            let is_ok = finding.standing() == Standing::Ok;
            assert_eq!(finding.remedy().is_none(), is_ok, "{finding:?}");
        }
    }

    #[test]
    fn nobody_is_attached_unless_the_report_is_deep() {
        let fake = FakeHost::new("depth");
        fake.with_driver("2.24.7.0").with_device(0, Device::v2());
        shallow(&fake);
        assert_eq!(fake.attached(), 0);
        let deep = Scope {
            deep: true,
            ..Scope::default()
        };
        examine(&fake.host(), deep);
        assert_eq!(fake.attached(), 1);
        assert!(fake.is_at_rest(), "a descriptor or a claim is left");
    }
}
