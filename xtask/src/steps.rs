//! The steps of verify, in their order: what each runs, and what it reports.
//!
//! Called by `verify`; `docs/verifying.md` says what each step is there to catch.

use crate::abi;
use crate::count;
use crate::fuzz;
use crate::package;
use crate::step::{Run, Step, Stop, Verdict};
use crate::tidy;
use crate::tools::{self, need};

/// Every step.
pub(crate) const ALL: &[Step] = &[
    Step {
        name: "format",
        checks: "rustfmt would change nothing",
        quick: true,
        run: format,
    },
    Step {
        name: "tidy",
        checks: "the workspace's own rules",
        quick: true,
        run: tidy,
    },
    Step {
        name: "abi",
        checks: "the committed layouts are those of the code",
        quick: true,
        run: abi::verify,
    },
    Step {
        name: "lint",
        checks: "clippy, all targets and features",
        quick: true,
        run: lint,
    },
    Step {
        name: "features",
        checks: "every two features build together, each alone, and none",
        quick: false,
        run: features,
    },
    Step {
        name: "tests",
        checks: "unit and integration tests",
        quick: true,
        run: tests,
    },
    Step {
        name: "doc-tests",
        checks: "examples in the documentation",
        quick: true,
        run: doc_tests,
    },
    Step {
        name: "docs",
        checks: "the documentation builds without a warning",
        quick: false,
        run: docs,
    },
    Step {
        name: "no_std",
        checks: "xu-abi and xu-ring build without std",
        quick: false,
        run: no_std,
    },
    Step {
        name: "aarch64",
        checks: "xu-abi and xu-ring compile for another processor",
        quick: false,
        run: aarch64,
    },
    Step {
        name: "package",
        checks: "xu-abi and xu-ring can be published",
        quick: false,
        run: package::verify,
    },
    Step {
        name: "fuzz-targets",
        checks: "the fuzz targets build",
        quick: false,
        run: fuzz::verify,
    },
    Step {
        name: "deny",
        checks: "licences, bans and sources of dependencies",
        quick: false,
        run: deny,
    },
    Step {
        name: "machete",
        checks: "every dependency is used",
        quick: false,
        run: machete,
    },
    Step {
        name: "typos",
        checks: "spelling",
        quick: false,
        run: typos,
    },
    Step {
        name: "loom",
        checks: "models of rings and worker, every interleaving",
        quick: false,
        run: loom,
    },
    Step {
        name: "miri",
        checks: "undefined behaviour, weak memory",
        quick: false,
        run: miri,
    },
    Step {
        name: "tsan",
        checks: "data races on real threads and eventfds",
        quick: false,
        run: tsan,
    },
    Step {
        name: "asan",
        checks: "access to freed memory by futures that are dropped, and by requests whose owners have gone",
        quick: false,
        run: asan,
    },
];

/// The steps that `name` stands for.
pub(crate) fn named(name: &str) -> Option<impl Iterator<Item = &'static Step>> {
    let wanted: &[&str] = match name {
        "dependencies" => &["deny", "machete", "typos"],
        _ => &[ALL.iter().find(|step| step.name == name)?.name],
    };
    let wanted = wanted.to_vec();
    Some(ALL.iter().filter(move |step| wanted.contains(&step.name)))
}

/// All names, for a message.
pub(crate) fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|step| step.name).collect();
    names.join(", ")
}

fn format(run: &mut Run<'_>) -> Verdict {
    need(&tools::RUSTFMT, run)?;
    run.command("cargo fmt --all --check").run()?;
    Ok("nothing to change".to_owned())
}

fn tidy(run: &mut Run<'_>) -> Verdict {
    let tidied = tidy::check(&run.workspace.root).map_err(Stop::Failed)?;
    for finding in &tidied.findings {
        run.note(&finding.to_string());
    }
    if tidied.findings.is_empty() {
        Ok(tidied.summary())
    } else {
        Err(Stop::Failed(tidied.summary()))
    }
}

fn lint(run: &mut Run<'_>) -> Verdict {
    need(&tools::CLIPPY, run)?;
    run.command("cargo clippy --workspace --all-targets --all-features --locked -- -D warnings")
        .run()?;
    Ok("no warning".to_owned())
}

/// Up to two of a crate's features at a time: no feature here is about more than one other, and `lint` has all of them.
///
/// Without `--no-dev-deps`: that flag rewrites the manifests while it runs, and the resolver keeps the features
/// of development dependencies out of these builds anyway.
fn features(run: &mut Run<'_>) -> Verdict {
    need(&tools::CLIPPY, run)?;
    need(&tools::HACK, run)?;
    let output = run
        .command("cargo hack clippy --workspace --feature-powerset --depth 2 --exclude-features default --locked -- -D warnings")
        .run()?;
    match count::combinations(&output) {
        Some(combinations) => Ok(format!("{combinations} combinations")),
        None => Err(Stop::Failed("cargo-hack built no combination".to_owned())),
    }
}

/// Neither runner runs benches: they are not among the targets that `--tests` selects.
fn tests(run: &mut Run<'_>) -> Verdict {
    // Tests start them: the command, and the library that it preloads.
    run.command("cargo build -q -p neuron-emu -p neuron-emu-preload --all-features --locked")
        .run()?;
    let nextest = tools::is_present(&tools::NEXTEST, run);
    let command = if nextest && std::env::var_os("CI").is_some() {
        "cargo nextest run --workspace --all-features --locked --no-fail-fast --profile ci"
    } else if nextest {
        "cargo nextest run --workspace --all-features --locked --no-fail-fast"
    } else {
        "cargo test --workspace --tests --all-features --locked --no-fail-fast"
    };
    let counted = run_tests(run, command)?;
    let runner = if nextest {
        ""
    } else {
        "; by cargo test, as cargo-nextest is not found"
    };
    let driver = driver_interface(run)?;
    Ok(format!("{counted}{runner}{driver}"))
}

/// What becomes of tests over the driver's interface: where no system call can be answered they run over the preloaded library, or print
/// that they are skipped, which a runner counts as passed.
fn driver_interface(run: &mut Run<'_>) -> Result<String, Stop> {
    let output = run
        .command("cargo run -q -p neuron-emu --example available --all-features --locked")
        .run()?;
    let said = output.lines().last().unwrap_or_default().trim();
    Ok(match said {
        "available" => String::new(),
        why => format!(
            "; those over the driver's interface ran over the preloaded library, or were skipped: {why}"
        ),
    })
}

fn doc_tests(run: &mut Run<'_>) -> Verdict {
    run_tests(
        run,
        "cargo test --doc --workspace --all-features --locked --no-fail-fast",
    )
}

/// Runs tests on the host, keeps the runner's closing lines for the report, and counts.
fn run_tests(run: &mut Run<'_>, command: &str) -> Verdict {
    let outcome = run.command(command).run();
    let output = run.output();
    let tests = count::tests(&output);
    run.closing_lines = count::closing_lines(&output)
        .filter(|line| count::tests(line).run > 0)
        .map(str::to_owned)
        .collect();
    let counted = format!(
        "{} tests run, {} passed, {} skipped",
        tests.run, tests.passed, tests.skipped
    );
    match outcome {
        // Some runners end badly when they find no test, others well: the same verdict for both.
        Ok(_) if tests.run == 0 => Err(Stop::Failed("no test ran".to_owned())),
        Ok(_) => Ok(counted),
        Err(Stop::Failed(why)) if tests.run > 0 => Err(Stop::Failed(format!("{counted}; {why}"))),
        Err(stop) => Err(stop),
    }
}

/// Libraries and programs apart: the library `nrta` and the program `nrta` would write the same pages.
fn docs(run: &mut Run<'_>) -> Verdict {
    run.command("cargo doc --workspace --no-deps --all-features --locked --lib")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    run.command("cargo doc --workspace --no-deps --all-features --locked --bins")
        .target_subdirectory("docs-of-programs")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    Ok("no warning".to_owned())
}

/// A target without std and without an allocator; what needs the latter is a feature.
fn no_std(run: &mut Run<'_>) -> Verdict {
    need(&tools::BARE_TARGET, run)?;
    run.command(
        "cargo build -p xu-abi -p xu-ring --no-default-features --locked --target x86_64-unknown-none",
    )
    .run()?;
    run.command(
        "cargo build -p xu-ring --no-default-features --features async --locked --target x86_64-unknown-none",
    )
    .run()?;
    Ok("xu-abi and xu-ring without an allocator, with and without async".to_owned())
}

/// Compiles but does not run: a processor with a weaker memory model is what loom and miri stand for.
fn aarch64(run: &mut Run<'_>) -> Verdict {
    need(&tools::AARCH64_TARGET, run)?;
    for features in AARCH64_FEATURES {
        run.command(&format!(
            "cargo check -p xu-abi -p xu-ring --no-default-features {features} --locked --target aarch64-unknown-none"
        ))
        .run()?;
    }
    let combinations = AARCH64_FEATURES.len();
    Ok(format!("xu-abi and xu-ring, {combinations} combinations"))
}

const AARCH64_FEATURES: [&str; 4] = [
    "",
    "--features xu-ring/alloc",
    "--features xu-ring/async",
    "--features xu-ring/alloc,xu-ring/async",
];

/// The check is offline, and so needs every package on the disk, those for other systems included.
fn deny(run: &mut Run<'_>) -> Verdict {
    need(&tools::DENY, run)?;
    run.command("cargo fetch --locked").run()?;
    let output = run
        .command("cargo deny --offline check licenses bans sources")
        .run()?;
    Ok(output.lines().last().unwrap_or_default().trim().to_owned())
}

fn machete(run: &mut Run<'_>) -> Verdict {
    need(&tools::MACHETE, run)?;
    run.command("cargo machete").run()?;
    Ok("no unused dependency".to_owned())
}

fn typos(run: &mut Run<'_>) -> Verdict {
    need(&tools::TYPOS, run)?;
    run.command("typos --config xtask/typos.toml").run()?;
    Ok("no misspelling".to_owned())
}

/// `--show-output` lets a model say how many executions it explored.
fn loom(run: &mut Run<'_>) -> Verdict {
    let (mut tests, mut models, mut executions) = (0, 0, 0);
    for programs in LOOM {
        let output = run
            .command(&format!(
                "cargo test {programs} --profile loom --all-features --locked -- --show-output"
            ))
            .env("RUSTFLAGS", "--cfg loom")
            .target_subdirectory("loom")
            .run()?;
        let run = count::tests_of_programs(&output).run;
        if run == 0 {
            return Err(Stop::Failed(format!("no test ran of {programs}")));
        }
        let explored = count::executions(&output);
        tests += run;
        models += explored.0;
        executions += explored.1;
    }
    Ok(format!(
        "{tests} tests run, {models} models explored in {executions} executions"
    ))
}

/// Programs of models.
const LOOM: [&str; 2] = [
    "-p xu-ring --test loom --test loom_spsc",
    "-p xu-worker --test loom --test loom_events --test loom_places",
];

/// What runs once, under the stricter rules for pointers. The locks of xu-worker turn addresses into pointers, which the
/// strictest rule forbids; and it asks for the time. So do those of the driver's backend, of which the mappings are what has `unsafe`.
const MIRI: [(&str, &str); 3] = [
    (
        "-p xu-abi -p xu-ring --all-features --lib --tests",
        "-Zmiri-strict-provenance -Zmiri-tree-borrows",
    ),
    (
        "-p xu-worker --all-features --lib --test units --test events --test waits --test reservations --test batches --test skip",
        "-Zmiri-permissive-provenance -Zmiri-tree-borrows -Zmiri-disable-isolation",
    ),
    (
        "-p xu-device --no-default-features --features real-driver --lib",
        "-Zmiri-permissive-provenance -Zmiri-tree-borrows -Zmiri-disable-isolation",
    ),
];

/// Test programs whose threads meet, and their packages.
const THREADED: [(&str, &str); 4] = [
    ("xu-ring", "threads"),
    ("xu-ring", "spsc_threads"),
    ("xu-ring", "spsc_parking"),
    ("xu-worker", "hand_over"),
];

/// Seeds that each of them gets. An even number, since they run side by side on as few as two cores; with more, the
/// step would take longer than all others together.
const SEEDS: usize = 4;

/// Runs programs one after the other: how many tests there were.
fn miri_once(run: &mut Run<'_>, all: &[(&str, &str)]) -> Result<u64, Stop> {
    let mut once = 0;
    for (programs, flags) in all {
        let output = run
            .command(&format!("cargo +nightly miri test {programs} --locked"))
            .env("MIRIFLAGS", flags)
            .run()?;
        let tests = count::tests(&output).run;
        if tests == 0 {
            return Err(Stop::Failed(format!("no test ran of {programs}")));
        }
        once += tests;
    }
    Ok(once)
}

/// Once over all tests, under the stricter rules for pointers, then the thread tests under several seeds of the
/// scheduler and of the weak memory, under the usual rules: two models of borrowing, and code must be right in both.
fn miri(run: &mut Run<'_>) -> Verdict {
    need(&tools::MIRI, run)?;
    run.command("cargo +nightly miri setup").run()?;
    let (first, others) = MIRI.split_at(1);
    let [first, others] = run.side_by_side(
        "miri-beside",
        |here| miri_once(here, first),
        |beside| miri_once(beside, others),
    )?;
    let once = first + others;
    let seeds = if run.options.quick { 1 } else { SEEDS };
    for (package, program) in THREADED {
        let output = run
            .command(&format!(
                "cargo +nightly miri test -p {package} --all-features --test {program} --locked"
            ))
            .env(
                "MIRIFLAGS",
                format!("-Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-many-seeds=0..{seeds}"),
            )
            .run()?;
        // The seeds run side by side and share the log, so that their closing lines cannot be added up.
        let tried = count::seeds(&output);
        if tried != seeds || count::tests(&output).run == 0 {
            return Err(Stop::Failed(format!(
                "{program} ran under {tried} seeds, not {seeds}"
            )));
        }
    }
    Ok(format!(
        "{once} tests run, those of threads under {seeds} seeds"
    ))
}

/// The standard library is built again, since a race is seen only by code that looks for it.
/// `--target` keeps the flags away from build scripts and macros.
fn tsan(run: &mut Run<'_>) -> Verdict {
    need(&tools::RUST_SRC, run)?;
    let output = run
        .command(
            "cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu -p xu-ring -p xu-worker --all-features --locked \
             --test threads --test spsc_threads --test spsc_parking --test units --test waits --test events --test reservations --test batches --test shutdown \
             --test workers --test hand_over",
        )
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("TSAN_OPTIONS", "halt_on_error=1")
        .target_subdirectory("tsan")
        .run()?;
    match count::tests(&output).run {
        0 => Err(Stop::Failed("no test ran".to_owned())),
        run => Ok(format!("{run} tests run")),
    }
}

fn asan(run: &mut Run<'_>) -> Verdict {
    need(&tools::NIGHTLY, run)?;
    let output = run
        .command(
            "cargo +nightly test --target x86_64-unknown-linux-gnu -p lane-tests -p xu-worker --all-features --locked \
             --test abandoned --test closing --test units --test rescue --test hand_over -- --skip neuron::",
        )
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // What an overdue close leaks is leaked on purpose.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .target_subdirectory("asan")
        .run()?;
    match count::tests(&output).run {
        0 => Err(Stop::Failed("no test ran".to_owned())),
        run => Ok(format!("{run} tests run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_loop_is_the_six_cheap_steps() {
        let quick: Vec<&str> = ALL
            .iter()
            .filter(|step| step.quick)
            .map(|step| step.name)
            .collect();
        assert_eq!(
            quick,
            ["format", "tidy", "abi", "lint", "tests", "doc-tests"]
        );
    }

    #[test]
    fn names_are_unique() {
        for step in ALL {
            assert_eq!(
                named(step.name).map(Iterator::count),
                Some(1),
                "{}",
                step.name
            );
        }
        assert!(named("no such step").is_none());
    }
}
