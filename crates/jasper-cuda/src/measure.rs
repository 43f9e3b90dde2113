//! Measuring a device: times of queued work, and memory bandwidth.

use std::time::Duration;

use gpu_kernels::Stream as _;

use crate::{Error, Event, Result, Stream};

/// The median time of `operation` on the device over `times` repetitions, after one warm-up. Both closures only queue
/// work. The work of `prepare` runs before each repetition and is not timed.
///
/// # Errors
/// Returns the errors of the closures and of the work that they queue.
///
/// # Panics
/// Panics if `times` is 0.
pub fn median_time<E: From<Error>>(
    stream: &Stream,
    times: usize,
    mut prepare: impl FnMut() -> Result<(), E>,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Duration, E> {
    let (begin, end) = (Event::new(stream.context())?, Event::new(stream.context())?);
    prepare()?;
    operation()?;
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        prepare()?;
        begin.record(stream)?;
        operation()?;
        end.record(stream)?;
        taken.push(end.since(&begin)?);
    }
    taken.sort_unstable();
    Ok(taken[times / 2])
}

/// The bandwidth of device memory in bytes per second: a copy of 2 GiB, or of an eighth of the free memory if that is
/// less, counting bytes read and bytes written.
///
/// Takes device memory for both arrays, and some milliseconds.
///
/// # Errors
/// Returns [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or the driver's error.
pub fn copy_bandwidth(stream: &Stream) -> Result<f64> {
    let free = stream.context().free_memory()?.device;
    // Far larger than the caches.
    let bytes = (free / 8).clamp(1 << 20, 2 << 30) as usize;
    let (from, mut to) = (stream.allocate::<u8>(bytes)?, stream.allocate::<u8>(bytes)?);
    let time = median_time(stream, 7, || Ok(()), || stream.copy(&from, &mut to, bytes))?;
    Ok(2.0 * bytes as f64 / time.as_secs_f64())
}
