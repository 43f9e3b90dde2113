//! Ctrl-C, SIGTERM and SIGHUP.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use jasper_data::remove_temporary_files;

/// Exit code of an interrupted program, by the convention of shells.
pub const EXIT_CODE: u8 = 130;

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
static IS_POLLED: AtomicBool = AtomicBool::new(false);
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Makes an interrupt remove temporary files and exit. If one of the signals is ignored, as under `nohup`, all of them
/// keep what they do.
pub fn install() {
    IS_INSTALLED.store(ctrlc::try_set_handler(handle).is_ok(), Ordering::Relaxed);
}

/// Makes the first interrupt do no more than set [`is_set`], for a command that stops by itself then.
pub fn poll() -> Result<()> {
    IS_POLLED.store(true, Ordering::Relaxed);
    if !IS_INSTALLED.swap(true, Ordering::Relaxed) {
        ctrlc::set_handler(handle).context("cannot install an interrupt handler")?;
    }
    Ok(())
}

/// Whether there was an interrupt since [`poll`].
pub fn is_set() -> bool {
    IS_SET.load(Ordering::Relaxed)
}

fn handle() {
    if IS_POLLED.load(Ordering::Relaxed) && !IS_SET.swap(true, Ordering::Relaxed) {
        return;
    }
    remove_temporary_files();
    process::exit(EXIT_CODE.into());
}
