//! Faults that the models seed on purpose, to prove that they would notice them.
//!
//! An ordinary build has no faults: [`Mutant::is_seeded`] is the constant `false` there and leaves no code behind.
//! A build with `--cfg loom` reads one name from `XU_RING_MUTANT` when it is first asked.
#![forbid(unsafe_code)]

use crate::sync::Ordering;

macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One ordering weakened, or one rule broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            not(loom),
            expect(unreachable_pub, reason = "only the models list the mutants")
        )]
        #[cfg_attr(
            not(feature = "std"),
            allow(dead_code, reason = "some faults are those of modules that are not there")
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
    /// An observer loads the triggered cursor with `Relaxed`.
    TriggeredLoad = "triggered-load",
    /// The completed cursor is stored with `Relaxed`.
    CompletedStore = "completed-store",
    /// The submitter loads the completed cursor with `Relaxed`.
    CompletedLoadBySubmitter = "completed-load-by-submitter",
    /// An observer loads the completed cursor with `Relaxed`.
    CompletedLoadByObserver = "completed-load-by-observer",
    /// A trigger stores the stage of a slot with `Relaxed`.
    StageStoreByTrigger = "stage-store-by-trigger",
    /// The worker loads the stage of a slot with `Relaxed`.
    StageLoadByWorker = "stage-load-by-worker",
    /// A pop stores the stage of a slot with `Relaxed`.
    StageStoreByPop = "stage-store-by-pop",
    /// The submitter loads the stage of a slot with `Relaxed`.
    StageLoadBySubmitter = "stage-load-by-submitter",
    /// The descriptor of a waiter is stored with `Relaxed`.
    WaiterStore = "waiter-store",
    /// A pop loads the descriptor of a waiter with `Relaxed`.
    WaiterLoad = "waiter-load",
    /// An end that goes does not release what it did.
    ShareRelease = "share-release",
    /// The last end does not acquire what the others released.
    ShareAcquire = "share-acquire",
    /// A ring that comes to a used header does not acquire what the last one did.
    HeaderClaim = "header-claim",
    /// A ring that goes does not release its header.
    HeaderClear = "header-clear",
    /// The submitted cursor moves before the slot is written.
    PublishBeforeBody = "publish-before-body",
    /// The submitted cursor moves past each request of a batch before its slot is written.
    BatchBeforeBody = "batch-before-body",
    /// A submit leaves the stage of the previous request in the slot.
    StageNotReset = "stage-not-reset",
    /// A submit leaves the previous request's waiter in the slot.
    WaiterNotReset = "waiter-not-reset",
    /// One request more than the capacity is accepted.
    FullOffByOne = "full-off-by-one",
    /// A trigger changes the stages of slots before it moves the triggered cursor.
    StageBeforeTriggered = "stage-before-triggered",
    /// The completed cursor moves before the waiter has been read.
    CaptureAfterPop = "capture-after-pop",
    /// A slot is marked as done after the completed cursor has moved.
    DoneAfterCompleted = "done-after-completed",
    /// A pop leaves the stage of its slot as it is.
    NeverDone = "never-done",
    /// The completed cursor moves past each request of a batch before its slot is emptied.
    BatchBeforeCapture = "batch-before-capture",
    /// The submitter believes that a slot has been filled again one request before it is.
    LapOffByOne = "lap-off-by-one",
    /// A waiter's flag is stored after its descriptor.
    WaiterFlagLast = "waiter-flag-last",
    /// A waiter that is taken back stays in the slot.
    WaiterNotRemoved = "waiter-not-removed",
    /// A snapshot loads its cursors from submitted to completed.
    SnapshotBackwards = "snapshot-backwards",
    /// A push stores the state of a slot with `Relaxed`.
    SpscPublishStore = "spsc-publish-store",
    /// The consumer loads the state of a slot with `Relaxed`.
    SpscValueLoad = "spsc-value-load",
    /// A pop stores the state of a slot with `Relaxed`.
    SpscFreeStore = "spsc-free-store",
    /// The producer loads the state of a slot with `Relaxed`.
    SpscRoomLoad = "spsc-room-load",
    /// A slot is full before its value is written.
    SpscPublishBeforeBody = "spsc-publish-before-body",
    /// A slot is empty before its value is read.
    SpscFreeBeforeRead = "spsc-free-before-read",
    /// The going of an end is loaded with `Relaxed`.
    SpscOpenLoad = "spsc-open-load",
    /// An end goes with `Relaxed`.
    SpscCloseStore = "spsc-close-store",
    /// An end that goes releases nothing of what it did.
    SpscLeaveRelease = "spsc-leave-release",
    /// The last end does not acquire what the other did to the memory.
    SpscLeaveAcquire = "spsc-leave-acquire",
    /// A new pair of ends takes over with `Relaxed`.
    SpscClaim = "spsc-claim",
    /// A waiting end changes a slot with `Relaxed`.
    SpscSwap = "spsc-swap",
    /// A waiting end changes a slot with a load and a store.
    SpscStoreInsteadOfSwap = "spsc-store-instead-of-swap",
    /// A receiver sleeps without leaving its mark and looking again.
    SpscNoSecondLook = "spsc-no-second-look",
    /// An end goes without ringing for the other.
    SpscSilentLeave = "spsc-silent-leave",
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

/// The ordering that an access has, or `Relaxed` where the mutant weakens it.
#[inline(always)]
pub(crate) fn unless(mutant: Mutant, ordering: Ordering) -> Ordering {
    if mutant.is_seeded() {
        Ordering::Relaxed
    } else {
        ordering
    }
}
