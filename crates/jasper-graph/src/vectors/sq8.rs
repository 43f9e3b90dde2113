//! A second table of the same vectors, quantized to one byte per coordinate (SQ8), by which a build links them.

use jasper_core::{ElementKind, Metric, Slot};

use super::VectorTable;
use crate::{Segments, VectorChunk, VectorError};

impl VectorTable {
    /// The vectors quantized to bytes, while a build links by them.
    pub fn sq8(&self) -> Option<&VectorTable> {
        self.sq8.as_deref()
    }

    /// Adds a table of vectors quantized to bytes, of this dimension, whose distances are those of `metric`. Each is the
    /// difference of a vector from some center, which under inner products is [that of the vectors](Self::center), times
    /// `scale`, and may be rotated. `write` computes them from the vectors. It gets chunks that different threads may
    /// write, in which vectors are numbered by slot. A change of the vectors removes the table, which is never saved.
    ///
    /// # Errors
    /// Returns [`VectorError`] if there is not enough memory.
    #[doc(hidden)]
    pub fn build_sq8(
        &mut self,
        metric: Metric,
        dimension: usize,
        scale: f32,
        write: impl FnOnce(&Self, Vec<VectorChunk<'_>>),
    ) -> Result<(), VectorError> {
        let slots: Vec<Slot> = (0..self.table.len()).map(Slot::from_index).collect();
        let mut quantized = VectorTable::zeroed(ElementKind::I8, metric, dimension, slots.len())?;
        quantized.update_chunks(&slots, |chunks| write(self, chunks));
        if metric == Metric::InnerProduct {
            quantized.terms =
                self.terms.as_ref().map(Segments::try_clone).transpose().map_err(VectorError::from)?;
            quantized.center = self.center.of_scaled_differences(scale);
        }
        self.sq8 = Some(Box::new(quantized));
        Ok(())
    }

    /// Frees the vectors quantized to bytes.
    #[doc(hidden)]
    pub fn clear_sq8(&mut self) {
        self.sq8 = None;
    }
}

#[cfg(test)]
mod tests {
    use jasper_core::BuildParams;

    use super::*;
    use crate::Graph;

    #[test]
    fn quantized_vectors_are_there_until_vectors_change() {
        let mut graph =
            Graph::new(ElementKind::F32, Metric::InnerProduct, 3, BuildParams::default()).unwrap();
        for key in 0..5_u64 {
            let slot = graph.add_vector(&[key as f32 / 2.0, 0.0, 1.0, 0.0_f32], 1.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
        }
        let halves = |vectors: &VectorTable, chunks: Vec<VectorChunk<'_>>| {
            for mut chunk in chunks {
                for number in chunk.numbers() {
                    let mut bytes = [0_i8; 16];
                    bytes[0] = (vectors.padded::<f32>(Slot::from_index(number))[0] * 2.0) as i8;
                    chunk.set(number, &bytes, 0.0);
                }
            }
        };
        graph.vectors_mut().build_sq8(Metric::InnerProduct, 3, 2.0, halves).unwrap();
        let quantized = graph.vectors().sq8().unwrap();
        assert_eq!(
            (quantized.get::<i8>(Slot::new(3)), quantized.center().alpha_offsets()),
            (&[3, 0, 0][..], [4.0; 2])
        );
        assert_eq!(graph.vectors().get::<f32>(Slot::new(3)), [1.5, 0.0, 1.0]);
        graph.add_vector(&[9.0_f32, 0.0, 0.0, 0.0], 81.0).unwrap();
        assert!(graph.vectors().sq8().is_none());
    }
}
