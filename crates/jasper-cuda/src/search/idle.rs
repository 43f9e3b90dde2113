//! The search buffers of finished calls, which later calls take.

use std::sync::Mutex;

use jasper_core::sync::lock;

use crate::Bytes;

/// Most memory of idle buffers, which memory plans count: that of several large batches, or of single queries from
/// hundreds of threads.
pub(crate) const MAX_IDLE: Bytes = Bytes { device: 256 << 20, host: 256 << 20 };

/// What buffers are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Searches of so few queries that they leave room on the device. Their streams come first.
    Short,
    /// Any others: changes and they take turns.
    Any,
}

impl Use {
    /// The use of buffers for this number of queries.
    pub(super) fn new(queries: usize) -> Self {
        if queries <= SHORT { Self::Short } else { Self::Any }
    }
}

/// Queries of a search that is short: so few that even the searches of many callers leave room.
const SHORT: usize = 32;

/// Buffers that no call uses: those of each finished call, with their memory.
pub(super) struct IdleBuffers<B>(Mutex<Vec<Idle<B>>>);

struct Idle<B> {
    of: Use,
    bytes: Bytes,
    buffers: Vec<B>,
}

impl<B> IdleBuffers<B> {
    /// The buffers for this use that were put back last, or none.
    pub(super) fn take(&self, of: Use) -> Vec<B> {
        let mut idle = lock(&self.0);
        let last = idle.iter().rposition(|idle| idle.of == of);
        last.map(|last| idle.remove(last).buffers).unwrap_or_default()
    }

    /// Keeps the buffers of a call, which take `bytes`. While all together take more than [`MAX_IDLE`], those that
    /// take the most are dropped, unless they are the only ones.
    pub(super) fn put(&self, of: Use, buffers: Vec<B>, bytes: Bytes) {
        let mut dropped = Vec::new();
        let mut idle = lock(&self.0);
        idle.push(Idle { of, bytes, buffers });
        let exceeds = |idle: &[Idle<B>]| {
            let total = |of: fn(&Bytes) -> u64| idle.iter().map(|idle| of(&idle.bytes)).sum::<u64>();
            total(|bytes| bytes.device) > MAX_IDLE.device || total(|bytes| bytes.host) > MAX_IDLE.host
        };
        while idle.len() > 1 && exceeds(&idle) {
            let largest = idle.iter().enumerate().max_by_key(|(_, idle)| idle.bytes.device + idle.bytes.host);
            let largest = largest.expect("there are at least two").0;
            dropped.push(idle.remove(largest));
        }
        // Freeing pinned memory takes long.
        drop(idle);
        drop(dropped);
    }
}

impl<B> Default for IdleBuffers<B> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Bytes = Bytes { device: 0, host: 4096 };
    const LARGE: Bytes = Bytes { device: 10 << 20, host: 100 << 20 };

    #[test]
    fn idle_buffers_are_bounded() {
        let idle = IdleBuffers::default();
        for call in 0..64 {
            idle.put(Use::Any, vec![call], LARGE);
            idle.put(Use::Any, vec![100 + call], SMALL);
        }
        let kept: Vec<Vec<i32>> =
            std::iter::from_fn(|| Some(idle.take(Use::Any)).filter(|set| !set.is_empty())).collect();
        assert_eq!(kept.iter().filter(|set| set[0] < 100).count(), 2, "{kept:?}");
        assert_eq!(kept.iter().filter(|set| set[0] >= 100).count(), 64, "{kept:?}");
    }

    #[test]
    fn each_use_has_its_buffers() {
        let idle = IdleBuffers::default();
        idle.put(Use::new(SHORT), vec![1], SMALL);
        idle.put(Use::new(SHORT + 1), vec![2], SMALL);
        assert_eq!([Use::Short, Use::Short, Use::Any].map(|of| idle.take(of)), [vec![1], vec![], vec![2]]);
    }

    #[test]
    fn the_buffers_of_one_call_stay_whatever_they_take() {
        let idle = IdleBuffers::default();
        let huge = Bytes { device: 0, host: 2 * MAX_IDLE.host };
        for call in 0..3 {
            assert_eq!(idle.take(Use::Any), if call == 0 { vec![] } else { vec![call - 1] });
            idle.put(Use::Any, vec![call], huge);
        }
    }
}
