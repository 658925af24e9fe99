//! What test runners print last, read back.
//!
//! Called by `steps`: a step that ran no test has failed, whatever its exit code says.

/// The sum over all closing lines of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    /// Passed or failed.
    pub(crate) run: u64,
    pub(crate) passed: u64,
    /// Ignored by their own attribute, or left out by a filter of the runner.
    pub(crate) skipped: u64,
}

impl Tests {
    fn add(&mut self, others: Self) {
        self.run += others.run;
        self.passed += others.passed;
        self.skipped += others.skipped;
    }
}

/// Counts the tests of an output.
pub(crate) fn tests(output: &str) -> Tests {
    let mut sum = Tests::default();
    for line in closing_lines(output) {
        let passed = number_before(line, "passed");
        let failed = number_before(line, "failed") + number_before(line, "timed");
        sum.add(Tests {
            run: passed + failed,
            passed,
            skipped: number_before(line, "skipped") + number_before(line, "ignored"),
        });
    }
    sum
}

/// Counts the tests of an output of several test programs, each of which may start itself again: a test that does so
/// shows the closing line of that run, before its program's own.
pub(crate) fn tests_of_programs(output: &str) -> Tests {
    let mut sum = Tests::default();
    let mut own = "";
    for line in output.lines() {
        if is_start_of_program(line) {
            sum.add(tests(own));
            own = "";
        }
        own = closing_lines(line).next().unwrap_or(own);
    }
    sum.add(tests(own));
    sum
}

/// What cargo says before it starts one, `     Running tests/loom.rs (target/...)`.
fn is_start_of_program(line: &str) -> bool {
    line.trim_start().starts_with("Running ") && line.trim_end().ends_with(')')
}

/// The closing lines themselves: `test result: ...` of libtest or, where nextest ran the tests, its `Summary [...]`.
pub(crate) fn closing_lines(output: &str) -> impl Iterator<Item = &str> {
    // Nextest repeats what a failed test printed, and that has a line of libtest in it.
    let by_nextest = output.lines().any(is_summary);
    output.lines().filter_map(move |line| {
        if by_nextest {
            return is_summary(line).then(|| line.trim());
        }
        // Output of two processes may share a line, so the mark need not be at its beginning.
        line.find("test result: ").map(|at| &line[at..])
    })
}

fn is_summary(line: &str) -> bool {
    line.trim_start().starts_with("Summary [") && line.contains(" run: ")
}

/// The number in `... 3 passed; ...`; 0 when the word is not there.
fn number_before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', '(', ')', ',', ';', ':', '.']).collect();
    words
        .windows(2)
        .filter(|pair| pair[1] == word)
        .find_map(|pair| pair[0].parse().ok())
        .unwrap_or(0)
}

/// How many models said what they explored, and the sum: `N executions` of ours, `Completed in N iterations` of loom.
///
/// What a test of `mutants` shows is not counted: there a model ran with a fault in it.
pub(crate) fn executions(output: &str) -> (usize, u64) {
    let mut by_mutant = false;
    let mut models = 0;
    let mut sum = 0;
    for line in output.lines() {
        if is_start_of_program(line) {
            by_mutant = false;
        } else if let Some(test) = shown_test(line) {
            by_mutant = test.starts_with("mutants::");
        }
        let count = number_before(line, "executions").max(number_before(line, "iterations"));
        if count > 0 && !by_mutant {
            models += 1;
            sum += count;
        }
    }
    (models, sum)
}

/// The name in libtest's `---- models::depth stdout ----`.
fn shown_test(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// How many seeds miri tried.
pub(crate) fn seeds(output: &str) -> usize {
    output.matches("Trying seed: ").count()
}

/// The `M` of the last `(N/M)`, which is how cargo-hack counts its combinations.
pub(crate) fn combinations(output: &str) -> Option<u64> {
    output.lines().rev().find_map(|line| {
        let (_, fraction) = line.trim_end().strip_suffix(')')?.rsplit_once('(')?;
        let (_, of) = fraction.split_once('/')?;
        of.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_lines_add_up() {
        let output = "\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.10s
";
        assert_eq!(
            tests(output),
            Tests {
                run: 6,
                passed: 4,
                skipped: 1
            }
        );
        assert_eq!(closing_lines(output).count(), 2);
    }

    #[test]
    fn nextest_summaries_are_read_in_all_their_forms() {
        for (line, run, passed, skipped) in [
            (
                "     Summary [   0.012s] 26 tests run: 26 passed, 0 skipped",
                26,
                26,
                0,
            ),
            (
                "     Summary [   0.012s] 1 test run: 1 passed (1 slow), 2 skipped",
                1,
                1,
                2,
            ),
            (
                "     Summary [   1.0s] 3/9 tests run: 1 passed (1 leaky), 1 failed, 1 timed out, 0 skipped",
                3,
                1,
                0,
            ),
            (
                "     Summary [   0.001s] 0 tests run: 0 passed, 0 skipped",
                0,
                0,
                0,
            ),
        ] {
            assert_eq!(
                tests(line),
                Tests {
                    run,
                    passed,
                    skipped
                },
                "{line}"
            );
        }
    }

    #[test]
    fn what_a_failed_test_printed_is_not_counted() {
        let output = "\
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
     Summary [   0.1s] 2 tests run: 1 passed, 1 failed, 0 skipped
";
        assert_eq!(
            tests(output),
            Tests {
                run: 2,
                passed: 1,
                skipped: 0
            }
        );
    }

    #[test]
    fn other_lines_do_not_count() {
        let output = "12 passed, 3 failed\nSummary of the release: 4 passed\nwarning: 1 failed";
        assert_eq!(tests(output), Tests::default());
    }

    #[test]
    fn executions_of_all_models_add_up() {
        let output = "\
 INFO loom::model: Completed in 63 iterations
two(3,4): 6256 executions
test two ... ok
";
        assert_eq!(executions(output), (2, 63 + 6256));
        assert_eq!(executions("test two ... ok"), (0, 0));
    }

    #[test]
    fn programs_that_start_themselves_again_are_counted_once() {
        let output = "\
   Compiling xu-ring v0.1.0
     Running tests/loom.rs (target/loom/loom/deps/loom-66697f7f52021c2b)

running 3 tests
test mutants::no_mutant - should panic ... ok
test models::depth ... ok

successes:

---- models::depth stdout ----
depth: 300 executions, preemption bound Some(4)

---- mutants::no_mutant stdout ----
none survives models::two_cap1_n2:
running 1 test
two(1,2): 63 executions, preemption bound None
test models::two_cap1_n2 ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 47 filtered out; finished in 0.06s

---- models::two_cap1_n2 stdout ----
two(1,2): 63 executions, preemption bound None

test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 49.35s

     Running tests/loom_spsc.rs (target/loom/loom/deps/loom_spsc-eda8da09ee187427)

running 2 tests
---- mutants::swap stdout ----
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 26 filtered out; finished in 0.03s

---- models::two stdout ----
spsc two(1,3): 979 executions, preemption bound Some(3)

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 10.11s
";
        assert_eq!(
            tests_of_programs(output),
            Tests {
                run: 5,
                passed: 5,
                skipped: 0
            }
        );
        assert_eq!(executions(output), (3, 300 + 63 + 979));
        assert_eq!(
            tests_of_programs("error: could not compile"),
            Tests::default()
        );
    }

    #[test]
    fn seeds_are_counted_in_the_middle_of_other_output() {
        assert_eq!(
            seeds("Trying seed: 0\ntest result: Trying seed: 4\nok\n"),
            2
        );
    }

    #[test]
    fn combinations_come_from_the_last_count() {
        let output = "\
info: running `cargo clippy --no-default-features` on xu-abi (1/22)
info: running `cargo clippy --features checked` on xu-ring (22/22)
    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.10s
";
        assert_eq!(combinations(output), Some(22));
        assert_eq!(combinations("nothing (of use)"), None);
    }
}
