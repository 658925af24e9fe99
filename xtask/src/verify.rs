//! `cargo xtask verify`: runs the chosen steps one after another, all of them, and fails at the end.
//!
//! Called by `main`.
//! Cargo uses every core already, so steps do not run side by side.

use std::time::{Duration, Instant};

use crate::cli::{FAILED_INSTALL, VerifyOptions};
use crate::report::{self, Progress, Row};
use crate::step::{Run, Step, Stop, Verdict};
use crate::steps;
use crate::tools;
use crate::workspace::Workspace;

/// Runs the steps and reports; whether all is well.
pub(crate) fn verify(workspace: &Workspace, options: &VerifyOptions) -> Result<bool, String> {
    let chosen: Vec<&Step> = steps::ALL
        .iter()
        .filter(|step| is_chosen(step, options))
        .collect();
    let mut install_budget = tools::INSTALL_BUDGET;
    let mut progress = Progress::new(chosen.len());
    let mut rows = Vec::new();
    for step in chosen {
        progress.begin(step.name);
        let start = Instant::now();
        let row = perform(step, workspace, options, &mut install_budget, start)?;
        progress.end(&row);
        rows.push(row);
    }
    if options.json {
        println!("{}", report::json(&rows, workspace));
    } else {
        print!("{}", report::text(&rows, workspace));
    }
    Ok(report::is_well(&rows))
}

fn perform(
    step: &Step,
    workspace: &Workspace,
    options: &VerifyOptions,
    install_budget: &mut Duration,
    start: Instant,
) -> Result<Row, String> {
    let mut run = Run::new(step.name, workspace, options, install_budget)?;
    let verdict = (step.run)(&mut run);
    Ok(Row {
        name: step.name,
        verdict: strict(verdict, step.name, options.strict.as_deref()),
        time: start.elapsed(),
        log: run.log_path().to_path_buf(),
        closing_lines: run.closing_lines,
    })
}

/// `--only` names steps whether they are quick or not.
fn is_chosen(step: &Step, options: &VerifyOptions) -> bool {
    let is_in = |names: &[String]| names.iter().any(|name| name == step.name);
    let wanted = if options.only.is_empty() {
        step.quick || !options.quick
    } else {
        is_in(&options.only)
    };
    wanted && !is_in(&options.skip)
}

/// Turns a skip that is not allowed into a failure.
fn strict(verdict: Verdict, name: &str, allowed: Option<&[String]>) -> Verdict {
    match (verdict, allowed) {
        (
            Err(Stop::Skipped {
                reason,
                install_failed,
            }),
            Some(allowed),
        ) => {
            let is_allowed = allowed
                .iter()
                .any(|entry| entry == name || (install_failed && entry == FAILED_INSTALL));
            Err(if is_allowed {
                Stop::Skipped {
                    reason,
                    install_failed,
                }
            } else {
                Stop::Failed(format!("skipped, which --strict forbids: {reason}"))
            })
        }
        (verdict, _) => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(install_failed: bool) -> Verdict {
        Err(Stop::Skipped {
            reason: "not found".to_owned(),
            install_failed,
        })
    }

    fn is_failure(verdict: Verdict) -> bool {
        matches!(verdict, Err(Stop::Failed(_)))
    }

    #[test]
    fn a_skip_stays_a_skip_unless_strict() {
        assert_eq!(strict(skipped(false), "typos", None), skipped(false));
        assert!(is_failure(strict(skipped(false), "typos", Some(&[]))));
    }

    #[test]
    fn strict_allows_what_it_is_told_to() {
        let typos = ["typos".to_owned()];
        assert_eq!(
            strict(skipped(false), "typos", Some(&typos)),
            skipped(false)
        );
        assert!(is_failure(strict(skipped(false), "deny", Some(&typos))));
        let failed_install = [FAILED_INSTALL.to_owned()];
        assert_eq!(
            strict(skipped(true), "deny", Some(&failed_install)),
            skipped(true)
        );
        assert!(is_failure(strict(
            skipped(false),
            "deny",
            Some(&failed_install)
        )));
    }

    #[test]
    fn strict_changes_neither_success_nor_failure() {
        let passed: Verdict = Ok("no warning".to_owned());
        assert_eq!(strict(passed.clone(), "lint", Some(&[])), passed);
        let failed: Verdict = Err(Stop::Failed("1 warning".to_owned()));
        assert_eq!(
            strict(failed.clone(), "lint", Some(&["lint".to_owned()])),
            failed
        );
    }

    fn chosen(options: &VerifyOptions) -> Vec<&'static str> {
        steps::ALL
            .iter()
            .filter(|step| is_chosen(step, options))
            .map(|step| step.name)
            .collect()
    }

    #[test]
    fn only_and_skip_choose_steps() {
        let mut options = VerifyOptions::default();
        assert_eq!(chosen(&options).len(), steps::ALL.len());
        options.only = vec!["miri".to_owned(), "lint".to_owned()];
        assert_eq!(chosen(&options), ["lint", "miri"]);
        options.quick = true;
        assert_eq!(chosen(&options), ["lint", "miri"]);
        options.skip = vec!["lint".to_owned()];
        assert_eq!(chosen(&options), ["miri"]);
    }
}
