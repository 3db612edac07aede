//! The files and folders that are being written and do not have their names yet, so that a process that a signal ends
//! can delete them. A process that is killed leaves them to the next writer of the same path.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// The number of paths after which those that are gone are forgotten.
const MOST: usize = 1024;

/// Notes a file or a folder with a random name. One that is renamed or deleted need not be taken back: its name is not
/// used again.
pub fn note_unfinished(path: &Path) {
    let mut all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MOST {
        all.retain(|path| fs::symlink_metadata(path).is_ok());
    }
    all.push(path.to_owned());
}

/// Takes back that a file or a folder is deleted at the end of the process.
#[cfg(any(test, feature = "write"))]
pub(crate) fn keep_unfinished(path: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|noted| noted != path);
}

/// Deletes what is unfinished, because the process is about to end. Whoever is still writing gets errors.
pub fn delete_unfinished() {
    let all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in &*all {
        if fs::remove_file(path).is_ok() {
            continue;
        }
        // Threads may still create files in a folder.
        for _ in 0..1000 {
            match fs::remove_dir_all(path) {
                Err(_) if path.exists() => {}
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_and_folders_are_deleted_and_finished_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("part"), "1").unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/0"), "1").unwrap();
        fs::write(at("moved"), "1").unwrap();
        for name in ["part", "folder", "moved"] {
            note_unfinished(&at(name));
        }
        fs::rename(at("moved"), at("whole")).unwrap();
        fs::write(at("kept"), "1").unwrap();
        note_unfinished(&at("kept"));
        keep_unfinished(&at("kept"));
        delete_unfinished();
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["kept", "whole"]);
    }
}
