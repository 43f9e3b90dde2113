//! Vertices moved into holes.

use gpu_kernels::rows::{MoveArgs, MoveRows, RenameArgs, RenameLinks};
use gpu_kernels::{Buffer as _, DevicePtrMut, Stream};
use jasper_core::{Element, Key, VectorId, padded_len};

use super::DeviceGraph;

/// Bytes of a word of a table.
const WORD: usize = size_of::<u32>();

/// The slots of vertices that move, on a device.
pub(super) struct Names<S: Stream> {
    /// `[moves]`
    from: S::Buffer<u32>,
    /// `[moves]`
    to: S::Buffer<u32>,
    /// `[slots - kept]`: what the slots behind those that remain are called.
    renamed: S::Buffer<u32>,
    kept: usize,
}

impl<T: Element, S: Stream> DeviceGraph<T, S> {
    /// What [`Self::compact`] takes. `moves` are pairs (from, to) of slots: from one behind `kept`, to a hole before it.
    ///
    /// # Errors
    /// Of the device, on which nothing has changed.
    pub(super) fn names(
        &self,
        stream: &S,
        moves: &[(VectorId, VectorId)],
        kept: usize,
    ) -> Result<Names<S>, S::Error> {
        assert!(
            moves.iter().all(|(from, to)| (kept..self.slots).contains(&from.index()) && to.index() < kept),
            "vertices move from behind the {kept} slots that remain into them"
        );
        // Links to holes there are none, whatever these are renamed to.
        let mut renamed: Vec<u32> = (kept..self.slots).map(|slot| slot as u32).collect();
        moves.iter().for_each(|(from, to)| renamed[from.index() - kept] = to.get());
        let [from, to] = [0, 1].map(|side| -> Vec<u32> {
            moves.iter().map(|&(from, to)| if side == 0 { from } else { to }.get()).collect()
        });
        Ok(Names {
            from: stream.upload(&from)?,
            to: stream.upload(&to)?,
            renamed: stream.upload(&renamed)?,
            kept,
        })
    }

    /// Moves vectors, codes, links and keys, and renames the links that remain. What is live and where searches begin follows
    /// from the host.
    ///
    /// # Errors
    /// Of the device. Once it has begun to write, it is of no use then.
    pub(super) fn compact(&mut self, stream: &S, names: &Names<S>) -> Result<(), S::Error> {
        self.wait_for_readers(stream)?;
        let Names { from, to, renamed, kept } = names;
        assert_eq!(renamed.len(), self.slots - kept, "the names are those of this graph");
        let mut tables = vec![
            (self.links.output(), self.links_stride),
            (self.keys.output().cast(), size_of::<Key>() / WORD),
        ];
        if self.has_vectors {
            let words = padded_len::<T>(self.dimension) * size_of::<T>() / WORD;
            tables.push((self.rows.output().cast(), words));
        }
        tables.extend(self.squared_norms.as_mut().map(|norms| (norms.output().cast(), 1)));
        tables.extend(self.codes.as_mut().map(|codes| {
            let words = codes.words();
            (codes.table.output(), words)
        }));
        for (table, row_words) in tables {
            let rows = from.len() as u32;
            let (from, to, table) = (from.input(), to.input(), DevicePtrMut::cast(table));
            let args = MoveArgs { table, from, to, rows, row_words: row_words as u32 };
            // SAFETY: rows of the table, as asserted where the names were made; no slot is both left and taken.
            unsafe { stream.launch(&MoveRows, args)? };
        }
        let args = RenameArgs {
            links: self.links.output(),
            renamed: renamed.input(),
            kept: *kept as u32,
            slots: self.slots as u32,
            links_stride: self.links_stride as u32,
        };
        // SAFETY: there are as many rows of links, and a new name for each slot behind them.
        unsafe { stream.launch(&RenameLinks, args)? };
        stream.synchronize()
    }
}
