//! `jasper info`: describes an index file.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use jasper::{FileError, IndexInfo, TunedSearch};
use serde::Serialize;

use crate::terminal::Terminal;
use crate::tuned::{Tuned, table};
use crate::units;

/// Describe an index file, reading only a few pages of it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper info vectors.jasper --json")]
pub struct Args {
    /// The index file
    index: PathBuf,
}

#[derive(Serialize)]
struct Report {
    /// Keys that searches can return.
    vectors: usize,
    /// Deleted keys that can be restored.
    deleted: usize,
    /// Vertices of these keys; identical vectors share one.
    vertices: usize,
    /// Deleted vertices that are traversed but not returned, until the index is consolidated.
    tombstones: usize,
    /// Slots without a vertex, until the index is compacted.
    free: usize,
    dimension: usize,
    element: &'static str,
    metric: &'static str,
    max_degree: usize,
    build_beam_width: usize,
    alpha: f32,
    seed: u64,
    mean_degree: f64,
    /// How vectors are quantized.
    quantization: Option<String>,
    /// Whether the index has vectors, or only codes.
    has_vectors: bool,
    bytes: u64,
    sections: Vec<Section>,
    /// Tuned searches.
    tuned: Vec<Tuned>,
}

#[derive(Serialize)]
struct Section {
    name: String,
    bytes: u64,
}

impl Args {
    /// Prints the description.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let info = IndexInfo::read(&self.index)?;
        let tuned =
            TunedSearch::decode(&info.tuned_section).map_err(|fault| FileError::new(&self.index, fault))?;
        terminal.report(&Report {
            vectors: info.keys,
            deleted: info.deleted_keys,
            vertices: info.live(),
            tombstones: info.tombstones,
            free: info.free,
            dimension: info.dimension,
            element: info.element.name(),
            metric: info.metric.name(),
            max_degree: info.params.max_degree(),
            build_beam_width: info.params.build_beam_width(),
            alpha: info.params.alpha(),
            seed: info.params.seed(),
            mean_degree: info.mean_degree(),
            quantization: info.quantization.map(|quantization| quantization.to_string()),
            has_vectors: info.has_vectors,
            bytes: info.file_bytes,
            sections: info
                .sections
                .iter()
                .map(|(name, bytes)| Section { name: name.to_string(), bytes: *bytes })
                .collect(),
            tuned: tuned.iter().map(|search| Tuned::new(search, info.state)).collect(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, element, metric, max_degree, build_beam_width, alpha, mean_degree, .. } = self;
        let [vectors, deleted, vertices, tombstones, free] =
            [self.vectors, self.deleted, self.vertices, self.tombstones, self.free].map(units::count);
        writeln!(f, "vectors   {vectors} of {dimension} {element}, {metric}")?;
        writeln!(f, "deleted   {deleted} keys that can be restored")?;
        writeln!(f, "vertices  {vertices} live, {tombstones} tombstones, {free} free slots")?;
        writeln!(f, "graph     {mean_degree:.1} edges per vertex, at most {max_degree}")?;
        writeln!(f, "built     with beam width {build_beam_width}, alpha {alpha}, seed {}", self.seed)?;
        if let Some(quantization) = &self.quantization {
            let dropped = if self.has_vectors { "" } else { ", vectors dropped" };
            writeln!(f, "codes     {quantization}{dropped}")?;
        }
        write!(f, "file      {}", units::bytes(self.bytes))?;
        self.sections
            .iter()
            .try_for_each(|part| write!(f, "\n          {:>9}  {}", units::bytes(part.bytes), part.name))?;
        if self.tuned.is_empty() {
            return Ok(());
        }
        f.write_str("\ntuned     ")?;
        table(f, &self.tuned, 10)
    }
}
