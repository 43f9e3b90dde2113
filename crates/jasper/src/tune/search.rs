//! Tries searches: beam widths for their recall, and launches for their speed.

use std::time::{Duration, Instant};

use jasper_core::{Progress, ProgressFn, Stage, VectorView};
use jasper_graph::TunedSearch;
use jasper_vamana::{LaunchParams, Matches, SearchParams};

use super::held_out::{Half, HeldOut};
use super::width::least_width;
use super::{Goal, TuneError, TuneReport};
use crate::error::{Error, Result};
use crate::inner::IndexInner;
use crate::{Device, ErrorKind};

/// The widest beam tried, if the device supports it.
const WIDEST: usize = 4096;
/// Minimum time of a throughput measurement, of at least one call.
const TIMED: Duration = Duration::from_millis(200);
/// Launch parameters that are tried on a GPU: warps per query, expansions per step, and sizes of the visited cache.
const WARPS: [u32; 3] = [1, 8, 16];
const EXPANSIONS: [u32; 4] = [1, 2, 3, 4];
const VISITED_BUCKETS: [u32; 5] = [512, 1024, 2048, 4096, 8192];

impl IndexInner {
    /// The fastest search that reaches the goal, for each of [`TuneReport::BATCHES`]. `fingerprint` is that of the
    /// graph before queries were held out.
    pub(super) fn fastest_searches(
        &self,
        goal: Goal,
        held_out: &HeldOut,
        fingerprint: u32,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<TunedSearch>> {
        let launches = if self.device() == Device::CPU { vec![None] } else { launches() };
        // Launches with the same number of expansions have the same recall.
        let groups: Vec<_> = launches.chunk_by(|a, b| expansions(a) == expansions(b)).collect();
        let total = groups.len() + launches.len() * TuneReport::BATCHES.len();
        let mut done = 0;
        let mut step = || {
            done += 1;
            Progress { stage: Stage::Tuning, done: done - 1, total }.report(progress)
        };
        let mut fastest: [Option<TunedSearch>; TuneReport::BATCHES.len()] = [const { None }; _];
        let mut unreached = None;
        for group in groups {
            step()?;
            let (beam_width, recall) = match self.reach(goal, held_out, group[0]) {
                Ok(reached) => reached,
                // More expansions per step may still reach the goal.
                Err(error) if error.kind() == ErrorKind::RecallNotReached => {
                    unreached = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (fastest, batch) in fastest.iter_mut().zip(TuneReport::BATCHES) {
                let queries = held_out.selection.at_least(batch);
                for &launch in group {
                    step()?;
                    let queries_per_second = self.rate(&queries, batch, goal.params(beam_width, launch))?;
                    if fastest.as_ref().is_some_and(|other| other.queries_per_second >= queries_per_second) {
                        continue;
                    }
                    *fastest = Some(TunedSearch {
                        device: self.backend.device_name(),
                        k: goal.k,
                        target: goal.recall,
                        batch,
                        beam_width,
                        launch,
                        recall,
                        queries_per_second,
                        fingerprint,
                    });
                }
            }
        }
        let found: Vec<TunedSearch> = fastest.into_iter().flatten().collect();
        match unreached {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// The smallest beam width whose recall is reached on both halves, and its recall on the validation half.
    fn reach(&self, goal: Goal, held_out: &HeldOut, launch: Option<LaunchParams>) -> Result<(usize, f64)> {
        let vertices = self.backend.read(|graph| graph.keys().live() + graph.keys().tombstones());
        // A sampled query takes one entry of the frontier itself.
        let widest = (self.backend.max_beam_width() - 1).min(WIDEST).min(vertices).max(goal.k);
        let mut best: f64 = 0.0;
        let mut recall = |half: &Half, width: usize| {
            let found = half.recall(goal.k, width, |queries, params, matches| {
                self.backend.search_batch(queries, params.launch(launch), matches)
            })?;
            best = best.max(found);
            Ok::<_, Error>(found)
        };
        let mut first = 1;
        while let Some(width) = least_width(first, widest, |width| {
            Ok::<_, Error>(recall(&held_out.selection, width)? >= goal.recall)
        })? {
            let confirmed = recall(&held_out.validation, width)?;
            if confirmed >= goal.recall {
                return Ok((width, confirmed));
            }
            if width == widest {
                break;
            }
            first = width + 1 + width / 32;
        }
        Err(TuneError::Unreached { k: goal.k, recall: goal.recall, found: best, beam_width: widest }.into())
    }

    /// Queries per second in calls of `batch` queries, by the median call.
    fn rate(&self, queries: &[VectorView<'_>], batch: usize, params: SearchParams<'_>) -> Result<f64> {
        let mut matches = Matches::new(batch, params.k)?;
        let mut call = |turn: usize| {
            let first = turn * batch % (queries.len() - batch + 1);
            let begun = Instant::now();
            self.backend.search_batch(&queries[first..first + batch], params, matches.as_mut())?;
            Ok::<_, Error>(begun.elapsed().as_secs_f64())
        };
        call(0)?;
        let (begun, mut seconds) = (Instant::now(), Vec::new());
        while begun.elapsed() < TIMED {
            seconds.push(call(seconds.len() + 1)?);
        }
        seconds.sort_unstable_by(f64::total_cmp);
        Ok(batch as f64 / seconds[seconds.len() / 2])
    }
}

/// The launch parameters to try, those with the same number of expansions next to each other.
fn launches() -> Vec<Option<LaunchParams>> {
    let shapes =
        WARPS.into_iter().flat_map(|warps| VISITED_BUCKETS.map(|visited_buckets| (warps, visited_buckets)));
    let launch =
        |expansions, (warps, visited_buckets)| Some(LaunchParams { warps, expansions, visited_buckets });
    EXPANSIONS
        .into_iter()
        .flat_map(|expansions| shapes.clone().map(move |shape| launch(expansions, shape)))
        .collect()
}

fn expansions(launch: &Option<LaunchParams>) -> Option<u32> {
    launch.map(|launch| launch.expansions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recall of a group is measured once, with its first launch.
    #[test]
    fn launches_are_grouped_by_expansions() {
        let launches = launches();
        let groups: Vec<_> = launches.chunk_by(|a, b| expansions(a) == expansions(b)).collect();
        assert_eq!(
            groups.iter().map(|group| expansions(&group[0])).collect::<Vec<_>>(),
            EXPANSIONS.map(Some)
        );
        assert!(groups.iter().all(|group| group.len() == WARPS.len() * VISITED_BUCKETS.len()));
    }
}
