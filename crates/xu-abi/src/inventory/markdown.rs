//! The inventory as Markdown tables, for a reader.

use super::{DRIVER_GROUPS, DRIVER_STRUCTS, DRIVER_TARGET, GROUPS, Group, STRUCTS, TARGET, Value};
use crate::Status;
use crate::driver::{ioctl, unverified};
use crate::env::{BadValue, VARIABLES};
use crate::layout::StructLayout;
use crate::metric::{CoreCounter, DeviceCounter, ErrorFlag, Latency};
use core::fmt::{self, Display};

/// Prints the whole inventory as a page of Markdown, the same on every run and machine.
#[derive(Clone, Copy, Debug)]
pub struct Markdown;

impl Display for Markdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# The ABI in tables\n")?;
        writeln!(
            f,
            "Written by `cargo xtask abi --write` from the crate `xu-abi`; not by hand."
        )?;
        writeln!(f, "`cargo xtask verify` compares it with the code.")?;
        writeln!(f, "`abi.json` beside it says the same to programs.\n")?;
        writeln!(f, "Target: {TARGET}.")?;
        writeln!(f, "Offsets and sizes are in bytes.")?;
        writeln!(f, "\n## Structs")?;
        structs(f, STRUCTS)?;
        writeln!(f, "\n## Constants")?;
        constants(f, GROUPS)?;
        statuses(f)?;
        counters(f)?;
        environment(f)?;
        driver(f)
    }
}

fn structs(f: &mut fmt::Formatter<'_>, all: &[StructLayout]) -> fmt::Result {
    for layout in all {
        writeln!(
            f,
            "\n### `{}`: {} bytes, align {}\n",
            layout.name, layout.size, layout.align
        )?;
        writeln!(f, "`{}`, {}.\n", layout.original, layout.spec)?;
        writeln!(f, "| offset | size | field |\n|---|---|---|")?;
        for field in layout.fields {
            writeln!(
                f,
                "| {:#05x} | {} | `{}` |",
                field.offset, field.size, field.name
            )?;
        }
    }
    Ok(())
}

fn constants(f: &mut fmt::Formatter<'_>, groups: &[Group]) -> fmt::Result {
    for group in groups {
        writeln!(f, "\n### {}\n\n{}.\n", group.title, group.spec)?;
        writeln!(f, "| constant | value |\n|---|---|")?;
        for constant in group.constants {
            match constant.value {
                Value::Decimal(number) => writeln!(f, "| `{}` | {number} |", constant.name)?,
                Value::Hex(word) => writeln!(f, "| `{}` | {word:#x} |", constant.name)?,
            }
        }
    }
    Ok(())
}

fn statuses(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n## Statuses\n\nxu.md 2.11 and 7.\n")?;
    writeln!(
        f,
        "| status | value | priority | counter |\n|---|---|---|---|"
    )?;
    for status in Status::NAMED {
        let (name, value) = (status.name().unwrap_or_default(), status.raw());
        write!(f, "| `{name}` | {value} | {} | ", status.priority() as u8)?;
        match CoreCounter::of_status(*status) {
            Some(counter) => writeln!(f, "{} |", counter.ordinal())?,
            None => writeln!(f, "- |")?,
        }
    }
    Ok(())
}

fn counters(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n## Counters of a core\n\nxu.md 7, driver.md 9.\n")?;
    writeln!(
        f,
        "| ordinal | counter | offset for core 0 | offset for core 4 |\n|---|---|---|---|"
    )?;
    for counter in CoreCounter::NAMED {
        let place = |core| counter.datastore_offset(core).unwrap_or_default();
        let (prefix, name) = (counter.prefix(), counter.name().unwrap_or_default());
        writeln!(
            f,
            "| {} | `{prefix}{name}` | {} | {} |",
            counter.ordinal(),
            place(0),
            place(4)
        )?;
    }
    writeln!(f, "\n| reported | counter |\n|---|---|")?;
    for flag in ErrorFlag::all() {
        if let Some(counter) = flag.counter() {
            writeln!(f, "| error flag {} | {} |", flag.index(), counter.ordinal())?;
        }
    }
    for latency in Latency::ALL {
        writeln!(
            f,
            "| {latency:?} latency, µs | {} |",
            latency.counter().ordinal()
        )?;
    }
    writeln!(f, "\n## Counters of a device\n\ndriver.md 9.\n")?;
    writeln!(f, "| ordinal | counter | offset |\n|---|---|---|")?;
    for counter in DeviceCounter::NAMED {
        let (ordinal, name) = (counter.ordinal(), counter.name().unwrap_or_default());
        writeln!(
            f,
            "| {ordinal} | `{name}` | {} |",
            counter.datastore_offset()
        )?;
    }
    Ok(())
}

fn environment(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n## Environment variables\n\nenv.md 2 to 8.")?;
    writeln!(
        f,
        "Support: F full, P partly, A accepted without effect, R removed."
    )?;
    writeln!(
        f,
        "It is what the specification demands, and not how far the implementation is."
    )?;
    writeln!(
        f,
        "A bad value of a strict variable is refused, of any other adjusted with a warning.\n"
    )?;
    writeln!(
        f,
        "| variable | default | allowed | support | strict | section |\n|---|---|---|---|---|---|"
    )?;
    for variable in VARIABLES {
        let strict = match variable.bad_value {
            BadValue::Refused => "yes",
            BadValue::Adjusted => "no",
        };
        write!(
            f,
            "| `{}` | {} | {} ",
            variable.name, variable.preset, variable.domain
        )?;
        writeln!(
            f,
            "| {} | {strict} | {} |",
            variable.support.letter(),
            variable.section
        )?;
    }
    Ok(())
}

fn driver(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n## Ioctls of the driver\n\ndriver.md 2.")?;
    writeln!(f, "Target: {DRIVER_TARGET}.\n")?;
    writeln!(
        f,
        "M: also on a descriptor that was opened for writing only. G: refused to a process that is not attached."
    )?;
    writeln!(
        f,
        "Direction and encoded size are bits of the request, and do not say what the driver reads and writes.\n"
    )?;
    writeln!(
        f,
        "| ioctl | number | direction | encoded size | request | argument | bytes | flags |\n|---|---|---|---|---|---|---|---|"
    )?;
    for ioctl in ioctl::ALL {
        let (name, number, request) = (ioctl.name, ioctl.number, ioctl.request());
        let (direction, encoded) = (ioctl.direction as u8, ioctl.encoded_size);
        let (argument, bytes) = (ioctl.argument.name(), ioctl.argument.size());
        let flags = match (ioctl.misc, ioctl.gated) {
            (true, true) => "M G",
            (true, false) => "M",
            (false, true) => "G",
            (false, false) => "-",
        };
        write!(f, "| `{name}` | {number} | {direction} | {encoded} | ")?;
        writeln!(f, "{request:#010x} | `{argument}` | {bytes} | {flags} |")?;
    }
    writeln!(f, "\n## Arguments of the ioctls\n\ndriver.md 3.")?;
    structs(f, DRIVER_STRUCTS)?;
    writeln!(f, "\n## Constants of the driver")?;
    constants(f, DRIVER_GROUPS)?;
    writeln!(
        f,
        "\n## Not verified\n\nNumbers that no driver source of this version confirms.\n"
    )?;
    writeln!(
        f,
        "| constant | value | standing | spec | meaning |\n|---|---|---|---|---|"
    )?;
    for number in unverified::TABLE {
        write!(f, "| `{}` | {:#x} | ", number.name, number.value)?;
        writeln!(
            f,
            "{} | {} | {} |",
            number.standing.name(),
            number.spec,
            number.meaning
        )?;
    }
    Ok(())
}
