//! The rows of vectors that kernels are compiled for.

use jasper_core::ElementKind;

use crate::graph::Measure;

/// Rows that kernels are compiled for: an element, what is summed over two rows, and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKind {
    /// The element that rows hold.
    pub(crate) element: ElementKind,
    /// What is summed over two rows.
    pub(crate) measure: Measure,
    /// The length in bytes, 0 for any.
    pub(crate) bytes: u32,
    /// The rows' part of the names of entries.
    pub(crate) name: &'static str,
}

/// Makes an array of [`RowKind`]s of a table whose lines begin with `ELEMENT MEASURE BYTES name`.
macro_rules! row_kinds {
    ($($element:ident $measure:ident $bytes:literal $name:ident $blocks:tt;)*) => {
        [$($crate::row_kind::RowKind {
            element: jasper_core::ElementKind::$element,
            measure: $crate::graph::Measure::$measure,
            bytes: $bytes,
            name: stringify!($name),
        }),*]
    };
}
pub(crate) use row_kinds;

impl RowKind {
    /// The kind of rows of `row_bytes` in a table: of that length, or of any.
    pub(crate) fn find(table: &[Self], element: ElementKind, measure: Measure, row_bytes: u32) -> Self {
        let find = |bytes| {
            let is_it = |kind: &&Self| (kind.element, kind.measure, kind.bytes) == (element, measure, bytes);
            table.iter().find(is_it).copied()
        };
        find(row_bytes).or_else(|| find(0)).expect("the table has every element and measure, of any length")
    }

    /// # Panics
    /// If rows of `row_bytes` are not of this kind.
    pub(crate) fn check(&self, row_bytes: u32) {
        assert!(row_bytes.is_multiple_of(16), "row_bytes ({row_bytes}) must be a multiple of 16");
        assert!(
            self.bytes == 0 || self.bytes == row_bytes,
            "rows of {row_bytes} bytes are not {}",
            self.name
        );
    }
}
