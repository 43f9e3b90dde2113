//! Which kernel of the family, and its grid.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::{BLOCK, DistanceArgs, IDS_A_WARP, WARP};
use crate::graph::Form;
use crate::{Kernel, Launch};

/// What a pair of vectors measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Sum of squared differences.
    SquaredL2,
    /// Sum of products.
    Dot,
}

impl Measure {
    /// Both.
    pub const ALL: [Self; 2] = [Self::SquaredL2, Self::Dot];

    /// What a distance of this form is made of.
    pub const fn of(form: Form) -> Self {
        match form {
            Form::Plain | Form::Half => Self::SquaredL2,
            Form::Negated | Form::Angle => Self::Dot,
        }
    }

    /// The name inside entries.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SquaredL2 => "l2",
            Self::Dot => "dot",
        }
    }
}

/// How the lanes of a tile read a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loads {
    /// One coordinate a lane and load, neighbours next to each other.
    Tiled,
    /// 16 bytes a lane and load.
    Chunked,
}

impl Loads {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tiled, Self::Chunked];

    /// `tiled` or `chunked`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiled => "tiled",
            Self::Chunked => "chunked",
        }
    }
}

/// Lanes that share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TileWidth {
    /// Eight rows a warp.
    Four = 4,
    /// Four rows a warp.
    Eight = 8,
    /// Two rows a warp.
    Sixteen = 16,
    /// A warp a row.
    ThirtyTwo = 32,
}

impl TileWidth {
    /// All widths, the narrowest first.
    pub const ALL: [Self; 4] = [Self::Four, Self::Eight, Self::Sixteen, Self::ThirtyTwo];

    /// The number of lanes.
    pub const fn lanes(self) -> u32 {
        self as u32
    }
}

/// Row lengths in bytes that have kernels of their own, where rows are read in chunks: f32 of dimension 96, 128 and
/// 960, and bytes of dimension 128. A known length takes no tests of where the row ends, and keeps a short query in
/// registers.
const SPECIALIZED: [(ElementKind, u32); 4] =
    [(ElementKind::F32, 384), (ElementKind::F32, 512), (ElementKind::F32, 3840), (ElementKind::U8, 128)];

/// One kernel of the family. Arguments: [`DistanceArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Distances {
    element: ElementKind,
    measure: Measure,
    loads: Loads,
    width: TileWidth,
    row_bytes: Option<u32>,
}

impl Distances {
    /// The kernel for rows of any length.
    pub const fn new(element: ElementKind, measure: Measure, loads: Loads, width: TileWidth) -> Self {
        Self { element, measure, loads, width, row_bytes: None }
    }

    /// The kernel for rows of just this length, if there is one.
    pub fn specialized(self, row_bytes: u32) -> Option<Self> {
        let known = self.loads == Loads::Chunked && SPECIALIZED.contains(&(self.element, row_bytes));
        known.then_some(Self { row_bytes: Some(row_bytes), ..self })
    }

    /// Every kernel of the family.
    pub fn all() -> impl Iterator<Item = Self> {
        let of = |element| {
            Measure::ALL.into_iter().flat_map(move |measure| {
                Loads::ALL.into_iter().flat_map(move |loads| {
                    TileWidth::ALL.into_iter().map(move |width| Self::new(element, measure, loads, width))
                })
            })
        };
        ElementKind::ALL.into_iter().flat_map(of).flat_map(|kernel| {
            let lengths = SPECIALIZED.iter().filter_map(move |&(_, row_bytes)| kernel.specialized(row_bytes));
            std::iter::once(kernel).chain(lengths)
        })
    }

    /// The element that rows hold.
    pub const fn element(self) -> ElementKind {
        self.element
    }

    /// What the results are.
    pub const fn measure(self) -> Measure {
        self.measure
    }

    /// How rows are read.
    pub const fn loads(self) -> Loads {
        self.loads
    }

    /// Lanes that share a row.
    pub const fn width(self) -> TileWidth {
        self.width
    }

    /// The only length of rows in bytes, if this kernel is for one.
    pub const fn row_bytes(self) -> Option<u32> {
        self.row_bytes
    }
}

impl Kernel for Distances {
    type Args = DistanceArgs;

    fn entry(&self) -> Cow<'static, str> {
        let (element, measure, loads) = (self.element.name(), self.measure.name(), self.loads.name());
        let mut name = format!("distances_{element}_{measure}_{loads}_w{}", self.width.lanes());
        if let Some(bytes) = self.row_bytes {
            name += &format!("_b{bytes}");
        }
        name.into()
    }

    /// # Panics
    /// If rows are no whole chunks, or of another length than this kernel is for.
    fn launch(&self, args: &DistanceArgs) -> Launch {
        assert!(args.row_bytes.is_multiple_of(16), "row_bytes ({}) must be a multiple of 16", args.row_bytes);
        assert_eq!(args.row_bytes, self.row_bytes.unwrap_or(args.row_bytes), "{}", self.entry());
        let warps = args.queries_len * args.ids_per_query.div_ceil(IDS_A_WARP);
        Launch::linear(warps.div_ceil(BLOCK / WARP), BLOCK)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(DistanceArgs) {
        super::entries::body(&self.entry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{In, Out};

    #[test]
    fn a_grid_covers_every_id() {
        let kernel = Distances::new(ElementKind::F32, Measure::SquaredL2, Loads::Chunked, TileWidth::Eight);
        let blocks = |queries_len, ids_per_query| {
            let (rows, ids) = (In::new(std::ptr::null()), In::new(std::ptr::null()));
            let distances = Out::new(std::ptr::null_mut());
            let args = DistanceArgs {
                rows,
                queries: rows,
                ids,
                distances,
                row_bytes: 64,
                queries_len,
                ids_per_query,
            };
            kernel.launch(&args).grid.0
        };
        assert_eq!(blocks(0, 10), 0);
        assert_eq!(blocks(10, 0), 0);
        assert_eq!(blocks(4, 256), 1);
        assert_eq!(blocks(4, 257), 2);
        assert_eq!(blocks(1, 1 << 20), 1 << 10);
    }

    #[test]
    fn entries_are_distinct() {
        let mut names: Vec<_> = Distances::all().map(|kernel| kernel.entry()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.contains(&"distances_f32_l2_chunked_w8_b512".into()));
    }
}
