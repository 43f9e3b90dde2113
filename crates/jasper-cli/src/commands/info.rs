//! `jasper info`: describes an index file.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use jasper::tune::TunedSearch;
use jasper::{IndexInfo, StoredIndex};
use jasper_attributes::Column;
use jasper_graph::FileError;
use serde_json::{Value, json};

use crate::command_files::Files;
use crate::terminal::{Terminal, merge};
use crate::tuned::{Tuned, table};
use crate::units;

/// Describe an index file, reading only a few pages of it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper info vectors.jasper --json")]
pub struct Args {
    /// The index file, or the folder of a sharded index, of which each file is described, or of a durable index, of which
    /// the snapshot is described
    index: PathBuf,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        Files::new().read([&self.index])
    }

    /// Prints the description.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let StoredIndex { files, changes, .. } = StoredIndex::read(&self.index)?;
        files.iter().try_for_each(|file| {
            let info = IndexInfo::read(file)?;
            let tuned = TunedSearch::decode(&info.encoded_tuned_searches)
                .map_err(|fault| FileError::new(file, fault))?;
            let tuned = Tuned::list(tuned, info.fingerprint);
            // Changes in the journal of a durable index, which are not in its snapshot.
            let json = merge(json(&info, &tuned), changes.map(|changes| json!({ "changes": changes })));
            let mut text = text(&info, &tuned)?;
            if let Some(changes) = changes {
                let changes = units::counted(changes, "change");
                write!(text, "\njournal   {changes} since this snapshot, {}", file.display())?;
            }
            terminal.report(&merge(json, info.params), text)
        })
    }
}

fn json(info: &IndexInfo, tuned: &[Tuned]) -> Value {
    let sections = info.sections.iter().map(|(section, bytes)| json!({ "name": section, "bytes": bytes }));
    let columns = info
        .columns
        .iter()
        .map(|Column { name, kind, .. }| json!({ "name": name, "type": kind.to_string() }));
    json!({
        // Keys that searches can return.
        "vectors": info.keys,
        // Deleted keys that can be restored.
        "deleted": info.deleted_keys,
        // Vertices of these keys; identical vectors share one.
        "vertices": info.live(),
        // Deleted vertices that are traversed but not returned, until the index is consolidated.
        "tombstones": info.tombstones,
        // Slots without a vertex, until the index is compacted.
        "free": info.free,
        "dimension": info.dimension,
        "element": info.element,
        "metric": info.metric,
        "mean_degree": info.mean_degree(),
        "quantization": info.quantization,
        // Whether the index has vectors, or only codes.
        "has_vectors": info.has_vectors,
        // Attributes.
        "columns": columns.collect::<Vec<_>>(),
        "bytes": info.file_bytes,
        // Replaced sections, until the file is written whole.
        "unused_bytes": info.unused_bytes,
        "sections": sections.collect::<Vec<_>>(),
        "tuned": tuned,
    })
}

fn text(info: &IndexInfo, tuned: &[Tuned]) -> Result<String> {
    let IndexInfo { dimension, element, metric, params, .. } = info;
    let [vectors, deleted, vertices, tombstones, free] =
        [info.keys, info.deleted_keys, info.live(), info.tombstones, info.free].map(units::count);
    let mut text = String::new();
    writeln!(text, "vectors   {vectors} of {dimension} {element}, {metric}")?;
    writeln!(text, "deleted   {deleted} keys that can be restored")?;
    writeln!(text, "vertices  {vertices} live, {tombstones} tombstones, {free} free slots")?;
    writeln!(text, "graph     {:.1} edges per vertex, at most {}", info.mean_degree(), params.max_degree())?;
    let (width, alpha, seed) = (params.build_beam_width(), params.alpha(), params.seed());
    writeln!(text, "built     with beam width {width}, alpha {alpha}, seed {seed}")?;
    if let Some(quantization) = &info.quantization {
        let dropped = if info.has_vectors { "" } else { ", vectors dropped" };
        writeln!(text, "codes     {quantization}{dropped}")?;
    }
    for (i, Column { name, kind, .. }) in info.columns.iter().enumerate() {
        writeln!(text, "{:<8}  {kind:<9}  {name}", if i == 0 { "columns" } else { "" })?;
    }
    write!(text, "file      {}", units::bytes(info.file_bytes))?;
    if info.unused_bytes > 0 {
        write!(text, ", of which {} unused", units::bytes(info.unused_bytes))?;
    }
    for (section, bytes) in &info.sections {
        write!(text, "\n          {:>9}  {section}", units::bytes(*bytes))?;
    }
    if !tuned.is_empty() {
        write!(text, "\ntuned     {}", table(tuned, 10)?)?;
    }
    Ok(text)
}
