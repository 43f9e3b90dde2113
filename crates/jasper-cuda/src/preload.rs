//! Compiles kernels ahead of their first launch: those of a build while its vectors are read, those of searches while
//! the host answers the first ones or encodes vectors, those of changes before searches wait for them.

use std::iter;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Duration;

use gpu_kernels::codes::CodeShape;
use gpu_kernels::edges::{CountIncoming, FindRowWithRoom, Reach};
use gpu_kernels::encode::EncodeQueries;
use gpu_kernels::graph::DistanceForm;
use gpu_kernels::groups::FindGroups;
use gpu_kernels::knn::{Rank, Scan};
use gpu_kernels::project::Project;
use gpu_kernels::prune::{Merge, PruneNew, PublishRows, Rescore, ReverseEdges};
use gpu_kernels::residuals::{Residuals, Rotate};
use gpu_kernels::rows::{CopyRows, QuantizeSq4, QuantizeSq8};
use gpu_kernels::search::{MAX_BEAM_WIDTH, QuantizedSearch, Search};
use gpu_kernels::sort::{Count, DigitOffsets, Pass};
use jasper_core::sync::lock;
use jasper_core::{ElementKind, Metric};
use jasper_graph::Graph;
use jasper_quant::Quantizer;
use jasper_quant::parameters::RotationParameters;
use jasper_vamana::{BuildSpec, ScalarQuantizer, SearchParams, sq8_metric};

use crate::graph::sq4_row_bytes;
use crate::kernels::KernelId;
use crate::search::params::default_launch;
use crate::{Context, QuantizedVectors, Result};

/// Kernels that are launched together, first those that are needed first or take longest to compile. JIT compilation of a kernel takes a tenth of
/// a second or two for the first process that uses it, and some milliseconds for later ones, when the driver takes it
/// from its cache.
#[derive(Debug)]
pub struct KernelSet {
    context: Context,
    kernels: Vec<KernelId>,
}

/// Most threads that load the kernels of a set; there are no more than CPUs. About twelve kernels of a build take long to
/// compile: with one thread each, it waits for little more than the longest
/// (docs/notebook/experiments.md#gpu-all-kernels-of-a-build-at-once).
const MAX_THREADS: usize = 12;

/// Vertices that a build searches for to measure what searches miss.
const SAMPLE: usize = 1024;

/// The name of these threads.
const THREAD: &str = "jasper-kernels";

impl KernelSet {
    /// Those that a build of this shape launches: those that link vectors as they are and, for floats unless
    /// `exact_linking`, those of the trial of SQ8 vectors and those that link them, but not if the trial rotates them,
    /// which makes rows longer.
    pub fn for_build(context: &Context, spec: &BuildSpec, exact_linking: bool) -> Self {
        let kernels = build_kernels(spec, exact_linking, context.device().multiprocessors);
        Self { context: context.clone(), kernels }
    }

    /// Those that [`link_on_device`](crate::link_on_device) launches for this graph, once it is known whether its vectors
    /// are quantized: a trial may have refused bytes, or rotated vectors, which makes rows longer.
    pub fn for_linking(context: &Context, graph: &Graph, quantized: Option<&QuantizedVectors>) -> Self {
        let (spec, multiprocessors) = (BuildSpec::of(graph), context.device().multiprocessors);
        let kernels = match quantized {
            None => link_kernels(&spec, false, multiprocessors),
            Some(vectors) => {
                let (metric, dimension) = (sq8_metric(spec.metric), vectors.dimension());
                let spec = BuildSpec { element: ElementKind::I8, metric, dimension, ..spec };
                link_kernels(&spec, vectors.has_sq4(), multiprocessors)
            }
        };
        Self { context: context.clone(), kernels }
    }

    /// Those that a search of `graph` for one query launches with default parameters.
    pub fn for_query(context: &Context, graph: &Graph) -> Self {
        let quantizer = graph.vectors().codes().map(|codes| &**codes.quantizer());
        let multiprocessors = context.device().multiprocessors;
        let kernels =
            query_kernels(graph.element(), graph.metric(), graph.dimension(), quantizer, multiprocessors);
        Self { context: context.clone(), kernels }
    }

    /// Those that a search by the codes of `quantizer` for one query launches with default parameters, and those that
    /// encode the queries of a batch.
    pub fn for_codes(context: &Context, graph: &Graph, quantizer: &dyn Quantizer) -> Self {
        let (metric, dimension) = (graph.metric(), graph.dimension());
        let multiprocessors = context.device().multiprocessors;
        let kernels = code_kernels(graph.element(), metric, dimension, quantizer, multiprocessors);
        Self { context: context.clone(), kernels }
    }

    /// Those that an insert or a consolidation launches while the graph is locked.
    pub fn for_publishing(context: &Context) -> Self {
        Self { context: context.clone(), kernels: publishing_kernels().into() }
    }

    /// Loads those that are not loaded, on several threads.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Ptx`](crate::ErrorKind::Ptx): the driver refuses one.
    pub fn load(&self) -> Result<()> {
        self.load_until(&AtomicBool::new(false))
    }

    /// As [`Self::load`], but begins no other kernel once `is_stopped`.
    fn load_until(&self, is_stopped: &AtomicBool) -> Result<()> {
        let (context, kernels) = (&self.context, self.context.kernels());
        let missing: Vec<_> = self.kernels.iter().filter(|kernel| !kernels.is_loaded(kernel)).collect();
        let next = AtomicUsize::new(0);
        let load_next = || {
            while let Some(kernel) = missing.get(next.fetch_add(1, Relaxed)) {
                if is_stopped.load(Relaxed) {
                    break;
                }
                kernels.load(context, kernel)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            // If no more threads can be started, this one loads them all.
            let spawn = |_| thread::Builder::new().name(THREAD.into()).spawn_scoped(scope, load_next).ok();
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            let threads = missing.len().min(MAX_THREADS).min(cpus);
            let others: Vec<_> = (1..threads).filter_map(spawn).collect();
            let join = |thread: ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            others.into_iter().map(join).fold(load_next(), Result::and)
        })
    }
}

/// Threads that compile kernels. Dropping this value waits for the kernels in progress and leaves out the others.
#[derive(Debug)]
pub struct KernelPreload {
    thread: Option<JoinHandle<()>>,
    is_stopped: Arc<AtomicBool>,
    is_complete: Arc<AtomicBool>,
}

impl KernelPreload {
    /// Starts to load a set, and then calls `end`. Errors are reported when the kernels are launched.
    pub fn new(set: KernelSet, end: impl FnOnce() + Send + 'static) -> Self {
        let [is_stopped, is_complete] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (stop, complete) = (Arc::clone(&is_stopped), Arc::clone(&is_complete));
        let loading = Loading::begin();
        let load = move || {
            // A failure is reported when the kernel is launched.
            let _ = set.load_until(&stop);
            complete.store(true, Relaxed);
            drop(loading);
            end();
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(load).ok();
        Self { thread, is_stopped, is_complete }
    }

    /// Loads no kernel any more but those in progress.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// Whether nothing is left to wait for: the kernels are loaded, or will be when they are launched.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Relaxed) || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Makes [`Self::is_complete`] true, because the caller has loaded the kernels.
    pub fn set_complete(&self) {
        self.is_complete.store(true, Relaxed);
    }
}

impl Drop for KernelPreload {
    fn drop(&mut self) {
        self.stop();
        // A kernel whose loading panicked is loaded when it is launched.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Number of sets that threads are loading.
static LOADING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Longer than any set takes. A child process has the number, but not the threads.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

thread_local! {
    /// At the end of the process the driver destroys what its compiler uses, and crashes if that still runs. Destructors
    /// of the thread that ends the process come before those of the driver: if it has started to load kernels, it waits.
    static WAITS_AT_END: WaitAtEnd = const { WaitAtEnd };
}

/// Is counted in [`LOADING`] until it is dropped.
struct Loading;

impl Loading {
    fn begin() -> Self {
        WAITS_AT_END.with(|_| ());
        *lock(&LOADING.0) += 1;
        Self
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        *lock(&LOADING.0) -= 1;
        LOADING.1.notify_all();
    }
}

struct WaitAtEnd;

impl Drop for WaitAtEnd {
    fn drop(&mut self) {
        let loading = lock(&LOADING.0);
        drop(LOADING.1.wait_timeout_while(loading, LONGEST_WAIT, |sets| *sets > 0));
    }
}

/// The kernels of a search for one query with default parameters.
pub(crate) fn query_kernels(
    element: ElementKind,
    metric: Metric,
    dimension: usize,
    quantizer: Option<&dyn Quantizer>,
    multiprocessors: u32,
) -> Vec<KernelId> {
    let params = SearchParams::new(10);
    let (k, beam_width) = (params.k as u32, params.effective_beam_width() as u32);
    let (op, row_bytes) =
        (DistanceForm::new(metric, element.is_integer()).op(), element.row_bytes(dimension) as u32);
    let warps = default_launch(1, multiprocessors, row_bytes).warps;
    let exact = |beam_width| KernelId::of(&Search::for_rows(element, op, row_bytes, beam_width, warps));
    let Some(quantizer) = quantizer else { return vec![exact(beam_width)] };
    let (shape, level_bytes) =
        (CodeShape::from(&**quantizer.layout()), quantizer.parameters().level_bytes as u32);
    // Then the nearest are reranked.
    vec![KernelId::of(&QuantizedSearch::for_codes(&shape, level_bytes, beam_width, warps)), exact(k)]
}

/// The kernels of [`KernelSet::for_codes`].
fn code_kernels(
    element: ElementKind,
    metric: Metric,
    dimension: usize,
    quantizer: &dyn Quantizer,
    multiprocessors: u32,
) -> Vec<KernelId> {
    let rotate = match quantizer.parameters().rotation {
        RotationParameters::Matrix(_) => KernelId::of(&Project),
        RotationParameters::Hadamard(factors) => KernelId::of(&Rotate::new(factors.len() as u32 / 4)),
    };
    let mut kernels = query_kernels(element, metric, dimension, Some(quantizer), multiprocessors);
    kernels.extend([KernelId::of(&Residuals { element }), rotate, KernelId::of(&EncodeQueries)]);
    kernels
}

/// The kernels that write the changed rows of a graph.
fn publishing_kernels() -> [KernelId; 2] {
    [KernelId::of(&CopyRows), KernelId::of(&PublishRows)]
}

/// The kernels of [`KernelSet::for_build`].
fn build_kernels(spec: &BuildSpec, exact_linking: bool, multiprocessors: u32) -> Vec<KernelId> {
    let exact = link_kernels(spec, false, multiprocessors);
    if exact_linking || spec.element.is_integer() {
        return exact;
    }
    let quantized = BuildSpec { element: ElementKind::I8, metric: sq8_metric(spec.metric), ..*spec };
    let mut kernels: Vec<_> = trial_kernels(spec.element, quantized.metric).into();
    let has_sq4 = spec.dimension >= ScalarQuantizer::MIN_SQ4_DIMENSION;
    let quantized = link_kernels(&quantized, has_sq4, multiprocessors);
    // By turns, because the trial may choose either.
    let mut exact = exact.into_iter();
    kernels.extend(quantized.into_iter().flat_map(|kernel| iter::once(kernel).chain(exact.next())));
    kernels.extend(exact);
    kernels
}

/// The kernels of the trial of a build, which quantizes all vectors to SQ8 and searches them; `metric` is that of SQ8
/// vectors.
fn trial_kernels(element: ElementKind, metric: Metric) -> [KernelId; 3] {
    let (scan, rank) = (Scan::new(ElementKind::I8, metric, false), Rank { element: ElementKind::I8, metric });
    [KernelId::of(&QuantizeSq8 { element }), KernelId::of(&scan), KernelId::of(&rank)]
}

/// The kernels that link vertices and take long to compile or are launched first; `has_sq4` if their vectors are
/// quantized to SQ4, too. None if the device cannot build with these parameters.
fn link_kernels(spec: &BuildSpec, has_sq4: bool, multiprocessors: u32) -> Vec<KernelId> {
    if crate::build::check_beam(&spec.params).is_err() {
        return Vec::new();
    }
    let (form, beam_width) = (
        DistanceForm::new(spec.metric, spec.element.is_integer()),
        spec.params.bulk_beam_width(spec.metric) as u32,
    );
    let row_bytes = spec.element.row_bytes(spec.dimension) as u32;
    let search = |beam_width, batch| {
        let warps = default_launch(batch, multiprocessors, row_bytes).warps;
        KernelId::of(&Search::for_rows(spec.element, form.op(), row_bytes, beam_width, warps))
    };
    // The sample after the first pass, and passes with a wider beam.
    let wider = [(4, SAMPLE), (16, SAMPLE), (2, usize::MAX), (4, usize::MAX)]
        .map(|(times, batch)| ((times * beam_width).min(MAX_BEAM_WIDTH), batch));
    let (few, many) = (search(beam_width, 1), search(beam_width, usize::MAX));
    let (searches, later) = if has_sq4 {
        let sq4_row_bytes = sq4_row_bytes(spec.dimension);
        let sq4 = |beam_width| KernelId::of(&Search::for_sq4(form.op(), sq4_row_bytes, beam_width));
        let rescore = KernelId::of(&Rescore::for_sq8(form.op(), row_bytes));
        let mut later: Vec<_> = wider.map(|(beam_width, _)| sq4(beam_width)).into();
        later.push(many);
        (vec![KernelId::of(&QuantizeSq4), few, sq4(beam_width), rescore], later)
    } else {
        (vec![few, many], wider.map(|(beam_width, batch)| search(beam_width, batch)).into())
    };
    // Takes longest to compile, so it is begun first.
    let merge = KernelId::of(&Merge::for_rows(spec.element, form, row_bytes));
    let link = [
        KernelId::of(&PruneNew::for_rows(spec.element, form, row_bytes)),
        KernelId::of(&ReverseEdges),
        KernelId::of(&Count),
        KernelId::of(&DigitOffsets),
        KernelId::of(&Pass),
        KernelId::of(&FindGroups),
        KernelId::of(&CountIncoming),
        KernelId::of(&Reach),
        KernelId::of(&FindRowWithRoom),
    ];
    iter::once(merge).chain(searches).chain(link).chain(publishing_kernels()).chain(later).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::synthetic::Clusters;
    use jasper_core::{BuildParams, MatrixView};
    use jasper_ptx::Archive;
    use jasper_quant::Quantization;

    /// Every kernel that builds and searches of any rows preload must exist.
    fn are_there(element: ElementKind, dimension: usize) {
        let archive = Archive::read(gpu_kernels::PTX).unwrap();
        for metric in Metric::ALL {
            let params = BuildParams::default();
            let spec = BuildSpec { rows: 1000, element, dimension, metric, params };
            let mut kernels = build_kernels(&spec, false, 132);
            assert!(kernels.len() >= 8, "{kernels:?}");
            kernels.extend(query_kernels(element, metric, dimension, None, 132));
            for kernel in kernels {
                assert!(archive.entries().any(|entry| entry == kernel.entry_point), "{kernel:?}");
            }
        }
    }

    #[test]
    fn preloaded_kernels_are_there() {
        are_there(ElementKind::U8, 128);
        are_there(ElementKind::I8, 100);
        are_there(ElementKind::I8, 768);
        are_there(ElementKind::F16, 96);
        are_there(ElementKind::F16, 768);
        are_there(ElementKind::F32, 960);
    }

    #[test]
    fn kernels_of_codes_are_there() {
        let archive = Archive::read(gpu_kernels::PTX).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let rows: Vec<f32> = Clusters::new(48, 7).rows(200, 0);
        let rows = MatrixView::new(&rows, 48).unwrap();
        for quantization in [Quantization::Rabitq { bits: 2 }, Quantization::Mixed { sectors: 1 }] {
            let quantizer = quantization.train(Metric::L2, rows, &pool).unwrap();
            let kernels = code_kernels(ElementKind::F32, Metric::L2, 48, &*quantizer, 132);
            assert_eq!(kernels.len(), 5);
            for kernel in kernels {
                assert!(archive.entries().any(|entry| entry == kernel.entry_point), "{kernel:?}");
            }
        }
    }
}
