//! Index, vector and ground-truth files.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use jasper::{Element, ErrorKind, Index, MatrixView, OpenOptions, Vectors};
use jasper_attributes::AttributeError;
use jasper_core::{MatrixError, with_element};
use jasper_data::{GroundTruth, Rows, VectorFile};
use jasper_graph::{KeyError, VectorError};
use jasper_quant::TrainError;
use jasper_vamana::{SearchError, UpdateError};

use crate::terminal::Terminal;

/// Adds the name of the input file that an error is about: that of the keys, or that of the vectors.
pub fn name_input(error: anyhow::Error, vectors: &Path, keys: Option<&Path>) -> anyhow::Error {
    let path = match subject(&error) {
        Some(Subject::Vectors) => Some(vectors),
        Some(Subject::Keys) => keys,
        _ => None,
    };
    name(error, path)
}

/// Adds the name of the file of attributes, if these are what an error is about.
pub fn name_attributes(error: anyhow::Error, attributes: Option<&Path>) -> anyhow::Error {
    let path = matches!(subject(&error), Some(Subject::Attributes)).then_some(attributes);
    name(error, path.flatten())
}

/// Adds the name of the index, if it is what an error is about.
pub fn name_index(error: anyhow::Error, index: &Path) -> anyhow::Error {
    let path = matches!(subject(&error), Some(Subject::Index)).then_some(index);
    name(error, path)
}

fn name(error: anyhow::Error, path: Option<&Path>) -> anyhow::Error {
    match path {
        Some(path) => error.context(path.display().to_string()),
        None => error,
    }
}

/// What an error is about.
enum Subject {
    Vectors,
    Keys,
    Attributes,
    Index,
}

fn subject(error: &anyhow::Error) -> Option<Subject> {
    let error = error.downcast_ref::<jasper::Error>()?;
    let vector = match error.downcast_ref() {
        Some(SearchError::NoCodes | SearchError::Filter(_)) => return Some(Subject::Index),
        Some(SearchError::Vector(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    match (vector, error.downcast_ref(), error.downcast_ref()) {
        (Some(VectorError::Matrix(_) | VectorError::ZeroVector { .. } | VectorError::TooLong { .. }), ..) => {
            Some(Subject::Vectors)
        }
        (Some(_), ..)
        | (_, Some(KeyError::NoneLeft { .. }), _)
        | (.., Some(UpdateError::NoCodes | UpdateError::CodesLose { .. })) => Some(Subject::Index),
        (_, Some(_), _) | (.., Some(UpdateError::RepeatedKey(_) | UpdateError::KeyCount { .. })) => {
            Some(Subject::Keys)
        }
        _ if error.downcast_ref::<TrainError>().is_some() => Some(Subject::Index),
        _ if error.downcast_ref::<AttributeError>().is_some() => Some(Subject::Attributes),
        _ => None,
    }
}

/// Opens an index file.
pub fn open_index(path: &Path, options: OpenOptions, terminal: Terminal) -> Result<Index> {
    Ok(options.with_progress(terminal.progress()).open(path)?)
}

/// Opens an index file that is only read. A durable index that another process has open is followed.
pub fn open_to_read(path: &Path, options: OpenOptions, terminal: Terminal) -> Result<Index> {
    let options = options.with_progress(terminal.progress());
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::InUse => Ok(options.follow(true).open(path)?),
        opened => Ok(opened?),
    }
}

/// Opens a vector file of this dimension.
pub fn open_vectors(path: &Path, dimension: usize) -> Result<VectorFile> {
    let file = VectorFile::open(path)?;
    let (name, given) = (path.display(), file.dimension());
    ensure!(given == dimension, "{name}: contains vectors of dimension {given}, expected {dimension}");
    Ok(file)
}

/// Opens a file of queries of this dimension.
fn open_queries(path: &Path, dimension: usize) -> Result<VectorFile> {
    let file = open_vectors(path, dimension)?;
    ensure!(!file.is_empty(), "{}: contains no queries", path.display());
    Ok(file)
}

/// Reads queries of this dimension into memory, as `T`: see [`Vectors::with_matrix`].
pub fn read_queries_as<T: Element>(path: &Path, dimension: usize) -> Result<Vec<T>> {
    let file = open_queries(path, dimension)?;
    let values = |queries: MatrixView<'_, T>| queries.rows().flatten().copied().collect();
    Vectors::from(&file).with_matrix(values).map_err(|error| match error.downcast::<MatrixError>() {
        Ok(error) => anyhow::Error::from(error).context(path.display().to_string()),
        Err(error) => error.into(),
    })
}

/// Queries in memory, of any element type.
pub trait Queries {
    /// The queries.
    fn view(&self) -> Vectors<'_>;
}

impl<T: Element> Queries for Rows<T> {
    fn view(&self) -> Vectors<'_> {
        self.into()
    }
}

/// Reads queries for an index into memory.
pub fn read_queries(path: &Path, index: &Index) -> Result<Box<dyn Queries>> {
    let file = open_queries(path, index.dimension())?;
    Ok(with_element!(file.element(), T => Box::new(file.load::<T>()?)))
}

/// Reads the ground truth of `queries` queries with at least `k` neighbors each.
pub fn read_truth(path: &Path, queries: usize, k: usize) -> Result<GroundTruth> {
    let truth = GroundTruth::read(path)?;
    let check = || {
        ensure!(
            truth.len() == queries,
            "contains the neighbors of {} queries, expected {queries}",
            truth.len()
        );
        ensure!(
            truth.k() >= k,
            "contains {} neighbors per query, and k is {k}; lower k, or compute more neighbors",
            truth.k()
        );
        Ok(())
    };
    check().with_context(|| path.display().to_string())?;
    Ok(truth)
}
