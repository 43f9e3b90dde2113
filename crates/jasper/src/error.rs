//! The error of all calls.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::iter;
use std::sync::Arc;

use jasper_attributes::{AttributeError, ExpressionError};
use jasper_core::{Cancelled, DeviceError, MatrixError, ParamError, ParseMetricError};
use jasper_data::{KnnError, ReadCause, ReadError, WriteError};
use jasper_graph::{FileError, FileFault, KeyError, VectorError};
use jasper_quant::{ParseQuantizationError, TrainError};
use jasper_vamana::{CheckpointError, ParseMemorySpaceError, PlanError, PoolError, SearchError, UpdateError};

use crate::builder::BuildError;
use crate::device::MoveError;
use crate::journal::{JournalError, JournalFault};
use crate::tune::error::TuneError;
use crate::{Device, Index};

/// The result of a call.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A call failed. Its message says what is wrong and how to mend it, and names the file or the parameter.
///
/// ```
/// use jasper::{ErrorKind, IndexBuilder, MatrixView, Metric};
///
/// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
/// let error = index.insert(&[5_u8, 6], &[1]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::DuplicateKey);
/// assert_eq!(error.to_string(), "key 1 is in the index already; use upsert to replace its vector");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors of other crates
///
/// The crates that Jasper is made of have errors of their own, such as `jasper_vamana::SearchError`. They convert to
/// this type by `?`, and [`Self::downcast_ref`] returns them, with the values that the message names.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    cause: Box<dyn StdError + Send + Sync>,
    /// The index of a call that took it, or that made it before it failed.
    index: Option<Index>,
}

/// What failed: the kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter is out of its bounds, or options exclude each other.
    InvalidParameter,
    /// Vectors, keys, attributes, a filter or true neighbors are invalid, or do not fit the index or each other.
    InvalidInput,
    /// A key is not in the index, or is deleted already.
    UnknownKey,
    /// A key is in the index already, or is given twice.
    DuplicateKey,
    /// The index cannot do this as it is: it has no codes or no journal, its vectors were dropped, it follows another,
    /// or it has the maximum number of vectors.
    Unsupported,
    /// No search reaches the recall that was asked for.
    RecallNotReached,
    /// There is not enough memory, on the host or on the device.
    OutOfMemory,
    /// The operating system refused a thread.
    OutOfThreads,
    /// A device cannot be used, or failed, or the index is not where the call needs it: on a device, or in one graph.
    Device,
    /// The progress callback cancelled the call.
    Cancelled,
    /// A file, a journal or a source of vectors cannot be read or written.
    Io,
    /// A file or a folder is of another kind than expected, is damaged, or was written by a later release.
    InvalidFile,
    /// The folder has an index or other files already.
    AlreadyExists,
    /// The folder of a durable index is open already, in this process or another.
    InUse,
    /// An index that [follows](crate::OpenOptions::follow) another is behind by more than the journal has: the folder
    /// is to be opened again.
    Behind,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Box::new(Inner { kind, cause: cause.into(), index: None }))
    }

    /// The error with the index that it gives back.
    fn with_index(mut self, index: Index) -> Self {
        self.0.index = Some(index);
        self
    }

    /// What failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later, when memory, threads or disk space are free again, or when the index
    /// that has the folder open is dropped.
    pub fn is_retryable(&self) -> bool {
        use io::ErrorKind::{Interrupted, QuotaExceeded, ResourceBusy, StorageFull, TimedOut, WouldBlock};
        let kinds = [ErrorKind::OutOfMemory, ErrorKind::OutOfThreads, ErrorKind::InUse];
        let passing = [Interrupted, QuotaExceeded, ResourceBusy, StorageFull, TimedOut, WouldBlock];
        kinds.contains(&self.kind())
            || self.downcast_ref::<io::Error>().is_some_and(|error| passing.contains(&error.kind()))
    }

    /// Whether it was made of an `E`.
    pub(crate) fn is<E: StdError + 'static>(&self) -> bool {
        self.0.cause.is::<E>()
    }

    /// The index that the call took or made, in host memory if it had to leave its device: [`Index::to_device`] gives
    /// it back if it cannot be moved, and so do [`IndexBuilder::build`](crate::IndexBuilder::build) and
    /// [`Index::rebuild`] if the index was built.
    ///
    /// ```no_run
    /// # use jasper::{Device, Index};
    /// let index = Index::open("vectors.jasper")?;
    /// let index = index.to_device(Device::cuda(0)).or_else(|error| {
    ///     eprintln!("searching on the CPU: {error}");
    ///     error.into_index()
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error if it has no index.
    pub fn into_index(mut self) -> Result<Index> {
        self.0.index.take().ok_or(self)
    }

    /// The first error of type `E` among the error of another crate that this one was made of, and its sources.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        let first: &(dyn StdError + 'static) = &*self.0.cause;
        iter::successors(Some(first), |&error| error.source()).find_map(|error| {
            let shared = error.downcast_ref::<Arc<DeviceError>>().map(|shared| &**shared as &dyn StdError);
            shared.unwrap_or(error).downcast_ref()
        })
    }

    /// The error of another crate that this one was made of.
    ///
    /// # Errors
    /// Returns the error as it is if it was made of none, or that is no `E`.
    pub fn downcast<E: StdError + 'static>(self) -> Result<E> {
        let Inner { kind, cause, index } = *self.0;
        match cause.downcast() {
            Ok(error) => Ok(*error),
            Err(cause) => Err(Self(Box::new(Inner { kind, cause, index }))),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.cause.fmt(f)
    }
}

impl StdError for Error {
    /// The cause, which is not part of the message.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.source()
    }
}

/// Converts errors of other crates, by the function that tells the kind of each.
macro_rules! convert {
    ($($Cause:ty => $kind:expr;)*) => {$(
        impl From<$Cause> for Error {
            fn from(error: $Cause) -> Self {
                let kind: fn(&$Cause) -> ErrorKind = $kind;
                Self::new(kind(&error), error)
            }
        }
    )*};
}

convert! {
    AttributeError => attribute_kind;
    BuildError => |_| ErrorKind::InvalidParameter;
    Cancelled => |_| ErrorKind::Cancelled;
    CheckpointError => checkpoint_kind;
    DeviceError => device_kind;
    // Of a device that is left out, which several callers ask about.
    Arc<DeviceError> => |error| device_kind(error);
    ExpressionError => |_| ErrorKind::InvalidInput;
    FileError => |error| file_kind(error.cause());
    FileFault => file_kind;
    JournalError => |error| journal_kind(error.cause());
    KeyError => key_kind;
    KnnError => knn_kind;
    MatrixError => |_| ErrorKind::InvalidInput;
    ParamError => |_| ErrorKind::InvalidParameter;
    ParseMemorySpaceError => |_| ErrorKind::InvalidParameter;
    ParseMetricError => |_| ErrorKind::InvalidParameter;
    ParseQuantizationError => |_| ErrorKind::InvalidParameter;
    PlanError => |_| ErrorKind::OutOfMemory;
    PoolError => pool_kind;
    ReadError => |error| read_kind(error.cause());
    TrainError => train_kind;
    TuneError => tune_kind;
    VectorError => vector_kind;
    WriteError => |_| ErrorKind::Io;
    io::Error => io_kind;
}

fn io_kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::Io,
    }
}

fn attribute_kind(error: &AttributeError) -> ErrorKind {
    match error {
        AttributeError::UnknownKey(_) => ErrorKind::UnknownKey,
        AttributeError::DuplicateKey(_) => ErrorKind::DuplicateKey,
        AttributeError::Read { source, .. } => io_kind(source),
        _ => ErrorKind::InvalidInput,
    }
}

fn train_kind(error: &TrainError) -> ErrorKind {
    match error {
        TrainError::Bits(_) | TrainError::Sectors(_) | TrainError::BoundSigmas(_) => {
            ErrorKind::InvalidParameter
        }
        _ => ErrorKind::InvalidInput,
    }
}

fn pool_kind(error: &PoolError) -> ErrorKind {
    match error {
        PoolError::Zero => ErrorKind::InvalidParameter,
        _ => ErrorKind::OutOfThreads,
    }
}

fn read_kind(fault: &ReadCause) -> ErrorKind {
    match fault {
        ReadCause::Io(error) => io_kind(error),
        ReadCause::Memory { .. } => ErrorKind::OutOfMemory,
        _ => ErrorKind::InvalidFile,
    }
}

fn knn_kind(error: &KnnError) -> ErrorKind {
    match error {
        KnnError::Cancelled(_) => ErrorKind::Cancelled,
        KnnError::K { .. } => ErrorKind::InvalidParameter,
        _ => ErrorKind::InvalidInput,
    }
}

fn vector_kind(error: &VectorError) -> ErrorKind {
    match error {
        VectorError::Memory(_) => ErrorKind::OutOfMemory,
        VectorError::NoVectors | VectorError::Full => ErrorKind::Unsupported,
        VectorError::Read(_) => ErrorKind::Io,
        _ => ErrorKind::InvalidInput,
    }
}

fn key_kind(error: &KeyError) -> ErrorKind {
    match error {
        KeyError::Exists(_) | KeyError::Live(_) => ErrorKind::DuplicateKey,
        KeyError::Unknown(_) | KeyError::Deleted(_) => ErrorKind::UnknownKey,
        _ => ErrorKind::InvalidInput,
    }
}

fn device_kind(error: &DeviceError) -> ErrorKind {
    #[cfg(feature = "cuda")]
    {
        use jasper_cuda::ErrorKind::{NotPinned, OutOfMemory, Plan};
        let cause = error.source().and_then(|cause| cause.downcast_ref::<jasper_cuda::Error>());
        if cause.is_some_and(|cause| matches!(cause.kind, OutOfMemory { .. } | NotPinned { .. } | Plan(_))) {
            return ErrorKind::OutOfMemory;
        }
    }
    let _ = error;
    ErrorKind::Device
}

fn checkpoint_kind(error: &CheckpointError) -> ErrorKind {
    match error {
        CheckpointError::Open(error) | CheckpointError::Save(error) => file_kind(error.cause()),
        _ => ErrorKind::InvalidFile,
    }
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        let kind = match error {
            SearchError::Key(error) => return error.into(),
            SearchError::Device(error) => return error.into(),
            SearchError::Cancelled(error) => return error.into(),
            SearchError::Vector(ref error) => vector_kind(error),
            SearchError::Memory { .. } => ErrorKind::OutOfMemory,
            SearchError::Thread(_) => ErrorKind::OutOfThreads,
            SearchError::NoCodes => ErrorKind::Unsupported,
            SearchError::ZeroK
            | SearchError::ZeroBeamWidth
            | SearchError::BeamWidthLimit { .. }
            | SearchError::HitLimit(_)
            | SearchError::Limit { .. }
            | SearchError::Launch { .. } => ErrorKind::InvalidParameter,
            _ => ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<UpdateError> for Error {
    fn from(error: UpdateError) -> Self {
        let kind = update_kind(&error);
        match error {
            UpdateError::Vector(error) => Self::new(kind, error),
            UpdateError::Key(error) => Self::new(kind, error),
            UpdateError::Attributes(error) => Self::new(kind, error),
            UpdateError::Quantize(error) => Self::new(kind, error),
            UpdateError::Checkpoint(error) => Self::new(kind, error),
            UpdateError::Device(error) => Self::new(kind, error),
            UpdateError::Cancelled(error) => Self::new(kind, error),
            error => Self::new(kind, error),
        }
    }
}

fn update_kind(error: &UpdateError) -> ErrorKind {
    match error {
        UpdateError::Vector(error) => vector_kind(error),
        UpdateError::Key(error) => key_kind(error),
        UpdateError::Attributes(error) => attribute_kind(error),
        UpdateError::Quantize(error) => train_kind(error),
        UpdateError::Checkpoint(error) => checkpoint_kind(error),
        UpdateError::Device(error) => device_kind(error),
        UpdateError::Cancelled(_) => ErrorKind::Cancelled,
        UpdateError::RepeatedKey(_) | UpdateError::KeyInBoth(_) => ErrorKind::DuplicateKey,
        UpdateError::NoCodes | UpdateError::OtherWithoutVectors | UpdateError::Follower => {
            ErrorKind::Unsupported
        }
        UpdateError::Thread(_) => ErrorKind::OutOfThreads,
        UpdateError::Read(error) | UpdateError::Journal(error) => io_kind(error),
        _ => ErrorKind::InvalidInput,
    }
}

fn file_kind(fault: &FileFault) -> ErrorKind {
    match fault {
        FileFault::Io(error) | FileFault::Write(error) => io_kind(error),
        FileFault::Folder | FileFault::NotSynced(_) => ErrorKind::Io,
        FileFault::Cancelled(_) => ErrorKind::Cancelled,
        FileFault::Device(error) => device_kind(error),
        _ => ErrorKind::InvalidFile,
    }
}

fn journal_kind(fault: &JournalFault) -> ErrorKind {
    match fault {
        JournalFault::InUse => ErrorKind::InUse,
        JournalFault::Exists | JournalFault::NotEmpty => ErrorKind::AlreadyExists,
        JournalFault::Behind => ErrorKind::Behind,
        JournalFault::Journal(error) => io_kind(error),
        JournalFault::NoJournal => ErrorKind::Unsupported,
        JournalFault::NotDurable
        | JournalFault::OneShard
        | JournalFault::Unconverted
        | JournalFault::Damaged(_)
        | JournalFault::OtherSnapshot(_) => ErrorKind::InvalidFile,
        JournalFault::Snapshot(error) => file_kind(error.cause()),
        JournalFault::Replay(error) => update_kind(error),
    }
}

fn tune_kind(error: &TuneError) -> ErrorKind {
    match error {
        TuneError::Recall(_) => ErrorKind::InvalidParameter,
        TuneError::Unreached { .. } => ErrorKind::RecallNotReached,
        _ => ErrorKind::InvalidInput,
    }
}

impl From<MoveError<Index>> for Error {
    fn from(error: MoveError<Index>) -> Self {
        let (index, source) = error.into_parts();
        let device = index.device();
        Self::new(device_kind(&source), Stays { device, source }).with_index(index)
    }
}

/// The message of [`Index::to_device`].
#[derive(Debug, thiserror::Error)]
#[error("the index cannot be moved and stays on {device}")]
struct Stays {
    device: Device,
    source: DeviceError,
}

/// The message of builds.
#[derive(Debug, thiserror::Error)]
#[error("the index was built, and cannot be moved to its device")]
struct Built {
    source: DeviceError,
}

/// An index was built, and cannot be moved to its device.
pub(crate) fn built(error: MoveError<Index>) -> Error {
    let (index, source) = error.into_parts();
    Error::new(device_kind(&source), Built { source }).with_index(index)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_error_has_the_message_and_the_cause_of_what_it_was_made_of() {
        let full = || UpdateError::Journal(io::ErrorKind::StorageFull.into());
        let error = Error::from(full());
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Io, true));
        assert_eq!(error.to_string(), full().to_string());
        assert_eq!(error.source().unwrap().to_string(), full().source().unwrap().to_string());
        let error = error.downcast::<SearchError>().unwrap_err().into_index().unwrap_err();
        assert!(matches!(error.downcast(), Ok(UpdateError::Journal(_))));
    }

    #[test]
    fn the_innermost_error_is_kept() {
        let error = Error::from(UpdateError::Key(KeyError::Unknown(7)));
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::UnknownKey, false));
        assert_eq!(error.downcast_ref(), Some(&KeyError::Unknown(7)));
        let of_query = SearchError::Vector(VectorError::ZeroVector { row: 0 });
        let error = Error::from(of_query);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with("query: row 0 is a zero vector"), "{error}");
    }

    #[test]
    fn what_passes_can_be_tried_again() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let file = |fault| Error::from(FileError::new(Path::new("x.jasper"), fault));
        assert!(file(FileFault::Write(full())).is_retryable());
        assert!(!file(FileFault::Write(io::ErrorKind::PermissionDenied.into())).is_retryable());
        assert!(
            Error::from(CheckpointError::Save(FileError::new(Path::new("x"), FileFault::Io(full()))))
                .is_retryable()
        );
        assert!(!Error::from(UpdateError::Journal(io::ErrorKind::BrokenPipe.into())).is_retryable());
        assert!(!Error::from(VectorError::Full).is_retryable());
    }

    #[test]
    fn the_cause_is_found_behind_others() {
        let lost = || DeviceError::OnCpu;
        let error = Error::new(ErrorKind::Device, Built { source: lost() });
        assert!(
            error.downcast_ref::<DeviceError>().is_some() && error.downcast_ref::<SearchError>().is_none()
        );
        assert!(Error::from(Arc::new(lost())).downcast_ref::<DeviceError>().is_some());
    }
}
