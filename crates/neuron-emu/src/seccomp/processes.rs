//! Who has which descriptor: the processes under one filter, and the open files that their reserved numbers refer to.
//!
//! The kernel is the only one that really knows. It is asked, with kcmp, where calls do not tell:
//!
//! * **fork**: a process that is not known yet has what it inherited; found at its first call that stops, when a parent
//!   closes or ends, and every now and then.
//! * **exec**: closes without a call what was opened with `O_CLOEXEC`; found at the next call that stops (a dynamic loader
//!   opens files at once), and every now and then.
//!
//! * **end**: what the process left open is closed when none of its calls is with the driver any more. The number of a process
//!   that has ended can be another's at once, so an end is believed when the descriptor of the process says so, and a call
//!   under the number of one that has ended is another's: it is served when the end is through.
//!
//! Locks: one, for everything here. It is held while the driver is told of duplicates, closes and ends that no call tells, and not while
//! it serves a call.

use super::filter::RESERVED;
use super::listener::{Listener, Notification, Place};
use super::sys;
use super::target::{self, children_of, descriptors_of, everybody, is_filtered};
use crate::driver::{Emulator, FileId};
use nix::errno::Errno;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::sync::Arc;

/// Numbers of one process can be given out by several supervisors, each with its own table.
static NUMBERS: Mutex<()> = Mutex::new(());

/// The processes under one filter.
#[derive(Debug)]
pub(super) struct Processes {
    emulator: Arc<Emulator>,
    table: Mutex<Table>,
    /// A process was put away.
    put_away: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    processes: BTreeMap<u32, Process>,
    /// Our own descriptor of each open file: to compare with, and to make duplicates of.
    files: BTreeMap<FileId, Arc<OwnedFd>>,
    /// The process of each thread that was seen.
    threads: HashMap<u32, u32>,
}

#[derive(Debug)]
struct Process {
    /// Readable when it has ended. `None` for our own.
    end: Option<Arc<OwnedFd>>,
    descriptors: BTreeMap<i32, FileId>,
    /// Calls in the hands of the driver.
    in_service: u32,
    /// It has ended while there were some: the last of them has it put away.
    is_over: bool,
}

impl Process {
    /// Whether it has ended, whoever has its number now.
    fn has_ended(&self) -> bool {
        self.end
            .as_ref()
            .is_some_and(|end| sys::has_ended(end.as_fd()))
    }
}

/// A call is being served. The end of its process is not reported while this lives.
#[derive(Debug)]
pub(super) struct InService {
    processes: Arc<Processes>,
    pub(super) pid: u32,
}

impl Drop for InService {
    fn drop(&mut self) {
        let mut table = self.processes.table.lock();
        let Some(process) = table.processes.get_mut(&self.pid) else {
            return;
        };
        process.in_service -= 1;
        if process.in_service == 0 && process.is_over {
            self.processes.end(&mut table, self.pid);
        }
    }
}

/// How a call begins.
#[derive(Debug)]
pub(super) enum Begun {
    /// It may be served.
    Service(InService),
    /// Another process had this number, and the driver is not done with it.
    Later(u32),
    /// Its process is gone.
    Gone,
    /// It cannot be found out whose it is: the error number.
    Fails(Errno),
}

impl Processes {
    pub(super) fn new(emulator: &Arc<Emulator>) -> Arc<Self> {
        Arc::new(Self {
            emulator: Arc::clone(emulator),
            table: Mutex::default(),
            put_away: Condvar::new(),
        })
    }

    /// Begins to serve a call of a thread.
    pub(super) fn begin(self: &Arc<Self>, tid: u32) -> Begun {
        let mut table = self.table.lock();
        match self.process_of(&mut table, tid) {
            Ok(Some(pid)) => self.begin_of(&mut table, pid),
            Ok(None) => Begun::Gone,
            Err(errno) => Begun::Fails(errno),
        }
    }

    /// As [`Processes::begin`], and waits while another process had the number.
    pub(super) fn begin_in_time(self: &Arc<Self>, tid: u32) -> Begun {
        loop {
            let begun = self.begin(tid);
            let Begun::Later(pid) = begun else {
                return begun;
            };
            self.wait_until_put_away(pid);
        }
    }

    fn process_of(&self, table: &mut Table, tid: u32) -> Result<Option<u32>, Errno> {
        let known = table.threads.get(&tid).copied();
        if let Some(pid) = known.filter(|pid| target::is_still(*pid, tid)) {
            return Ok(Some(pid));
        }
        let pid = target::process_of(tid)?;
        if let Some(pid) = pid {
            table.threads.insert(tid, pid);
        }
        Ok(pid)
    }

    fn begin_of(self: &Arc<Self>, table: &mut Table, pid: u32) -> Begun {
        let known = table.processes.get(&pid);
        if known.is_some_and(Process::has_ended) && !self.end_unless_in_service(table, pid) {
            return Begun::Later(pid);
        }
        match self.adopt(table, pid) {
            Ok(()) => {}
            Err(Errno::ESRCH) => return Begun::Gone,
            Err(errno) => return Begun::Fails(errno),
        }
        self.forget_closed(table, pid);
        let Some(process) = table.processes.get_mut(&pid) else {
            return Begun::Gone;
        };
        process.in_service += 1;
        Begun::Service(InService {
            processes: Arc::clone(self),
            pid,
        })
    }

    /// The file of a descriptor; `None` when it is not ours.
    pub(super) fn file(&self, pid: u32, descriptor: i32) -> Option<FileId> {
        let table = self.table.lock();
        table
            .processes
            .get(&pid)?
            .descriptors
            .get(&descriptor)
            .copied()
    }

    /// Gives the process a descriptor of a file at a free reserved number that is not below `least`, as the answer to its
    /// call.
    pub(super) fn install(
        &self,
        listener: &Listener,
        call: (u32, &Notification),
        file: (FileId, Option<OwnedFd>),
        least: i32,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let (pid, notification) = call;
        let (file, opened) = file;
        let _numbers = NUMBERS.lock();
        let mut table = self.table.lock();
        // Without knowing it one that is in use would be replaced.
        let used: BTreeSet<i32> = descriptors_of(pid)?.into_iter().collect();
        let number = RESERVED
            .filter(|number| *number >= least)
            .find(|number| !used.contains(number))
            .ok_or(Errno::EMFILE)?;
        let is_duplicate = opened.is_none();
        let ours = match opened {
            Some(opened) => Arc::new(opened),
            None => Arc::clone(table.files.get(&file).ok_or(Errno::EBADF)?),
        };
        let place = Place::At(number);
        let given =
            listener.reply_with_descriptor(notification.id, ours.as_fd(), place, close_on_exec);
        // The program's limit is below the number: an open says so in another way.
        given.map_err(|errno| match errno {
            Errno::EBADF => Errno::EMFILE,
            errno => errno,
        })?;
        table.files.insert(file, ours);
        if is_duplicate {
            // Under the lock: a close of the new number by another thread comes later.
            self.emulator.duplicated(pid, file);
        }
        if let Some(process) = table.processes.get_mut(&pid) {
            process.descriptors.insert(number, file);
        }
        Ok(number)
    }

    /// The process is about to close descriptors: each file, once for each of them.
    pub(super) fn closing(
        &self,
        pid: u32,
        numbers: core::ops::RangeInclusive<i32>,
    ) -> Vec<(i32, FileId)> {
        let mut table = self.table.lock();
        // A child that has inherited the descriptor keeps the file open.
        self.adopt_children(&mut table, pid);
        let Some(process) = table.processes.get_mut(&pid) else {
            return Vec::new();
        };
        let closing: Vec<(i32, FileId)> = process
            .descriptors
            .range(numbers)
            .map(|(number, file)| (*number, *file))
            .collect();
        for (number, _) in &closing {
            process.descriptors.remove(number);
        }
        closing
    }

    /// Files that no descriptor refers to any more are dropped, so that our own descriptor of them is.
    pub(super) fn closed(&self) {
        self.table.lock().drop_closed();
    }

    /// Has the descriptors of a process closed, if it has ended: now, or when the last of its calls is served. Waits for nothing.
    pub(super) fn has_ended(&self, pid: u32) {
        let mut table = self.table.lock();
        if table.processes.get(&pid).is_some_and(Process::has_ended) {
            self.end_unless_in_service(&mut table, pid);
        }
    }

    /// The same, and waits until it is done.
    pub(super) fn ended(&self, pid: u32) {
        self.has_ended(pid);
        self.wait_until_put_away(pid);
    }

    fn wait_until_put_away(&self, pid: u32) {
        let mut table = self.table.lock();
        while table.processes.get(&pid).is_some_and(|had| had.is_over) {
            self.put_away.wait(&mut table);
        }
    }

    /// Whether it could be put away at once.
    fn end_unless_in_service(&self, table: &mut Table, pid: u32) -> bool {
        match table.processes.get_mut(&pid) {
            Some(process) if process.in_service > 0 => {
                process.is_over = true;
                false
            }
            Some(_) => {
                self.end(table, pid);
                true
            }
            None => true,
        }
    }

    /// Puts a process away that has ended.
    fn end(&self, table: &mut Table, pid: u32) {
        let had = table.processes.get(&pid);
        if had.is_some_and(|process| !process.descriptors.is_empty()) {
            self.adopt_strangers(table);
        }
        table.processes.remove(&pid);
        table.threads.retain(|_, process| *process != pid);
        self.emulator.exited(pid);
        table.drop_closed();
        self.put_away.notify_all();
    }

    /// What a process left open counts as closed.
    pub(super) fn abandon(&self, pid: u32) {
        for (_, file) in self.closing(pid, RESERVED) {
            self.emulator.close(pid, file);
        }
        self.closed();
    }

    /// Looks for what calls do not tell.
    pub(super) fn look_around(&self) {
        let mut table = self.table.lock();
        if table.files.is_empty() {
            return;
        }
        let known: Vec<u32> = table.processes.keys().copied().collect();
        for pid in known {
            self.adopt_children(&mut table, pid);
            self.forget_closed(&mut table, pid);
        }
    }

    /// What to wait for to learn of the end of each process.
    pub(super) fn ends(&self) -> Vec<(u32, Arc<OwnedFd>)> {
        let table = self.table.lock();
        table
            .processes
            .iter()
            // One that is over is put away by its last call.
            .filter(|(_, process)| !process.is_over)
            .filter_map(|(pid, process)| Some((*pid, Arc::clone(process.end.as_ref()?))))
            .collect()
    }

    /// Nobody makes calls any more: what is left of every process is put away.
    pub(super) fn all_end(&self) {
        for (pid, end) in self.ends() {
            // Its last task has left the filter, on its way out.
            sys::wait_for_end(end.as_fd());
            self.ended(pid);
        }
        self.abandon(std::process::id());
    }

    /// Makes a process known, with the descriptors it has inherited.
    fn adopt(&self, table: &mut Table, pid: u32) -> Result<(), Errno> {
        if table.processes.contains_key(&pid) {
            return Ok(());
        }
        let end = if pid == std::process::id() {
            None
        } else {
            Some(Arc::new(sys::open_process(pid)?))
        };
        let descriptors: BTreeMap<i32, FileId> = if table.files.is_empty() {
            BTreeMap::new()
        } else {
            descriptors_of(pid)?
                .into_iter()
                .filter(|number| RESERVED.contains(number))
                .filter_map(|number| Some((number, table.which(pid, number)?)))
                .collect()
        };
        for file in descriptors.values() {
            self.emulator.duplicated(pid, *file);
        }
        let process = Process {
            end,
            descriptors,
            in_service: 0,
            is_over: false,
        };
        table.processes.insert(pid, process);
        Ok(())
    }

    fn adopt_children(&self, table: &mut Table, pid: u32) {
        for child in children_of(pid) {
            if !table.processes.contains_key(&child) && is_filtered(child) {
                let _gone_already = self.adopt(table, child);
            }
        }
    }

    /// Any process can be a child of one that has ended.
    fn adopt_strangers(&self, table: &mut Table) {
        for pid in everybody() {
            let is_new = !table.processes.contains_key(&pid) && is_filtered(pid);
            if is_new && table.has_any(pid) {
                let _gone_already = self.adopt(table, pid);
            }
        }
    }

    /// Descriptors that are gone without a call that stops: an exec.
    fn forget_closed(&self, table: &mut Table, pid: u32) {
        let Some(process) = table.processes.get(&pid) else {
            return;
        };
        let gone: Vec<(i32, FileId)> = process
            .descriptors
            .iter()
            .filter(|(number, file)| !table.is(pid, **number, **file))
            .map(|(number, file)| (*number, *file))
            .collect();
        for (number, file) in gone {
            if let Some(process) = table.processes.get_mut(&pid) {
                process.descriptors.remove(&number);
            }
            self.emulator.close(pid, file);
        }
    }
}

impl Table {
    fn drop_closed(&mut self) {
        let used: BTreeSet<FileId> = self
            .processes
            .values()
            .flat_map(|process| process.descriptors.values().copied())
            .collect();
        self.files.retain(|file, _| used.contains(file));
    }

    /// Which open file a descriptor of a process refers to.
    fn which(&self, pid: u32, number: i32) -> Option<FileId> {
        self.files
            .keys()
            .copied()
            .find(|file| self.is(pid, number, *file))
    }

    fn has_any(&self, pid: u32) -> bool {
        let numbers = descriptors_of(pid).unwrap_or_default();
        numbers
            .into_iter()
            .any(|number| RESERVED.contains(&number) && self.which(pid, number).is_some())
    }

    /// Whether a descriptor of a process refers to an open file.
    fn is(&self, pid: u32, number: i32, file: FileId) -> bool {
        let Some(ours) = self.files.get(&file) else {
            return false;
        };
        match sys::is_same_file(ours.as_fd(), pid, number) {
            Ok(same) => same,
            Err(Errno::ENOSYS | Errno::EPERM) => is_same_device(ours, pid, number),
            Err(_) => false,
        }
    }
}

/// Without kcmp two open files of one device look alike.
fn is_same_device(ours: &OwnedFd, pid: u32, number: i32) -> bool {
    let identity = |path: String| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.st_dev(), metadata.st_ino()))
    };
    let own = identity(format!("/proc/self/fd/{}", ours.as_raw_fd()));
    own.is_some() && own == identity(format!("/proc/{pid}/fd/{number}"))
}

#[cfg(test)]
mod tests;
