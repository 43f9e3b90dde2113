//! What is asked of a kernel, and what it tells.

use jasper_core::{BitSet, Element, VectorId};
use jasper_graph::Graph;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::graphs::{self, OnDevice};
use crate::graph::Form;
use crate::search::{Answer, Search, SearchArgs};
use crate::{Buffer, In, Out, Stream};

/// No bound on expansions.
pub(super) const TO_THE_END: u32 = u32::MAX;

/// What is asked of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) form: Form,
    /// Slots whose rows are looked for.
    pub(super) queries: Vec<VectorId>,
    /// The queries are named by the rows of the graph that they are.
    pub(super) names_rows: bool,
    /// Slots that may be answers; all, if none are named.
    pub(super) allowed: Option<BitSet>,
    pub(super) k: u32,
    pub(super) beam_width: u32,
    /// Unless it is [`TO_THE_END`], what is expanded is logged.
    pub(super) most_hops: u32,
    pub(super) expansions: u32,
    pub(super) filter_slots: u32,
}

/// What a kernel tells of all queries.
pub(super) struct Told {
    /// `[queries][k]`
    pub(super) answers: Vec<Answer>,
    /// `[queries]`: hops and distances.
    pub(super) work: Vec<[u32; 2]>,
    /// `[queries][most_hops]`, if it was asked for.
    pub(super) log: Option<Vec<u64>>,
}

impl Ask {
    /// Anything that `kernel` takes, of a graph of `slots`.
    pub(super) fn random(rng: &mut impl Rng, kernel: Search, form: Form, slots: usize) -> Self {
        let width = 1..=kernel.most_entries().min(70);
        // Where rounding decides what is near, everything is to be found.
        let beam_width = if form == Form::Half { *width.end() } else { rng.random_range(width) };
        let mut slot = || VectorId::from_index(rng.random_range(0..slots));
        let queries = (0..3).map(|_| slot()).collect();
        let allowed = rng.random::<bool>().then(|| (0..slots).filter(|_| rng.random()).collect());
        // A bound that some searches come to, and one that none does.
        let most_hops =
            *[rng.random_range(0..20), slots as u32, TO_THE_END].choose(rng).expect("there are some");
        Self {
            form,
            queries,
            names_rows: rng.random(),
            allowed,
            k: rng.random_range(1..=beam_width),
            beam_width,
            most_hops: if form == Form::Half { TO_THE_END } else { most_hops },
            expansions: *[1, 1, 2, 3, 4].choose(rng).expect("there are some"),
            filter_slots: *[0, 32, 64, 1024, 2048].choose(rng).expect("there are some"),
        }
    }

    /// What `kernel` answers, on the device of `stream`.
    pub(super) fn launch<T: Element>(&self, stream: &impl Stream, kernel: Search, graph: &Graph<T>) -> Told {
        let on_device = OnDevice::upload(stream, graph);
        let len = self.queries.len();
        let queries = stream.upload(&graphs::rows(graph, self.queries.iter().copied())).unwrap();
        let names: Vec<u32> = self.queries.iter().map(|slot| slot.get()).collect();
        let names = self.names_rows.then(|| stream.upload(&names).unwrap());
        let allowed = self.allowed.as_ref().map(|allowed| {
            let mut words = allowed.words().to_vec();
            words.resize(graph.slots().div_ceil(32), 0);
            stream.upload(&words).unwrap()
        });
        let mut answers = stream.allocate::<Answer>(len * self.k as usize).unwrap();
        let mut work = stream.allocate::<[u32; 2]>(len).unwrap();
        let mut log = (self.most_hops != TO_THE_END).then(|| {
            let mut log = stream.allocate::<u64>(len * self.most_hops as usize).unwrap();
            stream.fill(&mut log, u8::MAX).unwrap();
            log
        });
        let graph = on_device.args();
        let args = SearchArgs {
            graph,
            queries: if names.is_some() { graph.rows } else { queries.input().cast() },
            query_rows: names.as_ref().map_or(In::NOWHERE, |names| names.input()),
            allowed: allowed.as_ref().map_or(In::NOWHERE, |allowed| allowed.input()),
            answers: answers.output(),
            work: work.output().cast(),
            log: log.as_mut().map_or(Out::NOWHERE, |log| log.output()),
            queries_len: len as u32,
            k: self.k,
            beam_width: self.beam_width,
            most_hops: self.most_hops,
            expansions: self.expansions,
            filter_slots: self.filter_slots,
            form: self.form,
        };
        // SAFETY: the buffers have just been made in these shapes, and live until the downloads have waited.
        unsafe { stream.launch(&kernel, args).unwrap() };
        Told {
            answers: stream.download(&answers).unwrap(),
            work: stream.download(&work).unwrap(),
            log: log.map(|log| stream.download(&log).unwrap()),
        }
    }
}
