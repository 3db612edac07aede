//! Folders, patterns and tables of audio files: classes, training, checks and conversions.

use fuseloop::internals::{assert_says, recorded_warnings};
use fuseloop::ops::{CenterCrop, ops};
use fuseloop::source::{Dataset, FieldKind, Folder, FolderOptions, Labels, Source};
use fuseloop::verify::{DamageKind, VerifyOptions, VerifyReport, verify};
use fuseloop::write::{OnUnreadable, WriteOptions, convert};
use fuseloop::{AudioOptions, Error, Loader};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn golden(name: &str) -> Vec<u8> {
    fs::read(format!("{}/tests/golden/audio/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Returns a folder with copies of goldens, or with texts for names that are none.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, of) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let is_golden = of.contains('.') && !of.contains(['\n', ' ']);
        fs::write(path, if is_golden { golden(of) } else { of.as_bytes().to_vec() }).unwrap();
    }
    dir
}

fn words() -> TempDir {
    folder(&[
        ("yes/1.wav", "i16.wav"),
        ("yes/2.FLAC", "i16.flac"),
        ("no/1.mp3", "mono.mp3"),
        ("no/2.ogg", "mono.ogg"),
        ("no/notes.txt", "not a word"),
    ])
}

fn source(path: &Path) -> Arc<dyn Source> {
    Dataset::open(path).unwrap().source().unwrap()
}

fn refused(path: &Path) -> Error {
    Dataset::open(path).err().unwrap()
}

fn fields(source: &dyn Source) -> Vec<(&str, FieldKind)> {
    source.fields().iter().map(|field| (&*field.name, field.kind.clone())).collect()
}

fn checked(path: &Path, audio: &[&str]) -> VerifyReport {
    let audio = audio.iter().map(|name| (*name).to_owned()).collect();
    let options = VerifyOptions { audio, ..VerifyOptions::default() };
    verify(&*source(path), &options, &|_| ()).unwrap()
}

/// Returns the middle of each sample, at 8,000 samples a second, and the labels, in order.
fn middles(path: &Path, field: &str) -> (Vec<f32>, Vec<i64>) {
    let crop = ops![CenterCrop::new((1, 200)).unwrap()];
    let loader = Loader::open(path).unwrap().batch_size(4).workers(1);
    let audio = AudioOptions::new(8_000).resample(true);
    let loader = loader.audio(field, audio).pipeline(field, crop).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let (audio, labels) =
        (batch.tensor::<f32>(field).unwrap(), batch.tensor::<i64>("label").unwrap());
    assert_eq!(audio.shape(), [4, 200]);
    (audio.as_slice().to_vec(), labels.as_slice().to_vec())
}

#[test]
fn class_folders_of_audio_are_a_dataset() {
    let dir = words();
    let files = Folder::open(dir.path(), &FolderOptions::default()).unwrap();
    assert_eq!(fields(&files), [("audio", FieldKind::Bytes), ("label", FieldKind::Int)]);
    assert_eq!(files.facts().class_names().unwrap().unwrap().iter().count(), 2);
    assert_eq!(files.ignored().extensions.iter().next(), Some((&"txt".to_owned(), &1)));
    let (audio, labels) = middles(dir.path(), "audio");
    assert_eq!(labels, [0, 0, 1, 1]);
    assert!(audio.chunks_exact(200).all(|one| one.iter().any(|sample| sample.abs() > 0.1)));
}

#[test]
fn a_flat_folder_and_a_pattern_take_the_same_labels_as_images() {
    let flat = folder(&[("yes_1.wav", "i16.wav"), ("no_1.wav", "f32.wav")]);
    assert_eq!(source(flat.path()).class_names().unwrap().unwrap().iter().count(), 2);
    let plain = folder(&[("1.wav", "i16.wav"), ("2.wav", "f32.wav")]);
    assert_says(
        refused(plain.path()),
        ["names such as class_name.wav", "to open the audio files without labels"],
    );
    let options = FolderOptions::default().label(Labels::None);
    let unlabelled = Folder::open(plain.path(), &options).unwrap();
    assert_eq!(fields(&unlabelled), [("audio", FieldKind::Bytes)]);
    let undeclared = Loader::from_source(unlabelled).build().unwrap_err();
    assert_says(undeclared, ["audio", "declare their sample rate (`audio`; in Python"]);
    let dir = words();
    let pattern = source(&dir.path().join("**/*.{wav,mp3}"));
    assert_eq!((pattern.len(), fields(&*pattern)[0].0), (2, "audio"));
}

#[test]
fn a_folder_of_images_and_audio_is_refused() {
    let mixed = folder(&[("a/1.wav", "i16.wav"), ("b/2.wav", "i16.wav"), ("b/1.jpg", "no image")]);
    assert_says(
        refused(mixed.path()),
        ["1 image and 2 audio files", "by a pattern, such as `**/*.wav`"],
    );
    assert_eq!(source(&mixed.path().join("*/*.wav")).len(), 2);
}

#[test]
fn other_audio_is_named_with_the_cure() {
    let other = folder(&[("a/1.opus", "opus.opus"), ("a/2.m4a", "x y")]);
    assert_says(
        refused(other.path()),
        ["convert the audio files, for example by `ffmpeg -i in.opus out.flac`"],
    );
}

#[test]
fn a_listing_of_audio_is_one_of_audio() {
    let (dir, place) = (words(), tempfile::tempdir().unwrap());
    let listing = place.path().join("words.listing");
    let options = FolderOptions::default().listing(&listing);
    let first = Folder::open(dir.path(), &options).unwrap();
    first.save_listing(&listing).unwrap();
    let again = Folder::open(dir.path(), &options).unwrap();
    assert_eq!(fields(&again), fields(&first));
    assert_eq!(again.facts().fingerprint, first.facts().fingerprint);
}

#[cfg(feature = "tables")]
#[test]
fn the_table_of_an_audiofolder_has_its_columns() {
    let table = "file_name,transcription,speaker\nclips/1.wav,hello,7\nclips/2.flac,good bye,8\n";
    let dir = folder(&[
        ("clips/1.wav", "i16.wav"),
        ("clips/2.flac", "i16.flac"),
        ("metadata.csv", table),
    ]);
    let files = source(dir.path());
    let want = [
        ("audio", FieldKind::Bytes),
        ("transcription", FieldKind::Bytes),
        ("speaker", FieldKind::Int),
    ];
    assert_eq!(fields(&*files), want);
    assert_eq!(files.read(fuseloop::SampleId(1)).unwrap().len(), 3);
    let wav = "wav,label\nclips/1.wav,a\nclips/2,b\n";
    fs::write(dir.path().join("wav.csv"), wav).unwrap();
    assert_eq!(fields(&*source(&dir.path().join("wav.csv")))[0].0, "audio");
    fs::write(dir.path().join("mixed.csv"), "path,label\nclips/1.wav,a\n1.png,b\n").unwrap();
    let error = refused(&dir.path().join("mixed.csv"));
    assert_says(error, ["the table lists 1 image and 1 audio file"]);
    // A class that is called as a column of paths.
    fs::write(dir.path().join("bare.csv"), "clips/1.wav,wav\nclips/2.flac,audio\n").unwrap();
    assert_eq!(source(&dir.path().join("bare.csv")).len(), 2);
    fs::write(dir.path().join("opus.csv"), "path,label\n1.opus,a\n2.Opus,b\n").unwrap();
    assert_says(refused(&dir.path().join("opus.csv")), ["2 .opus", "convert them to FLAC or WAV"]);
    fs::write(dir.path().join("some.csv"), "path,label\nclips/1.wav,a\n2.m4a,b\n").unwrap();
    let (some, said) = recorded_warnings(|| source(&dir.path().join("some.csv")));
    assert_eq!(fields(&*some)[0].0, "audio");
    assert_says(said.join("\n"), ["1 audio file is of a format that is not read (1 .m4a)"]);
    let out = tempfile::tempdir().unwrap();
    let again = out.path().join("again");
    convert(&*files, &again, &WriteOptions::default()).unwrap();
    assert!(again.join("metadata.jsonl").is_file());
    assert_eq!(fields(&*source(&again)), want);
    let second = [&files, &source(&again)].map(|one| one.read(fuseloop::SampleId(1)).unwrap());
    assert_eq!(second[0], second[1]);
}

#[test]
fn a_check_decodes_audio_and_names_the_damaged_files() {
    let dir = words();
    let report = checked(dir.path(), &[]);
    assert!(report.is_whole(), "{report}");
    assert_eq!(report.audio_files, 4);
    assert!(report.to_string().contains("4 audio files decoded"), "{report}");
    let wav = golden("i16.wav");
    fs::write(dir.path().join("no/3.wav"), &wav[..1000]).unwrap();
    fs::write(dir.path().join("no/4.ogg"), golden("opus.opus")).unwrap();
    fs::write(dir.path().join("yes/3.mp3"), "text").unwrap();
    let mut flac = golden("i16.flac");
    // The MD5 of its samples.
    flac[30] ^= 1;
    fs::write(dir.path().join("yes/4.flac"), flac).unwrap();
    let report = checked(dir.path(), &[]);
    let kinds: Vec<_> = report.first.iter().map(|one| (one.sample.0, one.kind)).collect();
    let want = [
        (2, DamageKind::AudioCut),
        (3, DamageKind::AudioUnsupported),
        (6, DamageKind::AudioDamaged),
        (7, DamageKind::AudioDamaged),
    ];
    assert_eq!(kinds, want, "{report}");
    assert!(report.first[0].to_string().contains("no/3.wav"), "{report}");
    assert!(report.first[3].error.contains("MD5"), "{report}");
}

/// Converts a folder with a file of `bytes` among others, and returns the error and the number of samples that are written
/// without it.
fn converted_with(bytes: &[u8], name: &str, verify: bool) -> (String, u64) {
    let (dir, out) = (words(), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("no/3.mp3"), bytes).unwrap();
    let (files, path) = (source(dir.path()), out.path().join(name));
    let mut options = WriteOptions::default();
    options.image.verify = verify;
    let error = convert(&*files, &path, &options).err();
    options.on_damaged = OnUnreadable::Skip;
    options.overwrite = true;
    let report = convert(&*files, &path, &options).unwrap();
    assert_eq!(source(&path).len(), report.samples, "{name}");
    (error.map_or_else(String::new, |error| error.to_string()), report.samples)
}

#[test]
fn a_folder_is_not_written_with_files_that_it_would_not_list() {
    let (error, samples) = converted_with(b"junk", "again", false);
    assert!(error.contains("a folder lists no others"), "{error}");
    assert_eq!(samples, 4);
}

#[test]
fn a_conversion_that_verifies_decodes_audio() {
    let mut flac = golden("i16.flac");
    flac[30] ^= 1;
    for name in ["words.beton", "again", "words.tfrecord", "words/index.json"] {
        if name.ends_with("tfrecord") && !cfg!(feature = "tfrecord")
            || name.ends_with("json") && !cfg!(feature = "mds")
        {
            continue;
        }
        assert_eq!(converted_with(&flac, name, false), (String::new(), 5), "{name}");
        let (error, samples) = converted_with(&flac, name, true);
        assert!(error.contains("not those of its MD5"), "{name}: {error}");
        assert_eq!(samples, 4, "{name}");
    }
}

#[cfg(feature = "tar")]
#[test]
fn members_are_audio_by_their_names_and_first_bytes() {
    use fuseloop::source::{Tar, TarOptions};
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, members: &[(&str, Vec<u8>)]| {
        let path = dir.path().join(name);
        let mut tar = tar::Builder::new(fs::File::create(&path).unwrap());
        for (name, bytes) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, name, &bytes[..]).unwrap();
        }
        tar.finish().unwrap();
        path
    };
    // Samples without a header, in a member whose name is also an extension of WAV.
    let raw: Vec<u8> = (0..3200_u16).flat_map(|n| (n % 99).to_le_bytes()).collect();
    let path = write("raw.tar", &[("0.wave", raw.clone()), ("1.wave", raw.clone())]);
    assert_eq!(checked(&path, &[]).audio_files, 0);
    let (wav, ogg) = (golden("i16.wav"), golden("mono.ogg"));
    let members =
        [("0.wave", wav.clone()), ("0.oga", ogg.clone()), ("1.wave", wav), ("1.oga", raw)];
    let path = write("audio.tar", &members);
    let report = checked(&path, &[]);
    assert_eq!((report.audio_files, report.damaged_samples), (3, 1), "{report}");
    // The names of members stay, and in a folder files have one extension.
    let whole = Tar::open(path.to_str().unwrap(), &TarOptions::default()).unwrap();
    let again = dir.path().join("again.tar");
    convert(&whole, &again, &WriteOptions::default()).unwrap();
    assert_eq!(fields(&*source(&again)), fields(&whole));
    let folder = dir.path().join("folder");
    convert(&whole, &folder, &WriteOptions::default()).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|one| one.unwrap().file_name()).collect();
    names.sort();
    let names: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
    let want =
        ["00000000_0.oga", "00000000_0.wav", "00000001_1.oga", "00000001_1.wav", "metadata.jsonl"];
    assert_eq!(names, want);
}

#[cfg(feature = "mds")]
#[test]
fn mds_keeps_what_is_audio() {
    let (dir, out) = (words(), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("no/0.mp3"), "junk").unwrap();
    let index = out.path().join("index.json");
    convert(&*source(dir.path()), &index, &WriteOptions::default()).unwrap();
    let report = checked(&index, &[]);
    assert_eq!((report.audio_files, report.damaged_samples), (4, 1), "{report}");
}

#[test]
fn audio_converts_to_every_format_and_back() {
    let (dir, out) = (words(), tempfile::tempdir().unwrap());
    let (files, want) = (source(dir.path()), middles(dir.path(), "audio"));
    let same = |path: &Path, field: &str| {
        assert_eq!(middles(path, field), want, "{}", path.display());
        let found = source(path);
        for id in 0..4 {
            let both = [&found, &files].map(|one| one.read(fuseloop::SampleId(id)).unwrap());
            assert_eq!(both[0][0], both[1][0], "{}: {id}", path.display());
        }
    };
    let options = WriteOptions::default();
    let write = |name: &str| {
        let path = out.path().join(name);
        convert(&*files, &path, &options).unwrap();
        path
    };
    let beton = write("words.beton");
    same(&beton, "audio");
    assert_eq!(checked(&beton, &[]).audio_files, 0);
    assert_eq!(checked(&beton, &["audio"]).audio_files, 4);
    let error = verify(
        &*source(&beton),
        &VerifyOptions { audio: vec!["label".to_owned()], ..VerifyOptions::default() },
        &|_| (),
    );
    assert_says(error.unwrap_err(), ["only bytes can be audio files; this is int"]);
    let again = write("again");
    same(&again, "audio");
    assert!(again.join("yes").is_dir());
    #[cfg(feature = "tar")]
    {
        same(&write("words.tar"), "audio.bin");
        let flac = folder(&[("a/1.flac", "i16.flac"), ("b/1.flac", "i16.flac")]);
        let path = out.path().join("flac.tar");
        convert(&*source(flac.path()), &path, &options).unwrap();
        let tar = source(&path);
        assert_eq!(fields(&*tar)[0].0, "flac");
        assert_eq!(checked(&path, &[]).audio_files, 2);
    }
    #[cfg(feature = "parquet")]
    {
        let parquet = write("words.parquet");
        same(&parquet, "audio");
        assert_eq!(checked(&parquet, &[]).audio_files, 4);
        let bytes = fs::read(&parquet).unwrap();
        let feature = br#""audio":{"_type":"Audio"}"#;
        assert!(bytes.windows(feature.len()).any(|run| run == feature));
        let back = out.path().join("back");
        convert(&*source(&parquet), &back, &options).unwrap();
        assert_eq!(source(&back).len(), 4);
    }
}
