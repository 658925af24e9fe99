//! Tensors in device memory: handles, storage, and the checks that every use makes.
//!
//! ```text
//!   Tensor<f32> ── shape
//!       │ derefs to
//!   Tensor ── a range of ── Storage ── memory of the device
//!                              ▲
//!                              └── every request that uses it
//! ```
//!
//! A [`Tensor`] is a handle, the memory behind it is shared with every request that uses it. Freeing a
//! handle therefore never pulls memory from under a request: it goes when its last user does.
//!
//! `Tensor` alone is a range of bytes, as requests and the C ABI see it. `Tensor<f32>` is the same with a type and a
//! [`Shape`]; it can be used wherever the untyped one can.

use crate::error::{Error, ScheduleError};
use crate::payload::Element;
use crate::runtime::Inner;
use crate::shape::Shape;
use core::fmt;
use core::ops::{Deref, RangeBounds};
use parking_lot::Mutex;
use sealed::{Handle, Typed};
use std::ops::Bound;
use std::sync::Arc;
use xu_abi::DeviceAddr;
use xu_device::memory::DeviceMemory;
use xu_device::region::Region;
use xu_worker::here_only::HereOnly;

/// A piece of one core's device memory. Clones are handles to the same bytes.
///
/// `T` is the type of its elements, or [`Untyped`] for bytes that nobody has given a type. A typed tensor dereferences to
/// the untyped one, so that `&tensor` fits either.
///
/// Contents are undefined until written.
pub struct Tensor<T: Kind = Untyped> {
    form: T::Form,
}

/// Stands for the type of elements where a tensor has none.
#[derive(Clone, Copy, Debug)]
pub enum Untyped {}

/// What a tensor can be of: an [`Element`], or [`Untyped`]. Sealed.
pub trait Kind: sealed::Form {}

impl Kind for Untyped {}
impl<T: Element> Kind for T {}

mod sealed {
    use super::{Element, Inner, Shape, Storage, Tensor, Untyped};
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// What a tensor of this kind consists of.
    pub trait Form {
        type Form: Clone;
    }

    impl Form for Untyped {
        type Form = Arc<Handle>;
    }

    impl<T: Element> Form for T {
        type Form = Typed;
    }

    /// What the clones of an untyped tensor share.
    #[derive(Debug)]
    pub struct Handle {
        pub(super) core: u32,
        pub(super) bytes: u64,
        /// `None` once freed.
        pub(super) storage: Mutex<Option<Arc<Storage>>>,
        /// Tells runtimes apart, and keeps the device's owner alive.
        pub(super) runtime: Arc<Inner>,
    }

    /// A typed tensor: as many bytes as its shape has.
    #[derive(Clone, Debug)]
    pub struct Typed {
        pub(super) raw: Tensor,
        pub(super) shape: Shape,
    }
}

/// A range of device memory. Requests hold it while they use it.
#[derive(Debug)]
pub struct Storage {
    memory: Arc<HereOnly<DeviceMemory>>,
    offset: u64,
    bytes: u64,
}

impl Storage {
    pub(crate) fn addr(&self, offset: u64) -> DeviceAddr {
        self.memory.at(self.offset + offset)
    }

    /// All of it.
    pub(crate) fn region(&self) -> Region {
        let memory = Region::of(&self.memory);
        // The range was checked when it was made.
        memory.slice(self.offset, self.bytes).unwrap_or(memory)
    }

    /// Whether `bytes` at `offset` lie inside, without overflow.
    fn check(offset: u64, bytes: u64, size: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= size)
    }
}

impl Tensor {
    pub(crate) fn new(runtime: Arc<Inner>, core: u32, memory: DeviceMemory) -> Self {
        let bytes = memory.bytes();
        let storage = Storage {
            memory: Arc::new(HereOnly::new(memory)),
            offset: 0,
            bytes,
        };
        Self::of(runtime, core, storage)
    }

    fn of(runtime: Arc<Inner>, core: u32, storage: Storage) -> Self {
        Self {
            form: Arc::new(Handle {
                core,
                bytes: storage.bytes,
                storage: Mutex::new(Some(Arc::new(storage))),
                runtime,
            }),
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.form.bytes
    }

    /// The logical core in whose memory it lies.
    #[must_use]
    pub fn core(&self) -> u32 {
        self.form.core
    }

    /// Frees the tensor through this handle: every clone is refused from now on.
    ///
    /// Requests keep the memory until they are complete and their outcome was taken or dropped, and so do other tensors that
    /// are slices of it. Dropping the last handle does the same; this is for those who share clones.
    pub fn free(self) {
        // In a forked child another thread of the parent may hold the lock for ever.
        if self.form.runtime.is_here() {
            let storage = self.form.storage.lock().take();
            drop(storage);
        }
    }

    /// A tensor of `bytes` bytes of this one, from byte `offset` on. It shares the memory, and keeps it when this one is freed.
    ///
    /// # Errors
    /// [`Error::Slice`]: the range passes the end, or is of no bytes. [`Error::TensorFreed`], [`Error::Forked`].
    pub fn slice(&self, offset: u64, bytes: u64) -> Result<Self, Error> {
        let (runtime, size) = (&self.form.runtime, self.bytes());
        self.check_process()?;
        if bytes == 0 || !Storage::check(offset, bytes, size) {
            return Err(Error::Slice {
                offset,
                bytes,
                size,
            });
        }
        let whole = self.form.storage.lock().clone().ok_or(Error::TensorFreed)?;
        let part = Storage {
            memory: Arc::clone(&whole.memory),
            offset: whole.offset + offset,
            bytes,
        };
        Ok(Self::of(Arc::clone(runtime), self.core(), part))
    }

    /// The first bytes of this tensor as elements of a type, in a shape. It shares the memory.
    ///
    /// ```
    /// use nrta::{Runtime, Tensor};
    ///
    /// let runtime = Runtime::builder().open()?;
    /// let bytes = runtime.core(0)?.allocate(4096)?;
    /// let matrix: Tensor<f32> = bytes.typed(&[16, 64])?;
    /// assert_eq!(matrix.bytes(), 4096);
    /// # Ok::<(), nrta::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`]; as [`Tensor::slice`] when it has fewer bytes than the shape needs.
    pub fn typed<T: Element>(&self, shape: &[u64]) -> Result<Tensor<T>, Error> {
        self.check_process()?;
        let shape = Shape::new(shape)?;
        let raw = self.slice(0, bytes_of::<T>(&shape))?;
        Ok(Tensor::of_shape(raw, shape))
    }

    /// The storage, if this tensor may be used by a queue of `core`. The caller has checked that this is the process of the
    /// runtime.
    pub(crate) fn storage_for(
        &self,
        runtime: &Arc<Inner>,
        core: u32,
    ) -> Result<Arc<Storage>, ScheduleError> {
        let handle = &self.form;
        if !Arc::ptr_eq(&handle.runtime, runtime) {
            return Err(ScheduleError::WrongRuntime { what: "tensor" });
        }
        if handle.core != core {
            return Err(ScheduleError::WrongCore {
                what: "tensor",
                on: handle.core,
                queue: core,
            });
        }
        handle
            .storage
            .lock()
            .clone()
            .ok_or(ScheduleError::TensorFreed)
    }

    /// Before anything else: in a forked child every other answer is beside the point.
    fn check_process(&self) -> Result<(), Error> {
        if self.form.runtime.is_here() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Whether `bytes` at `offset` lie inside, without overflow.
    pub(crate) fn check_range(&self, offset: u64, bytes: u64) -> Result<(), ScheduleError> {
        let size = self.bytes();
        if Storage::check(offset, bytes, size) {
            return Ok(());
        }
        Err(ScheduleError::OutOfRange {
            offset,
            bytes,
            size,
        })
    }
}

impl<T: Element> Tensor<T> {
    /// `raw` is as large as the shape needs.
    pub(crate) fn of_shape(raw: Tensor, shape: Shape) -> Self {
        Self {
            form: Typed { raw, shape },
        }
    }

    /// Its dimensions.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.form.shape
    }

    /// How many elements it has.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.form.shape.elements()
    }

    /// Some of its rows, or samples of its batch: a range of the outermost dimension. It shares the memory.
    ///
    /// ```
    /// # let runtime = nrta::Runtime::builder().open()?;
    /// let batch = runtime.core(0)?.tensor::<u8>(&[16, 8, 8])?;
    /// let second_half = batch.rows(8..)?;
    /// assert_eq!(second_half.shape().dimensions(), [8, 8, 8]);
    /// # Ok::<(), nrta::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rows`]: the range is empty or passes the end. [`Error::TensorFreed`], [`Error::Forked`].
    pub fn rows(&self, rows: impl RangeBounds<u64>) -> Result<Self, Error> {
        self.check_process()?;
        let all = self.shape().rows();
        let first = match rows.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match rows.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => all,
        };
        if first >= end || end > all {
            return Err(Error::Rows { first, end, all });
        }
        let shape = self.shape().with_rows(end - first);
        // Less than the bytes of this tensor.
        let offset = first * self.shape().row_elements() * size_of::<T>() as u64;
        let raw = self.slice(offset, bytes_of::<T>(&shape))?;
        Ok(Self::of_shape(raw, shape))
    }

    /// The same tensor without type and shape. It shares memory and handle: freeing one frees the other.
    #[must_use]
    pub fn untyped(&self) -> Tensor {
        self.form.raw.clone()
    }

    /// As [`Tensor::free`](Tensor::<Untyped>::free).
    pub fn free(self) {
        self.form.raw.free();
    }
}

/// Bytes that elements of this shape take; more than 64 bits hold are more than any tensor has.
pub(crate) fn bytes_of<T: Element>(shape: &Shape) -> u64 {
    shape.elements().saturating_mul(size_of::<T>() as u64)
}

impl<T: Element> Deref for Tensor<T> {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.form.raw
    }
}

impl<T: Kind> Clone for Tensor<T> {
    fn clone(&self) -> Self {
        Self {
            form: self.form.clone(),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("core", &self.core())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("core", &self.core())
            .field("dtype", &T::DTYPE)
            .field("shape", self.shape())
            .finish_non_exhaustive()
    }
}
