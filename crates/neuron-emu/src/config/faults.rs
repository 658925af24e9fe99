//! What goes wrong in the driver, and when. What goes wrong with the hardware is the machine's own plan.
//!
//! Spec `driver_emulation.md` section 5, faults. As text, for a command line: a name, then conditions.
//!
//! ```
//! use neuron_emu::config::{DriverFault, DriverRule};
//!
//! let rule: DriverRule = "no-memory:from=3,times=1".parse()?;
//! assert_eq!((rule.fault, rule.from, rule.times), (DriverFault::NoMemory, 3, Some(1)));
//! assert_eq!(rule.to_string(), "no-memory:from=3,times=1");
//! # Ok::<(), neuron_emu::config::RuleError>(())
//! ```

use std::fmt;
use std::str::FromStr;

/// One fault of the driver and when it happens. Occasions are counted from 0, for each device, since the rule is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverRule {
    /// What.
    pub fault: DriverFault,
    /// Only on this device; on every one by default.
    pub node: Option<u32>,
    /// Not before this occasion.
    pub from: u64,
    /// Then at every occasion, every second one, and so on; 1 by default, and 0 is taken for 1.
    pub every: u64,
    /// At most so often on each device; without end by default.
    pub times: Option<u64>,
}

impl DriverRule {
    /// A fault at every occasion.
    #[must_use]
    pub const fn always(fault: DriverFault) -> Self {
        Self {
            fault,
            node: None,
            from: 0,
            every: 1,
            times: None,
        }
    }

    /// A fault at one occasion, counted from 0.
    #[must_use]
    pub const fn once(fault: DriverFault, from: u64) -> Self {
        Self {
            from,
            times: Some(1),
            ..Self::always(fault)
        }
    }
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What goes wrong in the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DriverFault {
            $($(#[$doc])* $name,)*
        }

        impl DriverFault {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name in text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    /// An open that attaches finds all slots taken: EBUSY.
    BusyOpen = "busy-open",
    /// A range mark finds no free cores: EBUSY.
    BusyMark = "busy-mark",
    /// An allocation cannot be satisfied: ENOMEM.
    NoMemory = "no-memory",
    /// Host memory comes from the reserve pool: it holds what was there before.
    ReservePool = "reserve-pool",
    /// A copy times out: EPERM.
    CopyTimeout = "copy-timeout",
    /// A signal comes while a call waits.
    Interrupted = "interrupted",
    /// A reset fails, and the device is invalid.
    ResetFails = "reset-fails",
    /// Another process is about to initialise the core; it takes [`Waits::elsewhere`](super::Waits::elsewhere).
    InitElsewhere = "init-elsewhere",
    /// The device is pulled out, before this ioctl: ENODEV from then on.
    Removed = "removed",
}

/// Text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("driver fault {text:?}: {wrong}")]
pub struct RuleError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub wrong: String,
}

impl FromStr for DriverRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = |wrong: String| RuleError {
            text: text.to_owned(),
            wrong,
        };
        let (name, conditions) = text.split_once(':').unwrap_or((text, ""));
        let known = |fault: &&DriverFault| fault.name() == name;
        let fault = DriverFault::ALL.iter().find(known).ok_or_else(|| {
            let names: Vec<_> = DriverFault::ALL.iter().map(|f| f.name()).collect();
            wrong(format!("{name:?} is none of {}", names.join(", ")))
        })?;
        let mut rule = Self::always(*fault);
        for condition in conditions.split(',').filter(|part| !part.is_empty()) {
            rule.add(condition).map_err(wrong)?;
        }
        Ok(rule)
    }
}

impl DriverRule {
    fn add(&mut self, condition: &str) -> Result<(), String> {
        let (key, value) = condition.split_once('=').ok_or("expected key=number")?;
        let number: u64 = value
            .parse()
            .map_err(|_| format!("{value:?} is no number"))?;
        match key {
            "from" => self.from = number,
            "every" => self.every = number,
            "times" => self.times = Some(number),
            "node" => {
                let node = u32::try_from(number).map_err(|_| format!("no device {number}"))?;
                self.node = Some(node);
            }
            _ => return Err(format!("{key:?} is none of from, every, times, node")),
        }
        Ok(())
    }
}

impl fmt::Display for DriverRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.name())?;
        let conditions = [
            (self.from > 0).then(|| format!("from={}", self.from)),
            (self.every > 1).then(|| format!("every={}", self.every)),
            self.times.map(|times| format!("times={times}")),
            self.node.map(|node| format!("node={node}")),
        ];
        for (index, condition) in conditions.iter().flatten().enumerate() {
            write!(f, "{}{condition}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_survives_its_text() {
        for fault in DriverFault::ALL {
            let rule = DriverRule {
                fault: *fault,
                node: Some(1),
                from: 7,
                every: 2,
                times: Some(3),
            };
            assert_eq!(rule.to_string().parse(), Ok(rule));
            let always = DriverRule::always(*fault);
            assert_eq!(always.to_string(), fault.name());
            assert_eq!(always.to_string().parse(), Ok(always));
        }
    }

    #[test]
    fn text_that_is_no_rule_is_named() {
        for text in [
            "",
            "nothing",
            "no-memory:3",
            "no-memory:from=x",
            "no-memory:node=4294967296",
            "no-memory:core=1",
        ] {
            let refused = text.parse::<DriverRule>().unwrap_err();
            assert_eq!(refused.text, text);
        }
    }
}
