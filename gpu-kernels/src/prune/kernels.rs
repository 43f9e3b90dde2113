//! The kernels (PTX entry points): those of each family for each [row kind](crate::row_kind). When one is loaded for a
//! length of rows, other launch bounds replace these (`specialization` in `launches`).

cfg_if! { if #[cfg(feature = "kernels")] {
    use super::pair_distances::Rows;
    use super::{find_peers, merge, prune_new, repair, rescore};
    use crate::element::{Dot, F16, F32, I8, SquaredL2, U8};
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    use crate::graph::DistanceOpKind;
    use crate::row_kind::{F16_DOT, F16_L2, F32_DOT, F32_L2, I8_DOT, I8_L2, RowKind, U8_DOT, U8_L2};
} }

use super::{FindPeersArgs, MergeArgs, PruneNewArgs, RepairArgs, RescoreArgs};
use crate::entry::entry_table;

entry_table! {
    /// Prunes the candidates of new vertices.
    prunes PRUNE_NEW: RowKind => PruneNewArgs;
    F32_L2 => prune_new_f32_l2 = prune_new::prune_new::<Rows<F32, SquaredL2>>, max_threads 128, min_blocks 3;
    F32_DOT => prune_new_f32_dot = prune_new::prune_new::<Rows<F32, Dot>>, max_threads 128, min_blocks 3;
    F16_L2 => prune_new_f16_l2 = prune_new::prune_new::<Rows<F16, SquaredL2>>, max_threads 128, min_blocks 3;
    F16_DOT => prune_new_f16_dot = prune_new::prune_new::<Rows<F16, Dot>>, max_threads 128, min_blocks 3;
    U8_L2 => prune_new_u8_l2 = prune_new::prune_new::<Rows<U8, SquaredL2>>, max_threads 128, min_blocks 3;
    U8_DOT => prune_new_u8_dot = prune_new::prune_new::<Rows<U8, Dot>>, max_threads 128, min_blocks 3;
    I8_L2 => prune_new_i8_l2 = prune_new::prune_new::<Rows<I8, SquaredL2>>, max_threads 128, min_blocks 3;
    I8_DOT => prune_new_i8_dot = prune_new::prune_new::<Rows<I8, Dot>>, max_threads 128, min_blocks 3;
}

entry_table! {
    /// Merges back edges into rows.
    merges MERGE: RowKind => MergeArgs;
    F32_L2 => merge_f32_l2 = merge::merge::<Rows<F32, SquaredL2>>, max_threads 128, min_blocks 3;
    F32_DOT => merge_f32_dot = merge::merge::<Rows<F32, Dot>>, max_threads 128, min_blocks 3;
    F16_L2 => merge_f16_l2 = merge::merge::<Rows<F16, SquaredL2>>, max_threads 128, min_blocks 3;
    F16_DOT => merge_f16_dot = merge::merge::<Rows<F16, Dot>>, max_threads 128, min_blocks 3;
    U8_L2 => merge_u8_l2 = merge::merge::<Rows<U8, SquaredL2>>, max_threads 128, min_blocks 3;
    U8_DOT => merge_u8_dot = merge::merge::<Rows<U8, Dot>>, max_threads 128, min_blocks 3;
    I8_L2 => merge_i8_l2 = merge::merge::<Rows<I8, SquaredL2>>, max_threads 128, min_blocks 3;
    I8_DOT => merge_i8_dot = merge::merge::<Rows<I8, Dot>>, max_threads 128, min_blocks 3;
}

entry_table! {
    /// Compares new vertices with each other.
    peers FIND_PEERS: RowKind => FindPeersArgs;
    F32_L2 => find_peers_f32_l2 = find_peers::find_peers::<Rows<F32, SquaredL2>>, max_threads 128, min_blocks 3;
    F32_DOT => find_peers_f32_dot = find_peers::find_peers::<Rows<F32, Dot>>, max_threads 128, min_blocks 3;
    F16_L2 => find_peers_f16_l2 = find_peers::find_peers::<Rows<F16, SquaredL2>>, max_threads 128, min_blocks 3;
    F16_DOT => find_peers_f16_dot = find_peers::find_peers::<Rows<F16, Dot>>, max_threads 128, min_blocks 3;
    U8_L2 => find_peers_u8_l2 = find_peers::find_peers::<Rows<U8, SquaredL2>>, max_threads 128, min_blocks 3;
    U8_DOT => find_peers_u8_dot = find_peers::find_peers::<Rows<U8, Dot>>, max_threads 128, min_blocks 3;
    I8_L2 => find_peers_i8_l2 = find_peers::find_peers::<Rows<I8, SquaredL2>>, max_threads 128, min_blocks 3;
    I8_DOT => find_peers_i8_dot = find_peers::find_peers::<Rows<I8, Dot>>, max_threads 128, min_blocks 3;
}

entry_table! {
    /// Repairs rows around deleted neighbors.
    repairs REPAIR: RowKind => RepairArgs;
    F32_L2 => repair_f32_l2 = repair::repair::<Rows<F32, SquaredL2>>, max_threads 128, min_blocks 3;
    F32_DOT => repair_f32_dot = repair::repair::<Rows<F32, Dot>>, max_threads 128, min_blocks 3;
    F16_L2 => repair_f16_l2 = repair::repair::<Rows<F16, SquaredL2>>, max_threads 128, min_blocks 3;
    F16_DOT => repair_f16_dot = repair::repair::<Rows<F16, Dot>>, max_threads 128, min_blocks 3;
    U8_L2 => repair_u8_l2 = repair::repair::<Rows<U8, SquaredL2>>, max_threads 128, min_blocks 3;
    U8_DOT => repair_u8_dot = repair::repair::<Rows<U8, Dot>>, max_threads 128, min_blocks 3;
    I8_L2 => repair_i8_l2 = repair::repair::<Rows<I8, SquaredL2>>, max_threads 128, min_blocks 3;
    I8_DOT => repair_i8_dot = repair::repair::<Rows<I8, Dot>>, max_threads 128, min_blocks 3;
}

entry_table! {
    /// Replaces the distances of candidates by those of SQ8 vectors.
    rescores RESCORE: DistanceOpKind => RescoreArgs;
    DistanceOpKind::SquaredL2 => rescore_l2 = rescore::rescore::<Rows<I8, SquaredL2>>, max_threads 128, min_blocks 4;
    DistanceOpKind::Dot => rescore_dot = rescore::rescore::<Rows<I8, Dot>>, max_threads 128, min_blocks 4;
}
