//! `jasper quantize`: codes beside the vectors of an index.

use std::fmt;
use std::str::FromStr;
use std::time::Instant;

use anyhow::Result;
use jasper::QuantizeReport;
use jasper::{Element, Index, IndexInfo, ParseQuantizationError, Quantization, VectorStorage};
use serde::Serialize;

use crate::change::{Changed, Copy};
use crate::element::with_element;
use crate::human;
use crate::keep::{Keep, device_bytes};
use crate::screen::Screen;

/// Quantize the vectors of an index, so that searches read a fraction of their bytes
///
/// Searches then find their way by estimates and look exactly only at what they find. Codes follow every change of the
/// index. Where its data changed much, the same command learns and codes anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper quantize vectors.jasper --code auto")]
pub struct Args {
    #[command(flatten)]
    copy: Copy,
    /// rabitq:BITS (1 to 8 bits a coordinate), mixed:SECTORS (1 to 16 times 32 bytes), auto, which tries some and keeps
    /// the one by which searches ask for the fewest bytes, or none
    #[arg(long, value_name = "CODE", default_value_t = Choice::Auto)]
    code: Choice,
    /// What becomes of the vectors. Device and host leave the same file, and differ in what is told of a GPU's memory
    #[arg(long, value_name = "WHERE", default_value = "device", value_enum)]
    keep_vectors: Keep,
}

/// What vectors are coded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// What a trial finds.
    Auto,
    /// Nothing.
    None,
    /// This.
    Fixed(Quantization),
}

/// What became of the codes.
#[derive(Debug, Serialize)]
pub struct Coded {
    /// The code that vectors have now.
    code: Option<String>,
    /// Bytes of all codes.
    code_bytes: usize,
    /// Bytes of all vectors.
    vector_bytes: usize,
    /// Bytes that the index takes of a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_bytes: Option<u64>,
    /// The same before it was coded, with vectors there.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_bytes_before: Option<u64>,
    #[serde(skip)]
    keep: Keep,
    trial: Option<Trial>,
}

/// What a trial found.
#[derive(Debug, Serialize)]
pub struct Trial {
    /// Recall@10 that all codes were to reach.
    recall: f64,
    exact_bytes_per_query: f64,
    tried: Vec<Tried>,
}

#[derive(Debug, Serialize)]
struct Tried {
    code: String,
    /// Bytes of a code.
    bytes: usize,
    /// The least beam width that reached the recall, if any did.
    beam_width: Option<usize>,
    bytes_per_query: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    coded: Coded,
    #[serde(flatten)]
    changed: Changed,
}

impl Args {
    /// Codes and saves.
    pub fn run(self, screen: Screen) -> Result<()> {
        let info = IndexInfo::read(&self.copy.index)?;
        screen.report(&with_element!(info.element, T => self.quantize::<T>(screen)?))
    }

    fn quantize<T: Element>(self, screen: Screen) -> Result<Report> {
        let (coded, changed) = self.copy.change::<T, _>(screen, |mut index| {
            let begun = Instant::now();
            let coded = self.code.code(&mut index, self.keep_vectors, screen)?;
            Ok((coded, begun.elapsed().as_secs_f64(), index))
        })?;
        Ok(Report { coded, changed })
    }
}

impl Choice {
    /// Gives an index these codes, and keeps its vectors or not.
    pub fn code<T: Element>(self, index: &mut Index<T>, keep: Keep, screen: Screen) -> Result<Coded> {
        let device_bytes_before = device_bytes(index, VectorStorage::Device);
        let trial = self.apply(index, screen)?;
        keep.apply(index)?;
        let stats = index.stats();
        Ok(Coded {
            code: stats.quantization.map(|code| code.to_string()),
            code_bytes: stats.code_bytes,
            vector_bytes: stats.vector_bytes,
            device_bytes: device_bytes(index, keep.place().unwrap_or(VectorStorage::Device)),
            device_bytes_before,
            keep,
            trial,
        })
    }

    /// Gives an index these codes.
    fn apply<T: Element>(self, index: &mut Index<T>, screen: Screen) -> Result<Option<Trial>> {
        match self {
            Self::Auto => return Ok(Some(index.auto_quantize_with(&mut screen.progress())?.into())),
            Self::None => index.clear_codes()?,
            Self::Fixed(code) => index.quantize(code)?,
        }
        Ok(None)
    }
}

impl FromStr for Choice {
    type Err = ParseQuantizationError;

    fn from_str(name: &str) -> Result<Self, ParseQuantizationError> {
        match name {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            name => name.parse().map(Self::Fixed),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Fixed(code) => code.fmt(f),
        }
    }
}

impl From<QuantizeReport> for Trial {
    fn from(trial: QuantizeReport) -> Self {
        let tried = trial.tried.into_iter().map(|tried| Tried {
            code: tried.quantization.to_string(),
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

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [codes, vectors] = [self.code_bytes, self.vector_bytes].map(|bytes| human::bytes(bytes as u64));
        match &self.code {
            Some(code) => write!(f, "codes    {code}: {codes} beside {vectors} of vectors")?,
            None => write!(f, "codes    none")?,
        }
        if let (Some(now), Some(before)) = (self.device_bytes, self.device_bytes_before) {
            let vectors = self
                .keep
                .place()
                .map_or("without vectors".into(), |place| format!("with vectors on the {place}"));
            let [now, before] = [now, before].map(human::bytes);
            write!(f, "\ndevice   {now} of a GPU {vectors}; {before} before, with vectors on the device")?;
        }
        let Some(Trial { recall, exact_bytes_per_query, tried }) = &self.trial else { return Ok(()) };
        let bytes = |bytes: f64| human::bytes(bytes as u64);
        write!(
            f,
            "\ntrial    bytes a query asks for at recall@10 of {recall:.4}; by exact distances {}",
            bytes(*exact_bytes_per_query)
        )?;
        tried.iter().try_for_each(|tried| {
            write!(f, "\n         {:<9}  {:>9}", tried.code, human::bytes(tried.bytes as u64))?;
            match (tried.beam_width, tried.bytes_per_query) {
                (Some(width), Some(asked)) => write!(f, "  {:>9} at beam width {width}", bytes(asked)),
                _ => f.write_str("  not reached"),
            }
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.coded, self.changed)
    }
}
