//! Python's values as values of the registry of ops.

use crate::crop::Crop;
use crate::errors;
use crate::lambda::Function;
use fuseloop::ops::Ops;
use fuseloop::ops::internals::registry::{
    SpecData, SpecEntry, SpecOp, SpecTable, SpecValue, build_ops,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Lists nested deeper than any parameter are refused: a list may contain itself.
const MAX_DEPTH: usize = 32;

/// Converts a value: a bool, a number, a text, a list or tuple, a dict, or an op.
fn value(given: &Bound<'_, PyAny>, depth: usize) -> PyResult<SpecValue> {
    let py = given.py();
    if depth > MAX_DEPTH {
        return Err(errors::setting(py, "a list inside of itself, or nested too deep"));
    }
    let datum = if let Ok(value) = given.cast::<PyBool>() {
        SpecData::Bool(value.is_true())
    } else if let Ok(value) = given.cast::<PyInt>() {
        let number = value.extract::<i64>();
        number.map(SpecData::Int).map_err(|_| {
            errors::setting(py, &format!("{value} is beyond the numbers of 64 bits"))
        })?
    } else if let Ok(value) = given.cast::<PyFloat>() {
        SpecData::Float(value.value())
    } else if let Ok(value) = given.cast::<PyString>() {
        SpecData::Text(value.extract()?)
    } else if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let items = given.try_iter()?.map(|item| value(&item?, depth + 1));
        SpecData::List(items.collect::<PyResult<_>>()?)
    } else if let Ok(dict) = given.cast::<PyDict>() {
        SpecData::Table(table(dict, depth)?)
    } else if let Ok(function) = given.getattr("_function")
        && let Ok(function) = function.cast::<Function>()
    {
        SpecData::Op(SpecOp(function.get().op()))
    } else if let Ok(crop) = given.getattr("_crop")
        && let Ok(crop) = crop.cast::<Crop>()
    {
        SpecData::Op(SpecOp(crop.get().op()))
    } else if let (Ok(name), Ok(params)) = (given.getattr("name"), given.getattr("params")) {
        let (name, params) = (name.extract::<String>()?, params.cast_into::<PyDict>()?);
        SpecData::Table(op(&name, &params, depth)?)
    } else {
        let kind = given.get_type().name()?;
        return Err(errors::setting(
            py,
            &format!("{kind}: expected a number, a text, a list or an op"),
        ));
    };
    Ok(datum.into())
}

/// Converts a dict, whose values may be dicts.
pub(crate) fn table_of(dict: &Bound<'_, PyDict>) -> PyResult<SpecTable> {
    table(dict, 0)
}

fn table(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<SpecTable> {
    let entries = dict.iter().map(|(name, given)| {
        Ok(SpecEntry { name: name.extract()?, at: None, value: value(&given, depth + 1)? })
    });
    Ok(SpecTable(entries.collect::<PyResult<_>>()?))
}

/// Returns an op as the registry reads it.
fn op(name: &str, params: &Bound<'_, PyDict>, depth: usize) -> PyResult<SpecTable> {
    let mut table = table(params, depth)?;
    table.0.insert(0, SpecEntry { name: "op".to_owned(), at: None, value: name.into() });
    Ok(table)
}

/// Checks an op.
pub(crate) fn check(name: &str, params: &Bound<'_, PyDict>) -> PyResult<()> {
    let op = SpecData::Table(op(name, params, 0)?);
    let built = build_ops(&vec![SpecValue::from(op)].into());
    built.map(drop).map_err(|error| errors::of_op(params.py(), name, &error))
}

/// Builds a list of ops.
pub(crate) fn ops(list: &Bound<'_, PyAny>) -> PyResult<Ops> {
    let items = list.try_iter()?.map(|item| value(&item?, 0)).collect::<PyResult<Vec<_>>>()?;
    build_ops(&items.into()).map_err(|error| errors::of_op(list.py(), "", &error))
}

/// Returns a value of the registry as one of Python.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &SpecValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match &value.datum {
        SpecData::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        SpecData::Int(value) => value.into_pyobject(py)?.into_any(),
        SpecData::Float(value) => value.into_pyobject(py)?.into_any(),
        SpecData::Text(value) => value.into_pyobject(py)?.into_any(),
        SpecData::List(values) => {
            let values = values.iter().map(|value| to_python(py, value));
            PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        SpecData::Table(table) => {
            let dict = PyDict::new(py);
            for entry in &table.0 {
                dict.set_item(&entry.name, to_python(py, &entry.value)?)?;
            }
            dict.into_any()
        }
        SpecData::Op(_) => {
            return Err(errors::setting(py, "a function is no default of a parameter"));
        }
    })
}
