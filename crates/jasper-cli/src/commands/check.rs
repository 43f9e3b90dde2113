//! `jasper check`: whether an index file is whole, and the index sound.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use jasper::{CheckReport, CodeReport, Element, IndexInfo, Key, Quantization, check_file};
use serde::Serialize;

use crate::element::with_element;
use crate::files::open_index;
use crate::human;
use crate::screen::Screen;

/// Check an index file: its checksums, its structure, and that every vector can be found
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
    /// Nothing, where the file is damaged.
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
    /// Vectors that no path leads to, and so no search can find.
    unreachable: Vec<Key>,
    /// How well codes fit the vectors, where there are some.
    codes: Option<CodesReport>,
    /// Why that cannot be told, though there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    codes_not_compared: Option<String>,
}

#[derive(Serialize)]
struct CodesReport {
    /// Which code they are.
    code: String,
    /// Error of estimated distances to neighbours, in units of the deviation of the distances.
    error: f64,
    /// The same of codes learnt anew.
    error_anew: f64,
    /// Whether that is so much less that quantizing again is worth its time.
    drifted: bool,
}

impl Args {
    /// Looks at everything, and fails if anything is wrong.
    pub fn run(self, screen: Screen) -> Result<()> {
        let info = IndexInfo::read(&self.index)?;
        let file = check_file(&self.index, &mut screen.progress())?;
        let graph = if file.is_intact() {
            Some(with_element!(info.element, T => self.check::<T>(screen)?))
        } else {
            None
        };
        let sound = graph.as_ref().is_some_and(GraphReport::is_sound);
        let sections = file
            .sections
            .iter()
            .map(|part| Section { name: part.section.to_string(), bytes: part.bytes, intact: part.intact })
            .collect();
        screen.report(&Report { sound, sections, graph })?;
        if !sound {
            bail!("{}: is not sound; copy it again from its source, or build anew", self.index.display());
        }
        Ok(())
    }

    fn check<T: Element>(&self, screen: Screen) -> Result<GraphReport> {
        let index = open_index::<T>(&self.index, 0, screen)?;
        let CheckReport { structure, unreachable, .. } = index.check()?;
        // Where nothing can be learnt anew there is nothing to compare codes with; the index is sound all the same.
        let (codes, codes_not_compared) = match (index.check_codes(), index.stats().quantization) {
            (Ok(None), Some(_)) => (None, Some("there are no vectors beside them".to_owned())),
            (Ok(report), code) => (report.zip(code).map(CodesReport::from), None),
            (Err(error), _) => (None, Some(error.to_string())),
        };
        Ok(GraphReport {
            codes,
            codes_not_compared,
            vertices: structure.vertices,
            edges: structure.edges,
            keys: structure.keys,
            faults: structure.faults,
            examples: structure.examples.iter().map(ToString::to_string).collect(),
            unreachable,
        })
    }
}

impl From<(CodeReport, Quantization)> for CodesReport {
    fn from((report, code): (CodeReport, Quantization)) -> Self {
        let CodeReport { error, error_anew, .. } = report;
        Self { code: code.to_string(), error, error_anew, drifted: report.has_drifted() }
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
            writeln!(f, "{:>9}  {:<15} {verdict}", human::bytes(part.bytes), part.name)?;
        }
        let Some(graph) = &self.graph else {
            return write!(f, "graph      not looked at: the file is damaged");
        };
        let [vertices, edges, keys, faults] =
            [graph.vertices, graph.edges, graph.keys, graph.faults].map(human::count);
        let lost = human::count(graph.unreachable.len());
        write!(
            f,
            "graph      {vertices} vertices, {edges} edges, {keys} keys; {faults} faults, {lost} keys out of reach"
        )?;
        graph.examples.iter().try_for_each(|fault| write!(f, "\n           {fault}"))?;
        if let Some(why) = &graph.codes_not_compared {
            write!(f, "\ncodes      not compared with codes learnt anew: {why}")?;
        }
        let Some(codes) = &graph.codes else { return Ok(()) };
        let CodesReport { code, error, error_anew, drifted } = codes;
        write!(
            f,
            "\ncodes      error {error:.3} of estimated distances; codes learnt anew {error_anew:.3}: "
        )?;
        match drifted {
            true => write!(f, "worth making again, by `jasper quantize --code {code}`"),
            false => f.write_str("as good as new"),
        }
    }
}
