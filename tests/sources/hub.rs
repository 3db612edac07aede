//! Datasets of the Hugging Face Hub, on a server that speaks its API: the samples of a local copy, and the token for the
//! Hub alone.
//!
//! The endpoint and the token are set in child processes, each with its own environment.

use crate::common::hub::{COMMIT, Files, Reply, Request, TOKEN, WebServer, as_hub, as_storage};
use fuseloop::internals::assert_says;
use fuseloop::internals::source::open_dataset;
use fuseloop::source::{Dataset, FolderOptions, Source};
use fuseloop::{Loader, Order, SampleId};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const NAME: &str = "FUSELOOP_TEST_HUB_NAME";
const SPLIT: &str = "FUSELOOP_TEST_HUB_SPLIT";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parquet/hub")
}

fn open(name: &Path, split: Option<&str>) -> Result<Arc<dyn Source>, fuseloop::Error> {
    let options = FolderOptions::default();
    let options = match split {
        Some(split) => options.split(split),
        None => options,
    };
    Ok(open_dataset(name, &options)?.source().unwrap())
}

/// The values of all samples, and the labels of a random epoch.
fn values(source: &Arc<dyn Source>) -> Result<String, fuseloop::source::BoxError> {
    let mut text = String::new();
    for sample in 0..source.len() {
        write!(text, "{:?}", source.read(SampleId(sample))?)?;
    }
    if source.fields().iter().any(|field| field.name == "label") {
        let loader = Loader::from_dataset(Dataset::Source(Arc::clone(source)));
        let loader = loader.batch_size(3).order(Order::Random);
        let others = source.fields().iter().filter(|field| field.name != "label");
        let loader = others.fold(loader, |loader, field| loader.without(&field.name));
        for batch in loader.build()?.epoch(1)? {
            write!(text, "{:?}", batch?.tensor::<i64>("label")?.as_slice())?;
        }
    }
    Ok(text)
}

/// Prints what a dataset is, and a checksum of its values. Does nothing unless another test starts it.
#[test]
fn child_describes() {
    let Ok(name) = std::env::var(NAME) else { return };
    let describe = || {
        let source = open(Path::new(&name), std::env::var(SPLIT).ok().as_deref())?;
        let values = values(&source)?;
        let sum =
            values.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let names = source.class_names()?.unwrap_or_default();
        let names: Vec<String> = names.iter().map(|(_, name)| name.to_owned()).collect();
        let line = format!("{}, {} samples, {names:?}, {sum:x}", source.name(), source.len());
        assert!(!format!("{:?}", source.facts()).contains(TOKEN));
        Ok::<_, fuseloop::source::BoxError>(line)
    };
    match describe() {
        Ok(line) => println!("<{line}>"),
        Err(error) => {
            assert!(!format!("{error:?}").contains(TOKEN));
            println!("<error: {error}>");
        }
    }
}

/// A Hub, and the storage that it redirects to.
struct Hub {
    hub: WebServer,
    storage: WebServer,
    files: Arc<Files>,
}

impl Hub {
    /// Serves the files of the golden dataset, and others.
    fn start(others: &[(&str, &str)]) -> Self {
        let mut files: Files = fs::read_dir(golden().join("data"))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                (format!("data/{name}"), fs::read(&path).unwrap())
            })
            .collect();
        files.push((".gitattributes".into(), vec![]));
        files.extend(others.iter().map(|(path, text)| ((*path).into(), text.as_bytes().to_vec())));
        let files = Arc::new(files);
        let of_storage = Arc::clone(&files);
        let storage = WebServer::start(move |request| as_storage(request, &of_storage));
        let (of_hub, base) = (Arc::clone(&files), storage.base());
        let hub = WebServer::start(move |request| as_hub(request, &of_hub, &base));
        Self { hub, storage, files }
    }

    /// Answers some requests to the Hub differently.
    fn instead(&self, answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) {
        let (files, base) = (Arc::clone(&self.files), self.storage.base());
        self.hub.answer(move |request| {
            answer(request).unwrap_or_else(|| as_hub(request, &files, &base))
        });
    }

    fn said(&self, name: &str, split: Option<&str>) -> String {
        self.said_with(name, split, |command| {
            command.env("HF_TOKEN", TOKEN);
        })
    }

    /// What a child says of a dataset.
    fn said_with(&self, name: &str, split: Option<&str>, set: impl FnOnce(&mut Command)) -> String {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hub::child_describes", "--nocapture"]).env(NAME, name);
        for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME", SPLIT] {
            command.env_remove(name);
        }
        for name in ["FUSELOOP_ALLOW_REDIRECTS", "HTTP_PROXY", "http_proxy", "FUSELOOP_CACHE_DIR"] {
            command.env_remove(name);
        }
        command.env("HF_ENDPOINT", self.hub.base() + "/").env("HOME", "/nowhere");
        command.env_remove("XDG_CACHE_HOME");
        split.map(|split| command.env(SPLIT, split));
        set(&mut command);
        let output = command.output().unwrap();
        let text =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(!text.contains(TOKEN), "{text}");
        let said = text.split_once('<').and_then(|(_, rest)| rest.split_once(">\n"));
        said.unwrap_or_else(|| panic!("{text}")).0.to_owned()
    }

    /// The paths of the requests to the Hub that had the token, and those to either that had none.
    fn authorized(&self) -> (Vec<String>, Vec<String>) {
        let (mut with, mut without) = (vec![], vec![]);
        for request in self.hub.take_log().into_iter().chain(self.storage.take_log()) {
            match request.authorization.as_deref() {
                None => without.push(request.line),
                Some(sent) => {
                    assert_eq!(sent, format!("Bearer {TOKEN}"));
                    with.push(request.line);
                }
            }
        }
        (with, without)
    }
}

/// What a child says of the local copy, without its name.
fn said_of_copy(hub: &Hub, split: &str) -> String {
    let said = hub.said(golden().to_str().unwrap(), Some(split));
    said.split_once(" samples").unwrap().1.to_owned()
}

#[test]
fn a_dataset_is_read_as_its_local_copy_and_storage_gets_no_token() {
    let hub = Hub::start(&[]);
    let copy = said_of_copy(&hub, "train");
    assert!(copy.contains("[\"bird\", \"cat\", \"dog\"]"), "{copy}");
    let pinned = format!("hf://datasets/org/name@{COMMIT}");
    let (first, second) =
        ("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet");
    let said = hub.said("hf://datasets/org/name", Some("train"));
    assert_eq!(said, format!("{pinned}/{first} .. {pinned}/{second} (2 shards), 20 samples{copy}"));
    let (with, without) = hub.authorized();
    assert_eq!(with.iter().filter(|line| line.contains("/revision/main?")).count(), 1, "{with:?}");
    assert_eq!(with.iter().filter(|line| line.contains("/tree/")).count(), 2, "pages");
    assert!(with.iter().all(|line| !line.contains("signature")), "{with:?}");
    assert!(
        without.len() >= 2 && without.iter().all(|line| line.contains("signature")),
        "{without:?}"
    );
    // By other names.
    for name in [
        "hf://datasets/org/name@v1",
        "hf://datasets/org/name/data",
        "hf://datasets/org/name/data/*.parquet",
        "hf://datasets/org/name@refs/convert/parquet/data/",
        &format!("{pinned}/data/train-*"),
    ] {
        assert!(hub.said(name, Some("train")).ends_with(&copy), "{name}");
    }
    let one =
        hub.said(&format!("hf://datasets/org/name/{first}::hf://datasets/org/name/{second}"), None);
    assert!(one.ends_with(&copy), "{one}");
    let refused = hub.said("hf://datasets/org/name", None);
    assert_says(&refused, ["several splits (test, train): name one by `split`", COMMIT]);
}

#[test]
fn a_readme_of_the_hub_lists_the_files() {
    let hub = Hub::start(&[(
        "README.md",
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: all\n    path: data/t*\n  - split: few\n    path: \
         ./data/test-*\n---\n# A\n",
    )]);
    assert!(hub.said("hf://datasets/org/name", Some("all")).contains(", 24 samples"));
    assert!(hub.said("hf://datasets/org/name", Some("few")).contains(", 4 samples"));
    assert!(hub.said("hf://datasets/org/name", None).contains("several splits (all, few)"));
}

#[test]
fn the_token_comes_from_its_file_and_can_be_left_out() {
    let hub = Hub::start(&[]);
    let name = "hf://datasets/org/name/data/test-00000-of-00001.parquet";
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("token"), format!("{TOKEN}\n")).unwrap();
    hub.said_with(name, None, |command| {
        command.env("HF_HOME", home.path());
    });
    assert!(!hub.authorized().0.is_empty());
    hub.said_with(name, None, |command| {
        command.env("HF_TOKEN_PATH", home.path().join("token"));
    });
    assert!(!hub.authorized().0.is_empty());
    hub.said_with(name, None, |command| {
        command.env("HF_HOME", home.path()).env("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
    });
    assert!(hub.authorized().0.is_empty());
    let said = hub.said_with(name, None, |command| {
        command.env("HF_TOKEN", TOKEN).env("HF_ENDPOINT", "http://hub.invalid");
    });
    assert_says(&said, ["HF_ENDPOINT is not https://", "HF_HUB_DISABLE_IMPLICIT_TOKEN=1"]);
    let said = hub.said_with(name, None, |command| {
        command.env("HF_TOKEN", format!("{TOKEN} and more"));
    });
    assert_says(&said, ["the token of the Hub has spaces"]);
    let said = hub.said_with(name, None, |command| {
        command.env("HF_ENDPOINT", "hub");
    });
    assert_says(&said, ["HF_ENDPOINT is \"hub\", expected a URL"]);
}

#[test]
fn an_endpoint_may_have_spaces_around_it_and_shows_no_password() {
    let hub = Hub::start(&[]);
    let name = "hf://datasets/org/name/data/test-00000-of-00001.parquet";
    let base = hub.hub.base();
    let said = |endpoint: &str| {
        hub.said_with(name, None, |command| {
            command.env("HF_ENDPOINT", endpoint).env("HF_TOKEN", TOKEN);
        })
    };
    assert!(said(&format!(" {base}/ ")).contains(", 4 samples"));
    hub.instead(|_| Some(Reply::status(401)));
    for login in ["user:secret", "secret", ":secret"] {
        let said = said(&base.replace("//", &format!("//{login}@")));
        assert_says(&said, ["HF_ENDPOINT has an @, expected a URL without a name and password"]);
        assert!(!said.contains("secret"), "{said}");
    }
    // A blank one means the default, which is not asked with this token.
    for blank in ["", " "] {
        let said = hub.said_with(name, None, |command| {
            command.env("HF_ENDPOINT", blank).env("HF_TOKEN", format!("{TOKEN} and more"));
        });
        assert_says(&said, ["the token of the Hub has spaces"]);
    }
}

#[test]
fn refusals_say_what_to_do() {
    let hub = Hub::start(&[]);
    let page = format!("accept its terms at {}/datasets/org/name, and log in", hub.hub.base());
    for status in [401, 403] {
        hub.instead(move |_| Some(Reply::status(status)));
        let said = hub.said("hf://datasets/org/name", Some("train"));
        assert_says(&said, [&*format!("hf://datasets/org/name@main: refused ({status})"), &page]);
        // The list of a gated dataset is public.
        hub.instead(move |request| {
            request.target().contains("/resolve/").then(|| Reply::status(status))
        });
        let said = hub.said("hf://datasets/org/name", Some("train"));
        assert_says(&said, [&*format!("train-00000-of-00002.parquet: refused ({status})"), &page]);
    }
    hub.instead(|_| None);
    let said = hub.said("hf://datasets/org/name@nowhere", Some("train"));
    assert_says(&said, ["hf://datasets/org/name@nowhere: no such dataset, revision or file (404)"]);
    let said = hub.said("hf://datasets/org/name/x.parquet", None);
    assert_says(&said, ["/x.parquet: no such dataset, revision or file (404)"]);
    let said = hub.said("hf://datasets/org/name/folder", None);
    assert_says(&said, ["hf://datasets/org/name/folder: the dataset has no such folder"]);
    let said = hub.said("hf://datasets/org/name/x-*.parquet", None);
    assert_says(&said, ["no file matches"]);
    for (name, why) in [
        ("hf://datasets/name", "expected hf://datasets/ORG/NAME"),
        ("hf://org/name", "only datasets of the Hub are read"),
        ("hf://datasets/org/name@/x.parquet", "the revision behind the @ is empty"),
        ("hf://datasets/org/name/../x.parquet", "an empty part, `.` or `..` in its path"),
        ("hf:/datasets/org/name", "an address has two slashes"),
    ] {
        assert_says(hub.said(name, None), [why]);
    }
}

#[test]
fn a_busy_hub_is_asked_again_when_it_says_so() {
    let hub = Hub::start(&[]);
    let asked = Arc::new(AtomicUsize::new(0));
    hub.instead(move |request| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        match number {
            0 => Some(Reply(429, vec![("retry-after", "2".into())], vec![])),
            2 => Some(Reply::status(500)),
            // Of the ranges of files.
            _ if request.target().contains("/resolve/") && number.is_multiple_of(3) => {
                Some(Reply::status(503))
            }
            _ => None,
        }
    });
    let begun = Instant::now();
    let said = hub.said("hf://datasets/org/name", Some("train"));
    assert!(said.contains("20 samples"), "{said}");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    hub.instead(|_| Some(Reply(429, vec![("retry-after", "300".into())], vec![])));
    let said = hub.said("hf://datasets/org/name", Some("train"));
    assert_says(&said, ["the server is busy (429) and asks to wait 300 s"]);
    let longest = u32::MAX.to_string();
    let expected = format!("asks to wait {longest} s");
    hub.instead(move |_| Some(Reply(429, vec![("retry-after", longest.clone())], vec![])));
    assert_says(hub.said("hf://datasets/org/name", Some("train")), [&*expected]);
}

#[test]
fn answers_that_lie_are_errors() {
    let hub = Hub::start(&[]);
    let tree = |answer: fn(&Request) -> Reply| {
        move |request: &Request| request.target().contains("/tree/").then(|| answer(request))
    };
    let said = |hub: &Hub| hub.said("hf://datasets/org/name", Some("train"));
    let file = |path: &str| Reply::json(format!("[{{\"type\": \"file\", \"path\": \"{path}\"}}]"));
    let paths = ["../x.parquet", "/etc/x.parquet", "a//b", "a/./b", "a\\\\b", "a\\u0000b", ""];
    for path in paths {
        hub.instead(move |request| request.target().contains("/tree/").then(|| file(path)));
        assert_says(
            said(&hub),
            ["the server's answer is not usable", "is not one of a file in the dataset"],
        );
    }
    hub.instead(tree(|_| Reply::json("{}")));
    assert_says(said(&hub), ["not usable: no list of files"]);
    hub.instead(tree(|_| Reply::json("[{\"type\": ")));
    assert_says(said(&hub), ["not usable: EOF while parsing"]);
    hub.instead(tree(|_| Reply::json("[".repeat(100_000))));
    assert_says(said(&hub), ["not usable: recursion limit exceeded"]);
    hub.instead(tree(|_| Reply::json(" ".repeat(9 << 20))));
    assert_says(said(&hub), ["the answer has more than 8388608 bytes"]);
    let page = |link: String| Reply(200, vec![("link", link)], b"[]".to_vec());
    hub.instead(tree(|_| {
        Reply(200, vec![("link", "<http://127.0.0.1:1/x>; rel=\"next\"".into())], b"[]".to_vec())
    }));
    assert_says(said(&hub), ["the next page of its list is on another server"]);
    hub.instead(move |request| {
        let target = request.target();
        target.contains("/tree/").then(|| page(format!("<{target}>; rel=\"next\"")))
    });
    assert_says(said(&hub), ["its list goes back to a page that was there before"]);
    let count = AtomicUsize::new(0);
    hub.instead(move |request| {
        let next = format!("<?cursor={}>; rel=\"next\"", count.fetch_add(1, Ordering::Relaxed));
        request.target().contains("/tree/").then(|| page(next))
    });
    assert_says(said(&hub), ["its list has more than 1048576 files"]);
    // Pages of a thousand long paths, 4 MB each.
    let count = AtomicUsize::new(0);
    hub.instead(move |request| {
        if !request.target().contains("/tree/") {
            return None;
        }
        let (page, name) = (count.fetch_add(1, Ordering::Relaxed), "x".repeat(4000));
        let file =
            |file: usize| format!("{{\"type\": \"file\", \"path\": \"{page}/{file}/{name}\"}}");
        let files: Vec<_> = (0..1000).map(file).collect();
        let link = vec![("link", format!("<?cursor={page}>; rel=\"next\""))];
        let link = if page < 40 { link } else { vec![] };
        Some(Reply(200, link, format!("[{}]", files.join(", ")).into_bytes()))
    });
    assert_says(said(&hub), ["the paths of its files have more than 134217728 bytes"]);
    hub.instead(|request| {
        request.target().contains("/revision/").then(|| Reply::json("{\"sha\": \"main\"}"))
    });
    assert_says(said(&hub), ["no commit of 40 hexadecimal digits"]);
}

#[test]
fn storage_that_lies_is_an_error() {
    let hub = Hub::start(&[]);
    let name = "hf://datasets/org/name/data/test-00000-of-00001.parquet";
    hub.instead(|request| {
        let target = request.target();
        target.contains("/resolve/").then(|| Reply::redirect(target.to_owned()))
    });
    assert_says(
        hub.said(name, None),
        ["exceeds the limit of 10: the server at ", "redirects in a loop"],
    );
    hub.instead(|_| None);
    let files = Arc::clone(&hub.files);
    let count = AtomicUsize::new(0);
    hub.storage.answer(move |request| {
        let reply = as_storage(request, &files);
        let etag = ("etag", format!("\"{}\"", count.fetch_add(1, Ordering::Relaxed)));
        Reply(reply.0, [vec![etag], reply.1.into_iter().skip(1).collect()].concat(), reply.2)
    });
    assert_says(hub.said(name, None), ["the object changed while it was read: open it again"]);
    let files = Arc::clone(&hub.files);
    hub.storage.answer(move |request| {
        let mut reply = as_storage(request, &files);
        let range = request.range.clone().unwrap();
        let lie = format!("bytes {}-{}/{}", range.start, range.end - 1, 1_u64 << 50);
        if let Some(head) = reply.1.get_mut(1) {
            *head = ("content-range", lie);
        }
        reply
    });
    let said = hub.said(name, None);
    assert!(said.starts_with("error: hf://datasets/org/name@"), "{said}");
    hub.storage.answer(|_| Reply(200, vec![], vec![0; 100]));
    assert_says(hub.said(name, None), ["the server does not support range requests"]);
}

/// Parquet files at any address are those on the disk.
#[test]
fn parquet_at_an_address_is_read_as_from_the_disk() {
    let server = crate::common::server::Server::start();
    let shards = ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"];
    for name in shards {
        server.put(&format!("/b/{name}"), fs::read(golden().join("data").join(name)).unwrap());
    }
    let local = values(&open(&golden(), Some("train")).unwrap()).unwrap();
    let name = format!("{}/b/train-{{00000..00001}}-of-00002.parquet", server.base());
    let Dataset::Source(remote) = Dataset::open(&name).unwrap() else { panic!() };
    assert!(values(&remote).unwrap() == local);
    assert!(server.take_log().iter().all(|asked| asked.range.end > asked.range.start));
}
