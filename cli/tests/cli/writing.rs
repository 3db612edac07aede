//! A demo; datasets that are written and re-cut, and what `info` says of them.

use crate::command::{dataset, folder, jpeg, refused, stdout_of};
use fuseloop_counts::rounds;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_demo_needs_nothing_and_leaves_a_contact_sheet() {
    let dir = tempfile::tempdir().unwrap();
    let text = stdout_of(dir.path(), &["demo"]);
    for word in ["images/s", "first batch after", "code of epoch 0 reused", "recompiled in"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(text.contains("RandomResizedCrop        window pushed into decode"), "{text}");
    let sheet = fs::File::open(dir.path().join("fuseloop-demo.png")).unwrap();
    let reader = png::Decoder::new(std::io::BufReader::new(sheet)).read_info().unwrap();
    assert!(reader.info().width > 1000 && reader.info().height > 500);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_demo_keeps_its_files_in_an_empty_folder_only() {
    let dir = tempfile::tempdir().unwrap();
    stdout_of(dir.path(), &["demo", "--keep", "kept", "--out", "sheet.png"]);
    assert!(stdout_of(dir.path(), &["info", "kept/demo.beton"]).contains("as JPEG"));
    let (code, errors) = refused(dir.path(), &["demo", "--keep", "kept"]);
    assert_eq!(code, 1);
    assert!(errors.contains("error: kept is not empty\nhelp: "), "{errors}");
}

#[test]
fn write_reports_images_classes_and_what_it_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let photos = folder(dir.path());
    fs::write(photos.join("dog/9.jpg"), b"no JPEG").unwrap();
    let (code, errors) = refused(dir.path(), &["write", "photos", "x.beton"]);
    assert_eq!(code, 1);
    assert!(errors.contains("9.jpg") && errors.contains("help: `--on-damaged skip`"), "{errors}");
    assert!(!dir.path().join("x.beton").exists());

    let text =
        stdout_of(dir.path(), &["write", "photos", "x.beton", "--on-damaged", "skip", "--verify"]);
    for word in ["x.beton: 6 samples", "2 classes", "6 JPEGs stored byte for byte", "samples/s"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(text.contains("skipped 1 damaged sample:\n") && text.contains("9.jpg (sample 6)"));
    assert!(text.contains("ignored 1 other file:\n") && text.contains("notes.txt"), "{text}");
}

#[test]
fn write_stores_as_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path());
    let stored = |mode: &[&str]| {
        stdout_of(dir.path(), &[&["write", "photos", "x.beton", "--overwrite"], mode].concat());
        let info: Value =
            serde_json::from_str(&stdout_of(dir.path(), &["info", "x.beton", "--json"])).unwrap();
        let stats = &info["fields"][0]["stats"];
        let number = |value: &Value| value.as_u64().unwrap();
        (number(&stats["jpeg"]), number(&stats["raw"]), number(&stats["max_size"][1]))
    };
    assert_eq!(stored(&["--write-mode", "raw"]), (0, 6, 97));
    assert_eq!(stored(&["--write-mode", "smart", "--smart-threshold", "10000"]), (4, 2, 97));
    assert_eq!(stored(&["--write-mode", "proportion", "--compress-probability", "1"]), (6, 0, 97));
    assert_eq!(stored(&["--max-resolution", "50", "--jpeg-quality", "80"]), (6, 0, 50));
}

/// A PNG of one colour.
fn plain_png(path: &Path, shade: u8) {
    let file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    let mut encoder = png::Encoder::new(file, 4, 3);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[shade; 4 * 3 * 3]).unwrap();
}

/// The output of a command without its first line, which has the elapsed time.
fn summary(dir: &Path, args: &[&str]) -> String {
    stdout_of(dir, args).split_once('\n').unwrap().1.to_owned()
}

#[test]
fn a_summary_says_what_was_re_encoded_and_what_is_called_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let photos = folder(path);
    plain_png(&photos.join("cat/7.png"), 7);
    plain_png(&photos.join("dog/8.png"), 8);
    // Without the sizes of what was re-encoded.
    let said = |args: &[&str]| {
        let text = summary(path, args);
        let lines = text.lines().map(|line| match line.strip_prefix("re-encoded ") {
            Some(rest) => format!("re-encoded {}:\n", rest.split_once(',').unwrap().0),
            None => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    let text = summary(path, &["write", "photos", "sizes.beton"]);
    let line = text.lines().find(|line| line.starts_with("re-encoded 2 images, ")).unwrap();
    assert!(line.contains(" to ") && line.ends_with(" %):"), "{line}");
    let kept = said(&["write", "photos", "w.beton"]);
    let want = "2 classes, 6 JPEGs stored byte for byte, 1 page\n\
                re-encoded 2 images:\n  2 from PNG to raw pixels: no pixel changed; `--jpeg-quality 90` stores JPEGs (lossy)\n\
                ignored 1 other file:\n";
    assert!(kept.starts_with(want), "{kept}");
    let jpg = said(&["write", "photos", "j.beton", "--write-mode", "jpg"]);
    assert!(jpg.contains("\nre-encoded 2 images:\n  2 from PNG to JPEG: lossy\n"), "{jpg}");
    // With a quality, the mode does not matter for PNGs.
    for mode in ["lossless", "tiled", "planes"] {
        let args = ["write", "photos", "q.beton", "--overwrite", "--jpeg-quality", "80"];
        let text = said(&[&args[..], &["--write-mode", mode]].concat());
        assert!(
            text.contains("\n  2 from PNG to JPEG: lossy\n") || mode == "planes",
            "{mode}: {text}"
        );
        assert!(!text.contains("raw pixels") && !text.contains("0 JPEGs"), "{mode}: {text}");
    }
    let args = ["write", "photos", "q.beton", "--overwrite", "--jpeg-quality", "80"];
    for mode in ["raw", "mask"] {
        let (code, error) = refused(path, &[&args[..], &["--write-mode", mode]].concat());
        assert!(
            code == 1 && error.contains("which store no JPEGs\nhelp: choose"),
            "{mode}: {error}"
        );
    }
    assert_eq!(
        said(&["convert", "photos", "a.tar"]),
        "2 classes, 6 JPEGs stored byte for byte\nignored 1 other file:\n  photos/cat/notes.txt: not called .jpg, .jpeg, .jpe, .jfif, .png, .webp, .tif, .tiff, .bmp, .dib, .gif, .ppm, .pgm, .pbm, .pnm, .pam, .jxl, .heic, .heif, .hif, .wav, .wave, .flac, .ogg, .oga, .mp3, .avi, .m4v, .mkv, .mov, .mp4 or .webm\n"
    );
    assert_eq!(
        said(&[
            "convert",
            "w.beton",
            "a.beton",
            "--rename",
            "image=picture",
            "--write-mode",
            "jpg"
        ]),
        "2 classes, 6 JPEGs stored byte for byte, 1 page\nfield image renamed to picture\nre-encoded 2 images:\n  2 from raw pixels to JPEG: lossy\n"
    );
    assert_eq!(
        said(&["convert", "w.beton", "w", "--max-resolution", "50"]),
        "2 classes, 1 JPEG stored byte for byte\nre-encoded 7 images:\n  5 as JPEG again: lossy\n  2 from raw pixels to PNG: no pixel changed\n"
    );
    let (code, errors) =
        refused(path, &["convert", "a.tar", "b.beton", "--rename", "none=picture"]);
    assert!(code == 1 && errors.contains("no field named"), "{errors}");
    assert_eq!(refused(path, &["convert", "a.tar", "b.beton", "--rename", "image"]).0, 2);
    let (code, errors) = refused(path, &["convert", "photos", "photos/", "--overwrite"]);
    assert!(code == 1 && errors.contains("choose a different output"), "{errors}");
}

#[test]
fn ranks_share_the_shards_of_a_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    folder(path);
    stdout_of(path, &["convert", "photos", "whole-{0}.tar", "--shards", "3"]);
    for rank in ["0/2", "1/2"] {
        let by_rank = ["convert", "photos", "x-{0}.tar", "--shards", "3", "--ranks", rank];
        stdout_of(path, &by_rank);
    }
    for shard in 0..3 {
        let read = |name: &str| fs::read(path.join(format!("{name}-{shard}.tar"))).unwrap();
        assert!(read("whole") == read("x"), "{shard}");
    }
    for ranks in ["2/2", "1", "k/n", ""] {
        let by_rank = ["convert", "photos", "y-{0}.tar", "--shards", "3", "--ranks", ranks];
        assert_eq!(refused(path, &by_rank).0, 2, "{ranks}");
    }
    assert_eq!(refused(path, &["convert", "photos", "y-{0}.tar", "--ranks", "0/2"]).0, 2);
}

#[test]
fn write_re_cuts_jpegs_if_told_and_says_which_it_could_not() {
    let dir = tempfile::tempdir().unwrap();
    let photos = folder(dir.path());
    let whole = fs::read(photos.join("dog/5.jpg")).unwrap();
    fs::write(photos.join("dog/9.jpg"), &whole[..whole.len() / 2]).unwrap();
    let write = |more: &[&str]| {
        stdout_of(dir.path(), &[&["write", "photos", "x.beton", "--overwrite"], more].concat())
    };
    let text = write(&["--write-mode", "tiled"]);
    for word in ["x.beton: 7 samples", "6 JPEGs re-cut: ", " %)\n", "kept unchanged 1 JPEG:\n"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(text.contains("9.jpg (sample 6, image): it "), "{text}");
    assert!(text.contains("1 JPEG stored byte for byte"), "{text}");
    let bytes = || fs::read(dir.path().join("x.beton")).unwrap();
    let tiled = bytes();
    write(&["--tile", "32"]);
    assert!(bytes() == tiled, "the one is the other");
    write(&["--write-mode", "tiled", "--tile", "row"]);
    assert!(bytes() != tiled);
    let text = write(&["--write-mode", "smart", "--smart-threshold", "10000", "--tile", "64"]);
    assert!(text.contains("4 JPEGs re-cut: "), "{text}");
    assert!(!write(&[]).contains("re-cut"));
}

#[test]
fn recut_writes_a_folder_or_a_file_again() {
    let dir = tempfile::tempdir().unwrap();
    let photos = folder(dir.path());
    fs::write(photos.join("dog/9.jpg"), "no JPEG").unwrap();
    let text = stdout_of(dir.path(), &["recut", "photos", "new/tiled", "-j", "2"]);
    for word in [
        "new/tiled: 7 JPEGs, ",
        " images/s\n6 JPEGs re-cut: ",
        "1 other file copied\nkept unchanged 1 JPEG:\n",
        "9.jpg: it is not a JPEG",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(dir.path().join("new/tiled/cat/notes.txt").is_file());

    fs::remove_file(photos.join("dog/9.jpg")).unwrap();
    stdout_of(dir.path(), &["write", "photos", "plain.beton"]);
    stdout_of(dir.path(), &["write", "photos", "tiled.beton", "--write-mode", "tiled"]);
    let tiled = ["convert", "plain.beton", "again.beton", "--write-mode", "tiled"];
    let text = stdout_of(dir.path(), &tiled);
    for word in ["again.beton: 6 samples in 1 file, ", ", 1 page\n6 JPEGs re-cut: "] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(read("again.beton") == read("tiled.beton"), "two ways to the same file");
    stdout_of(dir.path(), &[&tiled[..], &["--tile", "row", "--overwrite"]].concat());
    assert!(read("again.beton") != read("tiled.beton"), "what is there is replaced");
}

/// Asserts that every file of `dst` equals its counterpart in `whole`. Returns the number of files,
/// without unfinished ones.
fn whole_files(dst: &Path, whole: &Path) -> usize {
    let (mut count, mut open) = (0, vec![dst.to_owned()]);
    while let Some(next) = open.pop() {
        let Ok(entries) = fs::read_dir(next) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(dst).unwrap();
            if name.to_str().unwrap().starts_with(".fuseloop-") {
                continue;
            } else if path.is_dir() {
                open.push(path);
            } else {
                assert!(
                    fs::read(&path).unwrap() == fs::read(whole.join(name)).unwrap(),
                    "{path:?}"
                );
                count += 1;
            }
        }
    }
    count
}

/// Wherever a run is killed, each file of the copy is complete or absent; the next run completes the copy.
#[test]
fn a_killed_recut_leaves_whole_files_only() {
    let kills = rounds("FUSELOOP_RECUT_KILLS");
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    for n in 0..60 {
        fs::create_dir_all(photos.join(format!("{}", n % 3))).unwrap();
        fs::write(photos.join(format!("{}/{n}.jpg", n % 3)), jpeg(200 + n, 150, 1)).unwrap();
    }
    stdout_of(dir.path(), &["recut", "photos", "whole"]);
    let whole = dir.path().join("whole");
    for kill in 0..kills {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
            .args(["recut", "photos", "killed", "--overwrite"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3 + kill * 37 % 150));
        let _ = child.kill();
        child.wait().unwrap();
        assert!(whole_files(&dir.path().join("killed"), &whole) <= 60);
    }
    stdout_of(dir.path(), &["recut", "photos", "killed", "--overwrite"]);
    assert_eq!(whole_files(&dir.path().join("killed"), &whole), 60);
    assert_eq!(fs::read_dir(dir.path().join("killed")).unwrap().count(), 3, "nothing is left over");
}

#[test]
fn info_tells_fields_sizes_and_labels() {
    let dir = dataset();
    let text = stdout_of(dir.path(), &["info", "photos.beton"]);
    assert!(text.contains("photos.beton: 6 samples"), "{text}");
    assert!(text.contains("6 as JPEG, 47 to 97 wide, 40 to 90 high"), "{text}");
    assert!(text.contains("0 to 1"), "{text}");
    assert!(!text.contains("row functions"), "{text}");

    let json: Value =
        serde_json::from_str(&stdout_of(dir.path(), &["info", "photos.beton", "--json"])).unwrap();
    assert_eq!(json["samples"], 6);
    assert_eq!(json["bytes"], fs::metadata(dir.path().join("photos.beton")).unwrap().len());
    assert_eq!(json["page_size"], 1 << 23);
    assert_eq!(json["stored_values"], 6);
    assert_eq!(json["fields"][1]["stats"]["max"], 1);
}

#[test]
fn info_shows_the_first_class_names_with_their_counts() {
    let dir = dataset();
    let classes = "2 classes\n  0    cat                      3 samples\n";
    for name in ["photos", "photos.beton"] {
        let text = stdout_of(dir.path(), &["info", name]);
        assert!(text.contains(classes), "{text}");
        let json: Value =
            serde_json::from_str(&stdout_of(dir.path(), &["info", name, "--json"])).unwrap();
        assert_eq!(json["classes"].as_array().unwrap().len(), 2, "{json}");
        assert_eq!(
            (&json["classes"][1]["number"], &json["classes"][1]["samples"]),
            (&1.into(), &3.into())
        );
    }
}

#[test]
fn pixels_larger_than_a_page_of_8_mib_are_written_without_a_page_size() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos/cat");
    fs::create_dir_all(&photos).unwrap();
    fs::write(photos.join("0.jpg"), jpeg(40, 30, 0)).unwrap();
    fs::write(photos.join("1.jpg"), jpeg(2000, 1500, 1)).unwrap();
    let raw: &[&str] = &["write", "photos", "x.beton", "--write-mode", "raw"];
    stdout_of(dir.path(), raw);
    let info: Value =
        serde_json::from_str(&stdout_of(dir.path(), &["info", "x.beton", "--json"])).unwrap();
    assert_eq!(info["page_size"], 1 << 24);
    stdout_of(dir.path(), &["verify", "x.beton"]);
    stdout_of(dir.path(), &["convert", "x.beton", "y.beton"]);
    let small_pages = ["--overwrite", "--page-size", "8MiB"];
    let (code, errors) = refused(dir.path(), &[raw, &small_pages].concat());
    assert_eq!(code, 1);
    assert!(errors.contains("a page size of 16777216 would do"), "{errors}");
}

#[test]
#[cfg(unix)]
fn a_file_that_is_replaced_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = dataset();
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
    let private = || fs::Permissions::from_mode(0o600);
    fs::set_permissions(dir.path().join("photos.beton"), private()).unwrap();
    stdout_of(dir.path(), &["write", "photos", "photos.beton", "--overwrite"]);
    assert_eq!(mode("photos.beton") & 0o777, 0o600);
    fs::write(dir.path().join("good.txt"), "").unwrap();
    fs::set_permissions(dir.path().join("good.txt"), private()).unwrap();
    stdout_of(dir.path(), &["verify", "photos.beton", "--write-indices", "good.txt"]);
    assert_eq!(mode("good.txt") & 0o777, 0o600);
}

/// Starts the command, sends it a signal as soon as there is something unfinished in `within`, and returns the signal
/// that ended it.
#[cfg(unix)]
fn ended_by(dir: &Path, within: &Path, args: &[&str], signal: &str) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    let mut child = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
        .args(args)
        .current_dir(dir)
        .env("TMPDIR", within)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The unfinished files of `recut` are there for an instant each, between two looks; its folder `cat` stays.
    let is_begun = || {
        let names = fs::read_dir(within).unwrap().map(|one| one.unwrap().file_name());
        names.into_iter().any(|name| name == "cat" || name.to_string_lossy().starts_with('.'))
    };
    for _ in 0..20_000 {
        if is_begun() || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "it ended before the signal: {args:?}");
    child.wait().unwrap().signal()
}

/// Returns SIGINT and its number; SIGTERM where SIGINT is ignored, as for all that a script runs in the background, since
/// the command would ignore it, too.
#[cfg(unix)]
fn interrupt() -> (&'static str, i32) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.unwrap_or(0) >> 1 & 1 == 1 { ("-TERM", 15) } else { ("-INT", 2) }
}

#[test]
#[cfg(unix)]
fn a_signal_that_ends_a_command_leaves_nothing_unfinished() {
    let dir = tempfile::tempdir().unwrap();
    let (photos, temporary) = (dir.path().join("photos/cat"), dir.path().join("tmp"));
    fs::create_dir_all(&photos).unwrap();
    fs::create_dir(&temporary).unwrap();
    fs::write(photos.join("0.jpg"), jpeg(3000, 2000, 1)).unwrap();
    // The signal must come before a command ends, also on a busy machine: so there are many images.
    for number in 1..500 {
        fs::hard_link(photos.join("0.jpg"), photos.join(format!("{number}.jpg"))).unwrap();
    }
    let left = |within: &Path| -> Vec<String> {
        let names = fs::read_dir(within).unwrap().map(|one| one.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let write = ["write", "photos", "x.beton", "--max-resolution", "100", "-j", "1"];
    assert_eq!(ended_by(dir.path(), dir.path(), &write, "-TERM"), Some(15));
    assert_eq!(left(dir.path()), ["photos", "tmp"]);
    let copy = ["recut", "photos", "copy", "-j", "1"];
    fs::create_dir(dir.path().join("copy")).unwrap();
    let (interrupt, number) = interrupt();
    assert_eq!(ended_by(dir.path(), &dir.path().join("copy"), &copy, interrupt), Some(number));
    assert!(left(&dir.path().join("copy")).iter().all(|name| !name.starts_with('.')));
    assert_eq!(ended_by(dir.path(), &temporary, &["demo"], interrupt), Some(number));
    assert_eq!(left(&temporary), [""; 0]);
}

#[test]
#[cfg(unix)]
fn a_file_beyond_the_largest_size_is_an_error_with_its_path() {
    let dir = dataset();
    let script = "ulimit -f 8; exec \"$0\" write photos x.beton --write-mode raw";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_fuseloop")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("x.beton") && errors.contains("File too large"), "{errors}");
    let mut left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("x.beton")), "{left:?}");
}

#[cfg(feature = "video")]
#[test]
fn videos_become_frames_or_stay_files() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../video/tests/golden/frames");
    for (class, file) in [("ride", "high.mp4"), ("walk", "motion_jpeg.avi")] {
        fs::create_dir_all(dir.path().join("clips").join(class)).unwrap();
        fs::copy(golden.join(file), dir.path().join("clips").join(class).join(file)).unwrap();
    }
    let info = |file: &str| -> Value {
        serde_json::from_str(&stdout_of(dir.path(), &["info", file, "--json"])).unwrap()
    };
    let all = ["convert", "clips", "x.beton", "--overwrite"];
    let text = stdout_of(dir.path(), &[&all[..], &["--write-mode", "tiled"]].concat());
    for word in ["x.beton: ", "2 classes", "from raw pixels to JPEG: lossy", "re-cut"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    let count = info("x.beton")["samples"].as_u64().unwrap();
    assert!(count > 8);
    stdout_of(dir.path(), &[&all[..], &["--frame-stride", "2", "--indices", "0"]].concat());
    assert!(info("x.beton")["samples"].as_u64().unwrap() < count / 2);
    stdout_of(dir.path(), &[&all[..], &["--videos", "files"]].concat());
    assert_eq!(info("x.beton")["samples"], 2);
    // The only field that begins as video files do.
    stdout_of(dir.path(), &["convert", "x.beton", "frames.beton", "--videos", "frames"]);
    assert_eq!(info("frames.beton")["samples"], count);
    stdout_of(dir.path(), &["convert", "clips", "x.tar"]);
    assert_eq!(info("x.tar")["samples"], 2);
    let (_, errors) = refused(dir.path(), &["convert", "clips", "y.tar", "--frame-stride", "2"]);
    assert!(errors.contains("help: add `--videos frames`"), "{errors}");
    let (_, errors) = refused(dir.path(), &["convert", "clips", "y.tar", "--videos", "frames"]);
    assert!(errors.contains("single .beton file"), "{errors}");
    let text = stdout_of(dir.path(), &["index", "clips"]);
    assert!(text.contains("2 video files of 2 classes") && text.contains("indexes of "), "{text}");
    assert!(dir.path().join("clips.videos.fidx").exists());
}
