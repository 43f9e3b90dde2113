//! Which kernels a prune takes, and their grids.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::layout::{Layout, link_capacity, merge_capacity};
use super::{LinkArgs, MergeArgs, PruneArgs, PublishArgs, ROW_THREADS, TurnAroundArgs};
use crate::distances::Measure;
use crate::graph::Form;
use crate::{Kernel, Launch};

/// Lanes of a warp.
const WARP: u32 = 32;
/// Warps of a block, which share the rows of a round. Of short rows, two warps score all that is left after some rounds
/// at once, and more blocks hide more barriers; long rows take a warp several trips to memory each.
const fn warps(row_bytes: u32) -> u32 {
    if row_bytes <= 512 { 2 } else { 4 }
}

/// Rows that have kernels of their own: see [`crate::search`].
const SPECIALIZED: [(ElementKind, u32); 9] = [
    (ElementKind::U8, 128),
    (ElementKind::F16, 192),
    (ElementKind::F16, 1920),
    (ElementKind::F16, 3072),
    (ElementKind::F32, 384),
    (ElementKind::F32, 512),
    (ElementKind::F32, 800),
    (ElementKind::F32, 3840),
    (ElementKind::F32, 6144),
];

/// What both families are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rows {
    element: ElementKind,
    measure: Measure,
    row_bytes: Option<u32>,
}

impl Rows {
    /// # Panics
    /// If no graph is built with `form` on such rows.
    fn new(element: ElementKind, form: Form, row_bytes: u32) -> Self {
        let measure = Measure::of(form);
        let sound = form == Form::Angle && element.is_integer() || measure == Measure::SquaredL2;
        assert!(sound, "no graph of {element} rows is built by {form:?}");
        let known = measure == Measure::SquaredL2 && SPECIALIZED.contains(&(element, row_bytes));
        Self { element, measure, row_bytes: known.then_some(row_bytes) }
    }

    fn entry(&self, family: &str) -> Cow<'static, str> {
        let length = self.row_bytes.map(|bytes| format!("_b{bytes}")).unwrap_or_default();
        format!("{family}_{}_{}{length}", self.element, self.measure.name()).into()
    }

    /// A block for each of `lists`, of up to `capacity` candidates.
    fn launch(&self, args: &PruneArgs, lists: u32, capacity: u32) -> Launch {
        let PruneArgs { max_degree, graph, .. } = args;
        let (row_bytes, stride) = (graph.row_bytes, graph.links_stride);
        assert!(row_bytes.is_multiple_of(16), "row_bytes ({row_bytes}) must be a multiple of 16");
        assert_eq!(row_bytes, self.row_bytes.unwrap_or(row_bytes), "{self:?}");
        assert!(stride.is_multiple_of(WARP), "links_stride ({stride}) must be a multiple of {WARP}");
        assert!((1..=stride).contains(max_degree), "max_degree ({max_degree}) must be 1 to {stride}");
        let warps = warps(row_bytes);
        assert!(capacity >= warps, "{capacity} candidates are fewer than the {warps} warps of a block");
        assert!(capacity <= 1 << 16, "{capacity} candidates are more than the 65536 of a block");
        let shared = Layout::new(capacity, *max_degree, stride, warps).end;
        Launch::linear(lists, warps * WARP).with_shared(shared)
    }
}

/// The kernel that links new vertices. Arguments: [`LinkArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link(Rows);

/// The kernel that merges new edges into the rows of their targets. Arguments: [`MergeArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge(Rows);

impl Link {
    /// The kernel for rows of `row_bytes` that are scored by `form`.
    ///
    /// # Panics
    /// If no graph is built with `form` on such rows.
    pub fn for_rows(element: ElementKind, form: Form, row_bytes: u32) -> Self {
        Self(Rows::new(element, form, row_bytes))
    }
}

impl Merge {
    /// The kernel for rows of `row_bytes` that are scored by `form`.
    ///
    /// # Panics
    /// If no graph is built with `form` on such rows.
    pub fn for_rows(element: ElementKind, form: Form, row_bytes: u32) -> Self {
        Self(Rows::new(element, form, row_bytes))
    }
}

impl Kernel for Link {
    type Args = LinkArgs;

    fn entry(&self) -> Cow<'static, str> {
        self.0.entry("link")
    }

    /// # Panics
    /// If an argument is outside of its bounds, or rows are of another length than this kernel is for.
    fn launch(&self, args: &LinkArgs) -> Launch {
        self.0.launch(&args.prune, args.lists, link_capacity(args.candidates_stride))
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(LinkArgs) {
        super::entries::link_body(&self.entry())
    }
}

impl Kernel for Merge {
    type Args = MergeArgs;

    fn entry(&self) -> Cow<'static, str> {
        self.0.entry("merge")
    }

    /// # Panics
    /// If an argument is outside of its bounds, or rows are of another length than this kernel is for.
    fn launch(&self, args: &MergeArgs) -> Launch {
        let capacity = merge_capacity(args.prune.max_candidates, args.prune.max_degree);
        self.0.launch(&args.prune, args.targets, capacity)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(MergeArgs) {
        super::entries::merge_body(&self.entry())
    }
}

/// The kernel that turns links around. Arguments: [`TurnAroundArgs`].
#[derive(Clone, Copy, Debug)]
pub struct TurnAround;

impl Kernel for TurnAround {
    type Args = TurnAroundArgs;

    fn entry(&self) -> Cow<'static, str> {
        "turn_around".into()
    }

    fn launch(&self, args: &TurnAroundArgs) -> Launch {
        Launch::linear((args.lists * args.links_stride).div_ceil(ROW_THREADS), ROW_THREADS)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(TurnAroundArgs) {
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
