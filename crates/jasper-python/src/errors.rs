//! Python exceptions for the errors of Rust.

use std::error::Error as StdError;
use std::io::ErrorKind as IoErrorKind;
use std::str::FromStr;

use jasper::error::{
    CheckError, CheckpointError, FileFault, JournalError, JournalFault, KeyError, OpenError, QuantizeError,
    TuneError, VectorError,
};
use jasper::{BuildError, DeviceError as RustDeviceError, FileError, SearchError, UpdateError};
use jasper_data::KnnError;
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

/// An error of Rust, as an exception that carries its message.
pub trait Raise: StdError + Sized + 'static {
    /// The exception that stands for this error.
    fn exception(&self) -> Exception;

    /// The exception with the message of the error and of its causes.
    fn raise(self) -> PyErr {
        self.exception()(message(&self))
    }
}

/// Remedies and types in messages of the library, and what they are in Python.
const REMEDIES: [(&str, &str); 15] = [
    ("`Index::save_durable` or `jasper build --durable`", "Index.save(path, durable=True)"),
    ("(`Index::insert`, `--keys`)", "(the argument keys)"),
    ("(`Index::quantize`, `jasper quantize`)", "(Index.quantize)"),
    ("(`TuneQueries::Given`, `--queries` and `--truth`)", "(the arguments queries and truth)"),
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

impl Raise for VectorError {
    fn exception(&self) -> Exception {
        match self {
            Self::Memory(_) | Self::Full => OutOfMemoryError::new_err,
            Self::NoVectors => Error::new_err,
            _ => ParameterError::new_err,
        }
    }
}

impl Raise for KeyError {
    fn exception(&self) -> Exception {
        match self {
            Self::Exists(_) | Self::Live(_) => DuplicateKeyError::new_err,
            Self::Unknown(_) | Self::Deleted(_) => UnknownKeyError::new_err,
            _ => ParameterError::new_err,
        }
    }
}

impl Raise for RustDeviceError {
    fn exception(&self) -> Exception {
        #[cfg(feature = "cuda")]
        {
            use jasper_cuda::{Error as CudaError, ErrorKind};
            let cause = self.source().and_then(|cause| cause.downcast_ref::<CudaError>());
            let no_memory = |kind: &ErrorKind| {
                matches!(
                    kind,
                    ErrorKind::OutOfMemory { .. } | ErrorKind::NotPinned { .. } | ErrorKind::Plan(_)
                )
            };
            if cause.is_some_and(|cause| no_memory(&cause.kind)) {
                return OutOfMemoryError::new_err;
            }
        }
        DeviceError::new_err
    }
}

impl Raise for SearchError {
    fn exception(&self) -> Exception {
        match self {
            Self::Vector(error) => error.exception(),
            Self::Key(error) => error.exception(),
            Self::Device(error) => error.exception(),
            Self::Memory { .. } => OutOfMemoryError::new_err,
            Self::Cancelled(_) => Cancelled::new_err,
            _ => ParameterError::new_err,
        }
    }
}

impl Raise for UpdateError {
    fn exception(&self) -> Exception {
        match self {
            Self::Vector(error) => error.exception(),
            Self::Key(error) => error.exception(),
            Self::RepeatedKey(_) => DuplicateKeyError::new_err,
            Self::Device(error) => error.exception(),
            Self::Cancelled(_) => Cancelled::new_err,
            Self::Checkpoint(CheckpointError::Open(error) | CheckpointError::Save(error)) => {
                error.exception()
            }
            Self::Checkpoint(_) => FormatError::new_err,
            Self::Journal(_) => PyOSError::new_err,
            _ => ParameterError::new_err,
        }
    }

    /// What Python raised while vectors were read is raised again.
    fn raise(self) -> PyErr {
        match self {
            Self::Read(error) | Self::Vector(VectorError::Read(error)) => error.into(),
            error => error.exception()(message(&error)),
        }
    }
}

impl Raise for BuildError {
    fn exception(&self) -> Exception {
        match self {
            Self::Input(error) => error.exception(),
            Self::Quantize(error) => error.exception(),
            Self::Device(error) | Self::Move { source: error, .. } => error.exception(),
            Self::Memory(_) => OutOfMemoryError::new_err,
            Self::Cancelled(_) => Cancelled::new_err,
            _ => ParameterError::new_err,
        }
    }

    fn raise(self) -> PyErr {
        match self {
            Self::Input(error) => error.raise(),
            error => error.exception()(message(&error)),
        }
    }
}

impl Raise for TuneError {
    fn exception(&self) -> Exception {
        match self {
            Self::Search(error) => error.exception(),
            Self::Update(error) => error.exception(),
            Self::Device(error) => error.exception(),
            Self::Unreached { .. } => Error::new_err,
            Self::Cancelled(_) => Cancelled::new_err,
            _ => ParameterError::new_err,
        }
    }
}

impl Raise for QuantizeError {
    fn exception(&self) -> Exception {
        match self {
            Self::Search(error) => error.exception(),
            Self::Update(error) => error.exception(),
            Self::Device(error) => error.exception(),
            Self::Cancelled(_) => Cancelled::new_err,
            _ => ParameterError::new_err,
        }
    }
}

impl Raise for CheckError {
    fn exception(&self) -> Exception {
        match self {
            Self::Device(error) => error.exception(),
            _ => Cancelled::new_err,
        }
    }
}

impl Raise for KnnError {
    fn exception(&self) -> Exception {
        match self {
            Self::Cancelled(_) => Cancelled::new_err,
            _ => ParameterError::new_err,
        }
    }
}

impl Raise for FileFault {
    fn exception(&self) -> Exception {
        match self {
            Self::Io(error) if error.kind() == IoErrorKind::OutOfMemory => OutOfMemoryError::new_err,
            Self::Io(_) | Self::Folder | Self::Write(_) | Self::NotSynced(_) => {
                |message| PyOSError::new_err(message)
            }
            Self::Cancelled(_) => Cancelled::new_err,
            Self::Device(error) => error.exception(),
            _ => FormatError::new_err,
        }
    }

    /// A fault says what the file is or has, and not which.
    fn raise(self) -> PyErr {
        match self {
            Self::Cancelled(cancelled) => Cancelled::new_err(message(&cancelled)),
            fault => fault.exception()(format!("the file {}", message(&fault))),
        }
    }
}

impl Raise for FileError {
    fn exception(&self) -> Exception {
        self.cause().exception()
    }

    /// Errors of the operating system keep their number, and so become `FileNotFoundError` and its like.
    fn raise(self) -> PyErr {
        match self.cause() {
            FileFault::Io(error) | FileFault::Write(error) if let Some(number) = error.raw_os_error() => {
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default().to_owned();
                PyOSError::new_err((number, text, self.path().to_owned()))
            }
            FileFault::Cancelled(cancelled) => Cancelled::new_err(message(cancelled)),
            _ => self.exception()(message(&self)),
        }
    }
}

impl Raise for JournalError {
    fn exception(&self) -> Exception {
        match self.cause() {
            JournalFault::NotDurable
            | JournalFault::OneShard
            | JournalFault::Unconverted
            | JournalFault::Damaged(_)
            | JournalFault::OtherSnapshot(_) => FormatError::new_err,
            JournalFault::Snapshot(error) => error.exception(),
            JournalFault::Replay(error) => error.exception(),
            _ => PyOSError::new_err,
        }
    }
}

impl Raise for OpenError {
    fn exception(&self) -> Exception {
        match self {
            Self::Journal(error) => error.exception(),
            Self::Device(error) => error.exception(),
            _ => FormatError::new_err,
        }
    }

    fn raise(self) -> PyErr {
        match self {
            Self::File(error) => error.raise(),
            error => error.exception()(message(&error)),
        }
    }
}
