//! What can be set when a graph is built, and why the defaults are what they are.

/// Default values, each with its reason.
pub mod defaults {
    /// Out-edges a vertex may have (R). 64 is what the paper and the peers are measured with; an adjacency row is
    /// then 256 bytes, four cache lines.
    pub const MAX_DEGREE: usize = 64;
    /// Frontier of the searches that find a new vertex its candidates (L). Twice the degree: less costs recall at
    /// every beam width, more costs build time in proportion (as the published scripts of DiskANN and ParlayANN have it).
    pub const BUILD_BEAM_WIDTH: usize = 128;
    /// Slack of the prune rule, on squared distances. 1.2 keeps edges that let deletes be repaired without loss;
    /// 1.0 loses recall after consolidation (docs: experiments, "Before the first line").
    pub const ALPHA: f32 = 1.2;
    /// Seed of the insertion order.
    pub const SEED: u64 = 0x_4A41_5350_4552;
    /// Largest batch as a share of the vertices already linked. A batch does not see itself: at 2% recall is
    /// within noise of one-by-one, at 16% it is not (docs: experiments, "Before the first line").
    pub const MAX_BATCH_SHARE: f32 = 0.02;
    /// Candidates a prune looks at, nearest first: its cost grows with their square.
    pub const MAX_CANDIDATES: usize = 750;
}

/// Largest `max_degree`: a degree is stored as u16, and a row of this many edges is 4 KB.
const DEGREE_LIMIT: usize = 1024;
/// Largest `build_beam_width`.
const BEAM_LIMIT: usize = 4096;

/// How a graph is built. Made by [`BuildParams::builder`], which checks; saved in the index file.
///
/// ```
/// use jasper_core::BuildParams;
/// let params = BuildParams::builder().max_degree(32).alpha(1.1).build()?;
/// assert_eq!(params.max_degree(), 32);
/// let error = BuildParams::builder().max_degree(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "max_degree (0) must be between 1 and 1024; 32 to 128 suits most data");
/// # Ok::<(), jasper_core::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildParams {
    max_degree: usize,
    build_beam_width: usize,
    alpha: f32,
    seed: u64,
    max_batch_share: f32,
}

impl Default for BuildParams {
    fn default() -> Self {
        Self {
            max_degree: defaults::MAX_DEGREE,
            build_beam_width: defaults::BUILD_BEAM_WIDTH,
            alpha: defaults::ALPHA,
            seed: defaults::SEED,
            max_batch_share: defaults::MAX_BATCH_SHARE,
        }
    }
}

impl BuildParams {
    /// Starts from the defaults.
    pub fn builder() -> BuildParamsBuilder {
        BuildParamsBuilder(Self::default())
    }

    /// Most out-edges of a vertex, R.
    pub fn max_degree(&self) -> usize {
        self.max_degree
    }

    /// Frontier of build searches, L.
    pub fn build_beam_width(&self) -> usize {
        self.build_beam_width
    }

    /// Expansions after which a build search ends, 4 L + 128; what it has not expanded is no candidate. Data of middling
    /// difficulty takes a sixth more than L: only a search that wanders comes so far, and past 4 L it finds nothing that a
    /// prune would keep. Every executor ends there, and a device has room for so many.
    pub fn most_hops(&self) -> usize {
        4 * self.build_beam_width + 128
    }

    /// Slack of the prune rule; multiplies *squared* distances, so 1.2 is 1.095 on true distance.
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// Seed of the insertion order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Largest batch as a share of the vertices already linked.
    pub fn max_batch_share(&self) -> f32 {
        self.max_batch_share
    }
}

/// Sets [`BuildParams`]; [`Self::build`] checks them.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct BuildParamsBuilder(BuildParams);

impl BuildParamsBuilder {
    /// Most out-edges of a vertex, R: memory (4 bytes an edge) and build time against recall.
    pub fn max_degree(mut self, max_degree: usize) -> Self {
        self.0.max_degree = max_degree;
        self
    }

    /// Frontier of build searches, L: build time against recall.
    pub fn build_beam_width(mut self, build_beam_width: usize) -> Self {
        self.0.build_beam_width = build_beam_width;
        self
    }

    /// Slack of the prune rule on squared distances: more edges and sturdier updates against search time.
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.0.alpha = alpha;
        self
    }

    /// Seed of the insertion order. The same data, parameters and seed give the same graph.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// Largest batch as a share of the vertices already linked: parallelism against recall.
    pub fn max_batch_share(mut self, share: f32) -> Self {
        self.0.max_batch_share = share;
        self
    }

    /// The parameters, if each is within its bounds.
    ///
    /// # Errors
    /// [`ParamError`] for the first that is not.
    pub fn build(self) -> Result<BuildParams, ParamError> {
        let params = self.0;
        check("max_degree", params.max_degree, 1, DEGREE_LIMIT, "32 to 128 suits most data")?;
        check(
            "build_beam_width",
            params.build_beam_width,
            1,
            BEAM_LIMIT,
            "twice the degree is a good start",
        )?;
        check("alpha", params.alpha, 1.0, 4.0, "it multiplies squared distances; 1.2 suits most data")?;
        check("max_batch_share", params.max_batch_share, 1e-6, 1.0, "0.02 keeps recall")?;
        Ok(params)
    }
}

/// A parameter is out of its bounds.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} ({value}) must be between {least} and {most}; {hint}")]
pub struct ParamError {
    name: &'static str,
    value: String,
    least: String,
    most: String,
    hint: &'static str,
}

fn check<V: PartialOrd + ToString>(
    name: &'static str,
    value: V,
    least: V,
    most: V,
    hint: &'static str,
) -> Result<(), ParamError> {
    // Written so that NaN fails.
    if value >= least && value <= most {
        return Ok(());
    }
    Err(ParamError { name, value: value.to_string(), least: least.to_string(), most: most.to_string(), hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked() {
        assert!(BuildParams::builder().build().is_ok());
        assert!(BuildParams::builder().max_degree(1025).build().is_err());
        assert!(BuildParams::builder().build_beam_width(0).build().is_err());
        for alpha in [f32::NAN, 0.99, 4.1, f32::INFINITY] {
            assert!(BuildParams::builder().alpha(alpha).build().is_err(), "{alpha}");
        }
        assert!(BuildParams::builder().max_batch_share(0.0).build().is_err());
    }
}
