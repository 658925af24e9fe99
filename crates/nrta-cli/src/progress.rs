//! The progress bar: one line on the terminal's standard error, redrawn a few times a second.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

const WIDTH: usize = 32;
const INTERVAL: Duration = Duration::from_millis(80);

/// How far a run has come.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    done: u64,
    started: Instant,
    drawn: Option<Instant>,
    visible: bool,
}

impl Progress {
    /// A bar that shows if standard error is a terminal.
    pub(crate) fn on_terminal(total: u64) -> Self {
        Self {
            visible: stderr().is_terminal(),
            ..Self::hidden(total)
        }
    }

    /// A bar that never shows.
    pub(crate) fn hidden(total: u64) -> Self {
        Self {
            total,
            done: 0,
            started: Instant::now(),
            drawn: None,
            visible: false,
        }
    }

    pub(crate) fn advance(&mut self, images: u64) {
        self.done += images;
        let due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= INTERVAL);
        if self.visible && due {
            self.drawn = Some(Instant::now());
            let line = self.line();
            // A terminal that is gone is no reason to stop.
            let _ = write!(stderr(), "\r{line}");
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if self.visible {
            let _ = write!(stderr(), "\r{:1$}\r", "", self.line().len());
        }
    }

    fn line(&self) -> String {
        let share = self.done as f64 / self.total.max(1) as f64;
        // CAST: at most WIDTH.
        let filled = ((share * WIDTH as f64) as usize).min(WIDTH);
        let rate = self.done as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        format!(
            "[{}{}] {:3.0} %  {}/{} images  {rate:.0}/s ",
            "=".repeat(filled),
            " ".repeat(WIDTH - filled),
            share * 100.0,
            self.done,
            self.total
        )
    }
}
