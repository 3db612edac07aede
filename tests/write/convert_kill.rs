//! A conversion that is killed at any moment, repeatedly, ends with the bytes of an uninterrupted one,
//! and leaves no other files beside them. `FUSELOOP_CONVERT_KILLS=1000` kills more conversions.

use crate::common::files::files;
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedImage, OwnedValue};
use fuseloop::write::{WriteOptions, WriteReport, convert};
use fuseloop_counts::numbers;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The environment variable that names the destination to a child process.
const TARGET: &str = "FUSELOOP_TEST_CONVERT_TARGET";

/// Destinations, and the `max_samples` of each conversion.
const FORMS: &[(&str, u64)] = &[
    ("x-{000}.tar", 300),
    ("x-{000}.tfrecord", 300),
    #[cfg(feature = "parquet")]
    ("x-{000}.parquet", 300),
    ("index.json", 300),
    ("x.beton", 300),
    ("x", 20),
];

fn run(dst: &Path) -> fuseloop::Result<WriteReport> {
    let name = dst.file_name().unwrap().to_str().unwrap();
    let (_, unit) = *FORMS.iter().find(|(form, _)| *form == name).unwrap();
    // The files of a folder are synced one by one, which is slow, so that there are fewer of them.
    let samples = if name == "x" { 120 } else { 3000 };
    let options = WriteOptions {
        max_samples: Some(unit),
        threads: NonZeroUsize::new(2),
        ..WriteOptions::default()
    };
    let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int)];
    let drawn = InMemory::from_fn(Facts::new(fields, samples), |sample| {
        let n = sample.0;
        let image = OwnedImage {
            width: 8,
            height: 8,
            ..OwnedImage::jpeg((0..4000).map(|i| (i * n % 251) as u8).collect())
        };
        Ok(vec![OwnedValue::Image(image), OwnedValue::Int((n % 4) as i64)])
    });
    convert(&drawn, dst, &options)
}

/// Not a test of its own: the child process that is killed.
#[test]
fn child_converts() {
    let Some(dst) = std::env::var_os(TARGET) else { return };
    run(Path::new(&dst)).unwrap();
}

fn start_child(dst: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "convert_kill::child_converts"]).env(TARGET, dst);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_conversion_killed_at_any_moment_goes_on_to_the_same_bytes() {
    let kills = numbers("FUSELOOP_CONVERT_KILLS");
    for (form, _) in FORMS {
        let whole = tempfile::tempdir().unwrap();
        let start = Instant::now();
        assert!(start_child(&whole.path().join(form)).wait().unwrap().success());
        let took = start.elapsed().as_secs_f64();
        let want = files(whole.path());

        let (mut resumed, mut begun) = (0, 0);
        for &kill in &kills {
            let dir = tempfile::tempdir().unwrap();
            let dst = dir.path().join(form);
            // The first conversion and the one that resumes it are killed; the third completes it.
            for part in [0.618_034, 0.381_966] {
                let mut child = start_child(&dst);
                let moment = took * ((kill + 1) as f64 * part).fract();
                sleep(Duration::from_secs_f64(moment));
                child.kill().unwrap();
                child.wait().unwrap();
            }
            let is_begun = fs::read_dir(dir.path()).unwrap().count() > 0;
            // The child may have completed before it was killed. Then the
            // destination is complete, and beside it there is at most the
            // empty progress record of a second child that had not looked yet.
            let is_whole = files(dir.path()) == want;
            if !is_whole {
                match run(&dst) {
                    Ok(report) => resumed += u64::from(report.resumed > 0),
                    Err(error) if error.kind() == fuseloop::ErrorKind::AlreadyExists => {}
                    Err(error) => panic!("{form}, kill {kill}: {error}"),
                }
            }
            begun += u64::from(is_begun);
            let found = files(dir.path());
            let names =
                || found.keys().filter(|name| !want.contains_key(*name)).collect::<Vec<_>>();
            assert!(found == want, "{form}, kill {kill}; beside what is wanted: {:?}", names());
            let left = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name());
            let left: Vec<_> = left.filter(|name| name.as_encoded_bytes()[0] == b'.').collect();
            assert!(left.is_empty(), "{form}, kill {kill}: {left:?}");
        }
        println!("{form}: {took:.2} s; of {}, {begun} had begun, {resumed} went on", kills.len());
        assert!(begun > 0, "{form}: no kill came after the beginning");
    }
}
