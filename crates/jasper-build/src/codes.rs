//! Codes for the rows of a graph: learnt from a sample, made by all threads.

use std::sync::Arc;

use jasper_core::synthetic::permutation;
use jasper_core::{Element, MatrixView, VectorId};
use jasper_graph::{CodeBlock, Graph, RowError};
use jasper_quant::{Code, Quantizer, TrainError};
use rayon::prelude::*;

use crate::CpuExecutor;

/// Rows could not be coded. The graph is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// Nothing can be learnt from the rows.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// There is no memory for the codes.
    #[error(transparent)]
    Row(#[from] RowError),
}

/// Live rows that a quantizer learns from at most: a mean and components need no more.
const SAMPLE_ROWS: usize = 65_536;

/// Codes all rows of `graph`, in the place of what codes there are, and keeps them in step from then on.
///
/// The same codes on any number of threads. Cost: [`Code::train`] on a sample, and a pass over the rows.
///
/// # Errors
/// [`QuantizeError`].
pub fn quantize<T: Element>(
    executor: &CpuExecutor,
    graph: &mut Graph<T>,
    code: Code,
) -> Result<(), QuantizeError> {
    let quantizer = learn(executor, graph, code)?;
    graph.quantize(quantizer, |blocks| {
        executor.pool().install(|| blocks.into_par_iter().for_each(CodeBlock::fill));
    })?;
    Ok(())
}

/// A quantizer of this kind for rows like those of `graph`.
fn learn<T: Element>(
    executor: &CpuExecutor,
    graph: &Graph<T>,
    code: Code,
) -> Result<Arc<dyn Quantizer>, TrainError> {
    let slots = permutation(graph.slots(), graph.params().seed());
    let live = slots.into_iter().map(VectorId::new).filter(|&slot| graph.is_live(slot));
    let rows: Vec<T> = live.take(SAMPLE_ROWS).flat_map(|slot| graph.vector(slot).iter().copied()).collect();
    code.train(graph.metric(), MatrixView::new(&rows, graph.dimension())?, executor.pool())
}
