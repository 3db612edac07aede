//! Fuseloop's ops: what each op computes and how it is compiled.
//!
//! Each op has a file of its own. The documentation of its type states what the op computes, where the
//! rule comes from and what the op costs. The file has its parameters, of which the
//! derive macro `Op` makes the checked constructor and the entry in the registry, `eval` (the reference
//! implementation, one pixel at a time), and `emit` (the same computation as instructions, four pixels at a
//! time). The block compiler in the root crate joins
//! the code of a list of ops into one loop; the evaluator there computes the list op by op, and both must
//! produce the same bits. This crate depends on no code generator: `emit` records instructions (`program.rs`), which
//! the block compiler lowers.
//!
//! The [`ops!`] macro builds a list of ops:
//!
//! ```
//! use fuseloop_ops::*;
//!
//! let list = ops![
//!     RandomResizedCrop::new(224)?,
//!     RandomHorizontalFlip::new(0.5)?,
//!     Normalize::imagenet(),
//!     ToChannelsFirst,
//! ];
//! assert_eq!(list.len(), 4);
//! # Ok::<(), ParamError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod add_gaussian_snr;
mod adjust_sharpness;
mod area;
mod aug_mix;
mod auto_augment;
mod autocontrast;
mod axis_mask;
mod beta;
mod bilinear;
mod box_blur;
mod brightness;
mod center_crop;
mod channel_dropout;
mod channels;
mod clahe;
mod clamp_bounding_boxes;
mod clamp_keypoints;
mod clip;
mod coarse_dropout;
mod color_jitter;
mod color_matrix;
mod container;
mod contrast;
mod convert;
mod convert_bounding_box_format;
mod crop;
mod cut_mix;
mod cutout;
mod d4;
mod default_floats;
pub mod detection;
mod device;
mod downscale;
mod elastic_transform;
mod element;
mod emboss;
mod emit;
mod equalize;
mod error;
mod factor;
mod fill_value;
mod fixed_points;
mod fixed_size_crop;
mod frequency_masking;
mod gain;
mod gamma;
mod gaussian_blur;
mod gaussian_noise;
mod geometry_step;
mod grayscale;
mod grid_distortion;
mod grid_mask;
mod horizontal_flip;
mod hsv;
mod hue;
mod hue_saturation_value;
mod invert;
mod jpeg;
mod kernel_size;
mod label_smoothing;
mod lambda;
mod letterbox;
mod levels;
mod lighting;
mod lut;
mod maths;
mod median_blur;
mod memory;
mod mix_up;
mod mixing;
mod mosaic;
mod motion_blur;
mod multiplicative_noise;
mod noise;
mod normalize;
mod number_or_range;
mod one_hot;
mod op;
mod op_name;
mod optical_distortion;
mod pad;
mod pad_if_needed;
mod permute_channels;
mod perspective;
mod photometric_distort;
mod picture;
mod pixel_dropout;
mod pixel_program;
mod poison;
mod polarity_inversion;
mod policy;
mod posterize;
mod program;
mod rand_augment;
mod random_affine;
mod random_apply;
mod random_brightness_contrast;
mod random_choice;
mod random_crop;
mod random_erasing;
mod random_grid_shuffle;
mod random_hsv;
mod random_iou_crop;
mod random_jitter;
mod random_order;
mod random_perspective;
mod random_resize;
mod random_resized_crop;
mod random_rotate90;
mod random_rotation;
mod random_shortest_size;
mod random_sized_crop;
mod random_tone_curve;
mod random_translate;
mod random_zoom_out;
mod registry;
mod replace_label;
mod resize;
mod resize_to_bucket;
mod rgb_shift;
mod rng;
mod rot90;
mod rows;
mod sanitize_bounding_boxes;
mod sanitize_keypoints;
mod saturation;
mod scale_intensity_range;
mod scale_jitter;
mod select_channels;
mod shape;
mod sharpen;
mod signal;
mod simple_copy_paste;
mod solarize;
mod solarize_add;
mod squeeze;
mod targets;
mod time_masking;
mod timm;
mod to_device;
mod to_mono;
mod transpose;
mod trivial_augment;
mod vertical_flip;
mod view;
mod warping;

pub use add_gaussian_snr::AddGaussianSNR;
pub use adjust_sharpness::RandomAdjustSharpness;
pub use aug_mix::AugMix;
pub use auto_augment::{AutoAugment, Policy};
pub use autocontrast::RandomAutocontrast;
pub use box_blur::BoxBlur;
pub use brightness::RandomBrightness;
pub use center_crop::CenterCrop;
pub use channel_dropout::ChannelDropout;
pub use channels::{ToChannelsFirst, ToChannelsLast};
pub use clahe::CLAHE;
pub use clamp_bounding_boxes::ClampBoundingBoxes;
pub use clamp_keypoints::ClampKeyPoints;
pub use clip::Clip;
pub use coarse_dropout::CoarseDropout;
pub use color_jitter::ColorJitter;
pub use color_matrix::ColorMatrix;
pub use contrast::RandomContrast;
pub use convert::Convert;
pub use convert_bounding_box_format::ConvertBoundingBoxFormat;
pub use crop::Crop;
pub use cut_mix::CutMix;
pub use cutout::Cutout;
pub use d4::D4;
pub use device::Device;
pub use downscale::Downscale;
pub use elastic_transform::ElasticTransform;
pub use emboss::Emboss;
pub use equalize::RandomEqualize;
pub use error::{ParamError, TypeError};
pub use fixed_points::FixedPoints;
pub use fixed_size_crop::FixedSizeCrop;
pub use frequency_masking::FrequencyMasking;
pub use gain::Gain;
pub use gamma::{Gamma, RandomGamma};
pub use gaussian_blur::GaussianBlur;
pub use gaussian_noise::GaussianNoise;
pub use geometry_step::Interpolation;
pub use grayscale::{Grayscale, RandomGrayscale};
pub use grid_distortion::GridDistortion;
pub use grid_mask::GridMask;
pub use horizontal_flip::RandomHorizontalFlip;
pub use hue::RandomHue;
pub use hue_saturation_value::HueSaturationValue;
pub use invert::RandomInvert;
pub use jpeg::JPEG;
pub use kernel_size::KernelSize;
pub use label_smoothing::LabelSmoothing;
pub use lambda::{Lambda, LambdaResult};
pub use letterbox::Letterbox;
pub use levels::Levels;
pub use lighting::Lighting;
pub use lut::Lut;
pub use median_blur::MedianBlur;
pub use mix_up::{ImageMixup, LabelMixup, MixUp};
pub use mixing::Partner;
pub use mosaic::Mosaic;
pub use motion_blur::MotionBlur;
pub use multiplicative_noise::MultiplicativeNoise;
pub use normalize::Normalize;
pub use number_or_range::NumberOrRange;
pub use one_hot::OneHot;
pub use op::{HostRows, HostSample, LabelSample, NumberRule};
pub use optical_distortion::OpticalDistortion;
pub use pad::{Pad, PaddingMode, Sides};
pub use pad_if_needed::{PadIfNeeded, PadPosition};
pub use permute_channels::{ChannelShuffle, PermuteChannels, RandomChannelPermutation};
pub use perspective::Perspective;
pub use photometric_distort::RandomPhotometricDistort;
pub use pixel_dropout::PixelDropout;
pub use pixel_program::PixelProgram;
pub use poison::Poison;
pub use polarity_inversion::PolarityInversion;
pub use posterize::RandomPosterize;
pub use rand_augment::RandAugment;
pub use random_affine::RandomAffine;
pub use random_apply::RandomApply;
pub use random_brightness_contrast::RandomBrightnessContrast;
pub use random_choice::RandomChoice;
pub use random_crop::RandomCrop;
pub use random_erasing::RandomErasing;
pub use random_grid_shuffle::RandomGridShuffle;
pub use random_hsv::RandomHSV;
pub use random_iou_crop::RandomIoUCrop;
pub use random_jitter::RandomJitter;
pub use random_order::RandomOrder;
pub use random_perspective::RandomPerspective;
pub use random_resize::RandomResize;
pub use random_resized_crop::RandomResizedCrop;
pub use random_rotate90::RandomRotate90;
pub use random_rotation::RandomRotation;
pub use random_shortest_size::RandomShortestSize;
pub use random_sized_crop::RandomSizedCrop;
pub use random_tone_curve::RandomToneCurve;
pub use random_translate::RandomTranslate;
pub use random_zoom_out::RandomZoomOut;
pub use replace_label::ReplaceLabel;
pub use resize::{Resize, ResizeSize};
pub use resize_to_bucket::ResizeToBucket;
pub use rgb_shift::RGBShift;
pub use rot90::Rot90;
pub use rows::{Lens, WarpInterpolation};
pub use sanitize_bounding_boxes::SanitizeBoundingBoxes;
pub use sanitize_keypoints::SanitizeKeyPoints;
pub use saturation::RandomSaturation;
pub use scale_intensity_range::ScaleIntensityRange;
pub use scale_jitter::ScaleJitter;
pub use select_channels::SelectChannels;
pub use shape::{DType, Size};
pub use sharpen::Sharpen;
pub use simple_copy_paste::SimpleCopyPaste;
pub use solarize::RandomSolarize;
pub use solarize_add::SolarizeAdd;
pub use squeeze::Squeeze;
pub use targets::{BoxFormat, ClampingMode};
pub use time_masking::TimeMasking;
pub use to_device::ToDevice;
pub use to_mono::ToMono;
pub use transpose::Transpose;
pub use trivial_augment::TrivialAugmentWide;
pub use vertical_flip::RandomVerticalFlip;
pub use view::View;

/// The traits that an op implements, and the types of the code that it emits.
///
/// Authors of ops import this module. A list of ops needs none of it.
pub mod author {
    pub use crate::emit::{Emit, F32x4, I32x4, Mask, Pixels, apply_rule, clamp, grey, max, min};
    pub use crate::error::BoxError;
    pub use crate::geometry_step::GeometryStep;
    pub use crate::maths::{cos, exp, log, pow, sin};
    pub use crate::mixing::{ImageMix, RowMix};
    pub use crate::op::{
        BatchOp, ChoiceBranch, ChoiceOp, Dim, Eval, GeometryOp, Histogram, HostBatchOp, HostOp,
        ImageType, LabelOp, LevelTable, MultiImageOp, ObjectMotion, ObjectOp, Op, OpClass, PixelOp,
        RegionOp, RowProducer, Statistic, TableOp, Type,
    };
    pub use crate::op_name::op_name;
    pub use crate::rng::Rng;
    pub use crate::shape::{Layout, Window};
    pub use crate::targets::{BoundingBox, Keypoint, Objects};
}

/// The private modules that the compiler, the command and this project's own tests use. They change without
/// notice.
#[doc(hidden)]
#[allow(missing_docs, reason = "the modules are documented where they are defined")]
pub mod internals {
    pub use crate::auto_augment::sub_policies;
    pub use crate::default_floats::DefaultFloats;
    pub use crate::element::ElementValue;
    pub use crate::mixing::{mixed_label, mixed_label_f64};
    pub use crate::op::is_loaded;
    pub use crate::op::{Histograms, LevelTables, MixOp, Mixture};
    pub use crate::picture::{FloatImage, channel_of, to_u8};
    pub use crate::rng::{BatchKey, SampleKey, mix, stream};
    pub use crate::shape::{DTYPES, ImageView, MAX_CHANNELS, PixelFormat, RGB, is_inside};

    pub mod area {
        pub use crate::area::*;
    }
    pub mod bilinear {
        pub use crate::bilinear::*;
    }
    pub mod cut_mix {
        pub use crate::cut_mix::eval;
    }
    pub mod emit {
        pub use crate::emit::*;
    }
    pub mod geometry_step {
        pub use crate::geometry_step::{
            crop, output, produces_rows, resize_producer, row_filter, row_producer,
        };
    }
    pub mod memory {
        pub use crate::memory::*;
    }
    pub mod mix_up {
        pub use crate::mix_up::{eval, eval_f64, eval_u8};
    }
    pub mod policy {
        pub use crate::policy::*;
    }
    pub mod program {
        pub use crate::program::*;
    }
    pub mod registry {
        pub use crate::registry::*;
    }
    pub mod rows {
        pub use crate::rows::*;
    }
    pub mod targets {
        pub use crate::targets::{BoundingBox, PointMap};
    }
    pub mod timm {
        pub use crate::timm::*;
    }
}

/// The registry entries of all ops, family by family: docs, `fuseloop ops` and the tests of all ops follow
/// this list.
static ENTRIES: &[registry::OpInfo] = &[
    RandomResizedCrop::ENTRY,
    Resize::ENTRY,
    ResizeToBucket::ENTRY,
    CenterCrop::ENTRY,
    RandomCrop::ENTRY,
    Crop::ENTRY,
    RandomSizedCrop::ENTRY,
    RandomIoUCrop::ENTRY,
    Pad::ENTRY,
    PadIfNeeded::ENTRY,
    RandomZoomOut::ENTRY,
    RandomResize::ENTRY,
    RandomShortestSize::ENTRY,
    ScaleJitter::ENTRY,
    FixedSizeCrop::ENTRY,
    Letterbox::ENTRY,
    RandomTranslate::ENTRY,
    RandomHorizontalFlip::ENTRY,
    RandomVerticalFlip::ENTRY,
    Rot90::ENTRY,
    RandomRotate90::ENTRY,
    Transpose::ENTRY,
    D4::ENTRY,
    RandomAffine::ENTRY,
    RandomPerspective::ENTRY,
    Perspective::ENTRY,
    RandomRotation::ENTRY,
    ElasticTransform::ENTRY,
    GridDistortion::ENTRY,
    OpticalDistortion::ENTRY,
    RandomGridShuffle::ENTRY,
    SanitizeBoundingBoxes::ENTRY,
    ClampBoundingBoxes::ENTRY,
    ConvertBoundingBoxFormat::ENTRY,
    SanitizeKeyPoints::ENTRY,
    ClampKeyPoints::ENTRY,
    ColorJitter::ENTRY,
    ColorMatrix::ENTRY,
    Gamma::ENTRY,
    Grayscale::ENTRY,
    HueSaturationValue::ENTRY,
    Lighting::ENTRY,
    Lut::ENTRY,
    CLAHE::ENTRY,
    PermuteChannels::ENTRY,
    RGBShift::ENTRY,
    PixelProgram::ENTRY,
    RandomAutocontrast::ENTRY,
    RandomBrightness::ENTRY,
    RandomBrightnessContrast::ENTRY,
    RandomChannelPermutation::ENTRY,
    RandomContrast::ENTRY,
    RandomEqualize::ENTRY,
    RandomGamma::ENTRY,
    RandomGrayscale::ENTRY,
    RandomHue::ENTRY,
    RandomHSV::ENTRY,
    RandomInvert::ENTRY,
    RandomPhotometricDistort::ENTRY,
    RandomPosterize::ENTRY,
    RandomSaturation::ENTRY,
    RandomSolarize::ENTRY,
    RandomToneCurve::ENTRY,
    SolarizeAdd::ENTRY,
    GaussianBlur::ENTRY,
    BoxBlur::ENTRY,
    MotionBlur::ENTRY,
    MedianBlur::ENTRY,
    Sharpen::ENTRY,
    Emboss::ENTRY,
    Downscale::ENTRY,
    RandomAdjustSharpness::ENTRY,
    JPEG::ENTRY,
    Cutout::ENTRY,
    CoarseDropout::ENTRY,
    RandomErasing::ENTRY,
    GridMask::ENTRY,
    ChannelDropout::ENTRY,
    GaussianNoise::ENTRY,
    MultiplicativeNoise::ENTRY,
    Poison::ENTRY,
    PixelDropout::ENTRY,
    FrequencyMasking::ENTRY,
    TimeMasking::ENTRY,
    Gain::ENTRY,
    PolarityInversion::ENTRY,
    AddGaussianSNR::ENTRY,
    ToMono::ENTRY,
    FixedPoints::ENTRY,
    RandomJitter::ENTRY,
    AugMix::ENTRY,
    AutoAugment::ENTRY,
    RandAugment::ENTRY,
    RandomApply::ENTRY,
    RandomChoice::ENTRY,
    RandomOrder::ENTRY,
    TrivialAugmentWide::ENTRY,
    MixUp::ENTRY,
    CutMix::ENTRY,
    Mosaic::ENTRY,
    SimpleCopyPaste::ENTRY,
    Normalize::ENTRY,
    Levels::ENTRY,
    ScaleIntensityRange::ENTRY,
    Clip::ENTRY,
    Convert::ENTRY,
    SelectChannels::ENTRY,
    View::ENTRY,
    ToChannelsFirst::ENTRY,
    ToChannelsLast::ENTRY,
    ToDevice::ENTRY,
    OneHot::ENTRY,
    LabelSmoothing::ENTRY,
    ReplaceLabel::ENTRY,
    Squeeze::ENTRY,
];

/// A list of ops in the form that a pipeline takes.
///
/// ```
/// # use fuseloop_ops::*;
/// fn train() -> Result<Ops, ParamError> {
///     Ok(ops![RandomResizedCrop::new(224)?, RandomHorizontalFlip::new(0.5)?, Normalize::imagenet()])
/// }
/// assert_eq!(train()?.len(), 3);
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub type Ops = Vec<std::sync::Arc<dyn author::Op>>;

/// Builds an [`Ops`] from ops of different types, in the order given.
#[macro_export]
macro_rules! ops {
    ($($op:expr),* $(,)?) => {{
        let list: $crate::Ops = vec![$(::std::sync::Arc::new($op)),*];
        list
    }};
}
