//! `jasper convert`: converts vector files, ground-truth files and graphs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use jasper::{Element, IndexInfo, Key, MatrixView, Metric, OpenOptions, Progress, Stage, StoredIndex};
use jasper_core::{BuildParams, with_element};
use jasper_data::{GroundTruth, VectorFile, VectorFormat, VectorWriter, write_keys};
use jasper_graph::{FileFault, Graph};
use jasper_interop::{GraphFormat, diskann, faiss, hnswlib, parlay};
use serde_json::json;

use crate::command_files::{Content, Files};
use crate::error::Usage;
use crate::format::Format;
use crate::terminal::Terminal;
use crate::units;

/// Convert vector files, ground-truth files and graphs
///
/// Vectors: between fbin, f16bin, u8bin, i8bin, fvecs, bvecs and npy. Values are rounded, and for integers clamped, to
/// the new type; those that it cannot hold, such as NaN in u8 and 70000 in f16, are refused.
/// Ground truth: between ibin and ivecs.
/// Graphs: from an index to diskann, hnswlib and faiss; to an index from hnswlib and faiss, and from diskann and parlayann
/// with the vectors they were built from. Graphs of all but parlayann are recognized by their content.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  jasper convert base.fvecs base.f16bin
  jasper convert vectors.jasper graph.bin --to diskann
  jasper convert graph.bin vectors.jasper --from diskann --base base.fbin --metric l2
  jasper convert hnswlib.bin vectors.jasper --metric cosine
  jasper convert index.faiss vectors.jasper"
)]
pub struct Args {
    /// The file to read
    input: PathBuf,
    /// The file to write
    output: PathBuf,
    /// Format of the input [default: by file name, and of a graph by content]
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Format of the output [default: by file name]
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// The vectors that a graph of diskann or parlayann was built from
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// The metric that the graph was built for: l2, cosine or ip [default for faiss: that of the file]
    ///
    /// An index of faiss for inner products, whose vectors have unit length, may be converted as one for cosine.
    #[arg(long)]
    metric: Option<Metric>,
    /// Maximum number of edges per vertex, when converting a graph to an index [default: 64; for hnswlib and faiss that
    /// of the base layer, 2 M]
    #[arg(long, value_name = "R")]
    max_degree: Option<usize>,
    /// When converting an index to a graph, write the key of each vertex to this file
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

/// Values converted at a time.
const VALUES_AT_ONCE: usize = 1 << 20;

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        let (_, to) = self.formats();
        let files =
            Files::new().read([&self.input]).read(&self.base).write([&self.output], Content::Format(to));
        let files = files.write(&self.keys, Content::Keys);
        // DiskANN reads the vectors from a file of their own.
        let vectors = (to == Format::Graph(GraphFormat::Diskann)).then(|| {
            let mut path = self.output.clone().into_os_string();
            path.push(".data");
            PathBuf::from(path)
        });
        files.write(&vectors, Content::DiskannVectors)
    }

    /// Converts.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.check_input()?;
        let (from, to) = self.formats();
        let (mut rounded, mut left_out) = (0, 0);
        let rows = match (from, to) {
            (Format::Vectors(from), Format::Vectors(to)) => {
                let (rows, changed) = self.vectors(from, to, terminal)?;
                rounded = changed;
                rows
            }
            (Format::Truth, Format::Truth) => {
                let truth = GroundTruth::read(&self.input)?;
                truth.write(&self.output)?;
                truth.len()
            }
            (Format::Index, Format::Graph(to)) if to != GraphFormat::Parlayann => {
                let (rows, keys) = self.export(to, terminal)?;
                left_out = keys - rows;
                rows
            }
            (Format::Graph(from), Format::Index) => self.import(from, terminal)?,
            (Format::Index, Format::Index) if self.from.is_none() => return Err(self.unknown_graph()),
            _ => bail!(Usage(format!("cannot convert {from} to {to}; see `jasper help convert`"))),
        };
        let output = self.output.display();
        let json = json!({
            "rows": rows,
            "from": from.to_string(),
            "to": to.to_string(),
            // Values that the new type cannot represent exactly.
            "rounded": rounded,
            // Keys of vectors that are identical to that of another key.
            "keys_left_out": left_out,
            "output": output.to_string(),
        });
        let mut text = format!("wrote    {output}: {} rows, {from} to {to}", units::count(rows));
        if rounded > 0 {
            text += &format!("; {} values were rounded", units::count(rounded));
        }
        if left_out > 0 {
            let left_out = units::count(left_out);
            text +=
                &format!("; {left_out} keys of identical vectors are left out: a row of {to} has one key");
        }
        terminal.report(&json, text)
    }

    /// Refuses the folder of an index.
    fn check_input(&self) -> Result<()> {
        let content = if StoredIndex::is_sharded(&self.input) {
            "has the vectors of one shard"
        } else if StoredIndex::is_durable(&self.input) {
            "lacks the changes in the journal"
        } else {
            return Ok(());
        };
        let files = StoredIndex::read(&self.input)?.files;
        let (folder, file) = (self.input.display(), files[0].display());
        bail!(
            "{folder}: is the folder of an index; convert an index file in it, such as {file}, which {content}"
        )
    }

    /// The formats of input and output.
    fn formats(&self) -> (Format, Format) {
        let from = self.from.unwrap_or_else(|| match Format::from_path(&self.input) {
            Format::Index => match GraphFormat::of_file(&self.input) {
                Ok(Some(graph)) => Format::Graph(graph),
                _ => Format::Index,
            },
            format => format,
        });
        (from, self.to.unwrap_or_else(|| Format::from_path(&self.output)))
    }

    /// Why an input that was not recognized cannot become an index.
    fn unknown_graph(&self) -> anyhow::Error {
        let input = self.input.display();
        match IndexInfo::read(&self.input) {
            Ok(_) => anyhow!("{input}: is an index already"),
            Err(error) if matches!(error.cause(), FileFault::NotAnIndex) => anyhow!(
                "{input}: is not a graph of diskann, hnswlib or faiss (IndexHNSWFlat or IndexHNSWSQ); for one of \
                 ParlayANN, pass --from parlayann"
            ),
            Err(error) => error.into(),
        }
    }

    /// Returns the number of vectors, and of values that were rounded.
    fn vectors(&self, from: VectorFormat, to: VectorFormat, terminal: Terminal) -> Result<(usize, usize)> {
        let rows = jasper_data::VectorFileOptions::new().format(from).open(&self.input)?;
        let rounded = with_element!(
            to.element().unwrap_or(rows.element()),
            T => copy_rows::<T>(&rows, to, &self.output, terminal)?
        );
        Ok((rows.len(), rounded))
    }

    /// Writes a graph and returns its number of vertices, and the number of their keys.
    fn export(&self, to: GraphFormat, terminal: Terminal) -> Result<(usize, usize)> {
        let graph = Graph::open(&self.input, &mut terminal.progress())?;
        let written = match to {
            GraphFormat::Hnswlib => hnswlib::write(&graph, &self.output),
            GraphFormat::Faiss => faiss::write(&graph, &self.output),
            _ => diskann::write(&graph, &self.output),
        };
        let slots = written
            .with_context(|| format!("{} cannot be converted to a {to} graph", self.input.display()))?;
        let keys: Vec<Key> = slots.into_iter().map(|slot| graph.keys().first_key(slot)).collect();
        if let Some(path) = &self.keys {
            write_keys(path, &keys)?;
        }
        Ok((keys.len(), graph.keys().len()))
    }

    /// Reads a graph, writes an index, and returns its number of vectors.
    fn import(&self, from: GraphFormat, terminal: Terminal) -> Result<usize> {
        let needed = |name| Usage(format!("graphs of {from} need --{name}; see `jasper help convert`"));
        let given = self.max_degree.map(|max_degree| BuildParams::builder().max_degree(max_degree).build());
        let given = given.transpose().map_err(|error| Usage(error.to_string()))?;
        let (path, progress) = (&self.input, &mut terminal.progress());
        if from.has_vectors() {
            ensure!(
                self.base.is_none(),
                Usage(format!("graphs of {from} hold their vectors; leave out --base"))
            );
            if from == GraphFormat::Hnswlib {
                let metric = self.metric.ok_or_else(|| needed("metric"))?;
                return self.store(hnswlib::read(path, metric, given, progress)?, terminal);
            }
            return self.store(faiss::read(path, self.metric, given, progress)?, terminal);
        }
        let base = VectorFile::open(self.base.as_ref().ok_or_else(|| needed("base"))?)?;
        let metric = self.metric.ok_or_else(|| needed("metric"))?;
        with_element!(base.element(), T => {
            let read = match from {
                GraphFormat::Diskann => diskann::read::<T>,
                GraphFormat::Parlayann => parlay::read::<T>,
                _ => bail!("{from} graphs are not read"),
            };
            self.store(read(path, &base, metric, given.unwrap_or_default(), progress)?, terminal)
        })
    }

    /// Writes a graph that was read as an index, and returns its number of vectors.
    fn store(&self, graph: Graph, terminal: Terminal) -> Result<usize> {
        let index = OpenOptions::new().with_progress(terminal.progress()).import_graph(graph)?;
        index.with_progress(terminal.progress()).save(&self.output)?;
        Ok(index.len())
    }
}

/// Copies all vectors as values of `T`; returns how many values were rounded.
fn copy_rows<T: Element>(
    rows: &VectorFile,
    to: VectorFormat,
    output: &Path,
    terminal: Terminal,
) -> Result<usize> {
    let (total, dimension) = (rows.len(), rows.dimension());
    let mut writer = VectorWriter::<T>::create(output, to, dimension)?;
    let mut progress = terminal.progress();
    let at_once = (VALUES_AT_ONCE / dimension).clamp(1, total.max(1));
    let (mut values, mut wide) = (vec![T::default(); at_once * dimension], Vec::new());
    let mut rounded = 0;
    for start in (0..total).step_by(at_once) {
        let end = total.min(start + at_once);
        let values = &mut values[..(end - start) * dimension];
        if rows.element() == T::KIND {
            rows.read_rows(start..end, values)?;
        } else {
            wide.resize(values.len(), 0.0_f32);
            rows.read_rows_as(start..end, &mut wide)?;
            for (i, (value, &wide)) in values.iter_mut().zip(&wide).enumerate() {
                *value = T::from_f32(wide);
                let stored = value.to_f32();
                ensure!(
                    stored.is_nan() == wide.is_nan() && stored.is_finite() == wide.is_finite(),
                    "{}: row {} holds {wide} at coordinate {}, which {} cannot hold; change the value, or write to fbin",
                    rows.path().display(),
                    start + i / dimension,
                    i % dimension,
                    T::KIND
                );
                rounded += usize::from(stored.to_bits() != wide.to_bits() && !wide.is_nan());
            }
        }
        writer.push(MatrixView::new(values, dimension)?)?;
        Progress { stage: Stage::Reading, done: end, total }.report(&mut progress)?;
    }
    writer.finish()?;
    Ok(rounded)
}
