//! Searches by exact distances.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::super::SearchArgs;
use super::super::shape::keeps_query;
use super::Kind;
use super::kind::ROW_TEAM;
use crate::graph::Measure;
use crate::{Kernel, Launch};

/// Rows that have kernels of their own: bytes of dimension 128, halves of dimension 96, 200, 960 and 1536, floats of
/// dimension 96, 128, 200, 960 and 1536, and the signed bytes of quantized linking for such floats. A known length needs no
/// test for the end of a row, and has a shape of its own.
const SPECIALIZED: [(ElementKind, Measure, u32); 15] = [
    (ElementKind::U8, Measure::SquaredL2, 128),
    (ElementKind::I8, Measure::SquaredL2, 96),
    (ElementKind::I8, Measure::Dot, 208),
    (ElementKind::I8, Measure::SquaredL2, 960),
    (ElementKind::I8, Measure::SquaredL2, 1536),
    (ElementKind::F16, Measure::SquaredL2, 192),
    (ElementKind::F16, Measure::SquaredL2, 1920),
    (ElementKind::F16, Measure::SquaredL2, 3072),
    (ElementKind::F16, Measure::Dot, 400),
    (ElementKind::F32, Measure::SquaredL2, 384),
    (ElementKind::F32, Measure::SquaredL2, 512),
    (ElementKind::F32, Measure::SquaredL2, 3840),
    (ElementKind::F32, Measure::SquaredL2, 6144),
    (ElementKind::F32, Measure::Dot, 512),
    (ElementKind::F32, Measure::Dot, 800),
];

/// One kernel of the family. Arguments: [`SearchArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    element: ElementKind,
    measure: Measure,
    row_bytes: Option<u32>,
    kind: Kind,
}

impl Search {
    /// The kernel for rows of `row_bytes` and beams of `beam_width`: the specialised one, if there is one, with the smallest
    /// frontier. `warps` per query: 1, or a team of 8 to 16.
    ///
    /// # Panics
    /// If the beam is wider than [`MAX_BEAM_WIDTH`](super::super::MAX_BEAM_WIDTH).
    pub fn for_rows(
        element: ElementKind,
        measure: Measure,
        row_bytes: u32,
        beam_width: u32,
        warps: u32,
    ) -> Self {
        let known = SPECIALIZED.contains(&(element, measure, row_bytes));
        let row_bytes = known.then_some(row_bytes);
        Self { element, measure, row_bytes, kind: Kind::for_beam(beam_width, warps, ROW_TEAM) }
    }

    /// Every kernel of the family.
    pub fn all() -> impl Iterator<Item = Self> {
        let any = ElementKind::ALL
            .into_iter()
            .flat_map(|element| Measure::ALL.map(|measure| (element, measure, None)));
        let known = SPECIALIZED.map(|(element, measure, row_bytes)| (element, measure, Some(row_bytes)));
        any.chain(known).flat_map(|(element, measure, row_bytes)| {
            Kind::all(ROW_TEAM).map(move |kind| Self { element, measure, row_bytes, kind })
        })
    }

    /// The element that rows hold.
    pub const fn element(self) -> ElementKind {
        self.element
    }

    /// What is summed up over a pair of vectors.
    pub const fn measure(self) -> Measure {
        self.measure
    }

    /// The only length of rows in bytes, if this kernel is for one.
    pub const fn row_bytes(self) -> Option<u32> {
        self.row_bytes
    }

    /// The widest beam it takes.
    pub const fn max_entries(self) -> u32 {
        self.kind.max_entries()
    }

    /// Warps per query.
    pub const fn warps(self) -> u32 {
        self.kind.warps
    }
}

impl Kernel for Search {
    type Args = SearchArgs;

    fn entry(&self) -> Cow<'static, str> {
        let mut name = format!("search_{}_{}", self.element, self.measure.name());
        if let Some(bytes) = self.row_bytes {
            name += &format!("_b{bytes}");
        }
        name += &self.kind.name();
        name.into()
    }

    /// # Panics
    /// If an argument is outside of its bounds, or rows are of another length than this kernel is for.
    fn launch(&self, args: &SearchArgs) -> Launch {
        let row_bytes = args.graph.row_bytes;
        assert!(row_bytes.is_multiple_of(16), "row_bytes ({row_bytes}) must be a multiple of 16");
        assert_eq!(row_bytes, self.row_bytes.unwrap_or(row_bytes), "{}", self.entry());
        let is_kept = keeps_query(self.row_bytes.unwrap_or(0));
        self.kind.launch(args, if is_kept { 0 } else { row_bytes })
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(SearchArgs) {
        super::super::entries::exact::body(&self.entry())
    }
}
