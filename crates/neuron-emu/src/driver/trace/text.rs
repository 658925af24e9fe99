//! A trace as text, a line for each entry: `neuron-emu --trace`.
//!
//! ```text
//!   12 4711 0 SEMAPHORE_INCREMENT 0x80084e29 file 2 000000000000000001000000 = done
//!   |  |    | |                                      '- the argument, as the bytes lie in memory
//!   |  |    | '- what happened
//!   |  |    '- the device, or -
//!   |  '- the process
//!   '- its place among all that happened
//! ```

use super::{Event, Traced};
use crate::driver::{AccessMode, MapRequest};
use std::fmt::{Display, Formatter, Result};
use xu_abi::driver::errno::{self, Answer};

impl Display for Traced {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} ", self.sequence, self.pid)?;
        match self.node {
            Some(node) => write!(f, "{node} {}", self.event),
            None => write!(f, "- {}", self.event),
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Open { mode, answer } => match answer {
                Ok(file) => write!(f, "open {} = file {}", flag(*mode), file.0),
                Err(number) => write!(f, "open {} = {}", flag(*mode), Number(*number)),
            },
            Self::Duplicated(file) => write!(f, "duplicate file {}", file.0),
            Self::Close(file) => write!(f, "close file {}", file.0),
            Self::Exited => f.write_str("exit"),
            Self::Ioctl {
                file,
                request,
                name,
                argument,
                written,
                answer,
            } => {
                let name = name.unwrap_or("ioctl");
                write!(f, "{name} {request:#x} file {}", file.0)?;
                if !argument.is_empty() {
                    write!(f, " {}", Bytes(argument))?;
                }
                if !written.is_empty() {
                    write!(f, " wrote {}", Bytes(written))?;
                }
                match answer {
                    Answer::Done => f.write_str(" = done"),
                    Answer::Positive(number) => write!(f, " = +{number}"),
                    Answer::Errno(number) => write!(f, " = {}", Number(*number)),
                }
            }
            Self::Register { offset, value } => write!(f, "register {offset:#x} = {value:#x}"),
            Self::Map {
                file,
                request,
                answer,
            } => {
                write!(f, "mmap file {} {request} = ", file.0)?;
                match answer {
                    Ok(true) => f.write_str("done"),
                    Ok(false) => f.write_str("read only"),
                    Err(number) => write!(f, "{}", Number(*number)),
                }
            }
            Self::Warning(text) => write!(f, "warning: {}", text.escape_debug()),
            Self::Printed(text) => write!(f, "printed: {}", text.escape_debug()),
            Self::Fault(fault) => write!(f, "fault: {}", fault.name()),
            Self::Bug(bug) => write!(f, "{bug}"),
        }
    }
}

impl Display for MapRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:#x} {} bytes", self.offset, self.bytes)?;
        f.write_str(if self.writable { " writable" } else { "" })?;
        f.write_str(if self.shared { " shared" } else { "" })
    }
}

/// As open(2) has it.
fn flag(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::ReadOnly => "O_RDONLY",
        AccessMode::WriteOnly => "O_WRONLY",
        AccessMode::ReadWrite => "O_RDWR",
    }
}

/// An error number.
struct Number(i32);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match errno::name(self.0) {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "error number {}", self.0),
        }
    }
}

/// Bytes, two digits each.
struct Bytes<'b>(&'b [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DriverFault;
    use crate::driver::FileId;

    fn line(event: Event) -> String {
        let traced = Traced {
            sequence: 12,
            pid: 4711,
            node: Some(0),
            event,
        };
        traced.to_string()
    }

    #[test]
    fn every_entry_is_one_line() {
        let ioctl = Event::Ioctl {
            file: FileId(2),
            request: 0x8008_4e29,
            name: Some("SEMAPHORE_INCREMENT"),
            argument: vec![0, 1, 0xFF],
            written: vec![7],
            answer: Answer::Errno(22),
        };
        assert_eq!(
            line(ioctl),
            "12 4711 0 SEMAPHORE_INCREMENT 0x80084e29 file 2 0001ff wrote 07 = EINVAL (22)"
        );
        let open = |answer| Event::Open {
            mode: AccessMode::WriteOnly,
            answer,
        };
        let map = Event::Map {
            file: FileId(2),
            request: MapRequest {
                offset: 0x1000,
                bytes: 4096,
                writable: true,
                shared: true,
            },
            answer: Ok(true),
        };
        for (event, text) in [
            (open(Ok(FileId(3))), "open O_WRONLY = file 3"),
            (open(Err(9999)), "open O_WRONLY = error number 9999"),
            (map, "mmap file 2 0x1000 4096 bytes writable shared = done"),
            (Event::Printed("a\nb".into()), "printed: a\\nb"),
            (Event::Fault(DriverFault::NoMemory), "fault: no-memory"),
            (
                Event::Register {
                    offset: 0x10,
                    value: 0x20,
                },
                "register 0x10 = 0x20",
            ),
        ] {
            assert_eq!(line(event), format!("12 4711 0 {text}"));
        }
        let nobody = Traced {
            sequence: 0,
            pid: 1,
            node: None,
            event: Event::Exited,
        };
        assert_eq!(nobody.to_string(), "0 1 - exit");
    }
}
