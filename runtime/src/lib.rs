//! The functions of the headers that `fuseloop compile --header` writes: a list of ops, compiled ahead of time, in C.
//!
//! ```text
//! cc main.c val.o libfuseloop_runtime.a -lm -lpthread -ldl
//! ```
//!
//! The header, `cli/src/compile/fuseloop.h`, describes each function. None of them starts a thread, makes a page
//! executable or unwinds: a panic is an error. Addresses are checked for null; what is behind them is the caller's promise.

#![allow(unsafe_code, reason = "functions for C, and the slices of their arguments")]

use fuseloop::internals::spec::linked_by_header;
use fuseloop::internals::transform::{ImageExt as _, TransformExt as _};
use fuseloop::ops::DType;
use fuseloop::transform::{CompiledObject, Image, Key, Transform};
use fuseloop::{Error, ErrorKind};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

/// The status that a function returns.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Status {
    Ok = 0,
    Argument = 1,
    Image = 2,
    Object = 3,
    Memory = 4,
    Bug = 5,
}

/// A fault: its status and its text.
struct Fault(Status, String);

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Damaged | ErrorKind::Format => Status::Image,
            ErrorKind::Memory => Status::Memory,
            _ => Status::Argument,
        };
        Self(status, error.to_string())
    }
}

fn argument(text: impl Into<String>) -> Fault {
    Fault(Status::Argument, text.into())
}

thread_local! {
    /// The text of the last fault of this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function for C, and records its fault.
fn guarded(body: impl FnOnce() -> Result<(), Fault>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Fault(
            Status::Bug,
            format!("fuseloop panicked, which is a bug (please report it): {text}"),
        ))
    });
    let Err(Fault(status, text)) = outcome else { return Status::Ok as c_int };
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    // A thread that ends has no text any more.
    let _ = LAST.try_with(|last| last.replace(text));
    status as c_int
}

/// See `fuseloop_context` in the header.
pub struct Context(Transform);

/// See `fuseloop_key` in the header.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CKey {
    seed: u64,
    sample: u64,
    epoch: u32,
    field: u32,
}

/// See `fuseloop_array` in the header.
#[repr(C)]
pub struct CArray {
    bytes: usize,
    shape: [usize; 3],
    axes: u32,
    dtype: u32,
}

/// See the header.
///
/// # Safety
///
/// `list` must be null or the static of an object file, and `context` null or good for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_open(
    list: *const CompiledObject,
    header: u64,
    context: *mut *mut Context,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { context.as_mut() }.ok_or_else(|| argument("`context` is null"))?;
        *context = ptr::null_mut();
        // SAFETY: the caller's promise: a static lives as long as the program.
        let list = unsafe { list.as_ref() }.ok_or_else(|| argument("`list` is null"))?;
        let transform = linked_by_header(list, header)
            .map_err(|error| Fault(Status::Object, error.to_string()))?;
        *context = Box::into_raw(Box::new(Context(transform)));
        Ok(())
    })
}

/// See the header.
///
/// # Safety
///
/// `context` must be null or of [`fuseloop_open`], not closed before, and no other call may use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_close(context: *mut Context) {
    guarded(|| {
        if !context.is_null() {
            // SAFETY: the caller's promise: `fuseloop_open` made it of a box.
            drop(unsafe { Box::from_raw(context) });
        }
        Ok(())
    });
}

/// See the header.
///
/// # Safety
///
/// `context` must be null or open; `pixels` null or good for `height` rows of `width * channels` bytes that begin `stride`
/// bytes apart; `out` null or good for writing `out_bytes`; `array` null or good for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_apply_pixels(
    context: *const Context,
    pixels: *const u8,
    height: usize,
    width: usize,
    channels: usize,
    stride: usize,
    key: CKey,
    out: *mut c_void,
    out_bytes: usize,
    array: *mut CArray,
) -> c_int {
    guarded(|| {
        if pixels.is_null() {
            return Err(argument("`pixels` is null"));
        }
        if height == 0 || width == 0 {
            let sides = format!("the image is {width} x {height} pixels: each must be 1 to 65535");
            return Err(argument(sides));
        }
        let row = width.checked_mul(channels).filter(|row| *row <= stride);
        let row = row.ok_or_else(|| {
            argument(format!(
                "{width} pixels of {channels} bytes are more than a row of {stride} bytes"
            ))
        })?;
        let len = height.saturating_sub(1).checked_mul(stride).and_then(|len| len.checked_add(row));
        let len = len.filter(|len| *len <= isize::MAX as usize);
        let len =
            len.ok_or_else(|| argument("the image has more bytes than an address can count"))?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { slice::from_raw_parts(pixels, len) };
        let image = Image::of_rows(DType::U8, bytes, [height, width, channels], stride)?;
        // SAFETY: the caller's promise.
        unsafe { apply(context, &image, key, (out, out_bytes), array) }
    })
}

/// See the header.
///
/// # Safety
///
/// `file` must be null or good for `file_bytes`; see [`fuseloop_apply_pixels`] for the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuseloop_apply_file(
    context: *const Context,
    file: *const u8,
    file_bytes: usize,
    key: CKey,
    out: *mut c_void,
    out_bytes: usize,
    array: *mut CArray,
) -> c_int {
    guarded(|| {
        if file.is_null() || file_bytes > isize::MAX as usize {
            return Err(argument("`file` is null, or longer than memory can be"));
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { slice::from_raw_parts(file, file_bytes) };
        // SAFETY: the caller's promise.
        unsafe { apply(context, &Image::encoded(bytes), key, (out, out_bytes), array) }
    })
}

/// Applies the list to an image, or returns the shape of its array if `out` is null.
///
/// # Safety
///
/// See [`fuseloop_apply_pixels`].
unsafe fn apply(
    context: *const Context,
    image: &Image<'_>,
    key: CKey,
    (out, out_bytes): (*mut c_void, usize),
    array: *mut CArray,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    let Context(transform) =
        unsafe { context.as_ref() }.ok_or_else(|| argument("`context` is null"))?;
    let key = Key::new(key.seed, key.epoch, key.sample).field(key.field as usize);
    let (dtype, shape) = if out.is_null() {
        transform.shape_of(image, key)?
    } else {
        if out_bytes > isize::MAX as usize {
            return Err(argument("`out_bytes` is more than memory can have"));
        }
        let mut made = None;
        transform.apply_to(image, key, |array| {
            made = Some((array.dtype(), array.shape()));
            // SAFETY: the caller's promise; no other reference is to `out`.
            Ok(unsafe { slice::from_raw_parts_mut(out.cast::<u8>(), out_bytes) })
        })?;
        made.unwrap_or((DType::U8, vec![]))
    };
    // SAFETY: the caller's promise.
    if let Some(array) = unsafe { array.as_mut() } {
        let mut axes = [1; 3];
        axes.iter_mut().zip(&shape).for_each(|(axis, side)| *axis = *side);
        let bytes = shape.iter().fold(dtype.bytes(), |bytes, side| bytes.saturating_mul(*side));
        *array = CArray { bytes, shape: axes, axes: shape.len() as u32, dtype: code(dtype) };
    }
    Ok(())
}

/// Returns the number of a type in the header.
fn code(dtype: DType) -> u32 {
    match dtype {
        DType::U8 => 0,
        DType::U16 => 1,
        DType::I16 => 2,
        DType::I32 => 3,
        DType::I64 => 4,
        DType::F16 => 5,
        DType::Bf16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        // No header names another type.
        _ => u32::MAX,
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn fuseloop_last_error() -> *const c_char {
    // The text is good until the next call of this thread.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn fuseloop_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
