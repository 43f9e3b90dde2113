//! Where the searches of an index run: on the processor, or on a copy of it in device memory.

use std::marker::PhantomData;

use jasper_build::{Hit, SearchError, SearchParams, SearchReport};
use jasper_core::{Element, MatrixView};

use crate::{Device, DeviceError, Index, processor};

/// A place that was taken for one index, and answers for it alone. Without the feature `cuda` all are on the processor.
#[derive(Debug)]
pub(crate) struct Seat<T: Element> {
    /// None where the processor searches.
    #[cfg(feature = "cuda")]
    searcher: Option<jasper_cuda::Searcher<T>>,
    element: PhantomData<T>,
}

impl<T: Element> Seat<T> {
    /// Takes a seat on the device.
    ///
    /// # Errors
    /// [`DeviceError`], but never for [`Device::Auto`] and [`Device::Cpu`].
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "nothing is copied"))]
    pub(crate) fn take(index: &Index<T>, device: Device) -> Result<Self, DeviceError> {
        device.find()?;
        Ok(Self {
            #[cfg(feature = "cuda")]
            searcher: copy(index, device)?,
            element: PhantomData,
        })
    }

    /// What searches on a CUDA device.
    #[cfg(feature = "cuda")]
    pub(crate) fn searcher(&self) -> Option<&jasper_cuda::Searcher<T>> {
        self.searcher.as_ref()
    }

    /// [`Device::Cpu`] or [`Device::Cuda`].
    pub(crate) fn device(&self) -> Device {
        #[cfg(feature = "cuda")]
        if let Some(searcher) = &self.searcher {
            return Device::Cuda(searcher.context().device().ordinal);
        }
        Device::Cpu
    }

    /// Name of the processor or GPU.
    pub(crate) fn name(&self) -> String {
        #[cfg(feature = "cuda")]
        if let Some(searcher) = &self.searcher {
            return searcher.context().device().name.clone();
        }
        processor()
    }

    /// The widest frontier of its searches.
    pub(crate) fn widest(&self) -> usize {
        #[cfg(feature = "cuda")]
        if self.searcher.is_some() {
            return jasper_cuda::MAX_BEAM_WIDTH as usize;
        }
        usize::MAX
    }

    /// See [`Index::search`].
    pub(crate) fn search(
        &self,
        index: &Index<T>,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        #[cfg(feature = "cuda")]
        if let Some(searcher) = &self.searcher {
            return searcher.answer_one(&index.graph, index.executor.pool(), query, params);
        }
        index.search(query, params)
    }

    /// See [`Index::search_into`].
    pub(crate) fn search_into(
        &self,
        index: &Index<T>,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        #[cfg(feature = "cuda")]
        if let Some(searcher) = &self.searcher {
            return searcher.answer(&index.graph, index.executor.pool(), queries, params, hits);
        }
        index.search_into(queries, params, hits)
    }
}

/// Copies the index to a CUDA device, if it is to be searched there.
#[cfg(feature = "cuda")]
fn copy<T: Element>(
    index: &Index<T>,
    device: Device,
) -> Result<Option<jasper_cuda::Searcher<T>>, DeviceError> {
    let copy = |ordinal| -> jasper_cuda::Result<_> {
        let context = jasper_cuda::Context::open(ordinal)?;
        index.executor.pool().install(|| jasper_cuda::Searcher::new(&context, &index.graph))
    };
    match device {
        Device::Cpu => Ok(None),
        Device::Auto => {
            let devices = jasper_cuda::Device::list().unwrap_or_default();
            Ok(devices.into_iter().find_map(|device| copy(device.ordinal).ok()))
        }
        Device::Cuda(ordinal) => {
            copy(ordinal).map(Some).map_err(|error| DeviceError::Cuda { ordinal, error })
        }
    }
}
