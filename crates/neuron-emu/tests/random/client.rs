//! A program that calls the driver at random, reproducibly.

#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one of several calls is made, for the same reason"
)]

use nix::libc::{self, c_void};
use std::ffi::CString;
use xu_abi::driver::ioctl::{ALL, Argument, Ioctl};

/// Calls of a program, if no device is left before.
const CALLS: usize = 1500;
/// Calls of a forked child.
const CALLS_OF_A_CHILD: usize = 20;
/// Seconds after which a program is stuck, and is ended by a signal.
const STUCK: u32 = 50;
/// What pointers of arguments point into. What comes after it cannot be accessed.
const ARENA: usize = 128 << 10;
/// Open descriptors at most.
const FILES: usize = 12;
const PAGE: usize = 4096;

/// Numbers at which something changes.
const EDGES: [u64; 40] = [
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    15,
    16,
    31,
    32,
    63,
    64,
    128,
    131,
    132,
    255,
    256,
    1023,
    1024,
    4096,
    65_535,
    65_536,
    65_537,
    256 << 10,
    1 << 20,
    16 << 20,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 36,
    1 << 44,
    1 << 47,
    i64::MAX as u64,
    u64::MAX - 4095,
    u64::MAX,
];

/// The program.
pub(crate) struct Client {
    random: u64,
    /// The device that is used, and how many there are.
    node: u32,
    nodes: u32,
    /// Whether it has children: they outlive it when it is killed.
    forks: bool,
    arena: *mut u8,
    read_only: usize,
    files: Vec<i32>,
    mappings: Vec<(*mut c_void, usize)>,
}

fn pages(bytes: usize, protection: i32) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses a place that nothing else has.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

impl Client {
    pub(crate) fn new(seed: u64, nodes: u32, forks: bool) -> Self {
        let arena = pages(ARENA + PAGE, libc::PROT_NONE);
        // SAFETY: the pages are ours, and nobody knows them.
        let done =
            unsafe { libc::mprotect(arena.cast(), ARENA, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(done, 0);
        // SAFETY: no memory is passed.
        unsafe { libc::alarm(STUCK) };
        Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            node: 0,
            nodes,
            forks,
            arena,
            read_only: pages(PAGE, libc::PROT_READ).expose_provenance(),
            files: Vec::new(),
            mappings: Vec::new(),
        }
    }

    /// Until there is no device left, or enough has been done.
    pub(crate) fn play(mut self) {
        for _ in 0..CALLS {
            if self.node == self.nodes {
                return;
            }
            self.step();
        }
        if self.odds(2) {
            self.exec();
        }
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn odds(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn step(&mut self) {
        match self.below(100) {
            0..4 => self.open(),
            4..6 => self.duplicate(),
            6..9 => self.close(),
            9..14 => self.map(),
            14..15 if self.forks && self.odds(4) => self.fork(),
            15..17 => self.unmap(),
            _ => self.ioctl(),
        }
    }

    /// A descriptor that is open, mostly.
    fn file(&mut self) -> i32 {
        if self.files.is_empty() {
            self.open();
        }
        if self.files.is_empty() || self.odds(60) {
            return [-1, 959, 960, 1023, 1024, i32::MAX][self.below(6)];
        }
        let which = self.below(self.files.len());
        self.files[which]
    }

    fn open(&mut self) {
        if self.files.len() == FILES {
            return;
        }
        let modes = [
            libc::O_RDWR,
            libc::O_RDWR | libc::O_CLOEXEC,
            libc::O_RDWR,
            libc::O_WRONLY,
            libc::O_RDONLY,
            3,
            libc::O_PATH,
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC,
        ];
        let flags = modes[self.below(modes.len())];
        let number = if self.odds(12) {
            let wild = self.next();
            [self.nodes, u32::MAX, wild as u32][self.below(3)]
        } else {
            self.node
        };
        // What is no node is a file of the machine's, which is not to be made.
        let flags = if number == self.node {
            flags
        } else {
            flags & !libc::O_CREAT
        };
        let path = CString::new(format!("/dev/neuron{number}")).unwrap();
        let wild = self.pointer() as usize;
        let address = if self.odds(20) {
            wild
        } else {
            path.as_ptr().expose_provenance()
        };
        // Through the system call's own function: the pointer need not be one.
        // SAFETY: the kernel checks the address.
        let number = unsafe {
            libc::openat(
                libc::AT_FDCWD,
                std::ptr::with_exposed_provenance(address),
                flags,
                0o600,
            )
        };
        self.remember(number);
    }

    fn remember(&mut self, number: i32) {
        if number >= 0 {
            self.files.push(number);
        } else if self.files.is_empty() && nix::errno::Errno::last_raw() == libc::EIO {
            self.node += 1;
        }
    }

    fn duplicate(&mut self) {
        if self.files.len() == FILES {
            return;
        }
        let from = self.file();
        let least = [0, 500, 960, 1023, 1024, -1, i32::MAX][self.below(7)];
        // SAFETY: descriptors only; those that are replaced are of this client, or free.
        let number = unsafe {
            match self.below(6) {
                0 => libc::dup(from),
                1 => libc::fcntl(from, libc::F_DUPFD, least),
                2 => libc::fcntl(from, libc::F_DUPFD_CLOEXEC, least),
                3 => libc::dup2(from, from),
                4 => libc::dup3(from, from, libc::O_CLOEXEC),
                _ => libc::dup3(from, 970, i32::MAX),
            }
        };
        if number != from {
            self.remember(number);
        }
    }

    fn close(&mut self) {
        let file = self.file();
        // CAST: bits.
        let number = file as u32;
        // SAFETY: descriptors of this client, or none.
        unsafe {
            match self.below(6) {
                0 => libc::syscall(libc::SYS_close_range, number, number, 0),
                1 => libc::syscall(libc::SYS_close_range, u32::MAX, number, 0),
                2 => libc::syscall(libc::SYS_close_range, number, number, u32::MAX),
                _ => libc::close(file).into(),
            }
        };
        // SAFETY: asks for a flag.
        self.files
            .retain(|file| unsafe { libc::fcntl(*file, libc::F_GETFD) } >= 0);
    }

    fn map(&mut self) {
        if self.mappings.len() == FILES {
            return;
        }
        let file = self.file();
        let length = self.number() as usize;
        let offset = self.number();
        let protection = self.below(8) as i32;
        let flags = [
            libc::MAP_SHARED,
            libc::MAP_SHARED,
            libc::MAP_SHARED_VALIDATE,
            libc::MAP_PRIVATE,
            0,
        ];
        let flags = flags[self.below(flags.len())];
        // SAFETY: the kernel chooses a place that nothing else has.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                file,
                offset.cast_signed(),
            )
        };
        if at != libc::MAP_FAILED {
            self.mappings.push((at, length));
        }
    }

    fn unmap(&mut self) {
        if let Some((at, length)) = self.mappings.pop() {
            // SAFETY: it was mapped by `map`, and no reference into it exists.
            unsafe { libc::munmap(at, length) };
        }
    }

    /// A child has what this has, for some calls.
    fn fork(&mut self) {
        let _ = self.file();
        // SAFETY: the child makes system calls, and ends without what the parent would do at its end.
        let child = unsafe { libc::fork() };
        match child {
            0 => {
                self.random ^= 0x5555;
                for _ in 0..CALLS_OF_A_CHILD {
                    self.ioctl();
                    self.close();
                }
                // SAFETY: ends.
                unsafe { libc::_exit(0) }
            }
            child if child > 0 => {
                let mut status = 0;
                // SAFETY: the kernel writes the status.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0, "the child");
            }
            _ => {}
        }
    }

    fn exec(&self) {
        let path = c"/bin/true".as_ptr();
        let arguments = [path, std::ptr::null()];
        // SAFETY: text that ends, and a list that does.
        unsafe { libc::execv(path, arguments.as_ptr()) };
    }

    fn ioctl(&mut self) {
        let file = self.file();
        let row = &ALL[self.below(ALL.len())];
        let mut request = row.request();
        if self.odds(20) {
            request ^= 1 << self.below(32);
        }
        let bytes = self.argument(row);
        let address = if self.odds(20) {
            self.pointer()
        } else {
            self.place(&bytes)
        };
        let command = request.into();
        // SAFETY: whoever serves the call copies to and from pages that are for that, or fails.
        let answer = unsafe { libc::ioctl(file, command, address as usize) };
        if answer < 0 && nix::errno::Errno::last_raw() == libc::EIO {
            self.leave();
        }
    }

    /// The device is dead: on to the next.
    fn leave(&mut self) {
        for file in self.files.drain(..) {
            // SAFETY: a descriptor of this client.
            unsafe { libc::close(file) };
        }
        self.node += 1;
    }

    /// Puts an argument into the arena: sometimes its last byte is the arena's.
    fn place(&mut self, bytes: &[u8]) -> u64 {
        let last = ARENA - bytes.len();
        let at = if self.odds(4) {
            last
        } else {
            self.below(last) & !7
        };
        // SAFETY: within the arena.
        let to = unsafe { self.arena.add(at) };
        // SAFETY: the arena is writable, that far, and nobody else uses it now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        to.expose_provenance() as u64
    }

    fn argument(&mut self, row: &Ioctl) -> Vec<u8> {
        let (size, layout) = match row.argument {
            Argument::Struct(layout) => (layout.size, Some(layout)),
            Argument::Entries { head, entry } => (head.size + 3 * entry.size, Some(head)),
            other => (other.size().max(64), None),
        };
        let mut bytes = vec![0; size];
        let mut at = 0;
        while at < size {
            let field = layout.and_then(|layout| layout.fields.iter().find(|f| f.offset == at));
            let width = field.map_or(4, |field| field.size).min(8).min(size - at);
            let is_pointer = row.pointers().iter().any(|pointer| pointer.field == at);
            let value = if is_pointer {
                self.pointer()
            } else {
                self.number()
            };
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            at += width;
        }
        bytes
    }

    /// A number that is small, at an edge, or one that the driver has given.
    fn number(&mut self) -> u64 {
        match self.below(10) {
            0..5 => self.below(9) as u64,
            5..8 => EDGES[self.below(EDGES.len())],
            8 => {
                let at = self.below(ARENA / 8);
                // SAFETY: within the arena, and aligned.
                unsafe { self.arena.cast::<u64>().add(at).read_volatile() }
            }
            _ => self.below(1 << 22) as u64 & !63,
        }
    }

    /// An address in the arena, mostly.
    fn pointer(&mut self) -> u64 {
        let arena = self.arena.expose_provenance();
        let address = match self.below(16) {
            0 => 0,
            1 => 8,
            2 => self.read_only,
            3 => arena + ARENA - 1 - self.below(64),
            4 => arena + ARENA,
            5 => usize::MAX - self.below(64),
            6 => 0xFFFF_8000_0000_0000,
            7 => arena + self.below(ARENA),
            _ => arena + (self.below(ARENA) & !7),
        };
        address as u64
    }
}
