//! Arrays on devices without the feature `cuda`: they are refused.

use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::DeviceError;
use crate::index::Index;
use crate::search::Options;

/// Calls `work`; there is no current device to keep.
pub fn keep_current<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// There are none.
pub enum DeviceArray {}

impl DeviceArray {
    pub fn new(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Self>> {
        let py = object.py();
        let on_host = match object.getattr_opt(intern!(py, "__dlpack_device__"))? {
            // The CPU, and pinned host memory.
            Some(place) => matches!(place.call0()?.extract::<(i32, i32)>()?.0, 1 | 3),
            None => !object.hasattr(intern!(py, "__cuda_array_interface__"))?,
        };
        if on_host {
            return Ok(None);
        }
        Err(DeviceError::new_err(format!("{what} are on a device, and jasper was compiled without CUDA")))
    }

    pub fn to_host<'py>(&self, _: &str) -> PyResult<Bound<'py, PyAny>> {
        match *self {}
    }
}

impl Index {
    pub(crate) fn search_on_device<'py>(
        &self,
        queries: &DeviceArray,
        _: &Options,
        _: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match *queries {}
    }
}
