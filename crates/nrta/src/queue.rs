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
        }
    };
}
pub(crate) use queue_methods;
