//! Tensors in device memory: handles, storage, and the checks that every use makes.
//!
//! A [`Tensor`] is a handle, the storage behind it is shared with every request that uses it. Freeing a
//! handle therefore never pulls memory from under a request: the storage goes when its last user does.

use crate::error::ScheduleError;
use crate::runtime::Inner;
use core::fmt;
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::DeviceAddr;
use xu_device::memory::DeviceMemory;
use xu_device::region::Region;
use xu_worker::here_only::HereOnly;

/// A piece of one core's device memory. Clones are handles to the same bytes.
///
/// Contents are undefined until written.
#[derive(Clone)]
pub struct Tensor {
    shared: Arc<Handle>,
}

struct Handle {
    core: u32,
    bytes: u64,
    /// `None` once freed.
    storage: Mutex<Option<Arc<Storage>>>,
    /// Tells runtimes apart, and keeps the device's owner alive.
    runtime: Arc<Inner>,
}

/// The memory itself. Requests hold it while they use it.
#[derive(Debug)]
pub(crate) struct Storage {
    memory: HereOnly<DeviceMemory>,
}

impl Storage {
    pub(crate) fn addr(&self, offset: u64) -> DeviceAddr {
        self.memory.at(offset)
    }

    /// All of it.
    pub(crate) fn region(&self) -> Region {
        Region::of(&self.memory)
    }
}

impl Tensor {
    pub(crate) fn new(runtime: Arc<Inner>, core: u32, memory: DeviceMemory) -> Self {
        let bytes = memory.bytes();
        let memory = HereOnly::new(memory);
        let storage = Mutex::new(Some(Arc::new(Storage { memory })));
        Self {
            shared: Arc::new(Handle {
                core,
                bytes,
                storage,
                runtime,
            }),
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes
    }

    /// The logical core in whose memory it lies.
    #[must_use]
    pub fn core(&self) -> u32 {
        self.shared.core
    }

    /// Frees the tensor through this handle: every clone is refused from now on.
    ///
    /// Requests that are in flight keep the memory until they are complete.
    /// Dropping the last handle does the same; this is for those who share clones.
    pub fn free(self) {
        // In a forked child another thread of the parent may hold the lock for ever.
        if self.shared.runtime.is_here() {
            let storage = self.shared.storage.lock().take();
            drop(storage);
        }
    }

    /// The storage, if this tensor may be used by a queue of `core`. The caller has checked that this is the process of the
    /// runtime.
    pub(crate) fn storage_for(
        &self,
        runtime: &Arc<Inner>,
        core: u32,
    ) -> Result<Arc<Storage>, ScheduleError> {
        let handle = &self.shared;
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

    /// Whether `bytes` at `offset` lie inside, without overflow.
    pub(crate) fn check_range(&self, offset: u64, bytes: u64) -> Result<(), ScheduleError> {
        let size = self.bytes();
        match offset.checked_add(bytes) {
            Some(end) if end <= size => Ok(()),
            _ => Err(ScheduleError::OutOfRange {
                offset,
                bytes,
                size,
            }),
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
