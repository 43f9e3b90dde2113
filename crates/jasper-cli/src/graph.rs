//! How a graph is to be built: the same for all commands that make one.

use jasper::{IndexBuilder, Metric};

/// Parameters of the graph.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Graph {
    /// How near two vectors are: l2, cosine or ip
    #[arg(long)]
    pub metric: Metric,
    /// Most edges of a vertex: memory and build time against recall
    #[arg(long, value_name = "R", default_value_t = 64)]
    max_degree: usize,
    /// Frontier of build searches: build time against recall
    #[arg(long, value_name = "L", default_value_t = 128)]
    build_beam_width: usize,
    /// Slack of the prune rule on squared distances: more edges and sturdier deletes against search time
    #[arg(long, default_value_t = 1.2)]
    alpha: f32,
    /// Seed of the order in which vertices are linked; the same data, settings and seed give the same index
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Graph {
    /// Starts a build.
    pub fn builder<'a>(&self) -> IndexBuilder<'a> {
        let builder = IndexBuilder::new(self.metric)
            .max_degree(self.max_degree)
            .build_beam_width(self.build_beam_width)
            .alpha(self.alpha);
        match self.seed {
            Some(seed) => builder.seed(seed),
            None => builder,
        }
    }
}
