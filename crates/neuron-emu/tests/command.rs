//! The command `neuron-emu`, with both front ends.
//!
//! Where a front end is not available its tests say `skipped`, with the reason.

#![allow(clippy::unwrap_used, reason = "a test ends there, and says where")]

mod program;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The exit code of a front end that is not available.
const UNAVAILABLE: i32 = 69;

/// The command with options, on the test program in a role; `None` when the front end is not available.
fn try_play(options: &[&str], role: &str) -> Option<(i32, String, String)> {
    let program = program::command(role);
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
    command.args(options).arg("--").arg(program.get_program());
    command.args(program.get_args());
    for (key, value) in program.get_envs() {
        command.env(key, value.unwrap());
    }
    let (code, output) = run(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (said, complained) = (text(output.stdout), text(output.stderr));
    if code == UNAVAILABLE {
        println!("skipped: {complained}");
        return None;
    }
    Some((code, said, complained))
}

fn run(command: &mut Command) -> (i32, Output) {
    let output = command.output().unwrap();
    (output.status.code().unwrap(), output)
}

/// Options of each front end that is built. The library is, when the whole workspace or its package is.
fn fronts() -> Vec<[&'static str; 2]> {
    let mut fronts = vec![["--front", "seccomp"]];
    let command = Path::new(env!("CARGO_BIN_EXE_neuron-emu"));
    if command.with_file_name("libneuron_emu_preload.so").exists() {
        fronts.push(["--front", "preload"]);
    } else {
        println!("skipped: the library neuron-emu-preload is not built");
    }
    fronts
}

#[test]
fn the_exit_code_is_the_programs() {
    for front in fronts() {
        for (role, expected) in [("open-and-exit", 0), ("exit-7", 7), ("killed", 128 + 9)] {
            if let Some((code, _, complained)) = try_play(&front, role) {
                assert_eq!(code, expected, "{front:?} {role}: {complained}");
            }
        }
    }
}

#[test]
fn what_closes_nothing_of_the_program_leaves_its_device_open() {
    for front in fronts() {
        for role in ["vfork", "bad-closes"] {
            if let Some((code, said, complained)) = try_play(&front, role) {
                assert_eq!(code, 0, "{front:?} {role}: {said} {complained}");
            }
        }
    }
}

#[test]
fn an_interrupt_ends_the_program_and_the_command_puts_things_away() {
    let link = std::env::temp_dir().join(format!("neuron-emu-link-{}", std::process::id()));
    for front in fronts() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
        command.args(front);
        if front.contains(&"seccomp") {
            command.arg("--sysfs").arg(&link);
        }
        command.args([
            "--",
            "/bin/sh",
            "-c",
            "kill -INT $PPID; kill -QUIT $PPID; exit 3",
        ]);
        let (code, output) = run(&mut command);
        if code != UNAVAILABLE {
            assert_eq!(code, 3, "{front:?}: {output:?}");
        }
        assert!(std::fs::symlink_metadata(&link).is_err());
    }
}

#[test]
fn a_listing_of_the_nodes_does_not_outlive_its_program() {
    let temporary = std::env::temp_dir().join(format!("neuron-emu-left-{}", std::process::id()));
    for front in fronts() {
        std::fs::create_dir(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
        command.args(front).args(["--", "/bin/ls", "/dev"]);
        let (code, output) = run(command.env("TMPDIR", &temporary));
        let left = std::fs::read_dir(&temporary).unwrap().count();
        std::fs::remove_dir_all(&temporary).unwrap();
        if code != UNAVAILABLE {
            assert!(String::from_utf8_lossy(&output.stdout).contains("neuron0"));
            assert_eq!((code, left), (0, 0), "{front:?}");
        }
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_program_starts() {
    let options = ["--front", "seccomp", "--trace", "/no/such/directory/trace"];
    if let Some((code, said, complained)) = try_play(&options, "exit-7") {
        assert_eq!(code, 64, "{said} {complained}");
        assert!(
            complained.contains("/no/such/directory/trace"),
            "{complained}"
        );
    }
}

#[test]
fn a_crash_of_the_kernel_is_an_exit_code_of_its_own() {
    for front in fronts() {
        if let Some((code, _, complained)) = try_play(&front, "bug") {
            assert_eq!(code, 70, "{front:?}: {complained}");
            assert!(complained.contains("kernel BUG: trap 25"), "{complained}");
        }
    }
}

#[test]
fn a_positive_result_leaves_the_error_number_alone() {
    for front in fronts() {
        if let Some((code, said, complained)) = try_play(&front, "bad-pointer") {
            assert_eq!(code, 0, "{front:?}: {said} {complained}");
        }
    }
}

#[test]
fn mappings_are_native_under_each_front_end() {
    for front in fronts() {
        if let Some((code, said, complained)) = try_play(&front, "map") {
            assert_eq!(code, 0, "{front:?}: {said} {complained}");
            assert!(said.contains("mapped"), "{said}");
        }
    }
}

#[test]
fn options_reach_the_emulator() {
    for [option, front] in fronts() {
        let options = [option, front, "--devices", "3", "--arch", "v3"];
        if let Some((code, said, complained)) = try_play(&options, "list") {
            assert_eq!(code, 0, "{front}: {complained}");
            assert!(said.contains("nodes: neuron0 neuron1 neuron2\n"), "{said}");
        }
    }
}

#[test]
fn a_trace_tells_what_the_program_did() {
    let file =
        Removed(std::env::temp_dir().join(format!("neuron-emu-trace-{}", std::process::id())));
    let path = file.0.to_str().unwrap();
    let options = ["--front", "seccomp", "--trace", path];
    if try_play(&options, "open-and-exit").is_some() {
        let trace = std::fs::read_to_string(&file.0).unwrap();
        assert!(trace.contains(" open O_RDWR = file "), "{trace}");
        assert!(trace.contains(" close file "), "{trace}");
    }
}

#[test]
fn a_link_leads_to_what_stands_for_sysfs() {
    let link =
        Removed(std::env::temp_dir().join(format!("neuron-emu-sysfs-{}", std::process::id())));
    let class = link.0.join("class");
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
    command.args(["--front", "seccomp", "--sysfs"]).arg(&link.0);
    let (code, output) = run(command.arg("ls").arg(&class));
    if code == UNAVAILABLE {
        println!("skipped: {output:?}");
        return;
    }
    assert_eq!(code, 0, "{output:?}");
    assert!(!link.0.exists());
}

#[test]
fn what_stands_for_sysfs_goes_with_the_command_though_some_of_the_program_lives_on() {
    let link =
        Removed(std::env::temp_dir().join(format!("neuron-emu-tree-{}", std::process::id())));
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
    command.args(["--front", "seccomp", "--sysfs"]).arg(&link.0);
    // What is left reads until the test has looked.
    let script = "readlink $0; exec 3<&0; cat <&3 >/dev/null 2>&1 &";
    command.args(["--", "/bin/sh", "-c", script]).arg(&link.0);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    if output.status.code() != Some(UNAVAILABLE) {
        let root = String::from_utf8(output.stdout).unwrap();
        let root = Path::new(root.trim_end());
        assert!(root.is_absolute() && !root.exists(), "{}", root.display());
    }
    drop(input);
}

#[test]
fn a_link_of_a_command_that_is_gone_is_replaced_and_no_other() {
    let link = Removed(std::env::temp_dir().join(format!("neuron-emu-old-{}", std::process::id())));
    let own = format!("/dev/shm/neuron-emu-sysfs-{}-0", std::process::id());
    for (old, expected) in [
        ("/dev/shm/neuron-emu-sysfs-4194304-0", 0),
        // Its process is there, but not the directory.
        (own.as_str(), 0),
        ("/no/such/directory", 64),
        ("/sys", 64),
    ] {
        let _there_is_none = std::fs::remove_file(&link.0);
        std::os::unix::fs::symlink(old, &link.0).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
        command.args(["--front", "seccomp", "--sysfs"]).arg(&link.0);
        let (code, output) = run(command.arg("ls").arg(link.0.join("class")));
        if code == UNAVAILABLE {
            println!("skipped: {output:?}");
            return;
        }
        assert_eq!(code, expected, "{old}: {output:?}");
        let left = std::fs::read_link(&link.0).ok();
        assert_eq!(left.is_some(), expected != 0, "{old}");
    }
}

#[test]
fn a_request_to_end_goes_to_the_program_and_the_command_puts_things_away() {
    let link = Removed(std::env::temp_dir().join(format!("neuron-emu-end-{}", std::process::id())));
    for front in fronts() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
        command.args(front);
        if front.contains(&"seccomp") {
            command.arg("--sysfs").arg(&link.0);
        }
        // Reads until it is ended, or the test has seen the command end.
        command.args(["--", "/bin/sh", "-c", "kill -TERM $PPID; read line; exit 1"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let status = child.wait().unwrap();
        drop(input);
        if status.code() != Some(UNAVAILABLE) {
            assert_eq!(status.code(), Some(128 + 15), "{front:?}: {status}");
        }
        assert!(std::fs::symlink_metadata(&link.0).is_err());
    }
}

#[test]
fn an_interrupt_that_is_ignored_is_ignored_in_the_program() {
    for front in fronts() {
        let command = format!(
            "trap '' INT; exec {} {} -- /bin/sh -c 'kill -INT $$; exit 3'",
            env!("CARGO_BIN_EXE_neuron-emu"),
            front.join(" "),
        );
        let (code, output) = run(Command::new("/bin/sh").args(["-c", &command]));
        if code != UNAVAILABLE {
            assert_eq!(code, 3, "{front:?}: {output:?}");
        }
    }
}

#[test]
fn too_few_descriptors_are_a_reason_and_no_failure_of_the_program() {
    let command = format!(
        "ulimit -n 256; exec {} --front seccomp -- /bin/true",
        env!("CARGO_BIN_EXE_neuron-emu"),
    );
    let (code, output) = run(Command::new("/bin/sh").args(["-c", &command]));
    // Who may raise the limit does.
    if code != 0 {
        assert_eq!(code, UNAVAILABLE, "{output:?}");
    }
}

/// A file that goes with the test.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _there_is_none = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_wrong_command_line_is_refused() {
    for (arguments, expected) in [
        (&["--colour", "red", "true"][..], 64),
        (&["--devices", "17", "true"], 64),
        (&["--faults", "/no/such/file", "true"], 64),
        (&[], 64),
        (&["--help"], 0),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
        let (code, output) = run(command.args(arguments));
        assert_eq!(code, expected, "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_program_that_is_not_there_has_the_code_of_the_shell() {
    for front in fronts() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
        let (code, _) = run(command.args(front).arg("/no/such/program"));
        assert!([127, UNAVAILABLE].contains(&code), "{code}");
    }
}
