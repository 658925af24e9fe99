//! The rules of the driver that have to do with files, processes, claims and states: spec `driver.md` sections 1 to 3,
//! `driver_emulation.md` sections 3 and 4. Programs are objects of this process; no system call is intercepted.

mod async_copies;
mod chunks;
mod claims;
mod copies;
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
mod notifications;
mod program;
mod queues;
mod registers;
mod resets;
mod semaphores;
mod tracing;
mod user;
