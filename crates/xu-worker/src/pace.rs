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
//! * A hop is at most [`HOP`] or a sixteenth of `expected`, so that a request which is faster than those before it is
//!   seen soon.
//!
//! A request that ends during a sleep is found late, and nobody knows how late. Then a little less is expected the next
//! time, until an end is seen while looking at once. Spec `xu.md` section 8.1.

use std::time::Duration;

/// For how long every request is looked at without sleeping.
pub const SHORT: Duration = Duration::from_micros(20);
/// The shortest sleep.
pub const NAP: Duration = Duration::from_micros(20);
/// The longest sleep, unless a sixteenth of what is expected is longer.
pub const HOP: Duration = Duration::from_millis(1);
/// The longest sleep of all.
pub const LONGEST: Duration = Duration::from_millis(50);

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
            return Pause::Sleep((elapsed / 8).clamp(NAP, HOP));
        };
        let hop = (took.mean / 16).clamp(HOP, LONGEST);
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
        Pause::Sleep((late / 8).clamp(NAP, hop))
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
        if let Some(asked) = self.asleep_for {
            let late = now.saturating_sub(self.last_look + asked);
            self.oversleep.follow(late.min(HOP));
        }
    }
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
