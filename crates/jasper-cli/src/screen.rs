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
    /// Show no progress and no notes
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

    /// Writes a line to standard error, where somebody is told of what goes on.
    pub fn note(self, line: impl Display) -> Result<()> {
        if self.quiet { Ok(()) } else { Ok(writeln!(std::io::stderr().lock(), "note: {line}")?) }
    }

    /// Shows the progress of long calls, one bar a stage; nothing if standard error is no terminal.
    pub fn progress(self) -> impl FnMut(Progress) -> ControlFlow<()> {
        let mut bar: Option<Bar> = None;
        move |progress| {
            if !self.quiet {
                // A bar of another stage goes before the new one is made.
                bar.take_if(|bar| bar.stage != progress.stage);
                bar.get_or_insert_with(|| Bar::new(progress)).show(progress);
                // What comes next may be a line of a report, which would go through the bar.
                bar.take_if(|_| progress.done >= progress.total);
            }
            ControlFlow::Continue(())
        }
    }
}

/// The bar of a stage; on the screen once the stage has tried our patience, and until it is dropped.
struct Bar {
    stage: Stage,
    begun: Instant,
    /// Where it was then: a build that is resumed begins in the middle.
    from: u64,
    shown: Option<ProgressBar>,
}

impl Bar {
    fn new(Progress { stage, done, .. }: Progress) -> Self {
        Self { stage, begun: Instant::now(), from: done as u64, shown: None }
    }

    fn show(&mut self, progress: Progress) {
        let elapsed = self.begun.elapsed();
        if elapsed > PATIENCE {
            let bar = self.shown.get_or_insert_with(|| styled(self.stage, self.from).with_elapsed(elapsed));
            bar.set_length(progress.total as u64);
            bar.set_position(progress.done as u64);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn styled(stage: Stage, from: u64) -> ProgressBar {
    let template = "{msg:13} [{bar:40}] {human_pos} of {human_len}, {rate} a second, {left} left";
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", move |bar: &ProgressState, out: &mut dyn fmt::Write| {
            tell(out, &human::rate(rate(bar, from)));
        })
        .with_key("left", move |bar: &ProgressState, out: &mut dyn fmt::Write| {
            let rows = bar.len().unwrap_or(0).saturating_sub(bar.pos());
            let seconds = rows as f64 / rate(bar, from);
            tell(out, &if seconds.is_finite() { format!("{seconds:.0} s") } else { "?".into() });
        })
        .progress_chars("=> ");
    ProgressBar::new(0).with_style(style).with_message(stage.to_string())
}

/// Rows a second since the stage began: bars of our stages rise evenly enough.
fn rate(bar: &ProgressState, from: u64) -> f64 {
    bar.pos().saturating_sub(from) as f64 / bar.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)
}

/// A bar that cannot be written is no reason to stop the work.
fn tell(out: &mut dyn fmt::Write, text: &str) {
    let _ = out.write_str(text);
}
