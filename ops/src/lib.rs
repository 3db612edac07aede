//! Fuseloop's ops: what each one means and how it is compiled.
//!
//! One op, one file. Each says on top what it computes, where the rule comes from and what it
//! costs; then comes the type, its checked constructor, `eval` (the meaning, one pixel at a time)
//! and `emit` (the same as Cranelift IR, four pixels at a time). The block compiler in the root
//! crate puts the pieces of a list of ops into one loop; the oracle there evaluates the list op by
//! op, and both must give the same bits.
//!
//! A list is written with [`ops!`]:
//!
//! ```
//! use fuseloop_ops::*;
//!
//! let list = ops![
//!     RandomResizedCrop::new(224, RandomResizedCrop::SCALE, RandomResizedCrop::RATIO)?,
//!     RandomHorizontalFlip::new(0.5)?,
//!     Normalize::imagenet(),
//!     ToChannelsFirst,
//! ];
//! assert_eq!(list.len(), 4);
//! # Ok::<(), ParamError>(())
//! ```

pub mod area;
pub mod bilinear;
mod brightness;
mod center_crop;
mod channels;
mod color_jitter;
mod contrast;
mod convert;
mod cutout;
mod element;
pub mod emit;
mod error;
mod factor;
mod horizontal_flip;
mod motion;
mod normalize;
mod one_hot;
mod op;
mod picture;
mod poison;
mod random_crop;
mod random_resized_crop;
mod random_translate;
mod replace_label;
mod resize;
mod rng;
mod saturation;
mod shape;
mod squeeze;
mod vertical_flip;
mod view;

pub use brightness::RandomBrightness;
pub use center_crop::CenterCrop;
pub use channels::{ToChannelsFirst, ToChannelsLast};
pub use color_jitter::ColorJitter;
pub use contrast::RandomContrast;
pub use convert::Convert;
pub use cutout::Cutout;
pub use element::Element;
pub use emit::{Constants, Emit, Pixels, grey_mean};
pub use error::{ParamError, TypeError};
pub use horizontal_flip::RandomHorizontalFlip;
pub use motion::{Interpolation, Motion};
pub use normalize::Normalize;
pub use one_hot::OneHot;
pub use op::{
    Class, Dim, GeometryOp, HostOp, ImageType, LabelOp, NumberRule, Op, PixelOp, RegionOp, Type,
};
pub use picture::{Picture, to_u8};
pub use poison::Poison;
pub use random_crop::RandomCrop;
pub use random_resized_crop::RandomResizedCrop;
pub use random_translate::RandomTranslate;
pub use replace_label::ReplaceLabel;
pub use resize::Resize;
pub use rng::{Rng, SampleKey};
pub use saturation::RandomSaturation;
pub use shape::{DType, ImageView, Layout, RGB, Size, Window};
pub use squeeze::Squeeze;
pub use vertical_flip::RandomVerticalFlip;
pub use view::View;

/// A list of ops, as a pipeline takes it.
pub type Ops = Vec<Box<dyn Op>>;

/// Makes an [`Ops`] of ops of different types, in order.
#[macro_export]
macro_rules! ops {
    ($($op:expr),* $(,)?) => {{
        let list: $crate::Ops = vec![$(Box::new($op)),*];
        list
    }};
}
