//! Output: reports on standard output, as text or JSON; everything else on standard error.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use jasper::{Progress, Stage};
use serde::Serialize;

use crate::units;

/// Output options.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Terminal {
    /// Print one JSON object per line on standard output, instead of text
    #[arg(long, global = true, display_order = 100)]
    pub json: bool,
    /// Print no progress and no notes
    #[arg(long, short, global = true, display_order = 101)]
    quiet: bool,
}

/// The first error of standard output.
static OUTPUT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// The first error of standard output. It does not end a command, whose other outputs are written nevertheless. A
/// reader that closes a pipe, as in `jasper search ... | head`, has read what it wanted: this is no error.
pub fn output_error() -> Option<&'static io::Error> {
    OUTPUT_ERROR.get()
}

/// Notes an error of writing to standard output, for [`output_error`].
pub fn note_output(written: io::Result<()>) {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = OUTPUT_ERROR.set(error);
        }
        _ => {}
    }
}

/// Work that takes less time than this shows no progress.
const PATIENCE: Duration = Duration::from_millis(500);

impl Terminal {
    /// Writes a report, as a line of JSON or as text.
    pub fn report(self, json: &impl Serialize, text: impl Display) -> Result<()> {
        if self.json { self.object(json) } else { self.text(text) }
    }

    /// Writes a line of JSON, with or without `--json`.
    pub fn object(self, object: &impl Serialize) -> Result<()> {
        self.text(serde_json::to_string(object)?)
    }

    /// Writes a line of text, with or without `--json`. See [`output_error`].
    pub fn text(self, line: impl Display) -> Result<()> {
        note_output(writeln!(io::stdout().lock(), "{line}"));
        Ok(())
    }

    /// Writes a line of text, unless with `--json`.
    pub fn say(self, line: impl Display) -> Result<()> {
        if self.json { Ok(()) } else { self.text(line) }
    }

    /// Writes a note to standard error, unless with `--quiet`.
    pub fn note(self, line: impl Display) {
        if !self.quiet {
            // Nothing can be done about standard error.
            let _ = writeln!(io::stderr().lock(), "note: {line}");
        }
    }

    /// A progress callback that shows one bar per stage, if standard error is a terminal.
    pub fn progress(self) -> impl FnMut(Progress) -> ControlFlow<()> {
        let mut bar: Option<Bar> = None;
        move |progress| {
            if !self.quiet {
                // Remove the bar of the previous stage before creating the next.
                bar.take_if(|bar| bar.stage != progress.stage);
                bar.get_or_insert_with(|| Bar::new(progress)).show(progress);
                // The next output may be a line of a report, which the bar would garble.
                bar.take_if(|_| progress.done >= progress.total);
            }
            ControlFlow::Continue(())
        }
    }
}

/// A JSON object with the fields of both objects.
pub fn merge(first: impl Serialize, second: impl Serialize) -> impl Serialize {
    #[derive(Serialize)]
    struct Merged<A, B> {
        #[serde(flatten)]
        first: A,
        #[serde(flatten)]
        second: B,
    }
    Merged { first, second }
}

/// The result of `work`, and its time in seconds.
pub fn timed<R>(work: impl FnOnce() -> R) -> (R, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

/// The progress bar of a stage, shown after [`PATIENCE`] until it is dropped.
struct Bar {
    stage: Stage,
    start: Instant,
    /// Progress at that time: a resumed build starts in the middle.
    from: u64,
    shown: Option<ProgressBar>,
}

impl Bar {
    fn new(Progress { stage, done, .. }: Progress) -> Self {
        Self { stage, start: Instant::now(), from: done as u64, shown: None }
    }

    fn show(&mut self, progress: Progress) {
        let elapsed = self.start.elapsed();
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
    let template = "{msg:13} [{bar:40}] {human_pos} of {human_len}, {rate}/s, {left} left";
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", move |bar: &ProgressState, out: &mut dyn fmt::Write| {
            write_text(out, &units::rate(rate(bar, from)));
        })
        .with_key("left", move |bar: &ProgressState, out: &mut dyn fmt::Write| {
            let rows = bar.len().unwrap_or(0).saturating_sub(bar.pos());
            let seconds = rows as f64 / rate(bar, from);
            write_text(out, &if seconds.is_finite() { format!("{seconds:.0} s") } else { "?".into() });
        })
        .progress_chars("=> ");
    ProgressBar::new(0).with_style(style).with_message(stage.to_string())
}

/// Units per second since the stage began.
fn rate(bar: &ProgressState, from: u64) -> f64 {
    bar.pos().saturating_sub(from) as f64 / bar.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Ignores errors: failing to draw a bar must not stop the work.
fn write_text(out: &mut dyn fmt::Write, text: &str) {
    let _ = out.write_str(text);
}
