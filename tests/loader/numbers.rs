//! Labels and arrays: the rows of many samples are written by one call, and each is that of its sample.

use fuseloop::loader::OnDamaged;
use fuseloop::ops::{Convert, DType, LabelSmoothing, Lambda, OneHot, Ops, ops};
use fuseloop::source::{BoxError, Buffer, Facts, FieldKind, OwnedValue, Record, Source};
use fuseloop::{Loader, LoaderBuilder, Order, SampleId};

/// Samples of two components with a label, and with a small and a large array.
struct Numbers(Facts);

/// The number of samples: neither whole batches nor whole chunks.
const SAMPLES: u64 = 333;

/// Every 32nd label from this one on is outside the classes.
const FIRST_DAMAGED: u64 = 21;

impl Numbers {
    fn new() -> Self {
        let array = |shape| FieldKind::NdArray { dtype: "<f8".parse().unwrap(), shape };
        let fields = [("label", FieldKind::Int), ("price", FieldKind::Float)];
        let arrays = [("small", array(vec![3])), ("large", array(vec![50, 2]))];
        let all = fields.into_iter().chain(arrays);
        let mut facts = Facts::new(all, SAMPLES);
        facts.components = 2;
        Self(facts)
    }
}

/// Returns the class of a sample, of which there are ten.
fn label_of(sample: u64) -> i64 {
    if sample % 32 == FIRST_DAMAGED { 10 } else { (sample * 7 % 10) as i64 }
}

fn element_of(sample: u64, index: usize) -> f64 {
    sample as f64 * 1.1 - index as f64
}

fn component_of(sample: u64) -> usize {
    usize::from(sample.is_multiple_of(3) || sample / 50 == 2)
}

impl Source for Numbers {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn read(&self, SampleId(sample): SampleId) -> Result<Record, BoxError> {
        let array = |count| {
            let bytes = (0..count).flat_map(|index| element_of(sample, index).to_le_bytes());
            OwnedValue::NdArray(bytes.collect())
        };
        let label = OwnedValue::Int(label_of(sample));
        Ok(vec![label, OwnedValue::Float(sample as f64 + 0.5), array(3), array(100)])
    }

    fn component(&self, SampleId(sample): SampleId, _: &mut Buffer) -> Result<usize, BoxError> {
        Ok(component_of(sample))
    }
}

fn builder(workers: usize) -> LoaderBuilder {
    let builder = Loader::from_source(Numbers::new()).batch_size(50).workers(workers);
    builder.order(Order::Random).drop_last(false).seed(3)
}

fn f32s() -> Ops {
    ops![Convert::to(DType::F32)]
}

#[test]
fn every_row_is_that_of_its_sample() {
    for workers in [1, 3] {
        let far = Lambda::label("Far", |cx, label| label * 1000 + cx.sample as i64);
        let builder = builder(workers)
            .pipeline("label", ops![Convert::to(DType::I32)])
            .component_ops(1, "label", ops![far, Convert::to(DType::I32)])
            .pipeline("price", f32s())
            .pipeline("small", f32s())
            .component_ops(1, "small", ops![Convert::to(DType::I16), Convert::to(DType::F32)])
            .pipeline("large", f32s());
        let mut seen = 0;
        for batch in builder.build().unwrap().epoch(2).unwrap() {
            let batch = batch.unwrap();
            let labels = batch.tensor::<i32>("label").unwrap();
            let prices = batch.tensor::<f32>("price").unwrap();
            let small = batch.tensor::<f32>("small").unwrap();
            let large = batch.tensor::<f32>("large").unwrap();
            for (row, SampleId(sample)) in batch.ids().iter().enumerate() {
                let other = component_of(*sample) == 1;
                let label = label_of(*sample);
                let label = if other { label * 1000 + *sample as i64 } else { label };
                assert_eq!(i64::from(labels.as_slice()[row]), label, "sample {sample}");
                assert_eq!(prices.as_slice()[row], *sample as f32 + 0.5);
                let element = |index| element_of(*sample, index) as f32;
                for index in 0..100 {
                    assert_eq!(large.as_slice()[row * 100 + index], element(index));
                }
                for index in 0..3 {
                    let rounded = element_of(*sample, index).round_ties_even() as f32;
                    let want = if other { rounded } else { element(index) };
                    assert_eq!(small.as_slice()[row * 3 + index], want, "sample {sample}");
                }
                seen += 1;
            }
        }
        assert_eq!(seen, SAMPLES);
    }
}

#[test]
fn a_label_that_is_refused_is_that_of_its_sample() {
    let hot = || ops![OneHot::new(10).unwrap(), LabelSmoothing::new(0.1).unwrap()];
    let error = builder(2).pipeline("label", hot()).build().unwrap();
    let error = error.epoch(0).unwrap().find_map(Result::err).unwrap();
    let sample = error.sample().unwrap().0;
    assert_eq!((sample % 32, error.field()), (FIRST_DAMAGED, Some("label")));
    assert!(error.to_string().contains("label 10 is none of the 10 classes"), "{error}");
    for workers in [1, 3] {
        let loader = builder(workers).pipeline("label", hot()).on_damaged(OnDamaged::Skip);
        let loader = loader.build().unwrap();
        let mut seen = 0;
        for batch in loader.epoch(0).unwrap() {
            let batch = batch.unwrap();
            let rows = batch.tensor::<f32>("label").unwrap();
            for (SampleId(sample), row) in batch.ids().iter().zip(rows.as_slice().chunks(10)) {
                let class = label_of(*sample) as usize;
                let want = |k| if k == class { 0.9 + 0.01 } else { 0.01f32 };
                assert!(row.iter().enumerate().all(|(k, v)| *v == want(k)), "{sample}: {row:?}");
                seen += 1;
            }
        }
        assert_eq!(seen, SAMPLES - (FIRST_DAMAGED..SAMPLES).step_by(32).count() as u64);
    }
}
