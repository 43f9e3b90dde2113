//! Selects the kernel for an element, form and length of rows, and its grid.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::layout::{DEFERRED, Layout, batch_capacity, link_capacity, merge_capacity, repair_capacity};
use super::{
    BatchCandidatesArgs, FindDuplicatesArgs, LinkArgs, MergeArgs, PruneArgs, PublishArgs, ROW_THREADS,
    RepairArgs, ReverseEdgesArgs,
};
use crate::graph::{DistanceForm, Measure};
use crate::rows::warp_per_row;
use crate::{Kernel, Launch};

/// Lanes of a warp.
const WARP: u32 = 32;
/// Warps per block, which share the candidates. Of short rows, two warps score all that remain after some steps at once,
/// and more blocks per multiprocessor hide more barriers; long rows take a warp several loads each.
const fn warps(row_bytes: u32) -> u32 {
    if row_bytes <= 512 { 2 } else { 4 }
}

/// Rows with specialized kernels: see [`crate::search`].
const SPECIALIZED: [(ElementKind, Measure, u32); 13] = [
    (ElementKind::U8, Measure::SquaredL2, 128),
    (ElementKind::I8, Measure::SquaredL2, 96),
    (ElementKind::I8, Measure::Dot, 208),
    (ElementKind::I8, Measure::SquaredL2, 960),
    (ElementKind::I8, Measure::SquaredL2, 1536),
    (ElementKind::F16, Measure::SquaredL2, 192),
    (ElementKind::F16, Measure::SquaredL2, 1920),
    (ElementKind::F16, Measure::SquaredL2, 3072),
    (ElementKind::F32, Measure::SquaredL2, 384),
    (ElementKind::F32, Measure::SquaredL2, 512),
    (ElementKind::F32, Measure::Dot, 800),
    (ElementKind::F32, Measure::SquaredL2, 3840),
    (ElementKind::F32, Measure::SquaredL2, 6144),
];

/// The rows that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rows {
    element: ElementKind,
    measure: Measure,
    row_bytes: Option<u32>,
}

impl Rows {
    /// # Panics
    /// If no graph is built with `form` on such rows.
    fn new(element: ElementKind, form: DistanceForm, row_bytes: u32) -> Self {
        let measure = form.measure();
        let sound = form != DistanceForm::Cosine || element.is_integer();
        assert!(sound, "no graph of {element} rows is built by {form:?}");
        let known = SPECIALIZED.contains(&(element, measure, row_bytes));
        Self { element, measure, row_bytes: known.then_some(row_bytes) }
    }

    fn entry(&self, family: &str) -> Cow<'static, str> {
        let length = self.row_bytes.map(|bytes| format!("_b{bytes}")).unwrap_or_default();
        format!("{family}_{}_{}{length}", self.element, self.measure.name()).into()
    }

    /// One block per list, with room for `capacity` candidates.
    fn launch(&self, args: &PruneArgs, lists: u32, capacity: u32) -> Launch {
        let PruneArgs { max_degree, graph, .. } = args;
        let (row_bytes, stride) = (graph.row_bytes, graph.links_stride);
        assert!(row_bytes.is_multiple_of(16), "row_bytes ({row_bytes}) must be a multiple of 16");
        assert_eq!(row_bytes, self.row_bytes.unwrap_or(row_bytes), "{self:?}");
        assert!(stride.is_multiple_of(WARP), "links_stride ({stride}) must be a multiple of {WARP}");
        assert!((1..=stride).contains(max_degree), "max_degree ({max_degree}) must be 1 to {stride}");
        let warps = warps(row_bytes);
        assert!(capacity >= warps, "{capacity} candidates are fewer than the {warps} warps of a block");
        assert!(capacity <= DEFERRED, "{capacity} candidates are more than the {DEFERRED} of a block");
        let shared = Layout::new(capacity, *max_degree, stride, warps).end;
        Launch::linear(lists, warps * WARP).with_shared(shared)
    }
}

/// A family of kernels, one per kind of rows: the number of lists, and the candidates that a block has room for.
macro_rules! families {
    ($($(#[$doc:meta])* $Family:ident, $name:literal, $body:ident: |$args:ident: $Args:ty| $sizes:block;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $Family(Rows);

        impl $Family {
            /// The kernel for rows of `row_bytes` bytes and distances of `form`.
            ///
            /// # Panics
            /// If no graph is built with `form` on such rows.
            pub fn for_rows(element: ElementKind, form: DistanceForm, row_bytes: u32) -> Self {
                Self(Rows::new(element, form, row_bytes))
            }
        }

        impl Kernel for $Family {
            type Args = $Args;

            fn entry(&self) -> Cow<'static, str> {
                self.0.entry($name)
            }

            /// # Panics
            /// If an argument is outside of its bounds, or rows are of another length than this kernel is for.
            fn launch(&self, $args: &$Args) -> Launch {
                let (lists, capacity) = $sizes;
                self.0.launch(&$args.prune, lists, capacity)
            }

            #[cfg(feature = "kernels")]
            fn body(&self) -> unsafe fn($Args) {
                super::entries::$body(&self.entry())
            }
        }
    )* };
}
families! {
    /// The kernel that links new vertices. Arguments: [`LinkArgs`].
    Link, "link", link_body: |args: LinkArgs| {
        let batch_candidates = if args.batch_candidates.is_null() { 0 } else { args.prune.max_degree };
        (args.lists, link_capacity(args.candidates_stride, batch_candidates))
    };
    /// The kernel that merges reversed edges into the rows of their targets. Arguments: [`MergeArgs`].
    Merge, "merge", merge_body: |args: MergeArgs| {
        (args.targets, merge_capacity(args.prune.max_candidates, args.prune.max_degree))
    };
    /// The kernel that finds candidates in the same batch. Arguments: [`BatchCandidatesArgs`].
    BatchCandidates, "batch_candidates", batch_candidates_body: |args: BatchCandidatesArgs| { (args.lists, batch_capacity(args.at_once, args.prune.max_degree, args.candidates_stride)) };
    /// The kernel that repairs rows with deleted neighbors. Arguments: [`RepairArgs`].
    Repair, "repair", repair_body: |args: RepairArgs| { (args.rows, repair_capacity(&args.prune)) };
}

/// The kernel that finds vectors that are in the graph already: reads the first 16 bytes of each candidate's vector.
/// Arguments: [`FindDuplicatesArgs`].
#[derive(Clone, Copy, Debug)]
pub struct FindDuplicates;

impl Kernel for FindDuplicates {
    type Args = FindDuplicatesArgs;

    fn entry(&self) -> Cow<'static, str> {
        "find_duplicates".into()
    }

    fn launch(&self, args: &FindDuplicatesArgs) -> Launch {
        warp_per_row(args.lists)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(FindDuplicatesArgs) {
        super::find_duplicates::find_duplicates
    }
}

/// The kernel that turns links around. Arguments: [`ReverseEdgesArgs`].
#[derive(Clone, Copy, Debug)]
pub struct ReverseEdges;

impl Kernel for ReverseEdges {
    type Args = ReverseEdgesArgs;

    fn entry(&self) -> Cow<'static, str> {
        "turn_around".into()
    }

    fn launch(&self, args: &ReverseEdgesArgs) -> Launch {
        Launch::linear((args.lists * args.links_stride).div_ceil(ROW_THREADS), ROW_THREADS)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ReverseEdgesArgs) {
        super::rows::turn_around
    }
}

/// The kernel that writes rows into the graph. Arguments: [`PublishArgs`].
#[derive(Clone, Copy, Debug)]
pub struct Publish;

impl Kernel for Publish {
    type Args = PublishArgs;

    fn entry(&self) -> Cow<'static, str> {
        "publish_rows".into()
    }

    fn launch(&self, args: &PublishArgs) -> Launch {
        Launch::linear((args.rows * (args.links_stride / 4)).div_ceil(ROW_THREADS), ROW_THREADS)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(PublishArgs) {
        super::rows::publish_rows
    }
}
