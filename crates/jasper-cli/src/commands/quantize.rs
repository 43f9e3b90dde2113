//! `jasper quantize`: quantizes the vectors of an index.

use std::fmt::Write;

use anyhow::Result;
use jasper::report::QuantizeReport;
use jasper::{AnyIndex, MemorySpace};
use serde_json::{Value, json};

use crate::args::QuantizationChoice;
use crate::terminal::Terminal;
use crate::units;
use crate::update::OutputArgs;

/// Quantize the vectors of an index, so that searches read a fraction of their bytes
///
/// Searches then traverse the graph with estimated distances and rerank candidates with exact ones. Updates keep the
/// codes current. If the data has updated much, run the command again to retrain.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper quantize vectors.jasper --quantization auto")]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
    /// rabitq:BITS (1 to 8 bits per dimension), mixed:SECTORS (1 to 16 sectors of 32 bytes), auto, which tries several
    /// and chooses the one whose searches read the fewest bytes, or none, which removes the codes
    #[arg(long, value_name = "QUANTIZATION", default_value_t = QuantizationChoice::Auto)]
    quantization: QuantizationChoice,
    /// Keep only the quantized codes: results have estimated distances, and the index accepts no inserts
    #[arg(long)]
    drop_vectors: bool,
}

impl Args {
    /// Quantizes and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let ((json, text), updated) = self
            .output
            .update(terminal, |index| quantize(index, self.quantization, self.drop_vectors, terminal))?;
        updated.report(terminal, json, text)
    }
}

/// Quantizes an index, and drops its vectors if requested. Returns the report as JSON and as text.
pub fn quantize(
    index: &AnyIndex,
    choice: QuantizationChoice,
    drop_vectors: bool,
    terminal: Terminal,
) -> Result<(Value, String)> {
    let (mut progress, mut trial) = (terminal.progress(), None);
    match choice {
        QuantizationChoice::Auto => trial = Some(index.with_progress(&mut progress).auto_quantize()?),
        QuantizationChoice::None => index.clear_codes()?,
        QuantizationChoice::Fixed(quantization) => {
            index.with_progress(&mut progress).quantize(quantization)?;
        }
    }
    if drop_vectors {
        index.drop_vectors()?;
    }
    let stats = index.stats();
    let mut json = json!({
        "quantization": stats.quantization,
        "code_bytes": stats.code_bytes,
        "vector_bytes": stats.vector_bytes,
        "trial": trial.as_ref().map(trial_json),
    });
    let [codes, vectors] = [stats.code_bytes, stats.vector_bytes].map(|bytes| units::bytes(bytes as u64));
    let mut text = match stats.quantization {
        Some(name) => format!("codes    {name}: {codes} beside {vectors} of vectors"),
        None => "codes    none".to_owned(),
    };
    let device_bytes = |storage| Some(index.memory_plan_on_device(storage)?.total(MemorySpace::Device));
    let [all, without] = [MemorySpace::Device, MemorySpace::Host].map(device_bytes);
    if let (Some(all), Some(without)) = (all, without) {
        json["device_bytes"] = all.into();
        json["device_bytes_with_host_vectors"] = without.into();
        let [all, without] = [all, without].map(units::bytes);
        write!(text, "\ngpu      {all} of device memory; {without} with vectors in host memory")?;
    }
    if let Some(trial) = &trial {
        write!(text, "\n{}", trial_text(trial)?)?;
    }
    Ok((json, text))
}

fn trial_json(trial: &QuantizeReport) -> Value {
    let tried = trial.tried.iter().map(|tried| {
        json!({
            "quantization": tried.quantization,
            // Bytes per code.
            "bytes": tried.bytes,
            // The smallest beam width that reached the recall.
            "beam_width": tried.reached.map(|(width, _)| width),
            "bytes_per_query": tried.reached.map(|(_, bytes)| bytes),
        })
    });
    json!({
        // Recall@10 that every quantization had to reach.
        "recall": trial.recall,
        "exact_bytes_per_query": trial.exact_bytes_per_query,
        "tried": tried.collect::<Vec<_>>(),
    })
}

fn trial_text(trial: &QuantizeReport) -> Result<String> {
    let (recall, exact) = (trial.recall, units::bytes(trial.exact_bytes_per_query as u64));
    let mut text =
        format!("trial    bytes read per query at recall@10 of {recall:.4}; with exact distances {exact}");
    for tried in &trial.tried {
        write!(text, "\n         {:<9}  {:>9}", tried.quantization, units::bytes(tried.bytes as u64))?;
        match tried.reached {
            Some((width, read)) => {
                write!(text, "  {:>9} at beam width {width}", units::bytes(read as u64))?;
            }
            None => text.push_str("  not reached"),
        }
    }
    Ok(text)
}
