//! An open device: one descriptor, and every call through it.
//!
//! Made once for each device of a process and shared by its cores.
//!
//! ```text
//!  open O_RDWR|O_CLOEXEC ─> COMPATIBLE_VERSION ─> DEVICE_BASIC_INFO ─> DRIVER_INFO_GET ─> DEVICE_BDF_EXT
//!                               | outside
//!                               '─> close, both ranges in the error
//! ```
//!
//! * There is no second open, no duplicate and no way to the descriptor: the driver frees everything of the process on
//!   a close too many (`driver.md` section 11, trap 11).
//! * In a child of a fork every call is refused and nothing is closed.
//! * After an answer that means that the device is lost, or that the process is not attached, no more calls are made:
//!   an allocation by a process that is not attached crashes the kernel.

use super::answers::{self, Meaning, Severity};
use super::call::{Buffer, Call};
use super::calls::{Bar0, Rings};
use super::discovery;
use super::error::DriverError;
use super::kernel::{Access, Descriptor, Grain, Kernel};
use super::mapping::Mapping;
use super::negotiation::{Asked, Identity};
use super::owner::Owner;
use super::registry::Turn;
use core::mem::ManuallyDrop;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::{Ioctl, MAX_DEVICES, ioctl};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// How often an interrupted call is made again. A call may last minutes, and a profiler interrupts it a thousand times
/// a second; a kernel that says so for ever is not believed for ever.
pub(super) const MOST_REPEATS: u32 = 1 << 20;

/// A device that this process is attached to.
#[derive(Debug)]
pub struct Node {
    channel: Channel,
    index: u32,
    identity: Identity,
    rings: Mutex<Rings>,
    bar0: OnceLock<Bar0>,
}

/// A descriptor with its rules.
#[derive(Debug)]
pub(super) struct Channel {
    kernel: Arc<dyn Kernel>,
    /// Taken when it is dropped, in the process that opened it.
    descriptor: ManuallyDrop<Option<Descriptor>>,
    turn: Turn,
    lost: OnceLock<Meaning>,
}

impl Node {
    /// Opens the device `index` of a directory of nodes, and asks who it is.
    ///
    /// # Errors
    /// [`DriverError::AlreadyOpen`], [`DriverError::Open`], [`DriverError::Version`], [`DriverError::Architecture`], and
    /// what the first calls answer. Nothing stays open.
    pub fn open(kernel: Arc<dyn Kernel>, root: &Path, index: u32) -> Result<Self, DriverError> {
        if index >= MAX_DEVICES {
            return Err(DriverError::BadArgument {
                call: "open",
                what: "index of a device",
                value: index.into(),
                allowed: format!("0 to {}", MAX_DEVICES - 1),
            });
        }
        let path = discovery::node(root, index);
        let channel = Channel::open(kernel, &path, &path, Access::Full)?;
        let identity = Identity::ask(&channel)?;
        Ok(Self {
            channel,
            index,
            identity,
            rings: Mutex::new(Rings::default()),
            bar0: OnceLock::new(),
        })
    }

    /// The index of the device.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// What it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The process that opened it.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.channel.owner()
    }

    /// What the driver answered when the device was lost; `None` while it is not.
    #[must_use]
    pub fn lost(&self) -> Option<Meaning> {
        self.channel.lost.get().copied()
    }

    pub(super) fn rings(&self) -> &Mutex<Rings> {
        &self.rings
    }

    pub(super) fn known_bar0(&self) -> &OnceLock<Bar0> {
        &self.bar0
    }

    /// Makes a call whose argument has pointers.
    pub(super) fn call<A>(
        &self,
        ioctl: &'static Ioctl,
        argument: &mut A,
        buffers: &mut [Buffer<'_>],
    ) -> Result<(), DriverError>
    where
        A: Copy + FromBytes + IntoBytes + Immutable,
    {
        self.channel.call(ioctl, argument, buffers)
    }

    /// Makes a call whose argument has none.
    pub(super) fn ask<A>(&self, ioctl: &'static Ioctl, argument: &mut A) -> Result<(), DriverError>
    where
        A: Copy + FromBytes + IntoBytes + Immutable,
    {
        self.channel.call(ioctl, argument, &mut [])
    }

    /// Asks whether the process is still attached, by a gated call that does nothing.
    pub(super) fn check_attached(&self) -> Result<(), DriverError> {
        self.ask::<[u8; 0]>(&ioctl::DMA_ENG_INIT, &mut [])
    }

    /// Maps `bytes` at `offset`, which are exactly what the driver said.
    ///
    /// # Errors
    /// [`DriverError::Map`], [`DriverError::Forked`], [`DriverError::Lost`].
    pub(super) fn map(
        &self,
        offset: u64,
        bytes: u64,
        access: Access,
        grain: Grain,
    ) -> Result<Mapping, DriverError> {
        let descriptor = self.channel.usable()?;
        let failed = |errno| DriverError::Map {
            offset,
            bytes,
            errno,
        };
        let length = usize::try_from(bytes).map_err(|_| failed(errno::EINVAL))?;
        let kernel = &self.channel.kernel;
        let mut repeats = 0;
        let pages = loop {
            match kernel.map(descriptor, offset, length, access, grain) {
                Err(errno::EINTR) if repeats < MOST_REPEATS => repeats += 1,
                Err(errno) => return Err(failed(errno)),
                Ok(pages) => break pages,
            }
        };
        Ok(Mapping::new(Arc::clone(kernel), self.owner(), pages))
    }
}

impl Channel {
    /// Opens `path`. `key` is what may be open only once.
    pub(super) fn open(
        kernel: Arc<dyn Kernel>,
        path: &Path,
        key: &Path,
        access: Access,
    ) -> Result<Self, DriverError> {
        let turn = Turn::take(key)?;
        let mut repeats = 0;
        let descriptor = loop {
            match kernel.open(path, access) {
                // A signal came while the driver waited for the end of a reset.
                Err(errno::EINTR) if repeats < MOST_REPEATS => repeats += 1,
                Err(errno) => {
                    let path = path.to_owned();
                    return Err(DriverError::Open { path, errno });
                }
                Ok(descriptor) => break descriptor,
            }
        };
        Ok(Self {
            kernel,
            descriptor: ManuallyDrop::new(Some(descriptor)),
            turn,
            lost: OnceLock::new(),
        })
    }

    pub(super) fn owner(&self) -> Owner {
        self.turn.owner()
    }

    /// The descriptor, where a call may be made.
    fn usable(&self) -> Result<&Descriptor, DriverError> {
        if !self.owner().is_here() {
            return Err(DriverError::Forked);
        }
        if let Some(because) = self.lost.get().copied() {
            return Err(DriverError::Lost { because });
        }
        match &*self.descriptor {
            Some(descriptor) => Ok(descriptor),
            // Only while it is dropped.
            None => Err(DriverError::Lost {
                because: Meaning::Closed,
            }),
        }
    }

    /// Makes a call, again when a signal interrupted it, and says what its answer means.
    pub(super) fn call<A>(
        &self,
        ioctl: &'static Ioctl,
        argument: &mut A,
        buffers: &mut [Buffer<'_>],
    ) -> Result<(), DriverError>
    where
        A: Copy + FromBytes + IntoBytes + Immutable,
    {
        let descriptor = self.usable()?;
        // The driver writes into arguments, also into those of calls that fail.
        let asked = *argument;
        let mut repeats = 0;
        let answer = loop {
            let mut call = Call::new(ioctl, argument.as_mut_bytes(), buffers)?;
            match self.kernel.ioctl(descriptor, &mut call) {
                Answer::Errno(errno::EINTR) if repeats < MOST_REPEATS && is_repeatable(ioctl) => {
                    repeats += 1;
                    *argument = asked;
                }
                answer => break answer,
            }
        };
        match answers::of(ioctl, answer) {
            None => Ok(()),
            Some(meaning) => {
                if meaning.severity() == Severity::Device {
                    // The first reason stands.
                    let _ = self.lost.set(meaning);
                }
                Err(DriverError::Answered {
                    call: ioctl.name,
                    answer,
                    meaning,
                })
            }
        }
    }
}

/// Whether a call may be made again without knowing whether it was made: not where that counts. A second doorbell is a
/// second execution, and a second start walks descriptors that nobody wrote. The driver's own handlers of these never wait,
/// so only something in between can have been interrupted, and nobody says on which side of it.
fn is_repeatable(ioctl: &Ioctl) -> bool {
    const COUNTING: [&Ioctl; 5] = [
        &ioctl::SEMAPHORE_INCREMENT,
        &ioctl::SEMAPHORE_DECREMENT,
        &ioctl::DMA_QUEUE_COPY_START,
        &ioctl::MEM_COPY_ASYNC,
        &ioctl::MEM_COPY_ASYNC64,
    ];
    !COUNTING.contains(&ioctl)
}

impl Asked for Channel {
    fn ask<A>(&self, ioctl: &'static Ioctl, argument: &mut A) -> Result<(), DriverError>
    where
        A: Copy + FromBytes + IntoBytes + Immutable,
    {
        self.call(ioctl, argument, &mut [])
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // A child leaves the descriptor open: it ends with the process, or with exec.
        if self.owner().is_here()
            && let Some(descriptor) = self.descriptor.take()
        {
            self.kernel.close(descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neuron::sys::Pages;
    use xu_abi::driver::CompatibleVersion;

    /// Nobody may call it.
    #[derive(Debug)]
    struct Untouchable;

    impl Kernel for Untouchable {
        fn open(&self, path: &Path, _: Access) -> Result<Descriptor, i32> {
            panic!("open {}", path.display())
        }

        fn ioctl(&self, _: &Descriptor, call: &mut Call<'_, '_>) -> Answer {
            panic!("{call:?}")
        }

        fn map(
            &self,
            _: &Descriptor,
            offset: u64,
            _: usize,
            _: Access,
            _: Grain,
        ) -> Result<Pages, i32> {
            panic!("map {offset}")
        }

        fn unmap(&self, pages: Pages) -> Result<(), i32> {
            panic!("unmap {pages:?}")
        }

        fn close(&self, descriptor: Descriptor) {
            panic!("close {descriptor:?}")
        }
    }

    /// What a child of a fork has.
    fn inherited() -> Channel {
        Channel {
            kernel: Arc::new(Untouchable),
            descriptor: ManuallyDrop::new(Some(Descriptor::numbered(3))),
            turn: Turn::elsewhere(Path::new("/inherited/neuron0")),
            lost: OnceLock::new(),
        }
    }

    #[test]
    fn p1_a_child_calls_nothing_and_closes_nothing() {
        let channel = inherited();
        let asked = channel.ask(
            &ioctl::COMPATIBLE_VERSION,
            &mut CompatibleVersion::ZEROED.clone(),
        );
        assert_eq!(asked, Err(DriverError::Forked));
        drop(channel);
    }

    #[test]
    fn p1_a_child_unmaps_nothing() {
        let channel = inherited();
        let pages = Pages::anonymous(4096, Access::Full, Grain::Word).unwrap();
        let mapping = Mapping::new(Arc::clone(&channel.kernel), channel.owner(), pages);
        assert!(mapping.word(0).is_none());
        assert!(!mapping.clear());
        drop(mapping);
    }
}
