//! Building the graph of an index again.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use jasper_core::{Element, Key, ProgressFn, Slot, VectorSource, Vectors};
use jasper_graph::Graph;

use super::IndexInner;
use crate::BuildReport;
use crate::error::Result;
use crate::{Device, IndexBuilder};

impl IndexInner {
    pub(crate) fn rebuild(&self, device: Device, progress: &mut ProgressFn<'_>) -> Result<IndexInner> {
        let _writer = self.changes.lock_writer();
        // Each graph is built as one, whatever becomes of it afterwards.
        let device = device.sharded(false);
        let mut build = |graph: &Graph| build_again(self.builder_like(graph).device(device), graph, progress);
        let rebuilt = match self.backend.shards() {
            [] => self.backend.read(build)?,
            shards => {
                let rebuilt: Result<Vec<_>, _> = shards.iter().map(|shard| shard.read(&mut build)).collect();
                let (mut rebuilt, executor) = (rebuilt?, Arc::clone(&self.executor));
                let has_codes = |shard: &IndexInner| shard.len() == 0 || shard.quantization().is_some();
                if !rebuilt.iter().all(has_codes) {
                    rebuilt.iter().try_for_each(IndexInner::drop_codes)?;
                }
                let reports = rebuilt.iter_mut().filter_map(|shard| shard.build_report.take());
                let build_report = reports.reduce(BuildReport::merge);
                let graphs = rebuilt.into_iter().flat_map(IndexInner::into_graphs);
                IndexInner { build_report, ..IndexInner::from_shards(graphs, executor, self.exact_linking) }
            }
        };
        rebuilt.set_limits(self.limits());
        Ok(rebuilt)
    }
}

impl IndexInner {
    /// A builder with the parameters of a graph and the options of this index.
    pub(super) fn builder_like(&self, graph: &Graph) -> IndexBuilder<'static> {
        let threads = self.executor.pool().current_num_threads();
        IndexBuilder::like(graph).threads(threads).exact_linking(self.exact_linking)
    }
}

/// Builds an index of the live vectors of a graph.
pub(super) fn build_again(
    builder: IndexBuilder<'_>,
    graph: &Graph,
    progress: &mut ProgressFn<'_>,
) -> Result<IndexInner> {
    graph.require_vectors()?;
    let slots = graph.keys().live_slots();
    let mut live: Vec<(Key, Slot)> =
        slots.flat_map(|slot| graph.keys().keys_of(slot).map(move |key| (key, slot))).collect();
    // The result does not depend on the slots.
    live.sort_unstable();
    let (keys, slots): (Vec<Key>, Vec<Slot>) = live.into_iter().unzip();
    let attributes = graph.keys().attributes();
    let attributes = (!attributes.is_empty()).then(|| attributes.rows(&keys));
    let builder = match &attributes {
        Some(attributes) => builder.attributes(attributes),
        None => builder,
    };
    if keys.is_empty() {
        return builder.empty_on_host(graph.element(), graph.dimension());
    }
    let builder = match graph.vectors().codes() {
        Some(codes) => builder.quantize_again(codes.quantizer().quantization()),
        None => builder,
    };
    let vectors = LiveVectors { graph, slots };
    builder.keys(&keys).build_on_host(Vectors::of_element(graph.element(), &vectors), progress)
}

/// The vectors of some slots.
struct LiveVectors<'a> {
    graph: &'a Graph,
    slots: Vec<Slot>,
}

impl<T: Element> VectorSource<T> for LiveVectors<'_> {
    fn len(&self) -> usize {
        self.slots.len()
    }

    fn dimension(&self) -> usize {
        self.graph.dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        for (&slot, out) in self.slots[range].iter().zip(out.chunks_exact_mut(self.graph.dimension())) {
            out.copy_from_slice(self.graph.vectors().get(slot));
        }
        Ok(())
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use jasper_core::{ElementKind, MatrixView, Metric};
    use jasper_graph::VectorError;
    use jasper_quant::Quantization;

    use super::*;
    use crate::{Device, SearchParams};
    use jasper_core::synthetic::Clusters;

    #[test]
    fn a_rebuilt_index_is_that_of_the_live_vectors() {
        let vectors: Vec<f32> = Clusters::new(16, 7).rows(400, 0);
        let rows =
            |range: Range<usize>| MatrixView::new(&vectors[range.start * 16..range.end * 16], 16).unwrap();
        let builder = || IndexBuilder::new(Metric::L2).device(Device::CPU).max_degree(24).alpha(1.1).seed(5);
        let index = builder().build(rows(0..300)).unwrap();
        index.insert(rows(300..400), &(1000..1100).collect::<Vec<_>>()).unwrap();
        // A vertex with two keys.
        index.insert(rows(350..351), &[7000]).unwrap();
        index.delete(&(0..100).collect::<Vec<_>>()).unwrap();

        let rebuilt = index.rebuild(Device::CPU).unwrap();
        let keys: Vec<Key> = (100..300).chain(1000..1100).chain([7000]).collect();
        let live = [&vectors[100 * 16..], &vectors[350 * 16..351 * 16]].concat();
        let fresh = builder().keys(&keys).build(MatrixView::new(&live, 16).unwrap()).unwrap();
        assert_eq!(rebuilt.to_bytes().unwrap(), fresh.to_bytes().unwrap());
        assert!(rebuilt.check().unwrap().is_sound());
    }

    #[test]
    fn codes_and_limits_are_kept_and_vectors_are_needed() {
        let vectors: Vec<f32> = Clusters::new(16, 7).rows(300, 0);
        let index = IndexBuilder::new(Metric::Cosine).build(MatrixView::new(&vectors, 16).unwrap()).unwrap();
        let quantization = Quantization::Rabitq { bits: 4 };
        index.quantize(quantization).unwrap();
        index.set_limits(crate::SearchLimits { max_k: 3, ..index.limits() });
        let rebuilt = index.rebuild(Device::CPU).unwrap();
        assert_eq!(rebuilt.stats().quantization, Some(quantization));
        assert!(rebuilt.search(&vectors[..16], SearchParams::new(4)).is_err());
        index.drop_vectors().unwrap();
        let error = index.rebuild(Device::CPU).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(VectorError::NoVectors)));
    }

    #[test]
    fn an_empty_index_is_rebuilt_empty() {
        let index = IndexBuilder::new(Metric::L2).max_degree(7).empty(ElementKind::U8, 4).unwrap();
        let rebuilt = index.rebuild(Device::CPU).unwrap();
        assert_eq!(
            (rebuilt.len(), rebuilt.dimension(), rebuilt.stats().params),
            (0, 4, index.stats().params)
        );
    }

    #[test]
    fn codes_are_left_out_where_too_few_vectors_remain_to_train_on() {
        let vectors: Vec<f32> = Clusters::new(16, 7).rows(30, 0);
        for shards in [1, 2] {
            let builder = IndexBuilder::new(Metric::L2).shards(shards);
            let index = builder.build(MatrixView::new(&vectors, 16).unwrap()).unwrap();
            index.quantize(Quantization::Mixed { sectors: 1 }).unwrap();
            index.delete(&(1..30).collect::<Vec<_>>()).unwrap();
            let rebuilt = index.rebuild(Device::CPU).unwrap();
            assert_eq!((rebuilt.len(), rebuilt.stats().quantization), (1, None));
            index.delete(&[0]).unwrap();
            assert!(index.rebuild(Device::CPU).unwrap().is_empty());
        }
    }
}
