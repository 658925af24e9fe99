//! How models explore, and how they prove that a fault would be noticed.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Names the fault to seed; the crate reads it.
pub(crate) const MUTANT: &str = "XU_WORKER_MUTANT";

/// Runs `model` in every interleaving with at most `preemptions` preemptions (`None`: all there are).
///
/// A model that has shrunk proves less than it says: there must be `at_least` so many runs.
pub(crate) fn explore(name: &str, preemptions: Option<usize>, at_least: usize, model: fn()) {
    let runs = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 60_000;
    let counter = runs.clone();
    builder.check(move || {
        counter.fetch_add(1, Relaxed);
        model();
    });
    let runs = runs.load(Relaxed);
    println!("{name}: {runs} executions, preemption bound {preemptions:?}");
    assert!(runs >= at_least, "{name} has shrunk to {runs} executions");
}

/// Starts this program again with the fault seeded, for one model, and demands that it notices.
pub(crate) fn assert_killed(mutant: &str, model: &str) {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program)
        .args(["--exact", model, "--test-threads=1"])
        .env(MUTANT, mutant)
        .output()
        .expect("it starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("running 1 test"),
        "there is no model {model}: {text}"
    );
    assert!(!text.contains("has shrunk"), "{model} is no proof: {text}");
    // A panic, or an abort by a panic during a panic.
    assert!(
        !output.status.success(),
        "{mutant} survives {model}: {text}"
    );
}

/// A test for each fault, which each model that is named for it must notice; and `LISTED`, all of these faults.
macro_rules! killed {
    ($($name:ident: $mutant:ident by $($model:ident),+;)*) => {
        const LISTED: &[Mutant] = &[$(Mutant::$mutant),*];

        $(#[test]
        fn $name() {
            $($crate::proof::assert_killed(
                Mutant::$mutant.name(),
                concat!("models::", stringify!($model)),
            );)+
        })*
    };
}
pub(crate) use killed;
