//! Pointers into device memory, as arguments of kernels.

/// A pointer to an array in device memory that a kernel reads. The host never dereferences it.
#[derive(Debug)]
#[repr(transparent)]
pub struct DevicePtr<T>(*const T);

/// A pointer to an array in device memory that a kernel writes and may read. The host never dereferences it.
#[derive(Debug)]
#[repr(transparent)]
pub struct DevicePtrMut<T>(*mut T);

impl<T> DevicePtr<T> {
    /// The pointer to the array at `address`.
    pub const fn new(address: *const T) -> Self {
        Self(address)
    }

    /// The null pointer, for an argument that is not needed.
    pub const fn null() -> Self {
        Self(core::ptr::null())
    }

    /// Whether this is [`Self::null`].
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The pointer to the array that begins at element `index` of this one.
    #[inline(always)]
    #[must_use]
    pub const fn add(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The address of element `index`.
    #[inline(always)]
    pub const fn at(self, index: usize) -> *const T {
        self.0.wrapping_add(index)
    }

    /// The same address as a pointer to another type.
    #[inline(always)]
    pub const fn cast<U>(self) -> DevicePtr<U> {
        DevicePtr(self.0.cast())
    }
}

impl<T> DevicePtrMut<T> {
    /// The pointer to the array at `address`.
    pub const fn new(address: *mut T) -> Self {
        Self(address)
    }

    /// The null pointer, for an argument that is not needed.
    pub const fn null() -> Self {
        Self(core::ptr::null_mut())
    }

    /// Whether this is [`Self::null`].
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The pointer to the array that begins at element `index` of this one.
    #[inline(always)]
    #[must_use]
    pub const fn add(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The address of element `index`.
    #[inline(always)]
    pub const fn at(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }

    /// The same address as a pointer to another type.
    #[inline(always)]
    pub const fn cast<U>(self) -> DevicePtrMut<U> {
        DevicePtrMut(self.0.cast())
    }

    /// The same array, to be read only.
    #[inline(always)]
    pub const fn cast_const(self) -> DevicePtr<T> {
        DevicePtr(self.0)
    }
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

impl<T> Clone for DevicePtrMut<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtrMut<T> {}

// SAFETY: an address is a number to the host, which never reads or writes through it.
unsafe impl<T> Send for DevicePtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for DevicePtr<T> {}
// SAFETY: as above; concurrent use by kernels is the promise of `Stream::launch`.
unsafe impl<T> Send for DevicePtrMut<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for DevicePtrMut<T> {}
