//! The data that a worker stages for a device, tested without a device.

use super::super::stage::LoaderStage;
use super::super::{Loader, compile};
use super::*;
use crate::batch::TensorRows;
use crate::jit::KernelCache;
use crate::run::{Progress, Stage};
use crate::sample::{Epoch, SampleId, SampleRef};
use crate::source::{Facts, FieldKind, InMemory, OwnedImage, OwnedValue};
use fuseloop_engine::batch::{BatchSpec, Slot};
use fuseloop_ops::author::{Op, OpClass};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;

const SIDE: u32 = 24;
const SAMPLES: u64 = 6;

fn noise() -> InMemory {
    let target = ("target", FieldKind::Float);
    let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int), target];
    InMemory::from_fn(Facts::new(fields, SAMPLES), |sample| {
        let (mut rng, size) = (SampleKey::new(3, 0, sample.0).op(0), Size::new(40, 50));
        let pixels = (0..3 * size.pixels()).map(|_| rng.below(256) as u8).collect();
        let image = OwnedImage::rgb(size, pixels);
        let target = OwnedValue::Float(sample.0 as f64);
        Ok(vec![OwnedValue::Image(image), OwnedValue::Int(sample.0 as i64), target])
    })
}

/// Builds a loader on the CPU, with an image and this list, a label, and a target that is mixed like the image.
fn loader(image: fn() -> Ops) -> Loader {
    let mixes = |op: &Arc<dyn Op>| matches!(op.class(), OpClass::Batch(_));
    let builder = Loader::from_source(noise()).device("cpu").batch_size(SAMPLES as usize);
    let targets: Ops = image().into_iter().filter(mixes).collect();
    let builder = builder.pipeline("image", image()).pipeline("target", targets);
    builder.pipeline("label", ops![Squeeze, ToDevice::to(Device::Auto)]).build().unwrap()
}

/// Builds the same loader's stage as if there were a device, without an upload.
fn staging(loader: &Loader) -> LoaderStage {
    let outputs = loader.compiled().outputs.clone();
    let lists: Vec<Ops> = outputs.iter().map(|output| output.ops(Epoch(0)).unwrap()).collect();
    let (source, setup, cache) = (&loader.source, &loader.setup, &mut KernelCache::default());
    let plans =
        compile::plan_outputs(&**source, &outputs, &lists, &[true, true, false], setup, cache)
            .unwrap();
    LoaderStage::new(Arc::clone(source), (plans, None), Epoch(0), setup, loader.shared.clone())
}

/// Runs all samples through a stage and returns the rows of each output.
fn filled(stage: &LoaderStage) -> Vec<Vec<Vec<u8>>> {
    let count = SAMPLES as usize;
    let spec = BatchSpec::new(stage.outputs(), NonZeroUsize::new(count).unwrap()).unwrap();
    let mut slot = Slot::new(&spec).unwrap();
    let visits: Vec<SampleRef> =
        (0..SAMPLES).map(|sample| SampleRef::once(SampleId(sample))).collect();
    slot.visits_mut().extend(&visits);
    let (mut worker, mut rows) = (stage.worker(Progress::off()), slot.rows_mut());
    stage.fill(&mut worker, Epoch(0), &visits, &mut rows).unwrap();
    stage.finish(&mut worker, Epoch(0), 0, &mut rows).unwrap();
    let each =
        rows.outputs().map(|all| all.chunks(all.len() / count).map(<[u8]>::to_vec).collect());
    each.collect()
}

fn head() -> Ops {
    let jitter = ColorJitter::new(0.4, 0.4, 0.4).unwrap();
    let flip = RandomHorizontalFlip::new(0.5).unwrap();
    ops![
        RandomResizedCrop::new(SIDE).unwrap().scale(0.3..=1.0).unwrap().ratio(0.8..=1.2).unwrap(),
        flip,
        jitter
    ]
}

fn whole() -> Ops {
    let tail = ops![
        ToDevice::to(Device::Cuda(1)),
        Normalize::imagenet(),
        Convert::to(DType::F16),
        ToChannelsFirst,
        MixUp::new(1.0).unwrap(),
    ];
    head().into_iter().chain(tail).collect()
}

#[test]
fn a_row_is_the_bytes_before_the_op_and_then_the_samples_record() {
    let (host, loader) = (loader(head), loader(whole));
    let stage = staging(&loader);
    let bytes = 3 * (SIDE * SIDE) as usize;
    let [image, label, _] = stage.outputs() else { panic!("three outputs") };
    assert_eq!((image.dtype, &*image.shape), (DType::F16, &[3, 24, 24][..]));
    assert!(matches!(image.rows, TensorRows::Device { staged } if staged >= bytes));
    assert_eq!(label.rows, TensorRows::Device { staged: 8 });
    let (staged, want) = (filled(&stage), filled(&host.current()));
    for (sample, (row, want)) in staged[0].iter().zip(&want[0]).enumerate() {
        // The device also mixes, so the pixels have not changed.
        assert!(row[..bytes] == *want, "sample {sample}");
    }
    assert_eq!(staged[1], want[1]);
}

#[test]
fn what_mixes_bytes_is_done_here_where_nothing_else_is_left() {
    let mixed = || ops![CenterCrop::new(SIDE).unwrap(), MixUp::new(1.0).unwrap()];
    let moved = || {
        let crop = CenterCrop::new(SIDE).unwrap();
        ops![crop, ToDevice::to(Device::Auto), MixUp::new(1.0).unwrap()]
    };
    let (host, loader) = (loader(mixed), loader(moved));
    assert!(filled(&staging(&loader))[0] == filled(&host.current())[0]);
}

#[test]
fn the_plan_is_the_same_one_wherever_it_runs() {
    let loader = loader(whole);
    assert_eq!(staging(&loader).fingerprint(), loader.current().fingerprint());
}
