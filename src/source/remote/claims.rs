//! Claims: of the processes that share a cache, one fetches a block, and the others wait for it.
//!
//! ```text
//! folder/owner-x1y2              locked by a process for as long as it lives
//! folder/3f/claim-3f9a..e1       a symbolic link to the name of the owner that fetches block 3f9a..e1
//! folder/takeover                locked for as long as a claim of a process that ended is replaced
//! ```
//!
//! A link is created with its content in one step, or not at all if there is one, so two processes never hold a claim.
//! The system releases the lock of a process that ends, however it ends: a claim is valid while the lock of its owner is
//! held. A claim needs no open file, so that a process may hold thousands.
//!
//! A claim saves requests; the bytes do not depend on it. Where claims are not possible, because the file system has
//! neither links nor locks or the system is not a Unix, each process fetches what it needs.

#[cfg(not(unix))]
pub(super) use none::Owner;
#[cfg(unix)]
pub(super) use unix::Owner;

use std::path::{Path, PathBuf};

/// How a name of a claim begins.
pub(super) const CLAIM: &str = "claim-";

/// The outcome of a claim.
#[cfg_attr(not(unix), allow(dead_code, reason = "no claim is possible"))]
pub(super) enum Claimed {
    /// This caller fetches the block. `None` if claims are not possible.
    Mine(Option<Claim>),
    /// Another process, or another thread, fetches the block.
    Taken,
}

/// The right to fetch a block, until this is dropped.
#[cfg_attr(not(unix), allow(dead_code, reason = "no claim is possible"))]
pub(super) struct Claim {
    path: PathBuf,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // If the file can't be deleted, other processes wait as for a request that hangs.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
mod unix {
    use super::{CLAIM, Claim, Claimed};
    use crate::source::private;
    use std::fs::{self, File, TryLockError};
    use std::io;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use tempfile::NamedTempFile;

    /// How a name of an owner begins.
    const OWNER: &str = "owner-";

    /// The locked file of a process, or of one open cache in it. Dropping it deletes the file.
    pub(in super::super) struct Owner {
        folder: PathBuf,
        file: NamedTempFile,
    }

    impl Owner {
        /// Creates the file of an owner and locks it; `None` if the file system does not allow it.
        pub(in super::super) fn new(folder: &Path) -> Option<Self> {
            let file = tempfile::Builder::new().prefix(OWNER).tempfile_in(folder).ok()?;
            file.as_file().try_lock().ok()?;
            Some(Self { folder: folder.to_owned(), file })
        }

        /// Claims the block of this name, in this folder.
        pub(in super::super) fn claim(&self, folder: &Path, block: &str) -> Claimed {
            let path = folder.join(format!("{CLAIM}{block}"));
            match self.link(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => return Claimed::Mine(linked.ok().map(|()| Claim { path })),
            }
            let found = match fs::read_link(&path) {
                Ok(owner) => Some(owner),
                // The claim was released just now: the block is there, or can be claimed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Claimed::Taken,
                // Something else is in the way.
                Err(_) => None,
            };
            if found.as_deref().is_some_and(|owner| is_alive(&self.folder, owner)) {
                return Claimed::Taken;
            }
            self.take_over(path, found.as_deref())
        }

        /// Replaces the claim of an owner that has ended. The lock keeps two processes from replacing it at once, of
        /// which the second would delete the claim of the first.
        fn take_over(&self, path: PathBuf, found: Option<&Path>) -> Claimed {
            let mut options = File::options();
            let lock = options.create(true).truncate(false).write(true);
            let Ok(lock) = lock.open(self.folder.join("takeover")) else {
                return Claimed::Mine(None);
            };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Claimed::Taken,
                Err(TryLockError::Error(_)) => return Claimed::Mine(None),
            }
            if fs::read_link(&path).ok().as_deref() != found {
                return Claimed::Taken;
            }
            match fs::remove_file(&path).and_then(|()| self.link(&path)) {
                Ok(()) => Claimed::Mine(Some(Claim { path })),
                // Released, or claimed by a process that came between.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
                    ) =>
                {
                    Claimed::Taken
                }
                Err(_) => Claimed::Mine(None),
            }
        }

        fn link(&self, path: &Path) -> io::Result<()> {
            symlink(self.file.path().file_name().unwrap_or_default(), path)
        }

        /// Counts the owners that are alive, and deletes the files of those that are not.
        pub(in super::super) fn count(folder: &Path) -> u64 {
            let Ok(entries) = fs::read_dir(folder) else { return 1 };
            let names = entries.flatten().map(|entry| PathBuf::from(entry.file_name()));
            let owners =
                names.filter(|name| name.to_str().is_some_and(|name| name.starts_with(OWNER)));
            let mut alive = 0;
            for owner in owners {
                if is_alive(folder, &owner) {
                    alive += 1;
                } else if super::is_old(&folder.join(&owner)) {
                    // A new one may belong to a process that is about to lock it.
                    let _ = fs::remove_file(folder.join(owner));
                }
            }
            alive.max(1)
        }
    }

    /// Returns true if the process that owns this file is alive, as far as is known.
    fn is_alive(folder: &Path, owner: &Path) -> bool {
        let is_name = owner.file_name().is_some_and(|name| name == owner)
            && owner.to_str().is_some_and(|owner| owner.starts_with(OWNER));
        if !is_name {
            return false;
        }
        match private::open_file(&folder.join(owner)) {
            // The lock of others that look is shared, so that they do not take one another for the owner.
            Ok(file) => file.try_lock_shared().is_err(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }
}

#[cfg(not(unix))]
mod none {
    use super::Claimed;
    use std::path::Path;

    /// The owner of claims: not on this system.
    pub(in super::super) struct Owner;

    impl Owner {
        pub(in super::super) fn new(_: &Path) -> Option<Self> {
            None
        }

        pub(in super::super) fn claim(&self, _: &Path, _: &str) -> Claimed {
            Claimed::Mine(None)
        }

        /// The number of processes that share a folder is unknown: one.
        pub(in super::super) fn count(_: &Path) -> u64 {
            1
        }
    }
}

/// Returns true if a file was created longer ago than a process takes to use it.
pub(super) fn is_old(path: &Path) -> bool {
    let modified = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > super::disk::ABANDONED))
}
