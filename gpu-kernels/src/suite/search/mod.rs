//! Beam search against its definition, and that against the CPU executor.
//!
//! Coordinates are small integers, so that sums are exact in any order: kernels, teams, batches and filters of all kinds
//! must give the same answers, with distances to the bit. Vectors of unit length are the exception.

mod definition;
mod graphs;

use jasper_build::{CpuExecutor, Hit, SearchParams};
use jasper_core::{BitSet, Element, ElementKind, MatrixView, Metric, Neighbor, VectorId, f16, synthetic};
use jasper_graph::{Graph, Scorer};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::distances::Measure;
use crate::graph::Form;
use crate::search::{Answer, MAX_BEAM_WIDTH, NO_ANSWER, Search, SearchArgs};
use crate::{Buffer, In, Stream};
use definition::{Found, search};
use graphs::OnDevice;

/// How far a distance between vectors of unit length may be from that of the CPU: some roundings of a sum near 1.
const UNIT_TOLERANCE: f32 = 2e-6;
/// No bound on expansions.
const TO_THE_END: u32 = u32::MAX;

/// What is asked of a kernel.
#[derive(Clone, Debug)]
struct Ask {
    form: Form,
    /// Slots whose rows are looked for.
    queries: Vec<VectorId>,
    /// Slots that may be answers; all, if none are named.
    allowed: Option<BitSet>,
    k: u32,
    beam_width: u32,
    most_hops: u32,
    expansions: u32,
    filter_slots: u32,
}

impl Ask {
    /// Anything that `kernel` takes, of a graph of `slots`.
    fn random(rng: &mut impl Rng, kernel: Search, form: Form, slots: usize) -> Self {
        let width = 1..=kernel.most_entries().min(70);
        // Where rounding decides what is near, everything is to be found.
        let beam_width = if form == Form::Half { *width.end() } else { rng.random_range(width) };
        let mut slot = || VectorId::from_index(rng.random_range(0..slots));
        let queries = (0..3).map(|_| slot()).collect();
        let allowed = rng.random::<bool>().then(|| (0..slots).filter(|_| rng.random()).collect());
        let is_bounded = form != Form::Half && rng.random_range(0..4) == 0;
        Self {
            form,
            queries,
            allowed,
            k: rng.random_range(1..=beam_width),
            beam_width,
            most_hops: if is_bounded { rng.random_range(0..20) } else { TO_THE_END },
            expansions: *[1, 1, 2, 3, 4].choose(rng).expect("there are some"),
            filter_slots: *[0, 32, 64, 1024, 2048].choose(rng).expect("there are some"),
        }
    }
}

/// What a kernel can be asked for.
fn forms(kernel: Search) -> &'static [Form] {
    let is_float = matches!(kernel.element(), ElementKind::F32 | ElementKind::F16);
    match (kernel.measure(), is_float) {
        (Measure::SquaredL2, true) => &[Form::Plain, Form::Augmented, Form::Half],
        (Measure::SquaredL2, false) => &[Form::Plain, Form::Augmented],
        (Measure::Dot, true) => &[Form::Negated],
        (Measure::Dot, false) => &[Form::Negated, Form::Angle],
    }
}

/// The metric of graphs in which distances have a form.
fn metric(form: Form) -> Metric {
    match form {
        Form::Plain => Metric::L2,
        Form::Half | Form::Angle => Metric::Cosine,
        Form::Negated | Form::Augmented => Metric::InnerProduct,
    }
}

/// A graph of `slots` that `kernel` can search.
fn graph<T: Element>(rng: &mut impl Rng, kernel: Search, form: Form, slots: usize) -> Graph<T> {
    let dimension = match kernel.row_bytes() {
        // The last chunk may be a part of one.
        Some(bytes) => bytes as usize / size_of::<T>() - rng.random_range(0..16 / size_of::<T>()),
        None => rng.random_range(1..70),
    };
    graphs::random(rng, metric(form), dimension, slots)
}

/// Calls `$each::<T>($args)` with the element of `$kernel`.
macro_rules! with_element {
    ($kernel:expr, $each:ident($($args:expr),*)) => {
        match $kernel.element() {
            ElementKind::F32 => $each::<f32>($($args),*),
            ElementKind::F16 => $each::<f16>($($args),*),
            ElementKind::U8 => $each::<u8>($($args),*),
            ElementKind::I8 => $each::<i8>($($args),*),
        }
    };
}

/// Every kernel, in every form, over random graphs: few answers and many, tombstones and filters, every way to share
/// the work out.
///
/// # Panics
/// If an answer is not that of the definition, or that not of the CPU executor, or the stream fails.
pub fn searches_agree_with_the_cpu(stream: &impl Stream, seed: u64) {
    fn random<T: Element>(stream: &impl Stream, cpu: &CpuExecutor, kernel: Search, form: Form, seed: u64) {
        let mut rng = synthetic::rng(seed);
        let most = if form == Form::Half { kernel.most_entries().min(60) } else { 60 };
        let slots = rng.random_range(1..=most as usize);
        let graph = graph::<T>(&mut rng, kernel, form, slots);
        let ask = Ask::random(&mut rng, kernel, form, graph.slots());
        agrees(stream, cpu, kernel, &graph, &ask);
    }
    let cpu = CpuExecutor::new(1).unwrap();
    let asked = Search::all().flat_map(|kernel| forms(kernel).iter().map(move |form| (kernel, *form)));
    for ((kernel, form), seed) in asked.zip(seed << 32..) {
        with_element!(kernel, random(stream, &cpu, kernel, form, seed));
    }
}

/// Beams of hundreds of entries, up to the widest.
///
/// # Panics
/// As [`searches_agree_with_the_cpu`].
pub fn wide_searches_agree_with_the_cpu(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for (beam_width, warps) in [(129, 1), (200, 8), (333, 1), (MAX_BEAM_WIDTH, 1)] {
        let kernel = Search::for_rows(ElementKind::U8, Measure::SquaredL2, 16, beam_width, warps);
        let graph = graph::<u8>(&mut rng, kernel, Form::Plain, beam_width as usize + 50);
        let random = Ask::random(&mut rng, kernel, Form::Plain, graph.slots());
        let queries = random.queries[..1].to_vec();
        let ask = Ask { beam_width, k: beam_width, most_hops: TO_THE_END, queries, ..random };
        agrees(stream, &cpu, kernel, &graph, &ask);
    }
}

/// More queries than a device takes at once, one by one and together.
///
/// # Panics
/// As [`searches_agree_with_the_cpu`].
pub fn searches_do_not_depend_on_the_batch(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for warps in [1, 8] {
        let kernel = Search::for_rows(ElementKind::I8, Measure::SquaredL2, 16, 8, warps);
        let graph = graph::<i8>(&mut rng, kernel, Form::Plain, 12);
        let queries = (0..40 * stream.multiprocessors() as usize).map(|i| VectorId::from_index(i % 12));
        let ask = Ask { queries: queries.collect(), ..Ask::random(&mut rng, kernel, Form::Plain, 12) };
        agrees(stream, &cpu, kernel, &graph, &ask);
        for query in &ask.queries[..12] {
            agrees(stream, &cpu, kernel, &graph, &Ask { queries: vec![*query], ..ask.clone() });
        }
    }
}

/// Every vertex a start point, so that they come in several rounds; with an end before the first expansion, a scan.
///
/// # Panics
/// As [`searches_agree_with_the_cpu`].
pub fn searches_begin_at_all_start_points(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for (warps, most_hops) in [(1, 0), (8, 0), (1, TO_THE_END), (8, TO_THE_END)] {
        let kernel = Search::for_rows(ElementKind::F16, Measure::Dot, 16, 100, warps);
        let mut graph = graph::<f16>(&mut rng, kernel, Form::Negated, 130);
        graph.set_start_points(graph.vertices().collect());
        let ask = Ask::random(&mut rng, kernel, Form::Negated, 130);
        agrees(stream, &cpu, kernel, &graph, &Ask { most_hops, expansions: 2, ..ask });
    }
}

/// Graphs in which there is nothing to find: without start points, without edges, without anything that may be an
/// answer; and no queries.
///
/// # Panics
/// As [`searches_agree_with_the_cpu`].
pub fn searches_find_nothing_where_nothing_is(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for (beam_width, warps) in [(10, 1), (10, 8), (MAX_BEAM_WIDTH, 1), (MAX_BEAM_WIDTH, 8)] {
        let kernel = Search::for_rows(ElementKind::F32, Measure::SquaredL2, 16, beam_width, warps);
        let mut graph = graph::<f32>(&mut rng, kernel, Form::Plain, 9);
        let ask = Ask::random(&mut rng, kernel, Form::Plain, 9);
        agrees(stream, &cpu, kernel, &graph, &Ask { queries: Vec::new(), ..ask.clone() });
        agrees(stream, &cpu, kernel, &graph, &Ask { allowed: Some(BitSet::new()), ..ask.clone() });
        for slot in graph.vertices().collect::<Vec<_>>() {
            graph.set_neighbors(slot, &[]);
        }
        agrees(stream, &cpu, kernel, &graph, &ask);
        graph.set_start_points(Vec::new());
        agrees(stream, &cpu, kernel, &graph, &ask);
    }
}

/// Asks `kernel`, on the device of `stream`, and compares.
fn agrees<T: Element>(stream: &impl Stream, cpu: &CpuExecutor, kernel: Search, graph: &Graph<T>, ask: &Ask) {
    let (answers, work) = launch(stream, kernel, graph, ask);
    let found = answers.chunks(ask.k as usize).zip(work.chunks(2));
    for (&query, (answers, work)) in ask.queries.iter().zip(found) {
        let context = || format!("{kernel:?}, {} slots, {query:?} of {ask:?}", graph.slots());
        let scorer = match ask.form {
            Form::Augmented => graph.row_scorer(query),
            _ => graph.scorer(graph.padded_vector(query)),
        };
        // What a team expands together, it has scored ahead of its turn.
        let expansions = if kernel.warps() > 1 { 1 } else { ask.expansions };
        let expected = search(graph, &scorer, ask, expansions);
        let is_allowed =
            |near: &&Neighbor| ask.allowed.as_ref().is_none_or(|allowed| allowed.contains(near.id().index()));
        let nearest: Vec<Neighbor> =
            expected.nearest.iter().filter(is_allowed).take(ask.k as usize).copied().collect();
        are_near(answers, &nearest, &scorer, ask.form, &context);
        assert_eq!(work[0], expected.hops, "hops, {}", context());
        // The filter forgets; without one, everything is scored as often as it is met.
        let least = if ask.filter_slots == 0 { expected.met } else { expected.distinct };
        assert!((least..=expected.met).contains(&work[1]), "{} distances, {}", work[1], context());
        if ask.form != Form::Augmented && (expansions, ask.most_hops) == (1, TO_THE_END) {
            is_of_the_cpu(cpu, graph, query, &expected, ask, &context);
        }
    }
}

/// What `kernel` answers, and the work it says it had.
fn launch<T: Element>(
    stream: &impl Stream,
    kernel: Search,
    graph: &Graph<T>,
    ask: &Ask,
) -> (Vec<Answer>, Vec<u32>) {
    let on_device = OnDevice::upload(stream, graph);
    let queries = stream.upload(&graphs::rows(graph, ask.queries.iter().copied())).unwrap();
    let allowed = ask.allowed.as_ref().map(|allowed| {
        let mut words = allowed.words().to_vec();
        words.resize(graph.slots().div_ceil(32), 0);
        stream.upload(&words).unwrap()
    });
    let mut answers = stream.allocate::<Answer>(ask.queries.len() * ask.k as usize).unwrap();
    let mut work = stream.allocate::<u32>(ask.queries.len() * 2).unwrap();
    let args = SearchArgs {
        graph: on_device.args(),
        queries: queries.input().cast(),
        allowed: allowed.as_ref().map_or(In::NOWHERE, |allowed| allowed.input()),
        answers: answers.output(),
        work: work.output(),
        queries_len: ask.queries.len() as u32,
        k: ask.k,
        beam_width: ask.beam_width,
        most_hops: ask.most_hops,
        expansions: ask.expansions,
        filter_slots: ask.filter_slots,
        form: ask.form,
    };
    // SAFETY: the buffers have just been made in these shapes, and live until the downloads have waited.
    unsafe { stream.launch(&kernel, args).unwrap() };
    (stream.download(&answers).unwrap(), stream.download(&work).unwrap())
}

/// Whether the answers are `nearest`, and behind them nothing. Between vectors of unit length, distances may differ by a
/// little, and vertices that are as far from the query may stand for each other.
fn are_near<T: Element>(
    answers: &[Answer],
    nearest: &[Neighbor],
    scorer: &Scorer<'_, T>,
    form: Form,
    context: &dyn Fn() -> String,
) {
    let (found, rest) = answers.split_at(nearest.len());
    assert!(rest.iter().all(|answer| *answer == NO_ANSWER), "{rest:?} behind {found:?}, {}", context());
    let mut slots = Vec::new();
    for (answer, near) in found.iter().zip(nearest) {
        let [low, high, distance, slot] = *answer;
        let (distance, slot) = (f32::from_bits(distance), VectorId::new(slot));
        assert_eq!(u64::from(high) << 32 | u64::from(low), graphs::key(slot), "{answer:?}, {}", context());
        if form == Form::Half {
            let is_near = |other: f32| (distance - other).abs() <= UNIT_TOLERANCE;
            let is_both = is_near(near.distance()) && is_near(scorer.score_one(slot));
            assert!(is_both, "{answer:?} for {near:?}, {}", context());
        } else {
            let is_same = (distance, slot) == (near.distance(), near.id());
            assert!(is_same, "{found:?} for {nearest:?}, {}", context());
        }
        slots.push(slot);
    }
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), found.len(), "an answer twice: {found:?}, {}", context());
}

/// Whether the CPU executor finds the same as the definition, and with as much work.
fn is_of_the_cpu<T: Element>(
    cpu: &CpuExecutor,
    graph: &Graph<T>,
    query: VectorId,
    expected: &Found,
    ask: &Ask,
    context: &dyn Fn() -> String,
) {
    let width = ask.beam_width as usize;
    let mut hits = vec![Hit::NONE; width];
    let query = MatrixView::new(graph.vector(query), graph.dimension()).unwrap();
    let params = SearchParams::new(width).beam_width(width);
    let report = cpu.answer(graph, query, params, &mut hits).unwrap();
    hits.retain(|hit| *hit != Hit::NONE);
    if ask.form == Form::Half {
        assert_eq!(hits.len(), expected.nearest.len(), "{}", context());
    } else {
        let nearest = expected.nearest.iter();
        let nearest = nearest.map(|near| Hit { key: graphs::key(near.id()), distance: near.distance() });
        assert_eq!(hits, nearest.collect::<Vec<_>>(), "{}", context());
    }
    let work = (report.work.hops, report.work.distances);
    assert_eq!(work, (expected.hops.into(), expected.distinct.into()), "{}", context());
}
