//! NVRTC, CUDA's run-time compiler: [searched for](super::search) and loaded once.
//!
//! NVRTC's builtins are a library in the same folder, which CUDA 13's NVRTC does not find by itself: the
//! builtins are loaded first.

#![allow(unsafe_code, reason = "functions of a C library")]

use crate::error::{Error, fail};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::search::{Search, entries, starts};
use crate::device::Compiler;

type Program = *mut c_void;

/// The target of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompileTarget {
    /// Exactly this architecture: a CUBIN.
    Exact(u32),
    /// The newest architecture that the compiler knows: PTX, which the driver compiles further.
    Virtual(u32),
}

impl CompileTarget {
    /// Returns the compiler's options.
    pub(super) fn options(self) -> Vec<String> {
        let architecture = match self {
            Self::Exact(sm) => format!("--gpu-architecture=sm_{sm}"),
            Self::Virtual(compute) => format!("--gpu-architecture=compute_{compute}"),
        };
        // Multiplications and additions are not fused: the same bits as on the CPU.
        vec![architecture, "--std=c++17".to_owned(), "--fmad=false".to_owned()]
    }

    /// Selects the target for a GPU of `sm` and a compiler that supports the architectures `known`.
    fn of(sm: u32, known: &[u32]) -> Self {
        let older = known.iter().copied().filter(|&compute| compute < sm).max();
        match older {
            Some(compute) if !known.contains(&sm) => Self::Virtual(compute),
            _ => Self::Exact(sm),
        }
    }
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        #[allow(non_snake_case, reason = "names of the library")]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn find(library: &'static Library) -> Option<Self> {
                // SAFETY: the types are those of nvrtc.h; the library stays loaded.
                unsafe { Some(Self { $($name: *library.get(stringify!($name)).ok()?,)* }) }
            }
        }
    };
}

functions! {
    nvrtcVersion(*mut c_int, *mut c_int);
    nvrtcCreateProgram(
        *mut Program, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char
    );
    nvrtcCompileProgram(Program, c_int, *const *const c_char);
    nvrtcDestroyProgram(*mut Program);
    nvrtcGetProgramLogSize(Program, *mut usize);
    nvrtcGetProgramLog(Program, *mut c_char);
    nvrtcGetCUBINSize(Program, *mut usize);
    nvrtcGetCUBIN(Program, *mut c_char);
    nvrtcGetPTXSize(Program, *mut usize);
    nvrtcGetPTX(Program, *mut c_char);
}

/// A function that writes the number of bytes of a result, and a function that writes the bytes.
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// The compiler.
pub(super) struct Nvrtc {
    library: &'static Library,
    functions: Functions,
    version: (i32, i32),
    path: PathBuf,
}

impl Nvrtc {
    /// Returns the compiler, searched for once; `driver` is the major CUDA version that the driver
    /// supports.
    ///
    /// # Errors
    ///
    /// If no compiler is found.
    pub(super) fn get(driver: u32) -> Result<&'static Self, Error> {
        static NVRTC: OnceLock<Result<Nvrtc, Error>> = OnceLock::new();
        let found = NVRTC.get_or_init(|| Self::find(&Search::of_environment(driver).candidates()));
        found.as_ref().map_err(Error::copy)
    }

    fn find(candidates: &[PathBuf]) -> Result<Self, Error> {
        let tried = || {
            let names = candidates.iter().map(|path| path.display().to_string());
            fail!(
                Device,
                "this pipeline's kernel has to be compiled, and NVRTC was not found: `pip install \
                 nvidia-cuda-nvrtc-cu12`, or name the library in FUSELOOP_NVRTC (tried {})",
                names.collect::<Vec<_>>().join(", ")
            )
        };
        candidates.iter().find_map(|path| Self::load(path)).ok_or_else(tried)
    }

    fn load(path: &Path) -> Option<Self> {
        load_builtins(path);
        // SAFETY: a library with NVRTC's name, or one that the user named as NVRTC.
        let library = unsafe { Library::new(path) }.ok()?;
        // The library is never unloaded: it has threads and tables of its own.
        let library: &'static Library = Box::leak(Box::new(library));
        let functions = Functions::find(library)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two ints.
        let code = unsafe { (functions.nvrtcVersion)(&raw mut major, &raw mut minor) };
        let (version, path) = ((major, minor), path.to_owned());
        (code == 0).then_some(Self { library, functions, version, path })
    }

    pub(super) fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Describes the compiler.
    pub(super) fn describe(&self) -> Compiler {
        Compiler { version: self.version, path: self.path.clone() }
    }

    /// Returns the target for a GPU of this capability.
    pub(super) fn target(&self, capability: (u32, u32)) -> CompileTarget {
        let sm = capability.0 * 10 + capability.1;
        CompileTarget::of(sm, &self.architectures().unwrap_or_default())
    }

    /// Returns the architectures that the compiler supports; `None` if it can't list them.
    fn architectures(&self) -> Option<Vec<u32>> {
        type Ints = unsafe extern "C" fn(*mut c_int) -> c_int;
        let mut count = 0;
        // SAFETY: writes one int, and then as many ints as it says; the types are those of nvrtc.h.
        unsafe {
            let how_many = self.library.get::<Ints>("nvrtcGetNumSupportedArchs").ok()?;
            let which = self.library.get::<Ints>("nvrtcGetSupportedArchs").ok()?;
            let known = how_many(&raw mut count) == 0;
            let mut all = vec![0; usize::try_from(count).ok().filter(|_| known)?];
            (which(all.as_mut_ptr()) == 0).then_some(())?;
            Some(all.into_iter().filter_map(|sm| u32::try_from(sm).ok()).collect())
        }
    }

    /// Compiles `source`.
    ///
    /// # Errors
    ///
    /// If the compiler rejects `source`, with the first lines of its log.
    pub(super) fn compile(
        &self,
        source: &str,
        options: &[String],
        target: CompileTarget,
    ) -> Result<Vec<u8>, Error> {
        let text =
            |text: &str| CString::new(text).map_err(|_| refused("the source contains a zero byte"));
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let work = CompileJob::new(&self.functions, &text(source)?)?;
        // SAFETY: the number of options is that of `options`, and their text lives in `options` above.
        let code = unsafe {
            (self.functions.nvrtcCompileProgram)(
                work.program,
                options.len() as c_int,
                options.as_ptr(),
            )
        };
        let functions = &self.functions;
        let image = match target {
            CompileTarget::Exact(_) => {
                work.bytes(functions.nvrtcGetCUBINSize, functions.nvrtcGetCUBIN)
            }
            CompileTarget::Virtual(_) => {
                work.bytes(functions.nvrtcGetPTXSize, functions.nvrtcGetPTX)
            }
        };
        match image {
            Some(image) if code == 0 && !image.is_empty() => Ok(image),
            _ => Err(refused(&work.log(code))),
        }
    }
}

/// A text that is being compiled.
struct CompileJob<'a> {
    functions: &'a Functions,
    program: Program,
}

impl<'a> CompileJob<'a> {
    fn new(functions: &'a Functions, source: &CStr) -> Result<Self, Error> {
        let (mut program, none) = (ptr::null_mut(), ptr::null());
        // SAFETY: writes one pointer; copies the text, which ends in a zero byte. There are no headers.
        let code = unsafe {
            let (to, text) = (&raw mut program, source.as_ptr());
            (functions.nvrtcCreateProgram)(to, text, c"fuseloop.cu".as_ptr(), 0, none, none)
        };
        if code == 0 {
            return Ok(Self { functions, program });
        }
        Err(refused(&format!("error {code}")))
    }

    /// Returns a result, whose size `size` returns and whose bytes `bytes` writes.
    fn bytes(&self, size: Size, bytes: Bytes) -> Option<Vec<u8>> {
        let mut room = 0;
        // SAFETY: writes one size, and then as many bytes as it says.
        unsafe {
            (size(self.program, &raw mut room) == 0).then_some(())?;
            let mut all = vec![0u8; room];
            (bytes(self.program, all.as_mut_ptr().cast()) == 0).then_some(all)
        }
    }

    /// Returns the compiler's log, in one line.
    fn log(&self, code: c_int) -> String {
        let log =
            self.bytes(self.functions.nvrtcGetProgramLogSize, self.functions.nvrtcGetProgramLog);
        match shorten(&String::from_utf8_lossy(&log.unwrap_or_default())) {
            empty if empty.is_empty() => format!("error {code}"),
            text => text,
        }
    }
}

impl Drop for CompileJob<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is ours, and not used after.
        unsafe { (self.functions.nvrtcDestroyProgram)(&raw mut self.program) };
    }
}

/// Joins the first lines of a log into one.
fn shorten(log: &str) -> String {
    let lines = log.split(['\n', '\0']).map(str::trim).filter(|line| !line.is_empty());
    let text = lines.take(6).collect::<Vec<_>>().join("; ");
    text.chars().take(800).collect()
}

/// Loads the builtins next to the library at `path`, and never unloads them.
fn load_builtins(path: &Path) {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return;
    };
    for file in entries(folder).into_iter().filter(|file| starts(file, "libnvrtc-builtins.so")) {
        // SAFETY: a library of tables, next to the library that needs it.
        if let Ok(library) = unsafe { Library::new(file) } {
            std::mem::forget(library);
        }
    }
}

fn refused(log: &str) -> Error {
    fail!(Device, "NVRTC refused a kernel ({log}): please report it, with the list of ops")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn where_it_was_looked_for_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let no_library = dir.path().join("libnvrtc.so.12");
        fs::write(&no_library, "").unwrap();
        let missing = dir.path().join("missing.so");
        let error = Nvrtc::find(&[no_library.clone(), missing.clone()]).err().unwrap();
        let tried = format!("{}, {}", no_library.display(), missing.display());
        assert_eq!(error.kind(), crate::error::ErrorKind::Device);
        assert!(
            error.to_string().ends_with(&format!("in FUSELOOP_NVRTC (tried {tried})")),
            "{error}"
        );
    }

    #[test]
    fn an_older_compiler_makes_ptx_of_the_newest_it_knows() {
        assert_eq!(CompileTarget::of(90, &[]), CompileTarget::Exact(90));
        assert_eq!(CompileTarget::of(90, &[75, 80, 90, 100]), CompileTarget::Exact(90));
        assert_eq!(CompileTarget::of(120, &[75, 80, 90]), CompileTarget::Virtual(90));
        assert_eq!(CompileTarget::of(50, &[75, 80, 90]), CompileTarget::Exact(50));
        let options = CompileTarget::Virtual(90).options();
        assert_eq!(options, ["--gpu-architecture=compute_90", "--std=c++17", "--fmad=false"]);
        assert_eq!(CompileTarget::Exact(86).options()[0], "--gpu-architecture=sm_86");
    }

    #[test]
    fn a_log_is_cut_to_a_line() {
        assert_eq!(shorten("\n a \n\nb\0"), "a; b");
        assert_eq!(shorten(&"x\n".repeat(100)), "x; x; x; x; x; x");
        assert_eq!(shorten(&"é".repeat(10_000)).chars().count(), 800);
    }
}
