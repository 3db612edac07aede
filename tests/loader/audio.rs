//! Audio files as signals: crops of them, damage, and declarations.

use fuseloop::internals::assert_says;
use fuseloop::loader::Collate;
use fuseloop::ops::{CenterCrop, Gain, Ops, RandomCrop, ops};
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{Column, InMemory};
#[cfg(feature = "spec")]
use fuseloop::spec::Spec;
use fuseloop::{AudioOptions, Loader, LoaderBuilder};

const RATE: u32 = 16_000;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/golden/audio/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Returns a loader of one field, `x`, which has these files.
fn loader(files: &[Vec<u8>]) -> LoaderBuilder {
    let column = Column::bytes(files.to_vec());
    let source = InMemory::new([("x", column)]).unwrap();
    Loader::from_source(source).batch_size(files.len()).workers(1)
}

fn files() -> Vec<Vec<u8>> {
    ["i16.wav", "f32.wav", "i16.flac", "mono.mp3", "mono.ogg"].map(file).to_vec()
}

fn batch(builder: LoaderBuilder) -> (Vec<usize>, Vec<f32>) {
    let loader = builder.build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let tensor = batch.tensor::<f32>("x").unwrap();
    (tensor.shape().to_vec(), tensor.as_slice().to_vec())
}

fn crop() -> Ops {
    ops![RandomCrop::new((1, 400)).unwrap()]
}

#[test]
fn crops_of_every_format_are_runs_of_its_signal() {
    let audio = || loader(&files()).audio("x", AudioOptions::new(RATE));
    let (shape, crops) = batch(audio().pipeline("x", crop()));
    assert_eq!(shape, [5, 400]);
    for (k, crop) in crops.chunks_exact(400).enumerate() {
        // The longest crop that the file has is all of it.
        let frames = [700, 500, 14_000, 3_000, 3_000][k];
        let whole = ops![CenterCrop::new((1, frames)).unwrap()];
        let one = loader(&files()[k..=k]).audio("x", AudioOptions::new(RATE));
        let (shape, whole) = batch(one.pipeline("x", whole));
        assert_eq!(shape, [1, frames as usize]);
        assert!(whole.iter().all(|sample| (-1.0..=1.0).contains(sample)));
        assert!(whole.windows(400).any(|run| run == crop), "file {k}");
    }
    let louder = [crop(), ops![Gain::new(6.0, 6.0).unwrap().p(1.0).unwrap()]].concat();
    let (_, louder) = batch(audio().pipeline("x", louder));
    assert!((louder[0] / crops[0] - 1.995).abs() < 0.01, "{} {}", louder[0], crops[0]);
    let loader = audio().pipeline("x", crop()).build().unwrap();
    assert!(loader.preview(&PreviewOptions::default()).is_ok());
}

#[test]
fn several_channels_are_rows() {
    let stereo = AudioOptions::new(RATE).num_channels(2);
    let files = ["i16.wav", "f32.wav"].map(file);
    let rows = loader(&files).audio("x", stereo);
    let (shape, both) = batch(rows.pipeline("x", ops![CenterCrop::new((2, 500)).unwrap()]));
    assert_eq!(shape, [2, 2, 500]);
    let mono = loader(&files).audio("x", AudioOptions::new(RATE));
    let (shape, mono) = batch(mono.pipeline("x", ops![CenterCrop::new((1, 500)).unwrap()]));
    assert_eq!(shape, [2, 500]);
    for (rows, mean) in both.chunks_exact(1000).zip(mono.chunks_exact(500)) {
        let (left, right) = rows.split_at(500);
        assert!(left.iter().zip(right).zip(mean).all(|((l, r), m)| (l + r) / 2.0 == *m));
    }
}

#[test]
fn files_that_are_not_as_declared_are_damaged_samples() {
    let error = |name: &str, options: AudioOptions| {
        let files = [file("i16.wav"), file(name)];
        let crop = ops![CenterCrop::new((1, 400)).unwrap()];
        let loader = loader(&files).audio("x", options).pipeline("x", crop).build().unwrap();
        loader.epoch(0).unwrap().find_map(Result::err).unwrap()
    };
    let mono = AudioOptions::new(RATE);
    assert_says(
        error("u8.wav", mono),
        ["sample 1", "audio of 8000 samples a second", "`resample` to true"],
    );
    assert_says(error("opus.opus", mono), ["sample 1", "it is Opus, which is not read"]);
    assert_says(error("expected.txt", mono), ["sample 1", "expected a WAV, FLAC, MP3 or Ogg"]);
}

#[test]
fn declarations_that_can_not_hold_are_refused() {
    let refused = |builder: LoaderBuilder| builder.build().unwrap_err().to_string();
    let audio = |options| loader(&files()).audio("x", options).pipeline("x", crop());
    let mono = AudioOptions::new(RATE);
    let error = refused(audio(mono.num_channels(0)));
    assert!(error.contains("audio of 0 channels and 16000 samples a second"), "{error}");
    let error = refused(audio(AudioOptions::new(0)));
    assert!(error.contains("expected 1 to 255 channels, and a sample rate over 0"), "{error}");
    let error = refused(loader(&files()).audio("x", mono));
    assert!(error.contains("add RandomCrop or"), "{error}");
    let error = refused(audio(mono).collate("x", Collate::ragged()));
    assert!(error.contains("audio is not collated: make signals of one length"), "{error}");
    let numbers = InMemory::new([("x", Column::ints([1, 2]))]).unwrap();
    let error = refused(Loader::from_source(numbers).audio("x", mono));
    assert!(error.contains("only bytes can be declared to be audio; this is int"), "{error}");
}

#[cfg(feature = "spec")]
#[test]
fn a_pipeline_file_declares_audio() {
    let text = "[arrays]\nx = { sample_rate = 16000 }\n\
        [fields]\nx = [{ op = 'CenterCrop', size = [1, 300] }]";
    let spec = text.parse::<Spec>().unwrap().apply(loader(&files()));
    let declared = loader(&files()).audio("x", AudioOptions::new(RATE));
    let declared = declared.pipeline("x", ops![CenterCrop::new((1, 300)).unwrap()]);
    assert_eq!(batch(spec), batch(declared));
    let resampled = |text: &str| text.parse::<Spec>().unwrap().apply(loader(&[file("u8.wav")]));
    let text = "[arrays]\nx = { sample_rate = 16000, resample = true }\n\
        [fields]\nx = [{ op = 'CenterCrop', size = [1, 1000] }]";
    assert_eq!(batch(resampled(text)).0, [1, 1000]);
    let error = "[arrays]\nx = { sample_rate = 'fast' }".parse::<Spec>().unwrap_err();
    assert_says(error, ["sample_rate"]);
}
