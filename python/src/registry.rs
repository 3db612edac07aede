//! The registry of ops as data, from which `tools/generate.py` writes the classes of `fuseloop.ops`.

use crate::call::detached;
use crate::{errors, values};
use fuseloop::ops::author::ImageType;
use fuseloop::ops::internals::registry as ops;
use fuseloop::ops::internals::registry::{ParamDefault, ParamInfo, ParamKind};
use fuseloop::ops::{DType, ParamError, ResizeToBucket, Size};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyTuple};

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
    size: &Bound<'_, PyAny>,
    sides: &Bound<'_, PyAny>,
    step: &Bound<'_, PyAny>,
) -> PyResult<Vec<(u32, u32)>> {
    let raised = |error: ParamError| errors::of_param(size.py(), &error);
    let refused = |param, given: &Bound<'_, PyAny>, expected| {
        let found = given.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string());
        raised(ParamError::new("ResizeToBucket", param, found, expected))
    };
    let square = whole(size).map(|side| (side, side));
    let area = square.or_else(|| two_wholes(size));
    let area = area.ok_or_else(|| refused("size", size, "pixels, or (height, width)"))?;
    let (low, high) = two_wholes(sides)
        .ok_or_else(|| refused("sides", sides, "the first and the last length of a side"))?;
    let step = whole(step).ok_or_else(|| refused("step", step, "a number of pixels"))?;
    let op = ResizeToBucket::of_area(area, low..=high, step).map_err(raised)?;
    Ok(op.sizes().iter().map(|size| (size.height, size.width)).collect())
}

/// Returns a whole number; `None` for other values.
fn whole(given: &Bound<'_, PyAny>) -> Option<u32> {
    let is_number = given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>();
    is_number.then(|| given.extract::<u32>().ok())?
}

/// Returns two whole numbers; `None` for other values.
fn two_wholes(given: &Bound<'_, PyAny>) -> Option<(u32, u32)> {
    let items = given.cast::<PyTuple>().ok()?;
    match items.len() {
        2 => whole(&items.get_item(0).ok()?).zip(whole(&items.get_item(1).ok()?)),
        _ => None,
    }
}

/// Panics, for the test of what comes of it.
#[pyfunction]
pub(crate) fn _panic(py: Python<'_>, message: String) -> PyResult<()> {
    detached(py, || panic!("{message}"))
}
