//! A file of a folder that is copied: a JPEG is read to its end, any other is passed on in pieces.

use super::ImageError;
use super::report::KeptCause;
use super::target::TargetError;
use crate::recut::Recutter;
use crate::source::{ReadAt, is_jpeg_name, refuse_cut};
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::Path;

/// What a JPEG begins with.
const JPEG: [u8; 3] = [0xff, 0xd8, 0xff];

/// Bytes copied at a time.
const COPY: usize = 1 << 18;

/// A file, of which as much was read as is looked at.
pub(super) struct Opened {
    file: File,
    /// The file's length when it was opened.
    len: u64,
    /// What was read so far.
    pub(super) bytes: Vec<u8>,
    kind: Kind,
}

enum Kind {
    /// A JPEG, all of it.
    Jpeg,
    /// A JPEG of which only the beginning was read.
    LongJpeg { max: u64 },
    /// Something else; only its beginning was read.
    Other,
}

impl Opened {
    /// Reads a JPEG of at most `max` bytes, and the first few of any other file.
    pub(super) fn open(path: &Path, max: u64) -> Result<Self, ImageError> {
        let read = |source| ImageError::Read { source };
        // Before it is opened: opening a pipe would wait for its other end.
        let found = fs::metadata(path).map_err(read)?;
        if !found.is_file() {
            return Err(ImageError::NotAFile);
        }
        let (mut file, mut bytes) = (File::open(path).map_err(read)?, Vec::new());
        let len = ReadAt::len(&file).map_err(read)?;
        (&mut file).take(JPEG.len() as u64).read_to_end(&mut bytes).map_err(read)?;
        if !bytes.starts_with(&JPEG) && !is_jpeg_name(path) {
            return Ok(Self { file, len, bytes, kind: Kind::Other });
        }
        if found.len() > max {
            return Ok(Self { file, len, bytes, kind: Kind::LongJpeg { max } });
        }
        // The file may grow while it is read: one byte over the limit tells.
        (&mut file).take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(read)?;
        if bytes.len() as u64 > max {
            return Ok(Self { file, len, bytes, kind: Kind::LongJpeg { max } });
        }
        refuse_cut(&file, len, bytes.len() as u64).map_err(read)?;
        Ok(Self { file, len, bytes, kind: Kind::Jpeg })
    }

    /// The JPEG re-cut, or why not; `None` if it is none.
    pub(super) fn recut(&self, recutter: &mut Recutter) -> Result<Option<Vec<u8>>, KeptCause> {
        match self.kind {
            Kind::Jpeg => Ok(Some(recutter.recut(&self.bytes)?)),
            Kind::LongJpeg { max } => Err(KeptCause::TooManyBytes { max }),
            Kind::Other => Ok(None),
        }
    }

    /// Copies what was not read yet: how many bytes, or why they can't be read.
    pub(super) fn copy_rest(
        &mut self,
        to: &mut File,
        staged: &Path,
    ) -> Result<Result<u64, ImageError>, TargetError> {
        let (mut buffer, mut copied) = (vec![0; COPY], 0);
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => {
                    let read = self.bytes.len() as u64 + copied;
                    let whole = refuse_cut(&self.file, self.len, read).map(|()| copied);
                    return Ok(whole.map_err(|source| ImageError::Read { source }));
                }
                Ok(len) => {
                    to.write_all(&buffer[..len]).map_err(TargetError::io("write", staged))?;
                    copied += len as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Ok(Err(ImageError::Read { source })),
            }
        }
    }
}
