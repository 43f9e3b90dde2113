//! The search buffers of finished calls, which later calls take.

use std::sync::Mutex;

use jasper_core::sync::lock;

use crate::Bytes;

/// Most memory of idle buffers, which memory plans count: that of several large batches, or of single queries from
/// hundreds of threads.
pub(crate) const MAX_IDLE: Bytes = Bytes { device: 256 << 20, host: 256 << 20 };

/// Buffers that no call uses: those of each finished call, with their memory.
pub(super) struct IdleBuffers<B>(Mutex<Vec<(Bytes, Vec<B>)>>);

impl<B> IdleBuffers<B> {
    /// The buffers that were put back last, or none.
    pub(super) fn take(&self) -> Vec<B> {
        lock(&self.0).pop().map(|(_, buffers)| buffers).unwrap_or_default()
    }

    /// Keeps the buffers of a call, which take `bytes`. While all together take more than [`MAX_IDLE`], those that
    /// take the most are dropped, unless they are the only ones.
    pub(super) fn put(&self, buffers: Vec<B>, bytes: Bytes) {
        let mut dropped = Vec::new();
        let mut idle = lock(&self.0);
        idle.push((bytes, buffers));
        let exceeds = |idle: &[(Bytes, Vec<B>)]| {
            let total = |of: fn(&Bytes) -> u64| idle.iter().map(|(bytes, _)| of(bytes)).sum::<u64>();
            total(|bytes| bytes.device) > MAX_IDLE.device || total(|bytes| bytes.host) > MAX_IDLE.host
        };
        while idle.len() > 1 && exceeds(&idle) {
            let largest = idle.iter().enumerate().max_by_key(|(_, (bytes, _))| bytes.device + bytes.host);
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
            idle.put(vec![call], LARGE);
            idle.put(vec![100 + call], SMALL);
        }
        let kept: Vec<Vec<i32>> =
            std::iter::from_fn(|| Some(idle.take()).filter(|set| !set.is_empty())).collect();
        assert_eq!(kept.iter().filter(|set| set[0] < 100).count(), 2, "{kept:?}");
        assert_eq!(kept.iter().filter(|set| set[0] >= 100).count(), 64, "{kept:?}");
    }

    #[test]
    fn the_buffers_of_one_call_stay_whatever_they_take() {
        let idle = IdleBuffers::default();
        let huge = Bytes { device: 0, host: 2 * MAX_IDLE.host };
        for call in 0..3 {
            assert_eq!(idle.take(), if call == 0 { vec![] } else { vec![call - 1] });
            idle.put(vec![call], huge);
        }
    }
}
