//! Transforms whose code was compiled ahead of time, and the compiler of it.

use super::{PixelType, Transform};
use crate::error::{Error, fail};
use crate::jit::KernelCache;
pub use crate::jit::linked::CompiledObject;
pub(crate) use crate::jit::linked::LinkedCode;
#[cfg(feature = "object")]
use crate::jit::{VectorBits, object};
#[cfg(feature = "object")]
use crate::plan::ImagePlan;
#[cfg(feature = "object")]
use fuseloop_ops::DType;
use fuseloop_ops::author::Layout;
use std::fmt;
use std::sync::{Arc, Mutex};

/// A list that was compiled ahead of time.
#[cfg(feature = "object")]
#[derive(Debug)]
pub struct AheadOfTime {
    /// The object file.
    pub object: Vec<u8>,
    /// The number that the header must have, too.
    pub header: u64,
    /// The width of vectors, in bits.
    pub bits: u32,
    /// The bytes of code, of constant data, and the number of loop bodies.
    pub sizes: (usize, usize, usize),
    /// The type of the elements of an image, and its number of channels.
    pub input: (DType, u16),
    /// The type of the elements of the array, and its shape for an image of `size`.
    pub dtype: DType,
    /// The shape of the array; an axis that follows the image is 0.
    pub shape: Vec<usize>,
}

impl Transform {
    /// Takes all code from an object file, in which it must be.
    #[cfg_attr(
        not(feature = "spec"),
        allow(dead_code, reason = "object files have pipelines in TOML")
    )]
    pub(crate) fn with_code(mut self, code: LinkedCode) -> Result<Self, Error> {
        self.kernels = Mutex::new(KernelCache::of_object(Arc::new(code)));
        self.is_linked = true;
        self.on_device.check_ahead_of_time()?;
        self.compile(PixelType::of_files(self.read_mode), None, false)?;
        Ok(self)
    }

    /// Refuses images of another type than that of an object file's code.
    pub(super) fn check_linked(&self, pixels: PixelType) -> Result<(), Error> {
        let compiled = PixelType::of_files(self.read_mode);
        if !self.is_linked || pixels == compiled {
            return Ok(());
        }
        Err(fail!(
            Parameter,
            "the image is {pixels}, but the object file of the list was compiled for {compiled}: convert the image, or set \
             `read_mode` in the pipeline file and run `fuseloop compile` again"
        ))
    }

    /// Compiles the list for images of the type of image files, with vectors of `isa` bits, those of this CPU by default.
    /// `pipeline` is the text of its pipeline file.
    #[cfg(feature = "object")]
    pub(crate) fn ahead_of_time(
        &self,
        pipeline: &str,
        symbol: &str,
        isa: Option<u64>,
    ) -> Result<AheadOfTime, Error> {
        self.on_device.check_ahead_of_time()?;
        let bits = match isa {
            None => VectorBits::widest(),
            Some(count) => VectorBits::of_count(count).ok_or_else(|| {
                fail!(Parameter, "vectors of {count} bits: an object file has 128, 256 or 512")
            })?,
        };
        let input = PixelType::of_files(self.read_mode);
        let plan = ImagePlan::of_any_size(self.ops.clone(), input.images(None), self.setup.rule)
            .map_err(|error| {
                error.context(format_args!(
                    "a list that is compiled ahead of time must fit images of all sizes"
                ))
            })?;
        plan.check_pixels(&self.setup.decode.limits)?;
        let file = object::write(&plan, pipeline, symbol, bits)?;
        let output = plan.output();
        let mut shape = plan.shape();
        let is_fixed = [output.height, output.width].map(|side| side.min == side.max);
        let first = usize::from(output.layout == Layout::ChannelsFirst);
        for (axis, is_fixed) in is_fixed.into_iter().enumerate() {
            if let Some(side) = shape.get_mut(first + axis).filter(|_| !is_fixed) {
                *side = 0;
            }
        }
        Ok(AheadOfTime {
            object: file.bytes,
            header: file.header,
            bits: bits.count(),
            sizes: (file.code, file.description, file.bodies),
            input: (input.dtype, input.channels),
            dtype: plan.dtype(),
            shape,
        })
    }
}

/// Shows the type of an element, and the axes.
impl fmt::Display for PixelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { channels, dtype, layout } = self;
        match layout {
            Layout::ChannelsFirst => write!(f, "{dtype} [{channels}, height, width]"),
            Layout::ChannelsLast => write!(f, "{dtype} [height, width, {channels}]"),
            Layout::Plane => write!(f, "{dtype} [height, width]"),
        }
    }
}
