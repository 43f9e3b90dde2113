//! The true neighbors of queries among vectors that are made as they are read.

use std::ops::Range;

use anyhow::Result;
use jasper::{Device, Element, MatrixView, Metric};
use jasper_benches::exact_neighbors;
use jasper_core::recall::Truth;
use jasper_cuda::{Context, DeviceProperties};
use jasper_data::{GroundTruth, ThreadPool};

use super::rule::Rule;

/// Vectors scanned at a time.
const BLOCK: usize = 1 << 22;
/// Neighbors that are kept of each query: deeper than k, so that ties with the k-th are seen.
const KEPT: usize = 20;

/// Where and how exact distances are computed.
pub struct Scanner<'a> {
    pub rule: &'a Rule,
    pub device: Device,
    pub pool: &'a ThreadPool,
}

/// The nearest vectors to each query, by distance and number.
pub struct Nearest(Vec<Vec<(f32, u32)>>);

impl Scanner<'_> {
    /// The nearest of the vectors of these numbers to each query.
    pub fn nearest<T: Element>(&self, queries: MatrixView<'_, T>, numbers: Range<usize>) -> Result<Nearest> {
        let mut nearest = Nearest(vec![Vec::new(); queries.len()]);
        let ordinal = match self.device.resolve()? {
            Some(device) => device.cuda_ordinals().first().copied(),
            None => DeviceProperties::list()?.first().map(|device| device.ordinal),
        };
        let context = ordinal.map(Context::open).transpose()?;
        let vectors = self.rule.vectors(numbers.clone());
        for first in (0..numbers.len()).step_by(BLOCK) {
            let block: Vec<T> = vectors.collect(first..numbers.len().min(first + BLOCK));
            let block = MatrixView::new(&block, queries.dimension())?;
            let k = KEPT.min(block.len());
            let found = exact_neighbors(context.as_ref(), block, queries, k, Metric::L2, self.pool)?;
            nearest.add(&found, (numbers.start + first) as u32);
        }
        Ok(nearest)
    }
}

impl Nearest {
    /// Adds the neighbors among vectors that are numbered from `first` on.
    fn add(&mut self, found: &GroundTruth, first: u32) {
        for (query, nearest) in self.0.iter_mut().enumerate() {
            let Truth { ids, distances } = found.truth(query);
            let distances = distances.expect("exact neighbors come with their distances");
            nearest.extend(distances.iter().zip(ids).map(|(&distance, &id)| (distance, id + first)));
            shorten(nearest);
        }
    }

    /// The nearest of both sets.
    pub fn merge(&self, other: &Self) -> Result<GroundTruth> {
        let both = self.0.iter().zip(&other.0).flat_map(|(a, b)| {
            let mut nearest = [&a[..], b].concat();
            shorten(&mut nearest);
            nearest
        });
        let (distances, ids) = both.unzip();
        Ok(GroundTruth::new(KEPT, ids, Some(distances))?)
    }
}

fn shorten(nearest: &mut Vec<(f32, u32)>) {
    nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    nearest.truncate(KEPT);
}
