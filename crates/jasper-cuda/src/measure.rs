//! How fast a device is: times of queued work, and what its memory gives.

use std::time::Duration;

use gpu_kernels::Stream as _;

use crate::{Error, Event, Result, Stream};

/// The median time that `work` takes on the device, of `times` after one that is not counted. Both closures only queue;
/// what `prepare` queues runs before each time and does not count.
///
/// # Errors
/// What the closures say, and what went wrong in their work.
///
/// # Panics
/// If `times` is 0.
pub fn median_time<E: From<Error>>(
    stream: &Stream,
    times: usize,
    mut prepare: impl FnMut() -> Result<(), E>,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<Duration, E> {
    let (begin, end) = (Event::new(stream.context())?, Event::new(stream.context())?);
    prepare()?;
    work()?;
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        prepare()?;
        begin.record(stream)?;
        work()?;
        end.record(stream)?;
        taken.push(end.since(&begin)?);
    }
    taken.sort_unstable();
    Ok(taken[times / 2])
}

/// Bytes a second that the device's memory gives: a copy of 2 GiB, or of an eighth of what is free where that is less,
/// with its read and written bytes both counted. What other work reaches is held against this.
///
/// Cost: twice those bytes of device memory, and some milliseconds.
///
/// # Errors
/// [`Error::OutOfMemory`], and what the driver says.
pub fn copy_bandwidth(stream: &Stream) -> Result<f64> {
    let free = stream.context().free_memory()?.device;
    // Far more than caches hold.
    let bytes = (free / 8).clamp(1 << 20, 2 << 30) as usize;
    let (from, mut to) = (stream.allocate::<u8>(bytes)?, stream.allocate::<u8>(bytes)?);
    let time = median_time(stream, 7, || Ok(()), || stream.copy(&from, &mut to, bytes))?;
    Ok(2.0 * bytes as f64 / time.as_secs_f64())
}
