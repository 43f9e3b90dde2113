//! `jasper check`: verifies an index file.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use jasper::{CheckReport, IndexStats, OpenOptions};
use jasper_graph::{FileFault, FileReport, check_file};
use jasper_vamana::CodeReport;
use serde_json::{Value, json};

use crate::command_files::Files;
use crate::files::open_to_read;
use crate::terminal::{Terminal, merge};
use crate::units;

/// Verify an index file: checksums, structure, and that every vector can be reached
///
/// The exit code is 1 if anything is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper check vectors.jasper")]
pub struct Args {
    /// The index file, or the folder of a durable index
    index: PathBuf,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        Files::new().read([&self.index])
    }

    /// Verifies the file, and fails if anything is wrong.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        // Opening a durable index verifies its snapshot and its journal.
        let is_file = !self.index.is_dir();
        let file = is_file.then(|| check_file(&self.index, &mut terminal.progress())).transpose();
        let file = file.or_else(|error| {
            let is_unread = matches!(error.cause(), FileFault::Io(_) | FileFault::Cancelled(_));
            if terminal.json && !is_unread {
                let fault = error.cause().to_string();
                terminal.object(&json!({ "sound": false, "fault": fault, "sections": [], "graph": null }))?;
            }
            Err(anyhow::Error::from(error))
        })?;
        let mut text = String::new();
        let sections = file.as_ref().map_or(&[][..], |file| &file.sections);
        for part in sections {
            let verdict = if part.intact { "intact" } else { "DAMAGED" };
            writeln!(text, "{:>9}  {:<15} {verdict}", units::bytes(part.bytes), part.section.to_string())?;
        }
        let (report, graph, graph_text) = if file.as_ref().is_none_or(FileReport::is_intact) {
            let (report, graph, text) = self.check_graph(terminal)?;
            (Some(report), graph, text)
        } else {
            (None, Value::Null, "graph      not verified: the file is damaged".to_owned())
        };
        let sound = report.as_ref().is_some_and(CheckReport::is_sound);
        text.push_str(&graph_text);
        terminal.report(&json!({ "sound": sound, "sections": sections, "graph": graph }), text)?;
        let index = self.index.display();
        match report {
            Some(report) if report.is_sound() => Ok(()),
            Some(report) if report.structure.is_sound() => {
                let unreachable = units::count(report.unreachable.len());
                bail!("{index}: no search finds {unreachable} of its keys; run `jasper consolidate {index}`")
            }
            _ => bail!("{index}: is damaged; restore it from a copy, or rebuild it"),
        }
    }

    /// What the graph is found to be, and a report as JSON and as text.
    fn check_graph(&self, terminal: Terminal) -> Result<(CheckReport, Value, String)> {
        let index = open_to_read(&self.index, OpenOptions::new(), terminal)?;
        let report = index.with_progress(terminal.progress()).check()?;
        let graph = &report.structure;
        let [vertices, edges, keys, faults] =
            [graph.vertices, graph.edges, graph.keys, graph.faults].map(units::count);
        let unreachable = units::count(report.unreachable.len());
        let mut text = format!(
            "graph      {vertices} vertices, {edges} edges, {keys} keys; {faults} faults, {unreachable} unreachable keys"
        );
        graph.examples.iter().try_for_each(|fault| write!(text, "\n           {fault}"))?;
        if let Some(missed) = report.missed_neighbors {
            let share = 100.0 * missed;
            write!(
                text,
                "\ndifficulty a beam of 256 misses {share:.2}% of the nearest neighbors that one of 1,024 finds"
            )?;
        }
        let IndexStats { quantization, vector_bytes, .. } = index.stats();
        let not_checked = match (&report.codes, quantization) {
            (Some(codes), Some(name)) => {
                let CodeReport { error, retrained_error, .. } = codes;
                write!(
                    text,
                    "\ncodes      estimation error {error:.3}, {retrained_error:.3} if retrained: "
                )?;
                match codes.has_drifted() {
                    true => write!(text, "retrain with `jasper quantize --quantization {name}`")?,
                    false => text.push_str("up to date"),
                }
                None
            }
            (None, Some(_)) if vector_bytes == 0 => Some("the vectors were dropped"),
            _ => report.codes_not_measured.as_deref(),
        };
        if let Some(why) = not_checked {
            write!(text, "\ncodes      not verified: {why}")?;
        }
        let drifted = report.codes.as_ref().map(CodeReport::has_drifted);
        let added =
            json!({ "quantization": quantization, "drifted": drifted, "codes_not_measured": not_checked });
        let json = serde_json::to_value(merge(&report, added))?;
        Ok((report, json, text))
    }
}
