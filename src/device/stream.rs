//! The streams that readers of a batch use; they order the reads after the writes.
//!
//! | DLPack's number | here |
//! |---|---|
//! | none, 1 | [`DeviceStream::Legacy`] |
//! | 2 | [`DeviceStream::PerThread`] |
//! | above 2 | [`DeviceStream::Handle`] |
//! | -1 | [`DeviceStream::Unordered`] |
//! | 0, below -1 | an error |

#![allow(unsafe_code, reason = "a handle is believed")]

use crate::error::Error;
use crate::error::fail;

/// The stream on which a batch is read.
///
/// ```no_run
/// use fuseloop::device::DeviceStream;
///
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let batch = loader.get(&[0, 1], 0)?;
/// // The address may be used by what is queued on the legacy default stream from now on.
/// let address = batch.device_ptr("image", DeviceStream::Legacy)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceStream {
    /// CUDA's default stream, which PyTorch computes on by default.
    Legacy,
    /// The default stream of the calling thread.
    PerThread,
    /// A stream that the caller created.
    Handle(StreamHandle),
    /// No stream: the caller ensures that the batch is there before it is read. Memory read this way is
    /// used again only after the whole device was waited for.
    Unordered,
}

/// The handle of a stream that the caller created.
///
/// ```
/// use fuseloop::device::{DeviceStream, StreamHandle};
/// use std::ffi::c_void;
///
/// /// Returns the stream of a `cudaStream_t`.
/// ///
/// /// # Safety
/// ///
/// /// See [`StreamHandle::new`].
/// unsafe fn of_cuda(stream: *mut c_void) -> DeviceStream {
///     // SAFETY: the caller's promise.
///     DeviceStream::Handle(unsafe { StreamHandle::new(stream.addr()) })
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHandle(usize);

impl StreamHandle {
    /// Wraps the driver's or the runtime's pointer to a stream (`cudaStream_t`, `CUstream`).
    ///
    /// # Safety
    ///
    /// `handle` is a stream, and the stream lives until every batch that is made ready on it is dropped,
    /// and every capsule created for it is deleted. PyTorch's streams live as long as the process.
    #[must_use]
    pub const unsafe fn new(handle: usize) -> Self {
        Self(handle)
    }
}

impl DeviceStream {
    /// Returns the stream that DLPack's `stream` argument names.
    ///
    /// # Errors
    ///
    /// If DLPack does not define the number.
    ///
    /// # Safety
    ///
    /// See [`StreamHandle::new`], for a number above 2.
    pub unsafe fn from_dlpack(stream: Option<i64>) -> Result<Self, Error> {
        match stream {
            None | Some(1) => Ok(Self::Legacy),
            Some(2) => Ok(Self::PerThread),
            Some(-1) => Ok(Self::Unordered),
            Some(stream) => match usize::try_from(stream) {
                // SAFETY: the caller's promise.
                Ok(handle @ 3..) => Ok(Self::Handle(unsafe { StreamHandle::new(handle) })),
                _ => Err(fail!(
                    Parameter,
                    "stream {stream} is not a DLPack stream: expected 1 (legacy), 2 (per thread), -1 (no \
                     synchronization) or a handle above 2"
                )),
            },
        }
    }

    /// Returns the driver's handle of the stream.
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

    fn dlpack(stream: Option<i64>) -> Option<DeviceStream> {
        // SAFETY: nothing is read on it.
        unsafe { DeviceStream::from_dlpack(stream) }.ok()
    }

    #[test]
    fn streams_are_those_of_dlpack() {
        assert_eq!(dlpack(None), Some(DeviceStream::Legacy));
        assert_eq!(dlpack(Some(1)), Some(DeviceStream::Legacy));
        assert_eq!(dlpack(Some(2)), Some(DeviceStream::PerThread));
        assert_eq!(dlpack(Some(-1)), Some(DeviceStream::Unordered));
        assert_eq!(dlpack(Some(3)), Some(DeviceStream::Handle(StreamHandle(3))));
        assert_eq!(
            dlpack(Some(i64::MAX)),
            Some(DeviceStream::Handle(StreamHandle(i64::MAX as usize)))
        );
        for stream in [0, -2, i64::MIN] {
            assert_eq!(dlpack(Some(stream)), None);
        }
    }
}
