//! The rules of the driver that have to do with files, processes, claims and states: spec `driver.md` sections 1 to 3,
//! `driver_emulation.md` sections 3 and 4. Programs are objects of this process; no system call is intercepted.

mod claims;
mod cores;
mod datastores;
mod faults;
mod files;
mod gates;
mod identity;
mod locks;
mod messages;
mod program;
mod resets;
mod tracing;
