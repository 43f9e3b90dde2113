//! Addresses of device memory, inside the arguments of kernels.

/// Where a kernel reads an array: an address of device memory, never read through on the host.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

/// Where a kernel writes an array (and may read it): an address of device memory, never used on the host.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> In<T> {
    /// No array: what arguments hold in the place of one that is not needed.
    pub const NOWHERE: Self = Self(core::ptr::null());

    /// The array at `address`.
    pub const fn new(address: *const T) -> Self {
        Self(address)
    }

    /// Whether this is [`Self::NOWHERE`].
    #[inline(always)]
    pub const fn is_nowhere(self) -> bool {
        self.0.is_null()
    }

    /// The array that begins at element `index` of this one.
    #[inline(always)]
    #[must_use]
    pub const fn from(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The address of element `index`.
    #[inline(always)]
    pub const fn at(self, index: usize) -> *const T {
        self.0.wrapping_add(index)
    }

    /// The same address as that of another type.
    #[inline(always)]
    pub const fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

impl<T> Out<T> {
    /// No array: what arguments hold in the place of one that nobody wants.
    pub const NOWHERE: Self = Self(core::ptr::null_mut());

    /// Whether this is [`Self::NOWHERE`].
    #[inline(always)]
    pub const fn is_nowhere(self) -> bool {
        self.0.is_null()
    }

    /// The array at `address`.
    pub const fn new(address: *mut T) -> Self {
        Self(address)
    }

    /// The array that begins at element `index` of this one.
    #[inline(always)]
    #[must_use]
    pub const fn from(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The address of element `index`.
    #[inline(always)]
    pub const fn at(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }

    /// The same address as that of another type.
    #[inline(always)]
    pub const fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// The same array, to be read.
    #[inline(always)]
    pub const fn input(self) -> In<T> {
        In(self.0)
    }
}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

// SAFETY: an address is a number to the host, which never reads or writes through it.
unsafe impl<T> Send for In<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for In<T> {}
// SAFETY: as above; what kernels do with it at the same time is the promise of `Stream::launch`.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Out<T> {}
