//! The op traits: an op has a name, an output type, and a class that decides how it is compiled.
//!
//! | class    | examples                          | drawn for a sample      | in the compiled loop              |
//! |----------|-----------------------------------|-------------------------|-----------------------------------|
//! | geometry | crop, resize, flip, translate     | `GeometryStep`s         | the addresses pixels are read from |
//! | pixel    | brightness, saturation, normalize | parameters              | arithmetic on vectors of pixels   |
//! | shuffled | colour jitter                     | an order and parameters | one loop body for each order      |
//! | table    | equalize, gamma, a user's table   | parameters              | a look-up for each value          |
//! | region   | cutout                            | a rectangle             | a mask                            |
//! | choice   | random apply, policies            | which ops run           | a loop body for each outcome      |
//! | cast     | convert                           |                         | the final store                   |
//! | view     | view                              |                         | nothing: only the type changes    |
//! | layout   | channels first                    |                         | the final store                   |
//! | device   | to device                         |                         | none: later ops may run there     |
//! | host     | poison                            |                         | none: it ends the loop            |
//! | mix      | AugMix                            | weights and chains      | separate loops, then sums         |
//! | label    | one-hot                           |                         | precompiled loops over samples    |
//! | batch    | mixup                             | shares, once a batch    | none: mixes finished batches      |
//! | images   | mosaic, copy-paste                | parts, once a batch     | none: mixes finished batches      |
//! | batch    | `Lambda::batch`                   |                         | none: changes finished batches    |

mod batch;
mod choice;
mod geometry;
mod host;
mod input;
mod label;
mod pixel;
mod table;
mod types;

pub use batch::{BatchOp, MultiImageOp};
pub use choice::{ChoiceBranch, ChoiceOp, MixOp, Mixture, RegionOp};
pub use geometry::{GeometryOp, ObjectMotion, ObjectOp, RowProducer};
pub use host::{HostBatchOp, HostOp, HostRows, HostSample};
pub use input::is_loaded;
pub(crate) use input::{
    check_fill, is_gray, is_whole, on_colors, on_image, on_levels, on_numbers, on_one_label,
    on_rgb, on_u8_image,
};
pub use label::{LabelOp, LabelSample};
#[cfg(test)]
pub(crate) use pixel::evaluated;
pub use pixel::{Eval, NumberRule, PixelOp, Statistic};
pub use table::{Histogram, Histograms, LevelTable, LevelTables, TableOp};
pub use types::{Dim, ImageType, Type};

pub(crate) use fuseloop_ops_derive::{Op, class};

use crate::shape::Layout;
use crate::{DType, Device, TypeError};
use std::fmt;
use std::sync::Arc;

/// One augmentation or conversion, as a user lists it. An op is immutable; its parameters were
/// checked when it was built.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let flip = RandomHorizontalFlip::new(0.5)?;
/// let image = Type::Image(ImageType::decoded(Dim::fixed(8), Dim::fixed(8)));
/// assert_eq!((flip.name(), flip.output(&image).unwrap()), ("RandomHorizontalFlip", image));
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub trait Op: fmt::Debug + Send + Sync {
    /// Returns the name that users write.
    fn name(&self) -> &'static str;

    /// Returns the output type for an input type.
    ///
    /// # Errors
    ///
    /// If the op does not accept this input: the message says which input it accepts.
    fn output(&self, input: &Type) -> Result<Type, TypeError>;

    /// Returns the op's class, which decides how it is drawn and compiled.
    fn class(&self) -> OpClass<'_>;

    /// Returns true if the op leaves every input of this type unchanged, whatever is drawn (`p` of
    /// 0, a factor that is always 1). The planner removes such an op. It does not ask containers.
    fn does_nothing(&self, input: &Type) -> bool {
        let _ = input;
        false
    }

    /// Returns true if the op replaces the image's own values by normalized ones, as [`Normalize`](crate::Normalize)
    /// does. A list where one such op gets what another one has normalized is refused, unless an op between them
    /// returns levels again.
    fn normalizes_values(&self) -> bool {
        false
    }

    /// Returns the op that replaces this one for inputs of this type, if the computation depends on
    /// the type: noise is in levels on u8, and in the image's own units on floats. The replacement
    /// must have the same name, the same output type and the same order of draws.
    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let _ = input;
        None
    }
}

/// The class of an op, which decides how it is drawn and compiled.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// assert!(matches!(RandomHorizontalFlip::new(0.5)?.class(), OpClass::Geometry(_)));
/// assert!(matches!(Normalize::imagenet().class(), OpClass::Pixel(_)));
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum OpClass<'a> {
    /// Moves pixels.
    Geometry(&'a dyn GeometryOp),
    /// Changes the values of a pixel.
    Pixel(&'a dyn PixelOp),
    /// Pixel ops applied in an order drawn for each sample.
    Shuffled(&'a [Box<dyn PixelOp>]),
    /// Looks every value up in a table of its channel.
    Table(&'a dyn TableOp),
    /// Overwrites a rectangle.
    Region(&'a dyn RegionOp),
    /// Runs some of its branches, drawn for each sample.
    Choice(&'a dyn ChoiceOp),
    /// Changes the images of some samples in plain Rust, between two loops.
    Host(&'a dyn HostOp),
    /// Mixes an image with copies of it that a list of ops has changed.
    Mix(&'a dyn MixOp),
    /// Changes the type of the elements.
    Cast(DType),
    /// Reads the stored elements as another type of the same number of bytes.
    View(DType),
    /// Changes the axes: channels last, channels first, or no axis for the one channel.
    Layout(Layout),
    /// Makes the ops after it run on a device, if the loader has one.
    Device(Device),
    /// Works on a label.
    Label(&'a dyn LabelOp),
    /// Mixes the samples of a finished batch.
    Batch(&'a dyn BatchOp),
    /// Makes an image, with its objects, of several images of a finished batch.
    MultiImage(&'a dyn MultiImageOp),
    /// Changes a finished batch in plain Rust.
    HostBatch(&'a dyn HostBatchOp),
    /// Changes or removes the objects of an image, such as bounding boxes, and no pixel.
    Objects(&'a dyn ObjectOp),
}
