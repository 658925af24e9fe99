//! The inventory as Markdown tables, for a reader.

use super::{GROUPS, STRUCTS, TARGET, Value};
use crate::Status;
use crate::env::{BadValue, VARIABLES};
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
        structs(f)?;
        constants(f)?;
        statuses(f)?;
        counters(f)?;
        environment(f)
    }
}

fn structs(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n## Structs")?;
    for layout in STRUCTS {
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

fn constants(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n## Constants")?;
    for group in GROUPS {
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
