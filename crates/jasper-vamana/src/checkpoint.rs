//! Periodic checkpoints, from which an interrupted bulk build resumes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jasper_core::{BuildParams, ElementKind, Metric, Slot, defaults};
use jasper_data::parallel;
use jasper_graph::{Checkpoint, CheckpointFile, FileError, Graph};

use crate::effort::{may_widen, widest_build_beam};
use crate::{OperationCounts, ScalarQuantizer};

/// Where a bulk build saves checkpoints, and how often.
///
/// A checkpoint holds the edges so far, not the vectors: the build resumes with the same vectors and parameters.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoints<'a> {
    path: &'a Path,
    every: Duration,
}

/// A checkpoint cannot be written, or the build cannot resume from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The checkpoint cannot be read, or is damaged.
    #[error("cannot resume from the checkpoint; remove it to start over")]
    Open(#[source] FileError),
    /// The checkpoint cannot be written. The previous one, if there is one, still exists.
    #[error("the checkpoint cannot be written; the same build resumes from the one before, if there is one")]
    Save(#[source] FileError),
    /// The checkpoint is of a build with other parameters.
    #[error(
        "{path}: is the checkpoint of a build whose {name} is {theirs}, not {ours}; build with {theirs}, or \
         remove the file to build from the start"
    )]
    Parameter {
        /// Path of the checkpoint.
        path: PathBuf,
        /// Name of the parameter.
        name: &'static str,
        /// Its value in the checkpoint.
        theirs: String,
        /// Its value in this build.
        ours: String,
    },
    /// The checkpoint is of a build of other vectors, or of one by vectors quantized to bytes where this one is exact
    /// or the other way round.
    #[error(
        "{path}: is the checkpoint of a build of other vectors, or with another setting of exact linking; build as \
         before, or remove the file to build from the start"
    )]
    Vectors {
        /// Path of the checkpoint.
        path: PathBuf,
    },
}

impl<'a> Checkpoints<'a> {
    /// Checkpoints at `path`, usually next to the future index, at intervals of `every`.
    ///
    /// A checkpoint is written between two batches when the interval has passed, and when the build is cancelled. It
    /// takes the time to write 4 bytes per edge.
    pub fn new(path: &'a Path, every: Duration) -> Self {
        Self { path, every }
    }

    /// Where the checkpoints are.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Checks that the checkpoint, if there is one, is of a build with these parameters, and that the next one can be
    /// written: before the vectors are read.
    ///
    /// # Errors
    /// Returns [`CheckpointError`] if it is not, or cannot.
    pub fn check(
        &self,
        element: ElementKind,
        metric: Metric,
        dimension: usize,
        params: &BuildParams,
    ) -> Result<(), CheckpointError> {
        self.open(element, metric, dimension, params)?;
        CheckpointFile::check_writable(self.path).map_err(CheckpointError::Save)
    }

    /// The checkpoint, if there is one, of a build with these parameters.
    fn open(
        &self,
        element: ElementKind,
        metric: Metric,
        dimension: usize,
        params: &BuildParams,
    ) -> Result<Option<CheckpointFile>, CheckpointError> {
        let Some(file) = CheckpointFile::open(self.path).map_err(CheckpointError::Open)? else {
            return Ok(None);
        };
        let (info, their_release) = (file.info(), file.checkpoint().release);
        let theirs = &info.params;
        let text = |value: &dyn ToString| value.to_string();
        let pairs = [
            (
                "release",
                text(&String::from_utf8_lossy(&their_release).trim_end_matches('\0')),
                text(&RELEASE),
            ),
            ("element", text(&info.element), text(&element)),
            ("metric", text(&info.metric), text(&metric)),
            ("dimension", text(&info.dimension), text(&dimension)),
            ("max_degree", text(&theirs.max_degree()), text(&params.max_degree())),
            ("seed", text(&theirs.seed()), text(&params.seed())),
            ("max_batch_share", text(&theirs.max_batch_share()), text(&params.max_batch_share())),
        ];
        let widths = [theirs, params].map(BuildParams::build_beam_width);
        // The build that wrote it may have raised these two.
        let is_reached = (widths[1]..=widest_build_beam(params, usize::MAX)).contains(&widths[0]);
        let width = ("build_beam_width", text(&widths[0]), text(&widths[1]));
        let alphas = [theirs, params].map(BuildParams::alpha);
        let is_widened = alphas[0] == defaults::WIDE_ALPHA && may_widen(params);
        let is_alpha = alphas[0] == alphas[1] || is_widened;
        let alpha = ("alpha", text(&alphas[0]), text(&alphas[1]));
        let differs = |(_, theirs, ours): &(_, String, String)| theirs != ours;
        let different = pairs.into_iter().find(differs).or((!is_reached).then_some(width));
        match different.or((!is_alpha).then_some(alpha)) {
            Some((name, theirs, ours)) => {
                Err(CheckpointError::Parameter { path: self.path.to_owned(), name, theirs, ours })
            }
            None => Ok(Some(file)),
        }
    }
}

/// Removes the checkpoint of a build, if there is one, and the temporary file of a checkpoint that was being written.
/// To be called once the index is saved.
///
/// # Errors
/// Returns an error if a file cannot be removed.
pub fn remove_checkpoint(path: impl AsRef<Path>) -> std::io::Result<()> {
    CheckpointFile::remove(path)
}

/// Writes the checkpoints of one build.
#[derive(Debug)]
pub(crate) struct CheckpointWriter<'a> {
    checkpoints: Checkpoints<'a>,
    rows_checksum: u32,
    /// How many vertices were processed when the last checkpoint was written or read, and the time of that.
    written: (usize, Instant),
}

impl<'a> CheckpointWriter<'a> {
    /// Reads the last checkpoint, if there is one, and restores its edges in `graph`. Returns the writer of the next
    /// ones, how many vertices out of `total` all passes have processed, and the cost of that. Uses the threads of
    /// the current pool.
    ///
    /// Reads the vectors once for their checksum, and the checkpoint once.
    ///
    /// # Errors
    /// Returns [`CheckpointError`] if the checkpoint is damaged, or of another build.
    pub(crate) fn resume(
        checkpoints: Checkpoints<'a>,
        graph: &mut Graph,
        quantizer: Option<&ScalarQuantizer>,
        total: usize,
    ) -> Result<(Self, usize, OperationCounts), CheckpointError> {
        let rows_checksum = rows_checksum(graph, quantizer);
        let file = checkpoints.open(graph.element(), graph.metric(), graph.dimension(), graph.params())?;
        let (mut done, mut cost) = (0, OperationCounts::default());
        if let Some(file) = file {
            let checkpoint = *file.checkpoint();
            let is_same = checkpoint.rows_checksum == rows_checksum
                && file.info().slots == graph.slots()
                && checkpoint.done <= total as u64;
            if !is_same {
                return Err(CheckpointError::Vectors { path: checkpoints.path.to_owned() });
            }
            let params = &file.info().params;
            graph.set_effort(params.build_beam_width(), params.alpha());
            file.restore(graph).map_err(CheckpointError::Open)?;
            (done, cost) = (checkpoint.done as usize, bytemuck::cast(checkpoint.cost));
        }
        Ok((Self { checkpoints, rows_checksum, written: (done, Instant::now()) }, done, cost))
    }

    /// Whether to write a checkpoint now that all passes have processed `done` vertices. True if there are new edges,
    /// and the interval has passed or the build `ends` here.
    pub(crate) fn is_due(&self, done: usize, ends: bool) -> bool {
        let (vertices, then) = self.written;
        done > vertices && (ends || then.elapsed() >= self.checkpoints.every)
    }

    /// Writes a checkpoint with the edges of `graph`.
    pub(crate) fn write(
        &mut self,
        graph: &Graph,
        done: usize,
        cost: OperationCounts,
    ) -> Result<(), CheckpointError> {
        let checkpoint = Checkpoint {
            rows_checksum: self.rows_checksum,
            release: release(),
            done: done as u64,
            cost: bytemuck::cast(cost),
        };
        graph.save_checkpoint(self.checkpoints.path, &checkpoint).map_err(CheckpointError::Save)?;
        self.written = (done, Instant::now());
        Ok(())
    }
}

/// The version of this release.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// [`RELEASE`] as a checkpoint stores it.
fn release() -> [u8; 12] {
    const { assert!(RELEASE.len() <= 12, "the version fits into a checkpoint") };
    let mut release = [0; 12];
    release[..RELEASE.len()].copy_from_slice(RELEASE.as_bytes());
    release
}

/// Slots per task.
const SLOTS_PER_TASK: usize = 1 << 14;

/// Checksum of all vectors, in the order of their slots, and of how they are quantized.
fn rows_checksum(graph: &Graph, quantizer: Option<&ScalarQuantizer>) -> u32 {
    let checksum_of = |task: usize| {
        let slots = task * SLOTS_PER_TASK..graph.slots().min((task + 1) * SLOTS_PER_TASK);
        slots
            .map(Slot::from_index)
            .fold(0, |checksum, slot| crc32c::crc32c_append(checksum, graph.vectors().padded_bytes(slot)))
    };
    let checksums: Vec<u32> = parallel::map(0..graph.slots().div_ceil(SLOTS_PER_TASK), checksum_of);
    let scale = quantizer.map_or(0.0, ScalarQuantizer::scale);
    crc32c::crc32c_append(crc32c::crc32c(bytemuck::cast_slice(&checksums)), &scale.to_le_bytes())
}
