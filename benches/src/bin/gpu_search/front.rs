//! Comparing curves at equal recall: the Pareto front, and interpolation between its points.

use super::measure::Point;

/// The queries per second of a curve at some recall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reached {
    /// Between two points of the front, or at one.
    At(f64),
    /// The fastest point exceeds the recall: at least this.
    AtLeast(f64),
}

impl Reached {
    /// The rate, whichever it is.
    pub fn rate(self) -> f64 {
        match self {
            Self::At(rate) | Self::AtLeast(rate) => rate,
        }
    }
}

/// The Pareto front by ascending recall: points that no other exceeds in both recall and rate.
pub fn front(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| (b.recall, b.rate).partial_cmp(&(a.recall, a.rate)).expect("measured numbers"));
    let mut front: Vec<Point> = Vec::new();
    for point in sorted {
        if front.last().is_none_or(|slower| point.rate > slower.rate) {
            front.push(point);
        }
    }
    front.reverse();
    front
}

/// Queries per second at `recall`: log-linear between the neighbors on the front. `None` if no point reaches it.
pub fn rate_at(points: &[Point], recall: f64) -> Option<Reached> {
    let front = front(points);
    let next = front.iter().position(|point| point.recall >= recall)?;
    let above = front[next];
    let Some(below) = next.checked_sub(1).map(|i| front[i]) else {
        return Some(if above.recall == recall {
            Reached::At(above.rate)
        } else {
            Reached::AtLeast(above.rate)
        });
    };
    let share = (recall - below.recall) / (above.recall - below.recall);
    Some(Reached::At((below.rate.ln() + share * (above.rate.ln() - below.rate.ln())).exp()))
}

/// The fastest point that reaches `recall`.
pub fn fastest_at(points: &[Point], recall: f64) -> Option<Point> {
    front(points).into_iter().find(|point| point.recall >= recall)
}

#[cfg(test)]
mod tests {
    use super::super::measure::Setting;
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> Vec<Point> {
        let point = |(i, &(recall, rate)): (usize, &(f64, f64))| Point {
            setting: Setting::new(10, 10 << i),
            queries: 1,
            recall,
            rate,
            hops: 0.0,
            distances: 0.0,
            bytes_per_second: 0.0,
        };
        pairs.iter().enumerate().map(point).collect()
    }

    #[test]
    fn the_front_has_no_dominated_points() {
        let all = points(&[(0.9, 100.0), (0.8, 90.0), (0.95, 50.0), (0.95, 60.0), (0.99, 60.0)]);
        let kept: Vec<(f64, f64)> = front(&all).iter().map(|point| (point.recall, point.rate)).collect();
        assert_eq!(kept, [(0.9, 100.0), (0.99, 60.0)]);
        assert!(front(&[]).is_empty());
    }

    #[test]
    fn rates_are_interpolated_log_linearly() {
        let curve = points(&[(0.8, 400.0), (0.9, 100.0)]);
        assert_eq!(rate_at(&curve, 0.8), Some(Reached::At(400.0)));
        let Some(Reached::At(middle)) = rate_at(&curve, 0.85) else { panic!("0.85 lies between") };
        assert!((middle - 200.0).abs() < 1e-9, "{middle}");
        assert_eq!(rate_at(&curve, 0.7), Some(Reached::AtLeast(400.0)));
        assert_eq!(rate_at(&curve, 0.91), None);
        assert_eq!(fastest_at(&curve, 0.85).map(|point| point.rate), Some(100.0));
    }
}
