//! Datasets that are joined: one number means one class in all of them.

use fuseloop::source::stream::MixEnd;
use fuseloop::source::{
    ClassNames, Concat, Dataset, Folder, FolderOptions, Source, Stream, Tar, TarOptions,
};
use fuseloop::write::{WriteOptions, convert};
use fuseloop::{ErrorKind, Loader};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Writes a folder with an image for each class.
fn photos(path: &Path, classes: &[&str]) {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/png/rgb8.png");
    for class in classes {
        fs::create_dir_all(path.join(class)).unwrap();
        fs::copy(&image, path.join(class).join("1.png")).unwrap();
    }
}

fn folder(path: &Path, classes: Option<&[&str]>) -> Arc<dyn Source> {
    let mut options = FolderOptions::default();
    if let Some(classes) = classes {
        let names: ClassNames = (0..).zip(classes.iter().map(|name| (*name).to_owned())).collect();
        options = options.classes(names);
    }
    Arc::new(Folder::open(path, &options).unwrap())
}

#[test]
fn sources_whose_numbers_mean_different_classes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    photos(&a, &["cat", "dog"]);
    photos(&b, &["dog", "emu"]);
    let both = |classes| [folder(&a, classes), folder(&b, classes)];
    let streams = || both(None).map(Stream::of);
    let refused = [
        Concat::new(both(None)).map(drop),
        Stream::concat(streams()).map(drop),
        Stream::interleave(streams(), Default::default()).map(drop),
        Stream::mix(streams().into_iter().zip([0.5, 0.5]), MixEnd::First).map(drop),
        Stream::concat([Stream::concat([streams()[0].clone()]).unwrap(), streams()[1].clone()])
            .map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        let text = error.to_string();
        let [a, b] = [&a, &b].map(|path| path.display());
        let want =
            format!("class 0 is \"cat\" in {a} and \"dog\" in {b} (\"dog\" is class 1 in {a}): ");
        assert!(text.starts_with(&want), "{text}");
        assert!(text.contains("the same `classes`") && text.contains("a `map`"), "{text}");
        assert_eq!(error.kind(), ErrorKind::Format);
    }
    // The remedies.
    let numbered = Concat::new(both(Some(&["cat", "dog", "emu"]))).unwrap();
    let names = numbered.facts().class_names().unwrap().unwrap();
    assert_eq!(names.iter().map(|(_, name)| name).collect::<Vec<_>>(), ["cat", "dog", "emu"]);
    let joined = Stream::concat(both(Some(&["cat", "dog", "emu"])).map(Stream::of)).unwrap();
    assert_eq!(joined.facts().class_names().unwrap(), Some(names));
    let [one, other] = streams();
    let fields = other.fields().to_vec();
    let mapped = Stream::concat([one, other.map(fields, Ok)]).unwrap();
    assert_eq!(mapped.facts().class_names().unwrap(), None);
    // The same dataset twice, and one that lacks the last classes.
    photos(&dir.path().join("c"), &["cat"]);
    let twice = [folder(&a, None), folder(&a, None), folder(&dir.path().join("c"), None)];
    assert!(Concat::new(twice).unwrap().facts().class_names().unwrap().is_some());
}

#[test]
fn files_of_one_name_whose_numbers_mean_different_classes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    photos(&path("a"), &["cat", "dog"]);
    photos(&path("b"), &["dog", "emu"]);
    for name in ["a", "b"] {
        let photos = path(name);
        convert(&*folder(&photos, None), path(&format!("{name}.beton")), &WriteOptions::default())
            .unwrap();
        for end in ["tar", "tfrecord"] {
            let out = path(&format!("{name}.{end}"));
            convert(&*folder(&photos, None), out, &WriteOptions::default()).unwrap();
        }
        fs::copy(path(&format!("{name}.tar")), path(&format!("{name}.tgz"))).unwrap();
        let classes = |end: &str| path(&format!("{name}.{end}.classes.json"));
        fs::copy(classes("tar"), classes("tgz")).unwrap();
    }
    for end in ["beton", "tar", "tfrecord", "tgz"] {
        let twice = [path(&format!("a.{end}")), path(&format!("b.{end}"))]
            .map(|file| file.display().to_string());
        for name in
            [path(&format!("{{a,b}}.{end}")), path(&format!("*.{end}")), twice.join("::").into()]
        {
            let error = Dataset::open(&name).map(drop).unwrap_err().to_string();
            assert!(
                error.starts_with("class 0 is \"cat\" in ") && error.contains(&twice[1]),
                "{error}"
            );
            assert!(Loader::open(&name).is_err());
        }
        // Without the names of one of them nothing says that they differ.
        fs::remove_file(path(&format!("b.{end}.classes.json"))).unwrap();
        assert!(end == "tgz" || Dataset::open(path(&format!("{{a,b}}.{end}"))).is_ok(), "{end}");
    }
}

#[test]
fn shards_of_one_template_have_its_names() {
    let dir = tempfile::tempdir().unwrap();
    photos(&dir.path().join("a"), &["cat", "dog"]);
    let options = WriteOptions { shards: Some(2), ..WriteOptions::default() };
    let photos = folder(&dir.path().join("a"), None);
    convert(&*photos, dir.path().join("x-{000}.tar"), &options).unwrap();
    let name = dir.path().join("x-{000..001}.tar");
    let tar = Tar::open(name.to_str().unwrap(), &TarOptions::default()).unwrap();
    assert_eq!(tar.facts().class_names().unwrap().unwrap().get(1), Some("dog"));
}
