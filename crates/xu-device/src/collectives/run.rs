//! One rank's way through a collective: from its own work to a barrier, six times.
//!
//! Owned by [`CollectiveDma`](super::CollectiveDma), which steps it. The stages are those of the picture in
//! [`collectives`](super); each stage of work is a series of operations for the rank's
//! [`TensorDma`], which [`Run::operation`] makes one by one.

use super::agreement;
use super::communicator::{BARRIERS, Barrier, Late, Loss, Lost};
use super::outcome::{CollectiveError, Progress};
use super::plan::{Collective, Offer, Plan};
use crate::region::Region;
use crate::tensor_op::{self, HostBytes, InvalidOperation, Operation, TensorDma};
use core::mem;
use std::sync::Arc;

/// A collective under way.
#[derive(Debug)]
pub(super) struct Run {
    plan: Plan,
    /// This rank's count when it began.
    base: u64,
    stage: Stage,
    /// Which operation of the stage comes next, or is under way.
    next: usize,
    moving: bool,
    wait: Option<Wait>,
    /// Nothing is done, but nobody leaves before all know: the ranks do not agree, or one has withdrawn.
    refusal: Option<CollectiveError>,
    /// This rank has left its seat: nobody waits for it because of this collective.
    settled: bool,
    outcome: Option<Progress>,
}

/// Where a rank is. Work and barriers alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Save,
    Meet,
    First,
    Swap,
    Second,
    Part,
}

/// A wait at a barrier.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since_ns: u64,
    /// How long it may last until the next warning, nanoseconds.
    patience_ns: u64,
}

impl Run {
    /// Of a rank whose seat has been occupied for it.
    pub(super) fn new(mut plan: Plan) -> Self {
        // From here on the run tells the others.
        plan.promised = false;
        Self {
            base: plan.rank.seat().reached(),
            plan,
            stage: Stage::Save,
            next: 0,
            moving: false,
            wait: None,
            refusal: None,
            settled: false,
            outcome: None,
        }
    }

    /// One look. Once it is over, always the same answer.
    pub(super) fn step(&mut self, dma: &mut TensorDma, now_ns: u64) -> Progress {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let progress = match self.advance(dma, now_ns) {
            Ok(progress) => progress,
            Err(error) => self.fail(error),
        };
        if self.settled {
            self.outcome = Some(progress.clone());
        }
        progress
    }

    /// Goes on until there is something to wait for, or a chunk has been looked at.
    fn advance(&mut self, dma: &mut TensorDma, now_ns: u64) -> Result<Progress, CollectiveError> {
        loop {
            match self.stage {
                Stage::Save | Stage::First | Stage::Second => match self.work(dma, now_ns) {
                    Ok(true) => self.arrive(),
                    Ok(false) => return Ok(Progress::Continue),
                    Err(error) if self.may_withdraw(&error) => self.withdraw(error),
                    Err(error) => return Err(error),
                },
                Stage::Meet | Stage::Swap | Stage::Part => {
                    if let Some(waiting) = self.look(now_ns)? {
                        return Ok(waiting);
                    }
                    if self.stage == Stage::Part {
                        return Ok(self.depart());
                    }
                    self.pass()?;
                }
            }
        }
    }

    /// One chunk of the stage's operations; true when there are no more.
    fn work(&mut self, dma: &mut TensorDma, now_ns: u64) -> Result<bool, CollectiveError> {
        if !self.moving {
            // Nobody leaves before all have parted, so a loss now means that this cannot be completed.
            if let Some(lost) = self.plan.rank.table().lost() {
                return Err(lost.into());
            }
            let Some(operation) = self.operation()? else {
                return Ok(true);
            };
            dma.begin(operation)?;
            self.moving = true;
        }
        match dma.step(now_ns, HostBytes::None) {
            tensor_op::Progress::Continue => {}
            tensor_op::Progress::Done => {
                let sources = dma.take_done().map(Operation::into_sources);
                if let Some(sources) = sources.filter(|sources| !sources.is_empty()) {
                    self.plan.sources = sources;
                }
                self.moving = false;
                self.next += 1;
            }
            tensor_op::Progress::Refused(error) | tensor_op::Progress::Fatal(error) => {
                return Err(error.into());
            }
        }
        Ok(false)
    }

    /// The work of the stage is done: the others may rely on it.
    fn arrive(&mut self) {
        let seat = self.plan.rank.seat();
        (self.stage, self.next) = match self.stage {
            Stage::Save | Stage::Meet => {
                seat.show(Arc::clone(&self.plan.offer));
                seat.reach(self.base + 1);
                (Stage::Meet, 0)
            }
            Stage::First | Stage::Swap => {
                seat.reach(self.base + 2);
                (Stage::Swap, 0)
            }
            Stage::Second | Stage::Part => {
                seat.reach(self.base + BARRIERS);
                (Stage::Part, 0)
            }
        };
    }

    /// Whether all have reached the barrier: `None` then, else what to tell the owner.
    fn look(&mut self, now_ns: u64) -> Result<Option<Progress>, CollectiveError> {
        let table = self.plan.rank.table();
        // Nobody else writes this rank's count: it is the barrier where it stands.
        match table.look(self.plan.rank.seat().reached()) {
            Barrier::Passed => {
                self.wait = None;
                Ok(None)
            }
            Barrier::Lost(lost) => Err(lost.into()),
            Barrier::Missing { first, count } => {
                let wait = self.wait.get_or_insert(Wait {
                    since_ns: now_ns,
                    patience_ns: table.warn_after_ns(),
                });
                let waited_ns = now_ns.saturating_sub(wait.since_ns);
                if waited_ns < wait.patience_ns {
                    return Ok(Some(Progress::Continue));
                }
                wait.patience_ns = wait.patience_ns.saturating_mul(2);
                Ok(Some(Progress::Late(Late {
                    waited_ns,
                    missing: count,
                    first_missing: first,
                })))
            }
        }
    }

    /// From a barrier to the work behind it.
    fn pass(&mut self) -> Result<(), CollectiveError> {
        if self.stage == Stage::Swap {
            self.stage = Stage::Second;
            return Ok(());
        }
        let table = self.plan.rank.table();
        if !table.offers(&mut self.plan.peers) {
            // Whoever takes back an offer has ended the communicator before.
            let gone = Lost {
                rank: self.plan.rank.index(),
                loss: Loss::GaveUp,
            };
            return Err(table.lost().unwrap_or(gone).into());
        }
        match self.agree() {
            Ok(()) => self.stage = Stage::First,
            Err(refusal) => {
                // This rank's own error, if it has one, says more.
                self.refusal.get_or_insert(refusal);
                self.stage = Stage::Part;
                self.arrive();
            }
        }
        Ok(())
    }

    /// Whether the collective takes place. Every rank comes to the same answer.
    fn agree(&self) -> Result<(), CollectiveError> {
        match agreement::withdrawn(&self.plan.peers) {
            Some(withdrawn) => Err(withdrawn.into()),
            None => Ok(agreement::check(&self.plan.peers)?),
        }
    }

    /// All have read what is read.
    fn depart(&mut self) -> Progress {
        self.settle();
        match self.refusal.take() {
            None => Progress::Done,
            Some(refusal) => Progress::Refused(refusal),
        }
    }

    /// Whether the error is this rank's alone. Before the meeting it has written to its own scratch memory only.
    fn may_withdraw(&self, error: &CollectiveError) -> bool {
        let refused = matches!(error, CollectiveError::Own(own) if own.is_refusal());
        self.stage == Stage::Save && refused
    }

    /// Comes to the meeting without taking part. Staying away would have the others meet this rank's next collective.
    fn withdraw(&mut self, error: CollectiveError) {
        // Nobody has seen the offer yet, and this is said once.
        let _ = self.plan.offer.withdrawn.set(error.status());
        self.refusal = Some(error);
        self.arrive();
    }

    /// Ends this rank's part in the collective with an error, and the communicator.
    fn fail(&mut self, error: CollectiveError) -> Progress {
        // The loss comes first: whoever finds the offer gone, or the seat free, finds out why.
        let loss = Loss::Failed(error.status());
        self.plan.rank.table().lose(self.plan.rank.index(), loss);
        self.settle();
        Progress::Fatal(error)
    }

    /// Ends it without an outcome, unless it has one.
    pub(super) fn give_up(&mut self) {
        if !self.settled {
            let rank = &self.plan.rank;
            rank.table().lose(rank.index(), Loss::GaveUp);
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.settled = true;
        self.plan.rank.seat().vacate();
    }

    /// The operation that comes next in this stage.
    fn operation(&mut self) -> Result<Option<Operation>, InvalidOperation> {
        let collective = self.plan.offer.collective;
        match (self.stage, collective) {
            (Stage::Save, Collective::AllGather)
            | (Stage::Second, Collective::ReduceScatter(_)) => self.detour(),
            (Stage::First, Collective::AllGather) => self.gather_input(),
            (Stage::First, Collective::AllReduce(_) | Collective::ReduceScatter(_)) => {
                self.reduce_own_shard()
            }
            (Stage::Second, Collective::AllReduce(_)) => self.gather_shard(),
            _ => Ok(None),
        }
    }

    /// To or from scratch, where there is any.
    fn detour(&mut self) -> Result<Option<Operation>, InvalidOperation> {
        let parts = &self.plan.offer.parts;
        while let Some(part) = parts.get(self.next) {
            if let Some((from, to)) = part.detour {
                return Operation::copy(from, to).map(Some);
            }
            self.next += 1;
        }
        Ok(None)
    }

    /// The input of one rank, to its place in this rank's output.
    fn gather_input(&self) -> Result<Option<Operation>, InvalidOperation> {
        let Some((part, from)) = self.part_and_rank() else {
            return Ok(None);
        };
        // PANIC: all plans have the same parts, and as many shards as there are ranks; here and below.
        let input = self.plan.peers[from].parts[part].inputs[0];
        let output = self.plan.offer.parts[part].outputs[from];
        Operation::copy_across(input, output).map(Some)
    }

    /// The shard that another rank has reduced, to its place in this rank's output.
    fn gather_shard(&mut self) -> Result<Option<Operation>, InvalidOperation> {
        let Some((part, from)) = self.part_and_rank() else {
            return Ok(None);
        };
        let theirs = self.plan.peers[from].parts[part].outputs[from];
        let ours = self.plan.offer.parts[part].outputs[from];
        // The own shard is the same range twice: nothing to do.
        Operation::copy_across(theirs, ours).map(Some)
    }

    /// This rank's shard of all inputs, combined in the order of the ranks.
    fn reduce_own_shard(&mut self) -> Result<Option<Operation>, InvalidOperation> {
        let plan = &mut self.plan;
        let (Some(part), Some(op)) = (
            plan.offer.parts.get(self.next),
            plan.offer.collective.reduction(),
        ) else {
            return Ok(None);
        };
        let own = plan.rank.index() as usize;
        let output = match plan.offer.collective {
            Collective::ReduceScatter(_) => part.outputs[0],
            Collective::AllReduce(_) | Collective::AllGather => part.outputs[own],
        };
        let shard = |peer: &Arc<Offer>| -> Region { peer.parts[self.next].inputs[own] };
        if let [only] = plan.peers.as_slice() {
            return Operation::copy_across(shard(only), output).map(Some);
        }
        let mut sources = mem::take(&mut plan.sources);
        sources.clear();
        sources.extend(plan.peers.iter().map(shard));
        let dtype = plan.offer.dtype;
        let elements = output.bytes() / dtype.bytes() as u64;
        Operation::compute_across(op, dtype, sources, output, elements).map(Some)
    }

    /// The part and the rank to gather from next. Ranks begin with themselves, so that not all read from the same one.
    fn part_and_rank(&self) -> Option<(usize, usize)> {
        let ranks = self.plan.peers.len();
        let (part, turn) = (self.next / ranks, self.next % ranks);
        let from = (self.plan.rank.index() as usize + turn) % ranks;
        (part < self.plan.offer.parts.len()).then_some((part, from))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.give_up();
    }
}
