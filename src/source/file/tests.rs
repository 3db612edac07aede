//! Files that change while they are read.

use super::*;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, thread};

#[test]
fn a_file_cut_while_it_is_open_is_an_error() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[7; 5000]).unwrap();
    let bytes = FileBytes::open(file.path()).unwrap();
    let mut buffer = vec![];
    assert_eq!(bytes.get(4000, 1000, &mut buffer), Ok(&[7; 1000][..]));
    assert_eq!(bytes.get(10, 3, &mut buffer), Ok(&[7; 3][..]));
    let beyond = short(4001, 1000, 999);
    assert_eq!(bytes.get(4001, 1000, &mut buffer), Err(beyond));
    file.as_file().set_len(4100).unwrap();
    let cut = short(4000, 1000, 100);
    assert_eq!(bytes.get(4000, 1000, &mut buffer), Err(cut));
    assert_eq!(bytes.len(), 5000);
}

/// Writes files, whose folders are created, to a new folder.
pub(in crate::source) fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

/// The length of the file that [`read_while_it_is_cut`] cuts.
pub(in crate::source) const SIZE: u64 = 64 << 10;

/// Cuts a file while `read` reads all of it, again and again until `read` notices the cut.
///
/// The memory that is read into is fresh, so that the kernel has to find a page for it now and then
/// and takes longer to copy. Without a check of the length, about one round in ten returns zeros.
pub(in crate::source) fn read_while_it_is_cut<T: Sync>(
    open: impl Fn(&Path) -> T,
    read: impl Fn(&T, Vec<u8>) -> Option<Vec<u8>>,
) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.jpg");
    for round in 0..150 {
        fs::write(&path, [7; SIZE as usize]).unwrap();
        let opened = open(&path);
        let is_read = AtomicBool::new(false);
        let cut = SIZE / 2 + round * 1237 % (SIZE / 2);
        thread::scope(|scope| {
            let cutter = scope.spawn(|| {
                let file = File::options().write(true).open(&path).unwrap();
                while !is_read.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                file.set_len(cut).unwrap();
            });
            while let Some(found) = read(&opened, vec![0; 64 << 20]) {
                is_read.store(true, Ordering::Release);
                assert!(found == [7; SIZE as usize], "round {round}: zeros from {cut} on");
            }
            assert!(is_read.load(Ordering::Acquire), "the file was whole");
            cutter.join().unwrap();
        });
    }
}

fn opened(path: &Path) -> FileBytes {
    FileBytes::open(path).unwrap()
}

#[test]
fn a_read_that_meets_a_cut_gives_no_zeros() {
    read_while_it_is_cut(opened, |bytes, mut memory| {
        bytes.get(0, SIZE, &mut memory).map(<[u8]>::to_vec).ok()
    });
}

#[test]
fn a_read_into_fresh_memory_that_meets_a_cut_gives_no_zeros() {
    read_while_it_is_cut(opened, |bytes, mut memory| {
        memory.clear();
        bytes.append(0, SIZE, &mut memory).ok().map(|()| memory)
    });
}

#[test]
fn reads_that_meet_a_cut_do_not_pass() {
    read_while_it_is_cut(opened, |bytes, mut memory| {
        let mut check = LengthCheck::default();
        let found = bytes.get_with((0, SIZE), &mut memory, Some(&mut check));
        let found = found.map(<[u8]>::to_vec).ok();
        check.pass().ok().and(found)
    });
}

/// Returns one byte at a time, is interrupted before each, and fails at byte 3.
struct Stammering(AtomicUsize);

impl ReadAt for Stammering {
    fn len(&self) -> io::Result<u64> {
        Ok(4)
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        if self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if start == 3 {
            return Err(io::Error::other("worn out"));
        }
        bytes[0] = 10 + start as u8;
        Ok(1)
    }
}

#[test]
fn a_read_that_is_cut_or_interrupted_is_gone_on_with() {
    let bytes = FileBytes::from_reader(Arc::new(Stammering(AtomicUsize::new(0)))).unwrap();
    let mut buffer = vec![];
    assert_eq!(bytes.get(0, 3, &mut buffer), Ok(&[10, 11, 12][..]));
    let error = bytes.get(1, 3, &mut buffer).unwrap_err();
    assert_eq!(error.to_string(), "3 bytes at byte 1: worn out");
}

#[test]
fn bytes_are_the_same_wherever_memory_lies() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let content: Vec<u8> = (0..20_000_u32).map(|at| ((at * at) >> 5) as u8).collect();
    file.write_all(&content).unwrap();
    let bytes = FileBytes::open(file.path()).unwrap();
    let mut buffer = vec![];
    let mut moved = 0;
    for start in (0..4200).step_by(3) {
        let want = &content[start..start + 9000];
        let borrowed = bytes.get(start as u64, 9000, &mut buffer).unwrap();
        assert_eq!((borrowed, borrowed.as_ptr().addr() % LINE), (want, start % LINE));
        let mut own = vec![7; 5];
        own.reserve_exact(9000 + LINE);
        moved += usize::from(is_misaligned(&own, 5, start as u64));
        bytes.append(start as u64, 9000, &mut own).unwrap();
        assert_eq!((&own[..5], &own[5..]), (&[7; 5][..], want));
    }
    assert!(moved > 0);
    let mut own = vec![7; 5];
    assert!(bytes.append(15_000, 9000, &mut own).is_err() && own == [7; 5]);
}

#[test]
fn one_look_at_the_length_serves_several_reads() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|name| {
        fs::write(dir.path().join(name), [7; 5000]).unwrap();
        FileBytes::open(&dir.path().join(name)).unwrap()
    });
    let cut = |name: &str, len| {
        File::options().write(true).open(dir.path().join(name)).unwrap().set_len(len).unwrap();
    };
    let (mut check, mut buffer) = (LengthCheck::default(), vec![]);
    let mut read = |file: usize, extent, check: &mut LengthCheck| {
        files[file].get_with(extent, &mut buffer, Some(check)).map(<[u8]>::to_vec)
    };
    assert_eq!(check.pass(), Ok(()), "nothing was read");
    assert_eq!(read(0, (3000, 1000), &mut check), Ok(vec![7; 1000]));
    assert_eq!(read(0, (100, 10), &mut check), Ok(vec![7; 10]));
    cut("a", 4000);
    assert_eq!((check.pass(), check.pass()), (Ok(()), Ok(())), "all of it is still there");
    assert_eq!(read(0, (3000, 1000), &mut check), Ok(vec![7; 1000]));
    assert_eq!(read(0, (100, 10), &mut check), Ok(vec![7; 10]));
    cut("a", 3999);
    let cut_short = Err(short(3000, 1000, 999));
    assert_eq!(check.pass(), cut_short);
    assert_eq!(check.pass(), Ok(()), "it was said");
    // The reads of a file are checked before another file is read.
    assert_eq!(read(0, (3000, 999), &mut check), Ok(vec![7; 999]));
    cut("a", 3500);
    let cut_short = Err(short(3000, 999, 500));
    assert_eq!(read(1, (0, 10), &mut check).map(drop), cut_short);
    assert_eq!(read(1, (0, 10), &mut check), Ok(vec![7; 10]));
    cut("b", 0);
    check.forget();
    assert_eq!(check.pass(), Ok(()), "it was given up");
}

#[test]
fn a_whole_file_that_was_cut_is_refused() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[7; 5000]).unwrap();
    let outcome = |before, read| refuse_cut(file.as_file(), before, read);
    assert!(outcome(5000, 5000).is_ok() && outcome(4000, 5000).is_ok());
    let message = outcome(5000, 4000).unwrap_err().to_string();
    assert_eq!(
        message,
        "the file was cut short while it was read: 5000 bytes when it was opened, 4000 were \
         read, now it has 5000"
    );
    file.as_file().set_len(4999).unwrap();
    assert!(outcome(5000, 5000).is_err());
}

#[test]
fn held_bytes_are_lent() {
    let bytes = FileBytes::InMemory(vec![1, 2, 3].into());
    let mut buffer = vec![];
    assert_eq!(bytes.get(1, 2, &mut buffer), Ok(&[2, 3][..]));
    assert!(buffer.is_empty() && bytes.get(u64::MAX, 1, &mut buffer).is_err());
    assert_eq!(bytes.copy(0, 3), Ok(vec![1, 2, 3]));
}
