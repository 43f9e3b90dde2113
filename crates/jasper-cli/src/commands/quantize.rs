//! `jasper quantize`: quantizes the vectors of an index.

use std::fmt;

use anyhow::{Result, ensure};
use jasper::{CostUnit, Device, Index, IndexStats, MemorySpace, Quantization, QuantizeReport, QuantizeTrial};
use serde::Serialize;

use crate::args::QuantizationChoice;
use crate::command_files::Files;
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
    /// rabitq:BITS (1 to 8 bits per dimension); mixed:SECTORS (1 to 16 sectors of 32 bytes); auto: the one of several whose
    /// searches cost least, or no codes if exact searches do; or none: remove the codes
    #[arg(long, value_name = "QUANTIZATION", default_value_t = QuantizationChoice::Auto)]
    quantization: QuantizationChoice,
    /// Where auto expects searches: auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all; auto is a GPU if there is one
    #[arg(long, default_value_t = Device::AUTO)]
    device: Device,
    /// Take the named quantization even if searches will not find most neighbors of some vectors
    #[arg(long)]
    force: bool,
    /// Keep only the quantized codes: results have estimated distances, and the index accepts no inserts
    #[arg(long)]
    drop_vectors: bool,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.output.files()
    }

    /// Quantizes and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let Self { output, quantization, device, force, drop_vectors } = self;
        let (quantized, updated) = output
            .update(terminal, |index| quantize(index, quantization, device, force, drop_vectors, terminal))?;
        updated.report(terminal, &quantized, &quantized)
    }
}

/// A quantized index.
#[derive(Serialize)]
pub struct Quantized {
    quantization: Option<Quantization>,
    code_bytes: usize,
    vector_bytes: usize,
    #[serde(flatten)]
    device: Option<DeviceBytes>,
    /// How the quantization was chosen, if it was to be chosen.
    trial: Option<QuantizeTrial>,
}

/// Device memory that an index would take.
#[derive(Serialize)]
struct DeviceBytes {
    #[serde(rename = "device_bytes")]
    all: u64,
    #[serde(rename = "device_bytes_with_host_vectors")]
    without_vectors: u64,
}

/// Quantizes an index, for searches on `device` if the quantization is to be chosen, and drops its vectors if requested.
pub fn quantize(
    index: &Index,
    choice: QuantizationChoice,
    device: Device,
    force: bool,
    drop_vectors: bool,
    terminal: Terminal,
) -> Result<Quantized> {
    let index = index.with_progress(terminal.progress());
    let QuantizeReport { trial, .. } = index.quantize(choice.mode(device, force))?;
    if drop_vectors {
        ensure!(
            index.stats().quantization.is_some() || trial.is_none(),
            "--drop-vectors needs quantized codes, and exact distances cost least; name a quantization with --quantization"
        );
        index.drop_vectors()?;
    }
    let IndexStats { quantization, code_bytes, vector_bytes, .. } = index.stats();
    let bytes = |storage| {
        Some(Device::cuda(0).vector_storage(storage).memory_plan(&index)?.total(MemorySpace::Device))
    };
    let device = bytes(MemorySpace::Device).zip(bytes(MemorySpace::Host));
    let device = device.map(|(all, without_vectors)| DeviceBytes { all, without_vectors });
    Ok(Quantized { quantization, code_bytes, vector_bytes, device, trial })
}

impl fmt::Display for Quantized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [codes, vectors] = [self.code_bytes, self.vector_bytes].map(|bytes| units::bytes(bytes as u64));
        match self.quantization {
            Some(name) => write!(f, "codes    {name}: {codes} beside {vectors} of vectors")?,
            None => f.write_str("codes    none")?,
        }
        if let Some(DeviceBytes { all, without_vectors }) = self.device {
            let [all, without] = [all, without_vectors].map(units::bytes);
            write!(f, "\ngpu      {all} of device memory; {without} with vectors in host memory")?;
        }
        let Some(QuantizeTrial { recall, unit, exact_cost, tried, .. }) = &self.trial else {
            return Ok(());
        };
        let (measure, cost): (_, fn(f64) -> String) = match unit {
            CostUnit::Nanoseconds => ("estimated CPU time", |ns| format!("{:.1} µs", ns / 1e3)),
            _ => ("cost in bytes", |bytes| units::bytes(bytes as u64)),
        };
        let exact = cost(*exact_cost);
        write!(
            f,
            "\ntrial    {measure} per query at recall@10 of {recall:.4}; with exact distances {exact}"
        )?;
        for tried in tried {
            write!(f, "\n         {:<9}  {:>9}", tried.quantization, units::bytes(tried.bytes as u64))?;
            match tried.beam_width.zip(tried.cost) {
                Some((width, of_search)) => write!(f, "  {:>9} at beam width {width}", cost(of_search))?,
                None => f.write_str("  misses neighbors")?,
            }
        }
        Ok(())
    }
}
