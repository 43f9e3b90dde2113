//! Where the searches of an index run while it is tuned: on the processor, or on a copy of it in device memory.

use std::marker::PhantomData;

use jasper_core::{Element, MatrixView};
use jasper_vamana::{Hit, SearchError, SearchParams, SearchReport};

#[cfg(feature = "cuda")]
use crate::index::write_hits;
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
    /// [`DeviceError`], but never for [`Device::Cpu`].
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "nothing is copied"))]
    pub(crate) fn take(index: &Index<T>, device: Device) -> Result<Self, DeviceError> {
        device.find()?;
        Ok(Self {
            #[cfg(feature = "cuda")]
            searcher: copy(index, device)?,
            element: PhantomData,
        })
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
            return write_hits(hits, |matches| {
                searcher.answer(&index.graph, index.executor.pool(), queries, params, matches)
            });
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
        index.executor.pool().install(|| jasper_cuda::Searcher::new(&context, &index.graph, index.vectors))
    };
    match device {
        Device::Cpu => Ok(None),
        Device::Auto => {
            let devices = unless_absent(0, jasper_cuda::Device::list())?.unwrap_or_default();
            let copies =
                devices.iter().map(|device| unless_absent(device.ordinal, copy(device.ordinal)).transpose());
            copies.flatten().next().transpose()
        }
        Device::Cuda(ordinal) => {
            copy(ordinal).map(Some).map_err(|error| DeviceError::Cuda { ordinal, error })
        }
    }
}

/// What a device gives; none where it is not there or has no room. A device that fails is no reason to go on without a
/// word.
#[cfg(feature = "cuda")]
pub(crate) fn unless_absent<R>(
    ordinal: usize,
    given: jasper_cuda::Result<R>,
) -> Result<Option<R>, DeviceError> {
    match given {
        Ok(given) => Ok(Some(given)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(DeviceError::Cuda { ordinal, error }),
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use jasper_cuda::Error;

    use super::*;

    #[test]
    fn only_a_device_that_is_absent_or_full_is_passed_over() {
        assert_eq!(unless_absent(0, Ok(7)), Ok(Some(7)));
        let full = Error::OutOfMemory { what: "rows".into(), free: 1, total: 2 };
        for error in [Error::NoDevice, Error::NoSuchDevice { ordinal: 1, count: 1 }, full] {
            assert_eq!(unless_absent::<()>(1, Err(error)), Ok(None));
        }
        let lost = |name: &str| Error::ContextLost {
            call: "cuCtxSynchronize",
            code: 700,
            name: name.into(),
            launched: "nothing was launched".into(),
        };
        let failed = Error::Call { call: "cuInit", code: 803, name: "mismatch".into() };
        for error in [lost("fault"), failed, Error::UnknownKernel { entry: "search".into() }] {
            assert_eq!(
                unless_absent::<()>(1, Err(error.clone())),
                Err(DeviceError::Cuda { ordinal: 1, error })
            );
        }
    }
}
