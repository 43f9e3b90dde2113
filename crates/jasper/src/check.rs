//! Checks the integrity of an index.

use jasper_core::{Cancelled, Element, Key, ProgressFn};
use jasper_graph::{Graph, StructureReport};
use jasper_vamana::{CpuExecutor, missed_neighbors, unreachable_slots};

use crate::{Device, DeviceError};

/// The result of [`crate::Index::check`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckReport {
    /// The result of checking edges, vectors and keys one by one.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub structure: StructureReport,
    /// Keys whose vertices no path leads to. No search can find them. Builds and changes leave none;
    /// [`crate::Index::consolidate`] makes them reachable in imported graphs.
    pub unreachable: Vec<Key>,
    /// How difficult the vectors are to search. Of the 10 nearest neighbors of 256 sampled vectors, by the distances that
    /// choose edges, this is the share that a beam of 1,024 finds and one of 256 misses. 0 is easy; from 0.003 on, high
    /// recall takes wide beams. `None` for fewer than two vectors, for an index of codes only, and if the structure is not
    /// sound.
    pub missed_neighbors: Option<f64>,
    /// Devices whose replica differs from that of the first device. Replicas are equal, byte for byte, if the devices
    /// and their free memory are; different devices may choose a few other edges for float vectors.
    pub different: Vec<Device>,
}

/// An index could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The progress callback cancelled the check.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl CheckReport {
    pub(crate) fn new<T: Element>(
        graph: &Graph<T>,
        executor: &CpuExecutor,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Self, Cancelled> {
        let structure = graph.check_structure_with_progress(progress)?;
        // A traversal requires valid edges.
        let unreachable = if structure.is_sound() {
            executor.pool().install(|| unreachable_slots(graph))
        } else {
            Vec::new()
        };
        let unreachable = unreachable.into_iter().flat_map(|slot| graph.keys().keys_of(slot)).collect();
        let missed_neighbors = structure.is_sound().then(|| missed_neighbors(executor, graph)).flatten();
        Ok(Self { structure, unreachable, missed_neighbors, different: Vec::new() })
    }

    /// The report of two shards.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.structure.vertices += other.structure.vertices;
        self.structure.edges += other.structure.edges;
        self.structure.keys += other.structure.keys;
        self.structure.faults += other.structure.faults;
        self.structure.examples.extend(other.structure.examples);
        self.unreachable.extend(other.unreachable);
        self.missed_neighbors =
            [self.missed_neighbors, other.missed_neighbors].into_iter().flatten().reduce(f64::max);
        self.different.extend(other.different);
        self
    }

    /// Whether there are no errors.
    pub fn is_sound(&self) -> bool {
        self.structure.is_sound() && self.unreachable.is_empty() && self.different.is_empty()
    }
}
