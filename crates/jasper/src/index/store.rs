//! Saving, and building the graph again.

use std::path::Path;

use jasper_graph::SaveStats;

use super::{Index, OpenOptions};
#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Result;
use crate::journal::Follower;
use crate::{Device, IndexBuilder};

impl Index {
    /// Opens an index file, the folder of a [sharded index](crate::IndexBuilder::shards), or the folder of a [durable
    /// index](Self::save_durable), in host memory. [`OpenOptions`] opens it on a device, or with other options.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// Writes the index to `path`. A file that is there is replaced in one step, when the new one is complete. If it
    /// differs from the index only in codes and tuned searches, [these alone are written](jasper_graph::Graph::save),
    /// as after [`Self::quantize`] or [`Self::tune`]; that is one step as well.
    ///
    /// If it has several [shards](IndexBuilder::shards), `path` is a folder, of one file per shard and a manifest that is
    /// written last.
    ///
    /// Changes wait meanwhile; searches wait only while edges copied from a CUDA device are stored, one segment at a
    /// time.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Io`] if the file cannot be written, [`ErrorKind::Device`] if edges cannot be copied from
    /// the device, [`ErrorKind::InvalidFile`] if the folder for shards has other files, or [`ErrorKind::Cancelled`].
    /// The old file is unchanged, except after an error whose message says that the new one is written and cannot be
    /// synced (`jasper_graph::FileFault::NotSynced`): it is complete, but may be lost if the system fails.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<SaveStats> {
        self.save_to(path.as_ref())
    }

    fn save_to(&self, path: &Path) -> Result<SaveStats> {
        Ok(self.inner.save(path, &mut self.progress.report())?)
    }

    /// The bytes of the file that [`Self::save`] writes, for other places than the file system.
    /// [`OpenOptions::open_bytes`] reads them.
    ///
    /// ```
    /// # use jasper::{Index, IndexBuilder, MatrixView, Metric, OpenOptions};
    /// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
    /// let copy = OpenOptions::new().open_bytes(&index.to_bytes()?)?;
    /// assert_eq!(copy.vector(1), Some(vec![3.0, 4.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Device`] if the device failed or the index has several shards, or with
    /// [`ErrorKind::Cancelled`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.inner.to_bytes(&mut self.progress.report())?)
    }

    /// Writes the index to a new folder. [`Self::open`] opens it as a durable index: every change is on disk before its
    /// call returns. After a crash or a power cut, the index opens with exactly the changes whose calls returned, and at
    /// most those that were under way. Later changes of `self` do not go there.
    ///
    /// ```
    /// use jasper::{ElementKind, Index, IndexBuilder, Metric};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path().join("vectors");
    /// IndexBuilder::new(Metric::L2).empty(ElementKind::U8, 2)?.save_durable(&folder)?;
    ///
    /// let index = Index::open(&folder)?;
    /// index.insert(&[1_u8, 2], &[7])?; // On disk from here on.
    /// drop(index);
    /// assert_eq!(Index::open(&folder)?.vector(7), Some(vec![1.0, 2.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The folder has a snapshot of the index, or of each of its shards, and a journal of the changes since. It may exist if it is empty, or if a
    /// process was killed while it made it; its parent must exist. Opening reads the snapshot and makes these changes again,
    /// in their order, which takes about half as long as they took. The result has the same bytes as the index before,
    /// except that float vectors that were changed on a CUDA device may have a few other edges.
    ///
    /// A change writes its vectors and keys to the journal and syncs it once; changes that threads make at the same
    /// time share this. Another thread does so while an insert, an upsert or a consolidation is computed, which is
    /// visible when both are done. When the journal has grown to at least 32 MiB and half the size of the snapshot, the
    /// change writes a new [snapshot](Self::snapshot), which empties the journal. If this fails, the index goes on with
    /// the longer journal, and tries again when the journal has grown by the same amount.
    ///
    /// A change that cannot be written to the journal is not made, and fails with [`ErrorKind::Io`]; later ones may
    /// succeed, when the disk has room again for example. Only if the disk stays broken from then until the process
    /// ends may the refused change reappear when the folder is opened again. [Sketches](crate::QuantizeMode::Sketches) are not in
    /// the journal.
    ///
    /// If the folder cannot be written when it is opened, every change is refused until it is opened again. Other indexes
    /// may [follow](OpenOptions::follow) the one that has the folder open.
    ///
    /// # Errors
    /// What this call wrote is removed. Fails with [`ErrorKind::AlreadyExists`] if the folder has a durable index or
    /// other files, which stay as they are, with [`ErrorKind::InUse`] if a durable index is open there, or as
    /// [`Self::save`].
    pub fn save_durable(&self, folder: impl AsRef<Path>) -> Result<SaveStats> {
        self.save_durable_to(folder.as_ref())
    }

    fn save_durable_to(&self, folder: &Path) -> Result<SaveStats> {
        Ok(self.inner.save_durable(folder, &mut self.progress.report())?)
    }

    /// Writes a snapshot of a durable index and empties its journal, so that it opens faster. Snapshots are also taken
    /// [from time to time](Self::save_durable).
    ///
    /// The cost is that of [`Self::save`] to a new file, with room for both. Changes wait while the index is copied in memory,
    /// and go on while the copy is written; if the copy would take more than half of the free memory, they wait until the
    /// end. Searches do not wait.
    ///
    /// # Errors
    /// The changes are on disk still. Fails with [`ErrorKind::Unsupported`] if the index was not opened from such a
    /// folder, or as [`Self::save`].
    pub fn snapshot(&self) -> Result<()> {
        Ok(self.inner.snapshot(&mut self.progress.report())?)
    }

    /// Makes at once the changes that the index [follows](OpenOptions::follow), as far as their calls have returned, but for
    /// those that returned while the journal was being synced for others. Returns how many it made; others may have been
    /// made since the last call. Returns 0 if the index follows no other.
    ///
    /// # Errors
    /// The index is as before, or has some of the changes. Fails with [`ErrorKind::Behind`] if the folder is to be
    /// opened again, with [`ErrorKind::Io`] or [`ErrorKind::InvalidFile`] if the journal cannot be read, or with the
    /// error of a change that cannot be made again.
    pub fn catch_up(&self) -> Result<usize> {
        Ok(self.inner.changes.follower.get().map_or(Ok(0), Follower::catch_up)?)
    }

    /// Builds a new index over the same vectors and keys, with the same shards, quantization and parameters, of which the
    /// build beam width [may become wider](IndexBuilder::build_beam_width), on `device`, where it then
    /// [is](IndexBuilder::device).
    ///
    /// Only the host's copy of vectors and keys is read. If the index is on a CUDA device that failed, this saves every
    /// change that was made; only edges are lost there, and are computed again:
    ///
    /// ```
    /// # use jasper::{Device, Index, IndexBuilder, MatrixView, Metric};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("vectors.jasper");
    /// # let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
    /// index.insert(&[5_u8, 6], &[17])?;
    /// if let Err(error) = index.save(&path) {
    ///     eprintln!("{error}; building the index again");
    ///     index.rebuild(Device::CPU)?.save(&path)?;
    /// }
    /// # assert_eq!(index.rebuild(Device::CPU)?.vector(17), Some(vec![5.0, 6.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The new index has no deleted keys, no tuned searches and no journal. Codes are trained again, on the vectors that
    /// are left; if these are too few, of one shard or all, the new index has no codes. The cost is that of a build.
    /// Searches continue meanwhile; changes wait.
    ///
    /// This index keeps its device memory meanwhile, so `device` may have too little for both. The error
    /// then [has the new index](crate::Error::into_index), in host memory.
    ///
    /// # Errors
    /// As [`IndexBuilder::build`]; with [`ErrorKind::Unsupported`] if vectors were [dropped](Self::drop_vectors).
    pub fn rebuild(&self, device: Device) -> Result<Self> {
        let rebuilt = self.inner.rebuild(device, &mut self.progress.report())?;
        IndexBuilder::new(self.stats().metric).device(device).placed(rebuilt.into())
    }
}
