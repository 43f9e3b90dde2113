//! The status words of tiles, used by one launch after another.

use super::LookBack;
use crate::{Buffer, Stream};

/// Status words of a look-back, one per tile and column, for any number of launches.
pub struct LookBackStates<S: Stream> {
    words: S::Buffer<u64>,
    tickets: S::Buffer<u32>,
    columns: usize,
    drawn: u32,
    stamp: u32,
}

impl<S: Stream> LookBackStates<S> {
    /// Allocates the words of `tiles` tiles with `columns` sums each.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    pub(crate) fn allocate(stream: &S, tiles: usize, columns: usize) -> Result<Self, S::Error> {
        let mut words = stream.allocate(tiles * columns)?;
        stream.fill(&mut words, 0)?;
        let mut tickets = stream.allocate(1)?;
        stream.fill(&mut tickets, 0)?;
        Ok(Self { words, tickets, columns, drawn: 0, stamp: 0 })
    }

    /// Bytes of device memory of `tiles` tiles.
    pub(crate) const fn bytes(tiles: usize, columns: usize) -> u64 {
        (tiles * columns * size_of::<u64>() + size_of::<u32>()) as u64
    }

    /// Calls `launch` with the look-back of a launch of `tiles` tiles. Unless it fails, it must launch all of them.
    pub(crate) fn launch(
        &mut self,
        stream: &S,
        tiles: u32,
        launch: impl FnOnce(LookBack) -> Result<(), S::Error>,
    ) -> Result<(), S::Error> {
        let room = self.words.len() / self.columns;
        assert!(tiles as usize <= room, "a launch of {tiles} tiles needs more than the words of {room}");
        // A launch takes two stamps.
        if self.stamp > u32::MAX - 2 {
            stream.fill(&mut self.words, 0)?;
            self.stamp = 0;
        }
        let (words, tickets) = (stream.output(&mut self.words), stream.output(&mut self.tickets));
        launch(LookBack { words, tickets, first_ticket: self.drawn, stamp: self.stamp, tiles })?;
        self.drawn = self.drawn.wrapping_add(tiles);
        self.stamp += 2;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;
    use std::ops::Range;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use bytemuck::Pod;
    use jasper_core::DeviceError;

    use super::*;
    use crate::{DevicePtr, DevicePtrMut, Kernel};

    /// A stream without memory that counts how often memory is filled.
    #[derive(Default)]
    struct CountingStream {
        fills: AtomicU32,
    }

    #[derive(Debug, PartialEq)]
    struct Failed;

    impl std::fmt::Display for Failed {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("failed")
        }
    }

    impl std::error::Error for Failed {}

    impl From<Failed> for DeviceError {
        fn from(failed: Failed) -> Self {
            Self::Failed { device: 0, source: Box::new(failed) }
        }
    }

    struct Null<T>(usize, PhantomData<fn() -> T>);

    // SAFETY: no kernel runs.
    unsafe impl<T> Buffer<T> for Null<T> {
        fn len(&self) -> usize {
            self.0
        }

        fn input(&self) -> DevicePtr<T> {
            DevicePtr::new(std::ptr::null())
        }

        fn output(&mut self) -> DevicePtrMut<T> {
            DevicePtrMut::new(std::ptr::null_mut())
        }
    }

    // SAFETY: no kernel runs.
    unsafe impl Stream for CountingStream {
        type Error = Failed;
        type Buffer<T: Pod> = Null<T>;

        fn another(&self) -> Result<Self, Self::Error> {
            Ok(Self::default())
        }

        fn multiprocessors(&self) -> u32 {
            1
        }

        fn allocate<T: Pod>(&self, len: usize) -> Result<Null<T>, Self::Error> {
            Ok(Null(len, PhantomData))
        }

        fn upload<T: Pod>(&self, values: &[T]) -> Result<Null<T>, Self::Error> {
            self.allocate(values.len())
        }

        fn write_range<T: Pod, E: From<Self::Error>>(
            &self,
            _: &mut Null<T>,
            _: Range<usize>,
            _: usize,
            _: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
        ) -> Result<(), E> {
            Ok(())
        }

        fn copy<T: Pod>(&self, _: &Null<T>, _: &mut Null<T>, _: usize) -> Result<(), Self::Error> {
            Ok(())
        }

        fn synchronize(&self) -> Result<(), Self::Error> {
            Ok(())
        }

        fn wait_for(&self, _: &Self) -> Result<(), Self::Error> {
            Ok(())
        }

        fn synchronize_device(&self) -> Result<(), Self::Error> {
            Ok(())
        }

        fn fill<T: Pod>(&self, _: &mut Null<T>, _: u8) -> Result<(), Self::Error> {
            self.fills.fetch_add(1, Relaxed);
            Ok(())
        }

        fn download_range<T: Pod>(&self, _: &Null<T>, _: Range<usize>) -> Result<Vec<T>, Self::Error> {
            Err(Failed)
        }

        fn check_owner<T: Pod>(&self, _: &Null<T>) {}

        unsafe fn launch<K: Kernel>(&self, _: &K, _: K::Args) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    /// First ticket and stamp of the next launch.
    fn next(tiles: &mut LookBackStates<CountingStream>, stream: &CountingStream, count: u32) -> (u32, u32) {
        let mut seen = None;
        let launch = |look_back: LookBack| {
            seen = Some((look_back.first_ticket, look_back.stamp));
            Ok(())
        };
        tiles.launch(stream, count, launch).unwrap();
        seen.unwrap()
    }

    #[test]
    fn launches_continue_where_the_last_one_ended() {
        let stream = CountingStream::default();
        let mut tiles = LookBackStates::allocate(&stream, 7, 3).unwrap();
        let cleared = stream.fills.load(Relaxed);
        assert_eq!(next(&mut tiles, &stream, 7), (0, 0));
        assert_eq!(next(&mut tiles, &stream, 2), (7, 2));
        assert_eq!(tiles.launch(&stream, 5, |_| Err(Failed)), Err(Failed));
        assert_eq!(next(&mut tiles, &stream, 1), (9, 4));
        assert_eq!(stream.fills.load(Relaxed), cleared);
    }

    #[test]
    fn words_are_cleared_when_stamps_run_out() {
        let stream = CountingStream::default();
        let mut tiles = LookBackStates::allocate(&stream, 1, 1).unwrap();
        let cleared = stream.fills.load(Relaxed);
        (tiles.stamp, tiles.drawn) = (u32::MAX - 3, u32::MAX);
        assert_eq!(next(&mut tiles, &stream, 1), (u32::MAX, u32::MAX - 3));
        assert_eq!(next(&mut tiles, &stream, 1), (0, 0));
        assert_eq!(stream.fills.load(Relaxed), cleared + 1);
    }

    #[test]
    #[should_panic = "a launch of 8 tiles needs more than the words of 7"]
    fn a_launch_has_its_words() {
        let stream = CountingStream::default();
        next(&mut LookBackStates::allocate(&stream, 7, 3).unwrap(), &stream, 8);
    }
}
