//! What a unit is, said as simply as possible: a queue, a health, and who waits.
//!
//! Written from `xu.md` section 4 and not from the code. Used by `schedules`.

use crate::{Look, Staging};
use std::collections::{BTreeMap, VecDeque};
use xu_abi::Status;
use xu_worker::Health;

/// How many different wakers a schedule uses.
pub(crate) const WAKERS: usize = 4;

/// How many different eventfds a schedule uses.
pub(crate) const EVENTS: usize = 3;

const UNRECOVERABLE: Status = Status::EXEC_UNIT_UNRECOVERABLE;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Degraded(Status),
    Full,
    Closing,
    Prepare(Status),
    Commit(Status),
}

/// What the caller of a completed request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Outcome,
    Abandoned,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) result: Told,
}

/// The caller's end of a request.
#[derive(Debug, Default)]
struct Caller {
    waker: Option<usize>,
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Entry {
    id: u32,
    is_stop: bool,
}

#[derive(Debug)]
pub(crate) struct Model {
    limit: u64,
    counts_wakes: bool,
    queue: VecDeque<Entry>,
    pub(crate) next: u64,
    pub(crate) health: Health,
    /// The first fatal error, and the request that hit it.
    pub(crate) cause: Option<(Status, Option<u64>)>,
    abandoned: bool,
    head_begun: bool,
    callers: BTreeMap<u32, Caller>,
    /// The waker that each ticket has stored.
    room: [Option<usize>; 2],
    /// When each ticket was first used since it was last given back.
    since: [Option<u64>; 2],
    tickets_used: u64,
    pub(crate) woken: Vec<usize>,
    /// The eventfds of sequence numbers, and of the unit.
    registered: BTreeMap<u64, usize>,
    unit_event: Option<usize>,
    /// Counts that each eventfd has got.
    pub(crate) told: [u64; EVENTS],
    pub(crate) finished: Vec<(u32, Status)>,
    pub(crate) begun: usize,
    pub(crate) quiesced: usize,
    pub(crate) bell: u64,
    asleep: bool,
}

impl Model {
    pub(crate) fn new(limit: u64, counts_wakes: bool) -> Self {
        Self {
            limit,
            counts_wakes,
            queue: VecDeque::new(),
            next: 1,
            health: Health::Healthy,
            cause: None,
            abandoned: false,
            head_begun: false,
            callers: BTreeMap::new(),
            room: [None; 2],
            since: [None; 2],
            tickets_used: 0,
            woken: vec![0; WAKERS],
            registered: BTreeMap::new(),
            unit_event: None,
            told: [0; EVENTS],
            finished: Vec::new(),
            begun: 0,
            quiesced: 0,
            bell: 0,
            asleep: true,
        }
    }

    pub(crate) fn depth(&self) -> u64 {
        self.queue.len() as u64
    }

    pub(crate) fn completed(&self) -> u64 {
        self.next - 1 - self.depth()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.health == Health::Degraded || self.depth() < self.limit
    }

    pub(crate) fn drain_now(&self) -> Result<(), u64> {
        if self.abandoned || self.queue.is_empty() {
            Ok(())
        } else {
            Err(self.depth())
        }
    }

    /// How a request whose caller still asks has ended.
    pub(crate) fn result(&self, id: u32) -> Option<Ended> {
        self.callers[&id].ended
    }

    pub(crate) fn stored_for_room(&self) -> usize {
        self.room.iter().flatten().count()
    }

    // ---- Submitting ----

    pub(crate) fn submit(
        &mut self,
        id: u32,
        staging: Staging,
        is_asked: bool,
    ) -> Result<u64, Reason> {
        let accepted = self.accept(id, staging);
        match accepted {
            Ok(_) => {
                if is_asked {
                    self.callers.insert(id, Caller::default());
                }
                self.ring(1);
            }
            Err(_) => self.tell_if_degraded(),
        }
        accepted
    }

    /// The last number that was accepted, and which one was refused, and why.
    pub(crate) fn post_batch(
        &mut self,
        ids: &[u32],
        last: Staging,
    ) -> (Option<u64>, Option<(usize, Reason)>) {
        let (mut accepted, mut refused, mut count) = (None, None, 0);
        for (index, id) in ids.iter().enumerate() {
            let is_last = index + 1 == ids.len();
            match self.accept(*id, if is_last { last } else { Staging::Works }) {
                Ok(number) => {
                    accepted = Some(number);
                    count += 1;
                }
                Err(reason) => {
                    refused = Some((index, reason));
                    break;
                }
            }
        }
        if count > 0 {
            self.ring(count);
        }
        self.tell_if_degraded();
        (accepted, refused)
    }

    fn accept(&mut self, id: u32, staging: Staging) -> Result<u64, Reason> {
        if self.health == Health::Degraded {
            return Err(Reason::Degraded(
                self.cause.expect("a degraded unit has a cause").0,
            ));
        }
        if self.depth() >= self.limit {
            return Err(Reason::Full);
        }
        if self.health == Health::Closing {
            return Err(Reason::Closing);
        }
        match staging {
            Staging::Works => Ok(self.push(id, false)),
            Staging::PrepareFails => Err(Reason::Prepare(Status::RESOURCE)),
            Staging::CommitFails => {
                self.degrade(Status::HW_ERROR, None);
                Err(Reason::Commit(Status::HW_ERROR))
            }
        }
    }

    fn push(&mut self, id: u32, is_stop: bool) -> u64 {
        self.queue.push_back(Entry { id, is_stop });
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn schedule_stop(&mut self, id: u32) -> Result<u64, Reason> {
        if self.abandoned {
            self.tell_if_degraded();
            let degraded = |(status, _)| Reason::Degraded(status);
            return Err(self.cause.map_or(Reason::Closing, degraded));
        }
        if self.depth() >= self.limit {
            self.tell_if_degraded();
            return Err(Reason::Full);
        }
        self.callers.insert(id, Caller::default());
        let number = self.push(id, true);
        self.ring(1);
        self.tell_if_degraded();
        Ok(number)
    }

    fn ring(&mut self, requests: u64) {
        if self.counts_wakes {
            self.bell += requests;
        } else if core::mem::take(&mut self.asleep) {
            self.bell += 1;
        }
    }

    pub(crate) fn announce_sleep(&mut self) {
        self.asleep = true;
    }

    pub(crate) fn answer_bell(&mut self) {
        self.bell = self.bell.saturating_sub(1);
    }

    // ---- The worker ----

    /// Whether a step would look at a request that runs.
    pub(crate) fn will_look(&self) -> bool {
        let runs = self.queue.front().is_some_and(|head| !head.is_stop);
        runs && self.health != Health::Degraded && !self.abandoned
    }

    /// `None`: there was nothing to do; else whether a request completed.
    pub(crate) fn step(&mut self, look: Look) -> Option<bool> {
        if self.abandoned {
            self.clear();
            return None;
        }
        let is_stop = self.queue.front()?.is_stop;
        if self.health == Health::Degraded {
            self.complete(UNRECOVERABLE, Told::Outcome);
        } else if is_stop {
            self.stop(look);
        } else {
            self.begun += usize::from(!core::mem::replace(&mut self.head_begun, true));
            return Some(self.look(look));
        }
        Some(true)
    }

    fn stop(&mut self, look: Look) {
        self.quiesced += 1;
        match look {
            Look::Fatal(status) => self.fail(status),
            _ => self.complete(Status::SUCCESS, Told::Outcome),
        }
    }

    fn look(&mut self, look: Look) -> bool {
        match look {
            Look::Running => return false,
            Look::Done(status) => self.complete(status, Told::Outcome),
            Look::Fatal(status) => self.fail(status),
            Look::Panics => self.fail(Status::FAILURE),
            Look::FinishPanics(status) => {
                self.degrade(Status::FAILURE, Some(self.completed() + 1));
                self.complete(status, Told::Abandoned);
            }
        }
        true
    }

    fn fail(&mut self, status: Status) {
        self.degrade(status, Some(self.completed() + 1));
        self.complete(status, Told::Outcome);
    }

    /// The request at the head: status, then visible, then its caller is told.
    fn complete(&mut self, status: Status, result: Told) {
        let entry = self.queue.pop_front().expect("there is a head");
        self.head_begun = false;
        if self.counts_wakes {
            self.bell = self.bell.saturating_sub(1);
        }
        if !entry.is_stop {
            self.finished.push((entry.id, status));
        }
        let told = self.registered.remove(&self.completed());
        let unit_event = self.unit_event.filter(|_| !entry.is_stop);
        for event in told.into_iter().chain(unit_event) {
            self.told[event] += 1;
        }
        if self.depth() == 0 || self.health != Health::Healthy {
            self.wake_room();
        } else {
            self.wake_oldest();
        }
        if let Some(caller) = self.callers.get_mut(&entry.id) {
            caller.ended = Some(Ended { status, result });
            if let Some(waker) = caller.waker.take() {
                self.woken[waker] += 1;
            }
        }
    }

    fn clear(&mut self) {
        while !self.queue.is_empty() {
            self.complete(UNRECOVERABLE, Told::Outcome);
        }
        self.bell = 0;
        self.wake_room();
    }

    pub(crate) fn give_up(&mut self) {
        self.degrade(Status::FAILURE, None);
        self.abandoned = true;
        self.clear();
    }

    pub(crate) fn drop_runner(&mut self) {
        if self.health == Health::Healthy {
            self.degrade(Status::FAILURE, None);
        }
        self.abandoned = true;
        self.clear();
    }

    // ---- Health ----

    pub(crate) fn close(&mut self) {
        self.health = self.health.max(Health::Closing);
        self.wake_room();
    }

    fn degrade(&mut self, status: Status, number: Option<u64>) {
        self.cause.get_or_insert((status, number));
        self.health = Health::Degraded;
    }

    fn tell_if_degraded(&mut self) {
        if self.health == Health::Degraded {
            self.wake_room();
        }
    }

    // ---- Whoever waits ----

    /// `None` while it is pending.
    pub(crate) fn poll(&mut self, id: u32, waker: usize) -> Option<Told> {
        let taken = self.take(id);
        if taken.is_none() {
            self.callers.get_mut(&id).expect("polled").waker = Some(waker);
        }
        taken
    }

    pub(crate) fn take(&mut self, id: u32) -> Option<Told> {
        let ended = self.callers[&id].ended?;
        self.callers.remove(&id);
        Some(ended.result)
    }

    pub(crate) fn drop_completion(&mut self, id: u32) {
        self.callers.remove(&id);
    }

    /// Whether there is room, so that nobody has to wait.
    pub(crate) fn poll_room(&mut self, ticket: usize, waker: usize) -> bool {
        if !self.has_room() {
            self.room[ticket] = Some(waker);
            self.tickets_used += 1;
            self.since[ticket].get_or_insert(self.tickets_used);
        }
        self.has_room()
    }

    /// `None`: there is no such request. Else whether it was signalled at once.
    pub(crate) fn register(&mut self, number: u64, event: usize) -> Option<bool> {
        if number == 0 || number >= self.next {
            return None;
        }
        let signalled = number <= self.completed();
        if signalled {
            self.told[event] += 1;
        } else {
            self.registered.insert(number, event);
        }
        Some(signalled)
    }

    pub(crate) fn register_unit(&mut self, event: usize) {
        self.unit_event = Some(event);
    }

    /// As [`Model::register`]; whether there was something to take out.
    pub(crate) fn deregister(&mut self, number: u64) -> Option<bool> {
        let exists = number != 0 && number < self.next;
        exists.then(|| self.registered.remove(&number).is_some())
    }

    pub(crate) fn deregister_unit(&mut self) -> bool {
        self.unit_event.take().is_some()
    }

    pub(crate) fn leave_room(&mut self, ticket: usize) {
        (self.room[ticket], self.since[ticket]) = (None, None);
        if self.has_room() {
            self.wake_oldest();
        }
    }

    /// One of those who wait for room.
    fn wake_oldest(&mut self) {
        let waiting = (0..self.room.len()).filter(|ticket| self.room[*ticket].is_some());
        let oldest = waiting.min_by_key(|ticket| self.since[*ticket]);
        if let Some(waker) = oldest.and_then(|ticket| self.room[ticket].take()) {
            self.woken[waker] += 1;
        }
    }

    fn wake_room(&mut self) {
        for waker in self.room.iter_mut().filter_map(Option::take) {
            self.woken[waker] += 1;
        }
    }
}
