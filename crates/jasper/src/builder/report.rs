//! The report of a build.

use jasper_vamana::OperationCounts;

use crate::Device;

/// The report of a build.
#[derive(Clone, Debug, PartialEq)]
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
    /// Mean out-edges per vertex.
    pub mean_degree: f64,
    /// Whether edges were chosen by exact distances, not by those of SQ8 vectors: see
    /// [`IndexBuilder::exact_linking`](crate::IndexBuilder::exact_linking).
    pub exact_linking: bool,
    /// The build beam width, L: that of the builder or, by default, 128, doubled once or twice if searches missed
    /// neighbors.
    pub build_beam_width: usize,
    /// The factor of robust pruning: that of the builder or, by default, 1.2, raised to 1.8 if searches missed many
    /// neighbors and pruning left few edges.
    pub alpha: f32,
    /// The share of the 10 nearest neighbors of a sample that searches with a beam of 2 L missed before L was chosen:
    /// the difficulty of the data. `None` if L was given, for no more than 16,384 vectors, or if the build resumed from
    /// a checkpoint later.
    pub missed_neighbors: Option<f64>,
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
        let vertices = |report: &Self| (report.vectors - report.duplicates) as f64;
        let edges = self.mean_degree * vertices(&self) + other.mean_degree * vertices(&other);
        self.mean_degree = edges / (vertices(&self) + vertices(&other)).max(1.0);
        self.vectors += other.vectors;
        self.duplicates += other.duplicates;
        self.reconnected += other.reconnected;
        self.exact_linking |= other.exact_linking;
        self.build_beam_width = self.build_beam_width.max(other.build_beam_width);
        self.alpha = self.alpha.max(other.alpha);
        self.missed_neighbors =
            [self.missed_neighbors, other.missed_neighbors].into_iter().flatten().reduce(f64::max);
        self.cost += other.cost;
        self
    }
}
