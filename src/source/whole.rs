//! Files that appear whole or not at all.

use std::fs::File;
use std::io;
use std::path::Path;
use tempfile::{Builder, NamedTempFile};

/// A file in the making, beside its place at `path`. Others may read it as the system's mask has it: what
/// it is about, they may read too.
pub(super) fn begin(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut options = Builder::new();
    options.prefix(".fuseloop-part-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        options.permissions(std::fs::Permissions::from_mode(0o666));
    }
    options.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Puts it in its place, over what is there; it stays open.
pub(super) fn settle(file: NamedTempFile, path: &Path) -> io::Result<File> {
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)
}

/// All of a file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let mut file = begin(path)?;
    file.write_all(bytes)?;
    settle(file, path).map(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn others_may_read_it_as_any_file() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        super::write(&dir.path().join("ours"), b"1").unwrap();
        super::write(&dir.path().join("ours"), b"2").unwrap();
        std::fs::write(dir.path().join("any"), b"2").unwrap();
        assert_eq!(mode("ours"), mode("any"));
        assert_eq!(std::fs::read(dir.path().join("ours")).unwrap(), b"2");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
