//! `neuron-emu`: runs a program that opens `/dev/neuronN` on a machine without the hardware.
//!
//! A thin client of the library: options, the choice of a front end, exit codes.
#![forbid(unsafe_code)]

mod args;

use args::{Front, Run};
use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Emulator, Supervised};
use neuron_emu::{preload, signals};
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;

/// The real driver would have crashed.
const BUG: u8 = 70;
/// The command line is wrong.
const USAGE: u8 = 64;
/// No front end can be used here.
const UNAVAILABLE: u8 = 69;
/// The program cannot be executed, or is not there.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    match args::parse(lexopt::Parser::from_env()) {
        Ok(None) => {
            let _nobody_reads = std::io::stdout().write_all(args::help().as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Some(run)) => ExitCode::from(start(run)),
        Err(wrong) => {
            say(&wrong);
            ExitCode::from(USAGE)
        }
    }
}

fn say(message: &dyn Display) {
    // Who cannot be told is told by the exit code.
    let _ = writeln!(std::io::stderr(), "neuron-emu: {message}");
}

fn start(run: Run) -> u8 {
    // Of commands that were killed.
    Emulator::sweep();
    match run.front {
        Front::Seccomp => under_seccomp(run),
        Front::Preload => under_preload(run),
        Front::Auto => match neuron_emu::seccomp::available() {
            Ok(()) => under_seccomp(run),
            Err(why) => {
                say(&format!(
                    "{why}; the program runs with a preloaded library instead"
                ));
                under_preload(run)
            }
        },
    }
}

fn under_seccomp(mut run: Run) -> u8 {
    let emulator = match Emulator::start(run.settings.config().clone()) {
        Ok(emulator) => emulator,
        Err(wrong) => {
            say(&wrong);
            return USAGE;
        }
    };
    let _link = match run
        .sysfs
        .take()
        .map(|place| Link::to_sysfs(&emulator, place))
    {
        Some(Err(error)) => {
            say(&format!("--sysfs: {error}"));
            return USAGE;
        }
        link => link,
    };
    let trace = match run.trace.take().map(Trace::create).transpose() {
        Ok(trace) => trace,
        Err((file, error)) => {
            say(&format!("--trace {}: {error}", file.display()));
            return USAGE;
        }
    };
    signals::leave_to_the_program();
    let mut command = run.command();
    let mut program = match Supervised::spawn_in(&emulator, run.settings.directory(), &mut command)
    {
        Ok(program) => program,
        Err(SpawnError::Start(error)) => return not_started(&run.program, &error),
        Err(error) => {
            say(&error);
            return UNAVAILABLE;
        }
    };
    signals::pass_to(program.id());
    let status = program.wait();
    if let Some(trace) = trace {
        trace.write(&emulator);
    }
    let bugs: Vec<String> = emulator.bugs().iter().map(ToString::to_string).collect();
    conclude(status, &bugs)
}

fn under_preload(run: Run) -> u8 {
    if run.trace.is_some() || run.sysfs.is_some() {
        say(
            &"--trace and --sysfs need the seccomp front end: the emulator is in the program otherwise",
        );
        return USAGE;
    }
    let mut command = run.command();
    if let Err(why) = preload::prepare(&run.settings, &mut command) {
        say(&why);
        return UNAVAILABLE;
    }
    let bugs = Bugs::new();
    command.env(preload::BUGS, &bugs.0);
    signals::leave_to_the_program();
    match command.spawn() {
        Ok(mut program) => {
            signals::pass_to(program.id());
            conclude(program.wait(), &bugs.lines())
        }
        Err(error) => not_started(&run.program, &error),
    }
}

/// A link that is removed in the end, with what it leads to: the emulator is not gone when this process exits.
struct Link {
    place: PathBuf,
    emulator: Arc<Emulator>,
}

impl Link {
    fn to_sysfs(emulator: &Arc<Emulator>, place: PathBuf) -> std::io::Result<Self> {
        let root = emulator.sysfs_root()?;
        // A command that was killed leaves its link.
        if std::fs::read_link(&place).is_ok_and(|old| Emulator::is_abandoned_sysfs(&old)) {
            std::fs::remove_file(&place)?;
        }
        std::os::unix::fs::symlink(root, &place)?;
        Ok(Self {
            place,
            emulator: Arc::clone(emulator),
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _somebody_else_has = std::fs::remove_file(&self.place);
        self.emulator.remove_sysfs();
    }
}

/// The file that the library writes crashes to; removed in the end.
struct Bugs(PathBuf);

impl Bugs {
    fn new() -> Self {
        let name = format!("neuron-emu-bugs-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        // Of an earlier command with this process id, which was killed.
        let _there_is_none = std::fs::remove_file(&file);
        Self(file)
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Bugs {
    fn drop(&mut self) {
        let _there_were_none = std::fs::remove_file(&self.0);
    }
}

fn not_started(program: &std::ffi::OsStr, error: &std::io::Error) -> u8 {
    say(&format!("{}: {error}", program.display()));
    match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

/// The exit code: the program's, unless the kernel would have crashed.
fn conclude(status: std::io::Result<ExitStatus>, bugs: &[String]) -> u8 {
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            say(&error);
            return NOT_EXECUTABLE;
        }
    };
    for bug in bugs {
        say(bug);
    }
    if !bugs.is_empty() {
        return BUG;
    }
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    // A code has 8 bits, and so has 128 with the number of a signal.
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The file of a trace, there before the program starts.
struct Trace(PathBuf, File);

impl Trace {
    fn create(file: PathBuf) -> Result<Self, (PathBuf, std::io::Error)> {
        match File::create(&file) {
            Ok(created) => Ok(Self(file, created)),
            Err(error) => Err((file, error)),
        }
    }

    fn write(self, emulator: &Emulator) {
        let Self(name, file) = self;
        let write = || {
            let mut output = std::io::BufWriter::new(file);
            for traced in emulator.trace() {
                writeln!(output, "{traced}")?;
            }
            output.flush()
        };
        if let Err(error) = write() {
            say(&format!("--trace {}: {error}", name.display()));
        }
    }
}
