//! An NVRTC, the fake's or a real one.
#![allow(unsafe_code, reason = "NVRTC's functions, by name")]

use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::{env, fs, ptr};

type Program = *mut c_void;

pub(crate) struct Nvrtc {
    library: Library,
    /// Loaded first: the compiler looks for it among the loaded libraries.
    _builtins: Option<Library>,
}

/// The output of a compilation.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) ptx: String,
    pub(crate) cubin: Vec<u8>,
}

impl Nvrtc {
    /// Loads the library of this name: on the fake, its own NVRTC.
    pub(crate) fn fake() -> Self {
        // SAFETY: loading the fake runs no code.
        let library = unsafe { Library::new("libnvrtc.so.12") }.unwrap();
        Self { library, _builtins: None }
    }

    /// Loads the NVRTC that FUSELOOP_NVRTC names, a file or a folder; `None` if the variable is not
    /// set.
    pub(crate) fn real() -> Option<Self> {
        // A child on the fake GPU has the value in the other variable.
        let named = env::var_os("FUSELOOP_NVRTC").or_else(|| env::var_os("REAL_NVRTC"));
        let Some(named) = named.map(PathBuf::from) else {
            println!("skipped: FUSELOOP_NVRTC names no NVRTC");
            return None;
        };
        let folder = if named.is_dir() { named.as_path() } else { named.parent().unwrap() };
        let open = |name: &str| {
            let path = first(folder, name)?;
            // SAFETY: NVIDIA's library, named by the user who runs the test.
            Some(unsafe { Library::new(path) }.unwrap())
        };
        let builtins = open("libnvrtc-builtins.so");
        Some(Self { library: open("libnvrtc.so").unwrap(), _builtins: builtins })
    }

    /// Compiles `source` after `fuseloop.cuh`; an error is the number and the log.
    pub(crate) fn compile(
        &self,
        source: &str,
        options: &[&str],
    ) -> Result<Compiled, (i32, String)> {
        let header = include_str!("../../../../kernels/cuda/fuseloop.cuh");
        self.compile_alone(&format!("{header}{source}"), options)
    }

    pub(crate) fn compile_alone(
        &self,
        source: &str,
        options: &[&str],
    ) -> Result<Compiled, (i32, String)> {
        type Texts = *const *const c_char;
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            Texts,
            Texts,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, Texts) -> c_int;
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
        let source = CString::new(source).unwrap();
        let options: Vec<CString> = options.iter().map(|&o| CString::new(o).unwrap()).collect();
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program = ptr::null_mut();
        // SAFETY: the types are those of nvrtc.h, and the strings live until the end of the block.
        unsafe {
            let create = self.library.get::<Create>(b"nvrtcCreateProgram").unwrap();
            let name = c"kernels.cu".as_ptr();
            let none = ptr::null();
            assert_eq!(create(&raw mut program, source.as_ptr(), name, 0, none, none), 0);
            let compile = self.library.get::<Compile>(b"nvrtcCompileProgram").unwrap();
            let code = compile(program, options.len() as c_int, options.as_ptr());
            let text = |size, get| {
                String::from_utf8(self.bytes(program, size, get))
                    .unwrap()
                    .trim_end_matches('\0')
                    .to_owned()
            };
            let made = if code == 0 {
                let ptx = text("nvrtcGetPTXSize", "nvrtcGetPTX");
                Ok(Compiled {
                    ptx,
                    cubin: self.bytes(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
                })
            } else {
                Err((code, text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")))
            };
            let destroy = self.library.get::<Destroy>(b"nvrtcDestroyProgram").unwrap();
            assert_eq!(destroy(&raw mut program), 0);
            made
        }
    }

    /// Returns the bytes that a pair of functions yields: one returns the size, the other the
    /// bytes.
    fn bytes(&self, program: Program, size: &str, get: &str) -> Vec<u8> {
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
        // SAFETY: the types are those of nvrtc.h, and the buffer has the size that NVRTC returned.
        unsafe {
            let size = self.library.get::<Size>(size.as_bytes()).unwrap();
            let get = self.library.get::<Get>(get.as_bytes()).unwrap();
            let mut len = 0;
            assert_eq!(size(program, &raw mut len), 0);
            let mut bytes = vec![0; len];
            if len > 0 {
                assert_eq!(get(program, bytes.as_mut_ptr().cast()), 0);
            }
            bytes
        }
    }
}

/// Returns the first file of a folder whose name starts with `name`.
fn first(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name)))
        .min()
}
