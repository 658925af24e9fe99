//! The rules of the driver: spec `driver.md` sections 1 to 8 and 11, `driver_emulation.md` sections 2 to 4. Programs are
//! objects of this process; no system call is intercepted.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows a test by its attribute; these are what tests are made of"
)]

mod async_copies;
mod chunks;
mod claims;
mod copies;
mod cores;
mod datastores;
mod engines;
mod faults;
mod files;
mod gates;
mod identity;
mod inquiries;
mod locks;
mod mappings;
mod messages;
mod notifications;
mod program;
mod queues;
mod registers;
mod resets;
mod semaphores;
mod slow;
mod sysfs;
mod tracing;
mod user;
