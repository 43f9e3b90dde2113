//! Recall and queries per second of large batches in device memory: settings dense where curves are compared, sparse
//! elsewhere.

use anyhow::Result;
use jasper::{Element, LaunchParams};
use jasper_benches::front::{fastest_at, front, rate_at};

use super::measure::{Bench, MAX_QUERIES, ONE_WARP, Point, Setting};
use super::report::Report;

/// Recalls at which systems are compared.
pub const RECALLS: [f64; 4] = [0.90, 0.95, 0.98, 0.99];

/// Queries per batch, as measured for the other systems.
const QUERIES: usize = 10_000;
/// Recalls at which batches of [`MAX_QUERIES`] are measured.
const LARGE_BATCH_RECALLS: [f64; 3] = [0.90, 0.95, 0.99];
/// Beam widths of every curve, after that of its k.
const LADDER: [usize; 24] = [
    12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 640, 768,
    1024,
];
/// Widths measured between two of the ladder, for the fastest launch.
const STEPS_BETWEEN: usize = 4;
/// If a batch takes longer, in seconds, only the [`KEPT`] launches that were fastest at the previous recall are
/// measured.
const LONG: f64 = 0.1;
const KEPT: usize = 3;

/// Measures the index for k of 10 and 100, and prints every point and report.
pub fn run<T: Element>(bench: &Bench<'_, T>) -> Result<()> {
    let exact = bench.index.stats().quantization.is_none();
    for k in [10, 100] {
        let measure = |what: &str, setting: Setting, queries: usize| -> Result<Point> {
            let point = bench.measure(setting, queries)?;
            println!("{}", bench.line(what, point.fields(bench.copy)));
            Ok(point)
        };
        let visited_buckets: &[u32] = match (exact, k) {
            (true, 10) => &[0, 256, 512, 1024, 2048],
            (true, _) => &[ONE_WARP.visited_buckets],
            (false, _) => &[512, 1024, 2048],
        };
        let points =
            measure_curve(k, &launches(visited_buckets), &mut |setting| measure("point", setting, QUERIES))?;
        for (what, fields) in (Report { k, points: &points, copy: bench.copy }).lines() {
            println!("{}", bench.line(what, fields));
        }
        for recall in LARGE_BATCH_RECALLS.into_iter().filter(|_| k == 10) {
            if let Some(point) = fastest_at(&points, recall) {
                measure("batch", point.setting, MAX_QUERIES)?;
            }
        }
    }
    Ok(())
}

/// The launches of one warp per query.
fn launches(visited_buckets: &[u32]) -> Vec<LaunchParams> {
    let with = |expansions| {
        visited_buckets.iter().map(move |&visited_buckets| LaunchParams {
            expansions,
            visited_buckets,
            ..ONE_WARP
        })
    };
    [1, 2, 4].into_iter().flat_map(with).collect()
}

/// Measures the curve of recall@`k` over beam widths by [`ONE_WARP`]; near each of [`RECALLS`] also the other `launches`,
/// and the fastest of them in finer steps. Returns all points, in the order of measuring.
fn measure_curve<E>(
    k: usize,
    launches: &[LaunchParams],
    measure: &mut dyn FnMut(Setting) -> Result<Point, E>,
) -> Result<Vec<Point>, E> {
    let mut known: Vec<Point> = Vec::new();
    // Measures widths with a launch, each once.
    let mut extend = |known: &mut Vec<Point>, widths: &[usize], launch| {
        for &beam_width in widths {
            let setting = Setting { k, beam_width, launch };
            if !known.iter().any(|point| point.setting == setting) {
                known.push(measure(setting)?);
            }
        }
        Ok(())
    };
    let widths: Vec<usize> = [k].into_iter().chain(LADDER.into_iter().filter(|&width| width > k)).collect();
    extend(&mut known, &widths, ONE_WARP)?;
    let ladder = known.clone();
    let mut fastest = launches.to_vec();
    for recall in RECALLS {
        let Some(above) = ladder.iter().position(|point| point.recall >= recall) else { break };
        if ladder[above].queries as f64 / ladder[above].rate > LONG {
            fastest.truncate(KEPT);
        }
        // Several expansions per step find more at the same width, so that smaller widths count as well.
        let near = &widths[above.saturating_sub(2)..=above];
        for &launch in &fastest {
            extend(&mut known, near, launch)?;
        }
        let rate =
            |launch| rate_at(&with_launch(&known, launch), recall).map_or(0.0, |reached| reached.rate());
        fastest.sort_by(|&a, &b| rate(b).total_cmp(&rate(a)));
        let Some(&launch) = fastest.first() else { continue };
        let front = front(&with_launch(&known, launch));
        let above = front.iter().position(|point| point.recall >= recall).unwrap_or(0);
        if above > 0 {
            let (low, high) = (front[above - 1].setting.beam_width, front[above].setting.beam_width);
            let step = high.saturating_sub(low).div_ceil(STEPS_BETWEEN).max(1);
            let between: Vec<usize> = (low..high).step_by(step).skip(1).collect();
            extend(&mut known, &between, launch)?;
        }
    }
    Ok(known)
}

fn with_launch(points: &[Point], launch: LaunchParams) -> Vec<Point> {
    points.iter().filter(|point| point.setting.launch == launch).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A device on which a wider beam misses less, and two expansions with a small visited cache are a fifth faster.
    fn model(setting: Setting, slowness: f64) -> Point {
        let Setting { beam_width, launch, .. } = setting;
        let width = beam_width as f64 + 2.0 * f64::from(launch.expansions - 1);
        let better = if (launch.expansions, launch.visited_buckets) == (2, 256) { 1.2 } else { 1.0 };
        Point {
            setting,
            queries: 10_000,
            recall: 1.0 - 1.0 / width,
            rate: better * 1e8 / width / slowness,
            hops: width,
            distances: 20.0 * width,
            bytes_per_second: 1e12,
        }
    }

    fn curve(k: usize, slowness: f64) -> Vec<Point> {
        let mut measured = Vec::new();
        let points = measure_curve::<Infallible>(k, &launches(&[0, 256, 512, 1024, 2048]), &mut |setting| {
            assert!(!measured.contains(&setting), "{setting:?} is measured once");
            assert!(setting.beam_width >= k);
            measured.push(setting);
            Ok(model(setting, slowness))
        });
        points.unwrap()
    }

    #[test]
    fn the_fastest_launch_is_found_and_followed() {
        let points = curve(10, 1.0);
        assert!(points.len() < 250, "{}", points.len());
        for recall in RECALLS.into_iter().skip(1) {
            // On this device the fastest launch is at 1 - 1 / width for every width, also between the ladder's.
            let best = 1.2 * 1e8 * (1.0 - recall);
            let reached = rate_at(&points, recall).unwrap().rate();
            assert!((reached / best - 1.0).abs() < 0.01, "{recall}: {reached} of {best}");
        }
        let widest = points.iter().map(|point| point.setting.beam_width).max();
        assert_eq!(widest, Some(1024));
        let of_wide = |point: &&Point| point.setting.beam_width > 320 && point.setting.launch != ONE_WARP;
        assert_eq!(points.iter().filter(of_wide).count(), 0, "launches are tried where recalls are compared");
    }

    #[test]
    fn long_launches_are_tried_in_few_launches() {
        let (quick, slow) = (curve(10, 1.0).len(), curve(10, 30.0).len());
        assert!(slow < quick - 40, "{slow} of {quick}");
    }

    #[test]
    fn frontiers_hold_the_results() {
        assert_eq!(curve(100, 1.0)[0].setting, Setting::new(100, 100));
    }
}
