//! Quantized codes next to the vectors, or instead of them.

use std::collections::VecDeque;
use std::sync::Arc;

use jasper_core::{Progress, ProgressFn, Stage, no_progress};
use jasper_graph::{Codes, Graph, VectorError};
use jasper_quant::{Quantization, Quantizer};
use jasper_vamana::{UpdateError, check_quantizer, encode, make_sketches, train_quantizer};

use super::IndexInner;
use crate::QuantizeMode;
use crate::QuantizeReport;
use crate::backend::Backend;
use crate::error::Result;
use crate::journal::{Change, Record};

/// What happens to codes by which searches would lose most neighbors of some vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeCheck {
    /// They are refused.
    Refuse,
    /// Nothing: codes are not checked.
    Skip,
}

impl IndexInner {
    /// Trains a quantizer for each shard and encodes its vectors. The caller holds the writer lock.
    pub(crate) fn encode_locked(
        &self,
        quantization: Quantization,
        check: CodeCheck,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Codes>, UpdateError> {
        let encode = |shard: &&dyn Backend| {
            let total = shard.read(|graph| graph.require_vectors().map(|()| graph.slots()))?;
            Progress { stage: Stage::Quantizing, done: 0, total }.report(progress)?;
            let quantizer = shard.read(|graph| train_quantizer(&self.executor, graph, quantization))?;
            self.encode_shard(*shard, quantizer, check, progress)
        };
        self.backend.shards_or_self().iter().map(encode).collect()
    }

    /// Checks a quantizer and encodes the vectors of a shard. Meanwhile a device compiles what searches by these codes
    /// launch. The caller has held the writer lock since the quantizer was trained.
    pub(crate) fn encode_shard(
        &self,
        shard: &dyn Backend,
        quantizer: Arc<dyn Quantizer>,
        check: CodeCheck,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Codes, UpdateError> {
        let _kernels = shard.preload_code_kernels(&*quantizer);
        shard.read(|graph| {
            if check == CodeCheck::Refuse {
                check_quantizer(&self.executor, graph, &*quantizer)?;
            }
            encode(&self.executor, graph, quantizer, progress)
        })
    }

    /// Gives each shard its codes. The caller has held the writer lock since they were made.
    pub(crate) fn set_codes_locked(&self, codes: Vec<Codes>) -> Result<(), UpdateError> {
        // In the order in which the backend changes them, each once.
        let mut of_replicas = VecDeque::new();
        for (shard, codes) in self.backend.shards_or_self().iter().zip(codes) {
            let copies = (1..shard.replicas()).map(|_| codes.try_clone().map_err(VectorError::Memory));
            of_replicas.extend(copies.collect::<Result<Vec<_>, _>>()?);
            of_replicas.push_back(codes);
        }
        let mut next = || of_replicas.pop_front().expect("one per replica");
        Ok(self.backend.change(|graph| graph.set_codes(next()))?)
    }

    /// Quantizes all vectors. Codes are logged once they have passed the check, which a replay does not repeat.
    pub(crate) fn quantize_by(
        &self,
        quantization: Quantization,
        check: CodeCheck,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(), UpdateError> {
        quantization.check()?;
        self.change_codes(progress, |change, progress| {
            let codes = self.encode_locked(quantization, check, progress)?;
            change.log(&Record::Quantize(quantization))?;
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
        let kept =
            |graph: &Graph| (graph.vectors().codes().is_some(), !graph.encoded_tuned_searches().is_empty());
        self.changes.change(None, progress, |change, hooks| {
            let before @ (had_codes, _) = self.backend.read(kept);
            let made = make(change, hooks.progress);
            let after @ (has_codes, _) = self.backend.read(kept);
            if after != before && (made.is_err() || !has_codes) {
                // Tuned searches are dropped with the codes, and when there are new ones.
                change.log(&if had_codes { Record::DropCodes } else { Record::Tune(Vec::new()) })?;
                change.keep();
            }
            made
        })
    }

    pub(crate) fn drop_codes(&self) -> Result<(), UpdateError> {
        self.changes.change(Some(&Record::DropCodes), &mut no_progress, |_, _| {
            self.backend.read(|graph| graph.require_vectors())?;
            Ok(self.backend.change(|graph| graph.drop_codes())?)
        })
    }

    pub(crate) fn drop_vectors(&self) -> Result<(), UpdateError> {
        self.changes.change(Some(&Record::DropVectors), &mut no_progress, |_, _| {
            if self.backend.read(|graph| graph.vectors().codes().is_none()) {
                return Err(UpdateError::NoCodes);
            }
            Ok(self.backend.change(|graph| graph.drop_vectors())?)
        })
    }

    fn build_sketches(&self) -> Result<(), UpdateError> {
        let _writer = self.changes.lock_writer();
        for shard in self.backend.shards_or_self() {
            // Searches go on: changes of the vectors wait for the writer lock.
            let mut sketches = shard.read(|graph| make_sketches(&self.executor, graph.vectors(), None))?;
            shard.change(|graph| graph.vectors_mut().set_sketches(sketches.take()))?;
        }
        Ok(())
    }

    pub(crate) fn quantize_as(
        &self,
        mode: QuantizeMode,
        progress: &mut ProgressFn<'_>,
    ) -> Result<QuantizeReport> {
        match mode {
            QuantizeMode::Checked(quantization) => {
                self.quantize_by(quantization, CodeCheck::Refuse, progress)?
            }
            QuantizeMode::Forced(quantization) => {
                self.quantize_by(quantization, CodeCheck::Skip, progress)?
            }
            QuantizeMode::Auto(device) => return self.auto_quantize(device, progress),
            QuantizeMode::None => self.drop_codes()?,
            QuantizeMode::Sketches => self.build_sketches()?,
        }
        Ok(QuantizeReport { quantization: self.quantization(), trial: None })
    }
}
