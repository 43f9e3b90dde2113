//! Pointers into device memory, as arguments of kernels.

macro_rules! pointers {
    ($($(#[$doc:meta])* $name:ident, *$mutability:ident, $null:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name<T>(*$mutability T);

        impl<T> $name<T> {
            /// The pointer to the array at `address`.
            pub const fn new(address: *$mutability T) -> Self {
                Self(address)
            }

            /// The null pointer, for an argument that is not needed.
            pub const fn null() -> Self {
                Self(core::ptr::$null())
            }

            /// Whether this is [`Self::null`].
            pub const fn is_null(self) -> bool {
                self.0.is_null()
            }

            /// The pointer to the array that begins at element `index` of this one.
            #[must_use]
            pub const fn add(self, index: usize) -> Self {
                Self(self.0.wrapping_add(index))
            }

            /// The address of element `index`.
            pub const fn at(self, index: usize) -> *$mutability T {
                self.0.wrapping_add(index)
            }

            /// The same address as a pointer to another type.
            pub const fn cast<U>(self) -> $name<U> {
                $name(self.0.cast())
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        // SAFETY: an address is a number to the host, which never reads or writes through it. Concurrent use by kernels
        // is the promise of `Stream::launch`.
        unsafe impl<T> Send for $name<T> {}
        // SAFETY: as above.
        unsafe impl<T> Sync for $name<T> {}
    )* };
}

pointers! {
    /// A pointer to an array in device memory that a kernel reads. The host never dereferences it.
    DevicePtr, *const, null;
    /// A pointer to an array in device memory that a kernel writes and may read. The host never dereferences it.
    DevicePtrMut, *mut, null_mut;
}

impl<T> DevicePtrMut<T> {
    /// The same array, to be read only.
    pub const fn cast_const(self) -> DevicePtr<T> {
        DevicePtr(self.0)
    }
}
