//! The driver's library: where it is looked for, and what is said when it is not there.

use std::sync::OnceLock;

use libloading::Library;

#[cfg(windows)]
const NAMES: [&str; 1] = ["nvcuda.dll"];
/// The loader searches its own folders for the first two; the last is where Windows puts the library of WSL.
#[cfg(not(windows))]
const NAMES: [&str; 3] = ["libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"];

/// No library of the CUDA driver could be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no CUDA driver: tried {}", list(.attempts))]
pub struct LoadError {
    /// What was tried, in order.
    pub attempts: Vec<LibraryAttempt>,
}

/// A library of the driver that could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryAttempt {
    /// Its file name.
    pub name: String,
    /// What the loader said.
    pub reason: String,
}

fn list(attempts: &[LibraryAttempt]) -> String {
    let attempts: Vec<_> =
        attempts.iter().map(|LibraryAttempt { name, reason }| format!("{name} ({reason})")).collect();
    attempts.join("; ")
}

/// Opens the driver's library, if it is not open yet. The answer, either way, is kept for the life of the process.
///
/// # Errors
/// Returns [`LoadError`] with the names that were tried.
pub fn load() -> Result<(), &'static LoadError> {
    library().map(|_| ())
}

fn library() -> Result<&'static Library, &'static LoadError> {
    static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();
    LIBRARY.get_or_init(open).as_ref()
}

fn open() -> Result<Library, LoadError> {
    let mut attempts = Vec::new();
    for name in NAMES {
        // SAFETY: opening a library runs its initializers; that of the names above is the vendor's driver, made to be
        // opened so.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                attempts.push(LibraryAttempt { name: name.to_owned(), reason: reason(name, &error) })
            }
        }
    }
    Err(LoadError { attempts })
}

/// What the operating system said, without the name that it begins with.
fn reason(name: &str, error: &libloading::Error) -> String {
    let message = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    message.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).map_or(message.clone(), str::to_owned)
}

/// The codes for what can go wrong before the driver is reached: no library, and no such symbol in it.
const NO_LIBRARY: i32 = 303;
const NO_SYMBOL: i32 = 302;

/// The function `name`, which ends with a zero byte, as a pointer of type `F`, or the CUDA error code closest to the
/// failure. The caller guarantees that `F` is the function's type.
#[cold]
pub(crate) fn symbol<F: Copy>(name: &str) -> Result<F, i32> {
    let library = library().map_err(|_| NO_LIBRARY)?;
    // SAFETY: nothing is called here, and the library stays open for ever, so a copy of the pointer stays good.
    unsafe { library.get::<F>(name.as_bytes()) }.map(|symbol| *symbol).map_err(|_| NO_SYMBOL)
}
