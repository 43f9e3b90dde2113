//! What the CPU does with graphs in host memory, compiled in this crate for each element type.
//!
//! A generic function is compiled in each crate that calls it, where small functions of this crate are not inlined. The
//! loops of searches and builds are therefore called through tables of functions, one for each element type.

use std::any::Any;
use std::convert::Infallible;

use jasper_core::{Element, ProgressFn, Slot, f16};
use jasper_graph::Graph;

use crate::adopt::adopt_graph;
use crate::{
    ChangeHooks, Checkpoints, ConsolidateReport, CpuExecutor, GraphAccess, Hit, Ingested, InsertReport,
    Linked, MatchesMut, NewVectors, ScalarQuantizer, SearchError, SearchParams, SearchReport, UpdateError,
    bulk, consolidate, effort, insert, without_edges,
};

type Access<'a, T> = &'a mut dyn GraphAccess<Graph<T>>;

/// The functions for an element type.
#[expect(clippy::type_complexity, reason = "these are the signatures of functions")]
pub(crate) struct Compiled<T: Element> {
    pub(crate) search_one:
        fn(&CpuExecutor, &Graph<T>, &[T], SearchParams<'_>) -> Result<Vec<Hit>, SearchError>,
    pub(crate) search_batch: fn(
        &CpuExecutor,
        &Graph<T>,
        &[&[T]],
        SearchParams<'_>,
        MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError>,
    pub(crate) link: fn(
        &CpuExecutor,
        Ingested<T>,
        Option<&ScalarQuantizer>,
        Option<Checkpoints<'_>>,
        &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError>,
    pub(crate) missed_neighbors: fn(&CpuExecutor, &Graph<T>) -> Option<f64>,
    pub(crate) insert: fn(
        &CpuExecutor,
        Access<'_, T>,
        NewVectors<'_, T>,
        ChangeHooks<'_>,
    ) -> Result<InsertReport, UpdateError>,
    pub(crate) consolidate:
        fn(&CpuExecutor, Access<'_, T>, ChangeHooks<'_>) -> Result<ConsolidateReport, UpdateError>,
    pub(crate) adopt: fn(&CpuExecutor, &mut Graph<T>, &mut ProgressFn<'_>) -> Result<(), UpdateError>,
    pub(crate) without_edges:
        fn(&CpuExecutor, Access<'_, T>, &[Slot], &mut dyn FnMut()) -> Result<(), Infallible>,
}

static F32: Compiled<f32> = Compiled::NEW;
static F16: Compiled<f16> = Compiled::NEW;
static U8: Compiled<u8> = Compiled::NEW;
static I8: Compiled<i8> = Compiled::NEW;

impl<T: Element> Compiled<T> {
    const NEW: Self = Self {
        search_one: CpuExecutor::search_one,
        search_batch: CpuExecutor::search_batch,
        link: bulk::link,
        missed_neighbors: effort::missed,
        insert,
        consolidate,
        adopt: adopt_graph,
        without_edges,
    };

    pub(crate) fn get() -> &'static Self {
        let all: [&'static dyn Any; 4] = [&F32, &F16, &U8, &I8];
        all.into_iter().find_map(|compiled| compiled.downcast_ref()).expect("each element type is here")
    }
}
