//! Nothing in a pipeline file or in a dataset is executed, expanded,
//! unpickled or fetched: texts that other loaders would pass to a shell,
//! to `pickle`, to the environment or to the network stay plain texts.
//!
//! Each text would leave a detectable trace if it were interpreted: a file named `trace`, a connection
//! to a port that this test listens on, or the value of an environment variable in an error.

use fuseloop::ops::internals::registry::registry;
use fuseloop::source::OpenOptions;
use fuseloop::source::{
    Dataset, Facts, FieldKind, InMemory, OwnedValue, Source, Tar, TarOptions, TfOptions, TfRecords,
};
use fuseloop::spec::Spec;
use fuseloop::write::{WriteOptions, convert};
use fuseloop::{Epoch, SampleId};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// A folder and a port that show whether a text was interpreted.
struct Trap {
    dir: tempfile::TempDir,
    listener: TcpListener,
}

impl Trap {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { dir: tempfile::tempdir().unwrap(), listener }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Texts that mean something to a shell, a template, a YAML loader, or a network.
    fn texts(&self) -> Vec<String> {
        let trace = self.path("trace").display().to_string();
        let address = self.listener.local_addr().unwrap();
        vec![
            format!("pipe:touch {trace}"),
            format!("|touch {trace}"),
            format!("$(touch {trace})"),
            format!("`touch {trace}`"),
            format!("; touch {trace} #"),
            format!("!!python/object/apply:os.system [\"touch {trace}\"]"),
            format!("__import__(\"os\").system(\"touch {trace}\")"),
            format!("http://{address}/x.toml"),
            format!("https://{address}/x.tar"),
            format!("s3://bucket/{address}"),
            "file:///etc/hostname".to_owned(),
            "/etc/hostname".to_owned(),
            "../../../etc/hostname".to_owned(),
            "~/x".to_owned(),
            "$CARGO_MANIFEST_DIR".to_owned(),
            "${CARGO_MANIFEST_DIR}".to_owned(),
            "%CARGO_MANIFEST_DIR%".to_owned(),
            "{{ env.CARGO_MANIFEST_DIR }}".to_owned(),
        ]
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Asserts that nothing was interpreted: the folder has the same files as before, and nothing has
    /// connected.
    fn assert_untouched(&self, before: &BTreeSet<PathBuf>) {
        assert_eq!(self.files(), *before);
        let called = self.listener.accept().map(|(_, from)| from);
        assert_eq!(called.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

/// An error may repeat its input, but never the value that a variable stands for.
fn assert_is_literal(text: &str, message: &str) {
    let value = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    assert!(!message.contains(&value), "{text} was expanded: {message}");
}

#[test]
fn texts_in_a_pipeline_file_are_only_texts() {
    let trap = Trap::new();
    let before = trap.files();
    let (mut understood, mut refused) = (0, 0);
    let mut parse = |text: &str, toml: &str| match Spec::parse(toml, Path::new("x.toml")) {
        Err(error) => {
            refused += 1;
            assert_is_literal(text, &error.to_string());
        }
        Ok(spec) => {
            understood += 1;
            for field in spec.fields() {
                let made = spec.ops(field, Epoch(0)).map(|ops| format!("{ops:?}"));
                made.map_or_else(
                    |error| assert_is_literal(text, &error.to_string()),
                    |ops| assert_is_literal(text, &ops),
                );
            }
        }
    };
    for text in trap.texts() {
        // In TOML's literal strings only their own quote needs escaping.
        assert!(!text.contains('\''));
        for setting in [
            "order",
            "device",
            "rule",
            "on_damaged",
            "include",
            "extends",
            "import",
            "source",
            "path",
            "env",
            "run",
            "command",
            "exec",
            "url",
        ] {
            parse(&text, &format!("{setting} = '{text}'"));
        }
        parse(&text, &format!("without = ['{text}']"));
        parse(&text, &format!("[fields]\n'{text}' = ['ToChannelsFirst']"));
        parse(&text, &format!("[fields]\nimage = ['{text}']"));
        parse(&text, &format!("[fields]\nimage = [{{ op = '{text}' }}]"));
        parse(&text, &format!("[collate]\n'{text}' = {{ as = '{text}' }}"));
        for op in registry() {
            for param in op.params {
                let (op, param) = (op.name, param.name);
                parse(&text, &format!("[fields]\nimage = [{{ op = '{op}', {param} = '{text}' }}]"));
                parse(
                    &text,
                    &format!("[fields]\nimage = [{{ op = '{op}', {param} = ['{text}'] }}]"),
                );
            }
        }
    }
    // Names of fields may be any text.
    assert!(understood > 0 && refused > 1000, "{understood} understood, {refused} refused");
    trap.assert_untouched(&before);
}

#[test]
fn a_name_of_a_dataset_is_not_a_command() {
    let trap = Trap::new();
    let before = trap.files();
    for text in trap.texts() {
        // A URL is taken literally: it is fetched, or refused in a build without the feature `remote`.
        if text.contains("://") && !text.starts_with("file:") {
            continue;
        }
        let message = match Dataset::open(&text) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{text} was opened"),
        };
        assert_is_literal(&text, &message);
    }
    trap.assert_untouched(&before);
}

/// A pickle that `pickle.loads` would run as `os.system("touch PATH")`.
fn pickle(path: &Path) -> Vec<u8> {
    format!("cos\nsystem\n(S'touch {}'\ntR.", path.display()).into_bytes()
}

/// An array of Python objects, whose data is a pickle.
fn object_array(pickle: &[u8]) -> Vec<u8> {
    let head = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    let head = format!("{head:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    [&bytes[..], head.as_bytes(), pickle].concat()
}

fn tar_file(path: &Path, members: &[(&str, &[u8])]) {
    let mut builder = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, data) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        builder.append_data(&mut header, name, *data).unwrap();
    }
    builder.finish().unwrap();
}

/// WebDataset's own decoders unpickle the first three of these.
#[test]
fn a_pickle_in_a_tar_file_is_bytes() {
    let trap = Trap::new();
    let pickle = pickle(&trap.path("trace"));
    let objects = object_array(&pickle);
    let text = trap.texts().concat().into_bytes();
    let exts = ["pyd", "pkl", "pickle", "pth", "sh", "py", "txt"];
    let names = exts.map(|ext| format!("1.{ext}"));
    let mut members: Vec<(&str, &[u8])> =
        names.iter().map(|name| (&name[..], &pickle[..])).collect();
    members.push(("1.url", &text));
    let path = trap.path("a.tar");
    tar_file(&path, &members);
    let before = trap.files();
    let tar = Tar::open(path.to_str().unwrap(), &TarOptions::default()).unwrap();
    assert_eq!(tar.facts().fields.len(), members.len());
    for (value, (name, data)) in tar.read(SampleId(0)).unwrap().iter().zip(&members) {
        assert_eq!(*value, OwnedValue::Bytes(data.to_vec()), "{name}");
    }
    trap.assert_untouched(&before);

    tar_file(&trap.path("b.tar"), &[("1.npy", &objects), ("1.cls", b"3")]);
    let before = trap.files();
    let refused = match Tar::open(trap.path("b.tar").to_str().unwrap(), &TarOptions::default()) {
        Err(error) => error.to_string(),
        Ok(tar) => tar.read(SampleId(0)).unwrap_err().to_string(),
    };
    assert!(refused.contains("|O") || refused.contains("object"), "{refused}");
    trap.assert_untouched(&before);
}

/// The paths of a table are opened literally, and its other cells are not opened at all.
#[test]
fn cells_of_a_table_are_not_followed() {
    let trap = Trap::new();
    let texts = trap.texts();
    let quoted = |text: &String| format!("\"{}\"", text.replace('"', "\"\""));
    let rows: Vec<String> =
        texts.iter().map(|text| format!("{},{}\n", quoted(text), quoted(text))).collect();
    // A table none of whose first files exists is refused.
    fs::write(trap.path("here.jpg"), "").unwrap();
    fs::write(trap.path("a.csv"), format!("path,note\nhere.jpg,here\n{}", rows.concat())).unwrap();
    let before = trap.files();
    let Ok(dataset) = Dataset::open(trap.path("a.csv")) else { panic!("a table with any texts") };
    let source = dataset.source().unwrap();
    assert_eq!(source.len(), texts.len() as u64 + 1);
    for (sample, text) in (1..).map(SampleId).zip(&texts) {
        // A path that exists, such as `/etc/hostname`, is read, although it is not an image.
        match source.read(sample) {
            Ok(record) => assert_eq!(record[1], OwnedValue::Bytes(text.clone().into_bytes())),
            Err(error) => assert_is_literal(text, &error.to_string()),
        }
    }
    trap.assert_untouched(&before);
}

/// JSON as `.beton` files store it, with a NUL at the end.
fn ended(mut json: Vec<u8>) -> Vec<u8> {
    json.push(0);
    json
}

#[test]
fn values_of_a_beton_and_of_records_are_given_as_they_are() {
    let trap = Trap::new();
    let mut texts: Vec<Vec<u8>> = trap.texts().into_iter().map(String::into_bytes).collect();
    texts.push(pickle(&trap.path("trace")));
    let facts =
        Facts::new([("bytes", FieldKind::Bytes), ("json", FieldKind::Json)], texts.len() as u64);
    let values = texts.clone();
    let made = InMemory::from_fn(facts, move |sample| {
        let text = values[sample.0 as usize].clone();
        let json = serde_json::to_vec(&String::from_utf8_lossy(&text))?;
        Ok(vec![OwnedValue::Bytes(text), OwnedValue::Json(ended(json))])
    });
    for name in ["a.beton", "a.tfrecord", "a.tar"] {
        let path = trap.path(name);
        convert(&made, &path, &WriteOptions::default()).unwrap();
        let before = trap.files();
        let source: Box<dyn Source> = match name {
            "a.beton" => {
                Box::new(fuseloop::source::Beton::open(&path, &OpenOptions::default()).unwrap())
            }
            "a.tar" => Box::new(Tar::open(path.to_str().unwrap(), &TarOptions::default()).unwrap()),
            _ => Box::new(TfRecords::open(path.to_str().unwrap(), &TfOptions::default()).unwrap()),
        };
        for (sample, text) in (0..).map(SampleId).zip(&texts) {
            let text = OwnedValue::Bytes(text.clone());
            let record = source.read(sample).unwrap();
            assert!(record.contains(&text), "{name}: {record:?}");
        }
        trap.assert_untouched(&before);
    }
}
