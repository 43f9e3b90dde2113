//! What goes to the terminal: reports to standard output, as text or as JSON, and everything else to standard error.

use std::fmt::{self, Display};
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use jasper::{Progress, Stage};
use serde::Serialize;

use crate::human;

/// How the user wants to be told.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Screen {
    /// Write one JSON object a line to standard output, in the place of text
    #[arg(long, global = true, display_order = 100)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short, global = true, display_order = 101)]
    quiet: bool,
}

/// Work done sooner than this shows no progress.
const PATIENCE: Duration = Duration::from_millis(500);

impl Screen {
    /// Writes a report: an object of its own line, or its text.
    pub fn report(self, report: &(impl Serialize + Display)) -> Result<()> {
        if self.json { self.object(report) } else { self.text(report) }
    }

    /// Writes an object, whatever was asked for.
    pub fn object(self, object: &impl Serialize) -> Result<()> {
        self.text(serde_json::to_string(object)?)
    }

    /// Writes a line of text, whatever was asked for.
    pub fn text(self, line: impl Display) -> Result<()> {
        Ok(writeln!(std::io::stdout().lock(), "{line}")?)
    }

    /// Writes a line of text, if no JSON was asked for.
    pub fn say(self, line: impl Display) -> Result<()> {
        if self.json { Ok(()) } else { self.text(line) }
    }

    /// Shows the progress of long calls, one bar a stage; nothing if standard error is no terminal.
    pub fn progress(self) -> impl FnMut(Progress) -> ControlFlow<()> {
        let mut bars = Bars { begun: Instant::now(), bar: None };
        move |progress| {
            if !self.quiet && bars.begun.elapsed() > PATIENCE {
                bars.show(progress);
            }
            ControlFlow::Continue(())
        }
    }
}

struct Bars {
    begun: Instant,
    bar: Option<(Stage, ProgressBar)>,
}

impl Bars {
    fn show(&mut self, progress: Progress) {
        let same = self.bar.as_ref().is_some_and(|(stage, _)| *stage == progress.stage);
        if !same {
            self.clear();
        }
        let (_, bar) = self.bar.get_or_insert_with(|| (progress.stage, new_bar(progress.stage)));
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
    }

    fn clear(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}

fn new_bar(stage: Stage) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg:13} [{bar:40}] {human_pos} of {human_len}, {rate} a second, {eta} left",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar())
    .with_key("rate", |bar: &ProgressState, out: &mut dyn fmt::Write| {
        // A bar that cannot be written is no reason to stop the work.
        let _ = out.write_str(&human::rate(bar.per_sec()));
    })
    .progress_chars("=> ");
    ProgressBar::new(0).with_style(style).with_message(stage.to_string())
}
