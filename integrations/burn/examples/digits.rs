//! Trains a small network on drawn digits with burn:
//!
//! ```sh
//! cd integrations && cargo run --release -p fuseloop-burn --example burn_digits
//! ```
//!
//! The pictures grow from epoch to epoch. In the middle of the second epoch the training is stopped, and resumed
//! from what it saved: the weights, the state of the optimizer, and the loader's cursor.

use std::error::Error;
use std::fs;
use std::path::Path;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, activation::relu};
use fuseloop::{Batch, Cursor, Loader};
use fuseloop_burn::{float_tensor, int_tensor};
use fuseloop_digits as digits;

const EPOCHS: u32 = 8;
const LEARNING_RATE: f64 = 4e-3;

/// Three convolutions, the mean of each channel, and a linear layer: any size of pictures fits.
#[derive(Module, Debug)]
struct Network {
    first: Conv2d,
    second: Conv2d,
    third: Conv2d,
    pool: MaxPool2d,
    output: Linear,
}

impl Network {
    fn new(device: &Device) -> Self {
        let conv = |from, to| {
            let config = Conv2dConfig::new([from, to], [3, 3]);
            config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        Self {
            first: conv(3, 16),
            second: conv(16, 32),
            third: conv(32, 64),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            output: LinearConfig::new(64, digits::CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(relu(self.first.forward(images)));
        let x = self.pool.forward(relu(self.second.forward(x)));
        let x = relu(self.third.forward(x));
        self.output.forward(x.flatten::<3>(2, 3).mean_dim(2).flatten(1, 2))
    }
}

/// The state that a training changes. A checkpoint stores it beside the loader's cursor.
struct Training {
    network: Network,
    optimizer: ModuleOptimizer,
    device: Device,
}

impl Training {
    fn new() -> Self {
        let device = Device::flex().autodiff();
        device.seed(17);
        Self { network: Network::new(&device), optimizer: AdamConfig::new().init(), device }
    }

    fn step(&mut self, batch: &Batch) -> Result<(), Box<dyn Error>> {
        // Nothing is copied: the tensors own the batch's memory.
        let images = float_tensor(batch, "image", &self.device)?;
        let labels = int_tensor(batch, "label", &self.device)?;
        let loss = CrossEntropyLossConfig::new().init(&self.device);
        let loss = loss.forward(self.network.forward(images), labels);
        let gradients = GradientsParams::from_grads(loss.backward(), &self.network);
        self.network = self.optimizer.step(LEARNING_RATE, self.network.clone(), gradients);
        Ok(())
    }

    fn accuracy(&self, evaluation: &Loader) -> Result<f64, Box<dyn Error>> {
        let (mut correct, mut images) = (0, 0);
        for batch in evaluation.epoch(0)? {
            let batch = batch?;
            let input = float_tensor(&batch, "image", &self.device)?;
            let classes = self.network.forward(input).argmax(1).into_data_as::<i64>();
            let labels = batch.tensor::<i64>("label")?;
            let pairs = classes.as_slice::<i64>()?.iter().zip(labels.as_slice());
            correct += pairs.filter(|(class, label)| class == label).count();
            images += batch.len();
        }
        Ok(correct as f64 / images as f64)
    }

    fn save(&self, dir: &Path, cursor: &Cursor) -> Result<(), Box<dyn Error>> {
        self.network.clone().save_file(dir.join("network"))?;
        self.optimizer.save(dir.join("optimizer"))?;
        Ok(fs::write(dir.join("cursor"), cursor.to_string())?)
    }

    fn load(dir: &Path) -> Result<(Self, Cursor), Box<dyn Error>> {
        let new = Self::new();
        let network = new.network.try_load_file(dir.join("network"))?;
        let optimizer = new.optimizer.load(dir.join("optimizer"))?;
        let cursor = fs::read_to_string(dir.join("cursor"))?.parse()?;
        Ok((Self { network, optimizer, device: new.device }, cursor))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("fuseloop-burn-digits-{}", std::process::id()));
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

    let mut training = Training::new();
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
