//! One logical core: its queues, its memory, its models.
//!
//! A [`Core`] is a cheap handle into a [`Runtime`](crate::Runtime).

use crate::collectives::{CollectivesQueue, CollectivesStage};
use crate::compute::{ComputeQueue, ComputeStage};
use crate::error::{Error, ScheduleError};
use crate::model::LoadedModel;
use crate::payload::Element;
use crate::runtime::Inner;
use crate::shape::Shape;
use crate::tensor::{Tensor, bytes_of};
use crate::tensor_op::{TensorOpQueue, TransferStage};
use core::fmt;
use std::sync::Arc;
use xu_abi::{TpbIndex, XuId, XuType};
use xu_device::memory::DeviceMemory;
use xu_device::program::BLOCK_ALIGN;
use xu_device::{MemoryUse, Place};
use xu_model::{LoadError, Model};
use xu_worker::{Refusal, Unit};

/// A handle to one logical core.
#[derive(Clone)]
pub struct Core {
    runtime: Arc<Inner>,
    index: u32,
}

impl Core {
    /// The caller has checked that `index` exists.
    pub(crate) fn new(runtime: Arc<Inner>, index: u32) -> Self {
        Self { runtime, index }
    }

    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its physical cores, one or two, as the device counts them. Its tensors lie in the memory of the first.
    ///
    /// ```
    /// use nrta::{CoreCounter, Runtime};
    ///
    /// let runtime = Runtime::builder().open()?;
    /// let core = runtime.core(0)?;
    /// let counters = runtime.counters();
    /// for physical in core.physical_cores() {
    ///     assert_eq!(counters.counter(*physical, CoreCounter::INFER_COMPLETED)?, 0);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn physical_cores(&self) -> &[TpbIndex] {
        self.runtime.tpbs(self.index)
    }

    /// Its compute queue.
    #[must_use]
    pub fn compute(&self) -> ComputeQueue {
        ComputeQueue::new(self.clone())
    }

    /// One of its two tensor-op queues, 0 or 1.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] for any other number.
    pub fn tensor_op(&self, queue: u8) -> Result<TensorOpQueue, Error> {
        let queues = XuType::TensorOp.queues();
        if queue >= queues {
            return Err(Error::NoSuchQueue {
                kind: XuType::TensorOp,
                queue,
                queues,
            });
        }
        Ok(TensorOpQueue::new(self.clone(), queue))
    }

    /// Its queue of collectives.
    #[must_use]
    pub fn collectives(&self) -> CollectivesQueue {
        CollectivesQueue::new(self.clone())
    }

    /// Allocates a tensor of `bytes` in this core's memory. Its contents are undefined.
    ///
    /// # Errors
    /// [`Error::EmptyTensor`] for no bytes, [`Error::Device`] when memory is exhausted (with what is free),
    /// [`Error::Closed`].
    pub fn allocate(&self, bytes: u64) -> Result<Tensor, Error> {
        self.runtime.check_open()?;
        if bytes == 0 {
            return Err(Error::EmptyTensor { bytes });
        }
        let place = Place::Hbm(self.runtime.tpbs(self.index)[0]);
        let memory = DeviceMemory::allocate(self.runtime.device(), place, bytes, BLOCK_ALIGN)
            .inspect_err(|error| self.runtime.log_out_of_memory(error))?;
        Ok(Tensor::new(Arc::clone(&self.runtime), self.index, memory))
    }

    /// Allocates a tensor of elements of a type. Its contents are undefined.
    ///
    /// Give it a name before it is passed where an untyped one is wanted: in `f(&core.tensor::<f16>(&[3])?)` the compiler takes
    /// what `?` gives to be the untyped one already, and does not dereference.
    ///
    /// ```
    /// # let runtime = nrta::Runtime::builder().open()?;
    /// # let core = runtime.core(0)?;
    /// fn bytes_of(tensor: &nrta::Tensor) -> u64 {
    ///     tensor.bytes()
    /// }
    ///
    /// let tensor = core.tensor::<nrta::f16>(&[3])?;
    /// assert_eq!(bytes_of(&tensor), 6);
    /// # Ok::<(), nrta::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`]; as [`Core::allocate`].
    pub fn tensor<T: Element>(&self, shape: &[u64]) -> Result<Tensor<T>, Error> {
        self.runtime.check_open()?;
        self.tensor_of(Shape::new(shape)?)
    }

    pub(crate) fn tensor_of<T: Element>(&self, shape: Shape) -> Result<Tensor<T>, Error> {
        let raw = self.allocate(bytes_of::<T>(&shape))?;
        Ok(Tensor::of_shape(raw, shape))
    }

    /// How much of this core's memory is taken, by tensors, models and the runtime itself. Exact after every allocation and
    /// release. `None` where the device does not count, and in a forked child.
    #[must_use]
    pub fn memory(&self) -> Option<MemoryUse> {
        if !self.runtime.is_here() {
            // Another thread of the parent may hold the lock for ever.
            return None;
        }
        let place = Place::Hbm(self.runtime.tpbs(self.index)[0]);
        self.runtime.device().memory_use(place)
    }

    /// Compiles `model` for `batch` samples per execution and places it in this core's memory.
    ///
    /// Where the core has two physical cores, they share the samples of a batch.
    ///
    /// # Errors
    /// [`Error::Load`] when the batch is 0 or does not fit, [`Error::Closed`].
    pub fn load(&self, model: &Model, batch: u32) -> Result<LoadedModel, Error> {
        self.runtime.check_open()?;
        // CAST: a compute queue holds at most 63 requests.
        let slots = self.compute_unit().limit() as u32;
        let tpbs = self.runtime.tpbs(self.index);
        let programs = xu_model::load(self.runtime.device(), tpbs, slots, model, batch)
            .inspect_err(|error| {
                if let LoadError::Device { source, .. } = error {
                    self.runtime.log_out_of_memory(source);
                }
            })?;
        Ok(LoadedModel::new(self.clone(), model, batch, programs))
    }

    /// What is said before anything else of a call; `c-api.md` G0 and G1. While the runtime still closes, its queues say so.
    ///
    /// # Errors
    /// This process was forked from the one that opened the runtime, or the runtime is closed.
    pub(crate) fn check_state(&self, xu: XuId) -> Result<(), ScheduleError> {
        if !self.runtime.is_here() {
            return Err(Refusal::Forked { xu }.into());
        }
        if self.runtime.is_closed() {
            return Err(Refusal::Closed { xu }.into());
        }
        Ok(())
    }

    pub(crate) fn runtime(&self) -> &Arc<Inner> {
        &self.runtime
    }

    pub(crate) fn compute_unit(&self) -> &Unit<ComputeStage> {
        self.runtime.units(self.index).compute()
    }

    pub(crate) fn collectives_unit(&self) -> &Unit<CollectivesStage> {
        self.runtime.units(self.index).collectives()
    }

    pub(crate) fn transfer_unit(&self, queue: u8) -> &Unit<TransferStage> {
        self.runtime.units(self.index).transfer(queue)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
