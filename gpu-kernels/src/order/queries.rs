//! The memory and the launches of an order.

use jasper_core::ElementKind;

use super::{CELLS, CountCells, OrderArgs, PlaceQueries};
use crate::codes::CodeArgs;
use crate::graph::GraphArgs;
use crate::search::{QuantizedSearch, QuantizedSearchArgs, Search, SearchArgs};
use crate::{Buffer, DevicePtr, DevicePtrMut, Stream};

/// Start points that queries are compared with: what a warp scores at once.
const MAX_STARTS: u32 = crate::WARP_SIZE;

/// Memory for the order of a batch, which may be used for one batch after another.
pub struct QueryOrder<S: Stream> {
    /// `[capacity]`: the queries of the last batch in order.
    pub order: S::Buffer<u32>,
    /// `[capacity]`
    nearest: S::Buffer<u32>,
    /// `[capacity]`
    places: S::Buffer<u32>,
    /// `[CELLS]`
    counts: S::Buffer<u32>,
}

impl<S: Stream> QueryOrder<S> {
    /// Bytes of device memory per query.
    pub const BYTES_PER_QUERY: usize = 3 * size_of::<u32>();

    /// Allocates memory for batches of up to `capacity` queries.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    pub fn allocate(stream: &S, capacity: usize) -> Result<Self, S::Error> {
        Ok(Self {
            nearest: stream.allocate(capacity)?,
            places: stream.allocate(capacity)?,
            order: stream.allocate(capacity)?,
            counts: stream.allocate(CELLS as usize)?,
        })
    }

    /// Queues the launches that order the queries of `search`, by one warp each, and returns the search in that order.
    /// Vectors are of `element`; the nearest start points are found by `codes`, if there are some. The first start
    /// point, which is near the mean and so the nearest of many queries, is left out.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Panics
    /// If there are fewer than two start points, or more queries than there is memory for.
    ///
    /// # Safety
    /// As [`Stream::launch`] of the search, whose start points are shared by all queries. This lives until it has run.
    pub unsafe fn find(
        &mut self,
        stream: &S,
        search: SearchArgs,
        codes: Option<CodeArgs>,
        element: ElementKind,
    ) -> Result<SearchArgs, S::Error> {
        let (graph, len) = (search.graph, search.queries_len);
        assert!(graph.start_points_len > 1 && search.start_points_stride == 0, "no start points to compare");
        assert!(len as usize <= self.order.len(), "an order of {len} queries");
        let nearest = SearchArgs {
            graph: GraphArgs {
                start_points: graph.start_points.add(1),
                start_points_len: (graph.start_points_len - 1).min(MAX_STARTS),
                ..graph
            },
            allowed: DevicePtr::null(),
            results: DevicePtrMut::null(),
            costs: DevicePtrMut::null(),
            rerank_slots: stream.output(&mut self.nearest),
            rerank_len: 1,
            k: 0,
            beam_width: 1,
            frontier_len: 1,
            max_hops: 0,
            visited_buckets: 0,
            ..search
        };
        stream.fill(&mut self.counts, 0)?;
        let args = OrderArgs {
            nearest: stream.input(&self.nearest),
            counts: stream.output(&mut self.counts),
            places: stream.output(&mut self.places),
            order: stream.output(&mut self.order),
            len,
        };
        // The kernels of the search itself, which are loaded anyway.
        let frontier_len = search.frontier_len;
        // SAFETY: the caller's promise; the arrays have room for the queries, as asserted, and the counts are zero.
        unsafe {
            match codes {
                Some(codes) => stream.launch(
                    &QuantizedSearch::for_codes(&codes.shape, codes.level_bytes, frontier_len, 1),
                    QuantizedSearchArgs { search: nearest, codes },
                )?,
                None => {
                    let (op, row_bytes) = (search.form.op(), graph.shape.row_bytes());
                    stream.launch(&Search::for_rows(element, op, row_bytes, frontier_len, 1), nearest)?;
                }
            }
            stream.launch(&CountCells, args)?;
            stream.launch(&PlaceQueries, args)?;
        }
        Ok(SearchArgs { order: args.order.cast_const(), ..search })
    }
}
