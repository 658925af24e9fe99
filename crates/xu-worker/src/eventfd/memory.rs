//! Eventfds in memory, for models and for miri, which cannot make the system calls.
//!
//! Each role of the module above holds one [`Counter`]. Stands in for `descriptor.rs` there. What would block fails with
//! `WouldBlock` for every kind, and numbers name nothing.

use super::{Call, Kind, announce};
use crate::sync::{Condvar, Mutex};
use core::sync::atomic::{AtomicI32, Ordering};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// The highest count.
const MAX: u64 = u64::MAX - 1;

/// The numbers of the three standard descriptors are in use.
static NEXT_NUMBER: AtomicI32 = AtomicI32::new(3);

/// A count, and whoever waits for it.
#[derive(Debug)]
pub(super) struct Counter {
    file: Arc<File>,
    number: i32,
}

#[derive(Debug)]
struct File {
    count: Mutex<u64>,
    added: Condvar,
    kind: Kind,
}

impl Counter {
    pub(super) fn new(initial: u32, kind: Kind) -> io::Result<Self> {
        announce(Call::Create)?;
        let file = File {
            count: Mutex::new(u64::from(initial)),
            added: Condvar::default(),
            kind,
        };
        Ok(Self::of(Arc::new(file)))
    }

    fn of(file: Arc<File>) -> Self {
        // Relaxed: only has to differ.
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { file, number }
    }

    pub(super) fn duplicate(&self) -> io::Result<Self> {
        announce(Call::Create)?;
        Ok(Self::of(Arc::clone(&self.file)))
    }

    pub(super) fn write(&self, count: u64) -> io::Result<()> {
        announce(Call::Write)?;
        let mut value = self.file.count.lock();
        match value.checked_add(count) {
            Some(sum) if sum <= MAX => *value = sum,
            _ => return Err(io::ErrorKind::WouldBlock.into()),
        }
        drop(value);
        self.file.added.notify_all();
        Ok(())
    }

    pub(super) fn read(&self) -> io::Result<u64> {
        announce(Call::Read)?;
        let mut value = self.file.count.lock();
        if *value == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = match self.file.kind {
            Kind::Semaphore => 1,
            Kind::Plain | Kind::Blocking => *value,
        };
        *value -= taken;
        Ok(taken)
    }

    pub(super) fn wait_readable(&self, deadline: Option<Instant>) -> io::Result<bool> {
        announce(Call::Poll)?;
        let mut value = self.file.count.lock();
        loop {
            if *value > 0 {
                return Ok(true);
            }
            value = match deadline {
                None => self.file.added.wait(value),
                Some(deadline) => {
                    let (value, timed_out) = self.file.added.wait_until(value, deadline);
                    if timed_out {
                        return Ok(*value > 0);
                    }
                    value
                }
            };
        }
    }

    pub(super) fn watch(&self) -> Self {
        Self::of(Arc::clone(&self.file))
    }

    pub(super) fn is_readable(&self) -> bool {
        *self.file.count.lock() > 0
    }

    pub(super) fn is_writable(&self) -> io::Result<bool> {
        announce(Call::Poll)?;
        Ok(*self.file.count.lock() < MAX)
    }

    pub(super) fn number(&self) -> i32 {
        self.number
    }
}
