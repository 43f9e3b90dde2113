//! Quantized codes next to the vectors, or instead of them.

use std::io;

use jasper_core::{Element, ProgressFn, no_progress};
use jasper_graph::{Codes, Graph, VectorError};
use jasper_quant::Quantization;
use jasper_vamana::{CodeCheck, CodeReport, UpdateError, code_report, encode, make_sketches};

use crate::Index;
use crate::backend::Backend;
use crate::journal::{Change, Record};
use crate::progress::long_calls;

impl<T: Element> Index<T> {
    /// Encodes the vectors of each shard. The caller holds the writer lock.
    pub(crate) fn encode_locked(
        &self,
        quantization: Quantization,
        check: CodeCheck,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Codes>, UpdateError> {
        let encode = |shard: &&dyn Backend<T>| {
            shard.read(|graph| encode(&self.executor, graph, quantization, check, progress))
        };
        self.backend.shards_or_self().iter().map(encode).collect()
    }

    /// Gives each shard its codes. The caller has held the writer lock since they were made.
    pub(crate) fn set_codes_locked(&self, codes: Vec<Codes>) -> Result<(), UpdateError> {
        for (shard, codes) in self.backend.shards_or_self().iter().zip(codes) {
            let copies: io::Result<Vec<_>> = (1..shard.replicas()).map(|_| codes.try_clone()).collect();
            let mut copies = copies.map_err(VectorError::Memory)?;
            copies.push(codes);
            shard.change(|graph| graph.set_codes(copies.pop().expect("one per copy")))?;
        }
        Ok(())
    }

    /// Quantizes all vectors. Codes are logged once they have passed the check, which a replay does not repeat.
    fn quantize_by(
        &self,
        quantization: Quantization,
        check: CodeCheck,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(), UpdateError> {
        quantization.check()?;
        self.change_codes(progress, |change, progress| {
            let codes = self.encode_locked(quantization, check, progress)?;
            change.log::<T>(&Record::Quantize(quantization))?;
            self.set_codes_locked(codes)
        })
    }

    /// Makes a [change](Self::change) of the codes. If it leaves no codes, whether it fails or not, the drop is logged
    /// in its place.
    pub(crate) fn change_codes<R, E: From<UpdateError>>(
        &self,
        progress: &mut ProgressFn<'_>,
        make: impl FnOnce(&mut Change<'_>, &mut ProgressFn<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let kept = |graph: &Graph<T>| {
            (graph.vectors().codes().is_some(), !graph.encoded_tuned_searches().is_empty())
        };
        self.changes.change(None, progress, |change, hooks| {
            let before @ (had_codes, _) = self.backend.read(kept);
            let made = make(change, hooks.progress);
            let after @ (has_codes, _) = self.backend.read(kept);
            if after != before && (made.is_err() || !has_codes) {
                // Tuned searches are dropped with the codes, and when there are new ones.
                change.log::<T>(&if had_codes { Record::DropCodes } else { Record::Tune(Vec::new()) })?;
                change.keep();
            }
            made
        })
    }

    /// Drops the codes. Searches are exact again.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if the index has codes only, or is durable and the change cannot be written to its
    /// journal ([`UpdateError::Journal`]).
    pub fn drop_codes(&self) -> Result<(), UpdateError> {
        self.changes.change(Some(&Record::DropCodes), &mut no_progress, |_, _| {
            self.backend.read(|graph| graph.require_vectors())?;
            Ok(self.backend.change(|graph| graph.drop_codes())?)
        })
    }

    /// Drops the vectors of a [quantized](Self::quantize) index, which are most of its memory. Searches return
    /// estimated distances, and keys can be deleted and restored; inserts, consolidation and quantizing are refused.
    ///
    /// # Errors
    /// Returns [`UpdateError::NoCodes`], or [`UpdateError::Journal`] if the index is durable and the change cannot be
    /// written to its journal; the index is unchanged.
    pub fn drop_vectors(&self) -> Result<(), UpdateError> {
        self.changes.change(Some(&Record::DropVectors), &mut no_progress, |_, _| {
            if self.backend.read(|graph| graph.vectors().codes().is_none()) {
                return Err(UpdateError::NoCodes);
            }
            Ok(self.backend.change(|graph| graph.drop_vectors())?)
        })
    }

    /// Measures the error of the codes on a sample of the current vectors, and the error of newly trained codes.
    /// Returns `None` if there are no codes or no vectors.
    ///
    /// If [`CodeReport::has_drifted`], quantizing again is worth its time.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if no quantizer can be trained on the vectors, the device failed, or the index has
    /// several shards ([`DeviceError::Sharded`](crate::DeviceError::Sharded)).
    pub fn measure_code_error(&self) -> Result<Option<CodeReport>, UpdateError> {
        self.read_graph(|graph| code_report(&self.executor, graph))?
    }

    /// Speeds up exact searches of f32 vectors on the CPU, with the same results. Stores a sketch of each vector, with
    /// one byte per coordinate, which rules out most vectors without reading them. Sketches take a quarter of the
    /// vectors' memory. They are updated with every change and not saved. They do nothing for other element types, or
    /// for searches on a CUDA device. Searches continue while they are made; changes wait.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if there is no memory for the sketches.
    pub fn build_sketches(&self) -> Result<(), UpdateError> {
        let _writer = self.changes.lock_writer();
        for shard in self.backend.shards_or_self() {
            // Searches go on: changes of the vectors wait for the writer lock.
            let mut sketches = shard.read(|graph| make_sketches(&self.executor, graph.vectors(), None))?;
            shard.change(|graph| graph.vectors_mut().set_sketches(sketches.take()))?;
        }
        Ok(())
    }
}

// `index` is the `self` of the calls.
long_calls! {
    impl<T: Element> Index<T> as (index, progress);

    /// Quantizes all vectors, replacing any existing codes. Searches then traverse the graph with estimated distances,
    /// at a fraction of the memory traffic, and rerank their candidates by exact ones; see [`crate::Distances`].
    ///
    /// Codes are updated with every change, and saved. The quantizer is trained on the current vectors: if the data
    /// drifts, call this again (see [`Self::measure_code_error`]).
    ///
    /// Codes that do not tell near vectors apart are refused. In a sample of 32,768 vectors, or all, the 10 nearest
    /// neighbors of 256 of them must be among one in 64 vectors (but no fewer than 64) that are nearest by code. A vector
    /// of which less than 4 are is lost to searches, even with wide beams, and more than 2% are too many. Data of few
    /// far clusters, or of tight ones among others, is like this: the error of a code is in proportion to the distance
    /// of its vector from the mean of all. [`Self::force_quantize`] takes such codes, too.
    ///
    /// Takes seconds of training on the CPU and the time of about one search per vector. The codes take
    /// [`crate::IndexStats::code_bytes`] of memory, and as much on a CUDA device. Searches continue meanwhile, with the
    /// existing codes; changes wait.
    ///
    /// # Errors
    /// Returns [`UpdateError`], which is [`UpdateError::CodesLose`] if codes are refused; the index is unchanged, but
    /// has no codes if the device had no room for them.
    pub fn quantize(quantization: Quantization) -> Result<(), UpdateError> {
        index.quantize_by(quantization, CodeCheck::Refuse, progress)
    }

    /// Quantizes as [`Self::quantize`] does, whatever neighbors searches will lose.
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the index is unchanged, but has no codes if the device had no room for them.
    pub fn force_quantize(quantization: Quantization) -> Result<(), UpdateError> {
        index.quantize_by(quantization, CodeCheck::Skip, progress)
    }
}
