//! When to look at a running request again: learned from how long the requests before it have taken.
//!
//! Each unit of an [`Adaptive`](crate::PollPolicy::Adaptive) worker has a [`Pace`]. The worker tells it when a request is
//! seen running and when it is seen complete, and asks it what to do until the next look. No clock is read for requests
//! that are complete at the first look, and nothing here sleeps or knows a thread, so it is tested with times made up.
//!
//! ```text
//!  begin        SHORT            expected - lead              expected + window
//!  |------------|----------------|============================|-------------------------> time
//!   look at once  sleep in hops    look at once                 sleep, a little longer each time
//! ```
//!
//! * `expected` and `spread` follow the durations of late requests as TCP follows round-trip times.
//! * `lead` is what is taken off for the spread and for waking up late, which is learned, too.
//! * `window` is a fiftieth of `expected`: looking at once costs at most two per cent of a core.
//! * A hop is at most [`HOP`] or a quarter of `expected`, so that a request which is faster than those before it is
//!   seen soon. Each costs some tens of microseconds, where a sleeping processor has to be woken.
//!
//! A request that ends during a sleep is found late, and nobody knows how late. Then a little less is expected the next
//! time, until an end is seen while looking at once. Spec `xu.md` section 8.1.

use std::time::Duration;

/// For how long every request is looked at without sleeping.
pub const SHORT: Duration = Duration::from_micros(20);
/// The shortest sleep.
pub const NAP: Duration = Duration::from_micros(20);
/// The longest sleep, unless a fraction of what is expected or has passed is longer.
pub const HOP: Duration = Duration::from_millis(1);
/// The longest sleep of all.
pub const LONGEST: Duration = Duration::from_millis(50);

/// Longer than anything runs: sums and products of such times do not overflow.
const FOR_EVER: Duration = Duration::from_secs(1 << 40);

/// What to do until the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Look again at once.
    Look,
    /// Sleep for so long.
    Sleep(Duration),
}

/// What one unit has learned. Times are since the request at the head was first seen running.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    took: Option<Estimate>,
    /// How much later than asked sleeps end.
    oversleep: Estimate,
    /// The last look that saw the request running.
    last_look: Duration,
    /// The sleep that was asked for at that look.
    asleep_for: Option<Duration>,
}

impl Pace {
    /// A new request is at the head, and was seen running.
    pub fn begin(&mut self) {
        self.last_look = Duration::ZERO;
        self.asleep_for = None;
    }

    /// The request was seen running, `elapsed` after it was first seen. What to do until the next look.
    pub fn running(&mut self, elapsed: Duration) -> Pause {
        let elapsed = elapsed.min(FOR_EVER);
        self.learn_oversleep(elapsed);
        self.last_look = elapsed;
        let pause = self.pause(elapsed);
        self.asleep_for = match pause {
            Pause::Sleep(sleep) => Some(sleep),
            Pause::Look => None,
        };
        pause
    }

    /// The request was seen complete, `elapsed` after it was first seen running.
    pub fn complete(&mut self, elapsed: Duration) {
        let elapsed = elapsed.min(FOR_EVER);
        let took = self.estimate_end(elapsed);
        self.learn_oversleep(elapsed);
        self.asleep_for = None;
        match &mut self.took {
            Some(estimate) => estimate.follow(took),
            None => {
                self.took = Some(Estimate {
                    mean: took,
                    spread: took / 8,
                });
            }
        }
    }

    /// When requests of this unit are expected to end, once one has.
    #[must_use]
    pub fn expected(&self) -> Option<Duration> {
        self.took.map(|took| took.mean)
    }

    fn pause(&self, elapsed: Duration) -> Pause {
        if elapsed < SHORT {
            return Pause::Look;
        }
        let Some(took) = self.took else {
            return Pause::Sleep((elapsed / 8).clamp(NAP, longest(elapsed / 16)));
        };
        let hop = longest(took.mean / 4);
        let lead = took.spread * 2 + self.oversleep.mean + self.oversleep.spread;
        let wake_at = took.mean.saturating_sub(lead);
        if elapsed + NAP < wake_at {
            return Pause::Sleep((wake_at - elapsed).min(hop));
        }
        let window = took.mean / 50;
        if elapsed < wake_at + window {
            return Pause::Look;
        }
        let late = elapsed - wake_at;
        Pause::Sleep((late / 8).clamp(NAP, longest(elapsed / 16)))
    }

    /// When the request ended, as far as can be told.
    fn estimate_end(&self, seen: Duration) -> Duration {
        match (self.asleep_for, self.took) {
            (None, _) => seen,
            (Some(_), None) => self.last_look,
            (Some(asked), Some(took)) => took
                .mean
                .saturating_sub(asked / 4)
                .clamp(self.last_look, seen.max(self.last_look)),
        }
    }

    fn learn_oversleep(&mut self, now: Duration) {
        let Some(asked) = self.asleep_for else {
            return;
        };
        // A sleep that ended early, for another unit or for a bell, says nothing.
        if let Some(late) = now.checked_sub(self.last_look + asked) {
            self.oversleep.follow(late.min(HOP));
        }
    }
}

/// The longest sleep where `fraction` may be lost.
fn longest(fraction: Duration) -> Duration {
    fraction.clamp(HOP, LONGEST)
}

/// A mean and how far off it values are, both moving.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    mean: Duration,
    spread: Duration,
}

impl Estimate {
    /// Moves a quarter of the way.
    fn follow(&mut self, value: Duration) {
        let off = value.abs_diff(self.mean);
        self.mean = (self.mean * 3 + value) / 4;
        self.spread = (self.spread * 3 + off) / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);
    const TEN_MS: Duration = Duration::from_millis(10);

    /// What one request has cost.
    #[derive(Clone, Copy, Debug)]
    struct Cost {
        /// Between its end and the look that saw it.
        late: Duration,
        /// Spent looking at once.
        looking: Duration,
        sleeps: u32,
    }

    /// Runs one request of length `took`, looks taking a microsecond, sleeps ending `oversleep(n)` too late.
    fn run(pace: &mut Pace, took: Duration, oversleep: impl Fn(u32) -> Duration) -> Cost {
        let mut now = Duration::ZERO;
        let mut cost = Cost {
            late: Duration::ZERO,
            looking: Duration::ZERO,
            sleeps: 0,
        };
        pace.begin();
        while now < took {
            match pace.running(now) {
                Pause::Look => {
                    now += MICROSECOND;
                    cost.looking += MICROSECOND;
                }
                Pause::Sleep(sleep) => {
                    assert!((NAP..=LONGEST).contains(&sleep), "{sleep:?} at {now:?}");
                    cost.sleeps += 1;
                    now += sleep + oversleep(cost.sleeps);
                }
            }
        }
        pace.complete(now);
        cost.late = now - took;
        cost
    }

    /// The middle of what `rounds` requests cost once `warm_up` have run.
    fn median(costs: &mut [Cost], of: impl Fn(&Cost) -> Duration) -> Duration {
        costs.sort_by_key(&of);
        of(&costs[costs.len() / 2])
    }

    /// Sleeps end 30 to 90 microseconds late, requests take up to two per cent more or less.
    fn steady(took: Duration) -> Vec<Cost> {
        let mut pace = Pace::default();
        let mut random = 1_u32;
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random >> 16
        };
        let costs: Vec<Cost> = (0..200)
            .map(|_| {
                let percent = next() % 4;
                let seed = next();
                run(&mut pace, took * (98 + percent) / 100, |sleep| {
                    MICROSECOND * (30 + (seed.wrapping_mul(sleep) % 60))
                })
            })
            .collect();
        costs[20..].to_vec()
    }

    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    #[test]
    fn what_takes_long_burns_little_and_is_seen_soon() {
        for took in [TEN_MS / 10, TEN_MS, TEN_MS * 10] {
            let mut costs = steady(took);
            let late = median(&mut costs, |cost| cost.late);
            let looking = median(&mut costs, |cost| cost.looking);
            assert!(
                late <= Duration::from_micros(60).max(took / 50),
                "{took:?}: {late:?} late"
            );
            assert!(
                looking <= SHORT + took / 40,
                "{took:?}: {looking:?} of looking"
            );
            let sleeps = costs.iter().map(|cost| cost.sleeps).max();
            assert!(sleeps <= Some(64), "{took:?}: {sleeps:?} sleeps");
        }
    }

    #[test]
    fn what_is_over_at_once_is_never_slept_through() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            let cost = run(&mut pace, MICROSECOND * 10, |_| Duration::ZERO);
            assert_eq!((cost.sleeps, cost.late), (0, Duration::ZERO));
        }
    }

    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    #[test]
    fn a_short_request_among_long_ones_is_seen_within_a_hop() {
        let mut pace = Pace::default();
        for _ in 0..20 {
            run(&mut pace, TEN_MS, |_| MICROSECOND * 50);
        }
        let cost = run(&mut pace, TEN_MS / 10, |_| MICROSECOND * 50);
        assert!(cost.late <= TEN_MS / 4 + MICROSECOND * 50, "{cost:?}");
    }

    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    #[test]
    fn a_request_without_end_costs_little() {
        let mut pace = Pace::default();
        for _ in 0..20 {
            run(&mut pace, TEN_MS, |_| MICROSECOND * 50);
        }
        let cost = run(&mut pace, TEN_MS * 100, |_| MICROSECOND * 50);
        assert!(cost.sleeps < 200 && cost.looking < TEN_MS, "{cost:?}");
        assert!(cost.late <= LONGEST + MICROSECOND * 50, "{cost:?}");
    }

    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    #[test]
    fn expectations_follow_a_change() {
        let mut pace = Pace::default();
        assert_eq!(pace.expected(), None);
        for took in [TEN_MS, TEN_MS / 10, TEN_MS * 10] {
            for _ in 0..40 {
                run(&mut pace, took, |_| MICROSECOND * 50);
            }
            let expected = pace.expected().unwrap();
            assert!(
                expected.abs_diff(took) <= took / 5,
                "{took:?}: {expected:?}"
            );
        }
    }

    #[test]
    fn a_sleep_that_another_unit_cut_short_teaches_nothing() {
        let mut pace = Pace::default();
        for _ in 0..20 {
            run(&mut pace, TEN_MS, |_| MICROSECOND * 50);
        }
        let before = pace.oversleep.mean;
        pace.begin();
        pace.running(SHORT);
        assert!(matches!(pace.running(SHORT * 2), Pause::Sleep(_)));
        pace.running(SHORT * 2 + MICROSECOND);
        assert_eq!(pace.oversleep.mean, before);
    }

    #[test]
    fn w8_no_length_of_time_panics() {
        let mut pace = Pace::default();
        for elapsed in [Duration::ZERO, MICROSECOND, Duration::MAX] {
            pace.begin();
            pace.running(elapsed);
            pace.complete(elapsed);
            pace.running(elapsed);
            pace.complete(Duration::ZERO);
        }
    }
}
