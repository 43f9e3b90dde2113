//! A graph converted to another element.

use anyhow::Result;
use jasper_core::{Element, VectorId};
use jasper_graph::Graph;

/// The same graph over rows of another element: coordinates are rounded, edges stay. For graphs without deletes.
pub fn converted<T: Element>(graph: &Graph<f32>) -> Result<Graph<T>> {
    let order: Vec<VectorId> = graph.keys().live_slots().collect();
    let mut other = Graph::<T>::new(graph.metric(), graph.dimension(), *graph.params())?;
    let (mut row, mut names) = (Vec::new(), vec![VectorId::new(0); graph.slots()]);
    for (number, &slot) in order.iter().enumerate() {
        let vector: Vec<T> = graph.vectors().get(slot).iter().map(|&value| T::from_f32(value)).collect();
        let squared_norm = other.vectors().prepare(number, &vector, &mut row)?;
        let name = other.add_vector(&row, squared_norm)?;
        graph.keys().keys_of(slot).for_each(|key| other.keys_mut().assign_unused(key, name));
        names[slot.index()] = name;
    }
    let renamed = |slots: &[VectorId]| slots.iter().map(|slot| names[slot.index()]).collect::<Vec<_>>();
    for slot in order {
        other.adjacency_mut().set_neighbors(names[slot.index()], &renamed(graph.adjacency().neighbors(slot)));
    }
    other.adjacency_mut().set_start_points(renamed(graph.adjacency().start_points()));
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
        assert_eq!(halves.adjacency().start_points(), graph.adjacency().start_points());
        for slot in graph.keys().live_slots() {
            assert_eq!(halves.adjacency().neighbors(slot), graph.adjacency().neighbors(slot));
            assert_eq!(halves.vectors().get(slot)[3], f16::from_f32(graph.vectors().get(slot)[3]));
            assert!(halves.keys().keys_of(slot).eq(graph.keys().keys_of(slot)));
        }
    }
}
