//! Indexes and vectors whose element type is known at run time.

use std::path::Path;

use jasper_core::{BuildParams, ElementKind, Key, MatrixView, Metric, ProgressFn, f16, no_progress};
use jasper_data::VectorFile;
use jasper_graph::{FileError, IndexInfo, SaveStats, VectorError};
use jasper_quant::Quantization;
use jasper_vamana::{
    CodeReport, CompactReport, ConsolidateReport, Hit, InsertReport, Matches, MemoryPlan, SearchError,
    SearchParams, SearchReport, TunedSearch, VectorStorage,
};

use crate::tune::{Goal, TuneError, TuneQueries, TuneReport};
use crate::{
    AutoQuantizeError, BuildError, BuildReport, CheckReport, Device, DeviceError, Index, IndexBuilder,
    IndexStats, MoveError, QuantizeReport, UpdateError,
};

/// An [`Index`] whose element type is known at run time, for programs that learn it from a file.
///
/// The methods are those of [`Index`], with vectors as [`AnyVectors`]. To call a method that is not here, match on the
/// variant.
///
/// ```
/// use jasper::{AnyIndex, AnyVectors, IndexBuilder, MatrixView, Metric, SearchParams};
///
/// let vectors = AnyVectors::U8(MatrixView::new(&[0, 0, 9, 9, 5, 1], 2)?);
/// let (index, _) = AnyIndex::build_with(IndexBuilder::new(Metric::L2), vectors, &mut jasper::no_progress)?;
/// let matches = index.search_batch(vectors, SearchParams::new(1))?;
/// assert_eq!(matches.keys(), [0, 1, 2]);
///
/// let floats = AnyVectors::F32(MatrixView::new(&[0.0, 0.0], 2)?);
/// assert!(index.search_batch(floats, SearchParams::new(1)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum AnyIndex {
    /// Of `f32`.
    F32(Index<f32>),
    /// Of `f16`.
    F16(Index<f16>),
    /// Of `u8`.
    U8(Index<u8>),
    /// Of `i8`.
    I8(Index<i8>),
}

/// Vectors in memory whose element type is known at run time.
#[derive(Clone, Copy, Debug)]
pub enum AnyVectors<'a> {
    /// Of `f32`.
    F32(MatrixView<'a, f32>),
    /// Of `f16`.
    F16(MatrixView<'a, f16>),
    /// Of `u8`.
    U8(MatrixView<'a, u8>),
    /// Of `i8`.
    I8(MatrixView<'a, i8>),
}

/// Evaluates an expression on the index of whatever element.
macro_rules! any {
    ($any:expr, $index:ident => $body:expr) => {
        match $any {
            AnyIndex::F32($index) => $body,
            AnyIndex::F16($index) => $body,
            AnyIndex::U8($index) => $body,
            AnyIndex::I8($index) => $body,
        }
    };
    // With vectors, which have to be of the same element.
    ($any:expr, $vectors:expr, ($index:ident, $view:ident) => $body:expr) => {
        match ($any, $vectors) {
            (AnyIndex::F32($index), AnyVectors::F32($view)) => $body,
            (AnyIndex::F16($index), AnyVectors::F16($view)) => $body,
            (AnyIndex::U8($index), AnyVectors::U8($view)) => $body,
            (AnyIndex::I8($index), AnyVectors::I8($view)) => $body,
            (index, vectors) => {
                let (given, expected) = (vectors.element(), index.element());
                Err(VectorError::Element { given, expected }.into())
            }
        }
    };
}

/// Evaluates an expression that makes an index of an element, and wraps its result.
macro_rules! make {
    ($kind:expr, $T:ident => $make:expr) => {
        match $kind {
            ElementKind::F32 => {
                type $T = f32;
                $make.map(Into::into)
            }
            ElementKind::F16 => {
                type $T = f16;
                $make.map(Into::into)
            }
            ElementKind::U8 => {
                type $T = u8;
                $make.map(Into::into)
            }
            ElementKind::I8 => {
                type $T = i8;
                $make.map(Into::into)
            }
        }
    };
}

macro_rules! conversions {
    ($($variant:ident, $T:ty;)*) => {$(
        impl From<Index<$T>> for AnyIndex {
            fn from(index: Index<$T>) -> Self {
                Self::$variant(index)
            }
        }

        impl From<(Index<$T>, BuildReport)> for Built {
            fn from((index, report): (Index<$T>, BuildReport)) -> Self {
                Self(index.into(), report)
            }
        }

        impl<'a> From<MatrixView<'a, $T>> for AnyVectors<'a> {
            fn from(vectors: MatrixView<'a, $T>) -> Self {
                Self::$variant(vectors)
            }
        }
    )*};
}
conversions! { F32, f32; F16, f16; U8, u8; I8, i8; }

/// An index and the report of its build.
struct Built(AnyIndex, BuildReport);

impl AnyVectors<'_> {
    /// Type of a coordinate.
    pub fn element(&self) -> ElementKind {
        match self {
            Self::F32(_) => ElementKind::F32,
            Self::F16(_) => ElementKind::F16,
            Self::U8(_) => ElementKind::U8,
            Self::I8(_) => ElementKind::I8,
        }
    }
}

impl AnyIndex {
    /// See [`Index::open`]; the element type is that of the file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::open_with(path, 0, &mut no_progress)
    }

    /// See [`Index::open_with`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open_with(
        path: impl AsRef<Path>,
        threads: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Self, FileError> {
        let info = IndexInfo::read(&path)?;
        make!(info.element, T => Index::<T>::open_with(path, threads, progress))
    }

    /// See [`Index::open_mapped`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open_mapped(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let info = IndexInfo::read(&path)?;
        make!(info.element, T => Index::<T>::open_mapped(path))
    }

    /// See [`IndexBuilder::build_with`].
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with(
        builder: IndexBuilder<'_>,
        vectors: AnyVectors<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Self, BuildReport), BuildError> {
        let built: Result<Built, BuildError> = match vectors {
            AnyVectors::F32(vectors) => builder.build_with(&vectors, progress).map(Into::into),
            AnyVectors::F16(vectors) => builder.build_with(&vectors, progress).map(Into::into),
            AnyVectors::U8(vectors) => builder.build_with(&vectors, progress).map(Into::into),
            AnyVectors::I8(vectors) => builder.build_with(&vectors, progress).map(Into::into),
        };
        built.map(|Built(index, report)| (index, report))
    }

    /// See [`IndexBuilder::build_with`]; the file is read piece by piece, and the element type is its own.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_from_file(
        builder: IndexBuilder<'_>,
        file: &VectorFile,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Self, BuildReport), BuildError> {
        let built: Result<Built, BuildError> =
            make!(file.element(), T => builder.build_with::<T>(file, progress));
        built.map(|Built(index, report)| (index, report))
    }

    /// See [`IndexBuilder::empty`].
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn empty(
        builder: IndexBuilder<'_>,
        element: ElementKind,
        dimension: usize,
    ) -> Result<Self, BuildError> {
        make!(element, T => builder.empty::<T>(dimension))
    }

    /// See [`Index::to_device`].
    ///
    /// # Errors
    /// [`MoveError`].
    pub fn to_device(self, device: Device) -> Result<Self, MoveError<Self>> {
        any!(self, index => index.to_device(device).map(Into::into).map_err(|error| error.map(Into::into)))
    }

    /// See [`Index::to_host`].
    ///
    /// # Errors
    /// [`MoveError`].
    pub fn to_host(self) -> Result<Self, MoveError<Self>> {
        any!(self, index => index.to_host().map(Into::into).map_err(|error| error.map(Into::into)))
    }

    /// See [`Index::save_with`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, FileError> {
        any!(self, index => index.save_with(path, progress))
    }

    /// See [`Index::search_batch`].
    ///
    /// # Errors
    /// [`SearchError`], also for queries of another element.
    pub fn search_batch(
        &self,
        queries: AnyVectors<'_>,
        params: SearchParams<'_>,
    ) -> Result<Matches, SearchError> {
        any!(self, queries, (index, queries) => index.search_batch(queries, params))
    }

    /// See [`Index::search_batch_into`].
    ///
    /// # Errors
    /// [`SearchError`], also for queries of another element.
    pub fn search_batch_into(
        &self,
        queries: AnyVectors<'_>,
        params: SearchParams<'_>,
        keys: &mut [Key],
        distances: &mut [f32],
    ) -> Result<SearchReport, SearchError> {
        any!(self, queries, (index, queries) => index.search_batch_into(queries, params, keys, distances))
    }

    /// See [`Index::search_by_key`].
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search_by_key(&self, key: Key, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        any!(self, index => index.search_by_key(key, params))
    }

    /// See [`Index::insert_with`].
    ///
    /// # Errors
    /// [`UpdateError`], also for vectors of another element.
    pub fn insert_with(
        &self,
        vectors: AnyVectors<'_>,
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError> {
        any!(self, vectors, (index, vectors) => index.insert_with(&vectors, keys, progress))
    }

    /// See [`Index::insert_auto_with`].
    ///
    /// # Errors
    /// [`UpdateError`], also for vectors of another element.
    pub fn insert_auto_with(
        &self,
        vectors: AnyVectors<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Key, UpdateError> {
        any!(self, vectors, (index, vectors) => index.insert_auto_with(&vectors, progress))
    }

    /// See [`Index::upsert_with`].
    ///
    /// # Errors
    /// [`UpdateError`], also for vectors of another element.
    pub fn upsert_with(
        &self,
        vectors: AnyVectors<'_>,
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError> {
        any!(self, vectors, (index, vectors) => index.upsert_with(&vectors, keys, progress))
    }

    /// See [`Index::tune_with`]; queries are sampled where `queries` is `None`.
    ///
    /// # Errors
    /// [`TuneError`], also for queries of another element.
    pub fn tune_with(
        &self,
        goal: Goal,
        queries: TuneQueries<'_, AnyVectors<'_>>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<TuneReport, TuneError> {
        match queries {
            TuneQueries::Sampled { count, seed } => {
                any!(self, index => index.tune_with(goal, TuneQueries::Sampled { count, seed }, progress))
            }
            TuneQueries::Given { queries, truth } => any!(self, queries, (index, queries) => {
                index.tune_with(goal, TuneQueries::Given { queries, truth }, progress)
            }),
        }
    }
}

/// Methods that do not depend on the element.
macro_rules! forward {
    ($($(#[$errors:meta])* $name:ident($($argument:ident: $Type:ty),*) -> $Result:ty;)*) => {
        impl AnyIndex {$(
            #[doc = concat!("See [`Index::", stringify!($name), "`].")]
            $(#[$errors])*
            pub fn $name(&self, $($argument: $Type),*) -> $Result {
                any!(self, index => index.$name($($argument),*))
            }
        )*}
    };
}

forward! {
    #[doc = "\n# Errors\n[`UpdateError`]."]
    delete(keys: &[Key]) -> Result<(), UpdateError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    undelete(keys: &[Key]) -> Result<(), UpdateError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    consolidate_with(progress: &mut ProgressFn<'_>) -> Result<ConsolidateReport, UpdateError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    compact() -> Result<CompactReport, UpdateError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    quantize(quantization: Quantization) -> Result<(), UpdateError>;
    #[doc = "\n# Errors\n[`AutoQuantizeError`]."]
    auto_quantize_with(progress: &mut ProgressFn<'_>) -> Result<QuantizeReport, AutoQuantizeError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    clear_codes() -> Result<(), UpdateError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    drop_vectors() -> Result<(), UpdateError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    check_codes() -> Result<Option<CodeReport>, UpdateError>;
    #[doc = "\n# Errors\n[`UpdateError`]."]
    sketch() -> Result<(), UpdateError>;
    #[doc = "\n# Errors\n[`DeviceError`]."]
    check() -> Result<CheckReport, DeviceError>;
    set_vector_storage(storage: VectorStorage) -> ();
    plan_on_device(storage: VectorStorage) -> Option<MemoryPlan>;
    tuned(goal: Goal, queries: usize) -> Option<SearchParams<'static>>;
    tuned_searches() -> Vec<TunedSearch>;
    stats() -> IndexStats;
    len() -> usize;
    is_empty() -> bool;
    dimension() -> usize;
    metric() -> Metric;
    params() -> BuildParams;
    contains(key: Key) -> bool;
    keys() -> Vec<Key>;
    device() -> Device;
    device_name() -> String;
    device_bytes() -> u64;
}

impl AnyIndex {
    /// Type of a coordinate.
    pub fn element(&self) -> ElementKind {
        match self {
            Self::F32(_) => ElementKind::F32,
            Self::F16(_) => ElementKind::F16,
            Self::U8(_) => ElementKind::U8,
            Self::I8(_) => ElementKind::I8,
        }
    }
}
