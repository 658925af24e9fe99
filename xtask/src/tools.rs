//! The programs that steps need: whether they are there, what is lost without them, how to get them.
//!
//! Called by `steps` before a step's first command, and by `cargo xtask setup` for all of them at once.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::cli::VerifyOptions;
use crate::step::{Run, Stop};
use crate::workspace::Workspace;

/// How to see whether a tool is there.
enum Probe {
    /// The command succeeds.
    Runs(&'static str),
    /// The pinned toolchain has the standard library of this target.
    Target(&'static str),
    /// The nightly toolchain has the sources of the standard library.
    Sources,
    /// It has miri and the sources.
    Miri,
}

/// When `verify` installs a tool by itself; `setup` installs all of them.
#[derive(PartialEq, Eq)]
enum Install {
    /// Whenever it is missing.
    Always,
    /// With `--install`.
    OnRequest,
    /// Never: it builds for too long, or a step has a second way.
    BySetupOnly,
    /// Not even by `setup`, as it belongs to the system.
    ByHand,
}

/// One tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    probe: Probe,
    /// What is not checked without it.
    lost: &'static str,
    /// The commands that install it, tried in order until it is there; the last is what a person is told.
    commands: &'static [&'static str],
    install: Install,
    /// A step without it has failed, rather than being skipped.
    required: bool,
    /// What building it takes, where that has been measured.
    cpu_seconds: Option<u32>,
}

pub(crate) const RUSTFMT: Tool = Tool {
    name: "rustfmt",
    probe: Probe::Runs("cargo fmt --version"),
    lost: "formatting is unchecked",
    commands: &["rustup component add rustfmt"],
    install: Install::OnRequest,
    required: true,
    cpu_seconds: None,
};

pub(crate) const CLIPPY: Tool = Tool {
    name: "clippy",
    probe: Probe::Runs("cargo clippy --version"),
    lost: "nothing is linted",
    commands: &["rustup component add clippy"],
    install: Install::OnRequest,
    required: true,
    cpu_seconds: None,
};

pub(crate) const HACK: Tool = Tool {
    name: "cargo-hack",
    probe: Probe::Runs("cargo hack --version"),
    lost: "combinations of features are unchecked",
    commands: &["cargo install --locked cargo-hack"],
    install: Install::OnRequest,
    required: false,
    cpu_seconds: Some(71),
};

pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    probe: Probe::Runs("cargo nextest --version"),
    lost: "`cargo test` runs the tests, without a time limit for each",
    commands: &["cargo install --locked cargo-nextest"],
    install: Install::BySetupOnly,
    required: false,
    cpu_seconds: None,
};

pub(crate) const BARE_TARGET: Tool = Tool {
    name: "x86_64-unknown-none",
    probe: Probe::Target("x86_64-unknown-none"),
    lost: "a use of std in xu-abi or xu-ring goes unnoticed",
    commands: &["rustup target add x86_64-unknown-none"],
    install: Install::OnRequest,
    required: false,
    cpu_seconds: None,
};

pub(crate) const AARCH64_TARGET: Tool = Tool {
    name: "aarch64-unknown-none",
    probe: Probe::Target("aarch64-unknown-none"),
    lost: "code of xu-abi or xu-ring that compiles for x86-64 only goes unnoticed",
    commands: &["rustup target add aarch64-unknown-none"],
    install: Install::OnRequest,
    required: false,
    cpu_seconds: None,
};

/// `libfuzzer-sys` brings the sources of libFuzzer.
pub(crate) const CXX: Tool = Tool {
    name: "c++",
    probe: Probe::Runs("c++ --version"),
    lost: "fuzz targets that do not build go unnoticed",
    commands: &["the system's package of g++ or clang"],
    install: Install::ByHand,
    required: false,
    cpu_seconds: None,
};

pub(crate) const DENY: Tool = Tool {
    name: "cargo-deny",
    probe: Probe::Runs("cargo deny --version"),
    lost: "licences, bans and sources are unchecked",
    commands: &["cargo install --locked cargo-deny"],
    install: Install::OnRequest,
    required: false,
    cpu_seconds: Some(249),
};

pub(crate) const MACHETE: Tool = Tool {
    name: "cargo-machete",
    probe: Probe::Runs("cargo machete --version"),
    lost: "unused dependencies go unnoticed",
    commands: &["cargo install --locked cargo-machete"],
    install: Install::OnRequest,
    required: false,
    cpu_seconds: Some(148),
};

pub(crate) const TYPOS: Tool = Tool {
    name: "typos",
    probe: Probe::Runs("typos --version"),
    lost: "spelling is unchecked",
    commands: &["cargo install --locked typos-cli"],
    install: Install::BySetupOnly,
    required: false,
    cpu_seconds: Some(236),
};

pub(crate) const NIGHTLY: Tool = Tool {
    name: "nightly",
    probe: Probe::Runs("cargo +nightly --version"),
    lost: "miri, the sanitizer and the fuzzers have no compiler",
    commands: &["rustup toolchain install nightly --profile minimal"],
    install: Install::OnRequest,
    required: false,
    cpu_seconds: None,
};

pub(crate) const RUST_SRC: Tool = Tool {
    name: "rust-src",
    probe: Probe::Sources,
    lost: "data races of real threads in xu-ring and xu-worker go unnoticed",
    commands: &[
        "rustup component add rust-src --toolchain nightly",
        "rustup toolchain install nightly --profile minimal --component rust-src",
    ],
    install: Install::Always,
    required: false,
    cpu_seconds: None,
};

pub(crate) const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    probe: Probe::Runs("cargo fuzz --version"),
    lost: "nothing is fuzzed",
    commands: &["cargo install --locked cargo-fuzz"],
    install: Install::BySetupOnly,
    required: false,
    cpu_seconds: Some(63),
};

pub(crate) const MIRI: Tool = Tool {
    name: "miri",
    probe: Probe::Miri,
    lost: "undefined behaviour and weak orderings in xu-abi and xu-ring go unnoticed",
    commands: &[
        "rustup component add miri rust-src --toolchain nightly",
        "rustup toolchain install nightly --profile minimal --component miri --component rust-src",
    ],
    install: Install::Always,
    required: false,
    cpu_seconds: None,
};

const ALL: &[&Tool] = &[
    &RUSTFMT,
    &CLIPPY,
    &HACK,
    &NEXTEST,
    &BARE_TARGET,
    &AARCH64_TARGET,
    &CXX,
    &DENY,
    &MACHETE,
    &TYPOS,
    &NIGHTLY,
    &MIRI,
    &RUST_SRC,
    &CARGO_FUZZ,
];

/// All installs of one run of `verify` together.
pub(crate) const INSTALL_BUDGET: Duration = Duration::from_secs(8 * 60);

/// `setup` is asked for, and builds everything.
const SETUP_BUDGET: Duration = Duration::from_secs(60 * 60);

/// No probe does any work.
const PROBE_BUDGET: Duration = Duration::from_secs(60);

/// Makes sure that `tool` is there.
///
/// # Errors
/// The step is skipped or, for a required tool, has failed; the reason says what is lost and how to get it.
pub(crate) fn need(tool: &Tool, run: &mut Run<'_>) -> Result<(), Stop> {
    if is_present(tool, run) {
        return Ok(());
    }
    let tried = match tool.install {
        Install::Always => true,
        Install::OnRequest => run.options.install,
        Install::BySetupOnly | Install::ByHand => false,
    };
    if tried {
        let budget = *run.install_budget;
        let start = Instant::now();
        let installed = install(tool, run, budget);
        *run.install_budget = budget.saturating_sub(start.elapsed());
        run.restart_clock();
        if installed {
            return Ok(());
        }
    }
    let Tool { name, lost, .. } = tool;
    let how = tool.commands.last().unwrap_or(&"");
    let missing = if tried {
        "not found and not installable here"
    } else {
        "not found"
    };
    let reason = format!("{name} {missing}: {lost} ({how})");
    Err(if tool.required {
        Stop::Failed(reason)
    } else {
        Stop::Skipped {
            reason,
            install_failed: tried,
        }
    })
}

/// Whether `tool` is there.
pub(crate) fn is_present(tool: &Tool, run: &mut Run<'_>) -> bool {
    match tool.probe {
        Probe::Runs(line) => prints(line, run).is_some(),
        Probe::Target(target) => {
            let line = format!("rustc --print target-libdir --target {target}");
            prints(&line, run).is_some_and(|path| Path::new(path.trim()).is_dir())
        }
        Probe::Sources => has_sources(run),
        Probe::Miri => prints("cargo +nightly miri --version", run).is_some() && has_sources(run),
    }
}

fn has_sources(run: &mut Run<'_>) -> bool {
    prints("rustc +nightly --print sysroot", run).is_some_and(|sysroot| {
        Path::new(sysroot.trim())
            .join("lib/rustlib/src/rust/library")
            .is_dir()
    })
}

/// What the command prints, if it succeeds.
fn prints(line: &str, run: &mut Run<'_>) -> Option<String> {
    run.command(line).run_within(PROBE_BUDGET).ok()
}

fn install(tool: &Tool, run: &mut Run<'_>, budget: Duration) -> bool {
    let start = Instant::now();
    for line in tool.commands {
        let left = budget.saturating_sub(start.elapsed());
        // Its own target directory: cargo then takes a temporary one and removes it afterwards.
        let done = run
            .command(line)
            .without("CARGO_TARGET_DIR")
            .run_within(left)
            .is_ok();
        if done && is_present(tool, run) {
            return true;
        }
    }
    false
}

/// Installs everything that is missing and says so; whether all is there now.
pub(crate) fn setup(workspace: &Workspace) -> Result<bool, String> {
    let options = VerifyOptions {
        budget: SETUP_BUDGET,
        ..VerifyOptions::default()
    };
    let mut budget = SETUP_BUDGET;
    let mut run = Run::new("setup", workspace, &options, &mut budget)?;
    let mut complete = true;
    for tool in ALL {
        let name = tool.name;
        if is_present(tool, &mut run) {
            println!("{name:<20} present");
            continue;
        }
        if tool.install == Install::ByHand {
            complete = false;
            let how = tool.commands.last().unwrap_or(&"");
            println!("{name:<20} NOT INSTALLED: {} ({how})", tool.lost);
            continue;
        }
        match tool.cpu_seconds {
            Some(seconds) => {
                eprintln!(
                    "{name:<20} installing: about {} CPU minutes",
                    seconds.div_ceil(60)
                );
            }
            None => eprintln!("{name:<20} installing"),
        }
        if install(tool, &mut run, SETUP_BUDGET) {
            println!("{name:<20} installed");
        } else {
            complete = false;
            println!("{name:<20} NOT INSTALLED: {}", tool.lost);
        }
    }
    if !complete {
        println!("what was tried: {}", workspace.relative(run.log_path()));
    }
    Ok(complete)
}
