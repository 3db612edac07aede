//! Streams of whoever reads a batch: what orders the reading with the writing.
//!
//! | DLPack's number | here |
//! |---|---|
//! | none, 1 | [`Stream::Legacy`] |
//! | 2 | [`Stream::PerThread`] |
//! | above 2 | [`Stream::Handle`] |
//! | -1 | [`Stream::Unordered`] |
//! | 0, below -1 | none |

#![allow(unsafe_code, reason = "a handle is believed")]

use super::DeviceError;

/// The stream on which a batch is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stream {
    /// CUDA's default stream, which PyTorch computes on unless told otherwise.
    Legacy,
    /// The default stream of the calling thread.
    PerThread,
    /// One that somebody made.
    Handle(StreamHandle),
    /// None: the caller sees to it that the batch is there before it is read. Memory so lent is
    /// used again only after the whole device was waited for.
    Unordered,
}

/// A stream that somebody made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHandle(usize);

impl StreamHandle {
    /// A stream by the driver's or the runtime's pointer to it (`cudaStream_t`, `CUstream`).
    ///
    /// # Safety
    ///
    /// It is one, and lives until every batch that is handed to it is dropped, and every capsule
    /// made for it deleted. PyTorch's streams live as long as the process.
    #[must_use]
    pub const unsafe fn new(handle: usize) -> Self {
        Self(handle)
    }
}

impl Stream {
    /// The stream that DLPack's `stream` argument names.
    ///
    /// # Errors
    ///
    /// If the number is none of DLPack's.
    ///
    /// # Safety
    ///
    /// As [`StreamHandle::new`], of a number above 2.
    pub unsafe fn from_dlpack(stream: Option<i64>) -> Result<Self, DeviceError> {
        match stream {
            None | Some(1) => Ok(Self::Legacy),
            Some(2) => Ok(Self::PerThread),
            Some(-1) => Ok(Self::Unordered),
            Some(stream) => match usize::try_from(stream) {
                // SAFETY: as promised.
                Ok(handle @ 3..) => Ok(Self::Handle(unsafe { StreamHandle::new(handle) })),
                _ => Err(DeviceError::BadStream { stream }),
            },
        }
    }

    /// What the driver knows it by.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "there is no driver"))]
    pub(crate) const fn number(self) -> Option<usize> {
        match self {
            Self::Legacy => Some(1),
            Self::PerThread => Some(2),
            Self::Handle(StreamHandle(handle)) => Some(handle),
            Self::Unordered => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dlpack(stream: Option<i64>) -> Result<Stream, DeviceError> {
        // SAFETY: nothing is read on it.
        unsafe { Stream::from_dlpack(stream) }
    }

    #[test]
    fn streams_are_those_of_dlpack() {
        assert_eq!(dlpack(None), Ok(Stream::Legacy));
        assert_eq!(dlpack(Some(1)), Ok(Stream::Legacy));
        assert_eq!(dlpack(Some(2)), Ok(Stream::PerThread));
        assert_eq!(dlpack(Some(-1)), Ok(Stream::Unordered));
        assert_eq!(dlpack(Some(3)), Ok(Stream::Handle(StreamHandle(3))));
        assert_eq!(dlpack(Some(i64::MAX)), Ok(Stream::Handle(StreamHandle(i64::MAX as usize))));
        for stream in [0, -2, i64::MIN] {
            assert_eq!(dlpack(Some(stream)), Err(DeviceError::BadStream { stream }));
        }
    }
}
