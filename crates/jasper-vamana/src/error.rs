//! Errors of builds and updates.

use std::io;

use jasper_attributes::AttributeError;
use jasper_core::{Cancelled, DeviceError, Key, Metric};
use jasper_graph::{KeyError, VectorError};
use jasper_quant::{Quantization, TrainError};

use crate::CheckpointError;

/// An index could not be built or changed. Each operation documents the state that it leaves after an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// A vector cannot be stored, or there are only codes and the operation needs the vectors.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// A key cannot be inserted, deleted or restored.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key was given twice in one call.
    #[error("key {0} is given twice")]
    RepeatedKey(Key),
    /// Two indexes that are merged have the same key.
    #[error("key {0} is in both indexes; delete it from one of them")]
    KeyInBoth(Key),
    /// An index is merged into itself.
    #[error("an index cannot be merged into itself")]
    MergeWithItself,
    /// An index that is merged into another has no vectors, only codes.
    #[error("the other index stores codes only; merge one that has its vectors")]
    OtherWithoutVectors,
    /// Two indexes that are merged have different metrics: the one that grows, and the other.
    #[error("the index has the metric {0} and the other one {1}; merge indexes of one metric")]
    Metrics(Metric, Metric),
    /// Attributes cannot be set.
    #[error(transparent)]
    Attributes(#[from] AttributeError),
    /// The number of keys differs from the number of vectors.
    #[error("{keys} keys for {vectors} vectors; give one key per vector")]
    KeyCount {
        /// Keys given.
        keys: usize,
        /// Vectors given.
        vectors: usize,
    },
    /// The vectors could not be read from their source.
    #[error("the vectors could not be read")]
    Read(#[source] io::Error),
    /// No quantizer can be trained on the vectors.
    #[error(transparent)]
    Quantize(#[from] TrainError),
    /// Searches by codes would not find what exact searches find.
    #[error(
        "by {quantization} codes, {lost:.0}% of the vectors lose most of their nearest neighbors, and at most 2% may: even of \
         one in 64 vectors that are nearest by code, recall@10 is {recall:.3}; use auto, another quantization or none, or \
         `force` this one"
    )]
    CodesLose {
        /// The quantization.
        quantization: Quantization,
        /// Recall@10 of a sample, if one in 64 vectors are reranked that are nearest by code.
        recall: f64,
        /// Vectors that lose more than 6 of 10 neighbors, in percent.
        lost: f64,
    },
    /// The operation needs codes, and there are none.
    #[error("the index has no codes; quantize it first (`Index::quantize`, `jasper quantize`)")]
    NoCodes,
    /// The progress callback cancelled the operation.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A checkpoint of a bulk build cannot be written or resumed from.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The change cannot be written to the journal of a durable index.
    #[error(
        "the change cannot be written to the journal, and is not made; if the disk is full, free some space and repeat it"
    )]
    Journal(#[source] io::Error),
    /// The index follows a durable index, and makes its changes only.
    #[error("the index follows a durable index and makes its changes only; change the index that it follows")]
    Follower,
    /// The operating system refused a thread, one for each device or shard.
    #[error("a thread could not be started; raise the limit of processes, or use fewer devices")]
    Thread(#[source] io::Error),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl UpdateError {
    /// A failure of the device.
    pub fn device(error: impl Into<DeviceError>) -> Self {
        Self::Device(error.into())
    }
}
