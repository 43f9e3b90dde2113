//! Selects the kernel for an element, form and length of rows, and its grid.

use jasper_core::ElementKind;

use super::kernels::{FIND_PEERS, MERGE, PRUNE_NEW, REPAIR, RESCORE};
use super::layout::{Layout, MAX_CANDIDATES, merge_capacity, new_capacity, peers_capacity, repair_capacity};
use super::{FindPeersArgs, MergeArgs, PruneArgs, PruneNewArgs, RepairArgs, RescoreArgs};
use crate::graph::{DistanceForm, DistanceOpKind};
use crate::row_kind::RowKind;
use crate::{Entry, Kernel, LaunchConfig, RowShape, Specialization, WARP_SIZE, entry};

/// Warps per block, which share the candidates. Two suffice for short rows: once some candidates are dropped, they
/// process all others at once, and more resident blocks hide more barriers. A long row takes a warp several loads.
const fn warps(row_bytes: u32) -> u32 {
    if row_bytes <= 512 { 2 } else { 4 }
}

/// # Panics
/// Panics if no graph is built with `form` on rows of `element`.
fn kind_of(element: ElementKind, form: DistanceForm) -> RowKind {
    let sound = form != DistanceForm::Cosine || element.is_integer();
    assert!(sound, "no graph of {element} rows is built by {form:?}");
    RowKind::new(element, form.op())
}

/// One block per vertex or row, with room for `capacity` candidates.
fn launch(shape: RowShape, args: &PruneArgs, blocks: u32, capacity: u32) -> LaunchConfig {
    let PruneArgs { max_degree, graph, .. } = args;
    let stride = graph.edges_stride;
    shape.check(graph.shape);
    assert!(stride.is_multiple_of(WARP_SIZE), "edges_stride ({stride}) must be a multiple of {WARP_SIZE}");
    assert!((1..=stride).contains(max_degree), "max_degree ({max_degree}) must be 1 to {stride}");
    let warps = warps(graph.shape.row_bytes());
    assert!(capacity >= warps, "{capacity} candidates are fewer than the {warps} warps of a block");
    assert!(capacity <= MAX_CANDIDATES, "capacity ({capacity}) must be at most {MAX_CANDIDATES}");
    let shared = Layout::new(capacity, *max_degree, stride, warps).end;
    LaunchConfig::linear(blocks, warps * WARP_SIZE).with_shared(shared)
}

/// The launch bound, in resident blocks per multiprocessor, at which `ptxas` does not spill: `blocks`, or fewer for
/// many loads of halves, which are converted, and for rows that are not in flight as a whole, because `ptxas` unrolls
/// the loop over their units.
const fn min_blocks(element: ElementKind, shape: RowShape, blocks: u32) -> u32 {
    if !shape.fits_in_flight() {
        let fewer = shape.units_per_lane() / 8;
        return if fewer < blocks { blocks - fewer } else { 1 };
    }
    let takes_more = matches!(element, ElementKind::F16) && shape.units_in_flight * shape.rows_in_flight > 8;
    if takes_more && blocks > 3 { 3 } else { blocks }
}

/// Declares families of kernels, each with a kernel per row kind: `Family(Args) = table of entries, launch bound (resident
/// blocks per multiprocessor), |args| (blocks of the grid, candidates that a block has room for)`.
macro_rules! families {
    ($($(#[$doc:meta])* $Family:ident($Args:ty) = $TABLE:ident, min_blocks $min_blocks:literal, |$args:ident| $sizes:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $Family {
            kind: RowKind,
            shape: RowShape,
        }

        impl $Family {
            /// The kernel for rows of `row_bytes` bytes and distances of `form`.
            ///
            /// # Panics
            /// Panics if no graph is built with `form` on such rows.
            pub fn for_rows(element: ElementKind, form: DistanceForm, row_bytes: u32) -> Self {
                Self { kind: kind_of(element, form), shape: RowShape::new(row_bytes) }
            }
        }

        // SAFETY: the entry points take these arguments, and there is a block for each vertex or row.
        unsafe impl Kernel for $Family {
            type Args = $Args;

            fn entry(&self) -> Entry<$Args> {
                entry::find($TABLE, &self.kind)
            }

            /// # Panics
            /// Panics if an argument is out of bounds, or rows have another shape than this kernel is for.
            fn launch_config(&self, $args: &$Args) -> LaunchConfig {
                let (blocks, capacity) = $sizes;
                launch(self.shape, &$args.prune, blocks, capacity)
            }

            fn specialization(&self) -> Option<Specialization> {
                let min_blocks = min_blocks(self.kind.element, self.shape, $min_blocks);
                Some(Specialization::new(self.shape.constants(), min_blocks))
            }
        }
    )* };
}

/// The entry points of all families, each with its constants for rows of `row_bytes`.
pub(crate) fn specializations(
    row_bytes: u32,
) -> impl Iterator<Item = (&'static str, Option<Specialization>)> {
    fn of(kernel: impl Kernel) -> (&'static str, Option<Specialization>) {
        (kernel.entry().name, kernel.specialization())
    }
    let shape = RowShape::new(row_bytes);
    let families = move |kind| {
        [
            of(PruneNew { kind, shape }),
            of(Merge { kind, shape }),
            of(FindPeers { kind, shape }),
            of(Repair { kind, shape }),
        ]
    };
    let rescores = RESCORE.iter().map(move |(op, _)| of(Rescore::for_sq8(*op, row_bytes)));
    RowKind::ALL.into_iter().flat_map(families).chain(rescores)
}

families! {
    /// Prunes the candidates of new vertices. Arguments: [`PruneNewArgs`].
    PruneNew(PruneNewArgs) = PRUNE_NEW, min_blocks 4, |args| {
        (args.candidates.vertices_len, new_capacity(args.candidates.stride, args.others_len()))
    };
    /// Merges back edges into the rows of their targets. Arguments: [`MergeArgs`].
    Merge(MergeArgs) = MERGE, min_blocks 4, |args| {
        (args.targets_len, merge_capacity(args.prune.max_candidates, args.prune.max_degree))
    };
    /// Finds candidates in the same batch. Arguments: [`FindPeersArgs`].
    FindPeers(FindPeersArgs) = FIND_PEERS, min_blocks 4, |args| {
        (args.candidates.vertices_len, peers_capacity(args.chunk_len, args.prune.max_degree, args.candidates.stride))
    };
    /// Repairs rows with deleted neighbors. Arguments: [`RepairArgs`].
    Repair(RepairArgs) = REPAIR, min_blocks 3, |args| (args.rows_len, repair_capacity(&args.prune));
}

/// Replaces the distances of candidates by those of SQ8 vectors. Arguments: [`RescoreArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rescore {
    op: DistanceOpKind,
    shape: RowShape,
}

impl Rescore {
    /// The kernel for SQ8 vectors of `row_bytes` bytes.
    pub fn for_sq8(op: DistanceOpKind, row_bytes: u32) -> Self {
        Self { op, shape: RowShape::new(row_bytes) }
    }
}

// SAFETY: the entry points take these arguments, and there is a block for each vertex.
unsafe impl Kernel for Rescore {
    type Args = RescoreArgs;

    fn entry(&self) -> Entry<RescoreArgs> {
        entry::find(RESCORE, &self.op)
    }

    /// # Panics
    /// Panics if rows have another shape than this kernel is for.
    fn launch_config(&self, args: &RescoreArgs) -> LaunchConfig {
        self.shape.check(args.graph.shape);
        LaunchConfig::linear(args.candidates.vertices_len, 4 * WARP_SIZE)
    }

    fn specialization(&self) -> Option<Specialization> {
        let min_blocks = min_blocks(ElementKind::I8, self.shape, 4);
        Some(Specialization::new(self.shape.constants(), min_blocks))
    }
}
