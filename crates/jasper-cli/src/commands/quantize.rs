//! `jasper quantize`: quantizes the vectors of an index.

use std::fmt;
use std::time::Instant;

use anyhow::Result;
use jasper::{Element, Index, IndexInfo, MemorySpace, QuantizeReport, VectorStorage};
use serde::Serialize;

use crate::args::QuantizationChoice;
use crate::element::with_element;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{OutputArgs, Updated};

/// Quantize the vectors of an index, so that searches read a fraction of their bytes
///
/// Searches then traverse the graph with estimated distances and rerank candidates with exact ones. Updates keep the codes
/// current. If the data has updated much, run the command again to retrain.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper quantize vectors.jasper --quantization auto")]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
    /// rabitq:BITS (1 to 8 bits per dimension), mixed:SECTORS (1 to 16 sectors of 32 bytes), auto, which tries several and
    /// chooses the one whose searches read the fewest bytes, or none, which removes the codes
    #[arg(long, value_name = "QUANTIZATION", default_value_t = QuantizationChoice::Auto)]
    quantization: QuantizationChoice,
    /// Keep only the quantized codes: results have estimated distances, and the index accepts no inserts
    #[arg(long)]
    drop_vectors: bool,
}

/// The quantization of an index.
#[derive(Debug, Serialize)]
pub struct Quantized {
    /// How vectors are quantized now.
    quantization: Option<String>,
    /// Bytes of all codes.
    code_bytes: usize,
    /// Bytes of all vectors.
    vector_bytes: usize,
    /// Device memory of the index on a GPU, with vectors there and with vectors in host memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_bytes_with_host_vectors: Option<u64>,
    trial: Option<Trial>,
}

/// The results of a trial.
#[derive(Debug, Serialize)]
pub struct Trial {
    /// Recall@10 that every quantization had to reach.
    recall: f64,
    exact_bytes_per_query: f64,
    tried: Vec<Tried>,
}

#[derive(Debug, Serialize)]
struct Tried {
    quantization: String,
    /// Bytes per code.
    bytes: usize,
    /// The smallest beam width that reached the recall, if any.
    beam_width: Option<usize>,
    bytes_per_query: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    quantized: Quantized,
    #[serde(flatten)]
    updated: Updated,
}

impl Args {
    /// Quantizes and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let info = IndexInfo::read(&self.output.index)?;
        terminal.report(&with_element!(info.element, T => self.quantize::<T>(terminal)?))
    }

    fn quantize<T: Element>(self, terminal: Terminal) -> Result<Report> {
        let (quantized, updated) = self.output.update::<T, _>(terminal, |index| {
            let start = Instant::now();
            let quantized = quantize(&index, self.quantization, self.drop_vectors, terminal)?;
            Ok((quantized, start.elapsed().as_secs_f64(), index))
        })?;
        Ok(Report { quantized, updated })
    }
}

/// Quantizes an index, and drops its vectors if requested.
pub fn quantize<T: Element>(
    index: &Index<T>,
    choice: QuantizationChoice,
    drop_vectors: bool,
    terminal: Terminal,
) -> Result<Quantized> {
    let trial = match choice {
        QuantizationChoice::Auto => Some(index.auto_quantize_with(&mut terminal.progress())?.into()),
        QuantizationChoice::None => {
            index.clear_codes()?;
            None
        }
        QuantizationChoice::Fixed(quantization) => {
            index.quantize(quantization)?;
            None
        }
    };
    if drop_vectors {
        index.drop_vectors()?;
    }
    let stats = index.stats();
    let device_bytes = |storage| Some(index.plan_on_device(storage)?.total(MemorySpace::Device));
    Ok(Quantized {
        quantization: stats.quantization.map(|quantization| quantization.to_string()),
        code_bytes: stats.code_bytes,
        vector_bytes: stats.vector_bytes,
        device_bytes: device_bytes(VectorStorage::Device),
        device_bytes_with_host_vectors: device_bytes(VectorStorage::Host),
        trial,
    })
}

impl From<QuantizeReport> for Trial {
    fn from(trial: QuantizeReport) -> Self {
        let tried = trial.tried.into_iter().map(|tried| Tried {
            quantization: tried.quantization.to_string(),
            bytes: tried.bytes,
            beam_width: tried.reached.map(|(width, _)| width),
            bytes_per_query: tried.reached.map(|(_, bytes)| bytes),
        });
        Self {
            recall: trial.recall,
            exact_bytes_per_query: trial.exact_bytes_per_query,
            tried: tried.collect(),
        }
    }
}

impl fmt::Display for Quantized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [codes, vectors] = [self.code_bytes, self.vector_bytes].map(|bytes| units::bytes(bytes as u64));
        match &self.quantization {
            Some(name) => write!(f, "codes    {name}: {codes} beside {vectors} of vectors")?,
            None => write!(f, "codes    none")?,
        }
        if let (Some(all), Some(without)) = (self.device_bytes, self.device_bytes_with_host_vectors) {
            let [all, without] = [all, without].map(units::bytes);
            write!(f, "\ngpu      {all} of device memory; {without} with vectors in host memory")?;
        }
        let Some(Trial { recall, exact_bytes_per_query, tried }) = &self.trial else { return Ok(()) };
        let bytes = |bytes: f64| units::bytes(bytes as u64);
        write!(
            f,
            "\ntrial    bytes read per query at recall@10 of {recall:.4}; with exact distances {}",
            bytes(*exact_bytes_per_query)
        )?;
        tried.iter().try_for_each(|tried| {
            write!(f, "\n         {:<9}  {:>9}", tried.quantization, units::bytes(tried.bytes as u64))?;
            match (tried.beam_width, tried.bytes_per_query) {
                (Some(width), Some(read)) => write!(f, "  {:>9} at beam width {width}", bytes(read)),
                _ => f.write_str("  not reached"),
            }
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.quantized, self.updated)
    }
}
