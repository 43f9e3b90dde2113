//! Indexes and vectors whose element type is known at run time.

use std::any::Any;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jasper_core::{
    BuildParams, Element, ElementKind, Key, MatrixView, Metric, ProgressFn, VectorSource, f16,
};
use jasper_data::{ReadError, Rows, VectorFile};
use jasper_graph::{FileError, FileFault, IndexInfo, SaveStats, TunedSearch, VectorError};
use jasper_quant::Quantization;
use jasper_vamana::{
    CodeReport, CompactReport, ConsolidateReport, Hit, InsertReport, Matches, MemoryPlan, MemorySpace,
    SearchError, SearchParams, SearchReport,
};

use crate::bench::{DevicePeaks, Measure, Profile};
use crate::error::{AutoQuantizeError, CheckError, TuneError};
use crate::index::{in_bytes, is_sharded, shard_files};
use crate::journal::{JournalError, OpenJournal, check_durable};
use crate::progress::long_calls;
use crate::report::{BuildReport, CheckReport, QuantizeReport};
use crate::tune::{Goal, TuneQueries, TuneReport};
use crate::{
    BuildError, ChangeFuture, Device, DeviceChoice, DeviceError, DeviceOptions, Index, IndexBuilder,
    IndexStats, MoveError, OpenError, OpenOptions, SearchFuture, SearchLimits, UpdateError, WithProgress,
};

/// Evaluates an expression with the type of an [`ElementKind`](crate::ElementKind).
///
/// ```
/// use jasper::{Element, ElementKind, with_element};
/// assert_eq!(with_element!(ElementKind::F16, T => T::from_f32(1.0).to_f32() * size_of::<T>() as f32), 2.0);
/// ```
#[macro_export]
macro_rules! with_element {
    ($kind:expr, $T:ident => $body:expr) => {
        match $kind {
            $crate::ElementKind::F32 => {
                type $T = f32;
                $body
            }
            $crate::ElementKind::F16 => {
                type $T = $crate::f16;
                $body
            }
            $crate::ElementKind::U8 => {
                type $T = u8;
                $body
            }
            $crate::ElementKind::I8 => {
                type $T = i8;
                $body
            }
        }
    };
}

/// Defines an enum with a variant per element type, and conversions from and to what it holds.
macro_rules! any_element {
    ($(#[$doc:meta])* $Any:ident $(<$life:lifetime>)?, $Of:ident) => {
        $(#[$doc])*
        pub enum $Any $(<$life>)? {
            /// The element type is `f32`.
            F32($Of<$($life,)? f32>),
            /// The element type is `f16`.
            F16($Of<$($life,)? f16>),
            /// The element type is `u8`.
            U8($Of<$($life,)? u8>),
            /// The element type is `i8`.
            I8($Of<$($life,)? i8>),
        }

        impl $(<$life>)? $Any $(<$life>)? {
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

        any_element!(from $Any $(<$life>)?, $Of, F32(f32));
        any_element!(from $Any $(<$life>)?, $Of, F16(f16));
        any_element!(from $Any $(<$life>)?, $Of, U8(u8));
        any_element!(from $Any $(<$life>)?, $Of, I8(i8));
    };
    (from $Any:ident $(<$life:lifetime>)?, $Of:ident, $variant:ident($T:ty)) => {
        impl $(<$life>)? From<$Of<$($life,)? $T>> for $Any $(<$life>)? {
            fn from(of: $Of<$($life,)? $T>) -> Self {
                Self::$variant(of)
            }
        }

        impl $(<$life>)? TryFrom<$Any $(<$life>)?> for $Of<$($life,)? $T> {
            type Error = VectorError;

            fn try_from(any: $Any $(<$life>)?) -> Result<Self, VectorError> {
                match any {
                    $Any::$variant(of) => Ok(of),
                    other => Err(VectorError::Element { given: other.element(), expected: ElementKind::$variant }),
                }
            }
        }
    };
}

/// Evaluates an expression on the contents of a value of any element type.
macro_rules! any {
    ($Any:ident($any:expr), $held:ident => $body:expr) => {
        match $any {
            $Any::F32($held) => $body,
            $Any::F16($held) => $body,
            $Any::U8($held) => $body,
            $Any::I8($held) => $body,
        }
    };
}

type DynSource<'a, T> = &'a dyn VectorSource<T>;

any_element! {
    /// An [`Index`] whose element type is known at run time, for programs that learn it from a file.
    ///
    /// The methods are those of [`Index`]. Several vectors are [`AnyMatrixView`] or [`AnyVectorSource`]; a single one
    /// is a slice, and its element is checked at run time. For other methods, match on the variant or use
    /// [`Self::downcast_ref`].
    ///
    /// ```
    /// use jasper::{AnyIndex, IndexBuilder, MatrixView, Metric, SearchParams};
    ///
    /// let vectors = MatrixView::new(&[0_u8, 0, 9, 9, 5, 1], 2)?;
    /// let index: AnyIndex = IndexBuilder::new(Metric::L2).build(&vectors)?.into();
    /// let matches = index.search_batch(vectors.into(), SearchParams::new(1))?;
    /// assert_eq!(matches.keys(), [0, 1, 2]);
    /// assert_eq!(index.search(&[9_u8, 8], SearchParams::new(1))?[0].key, 1);
    /// assert_eq!(index.vector(1)?, Some(vec![9_u8, 9]));
    ///
    /// let floats = MatrixView::new(&[0.0_f32, 0.0], 2)?;
    /// assert!(index.search_batch(floats.into(), SearchParams::new(1)).is_err());
    /// assert!(index.search(&[9.0_f32, 8.0], SearchParams::new(1)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Debug)]
    AnyIndex, Index
}

any_element! {
    /// Vectors in memory whose element type is known at run time.
    #[derive(Clone, Copy, Debug)]
    AnyMatrixView<'a>, MatrixView
}

any_element! {
    /// Vectors read from a file, whose element type is known at run time.
    #[derive(Debug)]
    AnyRows, Rows
}

any_element! {
    /// A source of vectors, in memory or in a file, whose element type is known at run time.
    #[derive(Clone, Copy)]
    AnyVectorSource<'a>, DynSource
}

impl std::fmt::Debug for AnyVectorSource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyVectorSource").field(&self.element()).finish()
    }
}

impl<'a> From<&'a VectorFile> for AnyVectorSource<'a> {
    fn from(file: &'a VectorFile) -> Self {
        with_element!(file.element(), T => Self::from(file as DynSource<'a, T>))
    }
}

impl AnyRows {
    /// Reads all vectors of a file into memory.
    ///
    /// # Errors
    /// Returns [`ReadError`].
    pub fn load(file: &VectorFile) -> Result<Self, ReadError> {
        with_element!(file.element(), T => Ok(file.load::<T>()?.into()))
    }

    /// The vectors.
    pub fn view(&self) -> AnyMatrixView<'_> {
        any!(AnyRows(self), rows => rows.view().into())
    }
}

impl AnyMatrixView<'_> {
    /// Number of vectors.
    pub fn len(&self) -> usize {
        any!(AnyMatrixView(self), vectors => vectors.len())
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Defines methods of [`AnyIndex`] that call those of [`Index`]. Vectors of type `T`, and those in brackets, must have
/// the element type of the index. Methods marked `long` take a progress callback from [`WithProgress`].
macro_rules! forward {
    ($(fn $name:ident<T>($($argument:ident: $Type:ty),*) -> $Output:ty;)*) => {
        impl AnyIndex {$(
            #[doc = concat!("See [`Index::", stringify!($name), "`].\n\n# Errors")]
            #[doc = "As there, or if the vector has another element type."]
            pub fn $name<T: Element>(&self, $($argument: $Type),*) -> $Output {
                self.of::<T>()?.$name($($argument),*)
            }
        )*}
    };
    ($(fn $name:ident($([$vectors:ident: $Vectors:ident])? $($argument:ident: $Type:ty),*) -> $Output:ty;)*) => {
        impl AnyIndex {$(
            #[doc = concat!("See [`Index::", stringify!($name), "`].")]
            pub fn $name(&self, $($vectors: $Vectors<'_>,)? $($argument: $Type),*) -> $Output {
                any!(AnyIndex(self), index => index.$name($($vectors.try_into()?,)? $($argument),*))
            }
        )*}
    };
    ($(long fn $name:ident($([$vectors:ident: $Vectors:ident])? $($argument:ident: $Type:ty),*) -> $Output:ty;)*) => {
        // `any` is the `self` of the calls.
        long_calls! {
            impl AnyIndex as (any, progress);
            $(
                #[doc = concat!("See [`Index::", stringify!($name), "`].")]
                pub fn $name($($vectors: $Vectors<'_>,)? $($argument: $Type),*) -> $Output {
                    any!(AnyIndex(any), index => {
                        index.with_progress(progress).$name($($vectors.try_into()?,)? $($argument),*)
                    })
                }
            )*
        }
    };
}

forward! {
    fn search<T>(query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError>;
    fn submit<T>(query: &[T], params: SearchParams<'_>) -> Result<SearchFuture<T>, SearchError>;
    fn search_within<T>(query: &[T], radius: f32, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError>;
    fn insert_one<T>(vector: &[T], key: Key) -> Result<InsertReport, UpdateError>;
    fn upsert_one<T>(vector: &[T], key: Key) -> Result<InsertReport, UpdateError>;
    fn submit_insert<T>(
        vectors: MatrixView<'_, T>,
        keys: &[Key]
    ) -> Result<ChangeFuture<T, InsertReport>, UpdateError>;
    fn submit_upsert<T>(
        vectors: MatrixView<'_, T>,
        keys: &[Key]
    ) -> Result<ChangeFuture<T, InsertReport>, UpdateError>;
}

forward! {
    fn search_batch([queries: AnyMatrixView] params: SearchParams<'_>) -> Result<Matches, SearchError>;
    fn search_batch_into(
        [queries: AnyMatrixView] params: SearchParams<'_>, keys: &mut [Key], distances: &mut [f32]
    ) -> Result<SearchReport, SearchError>;
    fn search_by_key(key: Key, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError>;
    fn delete(keys: &[Key]) -> Result<(), UpdateError>;
    fn delete_if_present(keys: &[Key]) -> Result<usize, UpdateError>;
    fn undelete(keys: &[Key]) -> Result<(), UpdateError>;
    fn drop_codes() -> Result<(), UpdateError>;
    fn drop_vectors() -> Result<(), UpdateError>;
    fn measure_code_error() -> Result<Option<CodeReport>, UpdateError>;
    fn build_sketches() -> Result<(), UpdateError>;
    fn memory_plan_on_device(storage: MemorySpace) -> Option<MemoryPlan>;
    fn tuned(goal: Goal, queries: usize) -> Option<SearchParams<'static>>;
    fn tuned_searches() -> Vec<TunedSearch>;
    fn build_report() -> Option<&BuildReport>;
    fn stats() -> IndexStats;
    fn len() -> usize;
    fn is_empty() -> bool;
    fn shards() -> usize;
    fn dimension() -> usize;
    fn metric() -> Metric;
    fn quantization() -> Option<Quantization>;
    fn params() -> BuildParams;
    fn contains(key: Key) -> bool;
    fn next_key() -> Key;
    fn keys() -> Vec<Key>;
    fn device() -> Device;
    fn max_beam_width() -> usize;
    fn limits() -> SearchLimits;
    fn set_limits(limits: SearchLimits) -> ();
    fn device_name() -> String;
    fn device_bytes() -> u64;
    fn warm_up() -> Result<(), DeviceError>;
    fn device_faults() -> Vec<Arc<DeviceError>>;
}

forward! {
    long fn consolidate() -> Result<ConsolidateReport, UpdateError>;
    long fn compact() -> Result<CompactReport, UpdateError>;
    long fn quantize(quantization: Quantization) -> Result<(), UpdateError>;
    long fn force_quantize(quantization: Quantization) -> Result<(), UpdateError>;
    long fn check() -> Result<CheckReport, CheckError>;
    long fn snapshot() -> Result<(), JournalError>;
    long fn to_bytes() -> Result<Vec<u8>, FileFault>;
}

forward! {
    fn insert([vectors: AnyVectorSource] keys: &[Key]) -> Result<InsertReport, UpdateError>;
    fn insert_auto([vectors: AnyVectorSource]) -> Result<(Key, InsertReport), UpdateError>;
    fn upsert([vectors: AnyVectorSource] keys: &[Key]) -> Result<InsertReport, UpdateError>;
}

type Deleting = Pin<Box<dyn Future<Output = Result<(), UpdateError>> + Send>>;

impl AnyIndex {
    /// See [`Index::submit_delete`].
    ///
    /// # Errors
    /// As there.
    pub fn submit_delete(&self, keys: &[Key]) -> Result<Deleting, UpdateError> {
        any!(AnyIndex(self), index => Ok(Box::pin(index.submit_delete(keys)?)))
    }
}

impl WithProgress<'_, AnyIndex> {
    /// See [`AnyIndex::insert`].
    ///
    /// # Errors
    /// The errors of that method, and [`UpdateError::Cancelled`].
    pub fn insert(self, vectors: AnyVectorSource<'_>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        any!(AnyIndex(self.inner), index => index.with_progress(self.progress).insert(vectors.try_into()?, keys))
    }

    /// See [`AnyIndex::insert_auto`].
    ///
    /// # Errors
    /// The errors of that method, and [`UpdateError::Cancelled`].
    pub fn insert_auto(self, vectors: AnyVectorSource<'_>) -> Result<(Key, InsertReport), UpdateError> {
        any!(AnyIndex(self.inner), index => index.with_progress(self.progress).insert_auto(vectors.try_into()?))
    }

    /// See [`AnyIndex::upsert`].
    ///
    /// # Errors
    /// The errors of that method, and [`UpdateError::Cancelled`].
    pub fn upsert(self, vectors: AnyVectorSource<'_>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        any!(AnyIndex(self.inner), index => index.with_progress(self.progress).upsert(vectors.try_into()?, keys))
    }
}

impl Measure for AnyIndex {
    type Queries<'a> = AnyMatrixView<'a>;

    fn profile(&self, queries: AnyMatrixView<'_>, params: SearchParams<'_>) -> Result<Profile, SearchError> {
        any!(AnyIndex(self), index => index.profile(queries.try_into()?, params))
    }

    fn device_time(
        &self,
        queries: AnyMatrixView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Option<Duration>, SearchError> {
        any!(AnyIndex(self), index => index.device_time(queries.try_into()?, params))
    }

    fn device_peaks(&self) -> Result<Option<DevicePeaks>, DeviceError> {
        any!(AnyIndex(self), index => index.device_peaks())
    }
}

/// The element type of an index file, or of the shards in a folder.
fn element_of(path: &Path) -> Result<ElementKind, FileError> {
    let file = if is_sharded(path) { shard_files(path)?.swap_remove(0) } else { path.to_owned() };
    Ok(IndexInfo::read(file)?.element)
}

// `builder` is the `self` of the calls.
long_calls! {
    impl IndexBuilder<'_> as (builder, progress);

    /// Builds an index as [`Self::build`] does, with the element type of the vectors.
    ///
    /// # Errors
    /// Returns [`BuildError`].
    pub fn build_any(vectors: AnyVectorSource<'_>) -> Result<AnyIndex, BuildError> {
        any!(AnyVectorSource(vectors), vectors => Ok(builder.with_progress(progress).build(vectors)?.into()))
    }
}

impl IndexBuilder<'_> {
    /// Creates an index as [`Self::empty`] does, with an element type known at run time.
    ///
    /// # Errors
    /// Returns [`BuildError`].
    pub fn empty_any(self, element: ElementKind, dimension: usize) -> Result<AnyIndex, BuildError> {
        with_element!(element, T => Ok(self.empty::<T>(dimension)?.into()))
    }
}

impl AnyIndex {
    /// See [`Index::open`]; the element type is that of the file.
    ///
    /// # Errors
    /// Returns [`FileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        fn open(path: &Path) -> Result<AnyIndex, FileError> {
            with_element!(element_of(path)?, T => Ok(Index::<T>::open(path)?.into()))
        }
        open(path.as_ref())
    }

    /// See [`Index::open_durable`]; the element type is that of the folder.
    ///
    /// # Errors
    /// Returns [`OpenError`].
    pub fn open_durable(folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        OpenOptions::new().open_any(check_durable(folder.as_ref())?)
    }

    /// The index, if `I` is its type.
    ///
    /// ```
    /// use jasper::{ElementKind, Index, IndexBuilder, Metric};
    /// let index = IndexBuilder::new(Metric::L2).empty_any(ElementKind::U8, 2)?;
    /// assert!(index.downcast_ref::<Index<u8>>().is_some() && index.downcast_ref::<Index<f32>>().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn downcast_ref<I: Any>(&self) -> Option<&I> {
        any!(AnyIndex(self), index => (index as &dyn Any).downcast_ref())
    }

    /// An index of an element type that the caller does not know.
    pub(crate) fn of_any<T: Element>(index: Index<T>) -> Self {
        let index: Box<dyn Any> = Box::new(index);
        with_element!(T::KIND, U => (*index.downcast::<Index<U>>().expect("an index of this kind")).into())
    }

    fn of<T: Element>(&self) -> Result<&Index<T>, VectorError> {
        let error = VectorError::Element { given: T::KIND, expected: self.element() };
        self.downcast_ref().ok_or(error)
    }

    /// See [`Index::vector`].
    ///
    /// # Errors
    /// Returns [`VectorError`] if the index has another element type.
    pub fn vector<T: Element>(&self, key: Key) -> Result<Option<Vec<T>>, VectorError> {
        Ok(self.of::<T>()?.vector(key))
    }

    /// See [`Index::to_device`].
    ///
    /// # Errors
    /// Returns [`MoveError`].
    pub fn to_device(self, device: impl Into<DeviceChoice>) -> Result<Self, MoveError<Self>> {
        self.to_device_with(device, DeviceOptions::new())
    }

    /// See [`Index::to_device_with`].
    ///
    /// # Errors
    /// Returns [`MoveError`].
    pub fn to_device_with(
        self,
        device: impl Into<DeviceChoice>,
        options: DeviceOptions,
    ) -> Result<Self, MoveError<Self>> {
        moved(self, device.into(), options)
    }

    /// See [`Index::to_host`].
    ///
    /// # Errors
    /// Returns [`MoveError`].
    pub fn to_host(self) -> Result<Self, MoveError<Self>> {
        any!(AnyIndex(self), index => index.to_host().map(Into::into).map_err(|error| error.map(Into::into)))
    }
}

// `options` is the `self` of the calls.
long_calls! {
    impl OpenOptions as (options, progress);

    /// Opens an index as [`Self::open`] does, with the element type of the file.
    ///
    /// # Errors
    /// Returns [`OpenError`].
    pub fn open_any(path: impl AsRef<Path>) -> Result<AnyIndex, OpenError> {
        // Not generic, so that this crate has the only copy of the machine code, for all element types.
        fn open(
            options: &OpenOptions,
            path: &Path,
            progress: &mut ProgressFn<'_>,
        ) -> Result<AnyIndex, OpenError> {
            if path.is_dir() && !is_sharded(path) {
                let journal = OpenJournal::new(path)?;
                let element = element_of(&journal.snapshot())?;
                return with_element!(element, T => Ok(options.open_folder::<T>(journal, progress)?.into()));
            }
            with_element!(element_of(path)?, T => Ok(options.with_progress(progress).open::<T>(path)?.into()))
        }
        open(options, path.as_ref(), progress)
    }

    /// Opens an index as [`Self::open_bytes`] does, with the element type of the bytes.
    ///
    /// # Errors
    /// Returns [`OpenError`].
    pub fn open_any_bytes(bytes: &[u8]) -> Result<AnyIndex, OpenError> {
        let element = IndexInfo::from_bytes(bytes).map_err(in_bytes)?.element;
        with_element!(element, T => Ok(options.with_progress(progress).open_bytes::<T>(bytes)?.into()))
    }
}

// Methods of `AnyIndex` that take several types call these functions, which are not generic: this crate has the only copy of
// their machine code, for all element types.

fn moved(
    any: AnyIndex,
    device: DeviceChoice,
    options: DeviceOptions,
) -> Result<AnyIndex, MoveError<AnyIndex>> {
    any!(AnyIndex(any), index => index.to_device_with(device, options).map(Into::into).map_err(|error| error.map(Into::into)))
}

fn rebuilt(
    any: &AnyIndex,
    device: DeviceChoice,
    progress: &mut ProgressFn<'_>,
) -> Result<AnyIndex, BuildError> {
    any!(AnyIndex(any), index => index.with_progress(progress).rebuild(device).map(Into::into))
}

fn auto_quantized(
    any: &AnyIndex,
    device: DeviceChoice,
    progress: &mut ProgressFn<'_>,
) -> Result<QuantizeReport, AutoQuantizeError> {
    any!(AnyIndex(any), index => index.with_progress(progress).auto_quantize(device))
}

fn saved(any: &AnyIndex, path: &Path, progress: &mut ProgressFn<'_>) -> Result<SaveStats, FileError> {
    any!(AnyIndex(any), index => index.with_progress(progress).save(path))
}

fn saved_durable(
    any: &AnyIndex,
    folder: &Path,
    progress: &mut ProgressFn<'_>,
) -> Result<SaveStats, JournalError> {
    any!(AnyIndex(any), index => index.with_progress(progress).save_durable(folder))
}

// `any` is the `self` of the calls.
long_calls! {
    impl AnyIndex as (any, progress);

    /// See [`Index::rebuild`].
    ///
    /// # Errors
    /// Returns [`BuildError`].
    pub fn rebuild(device: impl Into<DeviceChoice>) -> Result<AnyIndex, BuildError> {
        rebuilt(any, device.into(), progress)
    }

    /// See [`Index::auto_quantize`].
    pub fn auto_quantize(device: impl Into<DeviceChoice>) -> Result<QuantizeReport, AutoQuantizeError> {
        auto_quantized(any, device.into(), progress)
    }

    /// See [`Index::save`].
    pub fn save(path: impl AsRef<Path>) -> Result<SaveStats, FileError> {
        saved(any, path.as_ref(), progress)
    }

    /// See [`Index::save_durable`].
    pub fn save_durable(folder: impl AsRef<Path>) -> Result<SaveStats, JournalError> {
        saved_durable(any, folder.as_ref(), progress)
    }

    /// See [`Index::tune`].
    ///
    /// # Errors
    /// Returns [`TuneError`], also if the queries have another element type.
    pub fn tune(goal: Goal, queries: TuneQueries<'_, AnyMatrixView<'_>>) -> Result<TuneReport, TuneError> {
        any!(AnyIndex(any), index => {
            let queries = match queries {
                TuneQueries::Sampled { count, seed } => TuneQueries::Sampled { count, seed },
                TuneQueries::Given { queries, truth } => TuneQueries::Given { queries: queries.try_into()?, truth },
            };
            index.with_progress(progress).tune(goal, queries)
        })
    }
}
