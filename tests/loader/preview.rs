//! Sheets of samples: their images are those of the batches.

use crate::common::dataset::{self, varied};
use fuseloop::internals::assert_says;
use fuseloop::internals::preview::Canvas;
use fuseloop::preview::{PreviewOptions, Sheet};
use fuseloop::source::{
    Beton, Column, Dataset, InMemory, OpenOptions, OwnedImage, OwnedValue, Source, Stream,
};
use fuseloop::write::WriteMode;
use fuseloop::{CancelFlag, ErrorKind, Loader, LoaderBuilder, SampleId, ops::*};
use std::path::Path;
use std::sync::Arc;

/// The side of a cell in pixels.
pub(super) const CELL: u32 = 224;
/// The distance of two cells in pixels.
const STEP: u32 = 236;
/// The margin of the sheet in pixels.
const MARGIN: u32 = 20;

fn builder(path: &Path) -> LoaderBuilder {
    let list = ops![
        Resize::new((CELL, CELL)).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        RandomBrightness::new(0.5).unwrap()
    ];
    Loader::open(path).unwrap().batch_size(4).pipeline("image", list)
}

/// The pixels of the cell in the first row and this column.
pub(super) fn cell(sheet: &Sheet, column: u32) -> Vec<u8> {
    let row = |y: u32| {
        let at = 3 * ((MARGIN + y) * sheet.width() + MARGIN + column * STEP) as usize;
        &sheet.rgb()[at..at + 3 * CELL as usize]
    };
    (0..CELL).flat_map(row).copied().collect()
}

#[test]
fn the_images_are_those_of_the_batches() {
    let (_dir, path) = dataset::write(12, WriteMode::Raw, varied);
    let loader = builder(&path).indices([7, 3, 5]).build().unwrap();
    let options = PreviewOptions { samples: 1, epochs: 3, epoch: 2, ..PreviewOptions::default() };
    let sheet = loader.preview(&options).unwrap();
    assert_eq!(sheet.width(), 2 * MARGIN + 4 * STEP);
    for epoch in 2..5 {
        let batch = loader.get(&[7], epoch).unwrap();
        assert!(cell(&sheet, epoch - 1) == batch.bytes("image").unwrap(), "epoch {epoch}");
    }
    let each = PreviewOptions { samples: 1, epoch: 2, each_op: true, ..PreviewOptions::default() };
    let each = loader.preview(&each).unwrap();
    assert_eq!(each.width(), 2 * MARGIN + 4 * STEP);
    assert!(cell(&each, 3) == cell(&sheet, 1), "the last op's is the epoch's");
    assert!(cell(&each, 0) == cell(&sheet, 0), "the stored image");
}

#[test]
fn a_damaged_sample_is_shown_as_its_error() {
    let (_dir, path) = dataset::write(4, WriteMode::Jpg, varied);
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let stored = |sample| match &Source::read(&beton, SampleId(sample)).unwrap()[0] {
        OwnedValue::Image(image) => image.bytes.clone(),
        other => panic!("{other:?}"),
    };
    let files: Vec<Vec<u8>> = vec![stored(0), stored(1)[..90].to_vec(), stored(2), stored(3)];
    let of = |files: &[Vec<u8>], list: Ops| {
        let images = files.iter().map(|file| OwnedImage::jpeg(file.clone())).collect();
        let images = InMemory::new([("image", Column::images(images))]).unwrap();
        Loader::from_source(images).batch_size(4).pipeline("image", list).build().unwrap()
    };
    let list = || ops![Resize::new((CELL, CELL)).unwrap()];
    let options = PreviewOptions { samples: 4, epochs: 2, ..PreviewOptions::default() };
    let sheet = of(&files, list()).preview(&options).unwrap();
    assert_eq!(sheet.damaged(), [1]);
    let whole = of(&[stored(0), stored(2), stored(3)], list()).preview(&options).unwrap();
    assert!(whole.damaged().is_empty() && whole.height() < sheet.height());
    assert!(cell(&sheet, 1) == cell(&whole, 1));
    let mixed = ops![Resize::new((CELL, CELL)).unwrap(), CutMix::new(1.0).unwrap()];
    assert_eq!(of(&files, mixed).preview(&options).unwrap().damaged(), [1]);
    let error = of(&files[1..2], list()).preview(&options).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (ErrorKind::Damaged, Some(SampleId(0))));
}

#[test]
fn ops_that_mix_a_batch_mix_the_samples_of_a_sheet() {
    let (_dir, path) = dataset::write(12, WriteMode::Raw, varied);
    let cutmix = || CutMix::new(1.0).unwrap();
    let list = || ops![Resize::new((CELL, CELL)).unwrap(), RandomHorizontalFlip::new(0.5).unwrap()];
    let sheet = |each_op: bool, last: Ops| {
        let image: Ops = list().into_iter().chain(last).collect();
        let loader = Loader::open(&path).unwrap().indices([7, 3, 5, 1]);
        let loader = loader.pipeline("image", image).pipeline("label", ops![cutmix()]);
        let loader = loader.build().unwrap();
        let options = PreviewOptions { samples: 4, epoch: 2, each_op, ..PreviewOptions::default() };
        (loader.preview(&options).unwrap(), loader.get(&[7, 3, 5, 1], 2).unwrap())
    };
    let (mixed, batch) = sheet(false, ops![cutmix()]);
    let bytes = batch.bytes("image").unwrap();
    let first = &bytes[..bytes.len() / 4];
    assert!(cell(&mixed, 1) == first);
    let (each, _) = sheet(true, ops![cutmix()]);
    assert!(cell(&each, 3) == first, "after the op that mixes");
    assert!(cell(&each, 2) != first, "before it");
    assert_eq!(each.width(), mixed.width() + 2 * STEP);
}

#[test]
fn a_sheet_is_a_png_a_jpeg_and_pixels() {
    let (_dir, path) = dataset::write(6, WriteMode::Raw, varied);
    let loader = builder(&path).view("other", "image", ops![CenterCrop::new(24).unwrap()]);
    let loader = loader.build().unwrap();
    let sheet =
        loader.preview(&PreviewOptions { samples: 2, ..PreviewOptions::default() }).unwrap();
    let png = sheet.png().unwrap();
    let mut decoder = png::Decoder::new(std::io::Cursor::new(&png)).read_info().unwrap();
    let mut pixels = vec![0; decoder.output_buffer_size().unwrap()];
    decoder.next_frame(&mut pixels).unwrap();
    assert!(pixels == sheet.rgb());
    assert_eq!(pixels.len() as u32, 3 * sheet.width() * sheet.height());
    assert!(sheet.jpeg().unwrap().starts_with(&[0xff, 0xd8]));
    let output = Some("other".to_owned());
    let other = loader.preview(&PreviewOptions { output, samples: 2, ..PreviewOptions::default() });
    assert!(other.unwrap().rgb() != sheet.rgb());
}

/// A stream that is read in sequence has no samples to choose from: the first ones are shown.
#[test]
fn a_stream_shows_its_first_samples() {
    let (_dir, path) = dataset::write(6, WriteMode::Raw, varied);
    let sheet = |stream: Stream, samples| {
        let list = ops![Resize::new((CELL, CELL)).unwrap()];
        let loader =
            Loader::from_dataset(Dataset::Stream(stream)).pipeline("image", list).build().unwrap();
        let options = PreviewOptions { samples, epochs: 2, ..PreviewOptions::default() };
        loader.preview(&options).unwrap()
    };
    let unknown = || {
        let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
        Stream::of(Arc::new(beton)).filter(|_| true)
    };
    assert!(sheet(unknown(), 3).height() < sheet(unknown(), 6).height());
    assert_eq!(sheet(unknown(), 50).height(), sheet(unknown(), 6).height());
}

#[test]
fn what_can_t_be_shown_is_an_error() {
    let (_dir, path) = dataset::write(6, WriteMode::Raw, varied);
    let loader = builder(&path).build().unwrap();
    let error = |options: PreviewOptions, loader: &Loader| loader.preview(&options).unwrap_err();
    let named = |name: &str| PreviewOptions { output: Some(name.to_owned()), ..Default::default() };
    let wrong = error(named("picture"), &loader);
    assert_eq!(wrong.to_string(), "no output named picture; available: image");
    let label = error(named("label"), &loader);
    assert_eq!(label.to_string(), "output label has no images; available: image");
    assert_eq!((label.kind(), label.field()), (ErrorKind::Field, Some("label")));
    let without = builder(&path).without("image").build().unwrap();
    let none = error(PreviewOptions::default(), &without);
    assert_eq!(none.to_string(), "no output has images; the outputs are label");
    let both = PreviewOptions { each_op: true, epochs: 2, ..Default::default() };
    assert!(error(both, &loader).to_string().contains("drop one of the two options"));
    for (samples, epochs) in [(0, 1), (1, 0), (1000, 9)] {
        let found = error(PreviewOptions { samples, epochs, ..Default::default() }, &loader);
        assert_eq!(found.kind(), ErrorKind::Parameter, "{found}");
    }
    let cancel = CancelFlag::new();
    cancel.cancel();
    let cancelled = error(PreviewOptions { cancel, ..Default::default() }, &loader);
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);

    dataset::damage(&path, |bytes| bytes.truncate(bytes.len() / 2));
    let Ok(loader) = Loader::open(&path).and_then(LoaderBuilder::build) else { return };
    assert_eq!(error(PreviewOptions::default(), &loader).kind(), ErrorKind::Damaged);
}

/// Returns a PNG of a number of pixels that no preview shows, in some kilobytes.
fn huge(side: u32) -> Vec<u8> {
    let mut file = vec![];
    let mut encoder = png::Encoder::new(&mut file, side, side);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&vec![0; side.div_ceil(8) as usize * side as usize]).unwrap();
    writer.finish().unwrap();
    file
}

#[test]
fn a_small_file_of_many_pixels_is_refused_before_it_is_decoded() {
    let huge = huge(8193);
    assert!(huge.len() < 100_000);
    let images = Column::images(vec![OwnedImage::file(huge)]);
    let loader = Loader::from_source(InMemory::new([("image", images)]).unwrap()).batch_size(1);
    let loader = loader.pipeline("image", ops![Resize::new((8, 8)).unwrap()]).build().unwrap();
    let options = PreviewOptions { samples: 1, ..PreviewOptions::default() };
    let error = loader.preview(&options).unwrap_err();
    assert_says(
        &error,
        ["has 67125249 pixels, and the maximum for an image that is shown is 67108864"],
    );
    assert_eq!((error.kind(), error.sample()), (ErrorKind::Memory, Some(SampleId(0))));
}

#[test]
fn a_canvas_has_the_size_that_was_asked_for() {
    let canvas = Canvas::new(Size::new(3, 5), [1, 2, 3]).unwrap();
    assert_eq!((canvas.size(), canvas.rgb().len()), (Size::new(3, 5), 45));
}
