//! What searches read of a graph in device memory, and arrays that only earlier searches read.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use gpu_kernels::encode::DeviceQuantizer;
use gpu_kernels::graph::{DistanceForm, GraphArgs};
use gpu_kernels::{DevicePtr, Stream};
use jasper_core::{ElementKind, Key, Metric};

use super::{CodeTable, DeviceColumns, DeviceFilters, KernelGraph};
use crate::MemorySpace;

/// The tables of a graph on a device as they were after a change, for searches, which share them.
///
/// What a search finds there stays as it is, while changes go on:
///
/// - vectors, terms, codes and keys are written in slots that have no vertex here; others that are in the same copy stay
///   the same;
/// - the set of live slots, start points, first keys that change, and tables that are moved or replaced are written to
///   other arrays, and the old ones are freed when no search reads them ([`OldArrays`]);
/// - rows of edges are written where they are, by relaxed stores, which kernels of searches load relaxed. A search that
///   reads a row meanwhile gets some of its old neighbors and some of its new ones. It ignores neighbors in slots that did
///   not exist: their vectors may be in other arrays, or not there yet.
pub(crate) struct SearchTables<S: Stream> {
    pub(super) args: GraphArgs,
    /// Whether the vectors are on the device. Those of a build by SQ8 vectors are not.
    pub(super) has_rows: bool,
    /// One bit per slot up to the capacity: whether it is live.
    pub(super) live: DevicePtr<u32>,
    pub(crate) codes: Option<CodeTable<S>>,
    pub(super) has_vectors: bool,
    pub(super) storage: MemorySpace,
    pub(super) slots: usize,
    pub(super) dimension: usize,
    pub(crate) metric: Metric,
    pub(crate) filters: Arc<DeviceFilters<S>>,
    pub(crate) columns: Arc<DeviceColumns<S>>,
    /// Slots for which the copy had room.
    pub(super) capacity: usize,
    pub(crate) async_readers: Arc<AsyncReaders>,
    /// Keeps the arrays.
    pub(super) readers: Arc<()>,
    pub(super) element: ElementKind,
}

impl<S: Stream> SearchTables<S> {
    /// The number of slots: live, tombstones and free.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Words of a bitmap of all slots for which there was room.
    pub(crate) fn bitmap_len(&self) -> usize {
        self.capacity.div_ceil(32)
    }

    /// Whether there are vectors, or only codes.
    pub(crate) fn has_vectors(&self) -> bool {
        self.has_vectors
    }

    /// Where vectors are stored.
    pub(crate) fn vector_storage(&self) -> MemorySpace {
        self.storage
    }

    /// Type of a coordinate.
    pub(crate) fn element(&self) -> ElementKind {
        self.element
    }

    /// Elements per row of vectors or queries, with padding.
    pub(crate) fn row_len(&self) -> usize {
        self.element.padded_len(self.dimension)
    }

    /// Bytes per row of vectors or queries, with padding.
    pub(crate) fn row_bytes(&self) -> u32 {
        self.element.row_bytes(self.dimension) as u32
    }

    /// Kernel arguments, valid for launches that are complete before these tables are dropped.
    ///
    /// # Panics
    /// Panics if the graph is one of a build by SQ8 vectors, without the vectors themselves.
    pub(crate) fn args(&self) -> GraphArgs {
        assert!(!self.has_vectors || self.has_rows, "the vectors are on the device");
        self.args
    }

    /// One bit per slot up to the capacity: whether it is live.
    pub(crate) fn live(&self) -> DevicePtr<u32> {
        self.live
    }

    /// How kernels compute distances from queries; the same as on the host.
    pub(crate) fn form(&self) -> DistanceForm {
        DistanceForm::new(self.metric, self.element.is_integer())
    }

    /// The graph as kernels read it.
    pub(crate) fn input(&self) -> KernelGraph {
        KernelGraph { args: self.args(), element: self.element, form: self.form() }
    }

    /// Records that a launch reads the tables without being synchronized: what it reads is written or freed after all work
    /// of the device. To be called before the launch and again after it, while the tables are held.
    pub(crate) fn mark_async_reader(&self) {
        self.async_readers.mark();
    }
}

/// Whether there may be launches whose tables are dropped, and of which nothing else is known.
#[derive(Debug, Default)]
pub(crate) struct AsyncReaders {
    of_tables: AtomicBool,
    of_filters: AtomicBool,
}

impl AsyncReaders {
    fn mark(&self) {
        self.of_tables.store(true, SeqCst);
        self.of_filters.store(true, SeqCst);
    }

    /// Waits for them, before tables are written or freed.
    pub(super) fn wait_for_tables<S: Stream>(&self, stream: &S) -> Result<(), S::Error> {
        if self.of_tables.swap(false, SeqCst) { stream.synchronize_device() } else { Ok(()) }
    }

    /// Waits for them, before the slots of a filter are freed. One thread at a time.
    pub(super) fn wait_for_filters<S: Stream>(&self, stream: &S) -> Result<(), S::Error> {
        if self.of_filters.swap(false, SeqCst) { stream.synchronize_device() } else { Ok(()) }
    }
}

impl<S: Stream> fmt::Debug for SearchTables<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SearchTables({} slots of {})", self.slots, self.element)
    }
}

/// An array of a graph that was replaced.
pub(super) enum OldArray<S: Stream> {
    Rows(S::Buffer<u8>),
    Words(S::Buffer<u32>),
    Floats(S::Buffer<f32>),
    Keys(S::Buffer<Key>),
    Quantizer(Arc<DeviceQuantizer<S>>),
}

impl<S: Stream> OldArray<S> {
    /// Frees the array, in the order of its stream.
    fn free(self) {
        match self {
            Self::Rows(array) => drop(array),
            Self::Words(array) => drop(array),
            Self::Floats(array) => drop(array),
            Self::Keys(array) => drop(array),
            Self::Quantizer(arrays) => drop(arrays),
        }
    }
}

/// Arrays that were replaced, until no search reads them.
///
/// Each has the [`SearchTables::readers`] of all tables that were made before it was replaced and after the array before
/// it in the queue. An array is freed when these are dropped, and all arrays before it are freed.
pub(super) struct OldArrays<S: Stream> {
    queue: VecDeque<Retired<S>>,
    /// Those that were replaced since [`Self::retire`].
    replaced: Vec<OldArray<S>>,
}

/// Arrays that were replaced by one change.
struct Retired<S: Stream> {
    readers: Arc<()>,
    arrays: Vec<OldArray<S>>,
}

impl<S: Stream> Default for OldArrays<S> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), replaced: Vec::new() }
    }
}

impl<S: Stream> OldArrays<S> {
    /// Keeps an array that tables which were made before still lead to.
    pub(super) fn keep(&mut self, array: OldArray<S>) {
        self.replaced.push(array);
    }

    /// Whether an array was kept since [`Self::retire`].
    pub(super) fn has_new(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Whether all are freed.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.replaced.is_empty()
    }

    /// Notes that new tables are about to be made, which do not lead to the arrays kept so far. `readers` are those of the
    /// last; returns those of the new ones.
    pub(super) fn retire(&mut self, readers: &Arc<()>) -> Arc<()> {
        if self.replaced.is_empty() {
            return Arc::clone(readers);
        }
        let arrays = std::mem::take(&mut self.replaced);
        self.queue.push_back(Retired { readers: Arc::clone(readers), arrays });
        Arc::default()
    }

    /// Frees the arrays that no search reads. `wait` waits for launches whose tables may be dropped already.
    pub(super) fn free_unread<E>(&mut self, wait: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut unread = 0;
        // `get_mut` also makes the drops of the tables happen before.
        while self.queue.get_mut(unread).is_some_and(|of| Arc::get_mut(&mut of.readers).is_some()) {
            unread += 1;
        }
        if unread > 0 {
            wait()?;
            self.queue.drain(..unread).flat_map(|of| of.arrays).for_each(OldArray::free);
        }
        Ok(())
    }
}

impl<S: Stream> fmt::Debug for OldArrays<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OldArrays({} changes)", self.queue.len())
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::emulator::Emulator;
    use gpu_kernels::emulated::EmulatedStream;

    use super::*;

    #[test]
    fn an_array_is_freed_when_nothing_reads_it_or_one_before_it() {
        let stream = EmulatedStream::new(Emulator::new(1));
        let mut old = OldArrays::<EmulatedStream>::default();
        let mut readers: Arc<()> = Arc::default();
        let mut replace = |old: &mut OldArrays<_>| {
            old.keep(OldArray::Words(stream.allocate(1).unwrap()));
            let held = Arc::clone(&readers);
            readers = old.retire(&readers);
            held
        };
        let (first, second) = (replace(&mut old), replace(&mut old));
        let freed = |old: &mut OldArrays<_>| {
            let (before, mut waited) = (old.queue.len(), false);
            old.free_unread(|| {
                waited = true;
                Ok::<_, ()>(())
            })
            .unwrap();
            assert_eq!(waited, before > old.queue.len());
            before - old.queue.len()
        };
        assert_eq!(freed(&mut old), 0);
        drop(second);
        assert_eq!(freed(&mut old), 0, "tables from before the first array was replaced lead to both");
        drop(first);
        assert_eq!(freed(&mut old), 2);
        assert_eq!(freed(&mut old), 0);
    }
}
