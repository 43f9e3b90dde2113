//! Parameters of the graph, for commands that build one.

use jasper::{IndexBuilder, Metric};

/// Parameters of the graph.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct GraphArgs {
    /// Metric: l2, cosine or ip
    #[arg(long)]
    pub metric: Metric,
    /// Maximum number of edges per vertex: higher recall for more memory and build time
    #[arg(long, value_name = "R", default_value_t = 64)]
    max_degree: usize,
    /// Build beam width: higher recall for more build time; by default 128, doubled once or twice if searches miss
    /// neighbors
    #[arg(long, value_name = "L")]
    build_beam_width: Option<usize>,
    /// Slack of pruning on squared distances: larger values keep more edges, which makes searches slower and deletes
    /// more robust; by default 1.2, and 1.8 where searches miss many neighbors and rows have few edges
    #[arg(long)]
    alpha: Option<f32>,
    /// Seed of the order of linking; on the CPU, the same data, parameters and seed give the same index
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Choose edges by exact distances, where vectors are floats; by default builds, and large changes on a GPU, compare
    /// 8-bit copies, if a sample has the same nearest neighbors by these
    #[arg(long)]
    exact_linking: bool,
}

impl GraphArgs {
    /// Starts a build.
    pub fn builder<'a>(&self) -> IndexBuilder<'a> {
        let mut builder =
            IndexBuilder::new(self.metric).max_degree(self.max_degree).exact_linking(self.exact_linking);
        if let Some(build_beam_width) = self.build_beam_width {
            builder = builder.build_beam_width(build_beam_width);
        }
        if let Some(alpha) = self.alpha {
            builder = builder.alpha(alpha);
        }
        match self.seed {
            Some(seed) => builder.seed(seed),
            None => builder,
        }
    }
}
