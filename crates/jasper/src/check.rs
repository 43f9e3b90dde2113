//! Checks the integrity of an index.

use jasper_core::{Cancelled, Key, ProgressFn};
use jasper_data::parallel;
use jasper_graph::{Graph, StructureReport};
use jasper_vamana::{CodeReport, CpuExecutor, code_report, missed_neighbors, unreachable_slots};

use crate::Device;

/// The result of [`crate::Index::check`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckReport {
    /// The result of checking edges, vectors and keys one by one.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub structure: StructureReport,
    /// Keys whose vertices no path leads to. No search can find them. Builds, imports and changes leave none;
    /// [`crate::Index::consolidate`] makes them reachable in graphs that were opened as they are.
    pub unreachable: Vec<Key>,
    /// Mean out-edges per vertex.
    pub mean_degree: f64,
    /// How well the codes fit the vectors: if [they have drifted](CodeReport::has_drifted), quantizing again is worth its
    /// time. Of several shards, these are the codes of the one where they have drifted most. `None` without codes or vectors, and
    /// if they could not be measured.
    pub codes: Option<CodeReport>,
    /// Why the codes could not be measured: for example, too few vectors are left to train on.
    pub codes_not_measured: Option<String>,
    /// How difficult the vectors are to search. Of the 10 nearest neighbors of 256 sampled vectors, by the distances that
    /// choose edges, this is the share that a beam of 1,024 finds and one of 256 misses. 0 is easy; from 0.003 on, high
    /// recall takes wide beams. `None` for fewer than two vectors, for an index of codes only, and if the structure is not
    /// sound.
    pub missed_neighbors: Option<f64>,
    /// Devices whose replica differs from that of the first device. Replicas are equal, byte for byte, if the devices
    /// and their free memory are; different devices may choose a few other edges for float vectors.
    pub different: Vec<Device>,
}

impl CheckReport {
    pub(crate) fn new(
        graph: &Graph,
        executor: &CpuExecutor,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Self, Cancelled> {
        let structure = graph.check_structure_with_progress(progress)?;
        // A traversal requires valid edges.
        let unreachable = if structure.is_sound() {
            parallel::install(executor.pool(), || unreachable_slots(graph))
        } else {
            Vec::new()
        };
        let unreachable = unreachable.into_iter().flat_map(|slot| graph.keys().keys_of(slot)).collect();
        let missed_neighbors = structure.is_sound().then(|| missed_neighbors(executor, graph)).flatten();
        let mean_degree = structure.edges as f64 / structure.vertices.max(1) as f64;
        // An index whose quantizer cannot be trained again is sound nevertheless.
        let (codes, codes_not_measured) = match structure.is_sound().then(|| code_report(executor, graph)) {
            Some(Ok(codes)) => (codes, None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        Ok(Self {
            structure,
            unreachable,
            mean_degree,
            codes,
            codes_not_measured,
            missed_neighbors,
            different: Vec::new(),
        })
    }

    /// The report of two shards.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.structure.vertices += other.structure.vertices;
        self.structure.edges += other.structure.edges;
        self.structure.keys += other.structure.keys;
        self.structure.faults += other.structure.faults;
        self.structure.examples.extend(other.structure.examples);
        self.unreachable.extend(other.unreachable);
        let drift = |codes: &CodeReport| codes.error / codes.retrained_error;
        let codes = [self.codes, other.codes].into_iter().flatten();
        self.codes = codes.max_by(|a, b| drift(a).total_cmp(&drift(b)));
        self.codes_not_measured = self.codes_not_measured.or(other.codes_not_measured);
        self.mean_degree = self.structure.edges as f64 / self.structure.vertices.max(1) as f64;
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
