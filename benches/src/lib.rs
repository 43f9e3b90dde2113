//! What the measuring programs in `src/bin` share.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Instant;

/// Runs a step over `count` vectors and prints its name, duration and rate as a line of JSON.
///
/// # Errors
/// Those of the step.
pub fn step<R>(
    what: &str,
    count: usize,
    step: impl FnOnce() -> Result<R, Box<dyn Error>>,
) -> Result<R, Box<dyn Error>> {
    let begun = Instant::now();
    let result = step()?;
    let seconds = begun.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    println!(
        "{{\"what\": \"{what}\", \"vectors\": {count}, \"seconds\": {seconds:.4}, \"per_second\": {rate:.0}}}"
    );
    Ok(result)
}
