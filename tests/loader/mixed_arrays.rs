//! Arrays, features and labels that are mixed without an image, or beside arrays that are pictures.

use fuseloop::ops::author::{BatchOp, Op, OpClass, Rng, RowMix, Type};
use fuseloop::ops::internals::{BatchKey, cut_mix, mix_up, mixed_label};
use fuseloop::ops::{Convert, CutMix, DType, MixUp, OneHot, Ops, Size, TypeError, ops};
use fuseloop::source::{Facts, FieldKind, FieldSpec, InMemory, OwnedValue};
use fuseloop::{Batch, Loader, LoaderBuilder, SampleId};

const SEED: u64 = 5;
const ROWS: usize = 4;

/// The name, the kind and the four values of a field.
type Field = (FieldSpec, Vec<OwnedValue>);

fn open(fields: Vec<Field>) -> LoaderBuilder {
    let (specs, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let source = InMemory::from_fn(Facts::new(specs, ROWS as u64), move |SampleId(sample)| {
        Ok(values.iter().map(|field| field[sample as usize].clone()).collect())
    });
    Loader::from_source(source).batch_size(ROWS).workers(1).seed(SEED)
}

/// Arrays of f32 or u16. No two elements of a sample are equal, nor those of two samples at one place.
fn arrays(name: &str, dtype: &str, shape: &[u64]) -> Field {
    let count = shape.iter().product::<u64>() as usize;
    let elements = |row: usize| (0..count).map(move |k| element(row, k));
    let bytes = |row| match dtype {
        "<f4" => elements(row).flat_map(|element| element.to_le_bytes()).collect(),
        "<f8" => elements(row).flat_map(|element| f64::from(element).to_le_bytes()).collect(),
        _ => elements(row).flat_map(|element| (element as u16).to_le_bytes()).collect::<Vec<_>>(),
    };
    let values = (0..ROWS).map(|row| OwnedValue::NdArray(bytes(row))).collect();
    let kind = FieldKind::NdArray { dtype: dtype.parse().unwrap(), shape: shape.to_vec() };
    (FieldSpec { name: name.to_owned(), kind }, values)
}

fn element(row: usize, k: usize) -> f32 {
    (1000 * row + k) as f32
}

fn classes(name: &str) -> Field {
    let values = (0..ROWS).map(|row| OwnedValue::Int(row as i64)).collect();
    (FieldSpec { name: name.to_owned(), kind: FieldKind::Int }, values)
}

fn first(builder: LoaderBuilder) -> Batch {
    builder.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap()
}

fn refused(builder: LoaderBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

fn drawn(op: &dyn BatchOp, name: &str, size: Size) -> Vec<RowMix> {
    op.draw(&mut BatchKey::new(SEED, 0, 0).op(name, 0), ROWS, size)
}

fn cutmix() -> CutMix {
    CutMix::new(1.0).unwrap().per_sample()
}

fn mixup() -> MixUp {
    MixUp::new(1.0).unwrap().per_sample()
}

#[test]
fn a_rectangle_is_pasted_into_arrays_that_are_pictures() {
    let size = Size::new(6, 8);
    for (dtype, shape, axes) in [
        ("<f4", &[6, 8, 3][..], None),
        ("<f4", &[3, 6, 8], None),
        ("<f4", &[6, 8], Some("HW")),
        ("<f4", &[9, 6, 8], Some("DHW")),
        ("<f4", &[6, 8, 9], Some("HWC")),
        ("<f4", &[2, 3, 6, 8], None),
        ("<f8", &[6, 8, 3], None),
    ] {
        let mut builder = open(vec![arrays("x", dtype, shape), classes("label")])
            .pipeline("x", ops![Convert::to(DType::F32), cutmix()])
            .pipeline("label", ops![cutmix()]);
        if let Some(axes) = axes {
            builder = builder.axes("x", axes);
        }
        let batch = first(builder);
        let [pictures, labels] = ["x", "label"].map(|name| batch.tensor::<f32>(name).unwrap());
        let is_last = shape.ends_with(&[3]) || axes == Some("HWC");
        let channels = if is_last { shape[2] as usize } else { 1 };
        let mixes = drawn(&cutmix(), "CutMix", size);
        assert!(mixes.iter().any(|mix| mix.share > 0.1 && mix.share < 0.9));
        for (row, mix) in mixes.iter().enumerate() {
            let want = [row as f32, mix.partner as f32, mix.share as f32];
            assert_eq!(labels.row(row).unwrap(), want);
            for (k, &found) in pictures.row(row).unwrap().iter().enumerate() {
                let pixel = k / channels % 48;
                let (y, x) = ((pixel / 8) as u32, (pixel % 8) as u32);
                let [own, partner] = [row, mix.partner].map(|row| element(row, k));
                let want = cut_mix::eval(own, partner, y, x, mix.window.unwrap());
                assert_eq!(found, want, "{shape:?} {axes:?}: element {k} of row {row}");
            }
        }
    }
}

#[test]
fn arrays_whose_axes_are_not_known_are_not_pasted_into() {
    let with = |shape: &[u64]| {
        open(vec![arrays("x", "<f4", shape), classes("label")])
            .pipeline("x", ops![cutmix()])
            .pipeline("label", ops![cutmix()])
    };
    for (shape, example) in [(&[6, 8][..], "HW"), (&[9, 6, 8], "HWC")] {
        let want = format!(
            "output x: CutMix pastes a rectangle into arrays of several axes: it is not clear which axes of {shape:?} \
             are rows, columns and channels: declare them with `axes`, for example \"{example}\"; an array that is a \
             label has one axis"
        );
        assert_eq!(refused(with(shape)), want);
    }
    // Each element is mixed by itself: no axes are needed.
    let blended = |shape| with(shape).pipeline("x", ops![mixup()]).pipeline("label", ops![mixup()]);
    blended(&[6, 8]).build().unwrap();
    // Pictures are not mixed without their label.
    let error = refused(with(&[6, 8, 3]).pipeline("label", ops![]));
    assert!(
        error.starts_with("output x: CutMix mixes the images, but no label has the same ops"),
        "{error}"
    );
}

#[test]
fn an_array_of_one_axis_is_a_label_unless_its_axes_are_declared() {
    let size = Size::new(6, 8);
    let fields = vec![arrays("x", "<f4", &[6, 8, 3]), arrays("label", "<f4", &[1, 5])];
    let labels =
        first(open(fields).pipeline("x", ops![cutmix()]).pipeline("label", ops![cutmix()]));
    let labels = labels.tensor::<f32>("label").unwrap();
    for (row, mix) in drawn(&cutmix(), "CutMix", size).iter().enumerate() {
        let mixed = |k| mixed_label(element(row, k), element(mix.partner, k), mix.share);
        assert!(labels.row(row).unwrap().iter().copied().eq((0..5).map(mixed)));
    }
    let signals =
        first(open(vec![arrays("x", "<f4", &[90])]).axes("x", "T").pipeline("x", ops![cutmix()]));
    let signals = signals.tensor::<f32>("x").unwrap();
    for (row, mix) in drawn(&cutmix(), "CutMix", Size::new(1, 90)).iter().enumerate() {
        let window = mix.window.unwrap();
        let pasted =
            |k| cut_mix::eval(element(row, k), element(mix.partner, k), 0, k as u32, window);
        assert!(signals.row(row).unwrap().iter().copied().eq((0..90).map(pasted)));
    }
}

#[test]
fn features_are_mixed_without_an_image() {
    let fields = || vec![arrays("x", "<f4", &[5]), classes("label")];
    let with = |x: Ops, label: Ops| open(fields()).pipeline("x", x).pipeline("label", label);
    let one_hot = || ops![OneHot::new(4).unwrap(), mixup()];
    let batch = first(with(ops![mixup()], one_hot()));
    let [features, labels] = ["x", "label"].map(|name| batch.tensor::<f32>(name).unwrap());
    let mixes = drawn(&mixup(), "MixUp", Size::new(1, 1));
    for (row, &RowMix { partner, share, .. }) in mixes.iter().enumerate() {
        let feature = |k| mixed_label(element(row, k), element(partner, k), share);
        assert!(features.row(row).unwrap().iter().copied().eq((0..5).map(feature)));
        let is = |class: usize| [row, partner].map(|row| f32::from(u8::from(row == class)));
        let label = |class| is(class);
        let want = (0..4).map(label).map(|[own, partner]| mixed_label(own, partner, share));
        assert!(labels.row(row).unwrap().iter().copied().eq(want));
    }
    first(open(fields()).without("label").pipeline("x", ops![mixup()]));
    let alike = |output: &str, other: &str| {
        format!(
            "output {output}: MixUp mixes this output, but no other output has the same ops: put MixUp, with the same parameters, \
             last in the list of one of {other}, or leave these out (`without`)"
        )
    };
    assert_eq!(refused(with(ops![mixup()], ops![])), alike("x", "label"));
    assert_eq!(refused(with(ops![], one_hot())), alike("label", "x"));
    // A view of the features is no label of them.
    let viewed = |builder: LoaderBuilder| builder.view("again", "x", ops![mixup()]);
    assert_eq!(refused(viewed(with(ops![mixup()], ops![]))), alike("x", "label"));
    first(open(fields()).without("label").pipeline("x", ops![mixup()]).view("raw", "x", ops![]));
    let other = ops![MixUp::new(0.5).unwrap()];
    assert_eq!(refused(with(ops![mixup()], other)), alike("x", "label"));
    let error = refused(with(ops![cutmix()], ops![cutmix()]));
    assert_eq!(
        error,
        "output x: CutMix pastes a rectangle of an image, but no output has images: use MixUp, or name the axes of an array of images with `axes`, for example \"HWC\""
    );
}

/// Mixes each sample with the next one, half and half, and says that it makes elements of another type.
#[derive(Clone, Copy, Debug)]
struct Halves(Option<(DType, usize)>);

impl Op for Halves {
    fn name(&self) -> &'static str {
        "Halves"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(match self.0 {
            Some((dtype, count)) => Type::Tensor { dtype, shape: vec![count] },
            None => input.clone(),
        })
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Batch(self)
    }
}

impl BatchOp for Halves {
    fn draw(&self, _: &mut Rng, rows: usize, _: Size) -> Vec<RowMix> {
        let next = |row| RowMix { partner: (row + 1) % rows, share: 0.5, window: None };
        (0..rows).map(next).collect()
    }
}

#[test]
fn an_op_of_a_user_mixes_no_integers_of_labels_as_floats() {
    let with = |list: Ops| {
        open(vec![arrays("x", "<f4", &[5]), classes("label")])
            .pipeline("x", ops![Halves(None)])
            .pipeline("label", list)
    };
    let error = refused(with(ops![Halves(None)]));
    assert_eq!(
        error,
        "output label: op 0 of the list: Halves takes floats, whose type it keeps (put Convert or OneHot before it), or \
         one i64, which becomes f32 [3], but gets one i64 per sample, which stays unchanged"
    );
    for list in [
        ops![Halves(Some((DType::F64, 3)))],
        ops![Halves(Some((DType::F32, 4)))],
        ops![Convert::to(DType::F32), Halves(Some((DType::F32, 3)))],
        ops![OneHot::new(4).unwrap(), Halves(Some((DType::F32, 3)))],
    ] {
        let error = refused(with(list));
        assert!(error.contains("Halves takes floats, whose type it keeps"), "{error}");
    }
    let as_floats = first(with(ops![Convert::to(DType::F64), Halves(None)]));
    assert_eq!(as_floats.tensor::<f64>("label").unwrap().as_slice(), [0.5, 1.5, 2.5, 1.5]);
}

#[test]
fn an_op_of_a_user_mixes_the_integers_of_pictures() {
    let pictures = vec![arrays("x", "<u2", &[6, 8, 3])];
    let batch = first(open(pictures).pipeline("x", ops![Halves(None)]));
    let pictures = batch.tensor::<u16>("x").unwrap();
    for row in 0..ROWS {
        let mixed = |k| {
            let [own, partner] = [row, (row + 1) % ROWS].map(|row| element(row, k));
            mix_up::eval(own, partner, 0.5) as u16
        };
        assert!(pictures.row(row).unwrap().iter().copied().eq((0..144).map(mixed)));
    }
}
