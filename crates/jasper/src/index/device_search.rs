//! Searches for queries in device memory.

use jasper_core::{Element, MatrixView, Vectors};
use jasper_cuda::{DeviceBatch, Stream};
use jasper_graph::check_element;
use jasper_vamana::{SearchError, SearchParams};

use super::{Index, vector_error};
#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Result;

impl Index {
    /// Queues a search for queries in device memory, without waiting for it. The results are complete in the order of
    /// `stream`. Changes of the index wait for the search.
    ///
    /// ```no_run
    /// use jasper::{Device, IndexBuilder, MatrixView, Metric, SearchParams};
    /// use jasper_core::synthetic::Clusters;
    /// use jasper_cuda::prelude::*;
    /// use jasper_cuda::{Context, DeviceBatch, Stream, hit_from_device};
    ///
    /// let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// let queries = MatrixView::new(&vectors[..1600], 16)?;
    /// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&vectors, 16)?)?;
    /// let index = index.to_device(Device::cuda(0))?;
    ///
    /// let stream = Stream::new(&Context::open(0)?)?;
    /// let on_device = stream.upload(&index.prepare_queries::<f32>(queries)?)?;
    /// let (mut results, mut costs) = (stream.allocate(100 * 10)?, stream.allocate(100 * 2)?);
    /// let arrays = DeviceBatch { queries: &on_device, results: &mut results, costs: &mut costs };
    /// index.search_on_device(&stream, SearchParams::new(10), arrays)?;
    /// assert_eq!(hit_from_device(stream.download(&results)?[0]).key, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A filter or tombstones can leave fewer than `k` hits: no exact scan completes them.
    ///
    /// # Errors
    /// As [`Index::search`], but queries are not checked; with [`ErrorKind::InvalidInput`] if they have another element
    /// type than the index or an array has another length, and with [`ErrorKind::Device`] if the index is on the CPU or
    /// has several shards.
    ///
    /// # Panics
    /// Panics if another stream allocated one of the arrays, or `stream` belongs to another device.
    pub fn search_on_device<T: Element>(
        &self,
        stream: &Stream,
        params: SearchParams<'_>,
        arrays: DeviceBatch<'_, T>,
    ) -> Result<()> {
        use jasper_cuda::prelude::*;

        check_element(T::KIND, self.element())?;
        let row_len = self.inner.element.padded_len(self.inner.dimension);
        self.limits().find_exceeded(&params, arrays.queries.len() / row_len)?;
        Ok(self.inner.backend.search_on_device(stream, params, arrays.into())?)
    }

    /// Prepares queries for [`Self::search_on_device`]: pads them, and normalizes them for cosine distances of floats.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidInput`] if a query cannot be searched for, or `T` is not the element type of the
    /// index.
    pub fn prepare_queries<'a, T: Element>(&self, queries: impl Into<Vectors<'a>>) -> Result<Vec<T>> {
        check_element(T::KIND, self.element())?;
        let prepare = |queries: MatrixView<'_, T>| {
            self.inner.backend.read(|graph| graph.vectors().prepare_all(queries.rows()))
        };
        let prepared = queries.into().with_matrix(prepare);
        Ok(prepared.map_err(vector_error).and_then(|prepared| prepared).map_err(SearchError::from)?)
    }
}
