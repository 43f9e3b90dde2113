//! A test case of a search: its parameters, and the output of a kernel.

use jasper_core::{BitSet, Slot};
use jasper_graph::Graph;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};

use super::graphs::{self, UploadedGraph};
use crate::graph::{DistanceForm, NO_SLOT};
use crate::search::{
    BeamArgs, CandidateArgs, DeviceHit, FilterArgs, ListPart, NO_HIT, SearchArgs, SlotTest, StartArgs,
};
use crate::{Buffer, DevicePtr, DevicePtrMut, Stream};

/// No bound on visited vertices.
pub(super) const TO_THE_END: u32 = u32::MAX;

/// The parameters of a search.
#[derive(Clone, Debug)]
pub(super) struct SearchCase {
    pub(super) form: DistanceForm,
    /// Slots whose rows are the queries.
    pub(super) queries: Vec<Slot>,
    /// Whether queries are given as rows of the graph.
    pub(super) names_rows: bool,
    /// Slots that may be results; all if `None`.
    pub(super) allowed: Option<Allowed>,
    /// Slots that tests do not know, if queries have tests.
    pub(super) changed: Option<BitSet>,
    /// The first slots, which tests know.
    pub(super) tested_slots: u32,
    pub(super) k: u32,
    pub(super) beam_width: u32,
    pub(super) frontier_len: u32,
    /// Unless it is [`TO_THE_END`], expanded vertices are recorded.
    pub(super) max_hops: u32,
    pub(super) expansions: u32,
    pub(super) visited_buckets: u32,
    /// Entries that are candidates of a second launch.
    pub(super) candidates_len: u32,
    /// Whether results of an earlier search fill the places that are left.
    pub(super) has_estimated_hits: bool,
    /// Start points of each query, with gaps; those of the graph if `None`. Unless they are [lists](Self::has_lists), all
    /// queries have as many.
    pub(super) start_points: Option<Vec<Vec<Option<Slot>>>>,
    /// Whether the start points are given as lists of any length, of which queries may share one.
    pub(super) has_lists: bool,
}

/// Slots that may be results.
#[derive(Clone, Debug)]
pub(super) enum Allowed {
    /// Of every query.
    OfAll(BitSet),
    /// Of each query: query i has those of number i modulo their length.
    OfQueries(Vec<OfQuery>),
}

/// Slots that may be results of a query: all clauses hold, which are tests of which one holds.
pub(super) type OfQuery = Vec<Vec<Test>>;

/// A test of slots.
#[derive(Clone, Debug)]
pub(super) struct Test {
    of: Tested,
    is_opposite: bool,
}

/// What is tested of a slot.
#[derive(Clone, Debug)]
enum Tested {
    Bitmap(BitSet),
    /// Whether its rank is one of `len` from `first` on.
    Ranks {
        ranks: Vec<u32>,
        first: u32,
        len: u32,
    },
    /// Whether its list has the code.
    Code {
        lists: Vec<Vec<u32>>,
        code: u32,
    },
}

impl Test {
    fn random(rng: &mut impl Rng, slots: usize) -> Self {
        let of = match rng.random_range(0..3) {
            0 => {
                let share = *[0.0, 0.5, 1.0].choose(rng).expect("there are some");
                Tested::Bitmap((0..slots).filter(|_| rng.random_bool(share)).collect())
            }
            1 => {
                let mut ranks: Vec<u32> = (0..slots as u32).collect();
                ranks.shuffle(rng);
                for rank in &mut ranks {
                    match rng.random_range(0..16) {
                        0 => *rank = SlotTest::ANY,
                        1 => *rank = SlotTest::NO_KEY,
                        2 => *rank = SlotTest::NO_RANK,
                        _ => {}
                    }
                }
                let first = rng.random_range(0..=slots as u32);
                Tested::Ranks { ranks, first, len: rng.random_range(0..=slots as u32 - first) }
            }
            _ => {
                let mut list = || match rng.random_range(0..16) {
                    0 => vec![SlotTest::ANY],
                    1 => vec![SlotTest::NO_KEY],
                    _ => (0..rng.random_range(0..5)).map(|_| rng.random_range(0..6)).collect(),
                };
                let lists = (0..slots).map(|_| list()).collect();
                Tested::Code { lists, code: rng.random_range(0..6) }
            }
        };
        Self { of, is_opposite: rng.random_range(0..4) == 0 }
    }

    fn holds(&self, slot: Slot) -> bool {
        let holds = match &self.of {
            Tested::Bitmap(slots) => slots.contains(slot.index()),
            Tested::Ranks { ranks, first, len } => match ranks[slot.index()] {
                SlotTest::ANY => return true,
                SlotTest::NO_KEY => return false,
                rank => (*first..first + len).contains(&rank),
            },
            Tested::Code { lists, code } => match &lists[slot.index()][..] {
                [SlotTest::ANY] => return true,
                [SlotTest::NO_KEY] => return false,
                list => list.contains(code),
            },
        };
        holds != self.is_opposite
    }

    /// The table that the kernel reads.
    fn table(&self, slots: usize) -> Vec<u32> {
        match &self.of {
            Tested::Bitmap(bits) => {
                let mut words = bits.words().to_vec();
                words.resize(slots.div_ceil(32), 0);
                words
            }
            Tested::Ranks { ranks, .. } => ranks.clone(),
            Tested::Code { lists, .. } => {
                let mut end = lists.len() as u32 + 1;
                let mut table = vec![end];
                for list in lists {
                    end += list.len() as u32;
                    table.push(end);
                }
                table.extend(lists.iter().flatten());
                table
            }
        }
    }

    fn on_device(&self, table: DevicePtr<u32>) -> SlotTest {
        let test = match self.of {
            Tested::Bitmap(_) => SlotTest::bitmap(table),
            Tested::Ranks { first, len, .. } => SlotTest::ranks(table, first, len),
            Tested::Code { code, .. } => SlotTest::code(table, code),
        };
        if self.is_opposite { test.opposite() } else { test }
    }
}

/// The output of a kernel for all queries.
pub(super) struct SearchOutput {
    /// `[queries][k]`
    pub(super) results: Vec<DeviceHit>,
    /// `[queries]`: hops and distances.
    pub(super) costs: Vec<[u32; 2]>,
    /// `[queries][max_hops]`, if recorded.
    pub(super) expanded: Option<Vec<u64>>,
    /// `[queries][candidates_len]`
    pub(super) candidates: Vec<u32>,
}

/// Result `place` of an earlier search, which differs from all results of a search.
pub(super) fn earlier(place: usize) -> DeviceHit {
    DeviceHit { key: 7 << 32 | place as u64, distance: 1.5, slot: u32::MAX - 2 }
}

impl SearchCase {
    /// Random parameters for a kernel of frontiers of at most `max_len` entries and a graph of `slots`.
    pub(super) fn random(rng: &mut impl Rng, max_len: u32, form: DistanceForm, slots: usize) -> Self {
        let len = 1..=max_len.min(70);
        // If rounding affects which vertices are near, the search must find all of them.
        let frontier_len =
            if form == DistanceForm::HalfSquaredL2 { *len.end() } else { rng.random_range(len) };
        let is_whole = form == DistanceForm::HalfSquaredL2 || rng.random();
        let beam_width = if is_whole { frontier_len } else { rng.random_range(1..=frontier_len) };
        let mut slot = || Slot::from_index(rng.random_range(0..slots));
        let queries: Vec<_> = (0..2).map(|_| slot()).collect();
        let allowed = match rng.random_range(0..4) {
            0 => None,
            1 => Some(Allowed::OfAll((0..slots).filter(|_| rng.random()).collect())),
            _ => {
                let mut tests = |most| {
                    let len = rng.random_range(1..=most);
                    (0..len).map(|_| Test::random(rng, slots)).collect::<Vec<_>>()
                };
                let mut of_query = || (0..2).map(|_| tests(2)).collect();
                Some(Allowed::OfQueries(vec![of_query(), of_query()]))
            }
        };
        // A bound that some searches reach, and one that none does.
        let max_hops =
            *[rng.random_range(0..20), slots as u32, TO_THE_END].choose(rng).expect("there are some");
        let candidates_len = if rng.random() { 0 } else { rng.random_range(1..=frontier_len) };
        let has_lists = rng.random();
        let start_points = (rng.random_range(0..4) == 0).then(|| {
            let common_len = rng.random_range(1..40);
            let mut of_query = || {
                let len = if has_lists { rng.random_range(0..80) } else { common_len };
                let mut all: Vec<_> = (0..slots.max(len)).map(|i| (i < slots).then_some(i)).collect();
                all.shuffle(rng);
                all[..len].iter().map(|slot| slot.map(Slot::from_index)).collect()
            };
            queries.iter().map(|_| of_query()).collect()
        });
        Self {
            form,
            queries,
            names_rows: rng.random(),
            allowed,
            changed: rng.random_bool(0.5).then(|| (0..slots).filter(|_| rng.random_bool(0.1)).collect()),
            tested_slots: rng.random_range(slots as u32 * 3 / 4..=slots as u32),
            k: rng.random_range(1..=frontier_len),
            beam_width,
            frontier_len,
            max_hops: if form == DistanceForm::HalfSquaredL2 { TO_THE_END } else { max_hops },
            expansions: *[1, 1, 2, 3, 4, 7].choose(rng).expect("there are some"),
            visited_buckets: *[0, 32, 64, 1024, 2048].choose(rng).expect("there are some"),
            candidates_len,
            has_estimated_hits: rng.random(),
            start_points,
            has_lists,
        }
    }

    /// The same case, where each query has tests.
    pub(super) fn tested(&self, rng: &mut impl Rng, slots: usize) -> Self {
        let tests = self.queries.iter().map(|_| vec![vec![Test::random(rng, slots)]]).collect();
        Self { allowed: Some(Allowed::OfQueries(tests)), ..self.clone() }
    }

    /// The case of query `i` alone.
    pub(super) fn of_query(&self, i: usize) -> Self {
        let allowed = match &self.allowed {
            Some(Allowed::OfQueries(of_queries)) => {
                Some(Allowed::OfQueries(vec![of_queries[i % of_queries.len()].clone()]))
            }
            all => all.clone(),
        };
        let start_points = self.start_points.as_ref().map(|of_queries| vec![of_queries[i].clone()]);
        Self { queries: vec![self.queries[i]], allowed, start_points, ..self.clone() }
    }

    /// Whether a slot may be a result of query `i`.
    pub(super) fn allows(&self, i: usize, slot: Slot) -> bool {
        match &self.allowed {
            None => true,
            Some(Allowed::OfAll(slots)) => slots.contains(slot.index()),
            Some(Allowed::OfQueries(of_queries)) => {
                let mut clauses = of_queries[i % of_queries.len()].iter();
                let is_known = slot.get() < self.tested_slots;
                self.has_changed(slot)
                    || is_known && clauses.all(|tests| tests.iter().any(|test| test.holds(slot)))
            }
        }
    }

    fn has_changed(&self, slot: Slot) -> bool {
        self.changed.as_ref().is_some_and(|changed| changed.contains(slot.index()))
    }

    /// Where the list of each query is in the start points of all: two parts each.
    fn list_parts(&self, start_points: DevicePtr<u32>) -> Vec<ListPart> {
        let mut first = 0;
        let lists = self.start_points.iter().flatten().flat_map(|list| {
            let (len, of_first) = (list.len() as u32, list.len() as u32 / 3);
            first += len;
            let part = |from, len| ListPart::new(start_points, from, len);
            [part(first - len, of_first), part(first - len + of_first, len - of_first)]
        });
        lists.collect()
    }

    /// The start points of query `i`: of a list, those that may be its results.
    pub(super) fn start_points_of(&self, graph: &Graph, i: usize) -> Vec<Slot> {
        let is_tested = self.has_lists && matches!(self.allowed, Some(Allowed::OfQueries(_)));
        match &self.start_points {
            Some(start_points) => {
                let of_first = start_points[i].len() / 3;
                let is_listed = |(index, slot): &(usize, Slot)| {
                    if !self.has_lists || *index >= of_first && self.changed.is_some() {
                        return true;
                    }
                    !self.has_changed(*slot) && (!is_tested || self.allows(i, *slot))
                };
                let slots = start_points[i].iter().enumerate();
                let slots = slots.filter_map(|(index, slot)| slot.map(|slot| (index, slot)));
                slots.filter(is_listed).map(|(_, slot)| slot).collect()
            }
            None => graph.adjacency().start_points().to_vec(),
        }
    }

    /// Result `place` after those found for query `i`.
    pub(super) fn estimated_hit(&self, i: usize, place: usize) -> DeviceHit {
        if self.has_estimated_hits { earlier(i * self.k as usize + place) } else { NO_HIT }
    }

    /// Uploads everything, calls `launch`, and downloads the output.
    pub(super) fn launch<S: Stream>(
        &self,
        stream: &S,
        graph: &Graph,
        launch: impl FnOnce(SearchArgs) -> Result<(), S::Error>,
    ) -> SearchOutput {
        let on_device = UploadedGraph::upload(stream, graph);
        let len = self.queries.len();
        let queries = stream.upload(&graphs::rows(graph, self.queries.iter().copied())).unwrap();
        let names: Vec<u32> = self.queries.iter().map(|slot| slot.get()).collect();
        let names = self.names_rows.then(|| stream.upload(&names).unwrap());
        let slots = graph.slots();
        let bitmap = |bits: &BitSet| {
            let mut words = bits.words().to_vec();
            words.resize(slots.div_ceil(32), 0);
            stream.upload(&words).unwrap()
        };
        let changed = self.changed.as_ref().map(bitmap);
        let (of_all, of_queries): (_, &[OfQuery]) = match &self.allowed {
            None => (None, &[]),
            Some(Allowed::OfAll(allowed)) => (Some(bitmap(allowed)), &[]),
            Some(Allowed::OfQueries(of_queries)) => (None, of_queries),
        };
        let tests_per_query =
            of_queries.iter().map(|clauses| clauses.iter().flatten().count()).max().unwrap_or(1);
        let (mut tables, mut tests) = (Vec::new(), Vec::new());
        for of_query in of_queries.iter().cycle().take(if of_queries.is_empty() { 0 } else { len }) {
            for clause in of_query {
                for (i, test) in clause.iter().enumerate() {
                    let table = stream.upload(&test.table(slots)).unwrap();
                    let on_device = test.on_device(table.input());
                    tests.push(if i + 1 < clause.len() { on_device.joined() } else { on_device });
                    tables.push(table);
                }
            }
            tests.resize(tests.len().next_multiple_of(tests_per_query), SlotTest::ALL);
        }
        let tests = stream.upload(&tests).unwrap();
        let mut results = stream.allocate::<DeviceHit>(len * self.k as usize).unwrap();
        let mut work = stream.allocate::<[u32; 2]>(len).unwrap();
        let mut expanded = (self.max_hops != TO_THE_END).then(|| {
            let mut expanded = stream.allocate::<u64>(len * self.max_hops as usize).unwrap();
            stream.fill(&mut expanded, u8::MAX).unwrap();
            expanded
        });
        let mut candidates = stream.allocate::<u32>(len * self.candidates_len as usize).unwrap();
        let estimated_hits: Vec<_> = (0..len * self.k as usize).map(earlier).collect();
        let estimated_hits = self.has_estimated_hits.then(|| stream.upload(&estimated_hits).unwrap());
        let start_points = self.start_points.as_ref().map(|start_points| {
            let start_points = start_points.iter().flatten().map(|start| start.map_or(NO_SLOT, Slot::get));
            stream.upload(&start_points.collect::<Vec<_>>()).unwrap()
        });
        let mut graph = on_device.args();
        let mut lists = None;
        if let Some(start_points) = &start_points {
            if self.has_lists {
                // Those of the graph are not used, whatever they are.
                lists = Some(stream.upload(&self.list_parts(start_points.input())).unwrap());
            } else {
                (graph.start_points, graph.start_points_len) =
                    (start_points.input(), (start_points.len() / len) as u32);
            }
        }
        let args = SearchArgs {
            graph,
            queries: if names.is_some() { graph.vectors } else { queries.input() },
            query_rows: names.as_ref().map_or(DevicePtr::null(), |names| names.input()),
            results: results.output(),
            costs: work.output().cast(),
            queries_len: len as u32,
            k: self.k,
            form: self.form,
            beam: BeamArgs {
                expanded_entries: expanded
                    .as_mut()
                    .map_or(DevicePtrMut::null(), |expanded| expanded.output()),
                width: self.beam_width,
                frontier_len: self.frontier_len,
                max_hops: self.max_hops,
                expansions: self.expansions,
                visited_buckets: self.visited_buckets,
            },
            filter: FilterArgs {
                allowed: of_all.as_ref().map_or(DevicePtr::null(), |of_all| of_all.input()),
                tests: if of_queries.is_empty() { DevicePtr::null() } else { tests.input() },
                changed: changed.as_ref().map_or(DevicePtr::null(), |changed| changed.input()),
                tests_per_query: tests_per_query as u32,
                tested_slots: self.tested_slots,
            },
            start: StartArgs {
                lists: lists.as_ref().map_or(DevicePtr::null(), |lists| lists.input()),
                lists_per_query: 2,
                stride: if start_points.is_some() && lists.is_none() { graph.start_points_len } else { 0 },
                ..StartArgs::OF_GRAPH
            },
            candidates: CandidateArgs {
                slots: candidates.output(),
                estimated_hits: estimated_hits
                    .as_ref()
                    .map_or(DevicePtr::null(), |estimated_hits| estimated_hits.input()),
                len: self.candidates_len,
            },
        };
        // The buffers have just been made in these shapes, and live until the downloads have waited.
        launch(args).unwrap();
        SearchOutput {
            results: stream.download(&results).unwrap(),
            costs: stream.download(&work).unwrap(),
            expanded: expanded.map(|expanded| stream.download(&expanded).unwrap()),
            candidates: stream.download(&candidates).unwrap(),
        }
    }
}
