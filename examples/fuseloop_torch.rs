//! A loader behind a C ABI: a library that Python calls through `ctypes`, and that hands its
//! batches to PyTorch through DLPack. `scripts/gpu_check.py` shows how to use it.
//!
//! ```text
//! cargo build --release --example fuseloop_torch      target/release/examples/libfuseloop_torch.so
//! ```
//!
//! | function | returns | |
//! |---|---|---|
//! | `fuseloop_open(path, pipeline, samples, side)` | a loader | reads a `.beton` file, or images of noise if `path` is null; `pipeline` is the text of a pipeline file |
//! | `fuseloop_device(loader)` | a text | the device that builds the batches; valid until the loader is closed |
//! | `fuseloop_begin(loader, epoch)` | 0 | |
//! | `fuseloop_next(loader)` | a batch | null also at the end of an epoch: then no error is set |
//! | `fuseloop_rows(batch)` | the number of samples | |
//! | `fuseloop_dlpack(batch, name, stream)` | a `DLManagedTensor` | outlives batch and loader; the caller calls its deleter |
//! | `fuseloop_bytes(batch, name, to, room)` | the number of bytes of the tensor | copied to `to` if `room` suffices, from host or device memory |
//! | `fuseloop_let_go(batch)`, `fuseloop_close(loader)` | | called once each |
//! | `fuseloop_error()` | the last error of this thread | or null |
//!
//! Null or -1 means an error. `stream` is DLPack's: 1 and 2 are CUDA's default streams, other
//! values are handles. No two threads may use one loader at the same time. No panic unwinds into C.

#![allow(unsafe_code, reason = "pointers of C")]

use fuseloop::device::{DeviceStream, ManagedTensor};
use fuseloop::source::{BoxError, Facts, FieldKind, InMemory, OwnedImage, OwnedValue};
use fuseloop::{Batch, Batches, Loader, Spec};
use fuseloop_ops::author::Rng;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// A loader, and the epoch that it has begun, if any.
pub struct Open {
    loader: Loader,
    device: CString,
    epoch: Option<Batches>,
}

thread_local! {
    static WRONG: RefCell<Option<CString>> = const { RefCell::new(None) };
}

fn text(words: &str) -> CString {
    CString::new(words.replace('\0', " ")).unwrap_or_default()
}

/// Formats an error in one line, followed by each of its causes that the line does not already
/// contain.
fn in_full(error: &BoxError) -> CString {
    let first: &dyn std::error::Error = &**error;
    let reasons = std::iter::successors(first.source(), |error| error.source());
    let add = |text: String, reason: &dyn std::error::Error| {
        let reason = reason.to_string();
        if text.contains(&reason) { text } else { format!("{text}: {reason}") }
    };
    text(&reasons.fold(first.to_string(), add))
}

/// Returns the result of `run`. If `run` fails or panics, records the error and returns `failed`.
fn guarded<T>(failed: T, run: impl FnOnce() -> Result<T, BoxError>) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".into()));
    let (given, wrong) = match outcome {
        Ok(given) => (given, None),
        Err(error) => (failed, Some(in_full(&error))),
    };
    WRONG.with_borrow_mut(|last| *last = wrong);
    given
}

/// # Safety
///
/// `words` is null, or points to a NUL-terminated string that outlives `'a`.
unsafe fn words<'a>(words: *const c_char) -> Result<Option<&'a str>, BoxError> {
    if words.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller upholds this function's contract.
    Ok(Some(unsafe { CStr::from_ptr(words) }.to_str()?))
}

/// Returns the last error of this thread, valid until the next call; null if the last call
/// succeeded.
#[unsafe(no_mangle)]
pub extern "C" fn fuseloop_error() -> *const c_char {
    WRONG.with_borrow(|wrong| wrong.as_ref().map_or(ptr::null(), |words| words.as_ptr()))
}

/// Opens a loader.
///
/// # Safety
///
/// `path` and `pipeline` are null, or NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_open(
    path: *const c_char,
    pipeline: *const c_char,
    samples: u64,
    side: u32,
) -> *mut Open {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller upholds this function's contract.
        let (path, pipeline) = unsafe { (words(path)?, words(pipeline)?) };
        let spec: Spec = pipeline.unwrap_or_default().parse()?;
        let builder = match path {
            Some(path) => Loader::open(path)?,
            None => Loader::from_source(drawn(samples, side)),
        };
        let loader = spec.apply(builder).build()?;
        let device = text(&loader.device().to_string());
        Ok(Box::into_raw(Box::new(Open { loader, device, epoch: None })))
    })
}

/// Returns the name of the device that builds the batches.
///
/// # Safety
///
/// `open` is a loader that has not been closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_device(open: *const Open) -> *const c_char {
    // SAFETY: the caller upholds this function's contract.
    unsafe { &*open }.device.as_ptr()
}

/// Begins an epoch. The rest of the previous epoch is dropped.
///
/// # Safety
///
/// `open` is a loader that has not been closed and that no other thread uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_begin(open: *mut Open, epoch: u32) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller upholds this function's contract.
        let open = unsafe { &mut *open };
        open.epoch = None;
        open.epoch = Some(open.loader.epoch(epoch)?);
        Ok(0)
    })
}

/// Returns the next batch of the epoch.
///
/// # Safety
///
/// The same as for [`fuseloop_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_next(open: *mut Open) -> *mut Batch {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller upholds this function's contract.
        let epoch = unsafe { &mut *open }.epoch.as_mut().ok_or("no epoch has begun")?;
        Ok(epoch
            .next()
            .transpose()?
            .map_or(ptr::null_mut(), |batch| Box::into_raw(Box::new(batch))))
    })
}

/// Returns the number of samples of a batch.
///
/// # Safety
///
/// `batch` is a batch that has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_rows(batch: *const Batch) -> i64 {
    // SAFETY: the caller upholds this function's contract. No batch has 2^63 rows.
    unsafe { &*batch }.len() as i64
}

/// Returns a tensor on a device for another library, which reads the tensor on `stream`.
///
/// # Safety
///
/// `batch` is a batch that has not been freed, `name` is NUL-terminated, and a `stream` above 2 is
/// a handle that stays valid until the tensor is deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_dlpack(
    batch: *const Batch,
    name: *const c_char,
    stream: i64,
) -> *mut ManagedTensor {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller upholds this function's contract.
        let (batch, name, stream) =
            unsafe { (&*batch, words(name)?, DeviceStream::from_dlpack(Some(stream))?) };
        Ok(batch.dlpack(name.unwrap_or_default(), stream)?.into_raw())
    })
}

/// Returns the number of bytes of a tensor, and copies the bytes to `to` if they fit into `room`.
///
/// # Safety
///
/// `batch` is a batch that has not been freed, `name` is NUL-terminated, and `to` is valid for
/// writes of `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_bytes(
    batch: *const Batch,
    name: *const c_char,
    to: *mut u8,
    room: usize,
) -> i64 {
    guarded(-1, || {
        // SAFETY: the caller upholds this function's contract.
        let (batch, name) = unsafe { (&*batch, words(name)?.unwrap_or_default()) };
        // The output of a list without `ToDevice` is on the host, even if other outputs of the
        // batch are on a device.
        let bytes = match batch.bytes(name) {
            Ok(bytes) => bytes.to_vec(),
            Err(_) => batch.to_host(name)?,
        };
        if bytes.len() <= room {
            // SAFETY: the caller promises `room` bytes; `bytes` is a new vector and cannot overlap
            // them.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
        Ok(i64::try_from(bytes.len())?)
    })
}

/// Frees a batch.
///
/// # Safety
///
/// `batch` is null, or a batch that is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_let_go(batch: *mut Batch) {
    guarded((), || {
        // SAFETY: the caller's promise: the pointer comes from `fuseloop_next`.
        drop((!batch.is_null()).then(|| unsafe { Box::from_raw(batch) }));
        Ok(())
    });
}

/// Closes a loader.
///
/// # Safety
///
/// `open` is null, or a loader that is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_close(open: *mut Open) {
    guarded((), || {
        // SAFETY: the caller's promise: the pointer comes from `fuseloop_open`.
        drop((!open.is_null()).then(|| unsafe { Box::from_raw(open) }));
        Ok(())
    });
}

/// Returns images of noise, of differing sizes, determined by the sample's index alone; labels are below
/// 10.
fn drawn(samples: u64, side: u32) -> InMemory {
    let side = side.clamp(1, 4096);
    let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int)];
    InMemory::from_fn(Facts::new(fields, samples).named("drawn pictures"), move |sample| {
        let mut rng = Rng::new(sample.0);
        let (height, width) = (side + rng.below(9), side + rng.below(9));
        let bytes = (0..height * width * 3).map(|_| rng.below(256) as u8).collect();
        let image = OwnedImage::rgb((height, width), bytes);
        Ok(vec![OwnedValue::Image(image), OwnedValue::Int(i64::try_from(sample.0 % 10)?)])
    })
}
