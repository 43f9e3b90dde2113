//! Where vectors are stored while an index is on a GPU.

use anyhow::Result;
use jasper::{Device, Element, Index, VectorStorage};

use crate::terminal::Terminal;

/// Where vectors are stored while the index is on a GPU.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct VectorStorageArgs {
    /// Where vectors are stored while the index is on a GPU: device, or host, which is pinned memory that the GPU reads over
    /// PCIe, for quantized indexes [default: device if everything fits there, else host if the index is quantized]
    #[arg(long, value_name = "STORAGE", display_order = 93)]
    vector_storage: Option<VectorStorage>,
}

impl VectorStorageArgs {
    /// Sets the storage of an index before it moves to a device.
    pub fn apply<T: Element>(self, index: &Index<T>) {
        if let Some(storage) = self.vector_storage {
            index.set_vector_storage(storage);
        }
    }
}

/// Where searches on a GPU read vectors; `None` on the CPU.
pub fn storage_on_device<T: Element>(index: &Index<T>) -> Option<VectorStorage> {
    (index.device() != Device::Cpu).then(|| index.stats().vector_storage)
}

/// Warns if exact searches on a GPU will read every vector over PCIe.
pub fn warn_pcie<T: Element>(index: &Index<T>, is_exact: bool, terminal: Terminal) -> Result<()> {
    let is_on_host = storage_on_device(index) == Some(VectorStorage::Host);
    if is_on_host && (is_exact || index.stats().quantization.is_none()) {
        terminal.note(
            "this search is limited by PCIe bandwidth: exact distances, and vectors in host memory; quantize the index with \
             `jasper quantize`, or store its vectors on the GPU with `--vector-storage device`",
        )?;
    }
    Ok(())
}
