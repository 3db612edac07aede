//! The files that commands write and read: a full disk leaves no partial file, and the command does not
//! block on a path that is no regular file.
#![cfg(target_os = "linux")]

use crate::dataset;
use fuseloop::write::WriteMode;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer than this is considered hung.
const LONGEST: Duration = Duration::from_secs(30);

const FUSELOOP: &str = env!("CARGO_BIN_EXE_fuseloop");

/// Runs the command in a shell, after the shell commands of `before`.
fn after(before: &str, dir: &Path, args: &[&str]) -> Output {
    let script = format!("{before}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, FUSELOOP]).args(args).current_dir(dir).output().unwrap()
}

/// The output and exit status of a command, which is killed if it hangs.
fn ended(mut child: Child) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > LONGEST {
            child.kill().unwrap();
            panic!("it hangs: {:?}", child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A limit of 4 KiB a file, which all of these commands exceed. The signal that comes with such a limit
/// is ignored, so that writes fail as on a full disk.
#[test]
fn on_a_full_disk_no_half_of_a_file_is_left() {
    let (dir, _) = dataset::write(3000, WriteMode::Raw, |_| fuseloop_ops::Size::new(40, 40));
    let commands: [(&[&str], &str); 5] = [
        (&["preview", "pictures.beton", "-o", "out"], "out"),
        (&["bench", "pictures.beton", "-e", "1", "-n", "40", "--trace", "out"], "out"),
        (&["dump", "pictures.beton", "-o", "folder"], "folder"),
        (&["replay", "pictures.beton", "--sample", "3", "-o", "folder"], "folder"),
        (&["verify", "pictures.beton", "--write-indices", "out"], "out"),
    ];
    for (args, made) in commands {
        for was_there in [false, true] {
            let out = dir.path().join(made);
            if made == "folder" {
                fs::create_dir(&out).unwrap();
            } else if was_there {
                fs::write(&out, "old").unwrap();
            }
            let before = names(dir.path());
            let output = after("trap '' XFSZ; ulimit -f 8", dir.path(), args);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
            assert!(said.contains("File too large"), "{args:?}: {said}");
            assert_eq!(names(dir.path()), before, "{args:?}");
            if made == "folder" {
                let whole = |name: &String| name.ends_with(".npy") || name.ends_with(".png");
                let found = names(&out);
                assert!(found.iter().all(whole), "{args:?}: {found:?}");
                let lens = found.iter().map(|name| fs::metadata(out.join(name)).unwrap().len());
                assert!(lens.into_iter().all(|len| len > 0 && len < 4096), "{args:?}: {found:?}");
                fs::remove_dir_all(&out).unwrap();
            } else if was_there {
                assert_eq!(fs::read(&out).unwrap(), b"old", "{args:?}");
                fs::remove_file(&out).unwrap();
            }
        }
    }
}

#[test]
fn a_file_is_written_whole_wherever_it_goes() {
    let (dir, _) = dataset::write(20, WriteMode::Jpg, dataset::varied);
    let preview = |out: &str| {
        let output = after(":", dir.path(), &["preview", "pictures.beton", "-n", "2", "-o", out]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    preview("sheet.png");
    let sheet = fs::read(dir.path().join("sheet.png")).unwrap();
    // The target of the link is replaced, and the link stays.
    fs::write(dir.path().join("real.png"), "old").unwrap();
    symlink("real.png", dir.path().join("link.png")).unwrap();
    preview("link.png");
    assert!(fs::read(dir.path().join("real.png")).unwrap() == sheet);
    assert!(dir.path().join("link.png").is_symlink());
    // A path that is no regular file can't be replaced by one: the command writes to it directly.
    let stdout = preview("/dev/stdout");
    assert!(stdout.windows(sheet.len()).any(|part| part == sheet), "the sheet is not in the pipe");
    preview("/dev/null");
    assert!(!Path::new("/dev/null").is_file());
    assert_eq!(names(dir.path()), ["link.png", "pictures.beton", "real.png", "sheet.png"]);
}

#[test]
fn a_pipeline_that_is_no_regular_file_is_refused_at_once() {
    let (dir, _) = dataset::write(3, WriteMode::Jpg, dataset::varied);
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    fs::create_dir(dir.path().join("folder")).unwrap();
    for pipeline in ["fifo", "/dev/zero", "folder"] {
        let child = Command::new(FUSELOOP)
            .args(["bench", "pictures.beton", "-p", pipeline])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let output = ended(child.unwrap());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("not a regular file"), "{pipeline}: {said}");
    }
    // The file is refused by its length alone: it is not read.
    fs::File::create(dir.path().join("long.toml")).unwrap().set_len(1 << 33).unwrap();
    let output = after(":", dir.path(), &["bench", "pictures.beton", "-p", "long.toml"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("more than"), "{output:?}");
}

#[test]
fn the_map_of_perf_is_a_new_file_whatever_lies_there() {
    let (dir, _) = dataset::write(3, WriteMode::Jpg, dataset::varied);
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    // `exec` keeps the process id of the shell.
    let script = "ln -s \"$PWD/victim\" /tmp/perf-$$.map && exec \"$0\" explain pictures.beton";
    let child = Command::new("sh")
        .args(["-c", script, FUSELOOP])
        .current_dir(dir.path())
        .env("FUSELOOP_PERF", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let map = format!("/tmp/perf-{}.map", child.id());
    assert!(ended(child).status.success());
    let (kept, found) = (fs::read(&victim).unwrap(), fs::symlink_metadata(&map).unwrap());
    let names = fs::read_to_string(&map).unwrap();
    fs::remove_file(&map).unwrap();
    assert_eq!(kept, b"mine", "written through the link");
    assert!(found.is_file() && names.contains("fuseloop::image"), "{names}");
}
