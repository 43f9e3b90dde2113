//! By which distances commands search.

use jasper::Distances;

/// By which distances to search; if not given by estimates, with a rerank of the whole frontier, where the index has codes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct By {
    /// Search by exact distances, though the index has codes
    #[arg(long)]
    exact: bool,
    /// Search by estimates, and give exact distances to this many of what is found; with 0 answers have estimates
    #[arg(long, value_name = "N", conflicts_with = "exact")]
    rerank: Option<usize>,
}

impl By {
    /// Whether exact distances are asked for.
    pub fn is_exact(self) -> bool {
        self.exact
    }

    /// The same, as the library takes it.
    pub fn distances(self) -> Distances {
        match (self.exact, self.rerank) {
            (true, _) => Distances::Exact,
            (false, Some(rerank)) => Distances::Quantized { rerank },
            (false, None) => Distances::Auto,
        }
    }
}
