//! Arguments of the functions that C calls, and the macro that exports such functions.
//!
//! | type       | C                           | the caller promises                     |
//! |------------|-----------------------------|-----------------------------------------|
//! | `Out<T>`   | `T*`                        | null, or a valid pointer to one `T`     |
//! | `Text`     | `const char*`               | null, or a NUL-terminated string        |
//! | `Array<T>` | `T*`                        | null, or as many `T` as the call says   |
//! | `Host`     | `void*`                     | null, or as many bytes as the call says |
//! | `Handle`   | `CUstream`, `CUevent`, ...  | nothing: the handle is looked up        |
//!
//! Rust code cannot construct any of them: a value always comes from a caller in C, with the
//! caller's promise. A panic does not cross into C: the `call` function of each stand-in catches
//! it.
#![allow(unsafe_code, reason = "the pointers of C")]

use crate::memory::Span;
use std::ffi::{CStr, c_char, c_void};

/// The error for a null pointer.
pub(crate) struct Null;

/// A pointer that a result is written to.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn put(&self, value: T) -> Result<(), Null> {
        if self.is_null() {
            return Err(Null);
        }
        // SAFETY: not null, so valid for one `T`, as the table above says.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

impl<T: Copy> Out<T> {
    pub(crate) fn get(&self) -> Result<T, Null> {
        if self.is_null() {
            return Err(Null);
        }
        // SAFETY: not null, so one `T`, as the table above says.
        Ok(unsafe { self.0.read() })
    }
}

/// A string.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn read(self) -> Result<String, Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: not null, so a NUL-terminated string, as the table above says.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

impl From<Host> for Text {
    /// Converts memory that holds a string, as the call says.
    fn from(host: Host) -> Self {
        Self(host.0.cast_const().cast())
    }
}

/// Several values in a row.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Array<T>(*const T);

impl<T: Copy> Array<T> {
    /// Returns the first `count` values, which the call says exist.
    pub(crate) fn read(&self, count: usize) -> Result<Vec<T>, Null> {
        if count == 0 {
            return Ok(vec![]);
        }
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: not null, so as many as the call says, as the table above says.
        Ok((0..count).map(|at| unsafe { self.0.add(at).read() }).collect())
    }
}

/// Memory of the caller.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Host(*mut c_void);

impl Host {
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// Returns the first `len` bytes, which the call says exist.
    pub(crate) fn span(self, len: usize) -> Result<Span, Null> {
        if self.0.is_null() && len > 0 {
            return Err(Null);
        }
        // SAFETY: not null, so as many bytes as the call says, as the table above says. The caller
        // also promises how long the bytes stay valid: CUDA's rules for the call that receives
        // them.
        Ok(unsafe { Span::of_caller(self.address(), len) })
    }
}

/// A stream, an event, a module: a number that the fake handed out, or one that CUDA defines.
pub(crate) type Handle = u64;

/// Exports functions that return a `$answer`, each through `$call(name, arguments, body)`.
macro_rules! export {
    ($call:path => $answer:ty; $($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[allow(unsafe_code, non_snake_case, reason = "a name that C looks up")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> $answer {
            let arguments: &[&dyn std::fmt::Debug] = &[$(&$arg),*];
            $call(stringify!($name), arguments, || $body)
        }
    )*};
}
pub(crate) use export;
