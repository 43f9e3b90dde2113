//! Why no search or no quantization is chosen.

/// No search or no quantization was chosen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TuneError {
    /// There are too few vectors for a sample.
    #[error("there are too few vectors to try quantizations with; name one, or use none")]
    TooFew,
    /// The recall is out of bounds.
    #[error("recall ({0}) must be above 0 and at most 1; 0.95 suits most uses")]
    Recall(f64),
    /// There are too few queries.
    #[error(
        "there are {0} queries to tune with, and 2 are needed; a sample is at most a thirty-second of the vectors, so give \
         queries (`TuneQueries::Given`, `--queries`)"
    )]
    Queries(usize),
    /// The true neighbors are those of other queries.
    #[error("there are {queries} queries and the true neighbors of {truths}; give those of the same queries")]
    Truths {
        /// Queries given.
        queries: usize,
        /// Queries whose neighbors are known.
        truths: usize,
    },
    /// There are too few true neighbors per query.
    #[error("k ({k}) must be at most the {depth} true neighbors known of each query; lower k, or find more")]
    Depth {
        /// Hits per query.
        k: usize,
        /// True neighbors of a query.
        depth: usize,
    },
    /// The widest beam does not reach the recall.
    #[error(
        "recall@{k} is {found:.4} at beam_width {beam_width}, the widest tried, and the goal is {recall}; lower recall, \
         or build with a larger max_degree"
    )]
    Unreached {
        /// Hits per query.
        k: usize,
        /// The recall to reach.
        recall: f64,
        /// Recall of the widest beam.
        found: f64,
        /// The widest beam.
        beam_width: usize,
    },
}
