//! The YAML parser of runbooks. A runbook is two mappings deep, so the parser consumes events without building a tree,
//! and does not recurse however deep a file is nested.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use jasper_core::MAX_VECTORS;
use saphyr_parser::{Event, Parser, StrInput};

use super::{Operation, RunbookError, Step, StepError};

/// The named data set, or the only one of the file.
pub(super) fn choose(text: &str, name: Option<&str>) -> Result<String, RunbookError> {
    let mut names = Vec::new();
    let mut reader = Reader::new(text)?;
    while let Some((name, line)) = reader.key()? {
        if names.contains(&name) {
            return Err(yaml(line, format!("{name} is there already")));
        }
        names.push(name);
        reader.skip()?;
    }
    let known = names.join(", ");
    match (name, &names[..]) {
        (_, []) => Err(RunbookError::Empty),
        (Some(name), names) if !names.iter().any(|known| known == name) => {
            Err(RunbookError::Dataset { name: name.to_owned(), known })
        }
        (Some(name), _) => Ok(name.to_owned()),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(RunbookError::Several { known }),
    }
}

/// The steps of a data set, in the order of their numbers.
pub(super) fn steps(text: &str, dataset: &str) -> Result<Vec<Step>, RunbookError> {
    let mut reader = Reader::new(text)?;
    while let Some((name, _)) = reader.key()? {
        if name == dataset {
            break;
        }
        reader.skip()?;
    }
    let mut steps = BTreeMap::new();
    reader.open("a runbook")?;
    while let Some((key, line)) = reader.key()? {
        if let Some(number) = key.parse().ok().filter(|&number| number > 0) {
            let Entry::Vacant(place) = steps.entry(number) else {
                return Err(yaml(line, format!("step {number} is there already")));
            };
            place.insert((step(&mut reader, number, line)?, line));
        } else if ["max_pts", "gt_url"].contains(&&*key) {
            reader.scalar(&key)?;
        } else {
            return Err(RunbookError::Key { line, key });
        }
    }
    match (1..).zip(steps.values()).find(|(number, (step, _))| *number != step.number) {
        Some((missing, &(Step { number: next, .. }, line))) => Err(RunbookError::Gap { missing, next, line }),
        None => Ok(steps.into_values().map(|(step, _)| step).collect()),
    }
}

fn step(reader: &mut Reader<'_>, number: usize, line: usize) -> Result<Step, RunbookError> {
    let mut fields = Fields::default();
    reader.open(&format!("step {number}"))?;
    while let Some((field, line)) = reader.key()? {
        let value = reader.scalar(&field)?;
        if fields.0.insert(field.clone(), value).is_some() {
            return Err(yaml(line, format!("step {number} has `{field}` already")));
        }
    }
    let line = Some(line);
    match fields.operation() {
        Ok(operation) => Ok(Step { number, line, operation }),
        Err(problem) => Err(RunbookError::Step { step: number, line, problem }),
    }
}

/// The fields of a step that are not used yet.
#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Fields {
    fn operation(mut self) -> Result<Operation, StepError> {
        let name = self.take("operation")?;
        let operation = match name.as_str() {
            "insert" => Operation::Insert(self.range("start", "end")?),
            "delete" => Operation::Delete(self.range("start", "end")?),
            "replace" => Operation::Replace {
                tags: self.range("tags_start", "tags_end")?,
                ids: self.range("ids_start", "ids_end")?,
            },
            "search" => Operation::Search,
            _ => return Err(StepError::Operation(name)),
        };
        match self.0.into_keys().next() {
            None => Ok(operation),
            Some(field) => Err(StepError::Field { field, operation: operation.name() }),
        }
    }

    fn range(&mut self, start: &'static str, end: &'static str) -> Result<Range<u32>, StepError> {
        Ok(self.number(start)?..self.number(end)?)
    }

    fn number(&mut self, field: &'static str) -> Result<u32, StepError> {
        let value = self.take(field)?;
        let number = value.parse().ok().filter(|&number| number as usize <= MAX_VECTORS);
        number.ok_or(StepError::Number { field, value })
    }

    fn take(&mut self, field: &'static str) -> Result<String, StepError> {
        self.0.remove(field).ok_or(StepError::Missing(field))
    }
}

fn yaml(line: usize, problem: impl Into<String>) -> RunbookError {
    RunbookError::Yaml { line, problem: problem.into() }
}

/// The events of a YAML text.
struct Reader<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Reader<'a> {
    /// Enters the mapping of the first document.
    fn new(text: &'a str) -> Result<Self, RunbookError> {
        let mut reader = Self(Parser::new_from_str(text));
        while matches!(reader.0.peek(), Some(Ok((Event::StreamStart | Event::DocumentStart(_), _)))) {
            reader.next()?;
        }
        if matches!(reader.0.peek(), None | Some(Ok((Event::StreamEnd, _)))) {
            return Err(RunbookError::Empty);
        }
        reader.open("the file")?;
        Ok(reader)
    }

    /// The next event, and its line.
    fn next(&mut self) -> Result<(Event<'a>, usize), RunbookError> {
        match self.0.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(yaml(error.marker().line(), error.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// Enters the mapping that `what` must be.
    fn open(&mut self, what: &str) -> Result<(), RunbookError> {
        match self.next()? {
            (Event::MappingStart(..), _) => Ok(()),
            (_, line) => Err(yaml(line, format!("{what} must be a mapping, such as `start: 0`"))),
        }
    }

    /// The next key of a mapping, and its line; none at its end.
    fn key(&mut self) -> Result<Option<(String, usize)>, RunbookError> {
        match self.next()? {
            (Event::Scalar(key, ..), line) => Ok(Some((key.into_owned(), line))),
            (Event::MappingEnd, _) => Ok(None),
            (_, line) => Err(yaml(line, "a key must be a number or a word")),
        }
    }

    /// The value of `key`.
    fn scalar(&mut self, key: &str) -> Result<String, RunbookError> {
        match self.next()? {
            (Event::Scalar(value, ..), _) => Ok(value.into_owned()),
            (_, line) => Err(yaml(line, format!("{key} must be a number or a word"))),
        }
    }

    /// Skips one value.
    fn skip(&mut self) -> Result<(), RunbookError> {
        let mut depth = 0;
        loop {
            match self.next()?.0 {
                Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
                Event::MappingEnd | Event::SequenceEnd => depth -= 1,
                Event::StreamEnd => return Ok(()),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
