//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Exit code of an interrupted program, by the convention of shells.
const INTERRUPTED: i32 = 130;

/// Whether the program was interrupted. A second interrupt exits immediately.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs a handler that records interrupts. Call once, from a command that polls [`Self::is_set`].
    pub fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let shared = flag.clone();
        let handler = move || {
            if shared.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        };
        ctrlc::set_handler(handler).context("cannot install an interrupt handler")?;
        Ok(Self(flag))
    }

    /// Whether the program was interrupted.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
