//! Crops whose windows a function of Python chooses: FFCV's decoders with a `get_crop_generator` of their own.
//!
//! ```text
//! draws of a sample ─▶ f(height, width, scale, ratio) = (top, left, height, width) ─▶ crop, resize, compiled
//! ```
//!
//! The function is asked once for the draws of a sample, which may be asked for several times. A draw can't fail: the
//! first exception is kept, and raised with the next batch that is handed out.

use crate::call::attached;
use crate::errors::{self, Raised};
use fuseloop::ops::author::{
    Dim, GeometryOp, GeometryStep, ImageType, Op, OpClass, Rng, RowProducer, Type, Window, op_name,
};
use fuseloop::ops::internals::geometry_step::{crop, resize_producer};
use fuseloop::ops::{Interpolation, Size, TypeError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of windows after which the oldest are forgotten: more than the samples of all batches in work.
const MANY: usize = 1 << 16;

/// A crop by a function of Python.
#[pyclass(frozen, module = "fuseloop._fuseloop")]
pub(crate) struct Crop(Arc<PythonCrop>);

impl Crop {
    pub(crate) fn op(&self) -> Arc<dyn Op> {
        Arc::<PythonCrop>::clone(&self.0)
    }
}

#[pymethods]
impl Crop {
    /// Makes an op of `f`, which is called with the height and the width of an image, `scale` and `ratio`. `code` stands
    /// for its code in the fingerprints of plans.
    #[new]
    fn new(
        f: Py<PyAny>,
        name: &str,
        code: String,
        size: (u32, u32),
        scale: Py<PyAny>,
        ratio: Py<PyAny>,
    ) -> Self {
        let (name, size) = (op_name(name), Size::new(size.0, size.1));
        Self(Arc::new(PythonCrop { name, code, f, size, scale, ratio, state: Mutex::default() }))
    }

    /// Raises the first exception since the last call.
    fn check(&self) -> PyResult<()> {
        self.0.lock().failed.take().map_or(Ok(()), Err)
    }
}

struct PythonCrop {
    name: &'static str,
    code: String,
    f: Py<PyAny>,
    size: Size,
    scale: Py<PyAny>,
    ratio: Py<PyAny>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The windows by draws and size, those of the last samples and those of some before.
    recent: HashMap<(u64, Size), Window>,
    older: HashMap<(u64, Size), Window>,
    failed: Option<PyErr>,
}

/// The text that fingerprints of plans contain.
impl fmt::Debug for PythonCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, code, size, scale, ratio, .. } = self;
        write!(f, "Crop({name:?}, {code}, {size:?}, {scale}, {ratio})")
    }
}

impl Op for PythonCrop {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let Type::Image(image) = input else {
            let expected = "an image";
            return Err(TypeError { op: self.name, expected, found: input.to_string() });
        };
        let (height, width) = (Dim::fixed(self.size.height), Dim::fixed(self.size.width));
        Ok(Type::Image(ImageType { height, width, ..*image }))
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for PythonCrop {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let draws = u64::from(rng.word()) << 32 | u64::from(rng.word());
        out.push(crop(self.window(draws, size)));
        out.push(GeometryStep::Resize { size: self.size, interpolation: Interpolation::Area });
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(resize_producer(Interpolation::Area))
    }
}

impl PythonCrop {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self, draws: u64, size: Size) -> Window {
        let key = (draws, size);
        {
            let state = self.lock();
            if let Some(&window) = state.recent.get(&key).or_else(|| state.older.get(&key)) {
                return window;
            }
        }
        // The lock is free while Python runs.
        let asked = attached(|py| self.ask(py, size));
        let mut state = self.lock();
        let window = asked.unwrap_or_else(|error| {
            let raised = match error.downcast::<Raised>() {
                Ok(raised) => raised.0,
                Err(error) => PyRuntimeError::new_err(error.to_string()),
            };
            state.failed.get_or_insert(raised);
            Window { top: 0, left: 0, height: size.height, width: size.width }
        });
        if state.recent.len() >= MANY {
            state.older = mem::take(&mut state.recent);
        }
        state.recent.insert(key, window);
        window
    }

    /// Asks for the window of an image. Like a slice of an array, it ends where the image does.
    fn ask(&self, py: Python<'_>, size: Size) -> PyResult<Window> {
        let arguments = (size.height, size.width, self.scale.bind(py), self.ratio.bind(py));
        let found = self.f.bind(py).call1(arguments)?;
        let sides: Vec<i64> = found.try_iter().and_then(|sides| {
            sides.map(|side| side?.call_method0("__index__")?.extract()).collect()
        })?;
        let inside = |first: i64, count: i64, most: u32| {
            let (first, count) = (u32::try_from(first).ok()?, u32::try_from(count).ok()?);
            let count = count.min(most.checked_sub(first)?);
            (count > 0).then_some((first, count))
        };
        let window = match *sides {
            [top, left, height, width] => {
                inside(top, height, size.height).zip(inside(left, width, size.width))
            }
            _ => None,
        };
        let ((top, height), (left, width)) = window.ok_or_else(|| {
            let shown = found.repr().map(|text| text.to_string()).unwrap_or_default();
            let message = format!(
                "{} returned {shown} for an image of {}x{} pixels, expected the top, the left, the \
                 height and the width of a window in it",
                self.name, size.width, size.height
            );
            errors::pipeline(py, &message)
        })?;
        Ok(Window { top, left, height, width })
    }
}
