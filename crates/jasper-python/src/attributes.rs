//! Attributes: columns of Python values.

use jasper::Key;
use jasper::attributes::{ColumnKind, Expression, Frame, Value};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::arrays;
use crate::errors::{ParameterError, Raise};
use crate::index::Index;

#[pymethods]
impl Index {
    /// Sets attributes of keys. Attributes that are not given stay as they are, and so do vectors. Attributes are as of
    /// Index.build.
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
        let keys = arrays::keys(keys)?;
        let frame = frame(attributes, keys.len(), None)?;
        self.call(py, |index| index.set_attributes(&keys, &frame).map_err(Raise::raise))
    }

    /// The attributes of keys, such as those of hits: a dictionary with a list of values for each column, None where there
    /// is none.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index.build([[1.0], [2.0]], attributes={"year": [1999, None], "tags": [["a"], ["a", "b"]]})
    /// >>> index.attributes([1, 0])
    /// {'year': [None, 1999], 'tags': [['a', 'b'], ['a']]}
    fn attributes<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let keys = arrays::keys(keys)?;
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
        for column in self.call(py, |index| Ok(index.columns()))? {
            columns.set_item(column.name, column.kind.to_string())?;
        }
        Ok(columns)
    }

    /// The key with an id, or None: see ids of Index.build.
    fn key_of(&self, py: Python<'_>, id: &str) -> PyResult<Option<Key>> {
        self.call(py, |index| Ok(index.key_of(id)))
    }
}

/// The attributes of an argument, for this number of rows. `ids` names the column of ids.
pub fn frame(given: &Bound<'_, PyAny>, rows: usize, ids: Option<&str>) -> PyResult<Frame> {
    let py = given.py();
    let interop = py.import(intern!(py, "jasper._interop"))?;
    let columns = interop.call_method1(intern!(py, "columns"), (given,))?;
    let refused = |error: jasper::attributes::AttributeError| ParameterError::new_err(error.to_string());
    let mut frame = Frame::new(rows);
    let mut has_ids = false;
    for column in columns.try_iter()? {
        let (name, values, is_time): (String, Vec<Bound<'_, PyAny>>, bool) = column?.extract()?;
        let values = values.iter().enumerate().map(|(row, value)| {
            from_python(value)?.ok_or_else(|| {
                let kind = value.get_type();
                ParameterError::new_err(format!(
                    "column {name:?} has a {kind} in row {row}, which no column stores"
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
        return Ok(Some(value.extract::<i64>()?.into()));
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

/// The expression of a text, or of a dictionary such as `{"year": {"$gte": 2020}}`; `None` of anything else.
pub fn expression(given: &Bound<'_, PyAny>) -> PyResult<Option<Expression>> {
    let refused = |error: jasper::attributes::ExpressionError| ParameterError::new_err(error.to_string());
    if let Ok(text) = given.cast::<PyString>() {
        return text.to_str()?.parse().map(Some).map_err(refused);
    }
    if given.is_instance_of::<PyDict>() {
        let py = given.py();
        let interop = py.import(intern!(py, "jasper._interop"))?;
        let text: String = interop.call_method1(intern!(py, "json_text"), (given,))?.extract()?;
        let json = serde_json::from_str(&text).map_err(|error| ParameterError::new_err(error.to_string()))?;
        return Expression::from_json(&json).map(Some).map_err(refused);
    }
    Ok(None)
}
