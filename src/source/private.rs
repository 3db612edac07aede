//! Files and folders that only the user of this process may write to.
//!
//! Later processes read these caches back, so their bytes must not come from another user:
//!
//! | checked    | of a folder                       | of a file                                  |
//! |------------|-----------------------------------|--------------------------------------------|
//! | kind       | a folder                          | a regular file, not a link, FIFO or device |
//! | owner      | the user that this process runs as | the same                                  |
//! | mode       | no write permission for group and others | the same                            |
//!
//! Systems without owners and modes check the kind only.

use super::check_destination;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Creates a folder and its parent folders for its owner alone. A folder that exists is not changed.
///
/// # Errors
///
/// Fails if the path is an address, or with the system's error.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    check_destination(path)?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Checks that `path` is a folder that no other user owns or may write to.
///
/// # Errors
///
/// Fails if the folder does not meet this; the message says what was found and what was expected.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    let folder = fs::metadata(path)?;
    if !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
    }
    check_owner(&folder)
}

/// Opens a regular file that no other user owns or may write to. Never follows a link in its last
/// component, and never waits for the writer of a FIFO.
///
/// # Errors
///
/// Fails with the system's error, or if the file has another kind, owner or mode.
#[cfg(feature = "remote")]
pub(crate) fn open_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits() as i32);
    }
    let file = options.open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    check_owner(&found)?;
    Ok(file)
}

#[cfg(unix)]
fn check_owner(found: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    check_ids(found.uid(), found.mode(), own)
}

#[cfg(not(unix))]
fn check_owner(_: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn check_ids(owner: u32, mode: u32, own: u32) -> io::Result<()> {
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    if owner != own {
        return refused(format!(
            "it belongs to user {owner}, and this process runs as user {own}: name a folder of its own"
        ));
    }
    if mode & 0o022 != 0 {
        let mode = mode & 0o777;
        return refused(format!(
            "others may write to it (its mode is {mode:o}): remove that right with `chmod go-w`"
        ));
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn other_owners_and_writers_are_refused() {
        assert!(check_ids(7, 0o40755, 7).is_ok());
        let message = check_ids(8, 0o40755, 7).unwrap_err().to_string();
        assert!(
            message.starts_with("it belongs to user 8, and this process runs as user 7"),
            "{message}"
        );
        for mode in [0o777, 0o770, 0o707, 0o702, 0o720] {
            let message = check_ids(7, 0o40000 | mode, 7).unwrap_err().to_string();
            assert!(message.contains(&format!("its mode is {mode:o}")), "{message}");
        }
    }

    #[test]
    fn a_folder_is_made_for_its_owner_alone_and_checked() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        create_folder(&inner).unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(check_folder(&inner).is_ok());
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o722)).unwrap();
        assert!(check_folder(&inner).is_err());
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(check_folder(&file).unwrap_err().to_string(), "it is not a folder");
    }
}
