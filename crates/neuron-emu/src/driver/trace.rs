//! What programs did and what they were answered, for tests to read.
//!
//! "A submit is one SEMAPHORE_INCREMENT" is a test on this. Bounded: the oldest entries go first.

mod text;

use super::bug::Bug;
use super::{AccessMode, FileId, MapRequest};
use crate::call::{Caller, NotCopied};
use crate::config::DriverFault;
use std::cell::RefCell;
use std::collections::VecDeque;
use xu_abi::driver::errno::Answer;

/// One thing that happened; [`Display`](std::fmt::Display) makes a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Its place among all that happened, from 0: a gap means entries that were dropped.
    pub sequence: u64,
    /// The process; 0 for none.
    pub pid: u32,
    /// The device, if one is concerned.
    pub node: Option<u32>,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An open.
    Open {
        /// How.
        mode: AccessMode,
        /// The file, or the error number.
        answer: Result<FileId, i32>,
    },
    /// One more descriptor of a file.
    Duplicated(FileId),
    /// A descriptor was closed.
    Close(FileId),
    /// The process ended.
    Exited,
    /// An ioctl.
    Ioctl {
        /// Of this file.
        file: FileId,
        /// As it came.
        request: u32,
        /// Its name in the table; none for an unknown request.
        name: Option<&'static str>,
        /// The argument that the driver read, at most [`Traced::ARGUMENT_BYTES`]; empty if it read none.
        argument: Vec<u8>,
        /// What the driver put there; empty if nothing.
        written: Vec<u8>,
        /// What came of it.
        answer: Answer,
    },
    /// BAR_WRITE wrote a register. The ioctl itself comes after it, with pointers in its argument.
    Register {
        /// Bytes from the beginning of BAR0.
        offset: u64,
        /// What was written.
        value: u32,
    },
    /// A mapping was asked for.
    Map {
        /// Of this file.
        file: FileId,
        /// What.
        request: MapRequest,
        /// Whether it may be made as it was asked for, or the error number.
        answer: Result<bool, i32>,
    },
    /// The driver let something pass that no sensible client does.
    Warning(String),
    /// A text of PRINTK.
    Printed(String),
    /// A fault of the plan happened.
    Fault(DriverFault),
    /// The real driver would have crashed.
    Bug(Bug),
}

impl Traced {
    /// Bytes of an argument that are kept: every argument but that of DMA_QUEUE_INIT_BATCH fits.
    pub const ARGUMENT_BYTES: usize = 288;
}

/// The last things that happened.
#[derive(Debug)]
pub(super) struct Trace {
    entries: VecDeque<Traced>,
    capacity: usize,
    next: u64,
}

impl Trace {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            capacity,
            next: 0,
        }
    }

    pub(super) fn push(&mut self, pid: u32, node: Option<u32>, event: Event) {
        let sequence = self.next;
        self.next += 1;
        if self.capacity == 0 {
            return;
        }
        if self.entries.len() >= self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back(Traced {
            sequence,
            pid,
            node,
            event,
        });
    }

    pub(super) fn entries(&self) -> Vec<Traced> {
        self.entries.iter().cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// A caller that notes which argument the driver reads and writes.
pub(super) struct Recording<'c> {
    caller: &'c dyn Caller,
    argument: u64,
    read: RefCell<Vec<u8>>,
    written: RefCell<Vec<u8>>,
}

impl<'c> Recording<'c> {
    pub(super) fn new(caller: &'c dyn Caller, argument: u64) -> Self {
        Self {
            caller,
            argument,
            read: RefCell::default(),
            written: RefCell::default(),
        }
    }

    /// What was read and what was written.
    pub(super) fn into_bytes(self) -> (Vec<u8>, Vec<u8>) {
        (self.read.into_inner(), self.written.into_inner())
    }
}

fn kept(bytes: &[u8]) -> Vec<u8> {
    // PANIC: not beyond the end.
    bytes[..bytes.len().min(Traced::ARGUMENT_BYTES)].to_vec()
}

impl Caller for Recording<'_> {
    fn pid(&self) -> u32 {
        self.caller.pid()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotCopied> {
        self.caller.read(address, into)?;
        if address == self.argument && self.read.borrow().is_empty() {
            *self.read.borrow_mut() = kept(into);
        }
        Ok(())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), NotCopied> {
        self.caller.write(address, bytes)?;
        if address == self.argument {
            *self.written.borrow_mut() = kept(bytes);
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.caller.is_interrupted()
    }
}
