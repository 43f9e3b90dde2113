//! Reverses edges, and writes rows into the graph.

use cuda_std::prelude::*;

use super::{PublishArgs, ReverseEdgesArgs};
use crate::graph::NO_ROW;

/// Reverses edges; one thread per link.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn turn_around(args: ReverseEdgesArgs) {
    let link = thread::index_1d() as usize;
    if link >= args.lists as usize * args.links_stride as usize {
        return;
    }
    // SAFETY: below the number of links.
    unsafe {
        let target = global::load_streaming(args.ids.at(link));
        let mut key = u64::MAX;
        if target != NO_ROW {
            key = u64::from(target) << 32 | u64::from(global::load_streaming(args.distances.at(link)));
        }
        global::store(args.keys.at(link), key);
        let source = global::load_readonly(args.vertices.at(link / args.links_stride as usize));
        global::store(args.sources.at(link), source);
    }
}

/// Links per thread.
const AT_ONCE: usize = 4;

/// Writes rows into the graph; one thread per four links.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn publish_rows(args: PublishArgs) {
    let (piece, pieces) = (thread::index_1d() as usize, args.links_stride as usize / AT_ONCE);
    let (row, at) = (piece / pieces, piece % pieces * AT_ONCE);
    if row >= args.rows as usize {
        return;
    }
    // SAFETY: there is such a row; each vertex has one.
    unsafe {
        let vertex = global::load_readonly(args.vertices.at(row));
        if vertex != NO_ROW {
            let stride = args.links_stride as usize;
            let ids: [u32; AT_ONCE] = global::load_streaming(args.ids.at(row * stride + at).cast());
            global::store(args.links.at(vertex as usize * stride + at).cast(), ids);
        }
    }
}
