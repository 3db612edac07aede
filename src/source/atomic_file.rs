//! Files that appear whole or not at all.

use super::check_destination;
use super::unfinished::note_unfinished;
use std::fs::File;
use std::io;
use std::path::Path;
use tempfile::{Builder, NamedTempFile};

/// Creates a temporary file beside `path`. Who may read it is decided by the mode of the file that it will replace or, if
/// there is none, by the process's umask, as for any other file: those who may read the data may read what is stored about
/// it.
///
/// # Errors
///
/// If the path is an address, or the system can't create the file. The error of the system does not have the file's path.
pub fn create(path: &Path) -> io::Result<NamedTempFile> {
    check_destination(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut options = Builder::new();
    options.prefix(".fuseloop-part-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        options.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let file = options.tempfile_in(folder.unwrap_or(Path::new("."))).map_err(without_path)?;
    note_unfinished(file.path());
    keep_mode(file.as_file(), path)?;
    Ok(file)
}

/// Gives a new file the mode of the file at `path`, if there is one, which it will replace: what others may not read
/// stays so.
#[cfg(unix)]
pub(crate) fn keep_mode(file: &File, path: &Path) -> io::Result<()> {
    if let Ok(replaced) = std::fs::metadata(path)
        && replaced.is_file()
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |found: &std::fs::Metadata| found.permissions().mode() & 0o777;
        // On a file system without modes, all files have one mode, and setting it may be an error.
        if mode(&file.metadata()?) != mode(&replaced) {
            file.set_permissions(std::fs::Permissions::from_mode(mode(&replaced)))?;
        }
    }
    Ok(())
}

/// Does nothing: on other systems, a file has the rights that its folder gives.
#[cfg(not(unix))]
pub(crate) fn keep_mode(_file: &File, _path: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the error of a temporary file without the path of that file, which the user did not name.
pub(crate) fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Moves the file to `path`, replacing what is there. The file stays open.
pub(super) fn persist(file: NamedTempFile, path: &Path) -> io::Result<File> {
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)
}

/// Writes a whole file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let mut file = create(path)?;
    file.write_all(bytes)?;
    persist(file, path).map(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_error_has_not_the_path_of_the_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = super::write(&dir.path().join("none/file"), b"1").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("No such file or directory"), "{error}");
        assert!(!error.to_string().contains(".fuseloop-part-"), "{error}");
    }

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
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(dir.path().join("ours"), private).unwrap();
        super::write(&dir.path().join("ours"), b"3").unwrap();
        assert_eq!(mode("ours"), 0o600, "of the file that is replaced");
    }
}
