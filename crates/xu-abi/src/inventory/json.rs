//! The inventory as JSON: one line per entry, so that a difference is a line.

use super::{DRIVER_GROUPS, DRIVER_STRUCTS, DRIVER_TARGET, GROUPS, Group, STRUCTS, TARGET, Value};
use crate::Status;
use crate::driver::ioctl::{self, Ioctl};
use crate::driver::unverified::{self, Unverified};
use crate::env::{BadValue, VARIABLES, Variable};
use crate::layout::StructLayout;
use crate::metric::{CoreCounter, DeviceCounter, ErrorFlag};
use core::fmt::{self, Display, Write};

/// Prints the whole inventory as one JSON object, the same on every run and machine.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{{")?;
        writeln!(f, "  \"target\": {},", Text(&TARGET))?;
        list(f, "structs", STRUCTS, one_struct)?;
        list(f, "constants", GROUPS, group)?;
        list(f, "statuses", Status::NAMED, |f, status| {
            let priority = status.priority() as u8;
            write!(
                f,
                "{{ \"name\": {}, \"value\": {}, ",
                Name(status.name()),
                status.raw()
            )?;
            write!(f, "\"priority\": {priority}, \"counter\": ")?;
            counter(f, CoreCounter::of_status(*status))?;
            f.write_str(" }")
        })?;
        list(f, "core_counters", CoreCounter::NAMED, |f, counter| {
            let (name, ordinal) = (Name(counter.name()), counter.ordinal());
            write!(f, "{{ \"name\": {name}, \"ordinal\": {ordinal} }}")
        })?;
        list(f, "device_counters", DeviceCounter::NAMED, |f, counter| {
            let (name, ordinal) = (Name(counter.name()), counter.ordinal());
            write!(f, "{{ \"name\": {name}, \"ordinal\": {ordinal} }}")
        })?;
        write!(f, "  \"error_flag_counters\": [")?;
        for flag in ErrorFlag::all() {
            let comma = if flag.index() == 0 { "" } else { ", " };
            f.write_str(comma)?;
            counter(f, flag.counter())?;
        }
        writeln!(f, "],")?;
        list(f, "environment", VARIABLES, variable)?;
        writeln!(f, "  \"driver_target\": {},", Text(&DRIVER_TARGET))?;
        list(f, "ioctls", ioctl::ALL, one_ioctl)?;
        list(f, "driver_structs", DRIVER_STRUCTS, one_struct)?;
        list(f, "driver_constants", DRIVER_GROUPS, group)?;
        array(f, "unverified", unverified::TABLE, one_unverified)?;
        writeln!(f, "\n}}")
    }
}

/// Prints one entry of a list.
type Entry<T> = fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result;

fn list<T>(f: &mut fmt::Formatter<'_>, key: &str, all: &[T], entry: Entry<T>) -> fmt::Result {
    array(f, key, all, entry)?;
    writeln!(f, ",")
}

fn array<T>(f: &mut fmt::Formatter<'_>, key: &str, all: &[T], entry: Entry<T>) -> fmt::Result {
    write!(f, "  \"{key}\": [")?;
    for (index, one) in all.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}\n    ")?;
        entry(f, one)?;
    }
    write!(f, "\n  ]")
}

fn one_struct(f: &mut fmt::Formatter<'_>, layout: &StructLayout) -> fmt::Result {
    let (name, original) = (Text(&layout.name), Text(&layout.original));
    write!(
        f,
        "{{ \"name\": {name}, \"original\": {original}, \"spec\": {}, ",
        Text(&layout.spec)
    )?;
    write!(
        f,
        "\"size\": {}, \"align\": {}, \"fields\": [",
        layout.size, layout.align
    )?;
    for (index, field) in layout.fields.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}\n      {{ \"name\": {}, ", Text(&field.name))?;
        write!(
            f,
            "\"offset\": {}, \"size\": {}, ",
            field.offset, field.size
        )?;
        write!(f, "\"padding\": {} }}", field.is_padding())?;
    }
    write!(f, "\n    ] }}")
}

fn group(f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    write!(
        f,
        "{{ \"title\": {}, \"spec\": {}, ",
        Text(&group.title),
        Text(&group.spec)
    )?;
    write!(f, "\"values\": [")?;
    for (index, constant) in group.constants.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(
            f,
            "{comma}\n      {{ \"name\": {}, \"value\": ",
            Text(&constant.name)
        )?;
        match constant.value {
            Value::Decimal(number) => number.fmt(f)?,
            Value::Hex(word) => word.fmt(f)?,
        }
        f.write_str(" }")?;
    }
    write!(f, "\n    ] }}")
}

fn one_ioctl(f: &mut fmt::Formatter<'_>, ioctl: &Ioctl) -> fmt::Result {
    let (name, number, request) = (ioctl.name, ioctl.number, ioctl.request());
    write!(
        f,
        "{{ \"name\": \"{name}\", \"number\": {number}, \"direction\": {}, ",
        ioctl.direction as u8
    )?;
    write!(
        f,
        "\"encoded_size\": {}, \"request\": {request}, \"argument\": {}, ",
        ioctl.encoded_size,
        Text(&ioctl.argument.name())
    )?;
    write!(
        f,
        "\"argument_size\": {}, \"misc\": {}, \"gated\": {} }}",
        ioctl.argument.size(),
        ioctl.misc,
        ioctl.gated
    )
}

fn one_unverified(f: &mut fmt::Formatter<'_>, number: &Unverified) -> fmt::Result {
    write!(
        f,
        "{{ \"name\": {}, \"value\": {}, ",
        Text(&number.name),
        number.value
    )?;
    write!(
        f,
        "\"standing\": {}, \"spec\": {}, ",
        Text(&number.standing.name()),
        Text(&number.spec)
    )?;
    write!(f, "\"meaning\": {} }}", Text(&number.meaning))
}

fn counter(f: &mut fmt::Formatter<'_>, counter: Option<CoreCounter>) -> fmt::Result {
    match counter {
        Some(counter) => counter.ordinal().fmt(f),
        None => f.write_str("null"),
    }
}

fn variable(f: &mut fmt::Formatter<'_>, variable: &Variable) -> fmt::Result {
    let Variable {
        name,
        preset,
        domain,
        support,
        bad_value,
        section,
    } = variable;
    write!(
        f,
        "{{ \"name\": {}, \"default\": {}, ",
        Text(name),
        Text(preset)
    )?;
    write!(
        f,
        "\"allowed\": {}, \"support\": \"{}\", ",
        Text(domain),
        support.letter()
    )?;
    let strict = matches!(bad_value, BadValue::Refused);
    write!(f, "\"strict\": {strict}, \"section\": {section} }}")
}

/// A string of JSON.
struct Text<'a>(&'a dyn Display);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        write!(Escaping(f), "{}", self.0)?;
        f.write_char('"')
    }
}

/// A name, or null.
struct Name(Option<&'static str>);

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => Text(name).fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// Writes what may not stand in a string of JSON as an escape.
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '"' => self.0.write_str("\\\"")?,
                '\\' => self.0.write_str("\\\\")?,
                control if control < ' ' => write!(self.0, "\\u{:04x}", u32::from(control))?,
                plain => self.0.write_char(plain)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn what_may_not_stand_in_a_string_is_escaped() {
        assert_eq!(Text(&"a\"b\\c\nd").to_string(), r#""a\"b\\c\u000ad""#);
        assert_eq!(Text(&"Größe 3 µs").to_string(), "\"Größe 3 µs\"");
        assert_eq!(Name(None).to_string(), "null");
    }
}
