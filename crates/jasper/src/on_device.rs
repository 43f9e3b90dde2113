//! An index on the device that searches it.

use jasper_build::{Hit, SearchError, SearchParams, SearchReport};
use jasper_core::{Element, MatrixView};

use crate::seat::Seat;
use crate::{Device, DeviceError, Index};

/// An [`Index`] that is searched where it was taken to; made by [`Index::to_device`].
///
/// ```
/// use jasper::{Device, Index, MatrixView, Metric, SearchParams, synthetic::Clusters};
///
/// let rows: Vec<f32> = Clusters::new(32, 7).rows(2000, 0);
/// let index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 32)?)?;
/// let index = index.to_device(Device::Auto)?;
/// println!("on {}, where it takes {} bytes", index.device(), index.device_bytes());
///
/// let hits = index.search(&rows[..32], SearchParams::new(10))?;
/// assert_eq!((hits[0].key, hits[0].distance), (0, 0.0));
/// let all = index.search_batch(MatrixView::new(&rows, 32)?, SearchParams::new(1))?;
/// assert_eq!(all[1999].key, 1999);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Answers are those of [`Self::index`], whatever the device: the same keys in the same order, and for floats distances
/// that differ by how a sum rounds. Searches take `&self`, from any number of threads, which do not wait for one another.
///
/// On a CUDA device `beam_width` is at most 1024. Where tombstones or a filter make searches wider than that, they stay
/// at 1024, and find what a search with a smaller `beam_width` does on a processor; what is then still missing of `k` is
/// found by a scan. A filter is asked of every key, in every call.
#[derive(Debug)]
pub struct DeviceIndex<T: Element> {
    pub(crate) index: Index<T>,
    pub(crate) seat: Seat<T>,
}

impl<T: Element> Index<T> {
    /// Takes the index to a device: from now on it is searched there. [`Device::Auto`] is the first CUDA device that can
    /// hold it, or the processor.
    ///
    /// The index stays in host memory as well, for keys and vectors; [`DeviceIndex::into_index`] gives it back.
    ///
    /// Cost on a CUDA device: one pass over the index, and a start of some tenths of a second.
    ///
    /// # Errors
    /// [`DeviceError`]: there is no such device, or the index does not fit, with numbers; [`Device::Auto`] then goes on to
    /// the next. A device that is there and fails is told of in either case. The index is then dropped: where that would
    /// be a loss, ask [`Device::find`] first.
    pub fn to_device(self, device: Device) -> Result<DeviceIndex<T>, DeviceError> {
        let seat = Seat::take(&self, device)?;
        Ok(DeviceIndex { index: self, seat })
    }
}

impl<T: Element> DeviceIndex<T> {
    /// The index, as it is on the host.
    pub fn index(&self) -> &Index<T> {
        &self.index
    }

    /// The index, when it has left the device.
    pub fn into_index(self) -> Index<T> {
        self.index
    }

    /// The nearest keys to one vector, nearest first; fewer than `k` only where there are fewer.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.seat.search(&self.index, query, params)
    }

    /// The nearest keys to every row of `queries`: `k` places a query, nearest first, then [`Hit::NONE`] where there are
    /// fewer.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search_batch(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        let mut hits = params.places(queries.len())?;
        self.search_into(queries, params, &mut hits)?;
        Ok(hits)
    }

    /// [`Self::search_batch`] into the caller's `hits`, which holds `queries.len() x k` places; tells what it cost.
    ///
    /// A CUDA device may count more distances than the processor: it forgets some of the vertices that it has seen.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        self.seat.search_into(&self.index, queries, params, hits)
    }

    /// Where it is searched: [`Device::Cpu`] or [`Device::Cuda`].
    pub fn device(&self) -> Device {
        self.seat.device()
    }

    /// Name of the processor or GPU that searches, such as `NVIDIA H200`.
    pub fn device_name(&self) -> String {
        self.seat.name()
    }

    /// Bytes of device memory that the index takes; 0 on the processor. What searches there knows them by part.
    pub fn device_bytes(&self) -> u64 {
        #[cfg(feature = "cuda")]
        if let Some(searcher) = self.searcher() {
            return searcher.memory().total(jasper_cuda::Place::Device);
        }
        0
    }
}

#[cfg(feature = "cuda")]
impl<T: Element> DeviceIndex<T> {
    /// What searches on a CUDA device.
    pub fn searcher(&self) -> Option<&jasper_cuda::Searcher<T>> {
        self.seat.searcher()
    }

    /// Queues a search of queries that are in device memory; see [`jasper_cuda::Searcher::launch`].
    ///
    /// # Errors
    /// [`SearchError`]; [`DeviceError::OnProcessor`] in it where the index is on no CUDA device.
    ///
    /// # Panics
    /// If `stream` did not make the arrays.
    pub fn search_on_device(
        &self,
        stream: &jasper_cuda::Stream,
        params: SearchParams<'_>,
        arrays: jasper_cuda::OnDevice<'_, T>,
    ) -> Result<(), SearchError> {
        let searcher = self.searcher().ok_or_else(|| SearchError::device(DeviceError::OnProcessor))?;
        searcher.launch(&self.index.graph, self.index.executor.pool(), stream, params, arrays)
    }
}
