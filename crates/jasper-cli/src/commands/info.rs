//! `jasper info`: what an index file holds.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use jasper::{FileError, IndexInfo, TunedSearch};
use serde::Serialize;

use crate::human;
use crate::screen::Screen;
use crate::tuned::{Tuned, table};

/// Show what an index file holds, without reading more of it than a few pages
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper info vectors.jasper --json")]
pub struct Args {
    /// The index file
    index: PathBuf,
}

#[derive(Serialize)]
struct Report {
    /// Keys that can be found.
    points: usize,
    /// Deleted keys that can be restored.
    deleted: usize,
    /// Vertices that stand for the keys; fewer where rows are identical.
    vertices: usize,
    /// Vertices that are walked through and never returned, until the index is consolidated.
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
    /// Which code vectors have beside them.
    code: Option<String>,
    /// Whether there are vectors, or only codes.
    has_vectors: bool,
    bytes: u64,
    sections: Vec<Section>,
    /// Searches that `jasper tune` found.
    tuned: Vec<Tuned>,
}

#[derive(Serialize)]
struct Section {
    name: String,
    bytes: u64,
}

impl Args {
    /// Reads and shows.
    pub fn run(self, screen: Screen) -> Result<()> {
        let info = IndexInfo::read(&self.index)?;
        let tuned =
            TunedSearch::decode(&info.tuned_section).map_err(|fault| FileError::new(&self.index, fault))?;
        screen.report(&Report {
            points: info.keys,
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
            code: info.quantization.map(|code| code.to_string()),
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
        let [points, deleted, vertices, tombstones, free] =
            [self.points, self.deleted, self.vertices, self.tombstones, self.free].map(human::count);
        writeln!(f, "points    {points} of {dimension} {element}, {metric}")?;
        writeln!(f, "deleted   {deleted} keys that can be restored")?;
        writeln!(f, "vertices  {vertices} live, {tombstones} tombstones, {free} free slots")?;
        writeln!(f, "graph     {mean_degree:.1} edges a vertex, {max_degree} at most")?;
        writeln!(f, "built     with beam width {build_beam_width}, alpha {alpha}, seed {}", self.seed)?;
        if let Some(code) = &self.code {
            let alone = if self.has_vectors { "" } else { ", and no vectors" };
            writeln!(f, "codes     {code}{alone}")?;
        }
        write!(f, "file      {}", human::bytes(self.bytes))?;
        self.sections
            .iter()
            .try_for_each(|part| write!(f, "\n          {:>9}  {}", human::bytes(part.bytes), part.name))?;
        if self.tuned.is_empty() {
            return Ok(());
        }
        f.write_str("\ntuned     ")?;
        table(f, &self.tuned, 10)
    }
}
