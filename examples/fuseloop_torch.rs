//! A loader behind a C ABI: a library that Python calls by `ctypes`, and that gives PyTorch its
//! batches by DLPack. `scripts/gpu_check.py` shows how.
//!
//! ```text
//! cargo build --release --example fuseloop_torch      target/release/examples/libfuseloop_torch.so
//! ```
//!
//! | function | gives | |
//! |---|---|---|
//! | `fuseloop_open(path, pipeline, samples, side)` | a loader | of a `.beton` file, or without one of drawn pictures; `pipeline` is the text of a pipeline file |
//! | `fuseloop_device(loader)` | a text | where batches are made; until it is asked again |
//! | `fuseloop_begin(loader, epoch)` | 0 | |
//! | `fuseloop_next(loader)` | a batch | null at the end of an epoch too: then there is no error |
//! | `fuseloop_rows(batch)` | its samples | |
//! | `fuseloop_dlpack(batch, name, stream)` | a `DLManagedTensor` | outlives batch and loader; the caller calls its deleter |
//! | `fuseloop_bytes(batch, name, to, room)` | how many bytes it has | copied to `to` if there is room, wherever the tensor lies |
//! | `fuseloop_let_go(batch)`, `fuseloop_close(loader)` | | once |
//! | `fuseloop_error()` | what went wrong last on this thread | or null |
//!
//! Null or -1 is an error. `stream` is DLPack's: 1 and 2 are CUDA's own, others are handles. No two
//! threads use one loader at a time. Nothing unwinds into C.

#![allow(unsafe_code, reason = "pointers of C")]

use fuseloop::device::{DeviceStream, ManagedTensor};
use fuseloop::source::{BoxError, FieldKind, FieldSpec, OwnedImage, OwnedValue, Record, Source};
use fuseloop::{Batch, Batches, Loader, SampleId, Spec};
use fuseloop_ops::SampleKey;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// A loader, and its epoch that has begun.
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

/// An error in one line, with those of its reasons that it does not tell itself.
fn in_full(error: &BoxError) -> CString {
    let first: &dyn std::error::Error = &**error;
    let reasons = std::iter::successors(first.source(), |error| error.source());
    let add = |told: String, reason: &dyn std::error::Error| {
        let reason = reason.to_string();
        if told.contains(&reason) { told } else { format!("{told}: {reason}") }
    };
    text(&reasons.fold(first.to_string(), add))
}

/// What `run` gives, or `failed` with the error noted.
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
/// `words` is null, or a text that ends at a zero and lives on.
unsafe fn words<'a>(words: *const c_char) -> Result<Option<&'a str>, BoxError> {
    if words.is_null() {
        return Ok(None);
    }
    // SAFETY: as promised.
    Ok(Some(unsafe { CStr::from_ptr(words) }.to_str()?))
}

/// What went wrong last on this thread, until the next call; null if nothing did.
#[unsafe(no_mangle)]
pub extern "C" fn fuseloop_error() -> *const c_char {
    WRONG.with_borrow(|wrong| wrong.as_ref().map_or(ptr::null(), |words| words.as_ptr()))
}

/// Opens a loader.
///
/// # Safety
///
/// The texts end at a zero, or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_open(
    path: *const c_char,
    pipeline: *const c_char,
    samples: u64,
    side: u32,
) -> *mut Open {
    guarded(ptr::null_mut(), || {
        // SAFETY: as promised.
        let (path, pipeline) = unsafe { (words(path)?, words(pipeline)?) };
        let spec: Spec = pipeline.unwrap_or_default().parse()?;
        let builder = match path {
            Some(path) => Loader::open(path)?,
            None => Loader::from_source(Drawn::new(samples, side)),
        };
        let loader = spec.apply(builder).build()?;
        let device = text(&loader.device().to_string());
        Ok(Box::into_raw(Box::new(Open { loader, device, epoch: None })))
    })
}

/// Where batches are made.
///
/// # Safety
///
/// `open` is a loader that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_device(open: *const Open) -> *const c_char {
    // SAFETY: as promised.
    unsafe { &*open }.device.as_ptr()
}

/// Begins an epoch: what is left of the one before is not made.
///
/// # Safety
///
/// `open` is a loader that is not closed and that nobody else uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_begin(open: *mut Open, epoch: u32) -> i32 {
    guarded(-1, || {
        // SAFETY: as promised.
        let open = unsafe { &mut *open };
        open.epoch = None;
        open.epoch = Some(open.loader.epoch(epoch)?);
        Ok(0)
    })
}

/// The next batch of the epoch.
///
/// # Safety
///
/// As [`fuseloop_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_next(open: *mut Open) -> *mut Batch {
    guarded(ptr::null_mut(), || {
        // SAFETY: as promised.
        let epoch = unsafe { &mut *open }.epoch.as_mut().ok_or("no epoch has begun")?;
        Ok(epoch
            .next()
            .transpose()?
            .map_or(ptr::null_mut(), |batch| Box::into_raw(Box::new(batch))))
    })
}

/// Samples of a batch.
///
/// # Safety
///
/// `batch` is one that is not let go.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_rows(batch: *const Batch) -> i64 {
    // SAFETY: as promised. No batch has 2^63 rows.
    unsafe { &*batch }.len() as i64
}

/// A tensor on a device for another library, read on `stream`.
///
/// # Safety
///
/// `batch` is one that is not let go, `name` ends at a zero, and a `stream` above 2 is a handle that
/// lives until the tensor is deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_dlpack(
    batch: *const Batch,
    name: *const c_char,
    stream: i64,
) -> *mut ManagedTensor {
    guarded(ptr::null_mut(), || {
        // SAFETY: as promised.
        let (batch, name, stream) =
            unsafe { (&*batch, words(name)?, DeviceStream::from_dlpack(Some(stream))?) };
        Ok(batch.dlpack(name.unwrap_or_default(), stream)?.into_raw())
    })
}

/// How many bytes a tensor has; they are copied to `to` if there is room.
///
/// # Safety
///
/// `batch` is one that is not let go, `name` ends at a zero, and `room` bytes from `to` on may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_bytes(
    batch: *const Batch,
    name: *const c_char,
    to: *mut u8,
    room: usize,
) -> i64 {
    guarded(-1, || {
        // SAFETY: as promised.
        let (batch, name) = unsafe { (&*batch, words(name)?.unwrap_or_default()) };
        // What a list without `ToDevice` makes lies on the host, beside others that do not.
        let bytes = match batch.bytes(name) {
            Ok(bytes) => bytes.to_vec(),
            Err(_) => batch.to_host(name)?,
        };
        if bytes.len() <= room {
            // SAFETY: as promised, there is room; our copy is nobody else's.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
        Ok(i64::try_from(bytes.len())?)
    })
}

/// Lets a batch go.
///
/// # Safety
///
/// `batch` is one, or null, and not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_let_go(batch: *mut Batch) {
    guarded((), || {
        // SAFETY: as promised: made by `fuseloop_next`.
        drop((!batch.is_null()).then(|| unsafe { Box::from_raw(batch) }));
        Ok(())
    });
}

/// Closes a loader.
///
/// # Safety
///
/// `open` is one, or null, and not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_close(open: *mut Open) {
    guarded((), || {
        // SAFETY: as promised: made by `fuseloop_open`.
        drop((!open.is_null()).then(|| unsafe { Box::from_raw(open) }));
        Ok(())
    });
}

/// Pictures of noise, of differing sizes, that the same numbers always give; labels below 10.
struct Drawn {
    samples: u64,
    side: u32,
    fields: [FieldSpec; 2],
}

impl Drawn {
    fn new(samples: u64, side: u32) -> Self {
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
        Self { samples, side: side.clamp(1, 4096), fields }
    }
}

impl Source for Drawn {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn len(&self) -> u64 {
        self.samples
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let mut rng = SampleKey::new(1, 0, sample.0).op(0);
        let (height, width) = (self.side + rng.below(9), self.side + rng.below(9));
        let bytes = (0..height * width * 3).map(|_| rng.below(256) as u8).collect();
        let image = OwnedImage::rgb(height, width, bytes);
        Ok(vec![OwnedValue::Image(image), OwnedValue::Int(i64::try_from(sample.0 % 10)?)])
    }

    fn name(&self) -> String {
        "drawn pictures".to_owned()
    }
}
