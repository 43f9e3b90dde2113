//! Work in two streams runs at the same time, and copies overlap with kernels.

use std::time::Duration;

use crate::common::{Move, PROBE, spin};
use gpu_kernels::{Buffer as _, LaunchConfig, Stream as _};
use jasper_cuda::{Context, Event, Module, Pipeline, Result, Stream};

/// Clock cycles that take some milliseconds on any device.
const TICKS: u64 = 10_000_000;
const ROW: usize = 1 << 10;
const ROWS: usize = 1 << 16;
const CHUNK: usize = 5000;

/// The time of the work that `queue` queues, between two events in `stream`.
fn time(context: &Context, stream: &Stream, queue: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let (begin, end) = (Event::new(context)?, Event::new(context)?);
    begin.record(stream)?;
    queue()?;
    end.record(stream)?;
    end.since(&begin)
}

#[test]
fn copies_and_kernels_overlap() {
    let Some(context) = crate::common::exclusive_context() else { return };
    let [one, two] = [(); 2].map(|()| Stream::new(&context).unwrap());
    let probe = Module::load(&context, PROBE).unwrap();
    spin(&one, &probe, 1000).unwrap();
    context.synchronize().unwrap();

    let alone = time(&context, &one, || spin(&one, &probe, TICKS)).unwrap();
    let both = time(&context, &one, || {
        let (fork, join) = (Event::new(&context)?, Event::new(&context)?);
        fork.record(&one)?;
        two.wait(&fork)?;
        spin(&one, &probe, TICKS)?;
        spin(&two, &probe, TICKS)?;
        join.record(&two)?;
        one.wait(&join)
    });
    let both = both.unwrap();
    println!("a kernel takes {alone:?}, two in two streams {both:?}");
    assert!(both < alone * 3 / 2, "{both:?} against {alone:?}");

    // Rows through the device: each chunk is copied to its place in `all`, then its stream is kept busy.
    let mut all = one.allocate::<u32>(ROWS * ROW).unwrap();
    let mut through = |ticks: u64| {
        let to = all.output();
        let mut pipeline = Pipeline::new(&context, ROW, CHUNK).unwrap();
        let elapsed = time(&context, &one, || {
            let fill = |rows: std::ops::Range<usize>, out: &mut [u32]| {
                let first = (rows.start * ROW) as u32;
                out.iter_mut().zip(first..).for_each(|(value, i)| *value = i);
                Ok(())
            };
            pipeline.run(&one, ROWS, fill, |rows, chunk| {
                let len = (rows.len() * ROW) as u64;
                let args = Move { from: chunk.input(), to: to.add(rows.start * ROW), len };
                // SAFETY: a chunk has `len` words, and `all` has as many from the first of these rows on.
                unsafe { one.launch_from(&probe, "copy", LaunchConfig::linear(264, 256), &args)? };
                spin(&one, &probe, ticks)
            })
        });
        let elapsed = elapsed.unwrap();
        let expected: Vec<u32> = (0..(ROWS * ROW) as u32).collect();
        assert!(one.download(&all).unwrap() == expected);
        elapsed
    };
    // The least of three: the host fills the chunks, and may be busy.
    let mut least = |ticks: u64| (0..3).map(|_| through(ticks)).min().unwrap();
    let copies = least(1);
    let chunks = ROWS.div_ceil(CHUNK) as u32;
    // As much work as copying.
    let ticks = (TICKS as f64 * copies.div_f64(f64::from(chunks)).as_secs_f64() / alone.as_secs_f64()) as u64;
    let work = time(&context, &one, || (0..chunks).try_for_each(|_| spin(&one, &probe, ticks))).unwrap();
    let together = least(ticks);
    println!("copies take {copies:?}, work {work:?}, both {together:?}");
    assert!(together < (copies + work) * 4 / 5, "{together:?} against {copies:?} and {work:?}");
}
