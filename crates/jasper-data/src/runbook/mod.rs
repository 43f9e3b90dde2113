//! Runbooks: streams of inserts, deletes, replacements and searches, as big-ann-benchmarks writes them.

mod error;
mod make;
mod parse;
mod tags;

use std::fmt::{self, Display};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use crate::{AtomicFile, ReadError, WriteError};

pub use error::{RunbookError, StepError};
use tags::Tags;

/// One step of a runbook. Ids are rows of a base file, tags are keys of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Insert these rows, each under its own number as tag.
    Insert(Range<u32>),
    /// Delete these tags.
    Delete(Range<u32>),
    /// Give each of these tags another vector.
    Replace {
        /// Tags whose vectors go.
        tags: Range<u32>,
        /// Rows that come in their place, in the same order.
        ids: Range<u32>,
    },
    /// Ask all queries.
    Search,
}

impl Operation {
    /// The field `operation` of a file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert(_) => "insert",
            Self::Delete(_) => "delete",
            Self::Replace { .. } => "replace",
            Self::Search => "search",
        }
    }

    /// The rows that it reads from the base.
    pub fn ids(&self) -> Option<&Range<u32>> {
        match self {
            Self::Insert(ids) | Self::Replace { ids, .. } => Some(ids),
            Self::Delete(_) | Self::Search => None,
        }
    }

    /// Does the step to the tags in the index.
    fn apply(&self, live: &mut Tags) -> Result<(), StepError> {
        let check = |range: &Range<u32>| match range.is_empty() {
            true => Err(StepError::Range { start: range.start, end: range.end }),
            false => Ok(()),
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

/// A step, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 1; the files of true neighbours are named by it.
    pub number: usize,
    /// Its line in the file, from 1, if it was read from one.
    pub line: Option<usize>,
    /// What is to be done.
    pub operation: Operation,
}

impl Step {
    fn error(&self, problem: StepError) -> RunbookError {
        RunbookError::Step { step: self.number, line: self.line, problem }
    }
}

/// The steps of a stream over one data set, checked: whatever is deleted or replaced is there, whatever is inserted is
/// not, and no search meets an empty index.
///
/// The format is that of the streaming track of [big-ann-benchmarks]: YAML, a data set's name above steps with numbers
/// from 1. `max_pts` and `gt_url` may stand beside the steps; neither is asked: most points at once are
/// [counted](Self::most_points), since published files with replacements say too little, and nothing is downloaded.
///
/// ```
/// use jasper_data::{Operation, Runbook};
///
/// let text = "
/// demo:
///   max_pts: 100
///   1: { operation: insert, start: 0, end: 100 }
///   2: { operation: replace, tags_start: 0, tags_end: 10, ids_start: 100, ids_end: 110 }
///   3: { operation: search }
/// ";
/// let runbook = Runbook::from_text("demo.yaml", text, None)?;
/// assert_eq!((runbook.dataset(), runbook.most_points(), runbook.rows()), ("demo", 100, 110));
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
    most_points: usize,
}

impl Runbook {
    /// The runbook of these operations over a data set.
    ///
    /// # Errors
    /// [`RunbookError::Step`], with the first step that cannot be done, and [`RunbookError::Empty`].
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

    /// Reads the runbook of a data set from the file `path`, which may hold those of several; without a name, the only
    /// one.
    ///
    /// # Errors
    /// [`ReadError`] with a [`RunbookError`], which names step and line, or what the operating system says.
    pub fn read(path: impl AsRef<Path>, dataset: Option<&str>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| ReadError::new(path, error))?;
        Self::from_text(path, &text, dataset)
    }

    /// Takes `text` for the content of a file named `name`; see [`Self::read`].
    ///
    /// # Errors
    /// As for [`Self::read`].
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
        let (mut live, mut most_points) = (Tags::default(), 0);
        for step in &steps {
            step.operation.apply(&mut live).map_err(|problem| step.error(problem))?;
            most_points = most_points.max(live.len());
        }
        Ok(Self { dataset, steps, most_points })
    }

    /// Writes it as the file `path`, for any program that reads the format.
    ///
    /// # Errors
    /// [`WriteError`], with what the operating system says.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), WriteError> {
        let path = path.as_ref();
        let write = || -> std::io::Result<()> {
            let mut file = AtomicFile::create(path)?;
            write!(file, "{self}")?;
            Ok(file.commit()?)
        };
        write().map_err(|error| WriteError::new(path, error))
    }

    /// Name of the data set.
    pub fn dataset(&self) -> &str {
        &self.dataset
    }

    /// The steps, in order; there is at least one.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Points in the index where it holds most.
    pub fn most_points(&self) -> usize {
        self.most_points
    }

    /// Rows that a base must have.
    pub fn rows(&self) -> usize {
        self.steps
            .iter()
            .filter_map(|step| step.operation.ids())
            .map(|ids| ids.end as usize)
            .max()
            .unwrap_or(0)
    }

    /// Checks that every row is in a base of `rows` rows.
    ///
    /// # Errors
    /// [`StepError::Row`] of the first step that needs another.
    pub fn check_rows(&self, rows: usize) -> Result<(), RunbookError> {
        self.steps.iter().try_for_each(|step| match step.operation.ids() {
            Some(ids) if ids.end as usize > rows => {
                Err(step.error(StepError::Row { row: ids.end - 1, rows }))
            }
            _ => Ok(()),
        })
    }
}

/// The text of a file.
impl Display for Runbook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:", quoted(&self.dataset))?;
        writeln!(f, "  max_pts: {}", self.most_points)?;
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

/// A name as YAML reads it again, whatever it holds.
fn quoted(name: &str) -> String {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !"\"\\".contains(c);
    let escaped =
        name.chars().map(|c| if plain(c) { c.to_string() } else { format!("\\U{:08X}", u32::from(c)) });
    format!("\"{}\"", escaped.collect::<String>())
}

fn field(f: &mut fmt::Formatter<'_>, prefix: &str, range: &Range<u32>) -> fmt::Result {
    writeln!(f, "    {prefix}start: {}\n    {prefix}end: {}", range.start, range.end)
}
