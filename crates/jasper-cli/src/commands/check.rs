//! `jasper check`: verifies an index file.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use jasper::{CheckReport, CodeReport, Element, IndexInfo, Key, Quantization, check_file};
use serde::Serialize;

use crate::element::with_element;
use crate::files::open_index;
use crate::terminal::Terminal;
use crate::units;

/// Verify an index file: checksums, structure, and that every vector can be reached
///
/// The exit code is 1 if anything is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper check vectors.jasper")]
pub struct Args {
    /// The index file
    index: PathBuf,
}

#[derive(Serialize)]
struct Report {
    sound: bool,
    sections: Vec<Section>,
    /// Missing if the file is damaged.
    graph: Option<GraphReport>,
}

#[derive(Serialize)]
struct Section {
    name: String,
    bytes: u64,
    intact: bool,
}

#[derive(Serialize)]
struct GraphReport {
    vertices: usize,
    edges: usize,
    keys: usize,
    faults: usize,
    /// The first few faults.
    examples: Vec<String>,
    /// Keys of vectors that no search can reach.
    unreachable: Vec<Key>,
    /// How well the codes of a quantized index fit its vectors.
    quantization: Option<QuantizationError>,
    /// Why this is unknown, although the index is quantized.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantization_not_checked: Option<String>,
}

#[derive(Serialize)]
struct QuantizationError {
    quantization: String,
    /// Error of estimated distances to neighbors, in standard deviations of the distances.
    error: f64,
    /// The same with a retrained quantizer.
    retrained_error: f64,
    /// Whether retraining is worthwhile.
    drifted: bool,
}

impl Args {
    /// Verifies the file, and fails if anything is wrong.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let info = IndexInfo::read(&self.index)?;
        let file = check_file(&self.index, &mut terminal.progress())?;
        let graph = if file.is_intact() {
            Some(with_element!(info.element, T => self.check::<T>(terminal)?))
        } else {
            None
        };
        let sound = graph.as_ref().is_some_and(GraphReport::is_sound);
        let sections = file
            .sections
            .iter()
            .map(|part| Section { name: part.section.to_string(), bytes: part.bytes, intact: part.intact })
            .collect();
        terminal.report(&Report { sound, sections, graph })?;
        if !sound {
            bail!("{}: is damaged; restore it from a copy, or rebuild it", self.index.display());
        }
        Ok(())
    }

    fn check<T: Element>(&self, terminal: Terminal) -> Result<GraphReport> {
        let index = open_index::<T>(&self.index, 0, terminal)?;
        let CheckReport { structure, unreachable, .. } = index.check()?;
        // An index whose quantizer cannot be retrained is sound all the same.
        let (quantization, quantization_not_checked) = match (index.check_codes(), index.stats().quantization)
        {
            (Ok(None), Some(_)) => (None, Some("the vectors were dropped".to_owned())),
            (Ok(report), code) => (report.zip(code).map(QuantizationError::from), None),
            (Err(error), _) => (None, Some(error.to_string())),
        };
        Ok(GraphReport {
            quantization,
            quantization_not_checked,
            vertices: structure.vertices,
            edges: structure.edges,
            keys: structure.keys,
            faults: structure.faults,
            examples: structure.examples.iter().map(ToString::to_string).collect(),
            unreachable,
        })
    }
}

impl From<(CodeReport, Quantization)> for QuantizationError {
    fn from((report, quantization): (CodeReport, Quantization)) -> Self {
        let CodeReport { error, retrained_error, .. } = report;
        Self { quantization: quantization.to_string(), error, retrained_error, drifted: report.has_drifted() }
    }
}

impl GraphReport {
    fn is_sound(&self) -> bool {
        self.faults == 0 && self.unreachable.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.sections {
            let verdict = if part.intact { "intact" } else { "DAMAGED" };
            writeln!(f, "{:>9}  {:<15} {verdict}", units::bytes(part.bytes), part.name)?;
        }
        let Some(graph) = &self.graph else {
            return write!(f, "graph      not verified: the file is damaged");
        };
        let [vertices, edges, keys, faults] =
            [graph.vertices, graph.edges, graph.keys, graph.faults].map(units::count);
        let unreachable = units::count(graph.unreachable.len());
        write!(
            f,
            "graph      {vertices} vertices, {edges} edges, {keys} keys; {faults} faults, {unreachable} unreachable keys"
        )?;
        graph.examples.iter().try_for_each(|fault| write!(f, "\n           {fault}"))?;
        if let Some(why) = &graph.quantization_not_checked {
            write!(f, "\ncodes      not verified: {why}")?;
        }
        let Some(codes) = &graph.quantization else { return Ok(()) };
        let QuantizationError { quantization, error, retrained_error, drifted } = codes;
        write!(f, "\ncodes      estimation error {error:.3}, {retrained_error:.3} if retrained: ")?;
        match drifted {
            true => write!(f, "retrain with `jasper quantize --quantization {quantization}`"),
            false => f.write_str("up to date"),
        }
    }
}
