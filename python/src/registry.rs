//! The registry of ops as data, from which `tools/generate.py` writes the classes of `fuseloop.ops`.

use crate::call::detached;
use crate::{errors, values};
use fuseloop::ops::author::ImageType;
use fuseloop::ops::internals::registry as ops;
use fuseloop::ops::internals::registry::{ParamDefault, ParamInfo, ParamKind};
use fuseloop::ops::{DType, ResizeToBucket, Size};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Returns all ops: their names, aliases, families, summaries and parameters.
#[pyfunction]
pub(crate) fn registry(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for info in ops::registry() {
        let op = PyDict::new(py);
        op.set_item("name", info.name)?;
        op.set_item("family", info.class)?;
        op.set_item("summary", info.summary)?;
        op.set_item("aliases", info.aliases)?;
        let params =
            info.params.iter().map(|info| param(py, info)).collect::<PyResult<Vec<_>>>()?;
        op.set_item("params", params)?;
        list.append(op)?;
    }
    Ok(list)
}

fn param<'py>(py: Python<'py>, info: &ParamInfo) -> PyResult<Bound<'py, PyDict>> {
    let param = PyDict::new(py);
    param.set_item("name", info.name)?;
    param.set_item("doc", info.doc)?;
    param.set_item("expected", info.kind.to_string())?;
    let words = match info.kind {
        ParamKind::Word(words) => words.to_vec(),
        _ => vec![],
    };
    param.set_item("words", words)?;
    // The name of the variant.
    let kind = format!("{:?}", info.kind);
    param.set_item("kind", kind.split('(').next())?;
    let (need, value) = match info.need {
        ParamDefault::Required(example) => ("required", Some(example)),
        ParamDefault::Default(value) => ("default", Some(value)),
        ParamDefault::Optional => ("optional", None),
    };
    param.set_item("need", need)?;
    param
        .set_item("value", value.map(|value| values::to_python(py, &value.value())).transpose()?)?;
    Ok(param)
}

/// Checks the parameters of an op, by name.
#[pyfunction]
pub(crate) fn check_op(name: &str, params: &Bound<'_, PyDict>) -> PyResult<()> {
    values::check(name, params)
}

/// Compares the compiled code of a list of ops with its definition, on random images.
#[pyfunction]
pub(crate) fn check_ops(
    list: &Bound<'_, PyAny>,
    size: (u32, u32),
    channels: u16,
    samples: u64,
) -> PyResult<()> {
    let (ops, size) = (values::ops(list)?, Size::new(size.0, size.1));
    let input = ImageType::array(size, channels, DType::U8);
    detached(list.py(), || fuseloop::check_ops(&ops, input, samples))
}

/// Returns the sizes of the buckets of an area, each height and width.
#[pyfunction]
pub(crate) fn bucket_sizes(
    py: Python<'_>,
    size: (u32, u32),
    sides: (u32, u32),
    step: u32,
) -> PyResult<Vec<(u32, u32)>> {
    let op = ResizeToBucket::of_area(size, sides.0..=sides.1, step);
    let op = op.map_err(|error| errors::raised(py, &fuseloop::Error::from(error)))?;
    Ok(op.sizes().iter().map(|size| (size.height, size.width)).collect())
}

/// Panics, for the test of what comes of it.
#[pyfunction]
pub(crate) fn _panic(py: Python<'_>, message: String) -> PyResult<()> {
    detached(py, || panic!("{message}"))
}
