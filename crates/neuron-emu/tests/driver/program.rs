//! A program that uses the driver: a process id, and memory that is not this process's own.

use neuron_emu::{AccessMode, Caller, Config, Emulator, FileId, NotCopied};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use xu_abi::driver::Ioctl;
use xu_abi::driver::errno::Answer;
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub(crate) use AccessMode::{ReadOnly, ReadWrite, WriteOnly};

/// Where a program keeps what it passes.
pub(crate) const ARGUMENT: u64 = 0x7F00_0000_1000;
/// Where it keeps what its arguments point at.
pub(crate) const BUFFER: u64 = 0x7F00_0010_0000;
/// Where it has nothing.
pub(crate) const NOWHERE: u64 = 0x10;

pub(crate) struct Program<'e> {
    emulator: &'e Emulator,
    pid: u32,
    memory: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// Looks after which a signal is there; none for no signal.
    patience: Cell<Option<u32>>,
}

/// The driver with this much changed.
pub(crate) fn emulator(change: impl FnOnce(&mut Config)) -> Arc<Emulator> {
    let mut config = Config::default();
    change(&mut config);
    Emulator::start(config).unwrap()
}

impl<'e> Program<'e> {
    pub(crate) fn new(emulator: &'e Emulator, pid: u32) -> Self {
        Self {
            emulator,
            pid,
            memory: RefCell::default(),
            patience: Cell::new(None),
        }
    }

    /// A signal comes when the driver has asked so often.
    pub(crate) fn interrupt_after(&self, looks: u32) {
        self.patience.set(Some(looks));
    }

    pub(crate) fn try_open(&self, node: u32, mode: AccessMode) -> Result<FileId, i32> {
        Ok(self.emulator.open(self, node, mode)?.file)
    }

    /// Opens `neuron0` for reading and writing.
    pub(crate) fn open(&self) -> FileId {
        self.try_open(0, ReadWrite).unwrap()
    }

    /// Opens `neuron0`, with the file that its memory is mapped of: an offset is an address.
    pub(crate) fn open_with_memory(&self) -> (FileId, File) {
        let opened = self.emulator.open(self, 0, ReadWrite).unwrap();
        (opened.file, opened.descriptor.into())
    }

    pub(crate) fn close(&self, file: FileId) {
        self.emulator.close(self.pid, file);
    }

    /// An ioctl whose argument comes back as the driver leaves it.
    pub(crate) fn call<A: FromBytes + IntoBytes + Immutable>(
        &self,
        file: FileId,
        ioctl: &Ioctl,
        argument: &mut A,
    ) -> Answer {
        self.put(ARGUMENT, argument.as_bytes());
        let answer = self.request(file, ioctl.request(), ARGUMENT);
        *argument = A::read_from_bytes(&self.get(ARGUMENT)).unwrap();
        answer
    }

    pub(crate) fn request(&self, file: FileId, request: u32, argument: u64) -> Answer {
        self.emulator.ioctl(self, file, request, argument)
    }

    pub(crate) fn put(&self, address: u64, bytes: &[u8]) {
        self.memory.borrow_mut().insert(address, bytes.to_vec());
    }

    pub(crate) fn get(&self, address: u64) -> Vec<u8> {
        self.memory.borrow()[&address].clone()
    }

    /// The object around an address, and where in it that is, if so many bytes are left.
    fn find(&self, address: u64, bytes: usize) -> Result<(u64, usize), NotCopied> {
        let memory = self.memory.borrow();
        let (base, object) = memory
            .range(..=address)
            .next_back()
            .ok_or(NotCopied(bytes))?;
        let offset = usize::try_from(address - base).unwrap();
        match object.len().checked_sub(offset) {
            Some(left) if left >= bytes => Ok((*base, offset)),
            left => Err(NotCopied(bytes - left.unwrap_or(0))),
        }
    }
}

impl Caller for Program<'_> {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotCopied> {
        let (base, offset) = self.find(address, into.len())?;
        into.copy_from_slice(&self.memory.borrow()[&base][offset..offset + into.len()]);
        Ok(())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), NotCopied> {
        let (base, offset) = self.find(address, bytes.len())?;
        let mut memory = self.memory.borrow_mut();
        let object = memory.get_mut(&base).unwrap();
        object[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        match self.patience.get() {
            Some(0) => true,
            Some(looks) => {
                self.patience.set(Some(looks - 1));
                false
            }
            None => false,
        }
    }
}
