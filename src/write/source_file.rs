//! Reads a file of a folder that is copied: a JPEG completely, any other file in pieces.

use super::ImageError;
use super::error::io_error;
use super::report::UnchangedCause;
use crate::error::Error;
use crate::recut::Recutter;
use crate::source::{ReadAt, is_jpeg_name, refuse_cut};
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::Path;

/// The first bytes of a JPEG.
const JPEG: [u8; 3] = [0xff, 0xd8, 0xff];

/// The number of bytes copied at a time.
const COPY: usize = 1 << 18;

/// An open file, and the bytes read from it so far.
pub(super) struct SourceFile {
    file: File,
    /// The file's length when it was opened.
    len: u64,
    /// The bytes read so far.
    pub(super) bytes: Vec<u8>,
    kind: SourceFileKind,
}

enum SourceFileKind {
    /// A JPEG that was read completely.
    Jpeg,
    /// A JPEG over the size limit; only its beginning was read.
    LongJpeg { max: u64 },
    /// Another file; only its beginning was read.
    Other,
}

impl SourceFile {
    /// Reads a JPEG of at most `max` bytes completely, and only the first few bytes of any other file.
    pub(super) fn open(path: &Path, max: u64) -> Result<Self, ImageError> {
        let read = |source| ImageError::Read { source };
        // The file type is checked before opening: opening a pipe would block until its other end is
        // opened.
        let found = fs::metadata(path).map_err(read)?;
        if !found.is_file() {
            return Err(ImageError::NotAFile);
        }
        let (mut file, mut bytes) = (File::open(path).map_err(read)?, Vec::new());
        let len = ReadAt::len(&file).map_err(read)?;
        (&mut file).take(JPEG.len() as u64).read_to_end(&mut bytes).map_err(read)?;
        if !bytes.starts_with(&JPEG) && !is_jpeg_name(path) {
            return Ok(Self { file, len, bytes, kind: SourceFileKind::Other });
        }
        if found.len() > max {
            return Ok(Self { file, len, bytes, kind: SourceFileKind::LongJpeg { max } });
        }
        // The file may grow while it is read: reading one byte over the limit detects this.
        (&mut file).take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(read)?;
        if bytes.len() as u64 > max {
            return Ok(Self { file, len, bytes, kind: SourceFileKind::LongJpeg { max } });
        }
        refuse_cut(&file, len, bytes.len() as u64).map_err(read)?;
        Ok(Self { file, len, bytes, kind: SourceFileKind::Jpeg })
    }

    /// Returns the re-cut JPEG, or why it can't be re-cut; `None` if the file is no JPEG.
    pub(super) fn recut(&self, recutter: &mut Recutter) -> Result<Option<Vec<u8>>, UnchangedCause> {
        match self.kind {
            SourceFileKind::Jpeg => Ok(Some(recutter.recut(&self.bytes)?)),
            SourceFileKind::LongJpeg { max } => Err(UnchangedCause::TooManyBytes { max }),
            SourceFileKind::Other => Ok(None),
        }
    }

    /// Copies the bytes that were not read yet. Returns their number, or why they can't be read.
    pub(super) fn copy_rest(
        &mut self,
        to: &mut File,
        staged: &Path,
    ) -> Result<Result<u64, ImageError>, Error> {
        let (mut buffer, mut copied) = (vec![0; COPY], 0);
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => {
                    let read = self.bytes.len() as u64 + copied;
                    let whole = refuse_cut(&self.file, self.len, read).map(|()| copied);
                    return Ok(whole.map_err(|source| ImageError::Read { source }));
                }
                Ok(len) => {
                    to.write_all(&buffer[..len]).map_err(io_error("write", staged))?;
                    copied += len as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Ok(Err(ImageError::Read { source })),
            }
        }
    }
}
