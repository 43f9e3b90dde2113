//! Being asked to stop: Ctrl-C, or the signal by which systems end their jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Exit code of a program that was interrupted, as shells have it.
const INTERRUPTED: i32 = 130;

/// Whether the user asked to stop. A second time ends the program where it is.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on an interrupt is only noted: to be asked once, by a command that looks.
    pub fn watch() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let noted = asked.clone();
        let note = move || {
            if noted.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        };
        ctrlc::set_handler(note).context("interrupts cannot be caught")?;
        Ok(Self(asked))
    }

    /// Whether there was one.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
