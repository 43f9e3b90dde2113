//! Runbooks: streams of inserts, deletes, replacements and searches, in the format of big-ann-benchmarks.

mod error;
mod make;
mod parse;
mod tags;

use std::fmt::{self, Display};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use jasper_data::{AtomicFile, PathError, WriteError};

pub use error::{ReadCause, RunbookError, StepError};
use tags::Tags;

/// The file of a runbook could not be read.
pub type ReadError = PathError<ReadCause>;

/// An operation of a runbook. Ids are rows of the base file; tags are keys of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Insert these rows, with their numbers as tags.
    Insert(Range<u32>),
    /// Delete these tags.
    Delete(Range<u32>),
    /// Replace the vectors of tags.
    Replace {
        /// The tags.
        tags: Range<u32>,
        /// The rows of their new vectors, in the same order.
        ids: Range<u32>,
    },
    /// Search for all queries.
    Search,
}

impl Operation {
    /// The value of the field `operation` in a file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert(_) => "insert",
            Self::Delete(_) => "delete",
            Self::Replace { .. } => "replace",
            Self::Search => "search",
        }
    }

    /// The rows of the base that the operation reads.
    pub fn ids(&self) -> Option<&Range<u32>> {
        match self {
            Self::Insert(ids) | Self::Replace { ids, .. } => Some(ids),
            Self::Delete(_) | Self::Search => None,
        }
    }

    /// Applies the operation to the set of live tags.
    fn apply(&self, live: &mut Tags) -> Result<(), StepError> {
        let check = |range: &Range<u32>| {
            if range.is_empty() {
                Err(StepError::Range { start: range.start, end: range.end })
            } else {
                Ok(())
            }
        };
        match self {
            Self::Insert(ids) => check(ids).and_then(|()| live.insert(ids)),
            Self::Delete(tags) => check(tags).and_then(|()| live.remove(tags)),
            Self::Replace { tags, ids } => {
                check(tags)?;
                check(ids)?;
                if tags.len() != ids.len() {
                    return Err(StepError::Lengths { tags: tags.len(), ids: ids.len() });
                }
                live.around(tags).map(drop)
            }
            Self::Search if live.len() == 0 => Err(StepError::Nothing),
            Self::Search => Ok(()),
        }
    }
}

/// A numbered operation of a runbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 1. Ground-truth files are named by it.
    pub number: usize,
    /// Its line in the file, from 1, if it was read from one.
    pub line: Option<usize>,
    /// The operation.
    pub operation: Operation,
}

impl Step {
    fn error(&self, problem: StepError) -> RunbookError {
        RunbookError::Step { step: self.number, line: self.line, problem }
    }
}

/// A valid stream of operations over one data set: tags that are deleted or replaced exist, tags that are inserted do
/// not, and no search is on an empty index.
///
/// The format is that of the streaming track of [big-ann-benchmarks]: a YAML mapping from the name of the data set to
/// steps numbered from 1. The fields `max_pts` and `gt_url` are ignored: published values of `max_pts` are too small
/// where there are replacements, so [`max_points`](Self::max_points) is counted instead.
///
/// ```
/// use jasper_runbook::{Operation, Runbook};
///
/// let text = "
/// demo:
///   max_pts: 100
///   1: { operation: insert, start: 0, end: 100 }
///   2: { operation: replace, tags_start: 0, tags_end: 10, ids_start: 100, ids_end: 110 }
///   3: { operation: search }
/// ";
/// let runbook = Runbook::from_text("demo.yaml", text, None)?;
/// assert_eq!((runbook.dataset(), runbook.max_points(), runbook.rows()), ("demo", 100, 110));
/// assert_eq!(runbook.steps()[1].operation, Operation::Replace { tags: 0..10, ids: 100..110 });
///
/// let error = Runbook::from_text("demo.yaml", &text.replace("search", "delete, start: 99, end: 101"), None);
/// assert_eq!(
///     error.unwrap_err().to_string(),
///     "demo.yaml: step 3 (line 6): tag 100 is not in the index; insert it first"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [big-ann-benchmarks]: https://github.com/harsha-simhadri/big-ann-benchmarks
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runbook {
    dataset: String,
    steps: Vec<Step>,
    max_points: usize,
}

impl Runbook {
    /// Creates a runbook of `operations` over a data set.
    ///
    /// # Errors
    /// Returns [`RunbookError::Step`] for the first invalid step, or [`RunbookError::Empty`].
    pub fn new(
        dataset: impl Into<String>,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<Self, RunbookError> {
        let steps = operations.into_iter().zip(1..);
        Self::checked(
            dataset.into(),
            steps.map(|(operation, number)| Step { number, line: None, operation }).collect(),
        )
    }

    /// Reads the runbook of `dataset` from the file `path`. `dataset` may be `None` if the file holds one runbook.
    ///
    /// # Errors
    /// Returns [`ReadError`] with a [`RunbookError`], which names step and line, or with an I/O error.
    pub fn read(path: impl AsRef<Path>, dataset: Option<&str>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| ReadError::new(path, error))?;
        Self::from_text(path, &text, dataset)
    }

    /// Reads `text` as the content of a file named `name`; see [`Self::read`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::read`].
    pub fn from_text(name: impl AsRef<Path>, text: &str, dataset: Option<&str>) -> Result<Self, ReadError> {
        let read = || {
            let dataset = parse::choose(text, dataset)?;
            let steps = parse::steps(text, &dataset)?;
            Self::checked(dataset, steps)
        };
        read().map_err(|error: RunbookError| ReadError::new(name.as_ref(), error))
    }

    fn checked(dataset: String, steps: Vec<Step>) -> Result<Self, RunbookError> {
        if steps.is_empty() {
            return Err(RunbookError::Empty);
        }
        let (mut live, mut max_points) = (Tags::default(), 0);
        for step in &steps {
            step.operation.apply(&mut live).map_err(|problem| step.error(problem))?;
            max_points = max_points.max(live.len());
        }
        Ok(Self { dataset, steps, max_points })
    }

    /// Writes the runbook to the file `path`.
    ///
    /// # Errors
    /// Returns [`WriteError`] on an I/O error.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), WriteError> {
        let path = path.as_ref();
        let write = || -> std::io::Result<()> {
            let mut file = AtomicFile::create(path)?;
            write!(file, "{self}")?;
            Ok(file.commit()?)
        };
        write().map_err(|error| WriteError::new(path, error))
    }

    /// The name of the data set.
    pub fn dataset(&self) -> &str {
        &self.dataset
    }

    /// The steps, in order. There is at least one.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The maximum number of points in the index at any time.
    pub fn max_points(&self) -> usize {
        self.max_points
    }

    /// The number of rows that the base must have.
    pub fn rows(&self) -> usize {
        self.steps
            .iter()
            .filter_map(|step| step.operation.ids())
            .map(|ids| ids.end as usize)
            .max()
            .unwrap_or(0)
    }

    /// Checks that a base of `rows` rows has all rows.
    ///
    /// # Errors
    /// Returns [`StepError::Row`] for the first step that needs a missing row.
    pub fn check_rows(&self, rows: usize) -> Result<(), RunbookError> {
        self.steps.iter().try_for_each(|step| match step.operation.ids() {
            Some(ids) if ids.end as usize > rows => {
                Err(step.error(StepError::Row { row: ids.end - 1, rows }))
            }
            _ => Ok(()),
        })
    }
}

/// Formats the runbook as YAML.
impl Display for Runbook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match quoted(&self.dataset) {
            name if name.len() <= SIMPLE_KEY => writeln!(f, "{name}:")?,
            name => writeln!(f, "? {name}\n:")?,
        }
        writeln!(f, "  max_pts: {}", self.max_points)?;
        for Step { number, operation, .. } in &self.steps {
            writeln!(f, "  {number}:\n    operation: {}", operation.name())?;
            match operation {
                Operation::Insert(range) | Operation::Delete(range) => field(f, "", range)?,
                Operation::Replace { tags, ids } => {
                    field(f, "tags_", tags)?;
                    field(f, "ids_", ids)?;
                }
                Operation::Search => {}
            }
        }
        Ok(())
    }
}

/// Longest key that YAML reads without a `?` before it.
const SIMPLE_KEY: usize = 1000;

/// A name as a quoted YAML scalar.
fn quoted(name: &str) -> String {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !"\"\\".contains(c);
    let escaped =
        name.chars().map(|c| if plain(c) { c.to_string() } else { format!("\\U{:08X}", u32::from(c)) });
    format!("\"{}\"", escaped.collect::<String>())
}

fn field(f: &mut fmt::Formatter<'_>, prefix: &str, range: &Range<u32>) -> fmt::Result {
    writeln!(f, "    {prefix}start: {}\n    {prefix}end: {}", range.start, range.end)
}
