//! Checks that must hold for any bytes. Fuzz targets run them, and every test run runs each for a
//! second.
//!
//! A check returns whether the bytes were a file that opens. If hardly any bytes are, hardly anything is
//! checked: tests assert that at least a fifth are, and fuzz targets print how many are ([`count`]).
//! Formats with checksums have a function that corrects them, so that a changed byte does not end the
//! check early.
//!
//! | check          | bytes                                  | checksums put right by |
//! |----------------|----------------------------------------|------------------------|
//! | [`beton`]      | a `.beton` file                        |                        |
//! | [`tar`]        | a tar file, plain or packed            | [`resummed`]           |
//! | [`tfrecord`]   | a TFRecord file                        | [`reframed`]           |
//! | [`mds`]        | the index of MDS shards and, after a NUL, a shard |             |
//! | [`folder`]     | a table of images; a saved listing     |                        |
//! | [`fixed_length`] | an idx file, also packed; a batch of CIFAR |                  |
//! | [`coco`]       | a file of COCO's annotations, and its masks |                   |
//! | [`voc`]        | a file of Pascal VOC's annotations     |                        |
//! | [`yolo`]       | YOLO's labels of an image and, after a NUL, `data.yaml` |        |
//! | [`jpeg_window`], [`jpeg_recut`] | a JPEG                |                        |
//! | [`bit_planes`] | a bit-plane image                      | [`resealed`]           |
//! | [`png`]        | a PNG                                  | [`rechecked`]          |
//! | [`webp`]       | a WebP                                 |                        |
//! | [`still`]      | a BMP, a GIF, a PNM, a JPEG XL or a HEIC |                      |
//! | [`tiff`]       | a TIFF                                 |                        |
//! | [`audio`]      | a WAV, a FLAC, an MP3 or an Ogg Vorbis file |                   |
//! | [`transform`]  | an image, its shape, its targets, and the ops |                 |
//! | [`parquet`]    | a Parquet file                         |                        |
//! | [`lerobot`]    | LeRobot's `info.json` and, after a NUL, a Parquet file of its episodes | |
//! | [`clip_store`] | rows of a clip store: the number of a video and a time, each |     |
//! | [`saved_videos`] | a table of saved indexes of videos, and the indexes | both are    |
//! | [`joined_index`] | the directory of a joined index, and its pages | of blocks, both |
//! | [`hub`]        | a header `Link` of the Hugging Face Hub and, after a NUL, a page of files | |
//! | [`arrow`]      | buffers of columns of Arrow            |                        |
//! | [`spec_toml`]  | a pipeline file                        |                        |
//! | [`cursor`]     | a cursor                               |                        |

#[cfg(test)]
mod generate;
mod parts;

#[cfg(feature = "audio")]
use crate::decode::AudioOptions;
use crate::decode::{self, DecodeOptions, Decoder, ImageReadMode, JpegBackend, ObjectMask};
use crate::loader::cursor::MOST_WRITTEN;
use crate::loader::transform::{Image, Key, TargetValue, Transform};
use crate::loader::{Cursor, Loader, Targets};
use crate::plan::ImagePlan;
use crate::recut::{BitPlaneCodec, Recutter, Tile, Unchanged};
use crate::sample::{Epoch, Limits, SampleId};
#[cfg(all(feature = "parquet", feature = "video"))]
use crate::source::files_of_episodes;
use crate::source::hub_api;
use crate::source::index_file::read_joined;
use crate::source::open::open_dataset;
#[cfg(feature = "video")]
use crate::source::saved_videos::read_saved_videos;
use crate::source::stream::{Item, Pass, Streamed as _};
use crate::source::{
    Annotated, Beton, Buffer, CocoOptions, Column, EncodedImage, Facts, FieldKind, Folder,
    FolderOptions, FrameImage, FrameRows, Frames as _, ImageMode, InMemory, OwnedValue, PTS,
    Record, Source, Tar, TarOptions, TarStream, TfOptions, TfRecords, VIDEO_INDEX, Value,
    VocOptions, YoloOptions, good_in_sequence, masked_crc32c,
};
#[cfg(feature = "mds")]
use crate::source::{Mds, MdsOptions};
#[cfg(feature = "parquet")]
use crate::source::{Parquet, parquet::ArrowTable};
use crate::spec::Spec;
use fuseloop_ops::author::{Dim, ImageType, Layout, Rng, Window};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::{
    BoxFormat, CenterCrop, ColorJitter, Convert, DType, GaussianBlur, Normalize, NumberRule, Ops,
    Pad, RandomHorizontalFlip, RandomInvert, RandomIoUCrop, RandomResizedCrop, RandomVerticalFlip,
    RandomZoomOut, Resize, SanitizeBoundingBoxes, Size, ops,
};
use serde_core::de::IgnoredAny;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Lets the panics pass that are caught and become errors, those of crates that decode files. libFuzzer ends at any.
pub fn pass_caught_panics() {
    let end = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |at| at.file());
        let crates = [
            "/gif-",
            "/heic-rs-",
            "/jxl",
            "/parquet-",
            "/png-",
            "/tiff-",
            "/weezl-",
            "/zune-jpeg-",
        ];
        if !crates.iter().any(|name| file.contains(name)) {
            end(panic);
        }
    }));
}

/// Returns a new folder for the files of an input. It is in memory if the system has a place for that: on a disk, to
/// write files takes several times as long as to read them.
fn input_folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Counts an input, and whether it was a file that opens; prints both counts each time the number of
/// inputs has doubled. For fuzz targets: each is its own process.
pub fn count(is_opened: bool) {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    static TRIED: AtomicU64 = AtomicU64::new(0);
    let opened = OPENED.fetch_add(is_opened.into(), Ordering::Relaxed) + u64::from(is_opened);
    let tried = TRIED.fetch_add(1, Ordering::Relaxed) + 1;
    if tried >= 1024 && tried.is_power_of_two() {
        eprintln!("{opened} of {tried} inputs opened");
    }
}

/// A `.beton` file of any bytes opens or is refused, and every value of one that opens reads
/// or is refused.
pub fn beton(bytes: &[u8]) -> bool {
    let Ok(file) = Beton::from_bytes(bytes, &Limits::SMALL.into()) else { return false };
    let mut buffer = Buffer::default();
    for field in 0..file.fields().len() {
        let _ = file.field_stats(field);
        for sample in file.samples() {
            let _ = file.image_size(sample, field);
            let _ = file.value(sample, field, &mut buffer);
        }
    }
    let _ = file.allocations();
    let _ = file.facts();
    true
}

/// A JPEG of any bytes is decoded or refused, whatever window is wanted. A window that is decoded has
/// the same pixels as in the whole image, if that is decoded too.
///
/// In a damaged file a window may be refused although the whole image is not: where a segment has too
/// few bits, the decoder takes zeros for them, but after the last segment of a window's cut it finds
/// ones. And where our own decoder decodes a window above the damage, zune-jpeg decodes the whole, and
/// computes the chroma of an image's last column and row otherwise: there the pixels are not compared.
pub fn jpeg_window(bytes: &[u8]) -> bool {
    let options = DecodeOptions { exif_orientation: true, limits: Limits::SMALL };
    let mut decoder = Decoder::new(options);
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes };
    let Ok(size) = decoder.size(&image) else { return false };
    let whole = pixels(&mut decoder, &image, size.full());
    let mut core = Decoder::with_backend(JpegBackend::Core, options);
    let is_whole_by_zune = core.decode(&image, size.full()).is_err();
    let mut rng = SampleKey::new(bytes.len() as u64, 0, hash(bytes)).op(0);
    for _ in 0..4 {
        let window = random_window(size, &mut rng);
        let part = pixels(&mut decoder, &image, window);
        let _ = parts::window(&mut decoder, (image.mode, bytes), window);
        let is_by_both = is_whole_by_zune && core.decode(&image, window).is_ok();
        let compared = without_edge(window, size, u32::from(is_by_both));
        if let (Some(part), Some(whole), Some((in_part, in_whole))) = (part, &whole, compared) {
            let part = ImageView::packed(&part, window.size()).and_then(|view| view.crop(in_part));
            let view = ImageView::packed(whole, size).and_then(|view| view.crop(in_whole));
            assert!(part.map(packed) == view.map(packed), "{window:?} of {size}");
        }
    }
    if let Ok(mut opened) = decoder.open_as(&image, ImageReadMode::Gray) {
        let _ = opened.decode(size.full());
    }
    whole.is_some()
}

/// Returns a window of an image.
fn random_window(image: Size, rng: &mut Rng) -> Window {
    let (height, width) = (1 + rng.below(image.height), 1 + rng.below(image.width));
    let top = rng.below(image.height - height + 1);
    let left = rng.below(image.width - width + 1);
    Window { top, left, height, width }
}

/// Returns the pixels of `window` that are at least `edge` from the edge of the image, as a window of
/// `window` and as one of the image; `None` if there are none.
fn without_edge(window: Window, image: Size, edge: u32) -> Option<(Window, Window)> {
    let (top, left) = (window.top.max(edge), window.left.max(edge));
    let bottom = (window.top + window.height).min(image.height - edge);
    let right = (window.left + window.width).min(image.width - edge);
    let (height, width) = (bottom.checked_sub(top)?, right.checked_sub(left)?);
    let in_image = Window { top, left, height, width };
    let in_window = Window { top: top - window.top, left: left - window.left, height, width };
    (height > 0 && width > 0).then_some((in_window, in_image))
}

/// Decodes the pixels of a window; `None` if it is refused.
fn pixels(decoder: &mut Decoder, image: &EncodedImage<'_>, window: Window) -> Option<Vec<u8>> {
    let decoded = decoder.decode(image, window).ok()?;
    Some(packed(decoded.window(window).expect("at least what was asked for")))
}

fn packed(view: ImageView<'_>) -> Vec<u8> {
    (0..view.size().height).flat_map(|y| view.row(y)).copied().collect()
}

/// Returns a number that any byte changes (FNV-1a), as a seed for drawing windows.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A tar file of any bytes opens or is refused. In a file that opens, every value reads or is refused,
/// and reading in sequence returns the same samples as reading in any order, if the fields are the same.
pub fn tar(bytes: &[u8]) -> bool {
    let options = TarOptions::default().limits(Limits::SMALL);
    let stream = TarStream::from_bytes(bytes, &options).ok();
    let streamed = stream.as_ref().and_then(streamed);
    let Ok(tar) = Tar::from_bytes(bytes, &options) else { return false };
    let mut buffer = Buffer::default();
    let mut value = |sample, field| {
        let value = tar.value(sample, field, &mut buffer);
        value.map(OwnedValue::from).map_err(|error| error.to_string())
    };
    let facts = tar.facts();
    let fields = facts.fields.len();
    let placed = (0..facts.samples).map(SampleId);
    let placed: Vec<Result<Record, String>> =
        placed.map(|sample| (0..fields).map(|field| value(sample, field)).collect()).collect();
    // A stream knows the arrays of its first sample alone, and not that those of others have more rows.
    let has_other_fields = stream.is_some_and(|stream| stream.facts().fields != facts.fields);
    assert!(has_other_fields || Some(placed) == streamed, "other samples in sequence");
    let _ = tar.facts();
    true
}

/// Returns the items of a pass over a stream, if the pass reaches its end.
fn streamed(stream: &TarStream) -> Option<Vec<Result<Record, String>>> {
    let mut items = stream.open(&Pass { seed: 0, epoch: Epoch(0), turn: 0 }).ok()?;
    let mut found = vec![];
    while let Some(item) = items.next().ok()? {
        let item: Item = item;
        found.push(item.read().map_err(|error| error.to_string()));
    }
    Some(found)
}

/// Corrects the checksums of a tar file's headers, in all blocks that look like a header.
#[must_use]
pub fn resummed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes
}

/// A pipeline file of any bytes is parsed or refused. The ops of a parsed file are built or refused in
/// any epoch, and planned or refused for an image.
pub fn spec_toml(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(spec) = Spec::parse(text, Path::new("fuzzed.toml")) else { return false };
    let picture = ImageType::decoded(Dim { min: 1, max: 500 }, Dim { min: 1, max: 500 });
    for field in spec.fields() {
        for epoch in [0, 7, u32::MAX] {
            if let Ok(ops) = spec.ops(field, Epoch(epoch)) {
                let _ = ImagePlan::new(ops, picture, NumberRule::Fused);
            }
        }
    }
    true
}

/// A cursor of any bytes is parsed or refused. A parsed cursor is written in at most 512 bytes and
/// parses back to the same cursor. A loader resumes at its position with exactly the rows that are left,
/// or refuses it.
pub fn cursor(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(cursor) = text.parse::<Cursor>() else { return false };
    let written = cursor.to_string();
    assert!(written.len() <= MOST_WRITTEN, "{written}");
    assert_eq!(written.parse::<Cursor>().ok(), Some(cursor));
    let (loader, own) = numbers();
    let _ = loader.resume(&cursor);
    // The same position in a run of this loader.
    let number = |name: &str| {
        let rest = written.split(name).nth(1).unwrap_or_default();
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let (epoch, position) = (number("\"epoch\":"), number("\"position\":"));
    let own = own.replace("\"epoch\":0", &format!("\"epoch\":{epoch}"));
    let own = own.replace("\"position\":0", &format!("\"position\":{position}"));
    let own: Cursor = own.parse().expect("a cursor with other numbers is one");
    let position: u64 = position.parse().expect("a cursor's position is a number");
    let is_between = position.is_multiple_of(BATCH as u64);
    match loader.resume(&own) {
        Ok(batches) => {
            let rows = batches.map(|batch| batch.expect("a number is never damaged").len() as u64);
            assert_eq!(rows.sum::<u64>(), ROWS.saturating_sub(position), "{own}");
            assert!(is_between || position >= ROWS, "{own}");
        }
        Err(error) => assert!(!is_between || position > ROWS, "{own}: {error}"),
    }
    true
}

/// The samples of a loader without images.
const ROWS: u64 = 10;
const BATCH: usize = 2;

/// Returns a loader of ten numbers, and its cursor at the beginning of epoch 0.
fn numbers() -> &'static (Loader, String) {
    static NUMBERS: OnceLock<(Loader, String)> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let source = InMemory::from_fn(Facts::new([("number", FieldKind::Int)], ROWS), |sample| {
            Ok(vec![OwnedValue::Int(i64::try_from(sample.0)?)])
        });
        let builder = Loader::from_source(source).batch_size(BATCH).workers(1);
        let loader = builder.build().expect("numbers need no pipeline");
        let begun = loader.epoch(0).expect("ten rows are no memory");
        let cursor = loader.cursor().expect("an epoch was begun").to_string();
        drop(begun);
        (loader, cursor)
    })
}

/// A JPEG of any bytes is re-cut or left unchanged, and re-cutting a re-cut file returns the same file.
pub fn jpeg_recut(bytes: &[u8]) -> bool {
    let mut recutter = Recutter::new(Tile::Pixels(16), Limits::SMALL);
    match recutter.recut(bytes) {
        Ok(recut) => assert!(recutter.recut(&recut).as_ref() == Ok(&recut), "another file"),
        Err(Unchanged::Panicked { message }) => panic!("{message}"),
        Err(_) => return false,
    }
    true
}

/// A bit-plane image of any bytes is decoded or refused. If the whole image is decoded, each window has the same pixels. A
/// window is the same, decoded or refused, if only the parts that it needs are read.
/// If the JPEG is restored, the whole image is decoded, and the JPEG has its pixels.
pub fn bit_planes(bytes: &[u8]) -> bool {
    let options = DecodeOptions { limits: Limits::SMALL, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(options);
    let image = EncodedImage { mode: ImageMode::BitPlanes, width: 0, height: 0, bytes };
    let Ok(size) = decoder.size(&image) else { return false };
    let whole = pixels(&mut decoder, &image, size.full());
    let mut rng = SampleKey::new(bytes.len() as u64, 0, hash(bytes)).op(0);
    for _ in 0..3 {
        let window = random_window(size, &mut rng);
        let part = pixels(&mut decoder, &image, window);
        let of_parts = parts::window(&mut decoder, (image.mode, bytes), window);
        assert!(of_parts == part, "{window:?} of {size}, in parts");
        if let Some(whole) = &whole {
            let view = ImageView::packed(whole, size).and_then(|view| view.crop(window));
            assert!(part == view.map(packed), "{window:?} of {size}");
        }
    }
    if let Ok(mut opened) = decoder.open_as(&image, ImageReadMode::Gray) {
        let _ = opened.decode(size.full());
    }
    if let Ok(jpeg) = BitPlaneCodec::new(Limits::SMALL).unpack(bytes) {
        let image = EncodedImage { mode: ImageMode::Jpeg, bytes: &jpeg, ..image };
        let mut core = Decoder::with_backend(JpegBackend::Core, options);
        let of_jpeg = pixels(&mut core, &image, size.full());
        assert!(whole.is_some(), "a JPEG of a damaged image");
        assert!(of_jpeg.is_none() || of_jpeg == whole, "other pixels than the JPEG's");
    }
    whole.is_some()
}

/// Corrects the checksums of a bit-plane image, as far as its lengths lead.
#[must_use]
pub fn resealed(bytes: &[u8]) -> Vec<u8> {
    decode::resealed(bytes)
}

/// A PNG of any bytes is decoded or refused, and a window of it has the same pixels as in the whole
/// image, whatever they are read as.
pub fn png(bytes: &[u8]) -> bool {
    holds_as(ImageMode::Png, bytes)
}

/// A WebP of any bytes is decoded or refused, and its windows are those of the whole image.
pub fn webp(bytes: &[u8]) -> bool {
    holds_as(ImageMode::Webp, bytes)
}

/// A BMP, a GIF or a PNM of any bytes is decoded or refused, and so is a JPEG XL or a HEIC in builds that read them. Its
/// windows are those of the whole image. The first bytes tell the format.
pub fn still(bytes: &[u8]) -> bool {
    let mode = ImageMode::of_file(bytes);
    mode.is_other_file() && holds_as(mode, bytes)
}

/// A TIFF of any bytes is decoded or refused, as an image and as an array, and its windows are those of the whole
/// image.
pub fn tiff(bytes: &[u8]) -> bool {
    #[cfg(feature = "tiff")]
    let _ = crate::source::TiffFile::array(bytes, Limits::SMALL.max_sample_bytes);
    holds_as(ImageMode::Tiff, bytes)
}

/// An audio file of any bytes is decoded or refused, its windows are those of the whole signal, resampled or not, and a file
/// without damage is decoded.
#[cfg(feature = "audio")]
pub fn audio(bytes: &[u8]) -> bool {
    let options = DecodeOptions { limits: Limits::SMALL, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(options);
    // The goldens have these rates.
    let rates = [8_000, 16_000, 44_100].map(AudioOptions::new);
    let holds = rates.map(|options| audio_holds(&mut decoder, bytes, options)).contains(&true);
    // Damage may lie behind the last sample of a file that is decoded.
    let is_intact = decoder.check_audio(bytes).is_ok();
    let opens = rates.iter().any(|options| decoder.open_audio(bytes, *options).is_ok());
    assert!(holds || !(is_intact && opens), "a file without damage is not decoded");
    audio_holds(&mut decoder, bytes, AudioOptions::new(11_025).resample(true));
    holds
}

#[cfg(feature = "audio")]
fn audio_holds(decoder: &mut Decoder, bytes: &[u8], options: AudioOptions) -> bool {
    let Ok(opened) = decoder.open_audio(bytes, options) else { return false };
    let size = opened.size();
    let mut read = |window: Window| {
        let mut opened = decoder.open_audio(bytes, options).ok()?;
        Some(packed(opened.decode(window).ok()?.window(window).expect("as asked for")))
    };
    let Some(whole) = read(size.full()) else { return false };
    let (left, width) = (size.width / 2, size.width.div_ceil(3));
    let (left, end) = (left as usize * 4, (left + width) as usize * 4);
    let window = Window { left: size.width / 2, width, ..size.full() };
    assert!(read(window).as_deref() == whole.get(left..end), "{window:?} of {size}");
    true
}

/// Checks an image of a format in every mode.
fn holds_as(mode: ImageMode, bytes: &[u8]) -> bool {
    let options = DecodeOptions { limits: Limits::SMALL, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(options);
    let image = EncodedImage { mode, width: 0, height: 0, bytes };
    let Ok(size) = decoder.size(&image) else { return false };
    let Some(whole) = pixels(&mut decoder, &image, size.full()) else { return false };
    let (top, left) = (size.height / 3, size.width / 2);
    let window = Window { top, left, height: size.height - top, width: size.width - left };
    let view = ImageView::packed(&whole, size).and_then(|view| view.crop(window));
    assert!(pixels(&mut decoder, &image, window) == view.map(packed), "{window:?} of {size}");
    for mode in
        [ImageReadMode::Gray, ImageReadMode::Gray16, ImageReadMode::RgbAlpha, ImageReadMode::Index]
    {
        let mut read = |window: Window| {
            let mut opened = decoder.open_as(&image, mode).ok()?;
            Some(packed(opened.decode(window).ok()?.window(window).expect("as asked for")))
        };
        let (Some(whole), part) = (read(size.full()), read(window)) else { continue };
        let cut = mode.view(&whole, size).and_then(|view| view.crop(window)).map(packed);
        assert!(part == cut, "{window:?} of {size}, read as {mode:?}");
    }
    true
}

/// An image of any shape, type, length and stride is transformed or refused, and so are targets of any bytes. Rows with gaps
/// become what the same rows without gaps do, and planes the planes of it.
///
/// The first 16 bytes say how the others are taken:
///
/// | byte | meaning |
/// |---|---|
/// | 0 | the list of ops |
/// | 1 | pixels without gaps, rows with gaps, planes, one plane, or the bytes of a file |
/// | 2 | the type of the elements |
/// | 3 | the number of bytes that are missing or too many, if it is less than 32 |
/// | 4, 6, 8, 10 | the height, the width, the channels, and the bytes between rows |
/// | 12 | how many of the bytes are boxes |
/// | 14 | whether there are boxes, labels, masks of objects, and a mask; whether those of objects are JSON |
pub fn transform(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk::<16>() else { return false };
    let number = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let side = |at, most| match number(at) {
        huge @ 0xf800.. => huge << (huge % 49),
        number => number % most,
    };
    let [height, width] = [4, 6].map(|at| side(at, 40));
    let (channels, gap) = (side(8, 6), side(10, 100));
    let types =
        [DType::U8, DType::U16, DType::I16, DType::F16, DType::Bf16, DType::F32, DType::I64];
    let dtype = types[usize::from(head[2]) % types.len()];
    let row = width.saturating_mul(channels).saturating_mul(dtype.bytes());
    let wrong = |len: usize| match head[3] {
        n @ 0..16 => len.saturating_add(n.into()),
        n @ 16..32 => len.saturating_sub(n.into()),
        _ => len,
    };
    let pixels =
        |len: usize| -> Vec<u8> { rest.iter().copied().cycle().take(len.min(1 << 18)).collect() };
    let packed = pixels(wrong(row.saturating_mul(height)));
    let (axes, key) = ((height, width, channels), Key::new(head[0].into(), 0, head[15].into()));
    let list = &transforms()[usize::from(head[0]) % transforms().len()];
    let image = match head[1] % 5 {
        0 => Image::packed(dtype, &packed, axes, Layout::ChannelsLast),
        1 => return of_rows(list, dtype, (axes, row.saturating_add(gap)), &packed, key),
        2 => return of_planes(list, dtype, axes, &packed, key),
        3 => Image::packed(dtype, &packed, (height, width, 1), Layout::Plane),
        _ => Ok(Image::encoded(rest)),
    };
    let Ok(image) = image else { return false };
    let boxes = &rest[..number(12).min(rest.len())];
    let mask = pixels(height.saturating_mul(width));
    let mask = Image::packed(DType::U8, &mask, (height, width, 1), Layout::Plane);
    let text = String::from_utf8_lossy(rest);
    let mut values = vec![
        ("boxes", TargetValue::Bytes(boxes)),
        ("labels", TargetValue::Bytes(rest)),
        ("masks", if head[14] < 128 { TargetValue::Json(&text) } else { TargetValue::Masks(rest) }),
    ];
    values.extend(mask.ok().map(|mask| ("mask", TargetValue::Mask(mask))));
    let mut bits = (0..).map(|bit| head[14] >> bit & 1 == 1);
    values.retain(|_| bits.next() == Some(true));
    if let Ok(out) = list.apply_with(&image, &values, key) {
        for (name, _) in values.iter().filter(|(name, _)| *name != "mask") {
            let rows = out.target(name).map(|target| target.shape()[0]);
            assert_eq!(rows, Some(out.objects().len()), "{name}");
        }
    }
    list.apply(&image, key).is_ok()
}

/// Checks that rows with gaps become what the same rows without gaps do.
fn of_rows(
    list: &Transform,
    dtype: DType,
    ((height, width, channels), stride): ((usize, usize, usize), usize),
    packed: &[u8],
    key: Key,
) -> bool {
    let row = width.saturating_mul(channels).saturating_mul(dtype.bytes());
    let mut apart = vec![];
    for row in packed.chunks(row.max(1)).take(1 << 10) {
        apart.extend(row);
        apart.resize(apart.len() + stride.saturating_sub(row.len()).min(1 << 8), 0xaa);
    }
    let Ok(image) = Image::of_rows(dtype, &apart, [height, width, channels], stride) else {
        return false;
    };
    let found = list.apply(&image, key);
    let packed = packed.get(..row * height).map(|packed| {
        Image::packed(dtype, packed, (height, width, channels), Layout::ChannelsLast)
    });
    if let Some(Ok(packed)) = packed {
        assert!(found.as_ref().ok() == list.apply(&packed, key).as_ref().ok(), "{stride}");
    }
    found.is_ok()
}

/// Checks that planes become the planes of what the same pixels with their channels last do.
fn of_planes(
    list: &Transform,
    dtype: DType,
    (height, width, channels): (usize, usize, usize),
    planes: &[u8],
    key: Key,
) -> bool {
    let axes = (height, width, channels);
    let Ok(image) = Image::packed(dtype, planes, axes, Layout::ChannelsFirst) else { return false };
    let (found, plane) = (list.apply(&image, key), height * width);
    let last = interleaved(planes, channels, plane, dtype.bytes());
    let last = Image::packed(dtype, &last, axes, Layout::ChannelsLast).expect("as many bytes");
    // Some ops take one order of the axes only.
    if let (Ok(found), Ok(last)) = (&found, list.apply(&last, key)) {
        let &[channels, height, width] = found.shape() else { panic!("planes became {found:?}") };
        assert_eq!(last.shape(), [height, width, channels]);
        let item = found.dtype().bytes();
        let planes = interleaved(found.as_bytes(), channels, height * width, item);
        assert!(planes == last.as_bytes(), "{found:?}");
    }
    found.is_ok()
}

/// Returns planes of elements of `item` bytes as pixels.
fn interleaved(planes: &[u8], channels: usize, plane: usize, item: usize) -> Vec<u8> {
    let element =
        |pixel: usize, channel: usize| &planes[(channel * plane + pixel) * item..][..item];
    (0..plane)
        .flat_map(|pixel| (0..channels).flat_map(move |c| element(pixel, c)))
        .copied()
        .collect()
}

/// Returns the transforms that the check of one calls.
fn transforms() -> &'static [Transform] {
    static TRANSFORMS: OnceLock<Vec<Transform>> = OnceLock::new();
    let make = |list: Ops| {
        let targets = Targets::new()
            .boxes("boxes", BoxFormat::Xyxy)
            .column("labels", DType::I64)
            .instance_masks("masks")
            .mask("mask", 255);
        Transform::new(list)?.limits(Limits::SMALL).targets(&targets)
    };
    let lists = || -> Result<Vec<Transform>, Box<dyn std::error::Error>> {
        Ok(vec![
            make(ops![
                RandomResizedCrop::new(9)?,
                RandomHorizontalFlip::new(0.5)?,
                ColorJitter::new(0.4, 0.4, 0.4)?,
                Normalize::imagenet(),
            ])?,
            make(ops![RandomHorizontalFlip::new(0.5)?, RandomVerticalFlip::new(0.5)?])?,
            make(ops![Resize::new((11, 9))?, GaussianBlur::new(3)?, Convert::to(DType::F32)])?,
            make(ops![Pad::new(2)?, CenterCrop::new(12)?, RandomInvert::new(0.5)?])?,
            make(ops![
                RandomZoomOut::new(),
                RandomIoUCrop::new(),
                Resize::new((12, 12))?,
                SanitizeBoundingBoxes::new(),
            ])?,
            make(ops![])?,
        ])
    };
    TRANSFORMS.get_or_init(|| lists().expect("lists of valid ops"))
}

/// Corrects the checksums of a PNG's chunks, as far as the chunks' lengths lead.
#[must_use]
pub fn rechecked(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut rest = bytes.get_mut(8..).unwrap_or_default();
    // A chunk: 4 bytes of length, 4 bytes of kind, the data, and the CRC of kind and data.
    while let Some((length, after)) = rest.split_first_chunk_mut::<4>() {
        let checked = (u32::from_be_bytes(*length) as usize).saturating_add(4);
        let Some((data, after)) = after.split_at_mut_checked(checked) else { break };
        let Some((crc, after)) = after.split_first_chunk_mut::<4>() else { break };
        let mut sum = flate2::Crc::new();
        sum.update(data);
        *crc = sum.sum().to_be_bytes();
        rest = after;
    }
    bytes
}

/// A TFRecord file of any bytes opens or is refused. In a file that opens, every record reads or returns
/// an error, and no more records are good than messages when read in sequence.
pub fn tfrecord(bytes: &[u8]) -> bool {
    let in_sequence = good_in_sequence(bytes, Limits::SMALL);
    let Ok(records) = TfRecords::from_bytes(bytes, &TfOptions::default().limits(Limits::SMALL))
    else {
        return false;
    };
    let mut buffer = Buffer::default();
    let mut good = 0;
    for sample in (0..records.facts().samples).map(SampleId) {
        let is_good = |field| records.value(sample, field, &mut buffer).is_ok();
        let fields = records.facts().fields.len();
        let all = (0..fields).map(is_good).filter(|good| *good).count();
        assert!(all == 0 || all == fields, "some fields of {sample}");
        good += u64::from(all > 0);
    }
    // A message may be good and lack features of the first message.
    assert!(good <= in_sequence, "{good} records, {in_sequence} in sequence");
    true
}

/// An index of MDS shards and a shard of any bytes open or are refused. In a dataset that opens, every value reads or is
/// refused, and a record has the values of its fields.
#[cfg(feature = "mds")]
pub fn mds(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (index, shard) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let options = MdsOptions::default().limits(Limits::SMALL).cache_bytes(4 << 20);
    let Ok(mds) = Mds::from_bytes(index, shard, &options) else { return false };
    let (facts, mut buffer) = (mds.facts(), Buffer::default());
    for sample in (0..facts.samples).map(SampleId) {
        let record = mds.read(sample).ok();
        for field in 0..facts.fields.len() {
            let value = mds.value(sample, field, &mut buffer).ok().map(OwnedValue::from);
            // They are compared as texts, since NaN is not equal to itself.
            let same = |record: &Record| {
                format!("{:?}", record.get(field)) == format!("{:?}", value.as_ref())
            };
            assert!(record.as_ref().is_none_or(same), "another value in the record");
            if let (Some(OwnedValue::Bytes(found)), Some(longest)) = (value, facts.longest(field)) {
                assert!(found.len() as u64 <= longest, "{longest} bytes at most");
            }
        }
    }
    true
}

/// The `info.json` of a LeRobot dataset and, after a NUL, a Parquet file of its episodes are read or refused. The paths of its
/// files stay inside of the dataset.
pub fn lerobot(bytes: &[u8]) -> bool {
    #[cfg(all(feature = "parquet", feature = "video"))]
    {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let (info, episodes) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
        let Ok(folder) = input_folder() else { return false };
        let chunk = folder.path().join("meta/episodes/chunk-000");
        let written = std::fs::create_dir_all(&chunk)
            .and_then(|()| std::fs::write(chunk.join("file-000.parquet"), episodes));
        if written.is_err() {
            return false;
        }
        let Ok(files) = files_of_episodes(info, folder.path(), &Limits::SMALL) else {
            return false;
        };
        for file in files {
            let is_inside = |part| matches!(part, std::path::Component::Normal(_));
            assert!(file.components().all(is_inside), "{file:?}");
        }
        true
    }
    #[cfg(not(all(feature = "parquet", feature = "video")))]
    {
        let _ = bytes;
        false
    }
}

/// Rows of a clip store, of 9 bytes each, are grouped to videos or refused. Every row is a frame of one video, and the times
/// of a video ascend.
pub fn clip_store(bytes: &[u8]) -> bool {
    let rows: Vec<&[u8; 9]> = bytes.as_chunks().0.iter().take(64).collect();
    let count = rows.len();
    let videos = rows.iter().map(|row| i64::from(row[0].cast_signed()));
    let times = rows.iter().map(|row| {
        let [_, time @ ..] = row;
        f64::from_le_bytes(*time)
    });
    let columns = [
        ("image", Column::rgb(1, vec![0; 3 * count])),
        (VIDEO_INDEX, Column::ints(videos)),
        (PTS, Column::floats(times)),
    ];
    let Ok(rows) = InMemory::new(columns) else { return false };
    let Ok(store) = FrameRows::new(Arc::new(rows), 0, 25.0) else { return false };
    let mut frames = 0;
    let videos = store.facts().samples;
    for video in (0..videos).map(SampleId) {
        let times = store.times(video).expect("the times were read before");
        let all: Vec<u32> = (0..times.count()).collect();
        assert!(!all.is_empty() && all.is_sorted_by(|a, b| times.time(*a) <= times.time(*b)));
        let mut taken = vec![];
        let mut take = |frame: u32, _: FrameImage<'_>| {
            taken.push(frame);
            Ok(())
        };
        let read = store.read_frames(video, &all, &mut Buffer::default(), &mut take);
        assert!(read.is_ok() && taken == all);
        for seconds in [f64::MIN, -1.0, times.time(0), times.end(), f64::MAX, f64::NAN] {
            assert!(times.frame_at(seconds) < times.count());
        }
        frames += all.len();
    }
    assert_eq!(frames, count);
    assert!(store.times(SampleId(videos)).is_err());
    true
}

/// A table of saved indexes of videos, and the indexes, are read or refused. The first 4 bytes are the length of the table;
/// its checksum is put right.
pub fn saved_videos(bytes: &[u8]) -> bool {
    #[cfg(feature = "video")]
    {
        let Some((size, rest)) = bytes.split_first_chunk() else { return false };
        let (table, indexes) = rest.split_at((u32::from_le_bytes(*size) as usize).min(rest.len()));
        let Ok(folder) = input_folder() else { return false };
        read_saved_videos((table, indexes), &folder.path().join("videos.fidx"))
            .is_ok_and(|found| found)
    }
    #[cfg(not(feature = "video"))]
    {
        let _ = bytes;
        false
    }
}

/// A joined index is read or refused, and its samples lie within their shards. The first 4 bytes are the length of its
/// directory, which follows; then come the pages. All checksums are put right.
pub fn joined_index(bytes: &[u8]) -> bool {
    let Some((size, rest)) = bytes.split_first_chunk() else { return false };
    let size = (u32::from_le_bytes(*size) as usize).min(rest.len());
    let (directory, pages) = rest.split_at(size);
    read_joined(directory, pages, &Limits::SMALL)
}

/// Answers of the Hugging Face Hub of any bytes are read or refused. Paths of files stay inside of their dataset, and the
/// next page is on the same server.
pub fn hub(bytes: &[u8]) -> bool {
    let split = bytes.iter().position(|&byte| byte == 0);
    let (link, page) = split.map_or((&[][..], bytes), |at| (&bytes[..at], &bytes[at + 1..]));
    let server = "https://hub.example/api/datasets/a/b/tree/main?recursive=true";
    if let Ok(Some(next)) = hub_api::next_page(&String::from_utf8_lossy(link), server) {
        assert!(next.starts_with("https://hub.example/"), "{next}");
    }
    let _ = hub_api::commit_of(page);
    let Ok(files) = hub_api::files_of(page) else { return false };
    for file in &files {
        let is_inside = |part| matches!(part, std::path::Component::Normal(_));
        assert!(Path::new(file).components().all(is_inside), "{file:?}");
    }
    true
}

/// A Parquet file of any bytes opens or is refused. In a file that opens, every value reads or returns an error.
pub fn parquet(bytes: &[u8]) -> bool {
    #[cfg(feature = "parquet")]
    {
        let Ok(source) = Parquet::from_bytes(bytes, &Limits::SMALL) else { return false };
        read_all(&source);
        true
    }
    #[cfg(not(feature = "parquet"))]
    {
        let _ = bytes;
        false
    }
}

/// Columns of Arrow whose buffers are any bytes open or are refused; every value reads or returns an error.
pub fn arrow(bytes: &[u8]) -> bool {
    #[cfg(feature = "parquet")]
    {
        let Ok(source) = ArrowTable::from_bytes(bytes) else { return false };
        read_all(&source);
        true
    }
    #[cfg(not(feature = "parquet"))]
    {
        let _ = bytes;
        false
    }
}

#[cfg(feature = "parquet")]
fn read_all(source: &dyn Source) {
    let mut buffer = Buffer::default();
    for sample in (0..source.facts().samples.min(256)).map(SampleId) {
        for field in 0..source.facts().fields.len() {
            let _ = source.value(sample, field, &mut buffer);
            let _ = source.locate(sample, field);
        }
    }
}

/// Corrects the checksums of a TFRecord file's frames, as far as the frames' lengths lead. A file that
/// begins as gzip or zlib stays unchanged.
#[must_use]
pub fn reframed(bytes: &[u8]) -> Vec<u8> {
    let is_packed = matches!(bytes, [0x1f, 0x8b, ..] | [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
    let mut bytes = bytes.to_vec();
    if is_packed {
        return bytes;
    }
    let mut rest = &mut bytes[..];
    while let Some((length, after)) = rest.split_first_chunk_mut::<8>() {
        let Some((length_crc, after)) = after.split_first_chunk_mut::<4>() else { break };
        *length_crc = masked_crc32c(length).to_le_bytes();
        let len = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((data, after)) = after.split_at_mut_checked(len) else { break };
        let Some((crc, after)) = after.split_first_chunk_mut::<4>() else { break };
        *crc = masked_crc32c(data).to_le_bytes();
        rest = after;
    }
    bytes
}

/// A table of any bytes, called `.csv`, `.tsv` or `.jsonl`, opens as a folder or is refused, and so does
/// a listing.
pub fn folder(bytes: &[u8]) -> bool {
    let Ok(dir) = input_folder() else { return false };
    let options = FolderOptions::default().limits(Limits::SMALL);
    let mut is_opened = false;
    for name in ["a.csv", "a.tsv", "a.jsonl"] {
        let path = dir.path().join(name);
        if std::fs::write(&path, bytes).is_err() {
            return false;
        }
        let Ok(folder) = Folder::list(&path, &options) else { continue };
        is_opened = true;
        for sample in (0..folder.len()).map(SampleId) {
            assert!(folder.locate(sample, 0).is_some());
            let _ = folder.read(sample);
        }
        let _ = folder.read(SampleId(0));
    }
    let listed = options.listing(dir.path().join("a.csv"));
    let _ = Folder::open(dir.path(), &listed);
    is_opened
}

/// Files of MNIST and CIFAR of any bytes open or are refused, and every value of one that opens reads or is refused.
pub fn fixed_length(bytes: &[u8]) -> bool {
    let Ok(dir) = input_folder() else { return false };
    // There are as many labels as the header counts images, so that the files belong together.
    let count =
        bytes.get(4..8).and_then(|count| count.try_into().ok()).map_or(0, u32::from_be_bytes);
    let labels: Vec<u8> = (0..count.min(1000)).map(|label| (label % 10) as u8).collect();
    let header = [[0, 0, 8, 1], count.to_be_bytes()].concat();
    let labels = [header, labels].concat();
    let options = FolderOptions::default().limits(Limits::SMALL);
    let mut is_opened = false;
    for (images, of_labels) in [
        ("train-images-idx3-ubyte", Some("train-labels-idx1-ubyte")),
        ("train-images-idx3-ubyte.gz", Some("train-labels-idx1-ubyte")),
        ("test_batch.bin", None),
    ] {
        let folder = dir.path().join(format!("of {images}"));
        let written = std::fs::create_dir(&folder)
            .and_then(|()| std::fs::write(folder.join(images), bytes))
            .and_then(|()| {
                of_labels.map_or(Ok(()), |name| std::fs::write(folder.join(name), &labels))
            });
        if written.is_err() {
            return false;
        }
        let Ok(dataset) = open_dataset(&folder.join(images), &options) else { continue };
        let Some(source) = dataset.source() else { continue };
        is_opened = true;
        let mut buffer = Buffer::default();
        for sample in (0..source.len().min(100)).map(SampleId) {
            for field in 0..source.fields().len() {
                let _ = source.value(sample, field, &mut buffer);
            }
            let _ = source.read(sample);
        }
    }
    is_opened
}

/// Annotations of any bytes open or are refused. Every value of those that open has a row for each object, and their
/// masks are drawn or refused.
pub fn coco(bytes: &[u8]) -> bool {
    let Ok(dir) = input_folder() else { return false };
    let path = dir.path().join("annotations.json");
    if std::fs::write(&path, bytes).is_err() {
        return false;
    }
    let options = CocoOptions::default().limits(Limits::SMALL);
    Annotated::coco(dir.path(), &path, &options).is_ok_and(|source| check_objects(&source))
}

/// A file in Pascal VOC's format, of any bytes, opens or is refused. Every value of one that opens has a row for each
/// object.
pub fn voc(bytes: &[u8]) -> bool {
    let Ok(dir) = input_folder() else { return false };
    for (name, bytes) in [("1.jpg", &[][..]), ("1.xml", bytes)] {
        if std::fs::write(dir.path().join(name), bytes).is_err() {
            return false;
        }
    }
    let options = VocOptions::default().limits(Limits::SMALL);
    Annotated::voc(dir.path(), &options).is_ok_and(|source| check_objects(&source))
}

/// Labels of an image in YOLO's format and a description of the dataset, of any bytes, open or are refused. Every value
/// of those that open has a row for each object, and their masks are drawn or refused.
pub fn yolo(bytes: &[u8]) -> bool {
    /// A white pixel.
    const PNG: &[u8] = include_bytes!("fuzzing/pixel.png");
    let Ok(dir) = input_folder() else { return false };
    let split = bytes.iter().position(|&byte| byte == 0);
    let (labels, data) = split.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 1..]));
    for (name, bytes) in [("1.png", PNG), ("1.txt", labels), ("data.yaml", data)] {
        if std::fs::write(dir.path().join(name), bytes).is_err() {
            return false;
        }
    }
    let options = YoloOptions::default().limits(Limits::SMALL);
    Annotated::yolo(dir.path(), &options).is_ok_and(|source| check_objects(&source))
}

/// Checks that every value but the images has a row for each object, or that all values of a sample are damaged;
/// always returns true.
fn check_objects(source: &Annotated) -> bool {
    let (mut buffer, mut objects, mut all_whole) = (Buffer::default(), 0, true);
    let facts = source.facts();
    for sample in (0..facts.samples).map(SampleId) {
        let (mut rows, mut damaged) = (vec![], 0);
        for (field, spec) in facts.fields.iter().enumerate().skip(1) {
            let longest = facts.longest(field);
            match source.value(sample, field, &mut buffer) {
                Ok(Value::Bytes(bytes)) => {
                    assert!(longest >= Some(bytes.len() as u64), "{}", spec.name);
                    match &*spec.name {
                        "bbox" => rows.push(bytes.len() / 16),
                        "area" => rows.push(bytes.len() / 4),
                        "keypoints" => {}
                        _ => rows.push(bytes.len() / 8),
                    }
                }
                Ok(Value::Json(text)) => {
                    assert!(longest >= Some(text.len() as u64), "{}", spec.name);
                    let list = text.strip_suffix(b"\0").expect("a text ends with a NUL");
                    rows.push(masks_of(list));
                }
                Ok(_) => {}
                // Lists of masks have a limit.
                Err(_) if spec.name == "segmentation" => {}
                Err(_) => damaged += 1,
            }
        }
        assert!(rows.is_empty() || damaged == 0, "{rows:?}, {damaged} damaged");
        assert!(rows.windows(2).all(|pair| pair[0] == pair[1]), "{rows:?}");
        objects += rows.first().map_or(0, |&rows| rows as u64);
        all_whole &= damaged == 0;
    }
    assert!(!all_whole || objects == source.objects(), "{objects} of {}", source.objects());
    true
}

/// Draws the masks of a list, and returns how many values the list has.
fn masks_of(list: &[u8]) -> usize {
    let Ok(values) = serde_json::from_slice::<Vec<serde_json::Value>>(list) else {
        // A string may have half of a surrogate pair: it is valid JSON, and is not text.
        let values: Vec<IgnoredAny> = serde_json::from_slice(list).expect("a list of JSON");
        return values.len();
    };
    let size = Size::new(7, 9);
    for value in &values {
        let Ok(mask) = ObjectMask::parse(value.to_string().as_bytes()) else { continue };
        let mut pixels = [9; 63];
        let Ok(()) = mask.fill(size, &mut pixels) else { continue };
        let area: u64 = pixels.iter().map(|&pixel| u64::from(pixel)).sum();
        assert_eq!(mask.area(size).expect("a mask that is drawn has an area"), area);
        let json = mask.to_rle_json(size).expect("a mask that is drawn has runs");
        let again = ObjectMask::parse(json.as_bytes()).expect("runs that were written are read");
        let mut same = [9; 63];
        again.fill(size, &mut same).expect("runs of this size");
        assert_eq!(pixels, same);
    }
    values.len()
}

#[cfg(test)]
mod tests {
    use super::generate::{self, InputGenerator};
    use super::*;
    use arbitrary::Unstructured;
    use fuseloop_counts::rounds;

    /// Corrects checksums.
    type Repair = fn(&[u8]) -> Vec<u8>;

    /// Runs a check on inputs made from random bytes. There are 3,000 of them, or `FUSELOOP_FUZZ_INPUTS`,
    /// the same in every run; or new ones for `FUSELOOP_FUZZ_SECONDS`, and for `max_seconds` at most.
    fn for_inputs(
        max_seconds: u64,
        mut check: impl FnMut(&mut Unstructured<'_>) -> arbitrary::Result<()>,
    ) {
        let seconds: u64 = rounds("FUSELOOP_FUZZ_SECONDS");
        if seconds > 0 {
            return arbtest::arbtest(check).budget_ms(1000 * seconds.min(max_seconds)).run();
        }
        for n in 0..rounds("FUSELOOP_FUZZ_INPUTS") {
            // The lower half of a seed is the number of random bytes.
            arbtest::arbtest(&mut check).seed(n << 32 | 64 << (n % 8)).run();
        }
    }

    /// Runs a check on a generator's inputs. An input is a valid file with up to three mutations, mostly
    /// with corrected checksums. At least a fifth of them must open.
    fn assert_holds(
        name: &str,
        mut generator: InputGenerator,
        repair: Option<Repair>,
        check: fn(&[u8]) -> bool,
    ) {
        let (mut opened, mut tried) = (0_u64, 0_u64);
        for_inputs(u64::MAX / 1000, |u| {
            let mut bytes = generator(u)?;
            if let Some(repair) = repair
                && u.ratio(3, 4)?
            {
                bytes = repair(&bytes);
            }
            opened += u64::from(check(&bytes));
            tried += 1;
            Ok(())
        });
        println!("{name}: {opened} of {tried} inputs opened");
        assert!(5 * opened >= tried, "{name}: {opened} of {tried}: most inputs test nothing");
    }

    /// Runs a check on any bytes. Hardly any of them are files, so this checks that such bytes are
    /// refused.
    fn assert_refuses(check: fn(&[u8]) -> bool) {
        for_inputs(1, |u| {
            check(&u.arbitrary::<Vec<u8>>()?);
            Ok(())
        });
    }

    #[test]
    fn beton_holds() {
        assert_refuses(beton);
        assert_holds("beton", generate::beton(), None, beton);
    }

    #[test]
    fn tar_holds() {
        assert_refuses(tar);
        assert_holds("tar", generate::tar(), Some(resummed), tar);
    }

    #[test]
    fn tfrecord_holds() {
        assert_refuses(tfrecord);
        assert_holds("tfrecord", generate::tfrecord(), Some(reframed), tfrecord);
    }

    #[cfg(feature = "mds")]
    #[test]
    fn mds_holds() {
        assert_refuses(mds);
        assert_holds("mds", generate::mds(), None, mds);
    }

    #[test]
    fn folder_holds() {
        assert_refuses(folder);
        assert_holds("folder", generate::table(), None, folder);
    }

    #[test]
    fn fixed_length_holds() {
        assert_refuses(fixed_length);
        assert_holds("fixed_length", generate::fixed_length(), None, fixed_length);
    }

    #[test]
    fn coco_holds() {
        assert_refuses(coco);
        assert_holds("coco", generate::coco(), None, coco);
    }

    #[test]
    fn voc_holds() {
        assert_refuses(voc);
        assert_holds("voc", generate::voc(), None, voc);
    }

    #[test]
    fn yolo_holds() {
        assert_refuses(yolo);
        assert_holds("yolo", generate::yolo(), None, yolo);
    }

    #[cfg(all(feature = "parquet", feature = "video"))]
    #[test]
    fn lerobot_holds() {
        assert_refuses(lerobot);
        assert_holds("lerobot", generate::lerobot(), None, lerobot);
    }

    #[test]
    fn clip_store_holds() {
        assert_refuses(clip_store);
        assert_holds("clip_store", generate::clip_store(), None, clip_store);
    }

    #[cfg(feature = "video")]
    #[test]
    fn saved_videos_hold() {
        assert_refuses(saved_videos);
        assert_holds("saved_videos", generate::saved_videos(), None, saved_videos);
    }

    #[test]
    fn joined_index_holds() {
        assert_refuses(joined_index);
        // The first input of `scripts/fuzz.sh`.
        let directory =
            b"\x1b\0\0\0\x01\x03jpg\x01\x01a\x01\x80\x20\0\0\0\0\x02\x07\0\0\0\0\x1b\x01\0\0\x03\0";
        let pages = b"\x17\0\0\0\0\0\0\0\x01\0\0\0\x09\0\0\0\x06\0\x01\x01k\0\x01\x01\0\0\x02";
        assert!(joined_index(&[&directory[..], pages].concat()));
        assert_holds("joined_index", generate::joined_index(), None, joined_index);
    }

    #[test]
    fn hub_holds() {
        assert_refuses(hub);
        assert_holds("hub", generate::hub(), None, hub);
    }

    #[test]
    fn jpeg_window_holds() {
        assert_refuses(jpeg_window);
        assert_holds("jpeg_window", generate::jpeg(), None, jpeg_window);
    }

    #[test]
    fn jpeg_recut_holds() {
        assert_refuses(jpeg_recut);
        assert_holds("jpeg_recut", generate::jpeg(), None, jpeg_recut);
    }

    #[test]
    fn bit_planes_hold() {
        assert_refuses(bit_planes);
        assert_holds("bit_planes", generate::bit_planes(), Some(resealed), bit_planes);
    }

    #[test]
    fn png_holds() {
        assert_refuses(png);
        assert_holds("png", generate::png(), Some(rechecked), png);
    }

    #[cfg(feature = "webp")]
    #[test]
    fn webp_holds() {
        assert_refuses(webp);
        assert_holds("webp", generate::webp(), None, webp);
    }

    #[test]
    fn still_holds() {
        assert_refuses(still);
        assert_holds("still", generate::still(), None, still);
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_holds() {
        assert_refuses(parquet);
        assert_holds("parquet", generate::parquet(), None, parquet);
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn arrow_holds() {
        assert_refuses(arrow);
        assert_holds("arrow", generate::arrow(), None, arrow);
    }

    #[cfg(feature = "tiff")]
    #[test]
    fn tiff_holds() {
        assert_refuses(tiff);
        assert_holds("tiff", generate::tiff(), None, tiff);
    }

    #[cfg(feature = "audio")]
    #[test]
    fn audio_holds() {
        assert_refuses(audio);
        assert_holds("audio", generate::audio(), None, audio);
    }

    #[test]
    fn transform_holds() {
        assert_refuses(transform);
        assert_holds("transform", generate::transform(), None, transform);
    }

    #[test]
    fn spec_toml_holds() {
        assert_refuses(spec_toml);
        assert_holds("spec", generate::spec(), None, spec_toml);
    }

    #[test]
    fn cursor_holds() {
        assert_refuses(cursor);
        assert_holds("cursor", generate::cursor(), None, cursor);
    }

    /// Correct checksums stay unchanged, and wrong ones are corrected.
    #[test]
    fn checksums_are_put_right() {
        let repairs: [(&str, &str, Repair, usize); 4] = [
            ("webdataset", "tar", resummed, 150),
            ("tfrecord", "tfrecord", reframed, 9),
            ("png", "png", rechecked, 30),
            ("bit_planes", "fplanes", resealed, 9),
        ];
        for (folder, kind, repair, at) in repairs {
            let mut repaired = 0;
            for bytes in generate::goldens(folder, kind) {
                assert!(repair(&bytes) == bytes, "{folder}");
                let mut wrong = bytes.clone();
                wrong[at] ^= 1;
                repaired += usize::from(repair(&wrong) == bytes);
            }
            // Compressed files have no frames.
            assert!(repaired > 1, "{folder}: {repaired}");
        }
    }

    /// Mutations change something, and generators return more than one file.
    #[test]
    fn generators_make_many_files() {
        let generators: [(&str, InputGenerator); 14] = [
            ("beton", generate::beton()),
            ("tar", generate::tar()),
            ("tfrecord", generate::tfrecord()),
            ("table", generate::table()),
            ("fixed_length", generate::fixed_length()),
            ("coco", generate::coco()),
            ("voc", generate::voc()),
            ("yolo", generate::yolo()),
            ("jpeg", generate::jpeg()),
            ("bit_planes", generate::bit_planes()),
            ("png", generate::png()),
            ("spec", generate::spec()),
            ("cursor", generate::cursor()),
            ("transform", generate::transform()),
        ];
        let noise: Vec<u8> = (0..1_u32 << 16).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
        for (name, mut generator) in generators {
            let mut u = Unstructured::new(&noise);
            let inputs: std::collections::BTreeSet<Vec<u8>> =
                (0..20).map(|_| generator(&mut u).unwrap()).collect();
            assert!(inputs.len() >= 15, "{name}: {} of 20", inputs.len());
        }
    }
}
