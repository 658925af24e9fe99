//! Processes that share a host: who gets which core, what the others learn, and what becomes of a claim when its process ends.
//!
//! Failure kind P4. The other processes are this program again, told by their environment to open a runtime and hold it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use nrta::simulated::{Fault, FaultPlan, Rule, When};
use nrta::{Builder, Busy, Error, Runtime, Status};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "LANE_TESTS_HOLDS_CORES";
const HOST: &str = "NRTA_SIM_HOST";
const CORES: &str = "NRTA_SIM_CORES";
const VISIBLE: &str = "NEURON_RT_VISIBLE_CORES";
const NUM: &str = "NEURON_RT_NUM_CORES";

/// What the other processes do: open as the environment says, tell, and hold until they are let go. Nothing in this one.
#[test]
fn other_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    match Runtime::from_env() {
        Ok(runtime) => {
            let settings = runtime.settings();
            let (first, cores) = (settings.first_core.value, settings.cores.value);
            println!("\nclaim: {first}+{cores}");
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        Err(error) => println!("\nclaim: {error}"),
    }
}

/// A process that holds cores, until it is let go.
struct Other {
    process: Child,
    /// `first+count`, or why it was refused.
    answer: String,
}

impl Other {
    fn start(host: &Host, variables: &[(&str, &str)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "other_process", "--nocapture"])
            .env(ROLE, "1")
            .env(HOST, &host.0)
            .env(CORES, "4")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn answered(mut process: Child) -> Self {
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut answers = lines.map_while(Result::ok);
        let answer = answers.find_map(|line| Some(line.strip_prefix("claim: ")?.to_owned()));
        let answer = answer.unwrap();
        Self { process, answer }
    }

    fn open(host: &Host, variables: &[(&str, &str)]) -> Self {
        Self::answered(Self::start(host, variables))
    }

    fn has_cores(&self) -> bool {
        self.answer.contains('+')
    }

    fn close(mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// A directory that goes with the test.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Self {
        let name = format!("nrta-host-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    /// Four physical cores, as the other processes have.
    fn builder(&self) -> Builder {
        Runtime::builder().simulated_tpbs(4).simulated_host(&self.0)
    }

    fn open(&self, first: u32, cores: u32) -> Result<Runtime, Error> {
        self.builder().first_core(first).cores(cores).open()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn busy(opened: Result<Runtime, Error>) -> Busy {
    let error = opened.unwrap_err();
    assert_eq!(error.status(), Status::FAILURE);
    assert_eq!(error.failure(), nrta::Failure::CoresHeld);
    match error {
        Error::Busy(busy) => *busy,
        other => panic!("{other}"),
    }
}

fn pid_of(busy: &Busy) -> Option<u32> {
    busy.holder.as_ref()?.pid
}

#[test]
fn p4_processes_with_one_core_each_get_different_cores() {
    let host = Host::new("different");
    let others: Vec<_> = (0..4).map(|_| Other::start(&host, &[(NUM, "1")])).collect();
    let others: Vec<_> = others.into_iter().map(Other::answered).collect();
    let mut answers: Vec<_> = others.iter().map(|other| other.answer.as_str()).collect();
    answers.sort_unstable();
    assert_eq!(answers, ["0+1", "1+1", "2+1", "3+1"]);
    let refused = busy(host.builder().open());
    assert_eq!((refused.core, refused.available), (0, 0));
    assert!(
        refused
            .to_string()
            .starts_with("NeuronCore(s) not available - Requested:nc0-nc0 Available:0: core 0")
    );
    others.into_iter().for_each(Other::close);
}

#[test]
fn p4_of_processes_that_want_one_core_exactly_one_gets_it_and_the_others_learn_who() {
    let host = Host::new("one");
    let wanted = [(VISIBLE, "1"), ("NEURON_PROCESS_TAG", "blue")];
    let others: Vec<_> = (0..4).map(|_| Other::start(&host, &wanted)).collect();
    let others: Vec<_> = others.into_iter().map(Other::answered).collect();
    let winners: Vec<_> = others.iter().filter(|other| other.has_cores()).collect();
    assert_eq!(winners.len(), 1);
    let process = format!("core 1 is held by process {}", winners[0].process.id());
    for other in others.iter().filter(|other| !other.has_cores()) {
        let head = "NeuronCore(s) not available - Requested:nc1-nc1 Available:0: ";
        assert!(other.answer.starts_with(head), "{}", other.answer);
        assert!(other.answer.contains(&process), "{}", other.answer);
    }
    let refused = busy(host.open(1, 1));
    let about = refused.holder.unwrap().about.unwrap();
    assert_eq!(about.tag, "blue");
    assert!(about.command.contains("other_process"), "{about:?}");
    assert!(about.since.elapsed().unwrap().as_secs() < 600);
    others.into_iter().for_each(Other::close);
}

#[test]
fn p4_kill_9_frees_at_once() {
    let host = Host::new("killed");
    let other = Other::open(&host, &[]);
    assert_eq!(other.answer, "0+4");
    assert_eq!(pid_of(&busy(host.open(2, 1))), Some(other.process.id()));
    other.kill();
    // What it has said of itself is still there, and not believed.
    assert!(host.0.join("core-2").exists());
    assert!(host.open(0, 4).is_ok());
}

#[test]
fn p4_a_claim_is_all_or_nothing_and_one_error_names_the_core() {
    let host = Host::new("all");
    let three = Other::open(&host, &[(VISIBLE, "3")]);
    let refused = busy(host.open(0, 4));
    assert_eq!((refused.first, refused.last), (0, 3));
    assert_eq!((refused.core, refused.available), (3, 3));
    assert_eq!(pid_of(&refused), Some(three.process.id()));
    let rest = Other::open(&host, &[(VISIBLE, "0-2")]);
    assert_eq!(rest.answer, "0+3");
    rest.close();
    three.close();
    assert!(host.open(0, 4).is_ok());
}

#[test]
fn p4_a_machine_that_is_shared_has_two_cores_unless_somebody_says_how_many() {
    for tpbs_per_core in [1, 2] {
        let host = Host::new("two");
        let shared = Runtime::builder()
            .cores(1)
            .tpbs_per_core(tpbs_per_core)
            .simulated_host(&host.0);
        let first = shared.clone().open().unwrap();
        let second = shared.clone().open().unwrap();
        assert_eq!(second.settings().first_core.value, 1);
        let refused = busy(shared.clone().open());
        assert_eq!((refused.core, refused.machine_cores), (0, 2));
        let text = refused.to_string();
        assert!(text.ends_with("the machine has 2 cores"), "{text}");
        first.close();
        assert!(shared.open().is_ok());
        drop(second);
    }
    let larger = Runtime::builder()
        .cores(3)
        .simulated_host("/tmp")
        .settings();
    assert_eq!(larger.unwrap().tpbs.value, 3);
    let alone = Runtime::builder().settings().unwrap();
    assert_eq!(alone.tpbs.value, 1);
}

#[test]
fn p4_the_lowest_free_cores_side_by_side_are_taken() {
    let host = Host::new("lowest");
    let one = Other::open(&host, &[(VISIBLE, "1")]);
    let two = Other::open(&host, &[(NUM, "2")]);
    assert_eq!(two.answer, "2+2");
    let refused = busy(host.builder().cores(2).open());
    assert_eq!((refused.core, refused.available), (1, 1));
    let runtime = host.builder().open().unwrap();
    assert_eq!(runtime.settings().first_core.value, 0);
    two.close();
    one.close();
}

#[test]
fn p4_whatever_fails_later_gives_the_cores_back() {
    let host = Host::new("later");
    let when = When::default();
    let fault = Fault::AllocationFails;
    let plan = FaultPlan {
        rules: vec![Rule { when, fault }],
    };
    let failed = host.builder().cores(4).simulated_faults(plan).open();
    assert!(matches!(failed, Err(Error::Device(_))), "{failed:?}");
    let other = Other::open(&host, &[]);
    assert_eq!(other.answer, "0+4");
    other.close();
}

#[test]
fn p4_runtimes_of_one_process_share_no_core_and_end_no_claim_of_each_other() {
    let host = Host::new("within");
    let zero = host.open(0, 1).unwrap();
    let one = host.open(1, 1).unwrap();
    let refused = busy(host.open(0, 2));
    assert_eq!(pid_of(&refused), Some(std::process::id()));
    assert!(refused.holder.unwrap().about.is_some());
    // A handle that outlives its runtime does not keep the core.
    let handle = one.core(0).unwrap();
    one.close();
    let other = Other::open(&host, &[(VISIBLE, "1")]);
    assert_eq!(other.answer, "1+1");
    other.close();
    let other = Other::open(&host, &[(VISIBLE, "0")]);
    assert!(!other.has_cores(), "{}", other.answer);
    other.close();
    drop(handle);
    zero.close();
    assert!(host.open(0, 2).is_ok());
}

#[test]
fn p4_a_runtime_that_could_not_be_closed_keeps_its_cores() {
    let host = Host::new("overdue");
    let engine = nrta::simulated::Engine::Pe;
    let fault = Fault::HangEngine { engine };
    let when = When::default();
    let plan = FaultPlan {
        rules: vec![Rule { when, fault }],
    };
    let builder = host.builder().simulated_faults(plan).exec_timeout(None);
    let runtime = builder.open().unwrap();
    let core = runtime.core(0).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/model.xum");
    let model = core.load(&nrta::Model::open(path).unwrap(), 1).unwrap();
    let image = model.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| model.allocate_output(index).unwrap());
    let queue = core.compute();
    let hangs = queue.execute(&model, &[&image], &[&outputs[0], &outputs[1]]);
    hangs.unwrap().detach();
    assert!(runtime.close_within(std::time::Duration::ZERO).is_err());
    assert_eq!(pid_of(&busy(host.open(0, 1))), Some(std::process::id()));
    // The process will end with a lane that hangs, which closes nothing.
}

#[test]
fn p4_cores_are_claimed_by_their_physical_ones() {
    let host = Host::new("pairs");
    let pair = host
        .builder()
        .tpbs_per_core(2)
        .first_core(1)
        .open()
        .unwrap();
    assert!(host.open(0, 2).is_ok());
    assert_eq!(busy(host.open(3, 1)).core, 3);
    assert_eq!(busy(host.open(0, 4)).core, 2);
    pair.close();
    assert!(host.open(3, 1).is_ok());
}

#[test]
fn p4_a_forked_child_gives_nothing_back_and_has_nothing() {
    if std::env::var_os(ROLE).is_none() {
        // In a process of its own: no other test holds a lock there when it forks.
        let name = "p4_a_forked_child_gives_nothing_back_and_has_nothing";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", name]).env(ROLE, "1");
        assert!(alone.status().unwrap().success());
        return;
    }
    let host = Host::new("forked");
    let runtime = host.open(0, 1).unwrap();
    let mut handle = Some(runtime);
    // SAFETY: the child drops what it has inherited, is refused before it starts anything, and ends with `_exit`; no other
    // thread of this test holds a lock of the runtime's.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            drop(handle.take());
            // As long as it has inherited an open runtime it opens none.
            let refused = matches!(host.open(1, 1), Err(Error::Forked));
            // SAFETY: ends the process without running what the parent has registered for its own end.
            unsafe { nix::libc::_exit(i32::from(!refused)) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
        }
    }
    let other = Other::open(&host, &[(VISIBLE, "0")]);
    assert!(!other.has_cores(), "{}", other.answer);
    other.close();
    // What is said of the holder is still there, too.
    assert!(busy(host.open(0, 1)).holder.unwrap().about.is_some());
    drop(handle);
    assert!(host.open(0, 1).is_ok());
}

#[test]
fn p4_what_is_said_of_a_holder_may_be_damaged_or_of_somebody_else() {
    let host = Host::new("damaged");
    let other = Other::open(&host, &[(VISIBLE, "0")]);
    let pid = other.process.id();
    let somebody_else = r#"{"pid":1,"command":"init","tag":"t","since":0}"#;
    let endless =
        format!(r#"{{"pid":{pid},"command":"a","tag":"b","since":18446744073709551615}}"#);
    for text in ["", "{", "\u{0}\u{1}", "[]", somebody_else, &endless] {
        std::fs::write(host.0.join("core-0"), text).unwrap();
        let refused = busy(host.open(0, 1));
        let holder = refused.holder.as_ref().unwrap();
        assert_eq!(holder.pid, Some(pid), "{text}");
        assert_eq!(holder.about, None, "{text}");
        assert!(
            refused
                .to_string()
                .contains(&format!("by process {pid}; to do"))
        );
    }
    // What it says cannot write lines of its own into a log.
    let forged = format!(r#"{{"pid":{pid},"command":"a\nERROR","tag":"\u001b[2J","since":9}}"#);
    std::fs::write(host.0.join("core-0"), forged).unwrap();
    let text = busy(host.open(0, 1)).to_string();
    assert!(!text.contains(char::is_control), "{text}");
    other.close();
}

/// Closing any descriptor of the file of cores would end all claims of this process on it.
#[test]
fn p4_a_name_of_a_holder_that_leads_to_the_file_of_cores_ends_no_claim() {
    let host = Host::new("trap");
    let runtime = host.open(0, 1).unwrap();
    let (cores, who) = (host.0.join("cores"), host.0.join("core-0"));
    for hard in [false, true] {
        std::fs::remove_file(&who).unwrap();
        if hard {
            std::fs::hard_link(&cores, &who).unwrap();
        } else {
            std::os::unix::fs::symlink(&cores, &who).unwrap();
        }
        assert_eq!(busy(host.open(0, 1)).holder.unwrap().about, None);
        let other = Other::open(&host, &[(VISIBLE, "0")]);
        assert!(!other.has_cores(), "hard {hard}: {}", other.answer);
        other.close();
    }
    runtime.close();
}

/// It would have us lock, or write, what is somebody else's.
#[test]
fn p4_a_link_in_the_place_of_a_file_of_the_host_is_not_followed() {
    use std::os::unix::fs::symlink;
    let host = Host::new("links");
    let (elsewhere, cores) = (host.0.join("elsewhere"), host.0.join("cores"));
    symlink(&elsewhere, &cores).unwrap();
    let refused = host.open(0, 1).unwrap_err();
    assert!(matches!(refused, Error::Host { .. }), "{refused}");
    assert!(!elsewhere.exists());
    std::fs::remove_file(&cores).unwrap();

    std::fs::write(&elsewhere, "theirs").unwrap();
    let beside = format!("core-0.{}", std::process::id());
    symlink(&elsewhere, host.0.join(beside)).unwrap();
    let runtime = host.open(0, 1).unwrap();
    assert!(busy(host.open(0, 1)).holder.unwrap().about.is_some());
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "theirs");
    runtime.close();
    // What was said of the holder goes with the claim.
    assert!(!host.0.join("core-0").exists());
}

#[test]
fn p1_a_program_that_is_started_has_no_descriptor_of_the_host() {
    let host = Host::new("exec");
    let runtime = host.open(0, 1).unwrap();
    let list = Command::new("ls")
        .args(["-l", "/proc/self/fd"])
        .output()
        .unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("/dev/null"), "{list}");
    assert!(!list.contains(host.0.to_str().unwrap()), "{list}");
    runtime.close();
}

#[test]
fn p4_a_directory_that_cannot_be_used_is_named() {
    let host = Host::new("unusable");
    let file = host.0.join("file");
    std::fs::write(&file, "").unwrap();
    // The last of these lets nobody write, not even who may write everywhere.
    for directory in [host.0.join("missing"), file, PathBuf::from("/proc")] {
        let opened = Runtime::builder().simulated_host(&directory).open();
        let error = opened.unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
        let named =
            matches!(&error, Error::Host { directory: named, .. } if Path::new(named) == directory);
        assert!(named, "{error}");
    }
}
