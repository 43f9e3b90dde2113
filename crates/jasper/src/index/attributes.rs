//! Attributes of keys.

use jasper_attributes::Frame;
use jasper_core::Key;

use super::Index;
#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Result;

impl Index {
    /// Sets attributes of keys, a row of the frame for each key. Attributes that the frame does not have stay as they are.
    /// Vectors and edges are not touched.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// use jasper::attributes::{Frame, column};
    ///
    /// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4, 5, 6], 2)?)?;
    /// index.set_attributes(&[0, 2], &Frame::new(2).column("price", [7.5, 12.0])?)?;
    /// let cheap = column("price").lt(10.0);
    /// let hits = index.search(&[5_u8, 6], SearchParams::new(3).filter(&cheap))?;
    /// assert_eq!((hits.len(), hits[0].key), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The index is unchanged. Fails with [`ErrorKind::InvalidInput`] if there is not one row per key, a value has
    /// another type than its column, or an id is that of another key; with [`ErrorKind::UnknownKey`] if a key is not in
    /// the index; with [`ErrorKind::DuplicateKey`] if one is given twice; with [`ErrorKind::Unsupported`] if the index
    /// follows another; with [`ErrorKind::Io`] if it is durable and its journal cannot be written; and with
    /// [`ErrorKind::Device`].
    pub fn set_attributes(&self, keys: &[Key], attributes: &Frame) -> Result<()> {
        Ok(self.inner.changes.set_attributes(keys, attributes)?)
    }

    /// Returns the attributes of keys, such as those of hits, a row for each: null for keys that are not in the index.
    /// The frame has all columns, also for no keys.
    pub fn attributes(&self, keys: &[Key]) -> Frame {
        self.inner.attributes(keys)
    }

    /// Returns the key with an id, a value of the column of type [`Id`](crate::attributes::ColumnKind::Id).
    pub fn key_of(&self, id: &str) -> Option<Key> {
        let mut shards = self.inner.backend.shards_or_self().into_iter();
        shards.find_map(|shard| shard.read(|graph| graph.keys().attributes().key_of_id(id)))
    }
}
