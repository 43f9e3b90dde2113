//! Chooses the settings to measure: dense where curves are compared, sparse elsewhere.

use jasper_vamana::TunedLaunch;

use super::front::{front, rate_at};
use super::point::{Point, SOLO, Setting};

/// Recalls at which systems are compared.
pub const RECALLS: [f64; 4] = [0.90, 0.95, 0.98, 0.99];

/// Beam widths that every curve has, behind that of its k.
const LADDER: [u32; 24] = [
    12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 640, 768,
    1024,
];
/// Widths measured between two of the ladder, for the fastest launch.
const BETWEEN: u32 = 4;
/// A launch that takes longer is not tried in every way.
const LONG: f64 = 0.1;
/// Launches that are, then: those that were fastest at the recall before.
const KEPT: usize = 3;

/// Measures a setting; nothing when there is no time left.
pub type Measure<'a, E> = dyn FnMut(Setting) -> Result<Option<Point>, E> + 'a;

/// A curve under way.
struct Curve<'a, 'b, E> {
    k: u32,
    measure: &'a mut Measure<'b, E>,
    /// In the order of measuring.
    known: Vec<Point>,
}

/// The launches of one warp a query.
pub fn launches() -> Vec<TunedLaunch> {
    let of = |expansions| {
        [0, 256, 512, 1024, 2048].map(|visited_slots| TunedLaunch { warps: 1, expansions, visited_slots })
    };
    [1, 2, 4].into_iter().flat_map(of).collect()
}

/// Measures the curve of recall@`k` over beam widths by one warp a query; at each of [`RECALLS`] the others of
/// `launches` around it, and the fastest of them in steps that are finer. Gives all points, in the order of measuring.
///
/// # Errors
/// Those of `measure`. Out of time is none: the points so far are given.
pub fn measure_curve<E>(
    k: u32,
    launches: &[TunedLaunch],
    measure: &mut Measure<'_, E>,
) -> Result<Vec<Point>, E> {
    let mut curve = Curve { k, measure, known: Vec::new() };
    curve.run(launches)?;
    Ok(curve.known)
}

impl<E> Curve<'_, '_, E> {
    /// Ends early when time does: nothing then, as nobody asks.
    fn run(&mut self, launches: &[TunedLaunch]) -> Result<Option<()>, E> {
        let wider = LADDER.into_iter().filter(|&width| width > self.k);
        let widths: Vec<u32> = std::iter::once(self.k).chain(wider).collect();
        let Some(ladder) = self.all(&widths, SOLO)? else { return Ok(None) };
        let mut fastest = launches.to_vec();
        for recall in RECALLS {
            let Some(above) = ladder.iter().position(|point| point.recall >= recall) else { break };
            // Several expansions a step find more at the same width, so that the widths below count as well.
            let near = &widths[above.saturating_sub(2)..=above];
            if ladder[above].queries as f64 / ladder[above].rate > LONG {
                fastest.truncate(KEPT);
            }
            for &launch in &fastest {
                if self.all(near, launch)?.is_none() {
                    return Ok(None);
                }
            }
            fastest.sort_by(|&a, &b| self.rate(b, recall).total_cmp(&self.rate(a, recall)));
            if let Some(&launch) = fastest.first()
                && self.refine(launch, recall)?.is_none()
            {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// The points of `widths` by `launch`.
    fn all(&mut self, widths: &[u32], launch: TunedLaunch) -> Result<Option<Vec<Point>>, E> {
        widths.iter().map(|&beam_width| self.at(Setting { k: self.k, beam_width, launch })).collect()
    }

    /// A setting, measured once.
    fn at(&mut self, setting: Setting) -> Result<Option<Point>, E> {
        if let Some(&point) = self.known.iter().find(|point| point.setting == setting) {
            return Ok(Some(point));
        }
        let point = (self.measure)(setting)?;
        self.known.extend(point);
        Ok(point)
    }

    /// What is known of `launch`.
    fn of(&self, launch: TunedLaunch) -> Vec<Point> {
        self.known.iter().filter(|point| point.setting.launch == launch).copied().collect()
    }

    fn rate(&self, launch: TunedLaunch, recall: f64) -> f64 {
        rate_at(&self.of(launch), recall).map_or(0.0, |reached| reached.rate())
    }

    /// Steps between the two widths of `launch` that `recall` lies buffers.
    fn refine(&mut self, launch: TunedLaunch, recall: f64) -> Result<Option<()>, E> {
        let front = front(&self.of(launch));
        let Some(above) = front.iter().position(|point| point.recall >= recall) else { return Ok(Some(())) };
        let Some(below) = above.checked_sub(1) else { return Ok(Some(())) };
        let (low, high) = (front[below].setting.beam_width, front[above].setting.beam_width);
        let step = high.saturating_sub(low).div_ceil(BETWEEN).max(1);
        let widths: Vec<u32> = (low..high).step_by(step as usize).skip(1).collect();
        Ok(self.all(&widths, launch)?.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// a device on which a wider beam misses less, and two expansions with a small filter are a fifth faster.
    fn model(setting: Setting, slowness: f64) -> Point {
        let Setting { beam_width, launch, .. } = setting;
        let width = f64::from(beam_width) + 2.0 * f64::from(launch.expansions - 1);
        let better = if (launch.expansions, launch.visited_slots) == (2, 256) { 1.2 } else { 1.0 };
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

    fn curve(k: u32, slowness: f64, most: usize) -> Vec<Point> {
        let mut asked = Vec::new();
        let points = measure_curve::<Infallible>(k, &launches(), &mut |setting| {
            assert!(!asked.contains(&setting), "{setting:?} is measured once");
            assert!(setting.beam_width >= k);
            asked.push(setting);
            Ok((asked.len() <= most).then(|| model(setting, slowness)))
        });
        points.unwrap()
    }

    #[test]
    fn the_fastest_launch_is_found_and_followed() {
        let points = curve(10, 1.0, usize::MAX);
        assert!(points.len() < 250, "{}", points.len());
        for recall in RECALLS.into_iter().skip(1) {
            // On this card the fastest launch is at 1 - 1 / width for every width, also between the ladder's.
            let best = 1.2 * 1e8 * (1.0 - recall);
            let reached = rate_at(&points, recall).unwrap().rate();
            assert!((reached / best - 1.0).abs() < 0.01, "{recall}: {reached} of {best}");
        }
        let widest = points.iter().map(|point| point.setting.beam_width).max();
        assert_eq!(widest, Some(1024));
        let of_wide = |point: &&Point| point.setting.beam_width > 320 && point.setting.launch != SOLO;
        assert_eq!(points.iter().filter(of_wide).count(), 0, "launches are tried where recalls are compared");
    }

    #[test]
    fn long_launches_are_tried_in_few_launches() {
        let (quick, slow) = (curve(10, 1.0, usize::MAX).len(), curve(10, 30.0, usize::MAX).len());
        assert!(slow < quick - 40, "{slow} of {quick}");
    }

    #[test]
    fn what_there_is_no_time_for_is_left_out() {
        for most in [0, 1, 30, 60] {
            assert_eq!(curve(10, 1.0, most).len(), most);
        }
    }

    #[test]
    fn frontiers_hold_the_answers() {
        assert_eq!(curve(100, 1.0, 1)[0].setting, Setting::new(100, 100));
    }
}
