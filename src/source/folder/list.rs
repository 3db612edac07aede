//! Files of a folder that are no samples.

use crate::source::audio_format;
use crate::source::image_names;
use crate::source::media;
use crate::source::video_format;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
#[cfg(any(feature = "write", test))]
use std::path::Path;
use std::path::PathBuf;

/// The number of ignored paths that are stored. All of them are counted.
const MAX_STORED: usize = 100;

/// Files that are not samples: their number, and the first of them.
///
/// ```
/// use fuseloop::source::Ignored;
///
/// fn print(ignored: &Ignored) {
///     println!("{} files are no samples", ignored.count);
///     for (path, reason) in &ignored.first {
///         println!("{}: {reason}", path.display());
///     }
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The number of such files.
    pub count: u64,
    /// The first 100: path and reason.
    pub first: Vec<(PathBuf, &'static str)>,
    /// The number of those that are no images and no audio by their names, by the extension in small letters; empty for
    /// none.
    pub extensions: BTreeMap<String, u64>,
    /// The number of images or audio files that lie beside the class folders.
    pub(super) beside: u64,
}

/// The reason why an image or an audio file beside the class folders is left out.
pub(super) const BESIDE: &str = "next to the class folders, not in one";

/// The most extensions that are counted, and the longest of them in bytes; others count as none.
const MOST_EXTENSIONS: usize = 1000;
const LONGEST_EXTENSION: usize = 16;

impl Ignored {
    pub(crate) fn add(&mut self, path: PathBuf, reason: &'static str) {
        self.count += 1;
        self.beside += u64::from(reason == BESIDE);
        if media::why_not(&path).is_some() {
            let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
            self.count_extension(extension.to_ascii_lowercase(), 1);
        }
        if self.first.len() < MAX_STORED {
            self.first.push((path, reason));
        }
    }

    pub(super) fn count_extension(&mut self, extension: String, files: u64) {
        let is_full = self.extensions.len() >= MOST_EXTENSIONS;
        let is_odd = extension.len() > LONGEST_EXTENSION || extension.chars().any(char::is_control);
        let is_new = !self.extensions.contains_key(&extension);
        let extension = if is_odd || is_full && is_new { String::new() } else { extension };
        let count = self.extensions.entry(extension).or_default();
        *count = count.saturating_add(files);
    }

    /// Appends the files of another list.
    pub(super) fn append(&mut self, other: Self) {
        self.count += other.count;
        self.beside += other.beside;
        let room = MAX_STORED - self.first.len();
        self.first.extend(other.first.into_iter().take(room));
        other
            .extensions
            .into_iter()
            .for_each(|(extension, files)| self.count_extension(extension, files));
    }

    /// Returns the audio files among the files, of formats that are not read, in words; `None` if there are none.
    pub(super) fn unread_audio(&self) -> Option<String> {
        let nouns = ["audio file is", "audio files are"];
        self.unread(audio_format::is_unread_audio, nouns, "convert them to FLAC or WAV first")
    }

    /// Returns the video files among the files, of formats that are not read, in words; `None` if there are none.
    pub(super) fn unread_videos(&self) -> Option<String> {
        let nouns = ["video file is", "video files are"];
        self.unread(
            video_format::is_unread_video,
            nouns,
            "convert them first, as by `ffmpeg -i in.ts out.mp4`",
        )
    }

    /// Returns the pictures among the files that this build does not read, in words; `None` if there are none.
    pub(in crate::source) fn pictures(&self) -> Option<String> {
        let is_unread = |extension: &str| {
            image_names::is_picture(extension) && image_names::why_not(Some(extension)).is_some()
        };
        let unread = self.extensions.keys().filter(|extension| is_unread(extension));
        let features: BTreeSet<&str> =
            unread.filter_map(|extension| image_names::feature_for(extension)).collect();
        let features: Vec<&str> = features.into_iter().collect();
        let remedy = match features[..] {
            [] => "convert them to JPEG or PNG first".to_owned(),
            _ => format!(
                "build fuseloop with the feature {}, or convert them to JPEG or PNG first",
                features.join(" and ")
            ),
        };
        self.unread(is_unread, ["picture is", "pictures are"], &remedy)
    }

    /// Returns the files with extensions that are not read, counted in words, and what to do with them; `None` if there are
    /// none. `nouns` name one of them, and several, with their verb.
    fn unread(
        &self,
        is_unread: impl Fn(&str) -> bool,
        nouns: [&str; 2],
        remedy: &str,
    ) -> Option<String> {
        let found = self.extensions.iter().filter(|(extension, _)| is_unread(extension));
        let (mut total, mut listed) = (0, vec![]);
        for (extension, files) in found {
            total += files;
            listed.push(format!("{files} .{extension}"));
        }
        let noun = nouns[usize::from(total != 1)];
        (total > 0).then(|| {
            format!("{total} {noun} of a format that is not read ({}): {remedy}", listed.join(", "))
        })
    }
}

#[cfg(feature = "write")]
pub(crate) fn is_jpeg_name(path: &Path) -> bool {
    let is =
        |ext: &OsStr| image_names::JPEG_EXTENSIONS.iter().any(|one| ext.eq_ignore_ascii_case(one));
    path.extension().is_some_and(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::sample::SampleId;
    use crate::source::file::tests::folder;
    use crate::source::{
        BoxError, Buffer, Folder, FolderOptions, Labels, Links, Source as _, Value,
    };
    use std::fs;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        folder(&files.iter().map(|file| (*file, &b""[..])).collect::<Vec<_>>())
    }

    fn opened(path: &Path) -> Result<Folder, Error> {
        Folder::open(path, &FolderOptions::default().links(Links::Follow))
    }

    fn label(list: &Folder, sample: SampleId) -> Result<i64, BoxError> {
        match list.columns.value(sample, 1, &mut Buffer::default())? {
            Value::Int(label) => Ok(label),
            other => panic!("{other:?}"),
        }
    }

    fn rows(list: &Folder, dir: &Path) -> Vec<(String, i64)> {
        let relative = |path: &Path| path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        let row = |sample| {
            let file = list.file(sample).unwrap();
            (relative(&file), label(list, sample).unwrap())
        };
        (0..list.len()).map(SampleId).map(row).collect()
    }

    fn row(path: &str, label: i64) -> (String, i64) {
        (path.to_owned(), label)
    }

    #[test]
    fn sub_folders_are_classes_in_byte_order() {
        let dir = tree(&[
            "b/2.jpg",
            "b/10.JPEG",
            "B/x.Jpg",
            "a/deep/er/1.jpeg",
            "a/0.jpg",
            "a/notes.txt",
            "b/.hidden.jpg",
            "stray.jpg",
        ]);
        fs::create_dir(dir.path().join("aa")).unwrap();
        let list = opened(dir.path()).unwrap();
        assert_eq!(list.classes(), ["B", "a", "aa", "b"]);
        let want = [
            row("B/x.Jpg", 0),
            row("a/0.jpg", 1),
            row("a/deep/er/1.jpeg", 1),
            row("b/10.JPEG", 3),
            row("b/2.jpg", 3),
        ];
        assert_eq!(rows(&list, dir.path()), want);
        let reasons: Vec<_> = list.ignored().first.iter().map(|(_, reason)| *reason).collect();
        assert_eq!(
            reasons,
            [
                "next to the class folders, not in one",
                image_names::why_not(None).unwrap(),
                "its name begins with a dot"
            ]
        );
    }

    #[test]
    fn a_flat_folder_takes_the_class_before_the_first_underscore() {
        let dir = tree(&["n02_b_c.JPEG", "n01_z.jpg", "n01_a.jpg", "n010_a.jpg"]);
        let list = opened(dir.path()).unwrap();
        assert_eq!(list.classes(), ["n01", "n010", "n02"]);
        let want = [
            row("n01_a.jpg", 0),
            row("n01_z.jpg", 0),
            row("n010_a.jpg", 1),
            row("n02_b_c.JPEG", 2),
        ];
        assert_eq!(rows(&list, dir.path()), want);

        let dir = tree(&["nothing.jpg"]);
        let options = FolderOptions::default().label(Labels::FileName);
        let error = Folder::open(dir.path(), &options).unwrap_err().to_string();
        assert!(error.contains("nothing.jpg: no class"), "{error}");
    }

    #[test]
    fn a_folder_without_images_is_refused() {
        let dir = tree(&["a/1.jp2", "a/2.txt"]);
        let error = opened(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        let (error, names) = (error.to_string(), image_names::listed_with_others());
        assert!(error.ends_with(&format!("no {names} file found (2 other names, such as 1 .jp2: convert the pictures to a format that is read)")), "{error}");
        let missing = opened(&dir.path().join("no")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("no: No such file"), "{missing}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_loops_of_them_end() {
        use std::os::unix::fs::symlink;
        let dir = tree(&["a/1.jpg"]);
        let at = |name: &str| dir.path().join(name);
        symlink(at("a/1.jpg"), at("a/2.jpg")).unwrap();
        symlink(dir.path(), at("a/loop")).unwrap();
        symlink(at("nowhere"), at("a/3.jpg")).unwrap();
        let other = tree(&["x.jpg"]);
        symlink(other.path(), at("b")).unwrap();
        let list = opened(dir.path()).unwrap();
        assert_eq!(
            rows(&list, dir.path()),
            [row("a/1.jpg", 0), row("a/2.jpg", 0), row("b/x.jpg", 1)]
        );
        assert_eq!(list.ignored().count, 2);
    }

    #[cfg(feature = "tables")]
    #[test]
    fn a_table_gives_numbers_or_names() {
        let dir = tree(&["a.jpg"]);
        let read = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            opened(&path)
        };
        let list = read("t.csv", "path,label\na.jpg,7\n\"b,c.jpg\", -1\n").unwrap();
        assert_eq!(rows(&list, dir.path()), [row("a.jpg", 7), row("b,c.jpg", -1)]);
        assert!(list.classes().is_empty());

        let list = read("t.tsv", "a.jpg\tdog\nb.jpg\tcat\nc.jpg\tdog\n").unwrap();
        assert_eq!(rows(&list, dir.path()), [row("a.jpg", 1), row("b.jpg", 0), row("c.jpg", 1)]);
        assert_eq!(list.classes(), ["cat", "dog"]);

        let list = read("t.csv", "path,label\na.jpg,1\nb.jpg,3.0\n").unwrap();
        assert_eq!(list.facts().fields[1].kind, crate::source::FieldKind::Float);
        let list = read("t.csv", "a.jpg,2\nb.jpg,\n").unwrap();
        let error = label(&list, SampleId(1)).unwrap_err().to_string();
        assert!(error.contains("line 2: the label is empty"), "{error}");

        let error = read("t.csv", "path,label\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.text().starts_with("the table lists no image"), "{error}");
        fs::write(dir.path().join("bad.csv"), b"\xff.jpg,1\n").unwrap();
        let error = opened(&dir.path().join("bad.csv")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.text().starts_with("line 1: "), "{error}");
    }
}
