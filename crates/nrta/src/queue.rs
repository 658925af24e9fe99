//! What every queue of a core can be asked, whatever it does.
//!
//! The methods are the same on [`ComputeQueue`](crate::ComputeQueue) and
//! [`TensorOpQueue`](crate::TensorOpQueue); spec: `c-api.md` sections 5.2 and 5.3.

/// Adds the common methods to a queue handle that has `fn unit(&self) -> &Unit<_>`.
macro_rules! queue_methods {
    ($queue:ty) => {
        impl $queue {
            /// The queue's id.
            #[must_use]
            pub fn xu(&self) -> xu_abi::XuId {
                self.unit().xu()
            }

            /// Requests that are accepted and not complete, the running one included.
            #[must_use]
            pub fn depth(&self) -> u64 {
                self.unit().depth()
            }

            /// Most requests that may be accepted and not complete.
            #[must_use]
            pub fn limit(&self) -> u64 {
                self.unit().limit()
            }

            /// Whether this queue takes work.
            #[must_use]
            pub fn health(&self) -> xu_worker::Health {
                self.unit().health()
            }

            /// The first fatal error, once this queue is degraded.
            #[must_use]
            pub fn cause(&self) -> Option<xu_worker::Cause> {
                self.unit().cause()
            }

            /// The most recently completed request; number 0 when there is none.
            #[must_use]
            pub fn last_completed(&self) -> xu_abi::SeqId {
                self.unit().last_completed()
            }

            /// Whether a request of this queue is complete.
            ///
            /// # Errors
            /// [`NeverIssued`](crate::NeverIssued) when `seq` was never issued by this queue.
            pub fn is_completed(&self, seq: xu_abi::SeqId) -> Result<bool, crate::NeverIssued> {
                self.unit().is_completed(seq)
            }

            /// A future that resolves when the queue has room, or will refuse for good.
            ///
            /// Others may take the room first: schedule, and wait again when the queue is full.
            pub fn room(&self) -> impl Future<Output = ()> + '_ {
                self.unit().room()
            }

            /// Blocks until the queue has room, or will refuse for good.
            pub fn wait_room(&self) {
                // Without a deadline the answer is always yes.
                let _ = self.unit().wait_room(None);
            }

            /// A place in this queue, if there is room now. Never blocks.
            ///
            /// # Errors
            /// [`ScheduleError`](crate::ScheduleError): the queue is full, which is not counted as a refused request; or it
            /// takes no request any more.
            pub fn try_reserve(&self) -> Result<crate::Place<Self>, crate::ScheduleError> {
                crate::Place::now(self)
            }

            /// A future of a place in this queue: waits while the queue is full, without polling.
            ///
            /// Dropping it at any time leaves nothing behind.
            ///
            /// # Errors
            /// [`ScheduleError`](crate::ScheduleError): the queue takes no request any more.
            pub fn reserve(
                &self,
            ) -> impl Future<Output = Result<crate::Place<Self>, crate::ScheduleError>> + use<>
            {
                crate::Place::when_room(self)
            }

            /// Blocks until there is a place in this queue, or `deadline` has passed, which asks once; `None` waits for ever.
            ///
            /// # Errors
            /// [`ScheduleError`](crate::ScheduleError): the queue is full at the deadline; this is a worker's thread, which
            /// would wait for itself, and the queue is full; or the queue takes no request any more.
            pub fn reserve_until(
                &self,
                deadline: Option<std::time::Instant>,
            ) -> Result<crate::Place<Self>, crate::ScheduleError> {
                crate::Place::until(self, deadline)
            }

            /// Places of this queue that are reserved.
            #[must_use]
            pub fn reserved(&self) -> u64 {
                self.unit().reserved()
            }

            /// The most recently accepted request; number 0 when there is none.
            #[must_use]
            pub fn last_issued(&self) -> xu_abi::SeqId {
                self.unit().newest_issued()
            }

            /// Blocks until the request of a sequence, and so all before it on this queue, is complete, whatever its status.
            ///
            /// To wait for a batch, wait for its last sequence. A deadline that has passed asks once; `None` waits for ever.
            ///
            /// # Errors
            /// [`WaitError`](crate::WaitError).
            pub fn wait(
                &self,
                seq: xu_abi::SeqId,
                deadline: Option<std::time::Instant>,
            ) -> Result<(), crate::WaitError> {
                crate::WaitError::from_waited(seq, self.unit().wait(seq, deadline)?)
            }

            /// As [`wait`](Self::wait), for a task and without a deadline. Any number of tasks may wait for one sequence.
            pub fn wait_for(&self, seq: xu_abi::SeqId) -> crate::WaitFor {
                crate::WaitFor::new(self.lane(), seq)
            }

            /// The progress of this queue from now on, as a stream.
            pub fn completions(&self) -> crate::Completions {
                crate::Completions::new(self.lane())
            }

            /// The changes of this queue's health, as a stream. Not being healthy now is the first of them.
            pub fn watch(&self) -> crate::HealthWatch {
                crate::HealthWatch::new(self.lane())
            }

            /// Writes 1 to an eventfd when the request of a sequence is complete; at once, on this thread, when it is
            /// already. Replaces the earlier event of the sequence. The rules are in [`events`](crate::events).
            ///
            /// # Errors
            /// [`EventError`](crate::EventError).
            pub fn notify(
                &self,
                seq: xu_abi::SeqId,
                fd: impl std::os::fd::AsFd,
            ) -> Result<crate::Registered, crate::EventError> {
                let event = xu_worker::AppEvent::new(fd)?;
                Ok(self.unit().register_event(seq, event)?)
            }

            /// Ends what [`notify`](Self::notify) has begun: when this returns, nothing is written any more. `false` when
            /// nothing is registered: it never was, or the sequence is complete.
            ///
            /// # Errors
            /// [`EventError`](crate::EventError): the sequence was never issued.
            pub fn stop_notify(&self, seq: xu_abi::SeqId) -> Result<bool, crate::EventError> {
                Ok(self.unit().deregister_event(seq)?)
            }

            /// Writes 1 to an eventfd for each request that completes from now on. Replaces the earlier event of the queue.
            /// The rules are in [`events`](crate::events).
            ///
            /// # Errors
            /// [`EventError`](crate::EventError).
            pub fn notify_each(&self, fd: impl std::os::fd::AsFd) -> Result<(), crate::EventError> {
                let event = xu_worker::AppEvent::new(fd)?;
                Ok(self.unit().register_unit_event(event)?)
            }

            /// Ends what [`notify_each`](Self::notify_each) has begun: when this returns, nothing is written any more.
            /// `false` when nothing is registered.
            ///
            /// # Errors
            /// [`EventError`](crate::EventError): this process was forked from the runtime's.
            pub fn stop_notify_each(&self) -> Result<bool, crate::EventError> {
                Ok(self.unit().deregister_unit_event()?)
            }

            /// As [`notify`](Self::notify), until what is returned is dropped.
            ///
            /// # Errors
            /// [`EventError`](crate::EventError).
            pub fn subscribe(
                &self,
                seq: xu_abi::SeqId,
                fd: impl std::os::fd::AsFd,
            ) -> Result<crate::Subscription, crate::EventError> {
                crate::Subscription::to_sequence(self.lane(), seq, fd)
            }

            /// As [`notify_each`](Self::notify_each), until what is returned is dropped.
            ///
            /// # Errors
            /// [`EventError`](crate::EventError).
            pub fn subscribe_each(
                &self,
                fd: impl std::os::fd::AsFd,
            ) -> Result<crate::Subscription, crate::EventError> {
                crate::Subscription::to_queue(self.lane(), fd)
            }

            /// Counts this queue's completions from now on, in the reactor of the tokio runtime that this is called in.
            ///
            /// # Errors
            /// [`CounterError`](crate::reactor::CounterError).
            #[cfg(feature = "tokio")]
            pub fn completion_counter(
                &self,
            ) -> Result<crate::reactor::CompletionCounter, crate::reactor::CounterError> {
                crate::reactor::CompletionCounter::new(self.lane())
            }

            /// Notifications that no application got, because its eventfd was full or broken.
            #[must_use]
            pub fn lost_notifications(&self) -> u64 {
                self.unit().lost_notifications()
            }

            /// Everything that can be asked of this queue, at one moment. Takes no lock; for monitoring.
            #[must_use]
            pub fn snapshot(&self) -> crate::QueueSnapshot {
                self.unit().snapshot()
            }

            /// Measures the requests that are accepted from now on, or measures no more: how long they take, and how old the
            /// oldest is, for [`snapshot`](Self::snapshot). Off at first, because it costs two looks at the clock for each
            /// request.
            pub fn measure(&self, on: bool) {
                self.unit().measure(on);
            }

            fn lane(&self) -> crate::lane::Lane {
                std::sync::Arc::new(self.clone())
            }
        }

        impl crate::lane::Queue for $queue {
            fn any_unit(&self) -> &dyn crate::lane::AnyUnit {
                self.unit()
            }
        }
    };
}
pub(crate) use queue_methods;

/// Adds scheduling of prepared requests to a queue, its places and its batches. `schedule_methods!(Queue, [generics] returned)`.
macro_rules! schedule_methods {
    ($queue:ident, [$($generics:tt)*] $returned:ty) => {
        impl $queue {
            /// Schedules a prepared request. Never blocks.
            ///
            /// # Errors
            /// [`Refused`](crate::Refused), with the request: it was prepared for another core or runtime, or the queue takes
            /// no request now.
            pub fn schedule<$($generics)*>(
                &self,
                request: crate::Request<$returned>,
            ) -> Result<crate::Pending<$returned>, crate::Refused<crate::Request<$returned>>> {
                let unit = self.unit();
                let scheduled = request.schedule(&self.core, unit.xu(), |item| unit.submit(item));
                crate::batch::counted(self, scheduled)
            }

            /// As [`schedule`](Self::schedule), but waits for a place while the queue is full.
            ///
            /// # Errors
            /// As [`schedule`](Self::schedule), except that the queue is full.
            pub async fn schedule_when_room<$($generics)*>(
                &self,
                request: crate::Request<$returned>,
            ) -> Result<crate::Pending<$returned>, crate::Refused<crate::Request<$returned>>> {
                // Not after a wait.
                if let Err(reason) = request.check(&self.core, self.xu()) {
                    return Err(crate::Refused::new(reason, request));
                }
                match self.reserve().await {
                    Ok(place) => place.schedule(request),
                    Err(reason) => Err(crate::Refused::new(reason, request)),
                }
            }

            /// Schedules several prepared requests under one lock and wakes the worker once: see [`batch`](crate::batch).
            /// Their sequences follow one another. Never blocks.
            ///
            /// # Errors
            /// [`RefusedBatch`](crate::RefusedBatch): what was accepted stays accepted, the rest comes back. Nothing is
            /// accepted when one of them was prepared for another core or runtime.
            pub fn schedule_all<$($generics)*>(
                &self,
                requests: impl IntoIterator<Item = crate::Request<$returned>>,
            ) -> Result<Vec<crate::Pending<$returned>>, crate::RefusedBatch<$returned>> {
                crate::batch::schedule_all(self, requests.into_iter().collect())
            }

            /// Begins a batch: what it takes runs when it is published. See [`batch`](crate::batch).
            pub fn batch(&self) -> crate::Batch<'_, Self> {
                crate::Batch::new(self)
            }
        }

        impl crate::Place<$queue> {
            /// Schedules a prepared request in this place. Never blocks, and never finds the queue full.
            ///
            /// # Errors
            /// [`Refused`](crate::Refused), with the request: it was prepared for another core or runtime, or the queue takes
            /// no request any more. The place is given back.
            pub fn schedule<$($generics)*>(
                self,
                request: crate::Request<$returned>,
            ) -> Result<crate::Pending<$returned>, crate::Refused<crate::Request<$returned>>> {
                match request.check(&self.queue().core, self.xu()) {
                    Ok(()) => request.hand_over(|item| self.into_reservation().submit(item)),
                    Err(reason) => Err(crate::Refused::new(reason, request)),
                }
            }
        }

        impl crate::Batch<'_, $queue> {
            /// Adds a prepared request. Never blocks.
            ///
            /// # Errors
            /// [`Refused`](crate::Refused), with the request, as for the queue itself. What the batch has accepted stays
            /// accepted.
            pub fn schedule<$($generics)*>(
                &mut self,
                request: crate::Request<$returned>,
            ) -> Result<crate::Pending<$returned>, crate::Refused<crate::Request<$returned>>> {
                self.add(request)
            }
        }
    };
}
pub(crate) use schedule_methods;
