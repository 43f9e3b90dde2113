//! Compaction: moving the last vertices into free slots.

use gpu_kernels::rows::{CopyRows, CopyRowsArgs, RenameEdges, RenameEdgesArgs};
use gpu_kernels::{Buffer as _, DevicePtrMut, Stream};
use jasper_core::{Key, Slot};

use super::{DeviceGraph, OldArray};

/// Bytes of a word of a table.
const WORD: usize = size_of::<u32>();

/// The moves of a compaction, in device memory.
pub(super) struct SlotMoves<S: Stream> {
    /// `[moves]`
    from: S::Buffer<u32>,
    /// `[moves]`
    to: S::Buffer<u32>,
    /// `[slots - kept]`: the new slots of the vertices from slot `kept` on.
    renamed: S::Buffer<u32>,
    /// Number of slots that remain.
    kept: usize,
}

impl<S: Stream> DeviceGraph<S> {
    /// Uploads the moves for [`Self::compact`]: pairs (from, to) of slots, where `from` is at least `kept`, and `to` is
    /// a free slot below `kept`.
    ///
    /// # Errors
    /// Returns the device's error. The graph is unchanged.
    pub(super) fn upload_moves(&self, moves: &[(Slot, Slot)], kept: usize) -> Result<SlotMoves<S>, S::Error> {
        assert!(
            moves.iter().all(|(from, to)| (kept..self.slots).contains(&from.index()) && to.index() < kept),
            "vertices move into the first {kept} slots"
        );
        // No edge leads to a free slot, so its entry is not used.
        let mut renamed: Vec<u32> = (kept..self.slots).map(|slot| slot as u32).collect();
        moves.iter().for_each(|(from, to)| renamed[from.index() - kept] = to.get());
        let [from, to] = [0, 1].map(|side| -> Vec<u32> {
            moves.iter().map(|&(from, to)| if side == 0 { from } else { to }.get()).collect()
        });
        Ok(SlotMoves {
            from: self.stream.upload(&from)?,
            to: self.stream.upload(&to)?,
            renamed: self.stream.upload(&renamed)?,
            kept,
        })
    }

    /// A table for the edges after a compaction, with which searches go on during it.
    ///
    /// # Errors
    /// Returns the device's error, such as out of memory.
    pub(super) fn allocate_edges(&self) -> Result<S::Buffer<u32>, S::Error> {
        self.stream.allocate_table(self.capacity * self.edges_stride)
    }

    /// Moves vectors, codes, edges and keys, and renames the targets of the remaining edges. Tombstones and start
    /// points are updated by [`Self::apply_changes`].
    ///
    /// With a table for `edges`, searches go on in the old one, which is kept for them: the slots that vertices move to
    /// are free. Otherwise nothing reads the graph meanwhile.
    ///
    /// Launches one kernel per table, then one over all edges, then synchronizes.
    ///
    /// # Errors
    /// Returns the device's error. The copy is unusable after an error of a launch.
    pub(super) fn compact(
        &mut self,
        moves: &SlotMoves<S>,
        edges: Option<S::Buffer<u32>>,
    ) -> Result<(), S::Error> {
        self.wait_for_readers()?;
        self.recent.clear();
        let stream = &self.stream;
        let SlotMoves { from, to, renamed, kept } = moves;
        assert_eq!(renamed.len(), self.slots - kept, "the moves are of this graph");
        if let Some(mut edges) = edges {
            stream.copy(&self.edges, &mut edges, self.slots * self.edges_stride)?;
            self.old.keep(OldArray::Words(std::mem::replace(&mut self.edges, edges)));
        }
        let mut tables = vec![
            (stream.output(&mut self.edges), self.edges_stride),
            (stream.output(&mut self.keys).cast(), size_of::<Key>() / WORD),
        ];
        if self.has_vectors {
            let words = self.row_bytes() as usize / WORD;
            tables.push((stream.output(&mut self.rows).cast(), words));
        }
        tables.extend(self.terms.as_mut().map(|terms| (stream.output(terms).cast(), 1)));
        tables.extend(self.codes.as_mut().map(|codes| {
            let words = codes.words();
            (stream.output(&mut codes.table), words)
        }));
        for (table, row_words) in tables {
            let rows = from.len() as u32;
            let table = DevicePtrMut::cast(table);
            let args = CopyRowsArgs {
                from: table.cast_const(),
                to: table,
                from_slots: stream.input(from),
                to_slots: stream.input(to),
                rows_len: rows,
                row_words: row_words as u32,
            };
            // SAFETY: the slots are rows of the table, as asserted by `upload_moves`; no slot is both source and
            // target.
            unsafe { stream.launch(&CopyRows, args)? };
        }
        let args = RenameEdgesArgs {
            edges: stream.output(&mut self.edges),
            renamed: stream.input(renamed),
            kept: *kept as u32,
            slots: self.slots as u32,
            edges_stride: self.edges_stride as u32,
        };
        // SAFETY: there are `kept` rows of edges, and a new slot for each slot after them.
        unsafe { stream.launch(&RenameEdges, args)? };
        stream.synchronize()
    }
}
