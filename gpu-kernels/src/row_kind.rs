//! Row kinds: the combinations of element, measure and shape that kernels are compiled for.

use jasper_core::ElementKind;

use crate::RowShape;
use crate::graph::Measure;

/// A kind of rows that a kernel is compiled for: the element, what is summed over two rows, and how lanes share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKernel {
    /// The element that rows hold.
    pub(crate) element: ElementKind,
    /// What is summed over two rows.
    pub(crate) measure: Measure,
    /// Infix of the kernel name, for example `f32_l2`.
    pub(crate) name: &'static str,
    /// The shape, which is patched into the PTX as constants.
    pub(crate) shape: RowShape,
}

/// Makes an array of elements, measures and names of a table whose lines begin with `ELEMENT MEASURE name`.
macro_rules! row_kinds {
    ($($element:ident $measure:ident $name:ident;)*) => {
        [$((jasper_core::ElementKind::$element, $crate::graph::Measure::$measure, stringify!($name))),*]
    };
}
pub(crate) use row_kinds;

/// A table of kernels: see [`row_kinds`].
pub(crate) type RowTable = [(ElementKind, Measure, &'static str)];

impl RowKernel {
    /// Every row kind of a table, for rows of `row_bytes`.
    pub(crate) fn all(table: &'static RowTable, row_bytes: u32) -> impl Iterator<Item = Self> {
        assert!(row_bytes.is_multiple_of(16), "row_bytes ({row_bytes}) must be a multiple of 16");
        let shape = RowShape::new(row_bytes);
        table.iter().map(move |&(element, measure, name)| Self { element, measure, name, shape })
    }

    /// The row kind of a table for these rows of `row_bytes`.
    pub(crate) fn find(
        table: &'static RowTable,
        element: ElementKind,
        measure: Measure,
        row_bytes: u32,
    ) -> Self {
        let is_it = |kind: &Self| (kind.element, kind.measure) == (element, measure);
        Self::all(table, row_bytes).find(is_it).expect("the table has every element and measure")
    }

    /// # Panics
    /// Panics if rows of `shape` are not of this kind.
    pub(crate) fn check(&self, shape: RowShape) {
        assert_eq!(shape, self.shape, "{}: rows of another shape", self.name);
    }
}
