//! Datasets at URLs: they yield the batches of a local file, whatever serves them; and the settings of
//! the environment.
//!
//! The settings of the environment are tested in child processes, each with its own environment.

use crate::common::dataset;
use crate::common::server::{Answer, Asked, Server};
use fuseloop::internals::assert_says;
use fuseloop::internals::source::beton::PagedBeton;
use fuseloop::ops::{Resize, ops};
use fuseloop::source::{Beton, Dataset, OpenOptions, ProcessCache, ReadAt, Source, remote};
use fuseloop::write::WriteMode;
use fuseloop::{Loader, Order, SampleId};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The environment variables that give a child the URL to read, and a file with the expected bytes.
const URL: &str = "FUSELOOP_TEST_URL";
const FILE: &str = "FUSELOOP_TEST_FILE";

/// The pixels and labels of an epoch.
fn epoch(source: impl Source, epoch: u32) -> Vec<(Vec<u8>, Vec<i64>)> {
    let loader = Loader::from_source(source)
        .batch_size(8)
        .order(Order::Random)
        .drop_last(false)
        .workers(3)
        .pipeline("image", ops![Resize::new((40, 40)).unwrap()])
        .build()
        .unwrap();
    let batches = loader.epoch(epoch).unwrap().map(|batch| {
        let batch = batch.unwrap();
        let image = batch.tensor::<u8>("image").unwrap().as_slice().to_vec();
        (image, batch.tensor::<i64>("label").unwrap().as_slice().to_vec())
    });
    batches.collect()
}

fn beton(url: &str) -> Beton {
    Beton::from_reader(remote::object(url).unwrap(), &OpenOptions::default()).unwrap()
}

#[test]
fn batches_are_those_of_the_file() {
    let (_dir, path) = dataset::write(100, WriteMode::Jpg, dataset::varied);
    let server = Server::start();
    let url = server.put("/a.beton", std::fs::read(&path).unwrap());
    // Some requests fail.
    server.answer(|asked| match asked.number % 5 {
        1 => Answer::Status(503),
        3 => Answer::Cut(1000),
        _ => Answer::Well,
    });
    let want = epoch(Beton::open(&path, &OpenOptions::default()).unwrap(), 1);
    assert_eq!(want.len(), 13);
    assert!(epoch(beton(&url), 1) == want);
    let paged = PagedBeton::new(beton(&url), ProcessCache::default());
    assert!(epoch(paged, 1) == want);
}

#[test]
fn reads_are_fine_on_the_threads_of_an_async_runtime() {
    let server = Server::start();
    let url = server.put("/a", vec![7; 100_000]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let got = runtime.block_on(async move {
        let mut bytes = [0; 10];
        remote::object(&url).unwrap().read_at(&mut bytes, 5).unwrap();
        bytes
    });
    assert_eq!(got, [7; 10]);
}

// --- Children ---------------------------------------------------------------------------------

fn child(url: &str, file: &Path) -> Command {
    child_of("remote::child_reads", url, file)
}

fn child_of(test: &str, url: &str, file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(URL, url).env(FILE, file);
    let others = ["FUSELOOP_ALLOW_REDIRECTS", "HTTP_PROXY", "http_proxy"];
    let budgets = [
        "FUSELOOP_MAX_REQUESTS",
        "FUSELOOP_REQUESTS_PER_SECOND",
        "FUSELOOP_RETRY_BUDGET",
        "FUSELOOP_HEDGE_BUDGET",
    ];
    let cache = ["FUSELOOP_CACHE_DIR", "FUSELOOP_CACHE_BYTES"];
    for name in cache.into_iter().chain(others).chain(budgets) {
        command.env_remove(name);
    }
    command
}

/// Runs a child until it ends.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(text.into_owned()) }
}

/// Does nothing unless another test starts it.
#[test]
fn child_reads() {
    let (Ok(url), Some(file)) = (std::env::var(URL), std::env::var_os(FILE)) else { return };
    let want = std::fs::read(file).unwrap();
    let object = remote::object(&url).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(object.len().unwrap(), want.len() as u64);
    let mut bytes = vec![0; 70_000];
    for start in (0..want.len()).step_by(50_000) {
        let count = object.read_at(&mut bytes, start as u64).unwrap();
        assert!(count > 0 && bytes[..count] == want[start..start + count]);
    }
    let remote::RemoteStats { requests, retries, hedges_won, .. } = remote::stats();
    println!("<{requests} requests, {retries} retries, {hedges_won} hedges won>");
}

/// Prints what a dataset is. Does nothing unless another test starts it.
#[test]
fn child_describes() {
    let Ok(url) = std::env::var(URL) else { return };
    let describe = || {
        let dataset = Dataset::open(&url)?;
        let source = dataset.source().unwrap();
        for sample in 0..source.len() {
            source.read(SampleId(sample))?;
        }
        let names = source.class_names()?.unwrap_or_default();
        let names: Vec<String> =
            names.iter().map(|(number, name)| format!("{number}={name}")).collect();
        Ok::<_, fuseloop::source::BoxError>(format!(
            "{}, {} samples, {names:?}",
            source.name(),
            source.len()
        ))
    };
    println!("<{}>", describe().unwrap_or_else(|error| format!("error: {error}")));
}

/// What a child says of the dataset of this name, on an S3 server.
fn described(url: &str, server: &Server, set: impl FnOnce(&mut Command)) -> String {
    let mut command = child_of("remote::child_describes", url, Path::new(""));
    command.env("AWS_ENDPOINT_URL", server.base()).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_SKIP_SIGNATURE", "true").env("AWS_REGION", "us-east-1");
    set(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = text.split_once('<').and_then(|(_, rest)| rest.rsplit_once(">\n"));
    said.unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

#[test]
fn a_pattern_finds_the_objects_of_a_bucket_page_by_page() {
    let server = Server::start();
    let (_dir, path) = dataset::write(3, WriteMode::Jpg, dataset::varied);
    let bytes = std::fs::read(&path).unwrap();
    let others = [
        "x/val-0.beton",
        "x/train-9.tar",
        "x/train-1/a.beton",
        "x/.train-1.beton",
        "train-0.beton",
    ];
    for key in ["x/train-10.beton", "x/train-2.beton", "x/train-1.beton"].iter().chain(&others) {
        server.put(&format!("/bucket/{key}"), bytes.clone());
    }
    let said = |url: &str| described(url, &server, |_| {});
    let three = "s3://bucket/x/train-1.beton and 2 more, 9 samples, []";
    assert_eq!(said("s3://bucket/x/train-*.beton"), three);
    let lists = server.take_lists();
    assert!(
        lists.len() >= 2 && lists.iter().all(|query| query.contains("prefix=x%2Ftrain-")),
        "{lists:?}"
    );
    assert!(lists.iter().all(|query| query.contains("delimiter=%2F")), "{lists:?}");
    assert!(
        said("s3://bucket/x/train-?.beton").ends_with("x/train-1.beton and 1 more, 6 samples, []")
    );
    assert_eq!(said("s3://bucket/x/*/a.beton"), "s3://bucket/x/train-1/a.beton, 3 samples, []");
    assert_eq!(
        said("s3://bucket/x/tran-*.beton"),
        "error: s3://bucket/x/tran-*.beton: no file matches"
    );
    // An object is meant by its own name.
    server.put("/bucket/y/a?.beton", bytes.clone());
    server.put("/bucket/y/ab.beton", bytes);
    assert_eq!(said("s3://bucket/y/a?.beton"), "s3://bucket/y/a?.beton, 3 samples, []");
    let web = server.base() + "/bucket/x/train-*.beton?sig=secret";
    let refusal = said(&web);
    assert_says(&refusal, ["a web server has no list of its files, so `*` finds none"]);
    assert!(!refusal.contains("secret"), "{refusal}");
    server.answer_lists(403);
    let refusal = said("s3://bucket/x/train-*.beton");
    let want = "error: s3://bucket/x/train-*.beton: the list of the bucket is refused (403): set AWS_ACCESS_KEY_ID";
    assert!(
        refusal.starts_with(want) && refusal.contains("or name the files by braces"),
        "{refusal}"
    );
}

#[test]
fn class_names_beside_a_remote_dataset_are_read_and_its_name_is_its_address() {
    let server = Server::start();
    let (_dir, path) = dataset::write(3, WriteMode::Jpg, dataset::varied);
    let url = server.put("/b/a.beton", std::fs::read(&path).unwrap());
    let said = |url: &str| described(url, &server, |_| {});
    assert_eq!(said(&url), format!("{url}, 3 samples, []"));
    let names = r#"{"fuseloop":"classes","version":1,"classes":[{"number":1,"name":"ape"}]}"#;
    server.put("/b/a.beton.classes.json", names);
    assert_eq!(said(&url), format!("{url}, 3 samples, [\"1=ape\"]"));
    assert_eq!(said("s3://b/a.beton"), "s3://b/a.beton, 3 samples, [\"1=ape\"]");
    // A signature holds for one object.
    assert_eq!(said(&format!("{url}?sig=x")), format!("{url}, 3 samples, []"));
    server.put("/b/a.beton.classes.json", &names[..40]);
    let damaged = said(&url);
    assert_says(&damaged, ["a.beton.classes.json: ", "repair it"]);
    // A damaged sample is named by its address.
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xff);
    let url = server.put("/b/damaged.beton", bytes);
    let said = said(&url);
    assert!(said.starts_with(&format!("error: {url}: ")), "{said}");
}

#[test]
fn an_endpoint_by_plain_http_is_refused_at_once_with_the_variable_that_allows_it() {
    let server = Server::start();
    let said = described("s3://bucket/a.beton", &server, |command| {
        command.env_remove("AWS_ALLOW_HTTP");
    });
    let want = format!(
        "error: s3://bucket/a.beton: AWS_ENDPOINT_URL is {}, which sends data and names unencrypted: \
         set AWS_ALLOW_HTTP=true to allow it, or use https://",
        server.base()
    );
    assert_eq!(said, want);
    let host = server.base().replace("http://", "");
    let said = described("s3://bucket/a.beton", &server, |command| {
        command.env("AWS_ENDPOINT_URL", &host);
    });
    assert!(said.contains(&format!("AWS_ENDPOINT_URL is {host:?}, expected a URL")), "{said}");
    assert!(!said.contains("tried"), "{said}");
    // A server that speaks HTTP alone, as most answer the greeting of TLS.
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in plain.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let said = described("s3://bucket/a.beton", &server, |command| {
        command.env("AWS_ENDPOINT_URL", format!("https://{address}"));
    });
    assert!(said.contains("the server does not answer by https: check the port"), "{said}");
    assert!(!said.contains("tried"), "{said}");
}

/// A file of pseudo-random bytes.
fn file(len: usize) -> tempfile::NamedTempFile {
    let bytes: Vec<u8> = (0..len as u64).map(|k| (k.wrapping_mul(k) >> 7) as u8).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

#[test]
fn the_environment_names_an_endpoint_of_s3() {
    let (server, file) = (Server::start(), file(300_000));
    server.put("/bucket/a b/c.tar", std::fs::read(file.path()).unwrap());
    let mut command = child("s3://bucket/a b/c.tar", file.path());
    command.env("AWS_ENDPOINT_URL", server.base()).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_SKIP_SIGNATURE", "true").env("AWS_REGION", "us-east-1");
    run(&mut command).unwrap();
    assert!(!server.take_log().is_empty());
    server.answer(|_| Answer::Status(403));
    let message = run(&mut command).unwrap_err();
    let want = "s3://bucket/a b/c.tar: bytes 0..70000: refused (403): set AWS_ACCESS_KEY_ID";
    assert!(message.contains(want), "{message}");
}

#[test]
fn that_there_are_no_credentials_is_told() {
    let file = file(10);
    let mut command = child("s3://bucket/a", file.path());
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SKIP_SIGNATURE"] {
        command.env_remove(name);
    }
    command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1");
    let message = run(&mut command).unwrap_err();
    let want = "s3://bucket/a: no credentials found: set AWS_ACCESS_KEY_ID";
    assert!(message.contains(want), "{message}");
}

#[test]
fn the_environment_names_an_endpoint_of_google() {
    let (server, file) = (Server::start(), file(300_000));
    server.put("/bucket/a.tar", std::fs::read(file.path()).unwrap());
    let mut command = child("gs://bucket/a.tar", file.path());
    command.env("GOOGLE_BASE_URL", server.base()).env("GOOGLE_SKIP_SIGNATURE", "true");
    command.env("GOOGLE_ALLOW_HTTP", "true");
    run(&mut command).unwrap();
    assert!(!server.take_log().is_empty());
}

#[test]
fn the_environment_lists_the_hosts_that_redirects_may_lead_to() {
    let (here, there, file) = (Server::start(), Server::start(), file(300_000));
    let url = here.redirect("/a", &there.put("/b", std::fs::read(file.path()).unwrap()));
    let message = run(&mut child(&url, file.path())).unwrap_err();
    let host = there.base()["http://".len()..].to_owned();
    assert!(message.contains(&format!("set FUSELOOP_ALLOW_REDIRECTS={host}")), "{message}");
    assert!(there.heads() == 0 && there.take_log().is_empty());
    run(child(&url, file.path()).env("FUSELOOP_ALLOW_REDIRECTS", host)).unwrap();
    assert!(there.heads() > 0 && !there.take_log().is_empty());
}

#[test]
fn settings_that_are_not_supported_are_told() {
    let file = file(10);
    let mut command = child("s3://bucket/a", file.path());
    command.env("AWS_SKIP_SIGNATURE", "true").env("AWS_ALLOW_INVALID_CERTIFICATES", "true");
    let message = run(&mut command).unwrap_err();
    let want = "s3://bucket/a: invalid settings: allow_invalid_certificates is not supported: \
                name the certificate to trust in SSL_CERT_FILE";
    assert!(message.contains(want), "{message}");
}

#[test]
fn without_the_environment_no_file_is_made_and_half_of_it_is_an_error() {
    let (server, file) = (Server::start(), file(100_000));
    let url = server.put("/a", std::fs::read(file.path()).unwrap());
    let here = tempfile::tempdir().unwrap();
    run(child(&url, file.path()).current_dir(&here).env("HOME", here.path())).unwrap();
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0);
    let mut command = child(&url, file.path());
    let refusal = run(command.env("FUSELOOP_CACHE_DIR", here.path())).unwrap_err();
    assert_says(&refusal, ["FUSELOOP_CACHE_BYTES is \"\", expected a number of bytes"]);
    let outcome =
        run(command.env("FUSELOOP_CACHE_BYTES", "1").env("FUSELOOP_CACHE_DIR", file.path()));
    assert!(
        outcome.as_ref().is_err_and(|message| message.contains("FUSELOOP_CACHE_DIR \"")),
        "{outcome:?}"
    );
}

/// Processes that are killed at many moments while they fill one folder together leave a folder that the
/// next process can use.
#[test]
fn the_folder_of_processes_that_are_killed_is_whole() {
    let (server, file) = (Server::start(), file(5_000_000));
    let url = server.put("/a", std::fs::read(file.path()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let cached = || {
        let mut command = child(&url, file.path());
        command.env("FUSELOOP_CACHE_DIR", folder.path()).env("FUSELOOP_CACHE_BYTES", "1000000000");
        command.stdout(Stdio::null());
        command
    };
    server.latency(Duration::from_millis(1));
    for round in 0..20 {
        let mut children = [cached().spawn().unwrap(), cached().spawn().unwrap()];
        std::thread::sleep(Duration::from_millis(3 + round * 7 % 60));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    run(&mut cached()).unwrap();
    server.take_log();
    run(&mut cached()).unwrap();
    assert_eq!(server.take_log(), []);
}

/// Asserts that the ranges of these requests, in order, are all bytes of an object, each once.
fn assert_each_once(mut asked: Vec<Asked>, len: u64) {
    asked.sort_by_key(|asked| asked.range.start);
    let end = asked
        .iter()
        .try_fold(0, |end, asked| (end == asked.range.start).then_some(asked.range.end));
    assert_eq!(end, Some(len), "{asked:?}");
}

/// The ranks of a machine that share a folder: one download per machine.
#[test]
fn processes_that_share_a_folder_fetch_each_block_once() {
    let (server, file) = (Server::start(), file(5_000_000));
    let url = server.put("/a", std::fs::read(file.path()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    server.latency(Duration::from_millis(2));
    let ranks: Vec<_> = (0..8)
        .map(|_| {
            let mut command = child(&url, file.path());
            command
                .env("FUSELOOP_CACHE_DIR", folder.path())
                .env("FUSELOOP_CACHE_BYTES", "1000000000");
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut rank in ranks {
        assert!(rank.wait().unwrap().success());
    }
    assert_each_once(server.take_log(), 5_000_000);
}

/// A process is killed while it fetches a block that another one waits for.
#[cfg(unix)]
#[test]
fn the_block_of_a_process_that_is_killed_is_fetched_by_one_that_waits() {
    let (server, file) = (Server::start(), file(2_000_000));
    let url = server.put("/a", std::fs::read(file.path()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let rank = || {
        let mut command = child(&url, file.path());
        command.env("FUSELOOP_CACHE_DIR", folder.path()).env("FUSELOOP_CACHE_BYTES", "1000000000");
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    server.answer(|asked| if asked.number == 0 { Answer::Hang } else { Answer::Well });
    let wait_for = |is_so: &mut dyn FnMut() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            // Less than the minute for which a process that hangs is waited for.
            assert!(begun.elapsed() < Duration::from_secs(40), "nothing happens");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut first = rank();
    wait_for(&mut || !server.answers().is_empty());
    let mut others = [rank(), rank(), rank()];
    wait_for(&mut || server.heads() == 4);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.answers(), [Answer::Hang], "the others wait");
    first.kill().unwrap();
    first.wait().unwrap();
    for other in &mut others {
        wait_for(&mut || other.try_wait().unwrap().is_some());
        assert!(other.wait().unwrap().success());
    }
    assert_each_once(server.take_log().split_off(1), 2_000_000);
}

/// Some answers never come. A request without a byte for 15 seconds would be sent again, and count as a retry.
#[test]
fn the_environment_allows_hedges_and_they_end_requests_that_hang() {
    let (server, file) = (Server::start(), file(5_000_000));
    let url = server.put("/a", std::fs::read(file.path()).unwrap());
    server.answer(|asked| match asked.number {
        40 | 60 | 80 => Answer::Hang,
        _ => Answer::Well,
    });
    let output = child(&url, file.path()).env("FUSELOOP_HEDGE_BUDGET", "0.2").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let counts = text.split_once('<').unwrap().1.split_once('>').unwrap().0;
    let numbers = counts.split(' ').filter_map(|word| word.parse().ok());
    let [requests, retries, won] = numbers.collect::<Vec<usize>>().try_into().unwrap();
    // 100 ranges, the length of the object, and the hedges.
    assert!(requests >= 104 && retries == 0 && won >= 3, "{counts}");
    // A hedge that is cancelled at once may not arrive.
    let arrived = server.take_log().len() + server.heads();
    assert!((104..=requests).contains(&arrived), "{arrived} of {counts}");
}

#[test]
fn a_variable_that_is_no_budget_is_an_error_that_names_it() {
    let (server, file) = (Server::start(), file(1000));
    let url = server.put("/a", std::fs::read(file.path()).unwrap());
    for (name, value, says) in [
        (
            "FUSELOOP_MAX_REQUESTS",
            "0",
            "FUSELOOP_MAX_REQUESTS is \"0\", expected a number of 1 or more",
        ),
        ("FUSELOOP_REQUESTS_PER_SECOND", "x", "expected a number of 1 or more"),
        (
            "FUSELOOP_HEDGE_BUDGET",
            "5 %",
            "FUSELOOP_HEDGE_BUDGET is \"5 %\", expected a share such as 0.05",
        ),
        ("FUSELOOP_RETRY_BUDGET", "5", "retry_budget is 5, expected a share from 0 to 1"),
    ] {
        let refusal = run(child(&url, file.path()).env(name, value)).unwrap_err();
        assert_says(&refusal, [says]);
    }
    assert_eq!(server.heads(), 0);
}
