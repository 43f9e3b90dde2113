//! Row kinds: the combinations of element and distance operation that kernels are compiled for.

use jasper_core::ElementKind;

use crate::graph::DistanceOpKind;

/// What kernels read as rows, and what they sum over two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKind {
    pub(crate) element: ElementKind,
    /// Whether rows are SQ4 vectors; `element` is then that of SQ8.
    pub(crate) is_sq4: bool,
    pub(crate) op: DistanceOpKind,
}

pub(crate) const F32_L2: RowKind = RowKind::new(ElementKind::F32, DistanceOpKind::SquaredL2);
pub(crate) const F32_DOT: RowKind = RowKind::new(ElementKind::F32, DistanceOpKind::Dot);
pub(crate) const F16_L2: RowKind = RowKind::new(ElementKind::F16, DistanceOpKind::SquaredL2);
pub(crate) const F16_DOT: RowKind = RowKind::new(ElementKind::F16, DistanceOpKind::Dot);
pub(crate) const U8_L2: RowKind = RowKind::new(ElementKind::U8, DistanceOpKind::SquaredL2);
pub(crate) const U8_DOT: RowKind = RowKind::new(ElementKind::U8, DistanceOpKind::Dot);
pub(crate) const I8_L2: RowKind = RowKind::new(ElementKind::I8, DistanceOpKind::SquaredL2);
pub(crate) const I8_DOT: RowKind = RowKind::new(ElementKind::I8, DistanceOpKind::Dot);
pub(crate) const SQ4_L2: RowKind = RowKind::sq4(DistanceOpKind::SquaredL2);
pub(crate) const SQ4_DOT: RowKind = RowKind::sq4(DistanceOpKind::Dot);

impl RowKind {
    /// Every kind but those of SQ4.
    pub(crate) const ALL: [Self; 8] = [F32_L2, F32_DOT, F16_L2, F16_DOT, U8_L2, U8_DOT, I8_L2, I8_DOT];
    /// The kinds of SQ4 rows, which are searched like bytes.
    pub(crate) const ALL_SQ4: [Self; 2] = [SQ4_L2, SQ4_DOT];

    /// The kind of vectors as they are.
    pub(crate) const fn new(element: ElementKind, op: DistanceOpKind) -> Self {
        Self { element, is_sq4: false, op }
    }

    /// The kind of SQ4 vectors.
    pub(crate) const fn sq4(op: DistanceOpKind) -> Self {
        Self { element: ElementKind::I8, is_sq4: true, op }
    }
}
