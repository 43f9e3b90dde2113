//! What a kernel tells against the definition, and that against the CPU executor.

use jasper_build::{CpuExecutor, Hit, SearchParams};
use jasper_core::{Element, MatrixView, Neighbor, VectorId};
use jasper_graph::{Graph, Scorer};

use super::ask::{Ask, TO_THE_END};
use super::definition::{Found, search};
use super::graphs;
use crate::Stream;
use crate::graph::Form;
use crate::search::{Answer, NO_ANSWER, Search};

/// How far a distance between vectors of unit length may be from that of the CPU: some roundings of a sum near 1.
const UNIT_TOLERANCE: f32 = 2e-6;

/// Asks `kernel`, on the device of `stream`, and compares.
pub(super) fn agrees<T: Element>(
    stream: &impl Stream,
    cpu: &CpuExecutor,
    kernel: Search,
    graph: &Graph<T>,
    ask: &Ask,
) {
    let told = ask.launch(stream, kernel, graph);
    for (i, &query) in ask.queries.iter().enumerate() {
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
        let answers = &told.answers[i * ask.k as usize..][..ask.k as usize];
        are_near(answers, &nearest, &scorer, ask.form, &context);
        let [hops, distances] = told.work[i];
        assert_eq!(hops as usize, expected.expanded.len(), "hops, {}", context());
        if let Some(log) = &told.log {
            let log = &log[i * ask.most_hops as usize..][..expected.expanded.len()];
            let expanded: Vec<u64> = expected.expanded.iter().map(|vertex| vertex.to_bits()).collect();
            assert_eq!(log, expanded, "what was expanded, {}", context());
        }
        // The filter forgets; without one, everything is scored as often as it is met.
        let least = if ask.filter_slots == 0 { expected.met } else { expected.distinct };
        assert!((least..=expected.met).contains(&distances), "{distances} distances, {}", context());
        if ask.form != Form::Augmented && (expansions, ask.most_hops) == (1, TO_THE_END) {
            is_of_the_cpu(cpu, graph, query, &expected, ask, &context);
        }
    }
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
    assert_eq!(work, (expected.expanded.len() as u64, expected.distinct.into()), "{}", context());
}
