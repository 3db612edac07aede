//! Tests of which files of a folder are samples, and which are not.

use super::*;
use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind};
use crate::sample::Limits;
use crate::source::file::read_file;
use crate::source::file::tests::folder;
#[cfg(feature = "tables")]
use crate::source::{ClassNames, FieldKind};
use crate::source::{ImageMode, OwnedImage, OwnedValue};
use crate::testing::assert_says;
use std::collections::BTreeSet;

const JPEG: &[u8] = &[0xff, 0xd8, 0xff, 0xd9];

fn tree(files: &[&str]) -> tempfile::TempDir {
    folder(&files.iter().map(|file| (*file, JPEG)).collect::<Vec<_>>())
}

fn open(spec: impl AsRef<Path>) -> Result<Folder, Error> {
    Folder::list(spec.as_ref(), &FolderOptions::default())
}

fn rows(folder: &Folder) -> Vec<(String, i64)> {
    let row = |sample| match column(folder, sample, 1) {
        Ok(Value::Int(label)) => (key(folder, sample), label),
        other => panic!("{other:?}"),
    };
    (0..folder.len()).map(SampleId).map(row).collect()
}

/// Returns a value that lies in memory.
fn column(folder: &Folder, sample: SampleId, field: usize) -> Result<Value<'_>, Error> {
    folder.columns.find(sample, field)?;
    Ok(StoredValues::value_in_memory(&folder.columns, sample, field).unwrap())
}

fn key(folder: &Folder, sample: SampleId) -> String {
    folder.locate(sample, 0).unwrap().key.unwrap().to_string()
}

fn row(key: &str, label: i64) -> (String, i64) {
    (key.to_owned(), label)
}

fn reasons(folder: &Folder) -> Vec<&'static str> {
    folder.ignored().first.iter().map(|(_, reason)| *reason).collect()
}

/// Returns a function that shows an ignored path, relative to the folder, and the reason.
fn said(dir: &Path) -> impl Fn(&(PathBuf, &'static str)) -> String {
    move |(path, reason)| format!("{}: {reason}", path.strip_prefix(dir).unwrap().display())
}

/// The reader of whole files reads into fresh memory, as the helper expects.
#[test]
fn a_file_that_is_cut_while_it_is_read_gives_no_zeros() {
    use crate::source::file::tests::{SIZE, read_while_it_is_cut};
    read_while_it_is_cut(Path::to_owned, |path, mut memory| {
        read_file(path, SIZE, &mut memory).ok().filter(|()| memory.len() as u64 == SIZE)?;
        Some(memory)
    });
}

#[test]
fn the_order_is_that_of_torchvision() {
    let golden = include_str!("../../../tests/golden/folder/imagefolder.txt");
    let want: Vec<(String, i64)> = golden
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(label, path)| row(path, label.parse().unwrap()))
        .collect();
    let mut files: Vec<&str> = want.iter().map(|(path, _)| &path[..]).collect();
    files.reverse();
    files.extend(["a/notes.txt", "a/deep/notes.md", "a/.hidden.jpg", ".git/x.jpg"]);
    let dir = tree(&files);
    let folder = open(dir.path()).unwrap();
    assert_eq!(rows(&folder), want);
    assert_eq!(folder.classes().len(), 7);
    assert_eq!(folder.ignored().count, 4);
    // Names that begin with a dot are counted; torchvision takes them for classes and samples.
    let reasons: Vec<String> = folder.ignored().first.iter().map(said(dir.path())).collect();
    let dot = "its name begins with a dot";
    assert!(reasons.contains(&format!(".git: {dot}")), "{reasons:?}");
    assert!(reasons.contains(&format!("a/.hidden.jpg: {dot}")), "{reasons:?}");
}

#[test]
fn a_sample_is_its_file_and_its_class() {
    let dir = tree(&["cat/1.jpg", "dog/2.jpg"]);
    let png = [&b"\x89PNG\r\n\x1a\n"[..], b"..."].concat();
    fs::write(dir.path().join("dog/2.jpg"), &png).unwrap();
    let folder = open(dir.path()).unwrap();
    let image = |mode, bytes: &[u8]| {
        OwnedValue::Image(OwnedImage { mode, width: 0, height: 0, bytes: bytes.to_vec() })
    };
    let want = [
        vec![image(ImageMode::Jpeg, JPEG), OwnedValue::Int(0)],
        vec![image(ImageMode::Png, &png), OwnedValue::Int(1)],
    ];
    let mut buffer = Buffer::default();
    for (sample, want) in (0..).map(SampleId).zip(want) {
        assert_eq!(folder.read(sample).unwrap(), want);
        for (field, want) in want.iter().enumerate() {
            let value = folder.value(sample, field, &mut buffer).unwrap();
            assert_eq!(OwnedValue::from(value), *want);
            assert!(want.fits(&folder.facts().fields[field].kind));
        }
    }
    assert!(folder.read(SampleId(2)).is_err() && folder.locate(SampleId(2), 0).is_none());
    assert!(folder.value(SampleId(0), 2, &mut buffer).is_err());
}

#[test]
fn a_file_that_is_gone_or_too_long_is_its_samples_error() {
    let dir = tree(&["a/1.jpg", "a/2.jpg", "a/3.jpg"]);
    let limits = Limits { max_sample_bytes: 10, ..Limits::SMALL };
    let folder = Folder::open(dir.path(), &FolderOptions::default().limits(limits)).unwrap();
    fs::remove_file(dir.path().join("a/1.jpg")).unwrap();
    fs::write(dir.path().join("a/2.jpg"), [0; 11]).unwrap();
    let message = |sample| folder.read(SampleId(sample)).unwrap_err().to_string();
    assert!(message(0).contains("a/1.jpg: No such file"), "{}", message(0));
    assert!(message(1).ends_with("a/2.jpg: 11 bytes, the limit is 10"), "{}", message(1));
    assert!(folder.read(SampleId(2)).is_ok());
    let few = Limits { max_samples: 1, ..Limits::SMALL };
    let error = Folder::open(dir.path(), &FolderOptions::default().limits(few));
    let error = error.unwrap_err();
    assert!(error.to_string().ends_with("2 images, the limit is 1"), "{error}");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    fn links(dir: &Path, links: Links) -> Folder {
        Folder::open(dir, &FolderOptions::default().links(links)).unwrap()
    }

    #[test]
    fn links_are_followed_unless_less_is_asked_for() {
        let dir = tree(&["a/1.jpg", "b/2.jpg"]);
        let outside = tree(&["x/9.jpg"]);
        let at = |name: &str| dir.path().join(name);
        symlink(outside.path().join("x/9.jpg"), at("a/9.jpg")).unwrap();
        symlink(outside.path().join("x"), at("c")).unwrap();
        symlink("../b/2.jpg", at("a/2.jpg")).unwrap();
        symlink("../b", at("a/b")).unwrap();
        symlink(dir.path(), at("b/loop")).unwrap();
        symlink("loop2", at("b/loop2")).unwrap();
        symlink("nowhere", at("b/3.jpg")).unwrap();

        let counts =
            |followed, loops, lost| LinkCounts { followed, loops, lost, ..LinkCounts::default() };
        let folder = links(dir.path(), Links::Within);
        let (a1, a2, ab2, b2) = ("a/1.jpg", "a/2.jpg", "a/b/2.jpg", "b/2.jpg");
        assert_eq!(rows(&folder), [row(a1, 0), row(a2, 0), row(ab2, 0), row(b2, 1)]);
        let found: BTreeSet<_> = reasons(&folder).into_iter().collect();
        let (out, lost) = ("a link out of the folder", "unreadable, or a link to nothing");
        let again = "a directory that holds itself: a loop of links";
        assert_eq!(found, BTreeSet::from([out, lost, again]));
        // `b` is read in `a` as well: its links count twice.
        assert_eq!(folder.links(), LinkCounts { outside: 2, ..counts(2, 2, 4) });

        let folder = links(dir.path(), Links::Follow);
        let want = [row(a1, 0), row(a2, 0), row("a/9.jpg", 0), row(ab2, 0), row(b2, 1)];
        assert_eq!(rows(&folder)[..5], want);
        assert_eq!(rows(&folder)[5..], [row("c/9.jpg", 2)]);
        assert_eq!(folder.links(), counts(4, 2, 4));
        assert_eq!(rows(&open(dir.path()).unwrap()), rows(&folder), "unless something is said");

        let folder = links(dir.path(), Links::Refuse);
        assert_eq!(rows(&folder), [row(a1, 0), row(b2, 1)]);
        assert!(reasons(&folder).iter().all(|reason| *reason == "a link"));
        assert_eq!(folder.links(), LinkCounts { refused: 7, ..LinkCounts::default() });
        fs::remove_dir_all(at("a")).unwrap();
        fs::remove_file(at("b/2.jpg")).unwrap();
        let options = FolderOptions::default().links(Links::Refuse);
        let error = Folder::open(dir.path(), &options).unwrap_err().to_string();
        assert!(error.ends_with("(4 other names; 4 links refused)"), "{error}");
    }

    /// A directory is read once for every link that leads to it, as by `os.walk(followlinks=True)`.
    #[test]
    fn a_directory_of_two_names_is_read_twice() {
        let dir = tree(&["a/x/1.jpg", "b/2.jpg"]);
        symlink("x", dir.path().join("a/w")).unwrap();
        symlink("../a/x", dir.path().join("b/z")).unwrap();
        let folder = open(dir.path()).unwrap();
        let want = [("a/w/1.jpg", 0), ("a/x/1.jpg", 0), ("b/2.jpg", 1), ("b/z/1.jpg", 1)];
        assert_eq!(rows(&folder), want.map(|(path, label)| row(path, label)));
    }

    /// Two directories with links to each other: neither contains itself, each contains the other.
    #[test]
    fn loops_through_several_links_end() {
        let dir = tree(&["a/1.jpg", "b/2.jpg"]);
        let above = tree(&[]);
        symlink("../b", dir.path().join("a/b")).unwrap();
        symlink("../a", dir.path().join("b/a")).unwrap();
        symlink(dir.path(), above.path().join("down")).unwrap();
        symlink(above.path(), dir.path().join("c")).unwrap();
        let folder = open(dir.path()).unwrap();
        let want = [("a/1.jpg", 0), ("a/b/2.jpg", 0), ("b/2.jpg", 1), ("b/a/1.jpg", 1)];
        assert_eq!(rows(&folder), want.map(|(path, label)| row(path, label)));
        let counts = folder.links();
        assert_eq!((counts.followed, counts.loops), (3, 3));
        // A folder that is reached through a link from below: its own directories are not read again.
        let folder = open(above.path()).unwrap();
        assert_eq!(folder.links().loops, 3);
        assert_eq!(folder.len(), 4);
    }

    /// n directories and 2n links, without a loop, have 2^n paths.
    #[test]
    fn links_without_end_or_loop_are_ended() {
        let dir = tree(&["a/0/1.jpg"]);
        for n in 1..30 {
            let next = dir.path().join(format!("steps/{n}"));
            fs::create_dir_all(&next).unwrap();
            for name in ["x", "y"] {
                symlink(format!("../{}", n + 1), next.join(name)).unwrap();
            }
        }
        fs::create_dir(dir.path().join("steps/30")).unwrap();
        symlink("../steps/1", dir.path().join("a/1")).unwrap();
        let mut rules = Rules::new(crate::source::media::why_not, Links::Follow, vec![]);
        rules.most_linked = 1000;
        let error = layout::of_folder(dir.path(), &rules, &Labels::Auto).err().unwrap().to_string();
        assert!(error.ends_with("more directories behind links, the limit is 1000"), "{error}");
    }

    /// The links of the folder make billions of paths: without the flag, the search would last minutes.
    #[test]
    fn a_search_can_be_cancelled() {
        let dir = tree(&["a/0/1.jpg"]);
        for n in 1..30 {
            let next = dir.path().join(format!("a/{n}"));
            fs::create_dir_all(&next).unwrap();
            for name in ["x", "y"] {
                symlink(format!("../{}", n + 1), next.join(name)).unwrap();
            }
        }
        fs::create_dir(dir.path().join("a/30")).unwrap();
        let cancel = CancelFlag::new();
        let options = FolderOptions::default().cancel(cancel.clone());
        let searched = std::thread::spawn(move || Folder::open(dir.path(), &options).map(drop));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!searched.is_finished());
        cancel.cancel();
        let error = searched.join().unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), &*error.to_string()),
            (ErrorKind::Cancelled, "the listing was cancelled")
        );
    }

    /// A folder that is a link is the folder it leads to.
    #[test]
    fn the_folder_itself_may_be_a_link() {
        let dir = tree(&["real/a/1.jpg"]);
        symlink("real", dir.path().join("link")).unwrap();
        assert_eq!(rows(&open(dir.path().join("link")).unwrap()), [row("a/1.jpg", 0)]);
    }

    #[test]
    fn pipes_sockets_and_devices_are_never_opened() {
        let dir = tree(&["a/1.jpg", "a/2.jpg"]);
        let pipe = |name: &str| {
            let status = Command::new("mkfifo").arg(dir.path().join(name)).status().unwrap();
            assert!(status.success());
        };
        pipe("a/3.jpg");
        let _socket = UnixListener::bind(dir.path().join("a/4.jpg")).unwrap();
        symlink("/dev/zero", dir.path().join("a/5.jpg")).unwrap();
        let folder = links(dir.path(), Links::Follow);
        assert_eq!(rows(&folder), [row("a/1.jpg", 0), row("a/2.jpg", 0)]);
        assert_eq!(reasons(&folder), ["not a regular file"; 3]);
        assert_eq!(folder.links(), LinkCounts::default());
        // A pipe replaces a file after the listing.
        fs::remove_file(dir.path().join("a/2.jpg")).unwrap();
        pipe("a/2.jpg");
        let error = folder.read(SampleId(1)).unwrap_err().to_string();
        assert!(error.ends_with("a/2.jpg: not a regular file"), "{error}");
    }

    #[test]
    fn names_that_are_not_unicode_are_names() {
        let dir = tree(&["a/1.jpg"]);
        let odd = OsStr::from_bytes(b"\xff\x1b[31m");
        fs::create_dir(dir.path().join(odd)).unwrap();
        fs::write(dir.path().join(odd).join(OsStr::from_bytes(b"\xfe.jpg")), JPEG).unwrap();
        let folder = open(dir.path()).unwrap();
        assert_eq!(folder.classes(), ["a", "\u{fffd}\\u{1b}[31m"]);
        assert!(folder.read(SampleId(1)).is_ok());
        let saved = dir.path().join("saved");
        folder.save_listing(&saved).unwrap();
        let list = Saved::read(&saved, &Limits::SMALL).unwrap().unwrap().list;
        assert_eq!(list.names, *folder.files().names);
        fs::remove_dir_all(dir.path().join(odd)).unwrap();
        let error = folder.read(SampleId(1)).unwrap_err().to_string();
        assert!(error.contains("\\u{1b}[31m") && !error.contains('\u{1b}'), "{error:?}");
    }

    use std::ffi::OsStr;
}

#[test]
fn patterns_take_the_class_from_the_folder() {
    let dir = tree(&["b/x/1.jpg", "a/x/1.jpg", "a/y/2.png", "c/3.jpg", "c/notes.txt"]);
    let spec = |pattern: &str| format!("{}/{pattern}", dir.path().display());
    let folder = open(spec("**/*")).unwrap();
    assert_eq!(folder.classes(), ["c", "x", "y"]);
    let want = [("a/x/1.jpg", 1), ("a/y/2.png", 2), ("b/x/1.jpg", 1), ("c/3.jpg", 0)];
    assert_eq!(rows(&folder), want.map(|(path, label)| row(&spec(path), label)));
    assert_eq!(reasons(&folder), [crate::source::image_names::why_not(None).unwrap()]);
    let folder = open(spec("{b,a}/*/*.*")).unwrap();
    assert_eq!(rows(&folder)[0].0, spec("b/x/1.jpg"));
    assert!(folder.read(SampleId(0)).is_ok());
    let message = |pattern: &str| open(pattern).unwrap_err().to_string();
    assert!(message(&spec("*.jpg")).ends_with("no file matches"));
    assert!(message("s3://bucket/{0..1}.jpg").contains("only be read from local files"));
    assert!(folder.save_listing(dir.path().join("saved")).is_err());
}

#[cfg(unix)]
#[test]
fn patterns_leave_out_loops_and_what_is_behind_refused_links() {
    use std::os::unix::fs::symlink;
    let dir = tree(&["set/a/1.jpg", "set/b/2.jpg", "other/3.jpg"]);
    symlink("..", dir.path().join("set/b/up")).unwrap();
    symlink("../other", dir.path().join("set/linked")).unwrap();
    let spec = format!("{}/set/**/*.jpg", dir.path().display());
    let found = |links| {
        let folder = Folder::open(&spec, &FolderOptions::default().links(links)).unwrap();
        (folder.len(), folder.links())
    };
    assert_eq!(found(Links::Follow).0, 3);
    assert_eq!(found(Links::Within), (2, LinkCounts { outside: 1, ..LinkCounts::default() }));
    assert_eq!(found(Links::Refuse), (2, LinkCounts { refused: 1, ..LinkCounts::default() }));
    // A link before the first special character is the user's own.
    symlink(dir.path().join("set"), dir.path().join("own")).unwrap();
    let own = format!("{}/own/a/*.jpg", dir.path().display());
    let options = FolderOptions::default().links(Links::Refuse).label(Labels::None);
    assert_eq!(Folder::open(&own, &options).unwrap().len(), 1);
}

#[cfg(feature = "tables")]
fn table(name: &str, text: &str) -> Result<Folder, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    open(&path)
}

#[cfg(feature = "tables")]
#[test]
fn a_tables_columns_are_fields() {
    let text = "id,file_name,score,text,n\n7,a/1.jpg,1.5,hello,1\n-8,2.jpg,2,wörld,2\n";
    let folder = table("metadata.csv", text).unwrap();
    let fields: Vec<_> =
        folder.facts().fields.iter().map(|f| (&f.name[..], f.kind.clone())).collect();
    let (int, float, bytes) = (FieldKind::Int, FieldKind::Float, FieldKind::Bytes);
    assert_eq!(
        fields,
        [
            ("image", FieldKind::RgbImage),
            ("id", int.clone()),
            ("score", float),
            ("text", bytes),
            ("n", int)
        ]
    );
    assert_eq!(key(&folder, SampleId(0)), "a/1.jpg");
    assert!(folder.file(SampleId(1)).unwrap().ends_with("2.jpg"));
    let values = |sample| -> Vec<_> {
        (1..5).map(|field| column(&folder, SampleId(sample), field).unwrap()).collect()
    };
    let text = |text: &'static str| Value::Bytes(text.as_bytes());
    assert_eq!(values(0), [Value::Int(7), Value::Float(1.5), text("hello"), Value::Int(1)]);
    assert_eq!(values(1), [Value::Int(-8), Value::Float(2.0), text("wörld"), Value::Int(2)]);
    assert_eq!(folder.facts().longest(3), Some(6));
}

#[cfg(feature = "tables")]
#[test]
fn lines_of_json_are_a_table() {
    let text = concat!(
        "{\"file_name\": \"1.jpg\", \"n\": 1, \"label\": \"dog\", \"box\": [1, 2], \"t\": \"7\"}\n\n",
        "{\"file_name\": \"2.jpg\", \"n\": 2.5, \"label\": \"cat\", \"box\": null, \"t\": \"8\"}",
    );
    let folder = table("metadata.jsonl", text).unwrap();
    let values: Vec<_> = (1..5).map(|field| column(&folder, SampleId(0), field).unwrap()).collect();
    let want = [Value::Float(1.0), Value::Int(1), Value::Json(b"[1,2]\0"), Value::Bytes(b"7")];
    assert_eq!(values, want);
    assert_eq!(folder.classes(), ["cat", "dog"]);
    let message = |text: &str| table("t.jsonl", text).unwrap_err().to_string();
    assert!(message("{\"path\": null}").ends_with("line 1: the path is not a text"));
    let missing = table("t.jsonl", "{\"path\": \"1\"}\n{\"p\": \"1\"}").unwrap();
    assert!(missing.read(SampleId(1)).unwrap_err().to_string().contains("line 2: key \"path\""));
    assert!(message("[]").ends_with("line 1: not a JSON object"));
    assert!(message("{").contains("line 1: EOF"));
    assert!(message("{\"path\": \"..\"}").contains("\"..\" is not the path of a file"));
}

#[cfg(feature = "tables")]
#[test]
fn a_table_without_a_header_is_path_and_label() {
    let folder = table("t.csv", "a.jpg,7\nb.jpg,8\n").unwrap();
    assert_eq!(rows(&folder), [row("a.jpg", 7), row("b.jpg", 8)]);
    let folder = table("t.tsv", "a.jpg\tdog\nb.jpg\tcat\n").unwrap();
    assert_eq!(rows(&folder), [row("a.jpg", 1), row("b.jpg", 0)]);
    let message = |text: &str| table("t.csv", text).unwrap_err().to_string();
    assert!(message("path,image\na.jpg,1\n").contains("column name \"image\""));
    assert!(message("path,x,x\na.jpg,1,1\n").contains("column name \"x\""));
    assert!(message("").contains("the table lists no image"));
}

/// `convert` writes such folders, and Hugging Face's `imagefolder` reads them.
#[cfg(feature = "tables")]
#[test]
fn a_folder_with_a_table_is_the_table() {
    let files = ["00000000_0.jpg", "00000001_1.jpg", "images/2.jpg"];
    let dir = tree(&files);
    let lines = files.map(|file| format!("{{\"file_name\": \"{file}\", \"label\": 600}}\n"));
    let jsonl = dir.path().join("metadata.jsonl");
    fs::write(&jsonl, lines.concat()).unwrap();
    let folder = open(dir.path()).unwrap();
    assert_eq!(rows(&folder), files.map(|file| row(file, 600)));
    assert!(folder.classes().is_empty() && folder.read(SampleId(2)).is_ok());
    assert_eq!(folder.facts().fingerprint, open(&jsonl).unwrap().facts().fingerprint);
    let saved = dir.path().join("saved");
    let message = folder.save_listing(&saved).unwrap_err().to_string();
    assert!(message.contains("a folder without a table can be saved"), "{message}");
    // Another label makes another dataset of the same files.
    fs::write(&jsonl, lines.concat().replacen("600", "601", 1)).unwrap();
    assert_ne!(open(&jsonl).unwrap().facts().fingerprint, folder.facts().fingerprint);
    fs::write(&jsonl, lines.concat()).unwrap();

    // A table of something else is no table of the images.
    fs::write(&jsonl, "{\"name\": \"a set\"}\n").unwrap();
    assert!(open(dir.path()).unwrap_err().to_string().contains("open the table by its name"));
    let csv = dir.path().join("metadata.csv");
    fs::write(&csv, "x,\"file_name\"\n7,images/2.jpg\n").unwrap();
    assert_eq!(rows(&open(dir.path()).unwrap()), [row("images/2.jpg", 7)]);
    fs::write(&csv, "path,file_name\nx.jpg,images/2.jpg\n").unwrap();
    assert_eq!(key(&open(dir.path()).unwrap(), SampleId(0)), "images/2.jpg");
    for path in ["../a.jpg", "/a.jpg"] {
        fs::write(&csv, format!("file_name\n{path}\n")).unwrap();
        assert_says(open(dir.path()).unwrap_err(), ["line 2: ", "leads out of the folder"]);
        assert_eq!(open(&csv).unwrap().len(), 1, "the table itself may name any file");
    }
}

/// A folder is opened within itself although its table names the files.
#[cfg(all(unix, feature = "tables"))]
#[test]
fn the_table_of_a_folder_names_no_link_that_is_not_followed() {
    use std::os::unix::fs::symlink;
    let (dir, other) = (tree(&["1.jpg", "deep/2.jpg"]), tree(&["3.jpg"]));
    symlink(other.path(), dir.path().join("out")).unwrap();
    symlink("deep", dir.path().join("in")).unwrap();
    let table = dir.path().join("metadata.csv");
    let opened = |file: &str, links| {
        fs::write(&table, format!("file_name,x\n{file},1\n")).unwrap();
        Folder::list(dir.path(), &FolderOptions::default().links(links)).is_ok()
    };
    for (file, within, refuse) in [
        ("1.jpg", true, true),
        ("./deep/2.jpg", true, true),
        ("gone.jpg", true, true),
        ("in/2.jpg", true, false),
        ("out/3.jpg", false, false),
    ] {
        assert!(opened(file, Links::Follow), "{file}");
        assert_eq!(opened(file, Links::Within), within, "{file}");
        assert_eq!(opened(file, Links::Refuse), refuse, "{file}");
    }
    fs::rename(&table, other.path().join("t.csv")).unwrap();
    symlink(other.path().join("t.csv"), &table).unwrap();
    assert!(Folder::list(dir.path(), &FolderOptions::default()).is_ok());
    assert!(Folder::list(dir.path(), &FolderOptions::default().links(Links::Within)).is_err());
}

/// A table is opened by itself, and its paths may lack an ending or begin at the root.
#[cfg(all(unix, feature = "tables"))]
#[test]
fn a_table_names_no_link_that_is_not_followed() {
    use std::os::unix::fs::symlink;
    let (dir, other) = (tree(&["1.jpg", "deep/2.jpg"]), tree(&["3.jpg"]));
    symlink(other.path(), dir.path().join("out")).unwrap();
    symlink("deep", dir.path().join("in")).unwrap();
    symlink("1.jpg", dir.path().join("same.jpg")).unwrap();
    symlink("gone", dir.path().join("lost.jpg")).unwrap();
    let table = dir.path().join("t.csv");
    let whole = |dir: &tempfile::TempDir, file: &str| {
        fs::canonicalize(dir.path()).unwrap().join(file).to_str().unwrap().to_owned()
    };
    let mut files = vec![
        ("1.jpg".to_owned(), true, true),
        ("deep/../1.jpg".to_owned(), true, true),
        ("in/2.jpg".to_owned(), true, false),
        ("same.jpg".to_owned(), true, false),
        ("lost.jpg".to_owned(), true, false),
        ("out/3.jpg".to_owned(), false, false),
        (whole(&dir, "1.jpg"), true, true),
        (whole(&dir, "in/2.jpg"), true, false),
        (whole(&other, "3.jpg"), false, true),
    ];
    for suffix in ["", ".jpg"] {
        for (file, ..) in &mut files {
            *file = file.strip_suffix(suffix).unwrap().to_owned();
        }
        let lines = files.iter().map(|(file, ..)| format!("{file},1\n"));
        fs::write(&table, lines.fold("path,x\n".to_owned(), |all, line| all + &line)).unwrap();
        for (links, allowed) in [(Links::Within, 1), (Links::Refuse, 2), (Links::Follow, 0)] {
            let options = FolderOptions::default().links(links).suffix(suffix);
            let folder = Folder::open(&table, &options).unwrap();
            for (at, (file, within, refuse)) in files.iter().enumerate() {
                let is_damaged = folder.columns.damaged.contains_key(&at);
                let expected = [false, !within, !refuse][allowed];
                assert_eq!(is_damaged, expected, "{file} {links:?}");
            }
        }
    }
    fs::write(&table, "path,x\nsame.jpg,1\n").unwrap();
    let refused = Folder::open(&table, &FolderOptions::default().links(Links::Refuse));
    assert_says(refused.err().unwrap(), ["line 2: ", "\"same.jpg\" is a link or behind one"]);
}

/// Returns the labels of a table, or the errors of their samples.
#[cfg(feature = "tables")]
fn labels(folder: &Folder) -> Vec<Result<i64, String>> {
    let label = |sample| match column(folder, sample, 1) {
        Ok(Value::Int(label)) => Ok(label),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    };
    (0..folder.len()).map(SampleId).map(label).collect()
}

/// One wrong label must not change the numbers of all classes.
#[cfg(feature = "tables")]
#[test]
fn a_label_that_is_empty_or_of_another_kind_is_damage_of_its_sample() {
    for (name, text, want, damaged, words) in [
        (
            "t.csv",
            "path,label\na.jpg,2\nb.jpg,10\nc.jpg,\n",
            vec![2, 10],
            2,
            "line 4: the label is empty",
        ),
        ("t.csv", "path,label\na.jpg,cat\nb.jpg,\"\"\n", vec![0], 1, "line 3: the label is empty"),
        (
            "t.csv",
            "path,label\na.jpg,2\nb.jpg,2\nc.jpg,1O\n",
            vec![2, 2],
            2,
            "line 4: label \"1O\" is a name, but most labels are numbers",
        ),
        (
            "t.csv",
            "a.jpg,cat\nb.jpg,7\nc.jpg,dog\n",
            vec![0, 1],
            1,
            "line 2: label \"7\" is a number, but most labels are names",
        ),
        (
            "t.jsonl",
            "{\"path\": \"a.jpg\", \"label\": \"\"}\n{\"path\": \"b.jpg\", \"label\": \"b\"}",
            vec![0],
            0,
            "line 1: the label is empty",
        ),
        (
            "t.jsonl",
            "{\"path\": \"a\", \"label\": \"7\"}\n{\"path\": \"b\", \"label\": \"10\"}\n{\"path\": \"c\", \"label\": null}",
            vec![7, 10],
            2,
            "line 3: the label is empty",
        ),
    ] {
        let mut found = labels(&table(name, text).unwrap());
        assert_says(found.remove(damaged).unwrap_err(), [words]);
        assert_eq!(found, want.into_iter().map(Ok).collect::<Vec<_>>(), "{text}");
    }
    let message = table("t.csv", "a.jpg,cat\nb.jpg,7\n").unwrap_err().to_string();
    assert_says(&message, ["line 2: label \"7\" is a number, but \"cat\" in line 1 is a name"]);
    let message = table("t.csv", "path,label\na.jpg,\nb.jpg,\n").unwrap_err().to_string();
    assert!(message.contains("line 2: the label is empty"), "{message}");
    // JSON says which labels are texts.
    let lines = "{\"path\": \"a.jpg\", \"label\": \"7\"}\n{\"path\": \"b.jpg\", \"label\": \"b\"}";
    assert_eq!(table("t.jsonl", lines).unwrap().classes(), ["7", "b"]);
    // A class may be called `nan`, and a number may be one.
    assert_eq!(table("t.csv", "a.jpg,nan\nb.jpg,chapati\n").unwrap().classes(), ["chapati", "nan"]);
    let floats = table("t.csv", "a.jpg,nan\nb.jpg,0.5\n").unwrap();
    assert_eq!(floats.facts().fields[1].kind, FieldKind::Float);
}

/// A table of two lines with the classes that are set.
#[cfg(feature = "tables")]
#[test]
fn classes_that_are_set_number_labels_and_folders() {
    let classes: ClassNames = [(0, "cat"), (1, "cow"), (2, "dog")]
        .map(|(n, name)| (n, name.to_owned()))
        .into_iter()
        .collect();
    let options = FolderOptions::default().classes(classes.clone());
    let dir = tree(&["cat/1.jpg", "dog/2.jpg"]);
    let folder = Folder::open(dir.path(), &options).unwrap();
    assert_eq!(rows(&folder), [row("cat/1.jpg", 0), row("dog/2.jpg", 2)]);
    assert_eq!(folder.facts().class_names().unwrap(), Some(classes));
    let path = dir.path().join("t.csv");
    fs::write(&path, "path,label\na.jpg,dog\nb.jpg,dgo\n").unwrap();
    let found = labels(&Folder::list(&path, &options).unwrap());
    assert_eq!(found[0], Ok(2));
    assert!(
        found[1].clone().unwrap_err().contains("line 3: label \"dgo\" is not one of the classes")
    );
    fs::write(&path, "path,label\na.jpg,2\nb.jpg,3\n").unwrap();
    let found = labels(&Folder::list(&path, &options).unwrap());
    assert!(found[0] == Ok(2) && found[1].is_err());
    fs::create_dir(dir.path().join("emu")).unwrap();
    assert!(Folder::open(dir.path(), &options).is_ok());
    fs::write(dir.path().join("emu/3.jpg"), JPEG).unwrap();
    let message = Folder::open(dir.path(), &options).unwrap_err().to_string();
    assert_says(&message, ["class \"emu\" has images, but is not one of the classes"]);
}

#[cfg(feature = "tables")]
#[test]
fn a_missing_number_is_damage_of_its_sample_or_nan() {
    let text = "path,label,x,y,text\na.jpg,1,7,0.5,\nb.jpg,2,,,b\n";
    let folder = table("t.csv", text).unwrap();
    let kinds: Vec<_> = folder.facts().fields[2..].iter().map(|field| field.kind.clone()).collect();
    assert_eq!(kinds, [FieldKind::Int, FieldKind::Float, FieldKind::Bytes]);
    assert_eq!(column(&folder, SampleId(0), 2).unwrap(), Value::Int(7));
    for field in [2, 3] {
        let error = column(&folder, SampleId(1), field).unwrap_err().to_string();
        assert_says(&error, ["t.csv", "line 3: the value is missing"]);
    }
    assert_eq!(column(&folder, SampleId(0), 4).unwrap(), Value::Bytes(b""));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    fs::write(&path, "{\"path\": \"a\", \"x\": 1}\n{\"path\": \"b\", \"x\": null}\n").unwrap();
    let folder = Folder::list(&path, &FolderOptions::default().missing_as_nan(true)).unwrap();
    assert!(matches!(column(&folder, SampleId(1), 1).unwrap(), Value::Float(x) if x.is_nan()));
    assert_eq!(column(&folder, SampleId(0), 1).unwrap(), Value::Float(1.0));
}

/// A line that is no row is damage of its sample, and the others keep theirs.
#[cfg(feature = "tables")]
#[test]
fn a_line_that_is_damaged_is_damage_of_its_sample() {
    for (name, text, words) in [
        (
            "t.csv",
            "path,label\na.jpg,1\nb.jpg\nc.jpg,3\n",
            "line 3: 1 columns, expected 2 (path, label)",
        ),
        ("t.csv", "path,label\na.jpg,1\n,2\nc.jpg,3\n", "line 3: the path is empty"),
        (
            "t.jsonl",
            "{\"path\": \"a.jpg\", \"label\": 1}\n{\"path\": \nx\n{\"path\": \"c.jpg\", \"label\": 3}\n",
            "line 2: EOF",
        ),
    ] {
        let folder = table(name, text).unwrap();
        let found = labels(&folder);
        assert_says(found[1].clone().unwrap_err(), [words]);
        assert_eq!((&found[0], found.last().unwrap()), (&Ok(1), &Ok(3)));
        assert_says(folder.read(SampleId(1)).unwrap_err(), [words]);
        assert!(folder.locate(SampleId(1), 0).is_some());
    }
}

#[cfg(feature = "tables")]
#[test]
fn a_quote_that_is_not_closed_closes_the_table() {
    let message = |name, text| table(name, text).unwrap_err().to_string();
    let open =
        message("t.csv", "filename,label\nx/1.jpg,cat\nx/2.jpg,\"dog\nx/3.jpg,cat\nx/4.jpg,dog\n");
    assert!(open.contains("line 3: a quote opens here and is never closed"), "{open}");
    let closed = message("t.csv", "filename,label\nx/2.jpg,\"dog\nx/3.jpg,\"\nx/4.jpg,dog\n");
    assert_says(&closed, ["line 2: the label", "has a line break"]);
    let path = message("t.csv", "filename,label\n\"x/2.jpg\nx\",dog\nx/4.jpg,dog\n");
    assert!(path.contains("line 2: the path") && path.contains("has a line break"), "{path}");
    // Captions may begin with a quote.
    let text = "x/1.jpg\ta cat\nx/2.jpg\t\"quoted start only\nx/4.jpg\t\"Hello\" he said\n";
    assert_eq!(
        table("t.tsv", text).unwrap().classes(),
        ["\"Hello\" he said", "\"quoted start only", "a cat"]
    );
    assert!(message("t.tsv", "\"path\"\t\"label\"\n\"a.jpg\"\t\"cat\"\n").contains("set `quotes`"));
}

#[cfg(feature = "tables")]
#[test]
fn the_names_of_the_columns_decide() {
    let both = [row("a.jpg", 1), row("b.jpg", 0)];
    for text in [
        "label,filename\ndog,a.jpg\ncat,b.jpg\n",
        "filename;label\na.jpg;dog\nb.jpg;cat\n",
        "filename\tlabel\na.jpg\tdog\nb.jpg\tcat\n",
        ",filename,label\n0,a.jpg,dog\n1,b.jpg,cat\n",
        "label,photo\ndog,a.jpg\ncat,b.jpg\n",
    ] {
        assert_eq!(rows(&table("t.csv", text).unwrap()), both, "{text}");
    }
    let message = |text: &str| table("t.csv", text).unwrap_err().to_string();
    assert!(message("filename,image\na.jpg,1\n").contains("set `image`"));
    assert!(message("label,x,y\n1,a.jpg,1\n").contains("set `image` to one of label, x, y"));
    assert!(message("img1,7\nimg2,8\n").contains("is neither the names of columns"));
    let dir = tree(&["pics/a.jpg", "pics/b.jpg"]);
    let path = dir.path().join("t.csv");
    fs::write(&path, "number,breed,id\n5,dog,a\n6,cat,b\n").unwrap();
    let options = FolderOptions::default().image("id").label(Labels::Column("breed".into()));
    let options = options.root(dir.path().join("pics"));
    for options in [options.clone(), options.clone().suffix(".jpg")] {
        let folder = Folder::open(&path, &options).unwrap();
        let fields: Vec<_> = folder.facts().fields.iter().map(|field| &field.name[..]).collect();
        assert_eq!(fields, ["image", "number", "label"]);
        assert!(folder.read(SampleId(1)).is_ok());
        assert_eq!(folder.classes(), ["cat", "dog"]);
    }
    let wrong = Folder::open(&path, &options.image("name")).unwrap_err().to_string();
    assert_says(&wrong, ["no column `name` for `image`: the columns are number, breed, id"]);
}

/// What most data sets look like that are not in class folders.
#[test]
fn labels_that_would_be_a_guess_are_refused() {
    let with = |dir: &tempfile::TempDir, label: Labels| {
        Folder::open(dir.path(), &FolderOptions::default().label(label)).unwrap()
    };
    for (files, words) in [
        (&["ILSVRC2012_val_1.JPEG", "ILSVRC2012_val_2.JPEG"][..], "have \"ILSVRC2012\" before `_`"),
        (&["images/1.jpg", "images/2.jpg", "labels.csv"], "a table labels.csv lies next to it"),
        (&["images/1.jpg", "images/2.jpg"], "would be the only class"),
        (
            &["train/a/1.jpg", "val/a/1.jpg", "test/a/1.jpg"],
            "are splits of a dataset (test, train, val): set `split`",
        ),
        (&["train2017/1.jpg", "annotations/x.txt"], "are splits"),
        (&["train/1.jpg", "test/1.jpg", "unlabeled/1.jpg"], "are splits"),
        (&["a/1.jpg", "a/metadata.parquet", "b/2.jpg"], "a/metadata.parquet may list the images"),
        (&["cat_1.jpg", "dog_2.jpg", "train.csv"], "a table train.csv lies next to the images"),
        (&["images/1.jpg", "masks_png/1.jpg"], "its folders images and masks_png are probably"),
        (&["Imgs/1.jpg", "annotations/trimaps/1.jpg"], "Imgs and annotations are probably images"),
        (&["JPEGImages/1.jpg", "SegmentationClass/1.jpg", "x/1.jpg"], "call them `images` and"),
    ] {
        let dir = tree(files);
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains(words) && message.contains("`label`"), "{files:?}: {message}");
        let images = files.iter().filter(|file| file.to_lowercase().contains(".jp")).count() as u64;
        let folder = with(&dir, Labels::None);
        assert_eq!((folder.len(), folder.facts().fields.len()), (images, 1), "{files:?}");
        assert!(folder.classes().is_empty() && folder.read(SampleId(0)).is_ok());
        let label = if files[0].contains('/') { Labels::Folder } else { Labels::FileName };
        assert_eq!(with(&dir, label).facts().fields.len(), 2, "{files:?}");
    }
    let dir = tree(&["train/a/1.jpg", "train/b/2.jpg", "val/b/1.jpg"]);
    let train = Folder::open(dir.path(), &FolderOptions::default().split("train")).unwrap();
    assert_eq!(rows(&train), [row("a/1.jpg", 0), row("b/2.jpg", 1)]);
    let error = Folder::open(dir.path(), &FolderOptions::default().split("dev")).unwrap_err();
    assert!(error.to_string().contains("no folder \"dev\" for `split`"), "{error}");
    // A class may be called like a split, or like masks.
    assert_eq!(
        open(tree(&["hats/1.jpg", "masks/2.jpg"]).path()).unwrap().classes(),
        ["hats", "masks"]
    );
    assert_eq!(
        open(tree(&["bus/1.jpg", "train/2.jpg"]).path()).unwrap().classes(),
        ["bus", "train"]
    );
}

#[test]
fn a_folder_of_shards_names_their_pattern() {
    for (files, pattern) in [
        (&["x-000.tar", "x-001.tar", "classes.json"][..], "*.tar"),
        (&["a.txt", "b/x-0.TAR.gz"], "b/*.tar.gz"),
        (&["x.beton"], "*.beton"),
        (&["x.tfrecord"], "*.tfrecord"),
    ] {
        let dir = tree(files);
        let message = open(dir.path()).unwrap_err().to_string();
        let pattern = format!("by their pattern, '{}'", dir.path().join(pattern).display());
        assert!(message.contains(&pattern), "{message}");
    }
}

#[cfg(feature = "tables")]
#[test]
fn a_table_of_files_that_do_not_exist_names_the_first_and_the_root() {
    let dir = tree(&["pics/b.jpg", "pics/c"]);
    let path = dir.path().join("t.csv");
    let plain = FolderOptions::default();
    let message = |text: &str, options: &FolderOptions| {
        fs::write(&path, text).unwrap();
        let error = Folder::open(&path, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        error.to_string()
    };
    let both = "path,label\na.jpg,1\nb.jpg,2\n";
    let found = message(both, &plain);
    let tried = format!("such as {:?}: paths are relative to ", dir.path().join("a.jpg"));
    assert_says(&found, [&*tried, "t.csv: ", "set `root`"]);
    let found = message(both, &plain.clone().root(dir.path().join("pics/c")));
    assert!(found.ends_with("which is set as `root`"), "{found}");
    let found = message("path;label\na.jpg;1\nb.jpg;2\n", &plain.clone().delimiter(','));
    assert_says(&found, ["the path has ';', which may separate columns: set `delimiter`"]);
    let found = message("path,label\na,1\n", &plain);
    assert!(found.ends_with("the path has no ending: set `suffix` to add one"), "{found}");
    // A file that is missing among others is damage of its sample.
    fs::write(&path, both).unwrap();
    assert!(Folder::open(&path, &plain.root(dir.path().join("pics"))).is_ok());
}

#[cfg(feature = "tables")]
#[test]
fn the_only_number_of_a_table_is_its_label_with_a_warning() {
    let warnings = |text: &str, label: Labels| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs::write(&path, text).unwrap();
        let options = FolderOptions::default().label(label);
        let (folder, warnings) =
            crate::warnings::recorded(|| Folder::list(&path, &options).unwrap());
        let source: &dyn Source = &folder;
        assert_eq!(source.field_index("label"), Some(folder.facts().fields.len() - 1), "{text}");
        let name = path.display().to_string();
        warnings.into_iter().filter(|warning| warning.starts_with(&name)).collect::<Vec<_>>()
    };
    let age = "path,age\na.jpg,7\nb.jpg,8\n";
    let found = warnings(age, Labels::Auto);
    assert!(
        found.len() == 1 && found[0].contains("the column `age` is taken for the label"),
        "{found:?}"
    );
    assert!(found[0].contains("set `label` to `age` if it is the label"), "{found:?}");
    assert!(warnings(age, Labels::Column("age".into())).is_empty());
    assert!(warnings("path,class_id\na.jpg,7\nb.jpg,8\n", Labels::Auto).is_empty());
    let found = warnings("path,breed,fold\na.jpg,lab,0\nb.jpg,lab,1\n", Labels::Auto);
    assert!(found.len() == 1 && found[0].contains("but the column `breed` is text"), "{found:?}");
}

#[test]
fn frames_of_videos_may_be_inside_of_the_class_folders() {
    let dir = tree(&["ride/v1/1.jpg", "ride/v2/1.jpg", "walk/v3/1.jpg"]);
    let warnings = |are_frames: bool| {
        let options = FolderOptions::default().are_frames(are_frames);
        let (_, warnings) =
            crate::warnings::recorded(|| Folder::list(dir.path(), &options).unwrap());
        let name = dir.path().display().to_string();
        warnings.into_iter().filter(|warning| warning.starts_with(&name)).collect::<Vec<_>>()
    };
    assert!(warnings(false)[0].contains("inside of the class folders"));
    assert!(warnings(true).is_empty());
}

#[test]
fn junk_is_neither_data_nor_a_class() {
    let dir = tree(&[
        "cat/1.jpg",
        "cat/._1.jpg",
        "cat/@eaDir/1.jpg",
        "dog/2.jpg",
        "__MACOSX/cat/3.jpg",
        "$RECYCLE.BIN/4.jpg",
        "System Volume Information/5.jpg",
        "lost+found/6.jpg",
        ".ipynb_checkpoints/7.jpg",
    ]);
    let folder = open(dir.path()).unwrap();
    assert_eq!(rows(&folder), [row("cat/1.jpg", 0), row("dog/2.jpg", 1)]);
    let folder = open(format!("{}/**/*.jpg", dir.path().display())).unwrap();
    assert_eq!(folder.len(), 2, "{folder:?}");
}

#[test]
fn pictures_that_are_not_read_are_counted_and_warned_of_once() {
    let files =
        ["a/1.jpg", "a/2.jp2", "a/3.JP2", "b/4.avif", "b/notes.txt", "b/5.jfif", "stray.png"];
    let dir = tree(&files);
    let (folder, warnings) = crate::warnings::recorded(|| open(dir.path()).unwrap());
    assert_eq!(rows(&folder), [row("a/1.jpg", 0), row("b/5.jfif", 1)]);
    let want = [("avif", 1), ("jp2", 2), ("txt", 1)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(folder.ignored().extensions, want.into_iter().collect());
    let name = dir.path().display().to_string();
    let warnings: Vec<String> =
        warnings.into_iter().filter(|warning| warning.starts_with(&name)).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains(
            "3 pictures are of a format that is not read (1 .avif, 2 .jp2): convert them"
        ),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("1 image lies next to the class folders and is not read"),
        "{warnings:?}"
    );
    let saved = tempfile::NamedTempFile::new().unwrap();
    folder.save_listing(saved.path()).unwrap();
    let again = Saved::read(saved.path(), &Limits::SMALL).unwrap().unwrap().list.ignored;
    assert_eq!(
        (again.count, again.extensions, again.beside),
        (5, folder.ignored().extensions.clone(), 1)
    );
}

#[test]
fn images_by_their_names_have_no_label() {
    let dir = tree(&["a/1.jpg", "a/2.jpg", "b/3.jpg"]);
    let at = |file: &str| format!("{}/{file}", dir.path().display());
    let one = open(at("a/1.jpg")).unwrap();
    assert_eq!((one.len(), one.facts().fields.len()), (1, 1));
    assert_eq!(
        open(format!("{}::{}", at("a/1.jpg"), at("a/2.jpg"))).unwrap().facts().fields.len(),
        1
    );
    assert_eq!(
        open(format!("{}::{}", at("a/1.jpg"), at("b/3.jpg"))).unwrap().classes(),
        ["a", "b"]
    );
    assert_says(open(at("a/*.jpg")).unwrap_err(), ["all 2 files are in the folder a", "`none`"]);
    assert_says(open(at("b/*.jpg")).unwrap_err(), ["the only file is in the folder b", "`none`"]);
}

/// Sets the times of a folder's directories to an hour ago.
fn settle(dir: &Path) {
    let hour = std::time::Duration::from_secs(3600);
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            settle(&path);
        }
    }
    fs::File::open(dir).unwrap().set_modified(SystemTime::now() - hour).unwrap();
}

#[test]
fn a_saved_listing_holds_until_a_directory_is_changed() {
    let dir = tree(&["a/1.jpg", "b/deep/2.jpg", "b/note.txt"]);
    fs::create_dir(dir.path().join("c")).unwrap();
    let aside = tempfile::tempdir().unwrap();
    let path = aside.path().join("list");
    let options = FolderOptions::default().listing(&path);
    let fresh = Folder::open(dir.path(), &options).unwrap();
    assert!(!path.exists(), "reading writes nothing");
    let open = || Folder::open(dir.path(), &options).unwrap();
    let is_saved = |folder: &Folder| folder.ignored().count == 1 && reasons(folder).is_empty();

    fresh.save_listing(&path).unwrap();
    assert!(!is_saved(&open()), "changed too shortly before");
    settle(dir.path());
    open().save_listing(&path).unwrap();
    let again = open();
    assert!(is_saved(&again));
    assert_eq!((rows(&again), again.classes()), (rows(&fresh), fresh.classes()));
    assert_eq!(again.facts().fingerprint, fresh.facts().fingerprint);
    let refused = Folder::open(dir.path(), &options.clone().links(Links::Refuse)).unwrap();
    assert!(!is_saved(&refused), "another rule for links");
    // A listing of an earlier version is ignored.
    let mut old = fs::read(&path).unwrap();
    old[14] = b'1';
    let end = old.len() - 4;
    let check = crc32c::crc32c(&old[..end]).to_le_bytes();
    old[end..].copy_from_slice(&check);
    let new = fs::read(&path).unwrap();
    fs::write(&path, old).unwrap();
    assert!(!is_saved(&open()));
    fs::write(&path, new).unwrap();
    assert!(is_saved(&open()));

    fs::write(dir.path().join("b/deep/3.jpg"), JPEG).unwrap();
    assert_eq!(open().len(), 3);
    assert_ne!(open().facts().fingerprint, fresh.facts().fingerprint);
}

#[test]
fn a_listing_that_is_cut_or_changed_is_refused() {
    let dir = tree(&["a/1.jpg"]);
    let path = dir.path().join("list");
    open(dir.path()).unwrap().save_listing(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Saved::read(&path, &Limits::SMALL)
    };
    assert!(read(&whole).is_ok());
    for end in 0..whole.len() {
        let error = read(&whole[..end]).err().unwrap();
        assert!(error.text().contains("listing"), "{end}: {error}");
    }
    for byte in 0..whole.len() {
        let mut changed = whole.clone();
        changed[byte] ^= 1;
        let error = read(&changed).err().unwrap();
        assert!(error.text().contains("listing"), "byte {byte}: {error}");
        // A listing with a correct checksum may still be invalid: reading it must not panic, nor name
        // files elsewhere.
        let end = changed.len() - 4;
        let check = crc32c::crc32c(&changed[..end]).to_le_bytes();
        changed[end..].copy_from_slice(&check);
        if let Ok(Some(saved)) = read(&changed) {
            for index in 0..saved.list.names.len() {
                let path = saved.list.names.path(index).unwrap();
                assert!(!path.is_absolute() && !path.starts_with(".."), "{path:?}");
            }
        }
    }
}
