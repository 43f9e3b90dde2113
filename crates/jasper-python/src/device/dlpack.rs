//! Tensors as DLPack exchanges them between libraries: the C structures of version 0.8, which version 1 keeps for
//! capsules without a version, and capsules around them.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

/// The name of a capsule that owns its tensor.
const NAME: &CStr = c"dltensor";
/// Its name once a consumer has taken the tensor.
const USED_NAME: &CStr = c"used_dltensor";

/// `kDLCPU`
pub const CPU: i32 = 1;
/// `kDLCUDA`
pub const CUDA: i32 = 2;
/// `kDLCUDAHost`: pinned host memory.
pub const CUDA_HOST: i32 = 3;
/// `kDLCUDAManaged`
pub const CUDA_MANAGED: i32 = 13;

/// `DLDevice`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawDevice {
    pub kind: i32,
    pub id: i32,
}

/// `DLDataType`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    /// 0 is int, 1 unsigned, 2 float, 4 bfloat.
    pub code: u8,
    pub bits: u8,
    /// 1, unless elements are short vectors.
    pub lanes: u16,
}

/// `DLTensor`
#[repr(C)]
struct RawTensor {
    data: *mut c_void,
    device: RawDevice,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    /// In elements; null if the tensor is contiguous.
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`
#[repr(C)]
struct RawManaged {
    tensor: RawTensor,
    owner: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut RawManaged)>,
}

/// A tensor of another library: it lives as long as this.
pub struct Imported(NonNull<RawManaged>);

impl Imported {
    /// Takes the tensor out of a capsule.
    pub fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let managed: NonNull<RawManaged> = capsule.pointer_checked(Some(NAME))?.cast();
        // SAFETY: the capsule is valid, as `pointer_checked` found, and the name is static. A capsule of the new name
        // no longer deletes the tensor, which `drop` does.
        let renamed = unsafe { pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), USED_NAME.as_ptr()) };
        if renamed != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(Self(managed))
    }

    fn tensor(&self) -> &RawTensor {
        // SAFETY: a capsule named `dltensor` holds a managed tensor, which lives until its deleter is called.
        unsafe { &self.0.as_ref().tensor }
    }

    pub fn address(&self) -> u64 {
        self.tensor().data.addr() as u64 + self.tensor().byte_offset
    }

    pub fn dtype(&self) -> DataType {
        self.tensor().dtype
    }

    pub fn shape(&self) -> PyResult<Vec<usize>> {
        let sizes = self.numbers(self.tensor().shape)?;
        Ok(sizes.iter().map(|&size| usize::try_from(size)).collect::<Result<_, _>>()?)
    }

    /// Distances between elements, in elements; `None` if the tensor is contiguous.
    pub fn strides(&self) -> PyResult<Option<Vec<i64>>> {
        let strides = self.tensor().strides;
        if strides.is_null() { Ok(None) } else { self.numbers(strides).map(|strides| Some(strides.to_vec())) }
    }

    /// One number per dimension.
    fn numbers(&self, first: *const i64) -> PyResult<&[i64]> {
        let len = usize::try_from(self.tensor().ndim)?;
        if len == 0 {
            return Ok(&[]);
        }
        if first.is_null() {
            return Err(PyBufferError::new_err("a DLPack tensor lacks its shape"));
        }
        // SAFETY: DLPack has `ndim` numbers there, as long as the tensor lives.
        Ok(unsafe { std::slice::from_raw_parts(first, len) })
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: this owns the managed tensor, since its capsule was renamed. The deleter is called once.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

/// A tensor for other libraries.
pub struct Exported<O> {
    pub address: u64,
    pub device: RawDevice,
    pub dtype: DataType,
    pub shape: Vec<i64>,
    /// In elements.
    pub strides: Vec<i64>,
    /// Keeps the memory. It is dropped on any thread.
    pub _owner: O,
}

/// An [`Exported`] tensor and the structure that points into it. It is not moved.
struct Managed<O> {
    raw: RawManaged,
    exported: Exported<O>,
}

impl<O: Send + 'static> Exported<O> {
    /// Puts the tensor into a capsule, which drops the owner unless a consumer takes the tensor.
    pub fn into_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        let raw = RawManaged {
            tensor: RawTensor {
                data: ptr::without_provenance_mut(self.address as usize),
                device: self.device,
                ndim: self.shape.len() as i32,
                dtype: self.dtype,
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                byte_offset: 0,
            },
            owner: ptr::null_mut(),
            deleter: Some(delete::<O>),
        };
        let managed = Box::into_raw(Box::new(Managed { raw, exported: self }));
        // SAFETY: the box was just made, and nothing else refers to it. Its vectors are not changed from here on.
        let raw = unsafe {
            let Managed { raw, exported } = &mut *managed;
            raw.tensor.shape = exported.shape.as_mut_ptr();
            raw.tensor.strides = exported.strides.as_mut_ptr();
            raw.owner = managed.cast();
            NonNull::from(raw)
        };
        // SAFETY: the pointer is to a managed tensor, as the name says, and the destructor takes such a capsule.
        let capsule =
            unsafe { PyCapsule::new_with_pointer_and_destructor(py, raw.cast(), NAME, Some(delete_unused)) };
        if capsule.is_err() {
            // SAFETY: there is no capsule, so this is the only owner.
            drop(unsafe { Box::from_raw(managed) });
        }
        capsule
    }
}

/// The deleter of an exported tensor.
///
/// # Safety
/// `raw` is from [`Exported::into_capsule`] with this `O`, and is not used afterwards.
unsafe extern "C" fn delete<O>(raw: *mut RawManaged) {
    // SAFETY: `owner` is the box that was made there.
    drop(unsafe { Box::from_raw((*raw).owner.cast::<Managed<O>>()) });
}

/// The destructor of a capsule: deletes the tensor unless a consumer has taken it.
///
/// # Safety
/// `capsule` is a capsule that is being destroyed.
unsafe extern "C" fn delete_unused(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: the capsule is valid. One with this name still owns its managed tensor, which has a deleter.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            let raw = pyo3::ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<RawManaged>();
            if let Some(deleter) = (*raw).deleter {
                deleter(raw);
            }
        }
    }
}
