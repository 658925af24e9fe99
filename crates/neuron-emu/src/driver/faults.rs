//! Whether something goes wrong this time, as the plan has it.
//!
//! Asked by whoever does what can go wrong, once for each occasion.

use super::call::{Failure, Handled};
use super::system::System;
use super::trace::Event;
use crate::config::{DriverFault, DriverRule};
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::driver::errno;

/// The rules of one device.
#[derive(Debug)]
pub(super) struct Faults {
    node: u32,
    system: Arc<System>,
    rules: Mutex<Vec<Armed>>,
}

/// A rule, and how often it was asked and has fired.
#[derive(Debug)]
struct Armed {
    rule: DriverRule,
    asked: u64,
    fired: u64,
}

impl Faults {
    pub(super) fn new(system: &Arc<System>, node: u32) -> Self {
        let faults = Self {
            node,
            system: Arc::clone(system),
            rules: Mutex::default(),
        };
        for rule in &system.config.driver_faults {
            faults.add(*rule);
        }
        faults
    }

    /// One more rule, unless it is for another device.
    pub(super) fn add(&self, rule: DriverRule) {
        if rule.node.is_none_or(|node| node == self.node) {
            self.rules.lock().push(Armed {
                rule,
                asked: 0,
                fired: 0,
            });
        }
    }

    /// Whether this fault happens, on this occasion. Every rule counts it.
    pub(super) fn happens(&self, fault: DriverFault, pid: u32) -> bool {
        let mut happens = false;
        for armed in self.rules.lock().iter_mut() {
            happens |= armed.rule.fault == fault && armed.fires();
        }
        if happens {
            self.system
                .record(pid, Some(self.node), Event::Fault(fault));
        }
        happens
    }

    /// An allocation is about to be made.
    pub(super) fn allocation(&self) -> Handled {
        self.fails(DriverFault::NoMemory, errno::ENOMEM)
    }

    /// A copy is about to be made.
    pub(super) fn copy(&self) -> Handled {
        self.fails(DriverFault::CopyTimeout, errno::EPERM)
    }

    fn fails(&self, fault: DriverFault, errno: i32) -> Handled {
        if self.happens(fault, 0) {
            return Err(Failure::Errno(errno));
        }
        Ok(())
    }
}

impl Armed {
    fn fires(&mut self) -> bool {
        let since = self.asked.checked_sub(self.rule.from);
        self.asked += 1;
        let due = since.is_some_and(|since| since % self.rule.every.max(1) == 0);
        let left = self.rule.times.is_none_or(|times| self.fired < times);
        let fires = due && left;
        self.fired += u64::from(fires);
        fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(rule: DriverRule) -> Vec<usize> {
        let mut armed = Armed {
            rule,
            asked: 0,
            fired: 0,
        };
        (0..8).filter(|_| armed.fires()).collect()
    }

    #[test]
    fn a_rule_fires_from_an_occasion_on_every_nth_and_so_often() {
        let always = DriverRule::always(DriverFault::NoMemory);
        assert_eq!(fired(always).len(), 8);
        assert_eq!(fired(DriverRule::once(DriverFault::NoMemory, 3)), [3]);
        let rule = DriverRule {
            from: 1,
            every: 3,
            times: Some(2),
            ..always
        };
        assert_eq!(fired(rule), [1, 4]);
        assert_eq!(fired(DriverRule { every: 0, ..always }).len(), 8);
    }
}
