//! Ctrl-C, SIGTERM and SIGHUP.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use jasper_data::remove_temporary_files;

/// Exit code of an interrupted program, by the convention of shells.
pub const EXIT_CODE: u8 = 130;

static IS_POLLED: AtomicBool = AtomicBool::new(false);
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Makes an interrupt remove temporary files and exit. If one of the signals is ignored, as under `nohup`, all of them
/// keep what they do.
pub fn install() {
    let _ = ctrlc::try_set_handler(handle);
}

/// Makes the first interrupt do no more than set [`is_set`], for a command that stops by itself then.
pub fn poll() {
    IS_POLLED.store(true, Ordering::Relaxed);
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
