//! Trains a small network on drawn digits with candle:
//!
//! ```sh
//! cd integrations && cargo run --release -p fuseloop-candle --example candle_digits
//! ```
//!
//! The pictures grow from epoch to epoch. In the middle of the second epoch the training is stopped, and resumed
//! from what it saved: the weights and the loader's cursor. (candle's optimizers can't be saved: the resumed one
//! begins without its moments.)

use std::error::Error;
use std::fs;
use std::path::Path;

use candle_core::{D, DType, Device, Tensor};
use candle_nn::{
    AdamW, Conv2d, Conv2dConfig, Linear, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap,
    conv2d, linear, loss,
};
use fuseloop::{Batch, Cursor, Loader};
use fuseloop_candle::to_tensor;
use fuseloop_digits as digits;

const EPOCHS: u32 = 8;
const LEARNING_RATE: f64 = 4e-3;

/// Three convolutions, the mean of each channel, and a linear layer: any size of pictures fits.
struct Network {
    first: Conv2d,
    second: Conv2d,
    third: Conv2d,
    output: Linear,
}

impl Network {
    fn new(weights: &VarBuilder) -> candle_core::Result<Self> {
        let config = Conv2dConfig { padding: 1, ..Conv2dConfig::default() };
        Ok(Self {
            first: conv2d(3, 16, 3, config, weights.pp("first"))?,
            second: conv2d(16, 32, 3, config, weights.pp("second"))?,
            third: conv2d(32, 64, 3, config, weights.pp("third"))?,
            output: linear(64, digits::CLASSES, weights.pp("output"))?,
        })
    }

    fn forward(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        let x = self.first.forward(images)?.relu()?.max_pool2d(2)?;
        let x = self.second.forward(&x)?.relu()?.max_pool2d(2)?;
        let x = self.third.forward(&x)?.relu()?;
        self.output.forward(&x.mean((2, 3))?)
    }
}

/// The state that a training changes. A checkpoint stores it beside the loader's cursor.
struct Training {
    weights: VarMap,
    network: Network,
    optimizer: AdamW,
}

impl Training {
    fn new() -> Result<Self, Box<dyn Error>> {
        let weights = VarMap::new();
        let network = Network::new(&VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu))?;
        let params = ParamsAdamW { lr: LEARNING_RATE, ..ParamsAdamW::default() };
        let optimizer = AdamW::new(weights.all_vars(), params)?;
        Ok(Self { weights, network, optimizer })
    }

    fn step(&mut self, batch: &Batch) -> Result<(), Box<dyn Error>> {
        let images = to_tensor(batch, "image", &Device::Cpu)?;
        let labels = to_tensor(batch, "label", &Device::Cpu)?;
        let loss = loss::cross_entropy(&self.network.forward(&images)?, &labels)?;
        Ok(self.optimizer.backward_step(&loss)?)
    }

    fn accuracy(&self, evaluation: &Loader) -> Result<f64, Box<dyn Error>> {
        let (mut correct, mut samples) = (0.0, 0);
        let batches = evaluation.epoch(0)?;
        for batch in fuseloop_candle::tensors(batches, ["image", "label"], &Device::Cpu) {
            let [images, labels] = batch?;
            let classes = self.network.forward(&images)?.argmax(D::Minus1)?.to_dtype(DType::I64)?;
            let equal = classes.eq(&labels)?.to_dtype(DType::F64)?;
            correct += equal.sum_all()?.to_scalar::<f64>()?;
            samples += labels.dims1()?;
        }
        Ok(correct / samples as f64)
    }

    fn save(&self, dir: &Path, cursor: &Cursor) -> Result<(), Box<dyn Error>> {
        self.weights.save(dir.join("weights.safetensors"))?;
        Ok(fs::write(dir.join("cursor"), cursor.to_string())?)
    }

    fn load(dir: &Path) -> Result<(Self, Cursor), Box<dyn Error>> {
        let mut training = Self::new()?;
        training.weights.load(dir.join("weights.safetensors"))?;
        Ok((training, fs::read_to_string(dir.join("cursor"))?.parse()?))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("fuseloop-candle-digits-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let trained = train(&dir);
    fs::remove_dir_all(dir)?;
    trained
}

fn train(dir: &Path) -> Result<(), Box<dyn Error>> {
    let (training_set, evaluation_set) = (dir.join("train.beton"), dir.join("eval.beton"));
    digits::write(&training_set, 4000, 1)?;
    digits::write(&evaluation_set, 1000, 2)?;
    let mut loader = digits::training(&training_set)?.build()?;
    let evaluation = digits::evaluation(&evaluation_set)?.build()?;
    println!("the loader alone: {:.0} images/s", digits::loader_speed(&loader)?);

    let mut training = Training::new()?;
    let mut accuracy = 0.0;
    for epoch in 0..EPOCHS {
        let mut batches = loader.epoch(epoch)?;
        let mut clock = digits::Clock::default();
        while let Some(batch) = clock.load(|| batches.next()).transpose()? {
            clock.train(batch.len(), || training.step(&batch))?;
            if epoch == 1 && batch.index() + 1 == loader.len() / 2 {
                training.save(dir, &batches.cursor()?)?;
                // From here on as in a new process.
                let resumed = digits::training(&training_set)?.build()?;
                let (saved, cursor) = Training::load(dir)?;
                let compared = digits::compare(batches, resumed.resume(&cursor)?)?;
                println!(
                    "resumed in the middle of epoch {epoch}: the {compared} batches left are equal"
                );
                (training, batches) = (saved, resumed.resume(&cursor)?);
                loader = resumed;
            }
        }
        accuracy = training.accuracy(&evaluation)?;
        println!("epoch {epoch}: {:.1} % correct; {clock}", accuracy * 100.0);
    }
    Ok(digits::check_accuracy(accuracy)?)
}
