//! Bulk builds that outlive their process: how far one has come is written down now and then, and taken up again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jasper_core::{BuildParams, Element, Metric, VectorId};
use jasper_graph::{Checkpoint, CheckpointFile, FileError, Graph};
use rayon::prelude::*;

use crate::SearchCost;

/// Where a bulk build writes how far it has come, and how often.
///
/// The file holds the links there are, and none of the rows: the build is taken up with the same rows and parameters.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoints<'a> {
    path: &'a Path,
    every: Duration,
}

/// A checkpoint cannot be written, or not be taken up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// It cannot be read, or is damaged.
    #[error("the checkpoint cannot be taken up; remove it to build from the start")]
    Open(#[source] FileError),
    /// It cannot be written; the one before is still there.
    #[error("the checkpoint cannot be written; the same build resumes from the one before")]
    Save(#[source] FileError),
    /// It is of a build with other parameters.
    #[error(
        "{path}: is the checkpoint of a build whose {name} is {theirs}, where {ours} is asked for; ask for {theirs}, or \
         remove the file to build from the start"
    )]
    Parameter {
        /// The checkpoint.
        path: PathBuf,
        /// What differs.
        name: &'static str,
        /// What it is in the checkpoint.
        theirs: String,
        /// What it is in this build.
        ours: String,
    },
    /// It is of a build of other rows.
    #[error(
        "{path}: is the checkpoint of a build of other vectors; build from those, or remove the file to build from the \
         start"
    )]
    Rows {
        /// The checkpoint.
        path: PathBuf,
    },
}

impl<'a> Checkpoints<'a> {
    /// Checkpoints at `path`, which is best beside the index to be, `every` so often.
    ///
    /// One is written between two batches, when the last is so long ago, and when the build is cancelled. It takes the
    /// time to write 4 bytes an edge.
    pub fn new(path: &'a Path, every: Duration) -> Self {
        Self { path, every }
    }

    /// Whether the checkpoint, if there is one, is of a build with these parameters: to be asked before rows are read.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn check<T: Element>(
        &self,
        metric: Metric,
        dimension: usize,
        params: &BuildParams,
    ) -> Result<(), CheckpointError> {
        self.open::<T>(metric, dimension, params).map(drop)
    }

    /// The checkpoint, if there is one, of a build with these parameters.
    fn open<T: Element>(
        &self,
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
                String::from_utf8_lossy(&their_release).trim_end_matches('\0').into(),
                release_name(),
            ),
            ("element", text(&info.element), text(&T::KIND)),
            ("metric", text(&info.metric), text(&metric)),
            ("dimension", text(&info.dimension), text(&dimension)),
            ("max_degree", text(&theirs.max_degree()), text(&params.max_degree())),
            ("build_beam_width", text(&theirs.build_beam_width()), text(&params.build_beam_width())),
            ("alpha", text(&theirs.alpha()), text(&params.alpha())),
            ("seed", text(&theirs.seed()), text(&params.seed())),
            ("max_batch_share", text(&theirs.max_batch_share()), text(&params.max_batch_share())),
        ];
        match pairs.into_iter().find(|(_, theirs, ours)| theirs != ours) {
            Some((name, theirs, ours)) => {
                Err(CheckpointError::Parameter { path: self.path.to_owned(), name, theirs, ours })
            }
            None => Ok(Some(file)),
        }
    }

    /// Removes the checkpoint, if there is one: when the index is saved.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn remove(&self) -> std::io::Result<()> {
        CheckpointFile::remove(self.path)
    }
}

/// The vertices of a bulk build in the order they are linked in, how far that had come when it was taken up, and where
/// it is written down.
#[derive(Debug)]
pub struct LinkProgress<'a> {
    order: &'a [VectorId],
    resumed: Linked,
    writer: Option<CheckpointWriter<'a>>,
}

/// How many vertices are linked, and what that cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Linked {
    pub(crate) vertices: usize,
    pub(crate) cost: SearchCost,
}

/// What writes checkpoints.
#[derive(Debug)]
struct CheckpointWriter<'a> {
    checkpoints: Checkpoints<'a>,
    rows_checksum: u32,
    /// Vertices that were linked when the last was written, and when that was.
    written: (usize, Instant),
}

impl<'a> LinkProgress<'a> {
    /// All of `order` is to be linked, and nothing is written down.
    pub fn new(order: &'a [VectorId]) -> Self {
        Self { order, resumed: Linked::default(), writer: None }
    }

    /// All of `order` is to be linked into `graph`; with checkpoints, all behind the last: its links are then those of
    /// the graph. Runs on the threads of the pool that this is called in.
    ///
    /// Cost: nothing without checkpoints; else a pass over the rows, and over the checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError`]: it is damaged, or of another build. The graph is of no use then.
    pub fn resume<T: Element>(
        graph: &mut Graph<T>,
        order: &'a [VectorId],
        checkpoints: Option<Checkpoints<'a>>,
    ) -> Result<Self, CheckpointError> {
        let Some(checkpoints) = checkpoints else { return Ok(Self::new(order)) };
        let rows_checksum = rows_checksum(graph);
        let resumed = match checkpoints.open::<T>(graph.metric(), graph.dimension(), graph.params())? {
            Some(file) => {
                let Checkpoint { linked, cost, rows_checksum: theirs, .. } = *file.checkpoint();
                let is_of_these = theirs == rows_checksum
                    && file.info().slots == graph.slots()
                    && linked <= order.len() as u64;
                if !is_of_these {
                    return Err(CheckpointError::Rows { path: checkpoints.path.to_owned() });
                }
                file.restore(graph).map_err(CheckpointError::Open)?;
                Linked { vertices: linked as usize, cost: cost.into() }
            }
            None => Linked::default(),
        };
        let written = (resumed.vertices, Instant::now());
        Ok(Self { order, resumed, writer: Some(CheckpointWriter { checkpoints, rows_checksum, written }) })
    }

    /// Vertices to link, those included that are.
    pub(crate) fn total(&self) -> usize {
        self.order.len()
    }

    /// Those that were not linked when the build was taken up.
    pub(crate) fn rest(&self) -> &'a [VectorId] {
        &self.order[self.resumed.vertices..]
    }

    /// What is linked when the first `vertices` of the rest are, at a cost of `work`.
    pub(crate) fn after(&self, vertices: usize, mut cost: SearchCost) -> Linked {
        cost += self.resumed.cost;
        Linked { vertices: self.resumed.vertices + vertices, cost }
    }

    /// Whether a checkpoint is to be written: there is something new to write, and the last is as long ago as asked for
    /// or the build ends here.
    pub(crate) fn is_due(&self, linked: Linked, ends: bool) -> bool {
        self.writer.as_ref().is_some_and(|writer| {
            let (vertices, then) = writer.written;
            linked.vertices > vertices && (ends || then.elapsed() >= writer.checkpoints.every)
        })
    }

    /// Writes a checkpoint, if any are asked for. `graph` has the links so far.
    pub(crate) fn write<T: Element>(
        &mut self,
        graph: &Graph<T>,
        linked: Linked,
    ) -> Result<(), CheckpointError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let checkpoint = Checkpoint {
            rows_checksum: writer.rows_checksum,
            release: release(),
            linked: linked.vertices as u64,
            cost: linked.cost.into(),
        };
        graph.save_checkpoint(writer.checkpoints.path, &checkpoint).map_err(CheckpointError::Save)?;
        writer.written = (linked.vertices, Instant::now());
        Ok(())
    }
}

/// The release that builds.
fn release_name() -> String {
    env!("CARGO_PKG_VERSION").into()
}

/// [`release_name`], as a checkpoint has it.
fn release() -> [u8; 12] {
    let mut release = [0; 12];
    release.iter_mut().zip(release_name().bytes()).for_each(|(to, from)| *to = from);
    release
}

/// Slots whose rows one thread reads.
const SLOTS_A_PART: usize = 1 << 14;

/// Of all rows, in the order of their slots.
fn rows_checksum<T: Element>(graph: &Graph<T>) -> u32 {
    let of_part = |part: usize| {
        let slots = part * SLOTS_A_PART..graph.slots().min((part + 1) * SLOTS_A_PART);
        slots.map(VectorId::from_index).fold(0, |checksum, slot| {
            crc32c::crc32c_append(checksum, bytemuck::cast_slice(graph.vectors().padded(slot)))
        })
    };
    let parts: Vec<u32> = (0..graph.slots().div_ceil(SLOTS_A_PART)).into_par_iter().map(of_part).collect();
    crc32c::crc32c(bytemuck::cast_slice(&parts))
}
