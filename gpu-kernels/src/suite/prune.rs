//! Prunes against the rule as the paper writes it, on lists and one vertex after the other.

use jasper_core::{Element, Metric, Neighbor, VectorId, f16, padded_len, synthetic};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use super::{twin, vectors};
use crate::distances::{Distances, Loads, Measure, TileWidth};
use crate::graph::{Form, GraphArgs, NO_ROW};
use crate::prune::{
    COUNTERS, Link, LinkArgs, Merge, MergeArgs, PruneArgs, Publish, PublishArgs, TurnAround, TurnAroundArgs,
};
use crate::search::shape::shape;
use crate::{Buffer, Out, Stream};

/// Bytes of rows: those of kernels of their own, longer ones than a warp reads at once, and others.
const ROW_BYTES: [usize; 6] = [16, 80, 128, 192, 512, 1920];

/// Vertices, each with its row of links.
struct Vertices<T> {
    form: Form,
    stride: usize,
    rows: Vec<T>,
    squared_norms: Vec<f32>,
    links_stride: usize,
    links: Vec<u32>,
    max_degree: usize,
    alpha: f32,
    max_candidates: usize,
}

/// The arrays of [`Vertices`] on a device.
struct OnDevice<S: Stream, T: Element> {
    rows: S::Buffer<T>,
    squared_norms: S::Buffer<f32>,
    links: S::Buffer<u32>,
    counters: S::Buffer<u64>,
}

impl<T: Element> Vertices<T> {
    /// Some vertices, of which a few have the same row, without links.
    fn new(rng: &mut impl Rng, metric: Metric, row_bytes: usize) -> Self {
        let len = rng.random_range(20..70);
        let stride = row_bytes / size_of::<T>();
        let dimension = stride - rng.random_range(0..16 / size_of::<T>());
        assert_eq!(padded_len::<T>(dimension), stride);
        let mut rows = vectors::<T>(rng, len, dimension, 16.0);
        rows.copy_within(..stride, 9 * stride);
        rows.chunks_mut(stride).for_each(|row| row[0] = T::from_f32(row[0].to_f32() + 1.0));
        let squared_norms = rows
            .chunks(stride)
            .map(|row| row.iter().map(|x| f64::from(x.to_f32()).powi(2)).sum::<f64>() as f32);
        let max_degree = rng.random_range(1..12);
        Self {
            form: match (metric, T::EXACT) {
                (Metric::L2, _) => Form::Plain,
                (Metric::InnerProduct, _) => Form::Augmented,
                (Metric::Cosine, false) => Form::Half,
                (Metric::Cosine, true) => Form::Angle,
            },
            stride,
            squared_norms: squared_norms.collect(),
            rows,
            links_stride: 32,
            links: vec![NO_ROW; len * 32],
            max_degree,
            alpha: [1.0, 1.2][rng.random_range(0..2)],
            max_candidates: rng.random_range(max_degree..40),
        }
    }

    fn len(&self) -> usize {
        self.squared_norms.len()
    }

    fn row(&self, id: u32) -> &[T] {
        &self.rows[id as usize * self.stride..][..self.stride]
    }

    /// The distance of two vertices, to the bit.
    fn distance(&self, a: u32, b: u32) -> f32 {
        let measure = if self.form == Form::Angle { Measure::Dot } else { Measure::SquaredL2 };
        let lanes = shape((self.stride * size_of::<T>()) as u32).width;
        let width =
            TileWidth::ALL.into_iter().find(|width| width.lanes() == lanes).expect("a width of tiles");
        let sum =
            twin::distance(Distances::new(T::KIND, measure, Loads::Chunked, width), self.row(a), self.row(b));
        let [one, other] = [a, b].map(|id| self.squared_norms[id as usize]);
        let extra = |norm: f32| (self.largest_squared_norm() - norm).max(0.0).sqrt();
        match self.form {
            Form::Plain => sum,
            Form::Half => 0.5 * sum,
            Form::Negated => -sum,
            Form::Angle => 1.0 - sum / (one * other).sqrt(),
            Form::Augmented => sum + (extra(one) - extra(other)).powi(2),
        }
    }

    fn largest_squared_norm(&self) -> f32 {
        self.squared_norms.iter().copied().fold(0.0, f32::max)
    }

    fn neighbor(&self, of: u32, id: u32) -> Neighbor {
        Neighbor::new(self.distance(of, id), VectorId::new(id))
    }

    /// Up to `most` distinct vertices, in any order.
    fn some(&self, rng: &mut impl Rng, most: usize) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..self.len() as u32).collect();
        ids.shuffle(rng);
        ids.truncate(rng.random_range(0..=most));
        ids
    }

    /// Keep the first candidate, drop every other that it leads towards, and so on with those that are left; two that
    /// were visited do not drop each other. Gives what is kept, and the distances that took.
    fn prune(&self, mut left: Vec<Neighbor>) -> (Vec<Neighbor>, u64) {
        left.sort_unstable();
        left.truncate(self.max_candidates);
        let (mut kept, mut distances) = (Vec::new(), 0);
        while !left.is_empty() {
            let first = left.remove(0);
            kept.push(first);
            if kept.len() == self.max_degree {
                break;
            }
            left.retain(|other| {
                let settled = !first.is_unvisited() && !other.is_unvisited();
                distances += u64::from(!settled);
                settled || self.alpha * self.distance(first.id().get(), other.id().get()) > other.distance()
            });
        }
        (kept, distances)
    }

    fn upload<S: Stream>(&self, stream: &S) -> OnDevice<S, T> {
        OnDevice {
            rows: stream.upload(&self.rows).unwrap(),
            squared_norms: stream.upload(&self.squared_norms).unwrap(),
            links: stream.upload(&self.links).unwrap(),
            counters: stream.upload(&[0; COUNTERS]).unwrap(),
        }
    }

    fn row_bytes(&self) -> u32 {
        (self.stride * size_of::<T>()) as u32
    }

    fn args<S: Stream>(&self, device: &mut OnDevice<S, T>) -> PruneArgs {
        PruneArgs {
            graph: GraphArgs {
                rows: device.rows.input().cast(),
                links: device.links.input(),
                squared_norms: device.squared_norms.input(),
                keys: Out::new(std::ptr::null_mut()).input(),
                starts: device.links.input(),
                starts_len: 0,
                row_bytes: self.row_bytes(),
                links_stride: self.links_stride as u32,
                largest_squared_norm: self.largest_squared_norm(),
            },
            form: self.form,
            alpha: self.alpha,
            max_degree: self.max_degree as u32,
            max_candidates: self.max_candidates as u32,
            counters: device.counters.output(),
        }
    }

    /// A row as it is stored: filled up.
    fn padded(&self, mut ids: Vec<u32>) -> Vec<u32> {
        ids.resize(self.links_stride, NO_ROW);
        ids
    }
}

/// Calls `test` with vertices of every element, metric and length.
macro_rules! for_all_vertices {
    ($test:ident($stream:expr, $seed:expr)) => {
        for metric in Metric::ALL {
            for row_bytes in ROW_BYTES {
                $test::<f32>($stream, $seed, metric, row_bytes);
                $test::<f16>($stream, $seed, metric, row_bytes);
                $test::<u8>($stream, $seed, metric, row_bytes);
                $test::<i8>($stream, $seed, metric, row_bytes);
            }
        }
    };
}

/// Links of new vertices, turned around, and written into the graph: from no candidates, few, and more than count.
///
/// # Panics
/// If anything is not as the twin has it, or the stream fails.
pub fn links_agree_with_the_twin(stream: &impl Stream, seed: u64) {
    for_all_vertices!(links_agree(stream, seed));
}

fn links_agree<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize) {
    let mut rng = synthetic::rng(seed);
    let vertices = Vertices::<T>::new(&mut rng, metric, row_bytes);
    let (lists, stride) = (6, vertices.len() + 3);
    let (mut candidates, mut work, mut expected) = (vec![0; lists * stride], Vec::new(), Vec::new());
    let mut batch: Vec<u32> = (0..lists as u32).map(|list| list * 3).collect();
    batch[1..].shuffle(&mut rng);
    let mut counters = [0; COUNTERS];
    for (list, &vertex) in batch.iter().enumerate() {
        let ids = vertices.some(&mut rng, if list == 1 { 0 } else { vertices.len() });
        let keys: Vec<Neighbor> = ids.iter().map(|&id| vertices.neighbor(vertex, id)).collect();
        for (place, key) in candidates[list * stride..].iter_mut().zip(&keys) {
            *place = if rng.random() { key.to_bits() } else { key.visited().to_bits() };
        }
        work.extend([keys.len() as u32, 1000]);
        let mut left: Vec<_> = keys.iter().copied().filter(|key| key.id().get() != vertex).collect();
        left.sort_unstable();
        left.truncate(vertices.max_candidates);
        let nearest = left.first().map(|key| key.distance());
        let same = left.iter().find(|key| {
            Some(key.distance()) == nearest && vertices.row(key.id().get()) == vertices.row(vertex)
        });
        let same = same.map(|key| key.id().get());
        let (kept, distances) = if same.is_some() { (Vec::new(), 0) } else { vertices.prune(left) };
        counters[0] += keys.len() as u64;
        counters[1] += 1000;
        counters[2] += distances;
        counters[3] += u64::from(same.is_some());
        expected.push((vertex, kept, same));
    }

    let mut device = vertices.upload(stream);
    let (on_device, work) = (stream.upload(&batch).unwrap(), stream.upload(&work).unwrap());
    let candidates = stream.upload(&candidates).unwrap();
    let [mut linked, mut identical] = [(); 2].map(|()| stream.allocate(lists).unwrap());
    let [mut ids, mut distances, mut sources] =
        [(); 3].map(|()| stream.allocate(lists * vertices.links_stride).unwrap());
    let mut keys = stream.allocate(ids.len()).unwrap();
    let args = LinkArgs {
        prune: vertices.args(&mut device),
        batch: on_device.input(),
        candidates: candidates.input(),
        work: work.input(),
        vertices: linked.output(),
        ids: ids.output(),
        distances: distances.output(),
        identical: identical.output(),
        lists: lists as u32,
        candidates_stride: stride as u32,
    };
    let turn = TurnAroundArgs {
        vertices: linked.input(),
        ids: ids.input(),
        distances: distances.input(),
        keys: keys.output(),
        sources: sources.output(),
        lists: lists as u32,
        links_stride: vertices.links_stride as u32,
    };
    let publish = PublishArgs {
        vertices: linked.input(),
        ids: ids.input(),
        links: device.links.output(),
        rows: lists as u32,
        links_stride: vertices.links_stride as u32,
    };
    // SAFETY: the buffers have the shapes that the arguments say, and live until the downloads have waited; each launch
    // reads what those before it wrote.
    unsafe {
        stream.launch(&Link::for_rows(T::KIND, vertices.form, vertices.row_bytes()), args).unwrap();
        stream.launch(&TurnAround, turn).unwrap();
        stream.launch(&Publish, publish).unwrap();
    }

    let what = format!("{} {metric}, {row_bytes} bytes", T::KIND);
    let (linked, identical) = (stream.download(&linked).unwrap(), stream.download(&identical).unwrap());
    let (ids, links) = (stream.download(&ids).unwrap(), stream.download(&device.links).unwrap());
    let (keys, sources) = (stream.download(&keys).unwrap(), stream.download(&sources).unwrap());
    let mut rows = vertices.links.clone();
    for (list, (vertex, kept, same)) in expected.into_iter().enumerate() {
        let row = vertices.padded(kept.iter().map(|key| key.id().get()).collect());
        let places = list * vertices.links_stride..(list + 1) * vertices.links_stride;
        assert_eq!(ids[places.clone()], row, "the links of {vertex}: {what}");
        assert_eq!(identical[list], same.unwrap_or(NO_ROW), "{what}");
        assert_eq!(linked[list], if same.is_some() { NO_ROW } else { vertex }, "{what}");
        for (place, link) in places.zip(kept.iter().map(Some).chain(std::iter::repeat(None))) {
            let key = link.map(|key| u64::from(key.id().get()) << 32 | key.to_bits() >> 32);
            assert_eq!(keys[place], key.unwrap_or(u64::MAX), "{what}");
            assert!(link.is_none() || sources[place] == vertex, "{what}");
        }
        if same.is_none() {
            rows[vertex as usize * vertices.links_stride..][..vertices.links_stride].copy_from_slice(&row);
        }
    }
    assert_eq!(links, rows, "{what}");
    assert_eq!(stream.download(&device.counters).unwrap(), counters, "{what}");
}

/// New edges merged into rows that have room, that overflow, that know some of them, by more edges than count.
///
/// # Panics
/// If anything is not as the twin has it, or the stream fails.
pub fn merges_agree_with_the_twin(stream: &impl Stream, seed: u64) {
    for_all_vertices!(merges_agree(stream, seed));
}

fn merges_agree<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize) {
    let mut rng = synthetic::rng(seed);
    let mut vertices = Vertices::<T>::new(&mut rng, metric, row_bytes);
    let targets: Vec<u32> = (0..8).collect();
    let mut edges: Vec<(u32, Neighbor)> = Vec::new();
    for &target in &targets {
        let mut old = vertices.some(&mut rng, vertices.max_degree);
        old.retain(|&id| id != target);
        let settled = rng.random_range(0..=old.len());
        old[..settled].sort_unstable_by_key(|&id| vertices.neighbor(target, id));
        vertices.links[target as usize * vertices.links_stride..][..old.len()].copy_from_slice(&old);
        let sources = vertices.some(&mut rng, if target % 2 == 0 { 4 } else { vertices.len() });
        let sources = sources.into_iter().filter(|&source| source != target);
        edges.extend(sources.map(|source| (target, vertices.neighbor(target, source))));
    }
    edges.sort_unstable();
    let groups: Vec<&[(u32, Neighbor)]> = edges.chunk_by(|a, b| a.0 == b.0).collect();
    let mut distances = 0;
    let expected: Vec<(u32, Vec<u32>)> = groups
        .iter()
        .map(|group| {
            let target = group[0].0;
            let row = &vertices.links[target as usize * vertices.links_stride..][..vertices.links_stride];
            let old: Vec<u32> = row.iter().copied().take_while(|&id| id != NO_ROW).collect();
            let new = group.iter().map(|edge| edge.1).filter(|source| !old.contains(&source.id().get()));
            let new: Vec<Neighbor> = new.collect();
            if old.len() + new.len() <= vertices.max_degree {
                let new = new.iter().map(|source| source.id().get());
                return (target, old.into_iter().chain(new).collect());
            }
            let mut old: Vec<Neighbor> = old.into_iter().map(|id| vertices.neighbor(target, id)).collect();
            let rising = old.windows(2).take_while(|pair| pair[0] < pair[1]).count() + 1;
            let settled = rising.min(old.len());
            old[..settled].iter_mut().for_each(|neighbor| *neighbor = neighbor.visited());
            distances += old.len() as u64;
            let (kept, some) = vertices.prune(new.into_iter().chain(old).collect());
            distances += some;
            (target, kept.iter().map(|neighbor| neighbor.id().get()).collect())
        })
        .collect();

    // A group of edges that lead nowhere closes the list.
    let mut begins: Vec<u32> = groups
        .iter()
        .scan(0, |begin, group| Some(std::mem::replace(begin, *begin + group.len() as u32)))
        .collect();
    begins.extend([edges.len() as u32, edges.len() as u32 + 2]);
    let keys = edges.iter().map(|(target, source)| u64::from(*target) << 32 | source.to_bits() >> 32);
    let keys = stream.upload(&keys.chain([u64::MAX; 2]).collect::<Vec<_>>()).unwrap();
    let sources = edges.iter().map(|(_, source)| source.id().get());
    let sources = stream.upload(&sources.chain([0; 2]).collect::<Vec<_>>()).unwrap();
    let begins = stream.upload(&begins).unwrap();
    let mut device = vertices.upload(stream);
    let targets = groups.len() + 1;
    let mut changed = stream.allocate(targets).unwrap();
    let mut ids = stream.allocate(targets * vertices.links_stride).unwrap();
    stream.fill(&mut ids, 0).unwrap();
    let args = MergeArgs {
        prune: vertices.args(&mut device),
        keys: keys.input(),
        sources: sources.input(),
        begins: begins.input(),
        vertices: changed.output(),
        ids: ids.output(),
        targets: targets as u32,
    };
    // SAFETY: the buffers have the shapes that the arguments say, and live until the downloads have waited.
    unsafe { stream.launch(&Merge::for_rows(T::KIND, vertices.form, vertices.row_bytes()), args).unwrap() };

    let what = format!("{} {metric}, {row_bytes} bytes", T::KIND);
    let (changed, ids) = (stream.download(&changed).unwrap(), stream.download(&ids).unwrap());
    let rows = ids.chunks(vertices.links_stride);
    for ((found, row), (target, ids)) in changed.iter().zip(rows).zip(expected) {
        assert_eq!((*found, row), (target, &*vertices.padded(ids)), "{what}");
    }
    assert_eq!(changed[targets - 1], NO_ROW, "{what}");
    assert_eq!(stream.download(&device.counters).unwrap(), [0, 0, distances, 0], "{what}");
}
