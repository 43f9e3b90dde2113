//! Rows of tables: copied, gathered or moved to other slots, their neighbors renamed, and vectors quantized to bytes
//! (SQ8) and 4 bits (SQ4).

#[cfg(feature = "kernels")]
mod kernel;
#[cfg(feature = "kernels")]
mod quantize_sq4;
#[cfg(feature = "kernels")]
mod quantize_sq8;

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    use jasper_core::ElementKind;
    use crate::{Entry, Kernel, LaunchConfig, entry, launch::kernels};
} }

#[cfg(feature = "kernels")]
use crate::element::{F16, F32};
use crate::entry::entry_table;
use crate::{DevicePtr, DevicePtrMut};

entry_table! {
    /// Quantizers of rows of each element.
    of_elements QUANTIZE_SQ8: ElementKind => QuantizeSq8Args;
    ElementKind::F32 => quantize_sq8_f32 = quantize_sq8::quantize_sq8::<F32>, max_threads 256;
    ElementKind::F16 => quantize_sq8_f16 = quantize_sq8::quantize_sq8::<F16>, max_threads 256;
}

/// Arguments of [`CopyRows`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyRowsArgs {
    /// `[slots][row_words]`: a table of any element, as words of 4 bytes.
    pub from: DevicePtr<u32>,
    /// `[slots][row_words]`: the table that is written. It may be the same.
    pub to: DevicePtrMut<u32>,
    /// `[rows]`: the slot that each row is read from; rows of [`NO_SLOT`](crate::graph::NO_SLOT) are not copied. Null
    /// for the rows in order.
    pub from_slots: DevicePtr<u32>,
    /// `[rows]`: the slot that each row is written to: distinct, and in one table none of those that are read. Null for
    /// the rows in order.
    pub to_slots: DevicePtr<u32>,
    /// Rows to copy.
    pub rows_len: u32,
    /// Words of a row.
    pub row_words: u32,
}

/// Arguments of [`RenameEdges`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RenameEdgesArgs {
    /// `[kept][edges_stride]`: the adjacency table.
    pub edges: DevicePtrMut<u32>,
    /// `[slots - kept]`: the new slot of each slot from `kept` on.
    pub renamed: DevicePtr<u32>,
    /// Number of slots that remain. Neighbors in higher slots are renamed.
    pub kept: u32,
    /// Slots before the move.
    pub slots: u32,
    /// Length of a row, with padding.
    pub edges_stride: u32,
}

/// Arguments of [`QuantizeSq8`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QuantizeSq8Args {
    /// `[rows][row_bytes]`: vectors padded with zeros to a multiple of 16 bytes, at a multiple of 16.
    pub vectors: DevicePtr<u8>,
    /// `[coordinates of a row]`, with zeros for the padding, at a multiple of 16: subtracted from the coordinates.
    pub centers: DevicePtr<f32>,
    /// `[rows][row_words]`: the vectors as bytes, padded with zeros.
    pub bytes: DevicePtrMut<u32>,
    /// Number of rows.
    pub rows_len: u32,
    /// Bytes of a vector.
    pub row_bytes: u32,
    /// Words of a quantized vector: at least one for each four coordinates.
    pub row_words: u32,
    /// Steps per unit of a coordinate.
    pub scale: f32,
}

/// Arguments of [`QuantizeSq4`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QuantizeSq4Args {
    /// `[rows][byte_words]`: SQ8 vectors.
    pub bytes: DevicePtr<u32>,
    /// `[rows][row_words]`: SQ4 vectors, padded with zeros. Word `i` has the coordinates of words `2 i` and `2 i + 1`
    /// of the bytes, in the upper and in the lower halves of its bytes.
    pub sq4: DevicePtrMut<u32>,
    /// Number of rows.
    pub rows_len: u32,
    /// Words of an SQ8 vector.
    pub byte_words: u32,
    /// Words of an SQ4 vector: at least half as many.
    pub row_words: u32,
    /// The base-2 logarithm of the steps of SQ8 in a step of SQ4: 1 to 4.
    pub shift: u32,
}

/// Quantizes vectors of floats to bytes (SQ8). Arguments: [`QuantizeSq8Args`].
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeSq8 {
    /// The element of the vectors.
    pub element: ElementKind,
}

// SAFETY: the entry points take these arguments, and there is a warp for each row.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl Kernel for QuantizeSq8 {
    type Args = QuantizeSq8Args;

    fn entry(&self) -> Entry<QuantizeSq8Args> {
        entry::find(QUANTIZE_SQ8, &self.element)
    }

    /// # Panics
    /// If the elements are no floats, or a quantized row has no room for the coordinates of a vector.
    fn launch_config(&self, args: &QuantizeSq8Args) -> LaunchConfig {
        assert!(!self.element.is_integer(), "{} vectors are not quantized", self.element);
        let coordinates = args.row_bytes as usize / self.element.size();
        assert!(args.row_words as usize * 4 >= coordinates, "{} words for {coordinates}", args.row_words);
        LaunchConfig::warp_per_row(args.rows_len)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// Quantizes SQ8 vectors to 4 bits per coordinate (SQ4).
    QuantizeSq4(QuantizeSq4Args) = quantize_sq4::quantize_sq4, |args| {
        assert!(args.row_words >= args.byte_words.div_ceil(2), "{} words for {}", args.row_words, args.byte_words);
        assert!((1..=4).contains(&args.shift), "shift ({}) must be 1 to 4", args.shift);
        LaunchConfig::warp_per_row(args.rows_len)
    };
    /// Copies rows of a table.
    CopyRows(CopyRowsArgs) = kernel::copy_rows, |args| LaunchConfig::warp_per_row(args.rows_len);
    /// Renames neighbors after vertices were moved.
    RenameEdges(RenameEdgesArgs) = kernel::rename_edges, |args| LaunchConfig::warp_per_row(args.kept);
}
