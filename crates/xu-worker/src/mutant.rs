//! Faults that the models seed on purpose, to prove that they would notice them.
//!
//! An ordinary build has no faults: [`Mutant::is_seeded`] is the constant `false` there and leaves no code behind.
//! A build with `--cfg loom` reads one name from `XU_WORKER_MUTANT` when it is first asked.

use crate::sync::Ordering;

macro_rules! mutants {
    ($($list:ident: { $($(#[$doc:meta])* $variant:ident = $name:literal,)* })*) => {
        /// One ordering weakened, or one rule broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            not(loom),
            expect(unreachable_pub, reason = "only the models list the mutants")
        )]
        pub enum Mutant {
            $($($(#[$doc])* $variant,)*)*
        }

        #[cfg(loom)]
        impl Mutant {
            $(
                /// Those of one file of models.
                pub const $list: &'static [Self] = &[$(Self::$variant),*];
            )*

            /// The value of `XU_WORKER_MUTANT` that seeds this one.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)*)*
                }
            }
        }
    };
}

mutants! { LANE: {
    /// The outcome of a request is announced with `Relaxed`.
    DoneStore = "done-store",
    /// The announcement of an outcome is loaded with `Relaxed`.
    DoneLoad = "done-load",
    /// Whoever waits for an outcome does not look again after it has said so.
    NoSecondLook = "no-second-look",
    /// A worker looks whether its request is skipped before it says that it begins.
    BeginAfterLook = "begin-after-look",
    /// Who skips a request looks whether it has begun before they say so.
    SkipAfterLook = "skip-after-look",
    /// A worker sleeps without looking again after it has said so.
    SleepWithoutLook = "sleep-without-look",
    /// No barrier stands between a worker's announcement and its second look.
    NoBarrierBeforeLook = "no-barrier-before-look",
    /// No barrier stands between a submission and the question whether its worker sleeps.
    NoBarrierBeforeQuestion = "no-barrier-before-question",
    /// Whoever waits for room says so without the lock under which requests complete.
    ArmWithoutLock = "arm-without-lock",
    /// A worker that goes does not wait for submitters that have passed the gates.
    AbandonWithoutBarrier = "abandon-without-barrier",
} PLACES: {
    /// Whoever gives a place back asks for waiters without the lock under which they say that they wait.
    GiveBackWithoutLock = "give-back-without-lock",
    /// A request in a reserved place is visible while its place is still counted.
    SpendAfterRequest = "spend-after-request",
    /// A place that is given back wakes nobody.
    GiveBackSilently = "give-back-silently",
    /// A task that waits for room does not look again after it has left its waker.
    RoomNoSecondLook = "room-no-second-look",
} EVENTS: {
    /// A waiter joins without looking again under the lock.
    WaitNoSecondLook = "wait-no-second-look",
    /// A waiter that goes takes the descriptor away from those that stay.
    LeaveTakesAll = "leave-takes-all",
    /// A registration looks for the completion before it arms.
    ArmAfterLook = "arm-after-look",
    /// The registration of a unit looks for completions before it arms.
    ArmUnitAfterLook = "arm-unit-after-look",
    /// A unit's registration is told about completions before it.
    UnitCountsThePast = "unit-counts-the-past",
    /// A completion writes after it has given the registry's lock back.
    NotifyWithoutLock = "notify-without-lock",
    /// A task that follows a unit is counted without the lock under which requests complete.
    FollowWithoutLock = "follow-without-lock",
    /// A task that follows a unit does not look again after it has left its waker.
    FollowNoSecondLook = "follow-no-second-look",
    /// A task is told of a completion before its outcome was handed over.
    FollowBeforeHandOver = "follow-before-hand-over",
    /// A task that follows a unit asks for its end after the newest completion.
    EndAfterNewest = "end-after-newest",
} }

impl Mutant {
    /// Whether this build runs with the fault.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) const fn is_seeded(self) -> bool {
        false
    }

    /// Whether this run of the models has the fault.
    #[cfg(loom)]
    pub(crate) fn is_seeded(self) -> bool {
        static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| {
            let name = std::env::var("XU_WORKER_MUTANT").ok()?;
            [Self::LANE, Self::PLACES, Self::EVENTS]
                .into_iter()
                .flatten()
                .copied()
                .find(|mutant| mutant.name() == name)
        });
        *chosen == Some(self)
    }
}

/// The ordering that an access has, or `Relaxed` where the mutant weakens it.
#[inline(always)]
pub(crate) fn unless(mutant: Mutant, ordering: Ordering) -> Ordering {
    if mutant.is_seeded() {
        Ordering::Relaxed
    } else {
        ordering
    }
}
