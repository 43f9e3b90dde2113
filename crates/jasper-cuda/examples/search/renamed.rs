//! Graphs made anew of others: of another element, or with their vertices in another order.

use anyhow::Result;
use jasper_core::{BitSet, Element, VectorId};
use jasper_graph::Graph;

/// The same graph over rows of another element: coordinates are rounded, edges stay. For graphs without deletes.
pub fn converted<T: Element>(graph: &Graph<f32>) -> Result<Graph<T>> {
    let in_order: Vec<VectorId> = graph.live_slots().collect();
    copied(graph, &in_order, T::from_f32)
}

/// The same graph with its vertices in the order in which a walk from the start meets them, then those that it does not.
/// For graphs without deletes.
pub fn from_the_start<T: Element>(graph: &Graph<T>) -> Result<Graph<T>> {
    let mut order: Vec<VectorId> = graph.start_points().first().copied().into_iter().collect();
    let mut met: BitSet = order.iter().map(|slot| slot.index()).collect();
    let mut next = 0;
    while let Some(&slot) = order.get(next) {
        order.extend(graph.neighbors(slot).iter().filter(|neighbor| met.insert(neighbor.index())));
        next += 1;
    }
    order.extend(graph.live_slots().filter(|slot| !met.contains(slot.index())));
    copied(graph, &order, |x| x)
}

/// The same graph with its vertices in another order, and coordinates made something else.
fn copied<T: Element, U: Element>(
    graph: &Graph<T>,
    order: &[VectorId],
    coordinate: impl Fn(T) -> U,
) -> Result<Graph<U>> {
    let mut other = Graph::<U>::new(graph.metric(), graph.dimension(), *graph.params())?;
    let (mut row, mut names) = (Vec::new(), vec![VectorId::new(0); graph.slots()]);
    for (number, &slot) in order.iter().enumerate() {
        let vector: Vec<U> = graph.vector(slot).iter().map(|&value| coordinate(value)).collect();
        let squared_norm = other.prepare(number, &vector, &mut row)?;
        let name = other.add_vector(&row, squared_norm)?;
        graph.keys_of(slot).for_each(|key| other.assign_unused_key(key, name));
        names[slot.index()] = name;
    }
    let renamed = |slots: &[VectorId]| slots.iter().map(|slot| names[slot.index()]).collect::<Vec<_>>();
    for &slot in order {
        other.set_neighbors(names[slot.index()], &renamed(graph.neighbors(slot)));
    }
    other.set_start_points(renamed(graph.start_points()));
    Ok(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::synthetic::Clusters;
    use jasper_core::{BuildParams, MatrixView, Metric, f16, no_progress};
    use jasper_vamana::{CpuExecutor, bulk_build};

    fn graph() -> Graph<f32> {
        let rows: Vec<f32> = Clusters::new(8, 1).rows(1000, 0);
        let rows = MatrixView::new(&rows, 8).unwrap();
        let (cpu, params) = (CpuExecutor::new(1).unwrap(), BuildParams::default());
        bulk_build(&cpu, &rows, None, Metric::L2, params, &mut no_progress).unwrap().0
    }

    #[test]
    fn another_element_keeps_the_edges() {
        let graph = graph();
        let halves = converted::<f16>(&graph).unwrap();
        assert!(halves.check_structure().is_sound());
        assert_eq!(halves.start_points(), graph.start_points());
        for slot in graph.live_slots() {
            assert_eq!(halves.neighbors(slot), graph.neighbors(slot));
            assert_eq!(halves.vector(slot)[3], f16::from_f32(graph.vector(slot)[3]));
            assert!(halves.keys_of(slot).eq(graph.keys_of(slot)));
        }
    }

    #[test]
    fn a_walk_from_the_start_gives_other_names() {
        let graph = graph();
        let renamed = from_the_start(&graph).unwrap();
        assert!(renamed.check_structure().is_sound());
        assert_eq!(renamed.start_points()[0], VectorId::new(0));
        let keys = |graph: &Graph<f32>, slots: &[VectorId]| -> Vec<u64> {
            slots.iter().map(|&slot| graph.first_key(slot)).collect()
        };
        for slot in graph.live_slots() {
            let key = graph.first_key(slot);
            let name = renamed.slot_of(key).unwrap();
            assert_eq!(renamed.vector(name), graph.vector(slot));
            assert_eq!(keys(&renamed, renamed.neighbors(name)), keys(&graph, graph.neighbors(slot)));
        }
        let near = graph.neighbors(graph.start_points()[0]).len();
        assert_eq!(renamed.neighbors(VectorId::new(0)).len(), near);
        assert!(renamed.neighbors(VectorId::new(0)).iter().all(|slot| (1..=near).contains(&slot.index())));
    }
}
