//! What is emulated and where its nodes are, as words of text: options of the command, and what it passes to the preloaded
//! library.
//!
//! ```
//! use neuron_emu::Settings;
//!
//! let mut settings = Settings::default();
//! settings.set("devices", "2")?;
//! settings.set("hbm-bytes", "64MiB")?;
//! assert_eq!(settings.config().hbm_bytes, 64 << 20);
//! assert_eq!(Settings::from_text(&settings.to_text())?, settings);
//! assert!(settings.set("colour", "red").is_err());
//! # Ok::<(), neuron_emu::SettingError>(())
//! ```

use crate::config::Config;
use crate::seccomp::DEVICES;
use std::path::{Path, PathBuf};
use xu_abi::driver::Arch;
use xu_device::simulated::FaultPlan;

/// What is emulated, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    config: Config,
    directory: PathBuf,
    /// What was set, in order.
    words: Vec<(String, String)>,
}

/// A word that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {value:?} is not allowed: {wrong}")]
pub struct SettingError {
    /// Which.
    pub key: String,
    /// The value.
    pub value: String,
    /// What is wrong with it.
    pub wrong: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: Config::default(),
            directory: DEVICES.into(),
            words: Vec::new(),
        }
    }
}

impl Settings {
    /// Keys, each with what it takes.
    pub const KEYS: &'static [(&'static str, &'static str)] = &[
        ("arch", "v2 or v3 (default v2)"),
        ("devices", "how many, 1 to 16 (default 1)"),
        ("hbm-bytes", "of each memory of a device (default 1GiB)"),
        (
            "host-bytes",
            "host memory of each device that chunks are made of (default 256MiB)",
        ),
        (
            "host-chunk-bytes",
            "largest piece of host memory (default 4MiB)",
        ),
        (
            "processes",
            "how many can be attached to a device, 1 to 16 (default 16)",
        ),
        ("seed", "of the order in which engines step (default 0)"),
        (
            "faults",
            "a file: the plan of the hardware's faults, as JSON (docs/machine.md)",
        ),
        (
            "driver-fault",
            "a fault of the driver and when, such as no-memory:from=3,times=1",
        ),
        (
            "dev",
            "an absolute path: the directory of the nodes (default /dev)",
        ),
    ];

    /// What is emulated.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The directory of the nodes.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sets one value. Whether values fit together is checked when the emulator starts.
    ///
    /// # Errors
    /// [`SettingError`] names key and value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let result = if value.contains('\n') {
            Err("it has more than one line".to_owned())
        } else {
            self.apply(key, value)
        };
        result.map_err(|wrong| SettingError {
            key: key.to_owned(),
            value: value.to_owned(),
            wrong,
        })?;
        self.words.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    fn apply(&mut self, key: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match key {
            "arch" => config.arch = arch(value)?,
            "devices" => config.devices = number(value)?,
            "hbm-bytes" => config.hbm_bytes = bytes(value)?,
            "host-bytes" => config.host_bytes = bytes(value)?,
            "host-chunk-bytes" => config.host_chunk_bytes = bytes(value)?,
            "processes" => config.processes = number(value)?,
            "seed" => config.seed = number(value)?,
            "faults" => config.faults = plan(Path::new(value))?,
            "driver-fault" => {
                let rule = value.parse();
                config
                    .driver_faults
                    .push(rule.map_err(|error: crate::config::RuleError| error.to_string())?);
            }
            "dev" => {
                let directory = Path::new(value);
                if !directory.is_absolute() {
                    return Err("it is not an absolute path".into());
                }
                directory.clone_into(&mut self.directory);
            }
            _ => {
                let known: Vec<_> = Self::KEYS.iter().map(|(key, _)| *key).collect();
                return Err(format!("the key is none of {}", known.join(", ")));
            }
        }
        Ok(())
    }

    /// As text: one word a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |(key, value): &(String, String)| format!("{key}={value}\n");
        self.words.iter().map(line).collect()
    }

    /// From text.
    ///
    /// # Errors
    /// [`SettingError`] of the first line that cannot be.
    pub fn from_text(text: &str) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for line in text.lines() {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            settings.set(key, value)?;
        }
        Ok(settings)
    }
}

fn arch(text: &str) -> Result<Arch, String> {
    match text {
        "v2" => Ok(Arch::V2),
        "v3" => Ok(Arch::V3),
        _ => Err("v2 or v3 is expected".into()),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String>
where
    N::Err: ToString,
{
    text.parse().map_err(|error: N::Err| error.to_string())
}

fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 3] = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, shift) = match unit {
        Some((unit, shift)) => (text.trim_end_matches(unit), *shift),
        None => (text, 0),
    };
    let count: u64 = number(digits)?;
    count
        .checked_mul(1 << shift)
        .ok_or_else(|| "it is more than 64 bits hold".into())
}

fn plan(path: &Path) -> Result<FaultPlan, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_survives_as_text() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("arch", "v3"),
            ("devices", "3"),
            ("host-bytes", "4096"),
            ("hbm-bytes", "2GiB"),
            ("host-chunk-bytes", "8KiB"),
            ("processes", "4"),
            ("seed", "7"),
            ("driver-fault", "no-memory:from=3"),
            ("driver-fault", "busy-open"),
            ("dev", "/somewhere"),
        ] {
            settings.set(key, value).unwrap();
        }
        let again = Settings::from_text(&settings.to_text()).unwrap();
        assert_eq!(again, settings);
        assert_eq!(again.config().driver_faults.len(), 2);
        assert_eq!(again.config().hbm_bytes, 2 << 30);
        assert_eq!(again.config().host_chunk_bytes, 8 << 10);
        assert_eq!(again.directory(), Path::new("/somewhere"));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (key, value) in [
            ("colour", "red"),
            ("arch", "v1"),
            ("devices", "-1"),
            ("hbm-bytes", "1MB"),
            ("hbm-bytes", "18446744073709551615GiB"),
            ("seed", ""),
            ("faults", "/no/such/file"),
            ("driver-fault", "nothing"),
            ("dev", "here"),
            ("dev", "/a\nb"),
        ] {
            let error = Settings::default().set(key, value).unwrap_err();
            assert_eq!((error.key.as_str(), error.value.as_str()), (key, value));
        }
    }
}
