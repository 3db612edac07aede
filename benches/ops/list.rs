//! Every op of the table, and its yardstick. An op without a row of its own gets one from the registry.

use crate::plain::Pass;
use fuseloop::internals::plan::ImagePlan;
use fuseloop_ops::author::{Dim, ImageType, Op, OpClass, Type};
use fuseloop_ops::internals::registry::{
    COLOR, GEOMETRY, NEIGHBOURHOOD, OVERWRITE, OpInfo, POINTS, POLICY, ParamDefault, ParamKind,
    SIGNALS, SpecTable, SpecValue, build_ops, registry,
};
use fuseloop_ops::internals::rows::rotation_matrix;
use fuseloop_ops::*;
use std::sync::Arc;

/// One row of the table.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) ops: Ops,
    pub(crate) plain: Plain,
}

/// The kind of work that the op does in the compiled loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Arithmetic on a pixel, or a table: also measured before a normalization.
    Pointwise,
    /// Work on addresses, masks or rows, or several kinds of work.
    Other,
    /// The same, but the output has another size than the input: not measured after the crop of a
    /// list.
    Resizing,
}

/// The op as plain Rust.
pub(crate) enum Plain {
    /// Passes derived from the draws.
    Drawn,
    /// These passes, whose values may be off by this number of levels.
    Fixed(Vec<Pass>, u8),
    /// The op has no simple form in plain Rust.
    None,
}

fn entry(name: &'static str, kind: Kind, plain: Plain, op: impl Op + 'static) -> Entry {
    Entry { name, kind, plain, ops: vec![Arc::new(op)] }
}

/// Unwraps the result of a constructor whose fixed parameters cannot fail.
fn fixed<T>(op: Result<T, ParamError>) -> T {
    op.expect("fixed parameters")
}

/// Returns all ops on images except `Normalize`, `Convert` and the layouts, which every list has,
/// containers, whose cost is their ops', and the ops whose cost is the user's (`Lambda`) or a mask's
/// (`Poison`). Ops that may do nothing always act here.
pub(crate) fn entries() -> Vec<Entry> {
    let mut entries = colors();
    entries.extend(tables());
    entries.extend(moves());
    entries.extend(warps());
    entries.extend(neighbourhoods());
    entries.extend(resizes());
    entries.extend(policies());
    let others = others(&entries);
    entries.extend(others);
    entries
}

/// Returns the ops of the registry that are not in `listed`, with the examples of their parameters.
fn others(listed: &[Entry]) -> Vec<Entry> {
    const FAMILIES: [&str; 7] =
        [GEOMETRY, COLOR, NEIGHBOURHOOD, OVERWRITE, SIGNALS, POINTS, POLICY];
    let is_listed =
        |name| listed.iter().any(|entry| entry.name.split([' ', '(', ',']).next() == Some(name));
    let is_container = |info: &OpInfo| info.params.iter().any(|param| param.kind == ParamKind::Ops);
    registry()
        .iter()
        .filter(|info| {
            FAMILIES.contains(&info.class) && !is_container(info) && !is_listed(info.name)
        })
        .filter_map(example)
        .collect()
}

/// Returns an op with the examples of its parameters, for all images; `None` for an op in plain Rust, and for one
/// that has no list of its own.
fn example(info: &OpInfo) -> Option<Entry> {
    let values = info.params.iter().filter_map(|param| match param.need {
        _ if param.name == "p" => Some((param.name, SpecValue::from(1.0))),
        ParamDefault::Required(example) => Some((param.name, example.value())),
        _ => None,
    });
    let table =
        SpecTable::from_iter([("op", SpecValue::from(info.name))].into_iter().chain(values));
    let ops = build_ops(&SpecValue::from(vec![SpecValue::from(table)])).expect("an example");
    let input = ImageType::decoded(Dim::fixed(256), Dim::fixed(256));
    let kind = match ops[0].class() {
        // An op that does not take bytes, and one after which images differ in size.
        _ if ImagePlan::new(ops.clone(), input, NumberRule::Fused).is_err() => return None,
        OpClass::Host(_) => return None,
        OpClass::Pixel(_) | OpClass::Shuffled(_) | OpClass::Table(_) => Kind::Pointwise,
        _ if ops[0].output(&Type::Image(input)) == Ok(Type::Image(input)) => Kind::Other,
        _ => Kind::Resizing,
    };
    Some(Entry { name: info.name, kind, plain: Plain::None, ops })
}

fn colors() -> Vec<Entry> {
    use Kind::Pointwise;
    let matrix = [[0.8, 0.1, 0.1, 4.0], [0.1, 0.7, 0.2, -3.0], [0.0, 0.2, 0.9, 1.0]];
    let jitter = || fixed(ColorJitter::new(0.4, 0.4, 0.4));
    let permuted = Plain::Fixed(vec![Pass::Permute([2, 0, 1])], 0);
    vec![
        entry(
            "RandomBrightness",
            Pointwise,
            Plain::Drawn,
            fixed(fixed(RandomBrightness::new(0.4)).p(1.0)),
        ),
        entry(
            "RandomContrast",
            Pointwise,
            Plain::Drawn,
            fixed(fixed(RandomContrast::new(0.4)).p(1.0)),
        ),
        entry(
            "RandomSaturation",
            Pointwise,
            Plain::Drawn,
            fixed(fixed(RandomSaturation::new(0.4)).p(1.0)),
        ),
        entry("ColorJitter", Pointwise, Plain::None, jitter()),
        entry("ColorJitter with hue", Pointwise, Plain::None, fixed(jitter().hue(0.1))),
        entry("RandomPhotometricDistort", Pointwise, Plain::None, RandomPhotometricDistort::new()),
        entry("Grayscale", Pointwise, Plain::Drawn, fixed(Grayscale::new().num_output_channels(3))),
        entry("RandomGrayscale", Pointwise, Plain::None, fixed(RandomGrayscale::new(0.5))),
        entry("RandomInvert", Pointwise, Plain::Drawn, fixed(RandomInvert::new(1.0))),
        entry(
            "RandomPosterize",
            Pointwise,
            Plain::Drawn,
            fixed(fixed(RandomPosterize::new(4)).p(1.0)),
        ),
        entry(
            "RandomSolarize",
            Pointwise,
            Plain::Drawn,
            fixed(fixed(RandomSolarize::new(128.0)).p(1.0)),
        ),
        entry("PermuteChannels", Pointwise, permuted, fixed(PermuteChannels::new([2, 0, 1]))),
        entry("ColorMatrix", Pointwise, Plain::Drawn, fixed(ColorMatrix::new(matrix))),
        entry("PixelProgram, solarize", Pointwise, Plain::None, program(SOLARIZE)),
        entry("PixelProgram, matrix", Pointwise, Plain::None, program(MATRIX)),
    ]
}

/// `RandomSolarize` as Python traces it.
const SOLARIZE: &str = "less c0 128\nsub 255 c0\nwhere %0 c0 %1\nless c1 128\nsub 255 c1\nwhere %3 c1 %4\n\
    less c2 128\nsub 255 c2\nwhere %6 c2 %7\nreturn %2 %5 %8";

/// `ColorMatrix` as Python traces it.
const MATRIX: &str = "fma c2 0.1 4\nfma c1 0.1 %0\nfma c0 0.8 %1\nfma c2 0.2 -3\nfma c1 0.7 %3\nfma c0 0.1 %4\n\
    fma c2 0.9 1\nfma c1 0.2 %6\nfma c0 0 %7\nreturn %2 %5 %8";

/// Returns a program for images of 3 channels.
fn program(code: &str) -> PixelProgram {
    fixed(PixelProgram::new(
        ["fuseloop pixel program 1", "mine", "channels 3"].into_iter().chain(code.lines()),
    ))
}

fn tables() -> Vec<Entry> {
    use Kind::Pointwise;
    let squares = std::array::from_fn(|level| (level * level / 255) as f32);
    vec![
        entry("Gamma", Pointwise, Plain::Drawn, fixed(Gamma::new(0.8))),
        entry(
            "RandomGamma",
            Pointwise,
            Plain::Drawn,
            fixed(fixed(RandomGamma::new(0.8..=1.2)).p(1.0)),
        ),
        entry("Lut", Pointwise, Plain::Drawn, fixed(Lut::same(squares))),
        entry("RandomEqualize", Pointwise, Plain::Drawn, fixed(RandomEqualize::new(1.0))),
        entry("RandomAutocontrast", Pointwise, Plain::Drawn, fixed(RandomAutocontrast::new(1.0))),
    ]
}

fn moves() -> Vec<Entry> {
    use Kind::{Other, Resizing};
    let erasing = RandomErasing::new().p(1.0);
    let grid = fixed(fixed(fixed(GridMask::new().period(32..=64)).ratio(0.5)).p(1.0));
    vec![
        entry("RandomCrop 224", Resizing, Plain::Drawn, fixed(RandomCrop::new(224))),
        entry("CenterCrop 224", Resizing, Plain::Drawn, fixed(CenterCrop::new(224))),
        entry("RandomHorizontalFlip", Other, Plain::Drawn, fixed(RandomHorizontalFlip::new(1.0))),
        entry("RandomVerticalFlip", Other, Plain::Drawn, fixed(RandomVerticalFlip::new(1.0))),
        entry("RandomTranslate", Other, Plain::Drawn, fixed(RandomTranslate::new(32))),
        entry("Pad 16", Resizing, Plain::None, fixed(Pad::new(16))),
        entry("Cutout", Other, Plain::Drawn, fixed(Cutout::new(56))),
        entry("RandomErasing", Other, Plain::Drawn, fixed(erasing)),
        entry("GridMask", Other, Plain::None, grid),
    ]
}

/// The angle of the rotations, in degrees: a row of the output crosses many rows of the input.
const ANGLE: f64 = 30.0;

fn warps() -> Vec<Entry> {
    use WarpInterpolation::{Bicubic, Bilinear, Nearest};
    let rotation = |interpolation| {
        fixed(RandomRotation::new(ANGLE..=ANGLE)).interpolation(interpolation).fill(None)
    };
    let rotated = |is_bilinear| {
        let matrix = rotation_matrix(ANGLE, [0.0; 2]);
        Plain::Fixed(vec![Pass::Rotate { matrix, is_bilinear }], 0)
    };
    let affine = fixed(RandomAffine::new(-15.0..=15.0)).interpolation(Bilinear);
    let affine = fixed(fixed(affine.translate(0.1, 0.1)).scale(0.9..=1.1));
    let perspective = fixed(RandomPerspective::new().p(1.0)).interpolation(Bilinear);
    vec![
        entry("RandomRotation nearest", Kind::Other, rotated(false), rotation(Nearest)),
        entry("RandomRotation bilinear", Kind::Other, rotated(true), rotation(Bilinear)),
        entry("RandomRotation bicubic", Kind::Other, Plain::None, rotation(Bicubic)),
        entry("RandomAffine bilinear", Kind::Other, Plain::None, affine),
        entry("RandomPerspective bilinear", Kind::Other, Plain::None, perspective),
    ]
}

fn neighbourhoods() -> Vec<Entry> {
    use Kind::Other;
    let side = (-0.5f64).exp() / (1.0 + 2.0 * (-0.5f64).exp());
    let gaussian = [side, 1.0 - 2.0 * side, side].map(|weight| weight as f32);
    let kernel = |weights| Plain::Fixed(vec![Pass::Kernel3 { weights }], 1);
    let sharpened = Plain::Fixed(vec![Pass::Sharpen3 { weight: -1.0 }], 0);
    let sharpness = fixed(fixed(RandomAdjustSharpness::new(2.0)).p(1.0));
    vec![
        entry("BoxBlur 3", Other, kernel([1.0 / 3.0; 3]), fixed(BoxBlur::new(3))),
        entry(
            "GaussianBlur 3",
            Other,
            kernel(gaussian),
            fixed(fixed(GaussianBlur::new(3)).sigma(1.0)),
        ),
        entry("GaussianBlur 23", Other, Plain::None, fixed(GaussianBlur::new(23))),
        entry("RandomAdjustSharpness", Other, sharpened, sharpness),
    ]
}

fn resizes() -> Vec<Entry> {
    let resize = |interpolation| fixed(Resize::new((224, 224))).interpolation(interpolation);
    let crop = fixed(RandomResizedCrop::new(224));
    let zoomed = ops![
        fixed(fixed(RandomZoomOut::new().side_range(1.0..=2.0)).p(1.0)),
        fixed(Resize::new((224, 224)))
    ];
    let resizing = |name, op| entry(name, Kind::Resizing, Plain::None, op);
    vec![
        resizing("Resize 224", resize(Interpolation::Bilinear)),
        resizing("Resize 224 area", resize(Interpolation::Area)),
        resizing("Resize 224 nearest", resize(Interpolation::Nearest)),
        resizing("Resize 224 bilinear", resize(Interpolation::BilinearAliased)),
        resizing("Resize 224 bicubic", resize(Interpolation::BicubicAliased)),
        resizing("Resize 224 bicubic, antialias", resize(Interpolation::Bicubic)),
        entry("RandomResizedCrop 224", Kind::Resizing, Plain::None, crop),
        Entry {
            name: "RandomZoomOut, Resize 224",
            kind: Kind::Resizing,
            plain: Plain::None,
            ops: zoomed,
        },
    ]
}

fn policies() -> Vec<Entry> {
    let policy =
        |name, plain, op: Arc<dyn Op>| Entry { name, kind: Kind::Other, plain, ops: vec![op] };
    let auto_augment = AutoAugment::new();
    vec![
        policy("RandAugment(2, 9)", Plain::Drawn, Arc::new(RandAugment::new())),
        policy("TrivialAugmentWide", Plain::Drawn, Arc::new(TrivialAugmentWide::new())),
        policy("AutoAugment", Plain::Drawn, Arc::new(auto_augment)),
        policy("AugMix", Plain::Drawn, Arc::new(AugMix::new())),
    ]
}
