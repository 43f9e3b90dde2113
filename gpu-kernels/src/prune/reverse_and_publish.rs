//! Reverses edges, and writes rows into the graph.

use cuda_std::prelude::*;

use super::{PublishRowsArgs, ReverseEdgesArgs};
use crate::graph::NO_SLOT;

/// Reverses edges; one thread per edge.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn reverse_edges(args: ReverseEdgesArgs) {
    let edge = thread::index_1d() as usize;
    if edge >= args.vertices_len as usize * args.edges_stride as usize {
        return;
    }
    // SAFETY: the index is below the number of edges.
    unsafe {
        let target = global::load_streaming(args.neighbors.at(edge));
        let mut key = u64::MAX;
        if target != NO_SLOT {
            key =
                u64::from(target) << 32 | u64::from(global::load_streaming(args.ordered_distances.at(edge)));
        }
        global::store(args.sort_keys.at(edge), key);
        let source = global::load_readonly(args.row_vertices.at(edge / args.edges_stride as usize));
        global::store(args.sources.at(edge), source);
    }
}

const EDGES_PER_THREAD: usize = super::EDGES_PER_THREAD as usize;

/// Writes rows into the graph; one thread per four edges.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn publish_rows(args: PublishRowsArgs) {
    let (thread, threads_per_row) =
        (thread::index_1d() as usize, args.edges_stride as usize / EDGES_PER_THREAD);
    let (row, at) = (thread / threads_per_row, thread % threads_per_row * EDGES_PER_THREAD);
    if row >= args.rows_len as usize {
        return;
    }
    // SAFETY: the row exists; each vertex has one.
    unsafe {
        let vertex = global::load_readonly(args.row_vertices.at(row));
        if vertex != NO_SLOT {
            let stride = args.edges_stride as usize;
            let neighbors: [u32; EDGES_PER_THREAD] =
                global::load_streaming(args.neighbors.at(row * stride + at).cast());
            // Searches may be reading the row.
            global::store_relaxed(args.edges.at(vertex as usize * stride + at).cast(), neighbors);
        }
    }
}
