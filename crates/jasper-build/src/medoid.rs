//! The vertex nearest the mean: where searches begin.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::Graph;

/// The live vertex nearest the mean of all, by squared L2 of the stored rows; none if there is none.
///
/// The mean is rounded to the element type, so that every row is compared by the ordinary kernel. Any central vertex
/// will do: the choice moves recall by less than 0.001 (vamana.md section 1.2). Cost: two passes over the rows.
pub(crate) fn medoid<T: Element>(graph: &Graph<T>) -> Option<VectorId> {
    let mut sums = vec![0.0_f64; graph.padded_vector(graph.live_slots().next()?).len()];
    for slot in graph.live_slots() {
        let row = graph.padded_vector(slot);
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(x.to_f32()));
    }
    let count = graph.live() as f64;
    let mean: Vec<T> = sums.iter().map(|sum| T::from_f32((sum / count) as f32)).collect();
    let distance = T::kernels().squared_l2;
    graph
        .live_slots()
        .map(|slot| Neighbor::new(distance(&mean, graph.padded_vector(slot)), slot))
        .min()
        .map(Neighbor::id)
}
