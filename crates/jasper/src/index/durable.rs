//! Durable indexes, whose changes are on disk before their calls return.

use std::path::Path;

use jasper_core::Element;
use jasper_graph::SaveStats;

use super::{Index, OpenError, OpenOptions};
use crate::journal::{self, JournalError, JournalFault, check_durable};
use crate::progress::long_calls;

impl<T: Element> Index<T> {
    /// Opens a durable index: every change is on disk before its call returns. After a crash or a power cut, the index
    /// opens with exactly the changes whose calls returned, and at most those that were under way.
    ///
    /// ```
    /// use jasper::{Index, IndexBuilder, Metric};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path().join("vectors");
    /// IndexBuilder::new(Metric::L2).empty::<u8>(2)?.save_durable(&folder)?;
    ///
    /// let index = Index::<u8>::open_durable(&folder)?;
    /// index.insert_one(&[1, 2], 7)?; // On disk from here on.
    /// drop(index);
    /// assert_eq!(Index::<u8>::open_durable(&folder)?.vector(7), Some(vec![1, 2]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The folder, which [`Self::save_durable`] makes, has a snapshot of the index and a journal of the changes since.
    /// Opening reads the snapshot and makes these changes again, in their order, which takes about half as long as they
    /// took. The result has the same bytes as the index before, except that float vectors that were changed on a CUDA
    /// device may have a few other edges.
    ///
    /// A change writes its vectors and keys to the journal and syncs it once; changes that threads make at the same
    /// time share this. Another thread does so while an insert, an upsert or a consolidation is computed, which is
    /// visible when both are done. When the journal has grown to at least 32 MiB and half the size of the snapshot, the
    /// change writes a new [snapshot](Self::snapshot), which empties the journal. If this fails, the index goes on with
    /// the longer journal, and tries again when the journal has grown by the same amount.
    ///
    /// A change that cannot be written to the journal is not made, and returns [`UpdateError::Journal`]; later ones may
    /// succeed, when the disk has room again for example. Only if the disk stays broken from then until the process
    /// ends may the refused change reappear when the folder is opened again. [`Self::build_sketches`] is not in the
    /// journal.
    ///
    /// If the disk is full when the folder is opened, or the folder cannot be written, its journal is read into memory,
    /// and every change is refused until the folder is opened again.
    ///
    /// [`OpenOptions::open`] opens the folder on a device, or with other options.
    ///
    /// [`UpdateError::Journal`]: crate::UpdateError::Journal
    ///
    /// # Errors
    /// Returns [`OpenError`]; [`OpenError::Journal`] if the folder is in use, by this process or another, is not that
    /// of a durable index, or has a damaged journal, or another snapshot than the journal continues.
    pub fn open_durable(folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        OpenOptions::new().open(check_durable(folder.as_ref())?)
    }
}

// `index` is the `self` of the calls.
long_calls! {
    impl<T: Element> Index<T> as (index, progress);

    /// Writes the index to a new folder, for [`Self::open_durable`]. Later changes of `self` do not go there. The folder
    /// may exist if it is empty, or if a process was killed while it made it; its parent must exist.
    ///
    /// # Errors
    /// Returns [`JournalError`], also if the folder has a durable index or other files, which stay as they are. What
    /// this call wrote is removed.
    pub fn save_durable(folder: impl AsRef<Path>) -> Result<SaveStats, JournalError> {
        let folder = folder.as_ref();
        if index.shards() > 1 {
            return Err(JournalError::new(folder, JournalFault::Sharded));
        }
        journal::create(folder, |path| index.with_progress(progress).save(path))
    }

    /// Writes a snapshot of a durable index and empties its journal, so that it opens faster. Snapshots are also taken
    /// [from time to time](Self::open_durable).
    ///
    /// The cost is that of [`Self::save`] to a new file, with room for both. Changes wait meanwhile; searches do not.
    ///
    /// # Errors
    /// Returns [`JournalError`]; [`JournalFault::NotDurable`] if the index was not opened by [`Self::open_durable`].
    /// The changes are on disk still.
    pub fn snapshot() -> Result<(), JournalError> {
        index.changes.take_snapshot(false, progress)
    }
}
