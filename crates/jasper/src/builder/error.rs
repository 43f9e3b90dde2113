//! Options of a build that exclude each other.

use crate::backend::MAX_SHARDS;

/// Options of a build exclude each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// An option that needs vectors was set for [`IndexBuilder::empty`](crate::IndexBuilder::empty).
    #[error("{0} needs vectors, and the index is empty; leave it out, or build from vectors")]
    Empty(&'static str),
    /// The number of shards is out of its bounds.
    #[error("shards ({0}) must be between 1 and {max}", max = MAX_SHARDS)]
    Shards(usize),
    /// An option was set that shards do not have.
    #[error("{0} is not supported with several shards; leave it out, or build one graph")]
    Sharded(&'static str),
}

#[cfg(test)]
mod tests {
    use jasper_core::{MatrixView, Metric};

    use crate::{Device, ErrorKind, IndexBuilder};

    #[test]
    fn an_index_that_cannot_be_moved_is_in_the_error() {
        let builder = IndexBuilder::new(Metric::L2).threads(1);
        let index = builder.build(MatrixView::new(&[1_u8, 2, 3, 4], 2).unwrap()).unwrap();
        let there = builder.clone().device(Device::cuda(999));
        let error = there.placed(index).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.starts_with("device cuda:999 cannot be used"), "{source}");
        assert_eq!(error.into_index().unwrap().vector(1), Some(vec![3.0, 4.0]));
        let index = builder.build(MatrixView::new(&[1_u8, 2, 3, 4], 2).unwrap()).unwrap();
        assert_eq!(there.keep_on_host(true).placed(index).unwrap().device(), Device::CPU);
    }
}
