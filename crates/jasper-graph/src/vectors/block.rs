//! The unit of rows of vectors, whose element type is a value.

use jasper_core::{Element, ROW_ALIGN_BYTES};

/// 16 bytes of a row: as many coordinates of one type as fit.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
pub(crate) struct Block([u8; ROW_ALIGN_BYTES]);

impl Block {
    /// Number of coordinates in a block.
    pub(crate) const fn elements<T>() -> usize {
        size_of::<Self>() / size_of::<T>()
    }

    /// The coordinates of blocks.
    #[inline(always)]
    pub(crate) fn cast<T: Element>(blocks: &[Self]) -> &[T] {
        const {
            assert!(align_of::<T>() <= align_of::<Self>() && size_of::<Self>().is_multiple_of(size_of::<T>()))
        };
        // Neither `bytemuck::cast_slice` nor `from_raw_parts`, whose checks are not inlined in tests.
        let coordinates =
            std::ptr::slice_from_raw_parts(blocks.as_ptr().cast(), blocks.len() * Self::elements::<T>());
        // SAFETY: as many bytes, which are aligned as was asserted, and any bytes are a `T: Pod`.
        unsafe { &*coordinates }
    }

    /// The coordinates of blocks, to be changed.
    pub(crate) fn cast_mut<T: Element>(blocks: &mut [Self]) -> &mut [T] {
        bytemuck::cast_slice_mut(blocks)
    }
}
