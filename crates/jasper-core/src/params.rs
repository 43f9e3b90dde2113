//! The parameters of a graph and their defaults, and those of a launch on a GPU.

use std::ops::RangeInclusive;

use crate::Metric;

/// The default parameters, with the reason for each.
pub mod defaults {
    /// Maximum out-degree (R). The paper and other libraries are measured with 64; an adjacency row is then 256 bytes,
    /// four cache lines.
    pub const MAX_DEGREE: usize = 64;
    /// Beam width of the searches that find candidates for a new vertex (L). Twice the degree, as in the published
    /// scripts of DiskANN and ParlayANN: less costs recall at every beam width, more costs build time in proportion. A
    /// bulk build searches twice with half of it.
    pub const BUILD_BEAM_WIDTH: usize = 128;
    /// Slack of the prune rule, on squared distances. 1.2 keeps enough edges to repair deletes without loss of recall;
    /// 1.0 loses recall after consolidation.
    pub const ALPHA: f32 = 1.2;
    /// Slack of the prune rule where rows would be thin and neighbors are hard to find.
    pub const WIDE_ALPHA: f32 = 1.8;
    /// Seed of the order of linking.
    pub const SEED: u64 = 0x_4A41_5350_4552;
    /// Maximum batch size as a fraction of the vertices already linked. The vertices of a batch do not find each other.
    /// At 4%, recall is within noise of linking one by one; at 16%, it is not.
    pub const MAX_BATCH_SHARE: f32 = 0.04;
    /// Maximum candidates of a prune, nearest first, unless a row has more places. Its cost grows with their square.
    pub const MAX_CANDIDATES: usize = 750;
}

/// Largest `max_degree`: a degree is stored as u16, and a row of this many edges is 4 KB.
const DEGREE_LIMIT: usize = 1024;
/// Largest `build_beam_width`.
const BEAM_LIMIT: usize = 4096;

/// The parameters of a graph: how it is built and updated. Saved in the index file.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BuildParams {
    max_degree: usize,
    build_beam_width: usize,
    alpha: f32,
    seed: u64,
    max_batch_share: f32,
    #[cfg_attr(feature = "serde", serde(skip))]
    effort: Effort,
}

/// Whether builds and inserts may raise the beam width and alpha where their searches miss neighbors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Both stay.
    #[default]
    Fixed,
    /// The beam width may be raised, and alpha stays.
    AdaptiveBeam,
    /// Both may be raised.
    Adaptive,
}

impl Effort {
    /// The number of this in a file. Earlier versions wrote counts of vertices there, which are never as large.
    pub fn code(self) -> u64 {
        match self {
            Self::Fixed => 0,
            Self::AdaptiveBeam => u64::MAX - 1,
            Self::Adaptive => u64::MAX,
        }
    }

    /// That of a number in a file; [`Fixed`](Self::Fixed) for any other number.
    pub fn from_code(code: u64) -> Self {
        let all = [Self::AdaptiveBeam, Self::Adaptive];
        all.into_iter().find(|effort| effort.code() == code).unwrap_or_default()
    }
}

impl Default for BuildParams {
    fn default() -> Self {
        Self {
            max_degree: defaults::MAX_DEGREE,
            build_beam_width: defaults::BUILD_BEAM_WIDTH,
            alpha: defaults::ALPHA,
            seed: defaults::SEED,
            max_batch_share: defaults::MAX_BATCH_SHARE,
            effort: Effort::Fixed,
        }
    }
}

/// The beam width of builds of data whose neighbors are hard to find.
const WIDE_BUILD_BEAM: usize = 512;

impl BuildParams {
    /// Returns a builder with the default parameters.
    pub fn builder() -> BuildParamsBuilder {
        BuildParamsBuilder(Self::default())
    }

    /// Maximum out-degree (R).
    pub fn max_degree(&self) -> usize {
        self.max_degree
    }

    /// Neighbors that a full row keeps when a pass of a bulk build, but for the last, merges back edges into it: nine in ten
    /// of [`max_degree`](Self::max_degree), so that the next ones have room.
    pub fn merged_degree(&self) -> usize {
        self.max_degree - self.max_degree / 10
    }

    /// Edges that a prune leaves at least, if there are as many candidates: a quarter of
    /// [`max_degree`](Self::max_degree), or half of it for a [`build_beam_width`](Self::build_beam_width) of 512 or more,
    /// which is for data whose neighbors are hard to find. 0 for inner products, under which the nearest candidates of
    /// vertices are often the same few long vectors.
    pub fn min_degree(&self, metric: Metric) -> usize {
        match metric {
            Metric::InnerProduct => 0,
            Metric::L2 | Metric::Cosine if self.is_wide() => self.max_degree / 2,
            Metric::L2 | Metric::Cosine => self.max_degree / 4,
        }
    }

    /// The candidates that a prune considers, nearest first: [`defaults::MAX_CANDIDATES`], or as many as a row has places.
    pub fn max_candidates(&self) -> usize {
        defaults::MAX_CANDIDATES.max(self.max_degree)
    }

    /// Build beam width (L): that of searches for the neighbors of a new vertex, in a bulk build
    /// [of two](Self::bulk_beam_width).
    pub fn build_beam_width(&self) -> usize {
        self.build_beam_width
    }

    /// Beam width of the searches of a bulk build: half of [`build_beam_width`](Self::build_beam_width), rounded up,
    /// because there are two for each vertex. Under inner products there is one, with the whole width.
    pub fn bulk_beam_width(&self, metric: Metric) -> usize {
        match metric {
            Metric::InnerProduct => self.build_beam_width,
            Metric::L2 | Metric::Cosine => self.build_beam_width.div_ceil(2),
        }
    }

    /// Whether [`build_beam_width`](Self::build_beam_width) is 512 or more, which is for data whose neighbors are hard
    /// to find.
    pub fn is_wide(&self) -> bool {
        self.build_beam_width >= WIDE_BUILD_BEAM
    }

    /// The same parameters with another beam width, of at least 1 and at most four times this one, and another alpha,
    /// of at least 1.
    #[must_use]
    pub fn with_effort(self, build_beam_width: usize, alpha: f32) -> Self {
        Self { build_beam_width, alpha, ..self }
    }

    /// Whether [`build_beam_width`](Self::build_beam_width) and [`alpha`](Self::alpha) may be raised.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Maximum hops of a build search with a beam of L, 4 L + 128. This bounds the memory of a search on a device.
    ///
    /// A search on data of average difficulty takes about 1.17 L hops.
    pub fn max_hops(beam_width: usize) -> usize {
        4 * beam_width + 128
    }

    /// Slack of the prune rule. It multiplies *squared* distances: 1.2 is 1.095 on distances.
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// Seed of the order of linking.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Maximum batch size as a fraction of the vertices already linked.
    pub fn max_batch_share(&self) -> f32 {
        self.max_batch_share
    }
}

/// Builds [`BuildParams`]. [`Self::build`] checks the bounds.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct BuildParamsBuilder(BuildParams);

impl From<BuildParams> for BuildParamsBuilder {
    fn from(params: BuildParams) -> Self {
        Self(params)
    }
}

impl BuildParamsBuilder {
    /// Sets the maximum out-degree (R), 1 to 1024. More edges raise recall, memory (4 bytes per edge) and build time.
    pub fn max_degree(mut self, max_degree: usize) -> Self {
        self.0.max_degree = max_degree;
        self
    }

    /// Sets the build beam width (L), 1 to 4096, which then [stays](Effort::Fixed), and so does alpha. A wider beam raises
    /// recall and build time.
    pub fn build_beam_width(mut self, build_beam_width: usize) -> Self {
        self.0.build_beam_width = build_beam_width;
        self.0.effort = Effort::Fixed;
        self
    }

    /// Sets the slack of the prune rule, 1 to 4, which then stays. More slack keeps more edges: deletes cost less recall,
    /// searches take longer.
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.0.alpha = alpha;
        if self.0.effort == Effort::Adaptive {
            self.0.effort = Effort::AdaptiveBeam;
        }
        self
    }

    /// Sets the seed of the order of linking. The same data, parameters and seed give the same graph.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// Sets the maximum batch size as a fraction of the vertices already linked, up to 1. Larger batches are more
    /// parallel and cost recall. No batch has more than 200,000 vertices.
    pub fn max_batch_share(mut self, share: f32) -> Self {
        self.0.max_batch_share = share;
        self
    }

    /// Sets whether beam width and alpha may be raised from those that were set before. By default they stay.
    pub fn effort(mut self, effort: Effort) -> Self {
        self.0.effort = effort;
        self
    }

    /// Checks and returns the parameters.
    ///
    /// # Errors
    /// Returns [`ParamError`] for the first parameter that is out of bounds.
    pub fn build(self) -> Result<BuildParams, ParamError> {
        let params = self.0;
        let (degree, beam_width) = (params.max_degree, params.build_beam_width);
        check("max_degree", degree, 1..=DEGREE_LIMIT, "32 to 128 suits most data")?;
        check("build_beam_width", beam_width, 1..=BEAM_LIMIT, "twice the degree is a good start")?;
        check("alpha", params.alpha, 1.0..=4.0, "it multiplies squared distances; 1.2 suits most data")?;
        check("max_batch_share", params.max_batch_share, 1e-6..=1.0, "0.04 keeps recall")?;
        Ok(params)
    }
}

/// Launch parameters of a search on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LaunchParams {
    /// Warps per query: 1, or at least 8 for a team, which uses at most 16 of them, and at most 8 in a search by codes.
    pub warps: u32,
    /// Vertices whose neighbors are processed at the same time, 1 to 8. One warp expands them together: with more than
    /// 1, results may differ. A team expands one after another and requests the next ones ahead, at most as many as it
    /// has workers: the results are the same.
    pub expansions: u32,
    /// Buckets of the visited cache: a power of two, 32 to 32,768, or 0 for none.
    #[cfg_attr(feature = "serde", serde(rename = "visited_capacity"))]
    pub visited_buckets: u32,
}

/// A parameter is out of bounds.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} ({value}) must be between {min} and {max}; {hint}")]
pub struct ParamError {
    name: &'static str,
    value: String,
    min: String,
    max: String,
    hint: &'static str,
}

fn check<V: PartialOrd + ToString>(
    name: &'static str,
    value: V,
    range: RangeInclusive<V>,
    hint: &'static str,
) -> Result<(), ParamError> {
    // No range contains NaN.
    if range.contains(&value) {
        return Ok(());
    }
    let [value, min, max] = [&value, range.start(), range.end()].map(V::to_string);
    Err(ParamError { name, value, min, max, hint })
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
