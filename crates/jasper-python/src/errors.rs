//! Python exceptions for the errors of Rust.

use std::error::Error as StdError;
use std::str::FromStr;

use jasper::ErrorKind;
use jasper_graph::{FileError, FileFault, VectorError};
use jasper_vamana::UpdateError;
use pyo3::exceptions::{PyOSError, PyOverflowError};
use pyo3::prelude::*;

macro_rules! exceptions {
    ($($Name:ident)*) => {$( pyo3::import_exception!(jasper.errors, $Name); )*};
}

exceptions! {
    Error ParameterError UnknownKeyError DuplicateKeyError FormatError OutOfMemoryError DeviceError Cancelled
}

/// Makes an exception with a message.
type Exception = fn(String) -> PyErr;

/// An error of the library, as an exception with the message of the error and of its causes.
pub trait Raise: Into<jasper::Error> {
    /// The exception.
    fn raise(self) -> PyErr {
        raise(self.into())
    }
}

impl<E: Into<jasper::Error>> Raise for E {}

/// Remedies and types in messages of the library, and what they are in Python.
const REMEDIES: [(&str, &str); 15] = [
    ("`Index::save_durable` or `jasper build --durable`", "Index.save(path, durable=True)"),
    ("(`Index::insert`, `--keys`)", "(the argument keys)"),
    ("(`Index::quantize`, `jasper quantize`)", "(Index.quantize)"),
    ("(`TuneQueries::Given`, `--queries`)", "(the argument queries)"),
    (
        "collect the keys into a KeyFilter, or call `search`",
        "name the keys that may be returned, or call search",
    ),
    ("make one with `jasper build`", "make one with Index.save"),
    ("Index::", "Index."),
    ("which f32 cannot hold", "which float32 cannot hold"),
    ("which f16 cannot hold", "which float16 cannot hold"),
    ("which u8 cannot hold", "which uint8 cannot hold"),
    ("which i8 cannot hold", "which int8 cannot hold"),
    ("an index of f32", "an index of float32"),
    ("rounded to f16", "rounded to float16"),
    ("rounded to u8", "rounded to uint8"),
    ("rounded to i8", "rounded to int8"),
];

/// The message of an error and of its causes, with the remedies of Python.
pub fn message(error: &dyn StdError) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let messages: Vec<String> = causes.map(ToString::to_string).collect();
    REMEDIES.iter().fold(messages.join(": "), |text, (rust, python)| text.replace(rust, python))
}

/// An integer argument of any size: its value, or its text if it is negative or beyond 64 bits.
pub struct Integer(Result<u64, String>);

impl From<u64> for Integer {
    fn from(value: u64) -> Self {
        Self(Ok(value))
    }
}

impl<'py> FromPyObject<'_, 'py> for Integer {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<u64>() {
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Self(Err(object.to_string())))
            }
            value => value.map(Self::from),
        }
    }
}

/// A number of things, which Python may count: at least 0 and below 2^63. `name` is that of the argument.
pub fn count(name: &str, value: Integer) -> PyResult<usize> {
    let value = value.0.and_then(|value| i64::try_from(value).map_err(|_| value.to_string()));
    let value = value.map_err(|text| {
        let bound = if text.starts_with('-') { "at least 0" } else { "below 2**63" };
        ParameterError::new_err(format!("{name} ({text}) must be {bound}"))
    })?;
    Ok(value as usize)
}

/// A seed. `name` is that of the argument.
pub fn seed(name: &str, value: Integer) -> PyResult<u64> {
    value.0.map_err(|text| ParameterError::new_err(format!("{name} ({text}) must be from 0 to 2**64 - 1")))
}

/// Parses the name of a metric, a device or the like.
pub fn parse<T: FromStr<Err: StdError>>(name: &str) -> PyResult<T> {
    name.parse().map_err(|error: T::Err| ParameterError::new_err(message(&error)))
}

/// The exception that stands for an error.
pub fn exception(error: &jasper::Error) -> Exception {
    match error.kind() {
        ErrorKind::UnknownKey => UnknownKeyError::new_err,
        ErrorKind::DuplicateKey => DuplicateKeyError::new_err,
        ErrorKind::OutOfMemory => OutOfMemoryError::new_err,
        ErrorKind::Device => DeviceError::new_err,
        ErrorKind::Cancelled => Cancelled::new_err,
        ErrorKind::InvalidFile => FormatError::new_err,
        ErrorKind::Io | ErrorKind::AlreadyExists | ErrorKind::InUse | ErrorKind::Behind => PyOSError::new_err,
        ErrorKind::RecallNotReached => Error::new_err,
        ErrorKind::Unsupported if matches!(error.downcast_ref(), Some(VectorError::NoVectors)) => {
            Error::new_err
        }
        _ => ParameterError::new_err,
    }
}

fn raise(error: jasper::Error) -> PyErr {
    let exception = exception(&error);
    // What Python raised while vectors were read is raised again.
    let error = match error.downcast() {
        Ok(UpdateError::Read(error)) => return error.into(),
        Ok(error) => return exception(message(&error)),
        Err(error) => error,
    };
    let error = match error.downcast() {
        Ok(VectorError::Read(error)) => return error.into(),
        Ok(error) => return exception(message(&error)),
        Err(error) => error,
    };
    let fault = error.downcast_ref::<FileError>().map(FileError::cause);
    match (fault, error.downcast_ref()) {
        // Errors of the operating system keep their number, and so become `FileNotFoundError` and its like.
        (Some(FileFault::Io(fault) | FileFault::Write(fault)), _)
            if let Some(number) = fault.raw_os_error() =>
        {
            let text = fault.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            let path = error.downcast_ref::<FileError>().map(|error| error.path().to_owned());
            PyOSError::new_err((number, text, path))
        }
        (Some(FileFault::Cancelled(cancelled)), _) | (None, Some(FileFault::Cancelled(cancelled))) => {
            exception(message(cancelled))
        }
        // A fault says what the file is or has, and not which.
        (None, Some(fault)) => exception(format!("the file {}", message(fault))),
        _ => exception(message(&error)),
    }
}
