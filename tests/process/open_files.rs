//! A process opens far more shards than it may have open files, and reads all of them.
//!
//! The limit of open files is set by the shell of a child process.
#![cfg(unix)]

use fuseloop::SampleId;
use fuseloop::source::{Buffer, Dataset, Value};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const SHARDS: usize = 30;
const DATASETS: usize = 4;

/// The environment variable that names the folder of the datasets to the child.
const FOLDER: &str = "FUSELOOP_TEST_FOLDER";

/// Writes shards of two samples each, whose classes are their numbers.
fn write_shards(dir: &Path, dataset: usize) {
    for shard in 0..SHARDS {
        let path = dir.join(format!("{dataset}-{shard:03}.tar"));
        let mut archive = tar::Builder::new(fs::File::create(path).unwrap());
        for key in 0..2 {
            let value = number(dataset, 2 * shard + key).to_string();
            let mut header = tar::Header::new_ustar();
            header.set_size(value.len() as u64);
            header.set_mode(0o644);
            let name = format!("{key}.cls");
            archive.append_data(&mut header, name, value.as_bytes()).unwrap();
        }
        archive.finish().unwrap();
    }
}

fn number(dataset: usize, sample: usize) -> i64 {
    (1000 * dataset + sample) as i64
}

#[test]
fn child_with_few_files() {
    let Some(dir) = env::var_os(FOLDER) else { return };
    let open = |dataset| {
        let name =
            format!("{}/{dataset}-{{000..{:03}}}.tar", Path::new(&dir).display(), SHARDS - 1);
        Dataset::open(name).unwrap().source().unwrap()
    };
    let datasets: Vec<_> = (0..DATASETS).map(open).collect();
    // Other files of the program, as many as the system has room for: the pool makes more.
    let mut others = vec![];
    while let Ok(file) = fs::File::open(env::current_exe().unwrap()) {
        others.push(file);
    }
    others.pop();
    let mut buffer = Buffer::default();
    for round in 0..3 {
        for step in 0..2 * SHARDS {
            let sample = (step * 7 + round) % (2 * SHARDS);
            for (dataset, source) in datasets.iter().enumerate() {
                let found = source.value(SampleId(sample as u64), 0, &mut buffer).unwrap();
                let Value::Int(found) = found else { panic!("{found:?}") };
                assert_eq!(found, number(dataset, sample), "dataset {dataset}, sample {sample}");
            }
        }
    }
    println!("all shards were read");
}

#[test]
fn datasets_of_more_shards_than_a_process_may_open_are_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    (0..DATASETS).for_each(|dataset| write_shards(dir.path(), dataset));
    let child = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 64; exec \"$0\" --exact open_files::child_with_few_files --nocapture",
        ])
        .arg(env::current_exe().unwrap())
        .env(FOLDER, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}\n{errors}");
    assert!(said.contains("all shards were read"), "{said}");
}
