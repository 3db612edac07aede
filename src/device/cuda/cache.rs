//! A cache of compiled kernels in files, so that a process need not compile what an earlier process
//! compiled.
//!
//! ```text
//! $XDG_CACHE_HOME/fuseloop/kernels/<key>.cubin      or ~/.cache, or $FUSELOOP_KERNEL_CACHE; `off` is none
//! key = SHA-256 of the text, NVRTC's options and version, and the version of this crate
//! ```
//!
//! | offset | size | content |
//! |---:|---:|---|
//! | 0 | 8 | `FLKERN1\n` |
//! | 8 | 32 | the key, so that a renamed file is not accepted |
//! | 40 | 8 | the bytes of the image, little-endian |
//! | 48 | 32 | SHA-256 of the image |
//! | 80 | | the image |
//!
//! A file that deviates from this in any way is ignored. Files appear whole or not at all. A file that
//! can't be written is skipped without an error.
//!
//! An image is code: a folder that other users own or may write to is not used. A folder that we create
//! is accessible to its owner only. When all files together exceed 256 MB, the oldest are deleted.

use crate::source::private;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fmt};

use hmac_sha256::Hash;

const MAGIC: &[u8; 8] = b"FLKERN1\n";
/// The maximum bytes of all files.
const MOST: u64 = 256 << 20;

/// The key of an image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct CubinKey([u8; 32]);

impl CubinKey {
    /// Computes the key from the text and everything else that the image depends on.
    pub(super) fn of(source: &str, options: &[String], nvrtc: (i32, i32)) -> Self {
        let version = format!("{} {}.{}", env!("CARGO_PKG_VERSION"), nvrtc.0, nvrtc.1);
        let mut hash = Hash::new();
        for part in [version.as_str(), source].into_iter().chain(options.iter().map(String::as_str))
        {
            // The lengths are hashed too, so that no two lists hash the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize())
    }
}

impl fmt::Display for CubinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A folder of images.
pub(super) struct CubinCache {
    path: PathBuf,
    most: u64,
}

impl CubinCache {
    /// Opens the cache that the environment names; `None` if it names none, or the folder is not safe.
    pub(super) fn of_environment() -> Option<Self> {
        let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = match env::var_os("FUSELOOP_KERNEL_CACHE") {
            Some(off) if off == "off" => return None,
            Some(folder) => PathBuf::from(folder),
            None => path("XDG_CACHE_HOME")
                .or_else(|| Some(path("HOME")?.join(".cache")))?
                .join("fuseloop")
                .join("kernels"),
        };
        Self::open(&folder, MOST)
    }

    /// Opens the folder at `path`, creating it if needed.
    fn open(path: &Path, most: u64) -> Option<Self> {
        private::create_folder(path).ok()?;
        private::check_folder(path).ok()?;
        Some(Self { path: path.to_owned(), most })
    }

    /// Returns the folder's path and the bytes of its files.
    pub(super) fn size(self) -> (PathBuf, u64) {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let bytes = files.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum();
        (self.path, bytes)
    }

    fn file(&self, key: &CubinKey) -> PathBuf {
        self.path.join(format!("{key}.cubin"))
    }

    /// Returns the image of `key`, if the cache has an intact one.
    pub(super) fn load(&self, key: &CubinKey) -> Option<Vec<u8>> {
        parse(&fs::read(self.file(key)).ok()?, key).map(<[u8]>::to_vec)
    }

    /// Stores `image`, if possible.
    pub(super) fn store(&self, key: &CubinKey, image: &[u8]) {
        if self.write(key, image).is_ok() {
            self.shrink();
        }
    }

    fn write(&self, key: &CubinKey, image: &[u8]) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
        file.write_all(MAGIC)?;
        file.write_all(&key.0)?;
        file.write_all(&(image.len() as u64).to_le_bytes())?;
        file.write_all(&Hash::hash(image))?;
        file.write_all(image)?;
        file.persist(self.file(key))?;
        Ok(())
    }

    /// Deletes the oldest files while there are too many bytes.
    fn shrink(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "cubin"))
            .filter_map(|entry| {
                let file = entry.metadata().ok()?;
                Some((file.modified().ok()?, file.len(), entry.path()))
            })
            .collect();
        files.sort_unstable();
        let mut all: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if all <= self.most {
                return;
            }
            all -= bytes;
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the image in a file; `None` if the file is not an intact image of `key`.
fn parse<'a>(mut bytes: &'a [u8], key: &CubinKey) -> Option<&'a [u8]> {
    let whole = take::<8>(&mut bytes)? == MAGIC && *take::<32>(&mut bytes)? == key.0;
    let length = u64::from_le_bytes(*take(&mut bytes)?);
    let hash = take::<32>(&mut bytes)?;
    let whole = whole && bytes.len() as u64 == length;
    (whole && Hash::hash(bytes) == *hash).then_some(bytes)
}

/// Takes the next `N` bytes off `rest`.
fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::time::Duration;

    fn key(source: &str) -> CubinKey {
        CubinKey::of(source, &["--fmad=false".to_owned()], (12, 4))
    }

    fn private() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        folder
    }

    #[test]
    fn a_key_is_of_the_text_the_options_and_the_compiler() {
        let options = |list: &[&str]| list.iter().map(|&o| o.to_owned()).collect::<Vec<_>>();
        let all = [
            CubinKey::of("a", &options(&["b"]), (12, 4)),
            CubinKey::of("ab", &options(&[]), (12, 4)),
            CubinKey::of("a", &options(&["b", ""]), (12, 4)),
            CubinKey::of("a", &options(&["c"]), (12, 4)),
            CubinKey::of("a", &options(&["b"]), (12, 5)),
            CubinKey::of("a", &options(&["b"]), (13, 4)),
        ];
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(key("a").to_string(), key("a").to_string());
        assert_eq!(key("a").to_string().len(), 64);
    }

    #[test]
    fn what_is_kept_is_found_by_its_key_alone() {
        let dir = private();
        let folder = CubinCache::open(dir.path(), MOST).unwrap();
        assert_eq!(folder.load(&key("a")), None);
        folder.store(&key("a"), b"image");
        folder.store(&key("empty"), b"");
        assert_eq!(folder.load(&key("a")).unwrap(), b"image");
        assert_eq!(folder.load(&key("empty")).unwrap(), b"");
        assert_eq!(folder.load(&key("b")), None);
        // The file of one key under the name of another.
        fs::rename(folder.file(&key("a")), folder.file(&key("b"))).unwrap();
        assert_eq!(folder.load(&key("b")), None);
    }

    #[test]
    fn a_file_with_any_byte_changed_missing_or_added_is_as_good_as_none() {
        let dir = private();
        let folder = CubinCache::open(dir.path(), MOST).unwrap();
        folder.store(&key("a"), b"image");
        let whole = fs::read(folder.file(&key("a"))).unwrap();
        assert_eq!(parse(&whole, &key("a")), Some(&b"image"[..]));
        for offset in 0..whole.len() {
            let mut changed = whole.clone();
            changed[offset] ^= 1;
            assert_eq!(parse(&changed, &key("a")), None, "byte {offset}");
            assert_eq!(parse(&whole[..offset], &key("a")), None, "cut at {offset}");
        }
        assert_eq!(parse(&[&whole[..], b"x"].concat(), &key("a")), None);
        let mut endless = whole;
        endless[40..48].fill(0xff);
        assert_eq!(parse(&endless, &key("a")), None);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        for mode in [0o777, 0o770, 0o707, 0o702, 0o720] {
            let dir = private();
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert!(CubinCache::open(dir.path(), MOST).is_none(), "{mode:o}");
        }
        let dir = private();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(CubinCache::open(&file, MOST).is_none());
    }

    #[test]
    fn a_folder_is_made_for_its_owner_alone() {
        let dir = private();
        let inner = dir.path().join("a/b");
        assert!(CubinCache::open(&inner, MOST).is_some());
        assert_eq!(fs::metadata(inner).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much() {
        let dir = private();
        let folder = CubinCache::open(dir.path(), 250).unwrap();
        for (age, name) in [(30, "old"), (20, "middle")] {
            folder.store(&key(name), b"0123456789");
            let file = fs::File::open(folder.file(&key(name))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        folder.store(&key("new"), b"0123456789");
        assert_eq!(folder.load(&key("old")), None);
        assert!(folder.load(&key("middle")).is_some() && folder.load(&key("new")).is_some());
    }
}
