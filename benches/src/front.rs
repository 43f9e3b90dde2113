//! Comparing curves at equal recall: the Pareto front, and interpolation between its points.

/// A measured setting.
pub trait Measured: Copy {
    /// Mean recall.
    fn recall(&self) -> f64;

    /// Queries per second.
    fn rate(&self) -> f64;
}

/// Recall and rate.
impl Measured for (f64, f64) {
    fn recall(&self) -> f64 {
        self.0
    }

    fn rate(&self) -> f64 {
        self.1
    }
}

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
pub fn front<P: Measured>(points: &[P]) -> Vec<P> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| {
        (b.recall(), b.rate()).partial_cmp(&(a.recall(), a.rate())).expect("measured numbers")
    });
    let mut front: Vec<P> = Vec::new();
    for point in sorted {
        if front.last().is_none_or(|slower| point.rate() > slower.rate()) {
            front.push(point);
        }
    }
    front.reverse();
    front
}

/// Queries per second at `recall`: log-linear between the neighbors on the front. `None` if no point reaches it.
pub fn rate_at<P: Measured>(points: &[P], recall: f64) -> Option<Reached> {
    let front = front(points);
    let next = front.iter().position(|point| point.recall() >= recall)?;
    let above = front[next];
    let Some(below) = next.checked_sub(1).map(|i| front[i]) else {
        let rate = above.rate();
        return Some(if above.recall() == recall { Reached::At(rate) } else { Reached::AtLeast(rate) });
    };
    let share = (recall - below.recall()) / (above.recall() - below.recall());
    Some(Reached::At((below.rate().ln() + share * (above.rate().ln() - below.rate().ln())).exp()))
}

/// The fastest point that reaches `recall`.
pub fn fastest_at<P: Measured>(points: &[P], recall: f64) -> Option<P> {
    front(points).into_iter().find(|point| point.recall() >= recall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_no_dominated_points() {
        let all = [(0.9, 100.0), (0.8, 90.0), (0.95, 50.0), (0.95, 60.0), (0.99, 60.0)];
        assert_eq!(front(&all), [(0.9, 100.0), (0.99, 60.0)]);
        assert!(front::<(f64, f64)>(&[]).is_empty());
    }

    #[test]
    fn rates_are_interpolated_log_linearly() {
        let curve = [(0.8, 400.0), (0.9, 100.0)];
        assert_eq!(rate_at(&curve, 0.8), Some(Reached::At(400.0)));
        let Some(Reached::At(middle)) = rate_at(&curve, 0.85) else { panic!("0.85 lies between") };
        assert!((middle - 200.0).abs() < 1e-9, "{middle}");
        assert_eq!(rate_at(&curve, 0.7), Some(Reached::AtLeast(400.0)));
        assert_eq!(rate_at(&curve, 0.91), None);
        assert_eq!(fastest_at(&curve, 0.85), Some((0.9, 100.0)));
    }
}
