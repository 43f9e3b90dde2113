//! Where vectors are kept: in the index file or not, and on a GPU in its memory or in that of the host.

use anyhow::Result;
use jasper::{Device, Element, Index, MemorySpace, VectorStorage};

use crate::screen::Screen;

/// What becomes of vectors beside which there are codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Keep {
    /// They stay in the index file; what the index takes of a GPU is told with vectors in its memory
    Device,
    /// They stay in the index file; what the index takes of a GPU is told with vectors in memory of the host
    Host,
    /// Codes alone stay: answers have estimates, and nothing can be inserted any more
    None,
}

impl Keep {
    /// Drops vectors that are not to be kept.
    pub fn apply<T: Element>(self, index: &mut Index<T>) -> Result<()> {
        match self {
            Self::Device | Self::Host => Ok(()),
            Self::None => Ok(index.drop_vectors()?),
        }
    }

    /// Where vectors are while the index is on a GPU, if there are any.
    pub fn place(self) -> Option<VectorStorage> {
        match self {
            Self::Device => Some(VectorStorage::Device),
            Self::Host => Some(VectorStorage::Host),
            Self::None => None,
        }
    }
}

/// Where vectors are while the index is on a GPU.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OnDevice {
    /// Where vectors are while the index is on a GPU: device, or host, which is pinned memory there that the GPU reads over
    /// the bus, for indexes with codes; if not given on the device if all fits there, else on the host if there are codes
    #[arg(long, value_name = "WHERE", display_order = 93)]
    keep_vectors: Option<VectorStorage>,
}

impl OnDevice {
    /// Tells the index, before it goes to a device.
    pub fn tell<T: Element>(self, index: &mut Index<T>) {
        if let Some(place) = self.keep_vectors {
            index.set_vector_storage(place);
        }
    }
}

/// What an index takes of a GPU's memory with its vectors in that place; none where this program knows no GPUs.
pub fn device_bytes<T: Element>(index: &Index<T>, vectors: VectorStorage) -> Option<u64> {
    Some(index.plan_on_device(vectors)?.total(MemorySpace::Device))
}

/// Where searches read vectors, if that can be more than one place.
pub fn vectors_on<T: Element>(index: &Index<T>) -> Option<VectorStorage> {
    (index.device() != Device::Cpu).then(|| index.stats().vector_storage)
}

/// Notes that searches by exact distances wait for the bus, where they do; `is_exact` says that these are wanted.
pub fn note_bus<T: Element>(index: &Index<T>, is_exact: bool, screen: Screen) -> Result<()> {
    if vectors_on(index) == Some(VectorStorage::Host) && (is_exact || index.stats().quantization.is_none()) {
        screen.note(
            "exact distances, and vectors on the host: the GPU waits for the bus at every step; `jasper quantize` makes \
             codes, `--keep-vectors device` takes vectors to the GPU",
        )?;
    }
    Ok(())
}
