//! Graphs of other libraries.

use std::path::PathBuf;

use jasper::{Device, Metric, OpenOptions, Vectors};
use jasper_core::{BuildParams, with_element};
use jasper_graph::Graph;
use jasper_interop::{GraphFormat, ImportError, ImportFault, diskann, faiss, hnswlib, parlay};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::arrays::Input;
use crate::call::{self, Report};
use crate::errors::{
    Cancelled, DuplicateKeyError, FormatError, Integer, ParameterError, Raise, count, message, parse,
};
use crate::index::{Index, check_keys};
use crate::options::{self, DeviceArgument};

#[pymethods]
impl Index {
    /// Makes an index of a graph that another library built, in a fraction of the time of a build: of an index file of
    /// hnswlib, or of an IndexHNSWFlat or IndexHNSWSQ of faiss, which may be in an IndexIDMap. Edges of upper layers are
    /// added to those of the base layer where there is room, and start points and edges that lead to all parts of it.
    ///
    /// format
    ///     "hnswlib", "faiss", "diskann" or "parlayann". By default it is found in the file; those of ParlayANN have no
    ///     mark.
    /// base
    ///     The vectors that a graph of DiskANN or ParlayANN was built from, in their order, as for Index.build. Their
    ///     positions become the keys. Files of hnswlib and faiss have vectors, and labels or ids.
    /// metric
    ///     "l2", "cosine" or "ip", which files of hnswlib do not say; required except for faiss, whose files have "l2" or "ip". An index of inner products
    ///     whose vectors have unit length may be opened as "cosine".
    /// max_degree
    ///     Largest number of edges of a vector. By default that of the base layer, which is 2 M, and 64 for DiskANN and
    ///     ParlayANN.
    /// device
    ///     Where the index is: see Index.to_device.
    ///
    /// Elements that hnswlib has marked as deleted are deleted; undelete restores them.
    ///
    /// Raises FileNotFoundError or another OSError; FormatError if the file is damaged or cannot be read; ParameterError
    /// or DuplicateKeyError for what an index cannot have.
    #[staticmethod]
    #[pyo3(signature = (file, format = None, *, base = None, metric = None, max_degree = None,
                        device = DeviceArgument(Device::CPU), threads = None, progress = None),
           text_signature = "(file, format=None, *, base=None, metric=None, max_degree=None, device=\"cpu\", \
                             threads=None, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn import_graph(
        py: Python<'_>,
        file: PathBuf,
        format: Option<&str>,
        base: Option<&Bound<'_, PyAny>>,
        metric: Option<&str>,
        max_degree: Option<Integer>,
        device: DeviceArgument,
        threads: Option<Integer>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let params = max_degree.map(|max_degree| {
            let params = BuildParams::builder().max_degree(count("max_degree", max_degree)?).build();
            params.map_err(|error| ParameterError::new_err(message(&error)))
        });
        let graph = GraphFile {
            format: match format {
                Some(name) => parse(name)?,
                None => format_of(&file)?,
            },
            metric: metric.map(parse).transpose()?,
            params: params.transpose()?,
            path: file,
            options: OpenOptions::new().threads(options::threads(threads)?).device(device.0),
        };
        let index = match (base, graph.format.has_vectors()) {
            (None, true) => call::long(py, progress, |report| graph.open(report)),
            (Some(base), false) => {
                let input = Input::new(base, None)?;
                if matches!(&input, Input::Array(array) if array.is_one()) {
                    return Err(ParameterError::new_err(
                        "base is in one dimension; it must have shape (n, dim)",
                    ));
                }
                let source = input.source()?;
                call::long(py, progress, |report| graph.open_with(source.into(), report))
            }
            (None, false) => Err(graph.missing("the argument base, the vectors that it was built from")),
            (Some(_), true) => {
                let message = format!("a file of {} holds its vectors; leave out base", graph.format);
                Err(ParameterError::new_err(message))
            }
        };
        index.map(Self::new)
    }
}

/// The format of a file, by its content.
fn format_of(path: &PathBuf) -> PyResult<GraphFormat> {
    let found = GraphFormat::of_file(path);
    let found = found.map_err(|error| raise(ImportError::new(path, error)))?;
    found.ok_or_else(|| {
        FormatError::new_err(format!(
            "{}: is not a graph of hnswlib, faiss or DiskANN; for one of ParlayANN, pass format=\"parlayann\"; \
             Index.open opens files of Jasper",
            path.display()
        ))
    })
}

/// A graph that is to be an index.
struct GraphFile {
    path: PathBuf,
    format: GraphFormat,
    metric: Option<Metric>,
    params: Option<BuildParams>,
    options: OpenOptions,
}

impl GraphFile {
    /// Opens a file with vectors.
    fn open(self, mut report: Report) -> PyResult<jasper::Index> {
        let (path, params) = (&self.path, self.params);
        if self.format == GraphFormat::Hnswlib {
            let graph = hnswlib::read(path, self.needed_metric()?, params, &mut report).map_err(raise)?;
            return self.index(graph, report);
        }
        let graph = faiss::read(path, self.metric, params, &mut report).map_err(raise)?;
        self.index(graph, report)
    }

    /// Opens a file without vectors.
    fn open_with(self, base: Vectors<'_>, mut report: Report) -> PyResult<jasper::Index> {
        let (metric, params) = (self.needed_metric()?, self.params.unwrap_or_default());
        with_element!(base.element(), T => {
            let read = match self.format {
                GraphFormat::Diskann => diskann::read::<T>,
                GraphFormat::Parlayann => parlay::read::<T>,
                _ => return Err(ParameterError::new_err(format!("graphs of {} are not read", self.format))),
            };
            let graph = base.with_source::<T, _>(|base| read(&self.path, base, metric, params, &mut report));
            let graph = graph.map_err(|error| ParameterError::new_err(message(&error)))?.map_err(raise)?;
            self.index(graph, report)
        })
    }

    fn index(self, graph: Graph, report: Report) -> PyResult<jasper::Index> {
        check_keys(self.options.with_progress(report).import_graph(graph).map_err(Raise::raise)?)
    }

    fn needed_metric(&self) -> PyResult<Metric> {
        self.metric.ok_or_else(|| self.missing("the argument metric: l2, cosine or ip"))
    }

    fn missing(&self, what: &str) -> PyErr {
        ParameterError::new_err(format!("a graph of {} needs {what}", self.format))
    }
}

/// The exception for a graph file that cannot be read.
fn raise(error: ImportError) -> PyErr {
    let text = message(&error);
    let path = error.path().to_owned();
    match error.into_cause() {
        // Errors of the operating system keep their number, and so become `FileNotFoundError` and its like.
        ImportFault::Io(fault) => match fault.raw_os_error() {
            Some(number) => {
                let text = fault.to_string();
                PyOSError::new_err((
                    number,
                    text.split(" (os error").next().unwrap_or_default().to_owned(),
                    path,
                ))
            }
            None => fault.into(),
        },
        ImportFault::Vector(error) => error.raise(),
        ImportFault::Cancelled(error) => Cancelled::new_err(message(&error)),
        ImportFault::RepeatedKey { .. } => DuplicateKeyError::new_err(text),
        ImportFault::Vertices { .. }
        | ImportFault::Degree { .. }
        | ImportFault::Metric { .. }
        | ImportFault::Params(_)
        | ImportFault::ReservedKey { .. } => ParameterError::new_err(text),
        _ => FormatError::new_err(text),
    }
}
