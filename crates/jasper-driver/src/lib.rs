//! The CUDA driver, found at run time.
//!
//! ```
//! match jasper_driver::load() {
//!     Ok(()) => println!("a CUDA driver is here"),
//!     Err(error) => assert!(error.to_string().starts_with("no CUDA driver: tried ")),
//! }
//! ```
//!
//! [`cust`] calls functions named `cu...` and leaves it to the linker to find them in the driver's library. A program
//! linked so does not start where that library is missing. This crate defines those symbols instead: each looks up its
//! namesake in the library when it is first called, and answers with an error if there is none. So a program that can
//! use a GPU runs without one.
//!
//! | module | holds |
//! | --- | --- |
//! | `library` | the library, opened once, and [`LoadError`] |
//! | `forward` | what happens in a call; the note of the last failure |
//! | `table` | the functions |
//!
//! Results are cleaned on their way. [`cust::sys::CUresult`] is a Rust enum of the codes of CUDA 11.4, and a code it
//! does not know, from a newer driver, would be undefined behavior: such a code becomes `CUDA_ERROR_UNKNOWN`, and
//! [`take_failure`] tells what it was.
//!
//! A call costs about one nanosecond more than a direct one.

mod forward;
mod library;
mod table;

pub use forward::{Failure, error_name, take_failure};
pub use library::{LibraryAttempt, LoadError, load};

#[cfg(test)]
mod tests {
    use super::*;
    use cust::error::CudaError;
    use table::FORWARDED;

    /// Returns the functions of the table that the installed driver lacks. A driver for CUDA 11.4 or later has all of
    /// them.
    fn missing() -> Vec<&'static str> {
        let absent = |name: &&str| library::symbol::<*const ()>(&format!("{name}\0")).is_err();
        FORWARDED.iter().copied().filter(absent).collect()
    }

    #[test]
    fn a_missing_driver_is_an_error_that_names_what_was_tried() {
        let Err(error) = load() else {
            assert_eq!(missing(), Vec::<&str>::new());
            return;
        };
        let message = error.to_string();
        for attempt in &error.attempts {
            assert!(message.contains(&attempt.name) && message.contains(&attempt.reason), "{message}");
        }
        assert!(error.attempts.len() > 1 || cfg!(windows));
        // Past our door, calls fail and say so.
        assert_eq!(cust::init(cust::CudaFlags::empty()), Err(CudaError::SharedObjectInitFailed));
        assert_eq!(take_failure(), Some(Failure { call: "cuInit", code: 303 }));
        assert_eq!(take_failure(), None);
        // cust's messages come from the driver; without one they must not panic.
        assert!(CudaError::InvalidValue.to_string().contains("the CUDA driver is not loaded"));
    }

    #[test]
    fn each_function_is_in_the_table_once() {
        let mut names = FORWARDED.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FORWARDED.len());
    }
}
