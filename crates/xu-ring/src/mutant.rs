//! Faults that the models seed on purpose, to prove that they would notice them.
//!
//! An ordinary build has no faults: [`Mutant::is_seeded`] is the constant `false` there and leaves no code behind.
//! A build with `--cfg loom` reads one name from `XU_RING_MUTANT` when it is first asked.
#![forbid(unsafe_code)]

macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One ordering weakened, or one rule broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            not(loom),
            expect(unreachable_pub, reason = "only the models list the mutants")
        )]
        pub enum Mutant {
            $($(#[$doc])* $variant,)*
        }

        #[cfg(loom)]
        impl Mutant {
            /// Every mutant.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value of `XU_RING_MUTANT` that seeds this one.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

mutants! {
    /// The submitted cursor is stored with `Relaxed`.
    SubmittedStore = "submitted-store",
    /// An observer loads the submitted cursor with `Relaxed`.
    SubmittedLoad = "submitted-load",
    /// The triggered cursor is stored with `Relaxed`.
    TriggeredStore = "triggered-store",
    /// The worker loads the triggered cursor with `Relaxed`.
    TriggeredLoadByWorker = "triggered-load-by-worker",
    /// An observer loads the triggered cursor with `Relaxed`.
    TriggeredLoadByObserver = "triggered-load-by-observer",
    /// The completed cursor is stored with `Relaxed`.
    CompletedStore = "completed-store",
    /// The submitter loads the completed cursor with `Relaxed`.
    CompletedLoadBySubmitter = "completed-load-by-submitter",
    /// An observer loads the completed cursor with `Relaxed`.
    CompletedLoadByObserver = "completed-load-by-observer",
    /// An end that goes does not release what it did.
    ShareRelease = "share-release",
    /// The last end does not acquire what the others released.
    ShareAcquire = "share-acquire",
    /// The submitted cursor moves before the slot is written.
    PublishBeforeBody = "publish-before-body",
    /// The completed cursor moves before the waiter has been read.
    CaptureAfterPop = "capture-after-pop",
    /// One request more than the capacity is accepted.
    FullOffByOne = "full-off-by-one",
    /// A submit leaves the previous request's waiter in the slot.
    WaiterNotReset = "waiter-not-reset",
    /// A snapshot loads its cursors from submitted to completed.
    SnapshotBackwards = "snapshot-backwards",
}

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
        extern crate std;
        static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| {
            let name = std::env::var("XU_RING_MUTANT").ok()?;
            Self::ALL
                .iter()
                .copied()
                .find(|mutant| mutant.name() == name)
        });
        *chosen == Some(self)
    }
}
