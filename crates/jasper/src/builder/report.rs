//! The report of a build.

use jasper_vamana::OperationCounts;

use crate::Device;

/// The report of a build.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BuildReport {
    /// Where the graph, or those of the shards, were built.
    pub device: Device,
    /// Name of the CPU or GPU that built the graph.
    pub device_name: String,
    /// Vectors in the index, each under a key.
    pub vectors: usize,
    /// Vectors that were identical to an earlier one, and share its vertex.
    pub duplicates: usize,
    /// Zero vectors that were left out: see [`IndexBuilder::skip_zero_vectors`](crate::IndexBuilder::skip_zero_vectors).
    pub skipped: usize,
    /// Vertices that could not be reached, and were given an edge.
    pub reconnected: usize,
    /// Whether edges were chosen by exact distances, not by those of SQ8 vectors: see
    /// [`IndexBuilder::exact_linking`](crate::IndexBuilder::exact_linking).
    pub exact_linking: bool,
    /// The cost of linking.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub cost: OperationCounts,
}

impl BuildReport {
    /// The report of two shards.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.device = Device::several([self.device, other.device]);
        if !self.device_name.contains(&other.device_name) {
            self.device_name = format!("{} and {}", self.device_name, other.device_name);
        }
        self.vectors += other.vectors;
        self.duplicates += other.duplicates;
        self.reconnected += other.reconnected;
        self.exact_linking |= other.exact_linking;
        self.cost += other.cost;
        self
    }
}
