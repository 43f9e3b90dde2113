//! Which distances a command searches with.

use jasper::Distances;

/// Which distances to search with. By default, a quantized index is traversed with estimated distances, and the whole
/// frontier is reranked.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DistanceArgs {
    /// Use exact distances even if the index is quantized
    #[arg(long)]
    exact: bool,
    /// Rerank this many of the nearest vectors of a quantized search with exact distances; with 0, results have
    /// estimated distances [default: all of the frontier]
    #[arg(long, value_name = "N", conflicts_with = "exact")]
    rerank: Option<usize>,
}

impl DistanceArgs {
    /// Whether exact distances were requested.
    pub fn is_exact(self) -> bool {
        self.exact
    }

    /// The distances as the library's type.
    pub fn distances(self) -> Distances {
        match (self.exact, self.rerank) {
            (true, _) => Distances::Exact,
            (false, Some(rerank)) => Distances::Quantized { rerank },
            (false, None) => Distances::Auto,
        }
    }
}
