//! Attributes: columns of Python values.

use jasper::Key;
use jasper::attributes::{ColumnKind, Expression, Frame, Value};
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString};
use serde_json::{Number, Value as Json};

use crate::errors::{ParameterError, Raise};
use crate::index::Index;

/// How deep the dictionary of a filter may be nested: deeper than the library takes.
const MAX_DEPTH: usize = 200;

#[pymethods]
impl Index {
    /// Sets attributes of keys, or of ids. Attributes that are not given stay as they are, and so do vectors. Attributes
    /// are as of Index.build.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index.build([[1.0, 2.0], [3.0, 4.0]])
    /// >>> index.set_attributes([0, 1], {"price": [7.5, 12.0]})
    /// >>> index.search([3.0, 4.0], 2, filter="price < 10").keys
    /// array([ 0, -1])
    fn set_attributes(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        attributes: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let keys = self.named(py, keys, false)?;
        let frame = frame(attributes, keys.len(), None)?;
        self.call(py, |index| {
            let _turn = self.share_ids();
            index.set_attributes(&keys, &frame).map_err(Raise::raise)
        })
    }

    /// The attributes of keys, such as those of hits, or of ids: a dictionary with a list of values for each column, None
    /// where there is none.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index.build([[1.0], [2.0]], attributes={"year": [1999, None], "tags": [["a"], ["a", "b"]]})
    /// >>> index.attributes([1, 0])
    /// {'year': [None, 1999], 'tags': [['a', 'b'], ['a']]}
    fn attributes<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let keys = self.named(py, keys, false)?;
        let frame = self.call(py, |index| Ok(index.attributes(&keys)))?;
        let columns = PyDict::new(py);
        for (name, _) in frame.columns() {
            let values = (0..frame.len()).map(|row| to_python(py, frame.value(row, name)));
            columns.set_item(name, values.collect::<PyResult<Vec<_>>>()?)?;
        }
        Ok(columns)
    }

    /// The columns of the attributes and their types: "bool", "integer", "float", "timestamp", "keyword", "keywords" or "id".
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, kind) in self.call(py, |index| Ok(index.attributes(&[])))?.columns() {
            columns.set_item(name, kind.map(|kind| kind.to_string()))?;
        }
        Ok(columns)
    }

    /// The key with an id, or None: see ids of Index.build.
    pub(crate) fn key_of(&self, py: Python<'_>, id: &str) -> PyResult<Option<Key>> {
        self.call(py, |index| Ok(index.key_of(id)))
    }
}

/// The attributes of arguments, if there are any.
pub fn optional_frame(
    attributes: Option<&Bound<'_, PyAny>>,
    rows: usize,
    ids: Option<&str>,
) -> PyResult<Option<Frame>> {
    match (attributes, ids) {
        (Some(given), ids) => frame(given, rows, ids).map(Some),
        (None, Some(_)) => Err(ParameterError::new_err("ids is a column of attributes; give attributes")),
        (None, None) => Ok(None),
    }
}

/// The attributes of an argument, for this number of rows. `ids` names the column of ids.
fn frame(given: &Bound<'_, PyAny>, rows: usize, ids: Option<&str>) -> PyResult<Frame> {
    let py = given.py();
    let interop = py.import(intern!(py, "jasper._interop"))?;
    let columns = interop.call_method1(intern!(py, "columns"), (given,))?;
    let mut frame = Frame::new(rows);
    let mut has_ids = false;
    for column in columns.try_iter()? {
        let (name, values, is_time): (String, Vec<Bound<'_, PyAny>>, bool) = column?.extract()?;
        let values = values.iter().enumerate().map(|(row, value)| {
            from_python(value)?.ok_or_else(|| {
                let what = if value.is_instance_of::<PyInt>() {
                    format!("the integer {value}, beyond 64 bits,")
                } else {
                    value.get_type().to_string()
                };
                ParameterError::new_err(format!(
                    "column {name:?} has {what} in row {row}, which no column stores"
                ))
            })
        });
        let values: Vec<Value> = values.collect::<PyResult<_>>()?;
        let is_ids = ids == Some(&name);
        has_ids |= is_ids;
        frame = match (is_ids, is_time) {
            (true, _) => frame.column_of(name, ColumnKind::Id, values),
            (false, true) => frame.column_of(name, ColumnKind::Timestamp, values),
            (false, false) => frame.column(name, values),
        }
        .map_err(refused)?;
    }
    match ids {
        Some(ids) if !has_ids => {
            Err(ParameterError::new_err(format!("ids ({ids:?}) must be a column of attributes")))
        }
        _ => Ok(frame),
    }
}

/// A value; `None` if no column stores such values.
fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if value.is_none() {
        return Ok(Some(Value::Null));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(text.to_str()?.into()));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Some(value.extract::<bool>()?.into()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract::<i64>().ok().map(Value::from));
    }
    if value.is_instance_of::<PyFloat>() {
        let number = value.extract::<f64>()?;
        return Ok(Some(if number.is_nan() { Value::Null } else { number.into() }));
    }
    if let Ok(time) = value.call_method0(intern!(value.py(), "isoformat")) {
        return Ok(Some(time.extract::<String>()?.as_str().into()));
    }
    Ok(value.extract::<Vec<String>>().ok().map(Value::Keywords))
}

fn to_python<'py>(py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Integer(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Timestamp(micros) => {
            let module = py.import(intern!(py, "jasper._interop"))?;
            module.call_method1(intern!(py, "time"), (micros,))?
        }
        Value::Keyword(text) => text.into_pyobject(py)?.into_any(),
        Value::Keywords(list) => list.into_pyobject(py)?,
    })
}

/// The exception for attributes or a filter that are invalid.
fn refused(error: impl std::error::Error) -> PyErr {
    ParameterError::new_err(error.to_string())
}

/// The expression of a text, or of a dictionary such as `{"year": {"$gte": 2020}}`; `None` of anything else.
pub fn expression(given: &Bound<'_, PyAny>) -> PyResult<Option<Expression>> {
    if let Ok(text) = given.cast::<PyString>() {
        return text.to_str()?.parse().map(Some).map_err(refused);
    }
    let may_be_mapping = !given.is_instance_of::<PyUntypedArray>() && !given.is_instance_of::<PyList>();
    if may_be_mapping && given.cast::<PyMapping>().is_ok() {
        let py = given.py();
        let interop = py.import(intern!(py, "jasper._interop"))?;
        let json = json(&interop.call_method1(intern!(py, "plain"), (given,))?, 0)?;
        return Expression::from_json(&json).map(Some).map_err(refused);
    }
    Ok(None)
}

/// JSON of Python's dictionaries, lists and scalars, `depth` deep in others. By way of text, floats would be rounded.
fn json(given: &Bound<'_, PyAny>, depth: usize) -> PyResult<Json> {
    if depth > MAX_DEPTH {
        return Err(ParameterError::new_err(format!("a filter may be nested {MAX_DEPTH} deep")));
    }
    if let Ok(dictionary) = given.cast::<PyDict>() {
        let entry = |(name, value): (Bound<'_, PyAny>, _)| Ok((name.extract()?, json(&value, depth + 1)?));
        return dictionary.iter().map(entry).collect::<PyResult<_>>().map(Json::Object);
    }
    if let Ok(list) = given.cast::<PyList>() {
        return list.iter().map(|value| json(&value, depth + 1)).collect::<PyResult<_>>().map(Json::Array);
    }
    let refused =
        || ParameterError::new_err(format!("a filter has the value {given}, and no column stores it"));
    Ok(match from_python(given)?.ok_or_else(refused)? {
        Value::Float(number) => Number::from_f64(number).map(Json::Number).ok_or_else(refused)?,
        Value::Null if !given.is_none() => return Err(refused()),
        value => value.to_json(),
    })
}
