//! What all parts of the program share: the device, its memory bandwidth, and the time budget.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper_core::{BuildParams, Element, ElementKind};
use jasper_cuda::{Context, DeviceGraph, MemorySpace, Stream, VectorStorage, copy_bandwidth};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use serde_json::json;

/// A device, measured.
pub struct Bench {
    /// Where everything runs.
    pub stream: Stream,
    /// Bytes per second that a copy within the device reads and writes.
    pub copy: f64,
    /// How long the program may go on.
    pub deadline: Deadline,
    /// What was asked for.
    pub options: Options,
}

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the files of the sets are.
    pub data: PathBuf,
    /// Where index files are kept, if they are.
    pub cache: Option<PathBuf>,
    /// Where graphs are built.
    pub builder: Builder,
    /// How graphs are built.
    pub params: BuildParams,
    /// Whether graphs of floats are linked by rows of bytes.
    pub quantized_linking: bool,
    /// Elements to measure; all that a set can be held in, if none.
    pub elements: Vec<ElementKind>,
    /// Codes that curves are searched by; vectors, if none.
    pub codes: Option<Quantization>,
    /// Where vectors are.
    pub vectors: VectorStorage,
    /// Entries of a frontier of estimates that get exact distances.
    pub rerank: u32,
    /// Seconds after which nothing new is begun.
    pub budget: f64,
}

/// Who builds graphs. Both build the same from bytes; from floats, sums are made in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builder {
    /// All processors.
    Cpu,
    /// The device.
    Cuda,
}

impl Builder {
    /// `cpu` or `cuda`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// The builder of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Cpu, Self::Cuda].into_iter().find(|builder| builder.name() == name)
    }
}

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    begun: Instant,
    budget: Duration,
}

impl Deadline {
    /// Starts now.
    pub fn new(seconds: f64) -> Self {
        Self { begun: Instant::now(), budget: Duration::from_secs_f64(seconds) }
    }

    /// Whether nothing new should be begun.
    pub fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.budget
    }

    /// Tells, beside the lines, what is being done and when.
    pub fn log(&self, what: impl std::fmt::Display) {
        eprintln!("{:>6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }
}

impl Bench {
    /// Opens the first device and measures its memory; prints both.
    pub fn open(options: Options) -> Result<Self> {
        let deadline = Deadline::new(options.budget);
        let context = Context::open(0)?;
        let stream = Stream::new(&context)?;
        let (device, copy) = (context.device(), copy_bandwidth(&stream)?);
        let line = json!({
            "what": "device", "name": device.name, "multiprocessors": device.multiprocessors, "gb_per_s": copy / 1e9,
        });
        println!("{line}");
        Ok(Self { stream, copy, deadline, options })
    }

    /// Copies the graph of a set to the device, and its vectors where they are wanted. Prints what that takes of the device's
    /// memory, what is free before and after, and what the graph would take without codes.
    pub fn upload<T: Element>(&self, set: &str, graph: &Graph<T>) -> Result<DeviceGraph<T>> {
        let (context, vectors) = (self.stream.context(), self.options.vectors);
        let before = context.free_memory()?;
        DeviceGraph::<T>::plan(graph, vectors).check(before)?;
        let copy = DeviceGraph::upload(&self.stream, graph, vectors)?;
        self.stream.synchronize()?;
        let after = context.free_memory()?;
        let uncoded = DeviceGraph::<T>::plan(graph, VectorStorage::Device).without("codes");
        let line = json!({
            "what": "memory", "set": set, "element": T::KIND.name(), "vectors": vectors.to_string(),
            "codes": graph.vectors().codes().map(|codes| codes.quantizer().quantization().to_string()),
            "device_bytes": copy.bytes(), "device_bytes_without_codes": uncoded.total(MemorySpace::Device),
            "free_before": before.device, "free_after": after.device,
        });
        println!("{line}");
        Ok(copy)
    }

    /// Whether vectors of this element are to be measured.
    pub fn wants(&self, element: ElementKind) -> bool {
        self.options.elements.is_empty() || self.options.elements.contains(&element)
    }
}
