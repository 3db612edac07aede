//! A writer that is killed, cut off or run beside another one leaves the old file, a complete new one,
//! or nothing. Its unfinished file is recognized by its name, and the next writer deletes it.

use fuseloop::sample::SampleId;
use fuseloop::source::Source as _;
use fuseloop::source::{Beton, FieldKind, FieldSpec, OpenOptions, OwnedValue};
use fuseloop::write::{FieldValue, WriteOptions, WriteReport, write_iter};
use fuseloop_counts::numbers;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The environment variable that names the file that a child process writes.
const TARGET: &str = "FUSELOOP_TEST_WRITE_TARGET";

/// If set, the child waits for its standard input to close after its first sample.
const WAITS: &str = "FUSELOOP_TEST_WRITE_WAITS";

/// The line that a child prints when it has begun to write.
const BEGUN: &str = "begun";

const SAMPLES: i64 = 3000;

/// Writes a dataset of 12 MB in 3000 samples, identified by `version`.
fn try_write(path: &Path, version: i64, each: impl Fn(i64)) -> fuseloop::Result<WriteReport> {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [field("version", FieldKind::Int), field("bytes", FieldKind::Bytes)];
    let rows = (0..SAMPLES).map(|sample| {
        each(sample);
        vec![FieldValue::Int(version), FieldValue::Bytes(vec![sample as u8; 4000])]
    });
    let threads = NonZeroUsize::new(2);
    let options = WriteOptions {
        page_size: Some(1 << 16),
        threads,
        overwrite: true,
        ..WriteOptions::default()
    };
    write_iter(rows, &fields, path, &options)
}

fn write_dataset(path: &Path, version: i64) {
    try_write(path, version, |_| ()).unwrap();
}

/// The version of the complete dataset at `path`; `None` if nothing is there.
fn version_at(path: &Path) -> Option<i64> {
    if !path.exists() {
        return None;
    }
    let beton = Beton::open(path, &OpenOptions::default()).unwrap();
    assert_eq!(beton.facts().samples, SAMPLES as u64);
    let mut versions = beton.samples().map(|id| {
        let Ok(OwnedValue::Bytes(bytes)) = beton.owned(id, 1) else { panic!("sample {id}") };
        assert!(bytes.len() == 4000 && bytes.iter().all(|&byte| byte == id.0 as u8), "{id}");
        match beton.owned(SampleId(id.0), 0) {
            Ok(OwnedValue::Int(version)) => version,
            other => panic!("{other:?}"),
        }
    });
    let first = versions.next();
    assert!(versions.all(|version| Some(version) == first));
    first
}

/// Not a test of its own: the child process that is killed.
#[test]
fn child_writes() {
    let Some(path) = std::env::var_os(TARGET) else { return };
    let waits = std::env::var_os(WAITS).is_some();
    let each = |sample| {
        if waits && sample == 0 {
            println!("{BEGUN}");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
    };
    try_write(Path::new(&path), 2, each).unwrap();
}

fn child_of(mut command: Command, path: &Path) -> Command {
    command.env(TARGET, path).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::child_writes", "--nocapture"]);
    child_of(command, path)
}

fn start_child(path: &Path) -> Child {
    child(path).spawn().unwrap()
}

/// Starts a child that has begun to write, and continues when its standard input is closed.
fn start_waiting(path: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child =
        child(path).env(WAITS, "").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with(&format!("{BEGUN}\n")) {
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "the child has ended: {line}");
    }
    (child, said)
}

fn names(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The paths of the unfinished files of `a.beton`.
fn partials(dir: &Path) -> Vec<PathBuf> {
    let mut partials = names(dir);
    partials.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(".a.beton.fuseloop-") && name.ends_with(".partial")
    });
    partials
}

#[test]
fn a_writer_killed_at_any_moment_leaves_a_whole_file_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("a.beton"), dir.path().join("old"));
    write_dataset(&old, 1);
    let start = Instant::now();
    assert!(start_child(&path).wait().unwrap().success());
    let whole = start.elapsed();
    assert_eq!(version_at(&path), Some(2));

    let kills = numbers("FUSELOOP_KILLS");
    let (mut seen, mut strays, mut cleaned) = ([0; 3], 0, 0);
    for &kill in &kills {
        let before = kill % 2 == 0;
        let _ = fs::remove_file(&path);
        if before {
            fs::hard_link(&old, &path).unwrap();
        }
        let mut child = start_child(&path);
        // The fractions of the golden ratio's multiples fill 0..1 evenly.
        sleep(Duration::from_secs_f64(
            whole.as_secs_f64() * 1.1 * (kill as f64 * 0.618_034).fract(),
        ));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = version_at(&path);
        assert!(found == Some(2) || found == before.then_some(1), "kill {kill}: {found:?}");
        seen[found.unwrap_or(0) as usize] += 1;

        let stray = partials(dir.path()).len();
        let others = 1 + usize::from(path.exists());
        assert_eq!(names(dir.path()).len(), others + stray, "{:?}", names(dir.path()));
        strays += usize::from(stray > 0);
        if stray > 0 && kill % 5 == 0 {
            write_dataset(&path, 3);
            assert_eq!(partials(dir.path()).len(), 0, "kill {kill}");
            cleaned += 1;
        }
    }
    println!("{whole:?} a write; found nothing, the old, the new file: {seen:?}");
    println!(
        "{strays} of {} left an unfinished file; {cleaned} times looked for after the next",
        kills.len()
    );

    write_dataset(&path, 3);
    assert_eq!(version_at(&path), Some(3));
    assert_eq!(names(dir.path()).len(), 2, "leftovers: {:?}", names(dir.path()));
}

/// The file of a killed writer is a leftover, that of a waiting writer is not: the lock distinguishes them.
#[test]
fn a_live_writers_file_is_left_alone_and_a_killed_ones_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    write_dataset(&path, 1);
    let (mut first, _said) = start_waiting(&path);
    let partial = partials(dir.path());
    assert_eq!(partial.len(), 1);
    let error = try_write(&path, 3, |_| ()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (fuseloop::ErrorKind::Io, Some(&*path)), "{error}");
    let said = format!("{path:?} is being written by another process, in {:?}", partial[0]);
    assert_eq!(error.to_string(), said);
    assert_eq!((version_at(&path), partials(dir.path())), (Some(1), partial));

    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!((version_at(&path), partials(dir.path()).len()), (Some(1), 1));
    write_dataset(&path, 3);
    assert_eq!((version_at(&path), names(dir.path()).len()), (Some(3), 1));
}

#[test]
fn a_writer_goes_on_after_another_was_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    let (mut first, _said) = start_waiting(&path);
    try_write(&path, 3, |_| ()).unwrap_err();
    // A write to another path in the same directory is unaffected.
    write_dataset(&dir.path().join("b.beton"), 3);
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!((version_at(&path), names(dir.path()).len()), (Some(2), 2));
}

#[test]
fn a_second_writer_of_a_path_is_refused_and_the_first_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    let field = FieldSpec { name: "x".to_owned(), kind: FieldKind::Int };
    let fields = [field];
    let mut refused = None;
    let rows = (0..10).map(|n| {
        if n == 5 {
            let inner = write_iter([], &fields, &path, &WriteOptions::default());
            refused = Some(inner.unwrap_err().to_string());
        }
        vec![FieldValue::Int(n)]
    });
    let report = write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
    assert_eq!(report.samples, 10);
    assert!(refused.unwrap().contains("is being written by another process"));
    assert_eq!(Beton::open(&path, &OpenOptions::default()).unwrap().facts().samples, 10);
}

/// Runs a child whose files may have `kib` KiB. The signal kills the child, or, if the signal is ignored,
/// its write fails.
#[cfg(unix)]
fn limited(path: &Path, kib: u32, is_signal_ignored: bool) -> std::process::ExitStatus {
    let trap = if is_signal_ignored { "trap '' XFSZ; " } else { "" };
    // `ulimit -f` counts blocks of 512 bytes.
    let script = format!("{trap}ulimit -c 0; ulimit -f {}; exec \"$@\"", kib * 2);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
    shell.args(["--exact", "kill::child_writes", "--nocapture"]);
    child_of(shell, path).status().unwrap()
}

/// The system itself refuses further writes: here at the limit of the process, as on a full disk.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_is_an_error_and_the_old_one_stays() {
    use std::os::unix::process::ExitStatusExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    write_dataset(&path, 1);
    for kib in [0, 1, 64, 1024, 11_000] {
        let status = limited(&path, kib, true);
        assert_eq!(status.code(), Some(101), "{kib} KiB: {status}");
        assert_eq!((version_at(&path), names(dir.path()).len()), (Some(1), 1), "{kib} KiB");

        let status = limited(&path, kib, false);
        assert!(status.signal().is_some(), "{kib} KiB: {status}");
        assert_eq!((version_at(&path), partials(dir.path()).len()), (Some(1), 1), "{kib} KiB");
    }
    assert!(limited(&path, 13_000, true).success());
    assert_eq!((version_at(&path), names(dir.path()).len()), (Some(2), 1));
}

#[cfg(unix)]
#[test]
fn a_place_that_takes_no_file_is_an_error() {
    for path in ["/proc/a.beton", "/sys/a.beton", "/dev/null/a.beton", "/nowhere/a.beton"] {
        let start = Instant::now();
        let error = try_write(Path::new(path), 1, |_| panic!("a sample is asked for")).unwrap_err();
        let kinds = [fuseloop::ErrorKind::Io, fuseloop::ErrorKind::NotFound];
        assert!(kinds.contains(&error.kind()), "{error}");
        assert!(error.to_string().contains(": cannot "), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5));
        println!("{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let error = try_write(dir.path(), 1, |_| panic!("a sample is asked for")).unwrap_err();
    assert_eq!(error.to_string(), format!("{:?} is a directory, a file is expected", dir.path()));
}
