//! The rules of the driver that have to do with files, processes, claims and states: spec `driver.md` sections 1 to 3,
//! `driver_emulation.md` sections 3 and 4. Programs are objects of this process; no system call is intercepted.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows a test by its attribute; these are what tests are made of"
)]

mod chunks;
mod claims;
mod cores;
mod datastores;
mod faults;
mod files;
mod gates;
mod identity;
mod inquiries;
mod locks;
mod mappings;
mod messages;
mod program;
mod resets;
mod sysfs;
mod tracing;
mod user;
