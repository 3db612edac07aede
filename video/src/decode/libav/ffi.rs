//! The functions of libavcodec and libavutil, looked up at run time, and the few fields of their structures that are read or
//! written. All unsafe code of this crate is here.
//!
//! The offsets are those of 64-bit systems. They have been the same from FFmpeg 4 to 8; other major versions are refused, and
//! [`Library::load`] compares the fields of new structures with the values that they have by documentation.
//!
//! | structure           | fields                                                                       |
//! |---------------------|------------------------------------------------------------------------------|
//! | `AVCodec`           | `name` 0, `id` 20                                                            |
//! | `AVCodecParameters` | `codec_type` 0, `codec_id` 4, `codec_tag` 8, `extradata` 16, `extradata_size` 24, `width` and `height` 56, from version 61 on 72 |
//! | `AVPacket`          | `buf` 0, `pts` 8, `dts` 16, `data` 24, `size` 32                             |
//! | `AVFrame`           | `data` 0, `linesize` 64, `width` 104, `height` 108, `format` 116, `pts` 136  |

#![allow(unsafe_code, reason = "functions of a C library that is loaded at run time")]

use crate::Subsampling;
use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A pointer to a structure of the library.
type Pointer = *mut c_void;

/// `AV_NOPTS_VALUE`.
const NO_PTS: i64 = i64::MIN;
/// `AV_PROFILE_UNKNOWN` and `AV_LEVEL_UNKNOWN`.
const UNKNOWN: c_int = -99;
/// `AV_LOG_ERROR`.
const LOG_ERROR: c_int = 16;
/// `AV_EF_EXPLODE`.
const EXPLODE: i64 = 1 << 3;
/// `AV_CODEC_FLAG_OUTPUT_CORRUPT`.
const OUTPUT_CORRUPT: i64 = 1 << 3;
/// `AVERROR_EOF`, the tag "EOF ".
const END: c_int = -0x2046_4f45;
/// `AVERROR_INVALIDDATA`, the tag "INDA".
const INVALID_DATA: c_int = -0x4144_4e49;
/// `AVERROR_PATCHWELCOME`, the tag "PAWE".
const NOT_WRITTEN: c_int = -0x4557_4150;
/// `AVERROR(ENOMEM)`.
const NO_MEMORY: c_int = -12;
/// Bytes after extradata that the library may read, `AV_INPUT_BUFFER_PADDING_SIZE`.
const PADDING: usize = 64;

/// Declares the table of functions and how each is looked up.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),* $(; $variadic:tt)?) $(-> $result:ty)?;)*) => {
        /// The functions, by their names in C.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),* $(, $variadic)?) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks all functions up, first in the codec library, then in the other one.
            fn find(codec: &libloading::Library, util: Option<&libloading::Library>) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: a function of this name has this type in all versions from FFmpeg 4 to 8
                        // (libavcodec/avcodec.h, codec.h, codec_par.h, packet.h, libavutil/*.h).
                        let found = unsafe { codec.get(name.as_bytes()) }
                            // SAFETY: as above.
                            .or_else(|error| util.map_or(Err(error), |util| unsafe { util.get(name.as_bytes()) }));
                        *found.map_err(|_| concat!("it has no function ", stringify!($name)))?
                    },)*
                })
            }
        }
    };
}

functions! {
    avcodec_version: fn() -> u32;
    avutil_version: fn() -> u32;
    avcodec_find_decoder_by_name: fn(*const c_char) -> Pointer;
    avcodec_alloc_context3: fn(Pointer) -> Pointer;
    avcodec_free_context: fn(*mut Pointer);
    avcodec_parameters_alloc: fn() -> Pointer;
    avcodec_parameters_free: fn(*mut Pointer);
    avcodec_parameters_to_context: fn(Pointer, Pointer) -> c_int;
    avcodec_open2: fn(Pointer, Pointer, *mut Pointer) -> c_int;
    avcodec_send_packet: fn(Pointer, Pointer) -> c_int;
    avcodec_receive_frame: fn(Pointer, Pointer) -> c_int;
    avcodec_flush_buffers: fn(Pointer);
    av_packet_alloc: fn() -> Pointer;
    av_packet_free: fn(*mut Pointer);
    av_frame_alloc: fn() -> Pointer;
    av_frame_free: fn(*mut Pointer);
    av_mallocz: fn(usize) -> Pointer;
    av_dict_set: fn(*mut Pointer, *const c_char, *const c_char, c_int) -> c_int;
    av_dict_free: fn(*mut Pointer);
    av_opt_set_int: fn(Pointer, *const c_char, i64, c_int) -> c_int;
    av_opt_get_int: fn(Pointer, *const c_char, c_int, *mut i64) -> c_int;
    av_get_pix_fmt_name: fn(c_int) -> *const c_char;
    av_strerror: fn(c_int, *mut c_char, usize) -> c_int;
    av_log: fn(Pointer, c_int, *const c_char; ...);
    av_log_set_callback: fn(LogCallback);
    av_log_default_callback: fn(Pointer, c_int, *const c_char, Pointer);
}

/// A function that takes messages: who sends it, its level, its format, and a `va_list` of arguments, which is a pointer as a
/// parameter on all 64-bit systems, and is only passed on.
type LogCallback = unsafe extern "C" fn(Pointer, c_int, *const c_char, Pointer);

/// The library's own function for messages.
static DEFAULT_LOG: OnceLock<LogCallback> = OnceLock::new();

/// A message of our own, by which `log` is tested: its level, which is shown by no program, and its text.
const PROBE: (c_int, &CStr) = (56, c"fuseloop tests whether it hears messages");

/// The beginnings of messages about parts of pictures, or references, that the decoder made up, without an error. "Missing
/// reference picture" is none of them: encoders of H.264 may list more references than there are, and not use them.
const MADE_UP: [&[u8]; 5] = [
    b"concealing",
    b"CABAC_MAX_BIN",
    MISSING_REFERENCE,
    b"warning: first frame is no keyframe",
    b"number of reference frames",
];

/// The beginning of the message about a picture of HEVC that is missing.
const MISSING_REFERENCE: &[u8] = b"Could not find ref with POC";

/// The messages that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Messages {
    /// The call returns errors, but for what the decoder makes up.
    Strict,
    /// The call returns few errors; so messages of errors count. Those about references that a start within a stream leaves
    /// out do not.
    Tolerant,
}

/// The messages of a call, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    messages: Messages,
    is_damaged: bool,
    /// True if a picture that others refer to is missing. From FFmpeg 8 on the call fails, too.
    is_reference_missing: bool,
    /// True if a picture exceeds the limit of pixels.
    is_too_large: bool,
    /// True if the probe came.
    is_heard: bool,
}

impl Heard {
    const fn nothing(messages: Messages) -> Self {
        let (is_damaged, is_reference_missing) = (false, false);
        Self { messages, is_damaged, is_reference_missing, is_too_large: false, is_heard: false }
    }
}

thread_local! {
    /// The messages so far of this thread's call of the library; `None` outside of our calls.
    static HEARD: Cell<Option<Heard>> = const { Cell::new(None) };
}

/// Takes the messages of our calls, whose errors are returned, and passes those of others on.
unsafe extern "C" fn log(sender: Pointer, level: c_int, format: *const c_char, arguments: Pointer) {
    let Ok(Some(mut heard)) = HEARD.try_with(Cell::get) else {
        if let Some(default) = DEFAULT_LOG.get() {
            // SAFETY: the arguments are passed on as they came.
            unsafe { default(sender, level, format, arguments) };
        }
        return;
    };
    if format.is_null() {
        return;
    }
    // SAFETY: a format is a string that ends with a zero.
    let format = unsafe { CStr::from_ptr(format) }.to_bytes();
    let is_error = heard.messages == Messages::Tolerant
        && level & 0xff <= LOG_ERROR
        && !format.starts_with(b"mmco");
    heard.is_damaged |= is_error || MADE_UP.iter().any(|start| format.starts_with(start));
    heard.is_reference_missing |= format.starts_with(MISSING_REFERENCE);
    heard.is_too_large |=
        format.starts_with(b"Picture size") && format.windows(7).any(|word| word == b"exceeds");
    heard.is_heard |= format == PROBE.1.to_bytes();
    let _ = HEARD.try_with(|now| now.set(Some(heard)));
}

/// Reads a field of a structure.
///
/// # Safety
///
/// `structure` must have an initialized `T` at `offset`, and be aligned for it.
unsafe fn field<T: Copy>(structure: Pointer, offset: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { structure.cast::<u8>().add(offset).cast::<T>().read() }
}

/// Writes a field of a structure.
///
/// # Safety
///
/// The caller keeps the promises of [`field`], and owns `structure`.
unsafe fn set_field<T: Copy>(structure: Pointer, offset: usize, value: T) {
    // SAFETY: the caller's promise.
    unsafe { structure.cast::<u8>().add(offset).cast::<T>().write(value) };
}

/// The library, loaded and checked. It is never unloaded: other parts of the program may use it, too.
pub(super) struct Library {
    functions: Functions,
    /// The version: major, minor, micro.
    pub(super) version: [u32; 3],
}

impl Library {
    /// The major versions of libavcodec that are read, each with that of its libavutil.
    pub(super) const VERSIONS: [[u32; 2]; 5] = [[62, 60], [61, 59], [60, 58], [59, 57], [58, 56]];

    /// Loads libavcodec and, where its functions are not found through it, libavutil. The inner error states why a library
    /// can't be used, the outer one is the system's reason not to load it, such as that there is no such file.
    pub(super) fn load(codec: &OsStr, util: &OsStr) -> Result<Result<Self, String>, String> {
        // SAFETY: the initializers of libavcodec have no duties for a caller. A file of another kind that the user names by
        // the environment variable is the user's choice, as with LD_PRELOAD.
        let codec =
            unsafe { libloading::Library::new(codec) }.map_err(|error| error.to_string())?;
        // SAFETY: as above.
        let load_util = || unsafe { libloading::Library::new(util) }.ok();
        // Where a library's functions are found through those that need it, its own libavutil is taken.
        let found = Functions::find(&codec, None).or_else(|error| {
            let util = load_util().ok_or(error)?;
            let found = Functions::find(&codec, Some(&util));
            std::mem::forget(util);
            found
        });
        std::mem::forget(codec);
        Ok(found.and_then(Self::check))
    }

    /// Checks the versions and the layout of structures.
    fn check(functions: Functions) -> Result<Self, String> {
        if cfg!(not(target_pointer_width = "64")) {
            return Err("this system is not a 64-bit one".into());
        }
        let parts = |version: u32| [version >> 16, version >> 8 & 255, version & 255];
        // SAFETY: these functions take nothing and return a number.
        let (codec, util) =
            unsafe { ((functions.avcodec_version)(), (functions.avutil_version)()) };
        let (version, util) = (parts(codec), parts(util));
        if !Self::VERSIONS.contains(&[version[0], util[0]]) {
            return Err(format!(
                "it is version {} with libavutil {}: versions 58 to 62 (FFmpeg 4 to 8) are supported",
                version[0], util[0]
            ));
        }
        let library = Self { functions, version };
        let other =
            |structure| format!("version {}: its {structure} has another layout", version[0]);
        let packet = Owned::new(
            &library,
            library.functions.av_packet_alloc,
            library.functions.av_packet_free,
        )?;
        // SAFETY: an AVPacket has at least 88 bytes in all of these versions, all initialized by its allocator.
        let found: ([i64; 2], usize, c_int) = unsafe {
            (field(packet.pointer(), 8), field(packet.pointer(), 24), field(packet.pointer(), 32))
        };
        if found != ([NO_PTS; 2], 0, 0) {
            return Err(other("AVPacket"));
        }
        let frame = Owned::new(
            &library,
            library.functions.av_frame_alloc,
            library.functions.av_frame_free,
        )?;
        // SAFETY: an AVFrame has at least 400 bytes in all of these versions, all initialized by its allocator.
        let found: ([usize; 8], [c_int; 8], [c_int; 4], i64) = unsafe {
            let frame = frame.pointer();
            (field(frame, 0), field(frame, 64), field(frame, 104), field(frame, 136))
        };
        if found != ([0; 8], [0; 8], [0, 0, 0, -1], NO_PTS) {
            return Err(other("AVFrame"));
        }
        let parameters = library.parameters()?;
        // SAFETY: an AVCodecParameters has at least 136 bytes in all of these versions, all initialized by its allocator.
        let found: ([c_int; 2], usize, c_int, [c_int; 4]) = unsafe {
            let parameters = parameters.pointer();
            (
                field(parameters, 0),
                field(parameters, 16),
                field(parameters, 24),
                field(parameters, library.size_at() - 8),
            )
        };
        if found != ([-1, 0], 0, 0, [UNKNOWN, UNKNOWN, 0, 0]) {
            return Err(other("AVCodecParameters"));
        }
        drop((packet, frame, parameters));
        let _ = DEFAULT_LOG.set(library.functions.av_log_default_callback);
        library.take_messages();
        Ok(library)
    }

    /// Makes `log` the function that takes messages. The library has one for the process, and does not say which it had.
    fn take_messages(&self) {
        // SAFETY: the callback does not unwind, and lives as long as this code is loaded. A shared library with it must not
        // be unloaded; those of Python and Rust programs are not.
        unsafe { (self.functions.av_log_set_callback)(log) };
    }

    /// Returns true if `log` takes the messages of this thread.
    fn hears_messages(&self) -> bool {
        HEARD.set(Some(Heard::nothing(Messages::Strict)));
        // SAFETY: no object sends the message, and its text, which ends with a zero, has no conversions.
        unsafe { (self.functions.av_log)(std::ptr::null_mut(), PROBE.0, PROBE.1.as_ptr()) };
        HEARD.take().is_some_and(|heard| heard.is_heard)
    }

    /// Makes a call and returns what its messages said. Where another part of the program has taken the messages since the
    /// last call, they are taken back; `is_heard` is false if that happened during the call.
    fn listen<T>(&self, messages: Messages, call: impl FnOnce() -> T) -> (T, Heard) {
        if !self.hears_messages() {
            self.take_messages();
        }
        let nothing = Heard::nothing(messages);
        HEARD.set(Some(nothing));
        let result = call();
        let heard = HEARD.take().unwrap_or(nothing);
        (result, Heard { is_heard: self.hears_messages(), ..heard })
    }

    /// Returns the offset of width and height in `AVCodecParameters`: version 61 has two more fields before them. The profile
    /// and the level precede them.
    fn size_at(&self) -> usize {
        if self.version[0] >= 61 { 72 } else { 56 }
    }

    fn parameters(&self) -> Result<Owned<'_>, String> {
        Owned::new(
            self,
            self.functions.avcodec_parameters_alloc,
            self.functions.avcodec_parameters_free,
        )
    }

    fn failure(&self, code: c_int) -> Failure {
        let message = self.message(code);
        match code {
            INVALID_DATA => Failure::Damaged(message),
            NOT_WRITTEN => Failure::Unsupported(message),
            NO_MEMORY => Failure::Limit("there is no memory".into()),
            _ => Failure::Other(message),
        }
    }

    /// Returns what a code of an error means.
    fn message(&self, code: c_int) -> String {
        let mut text = [0_u8; 128];
        // SAFETY: at most the given number of bytes are written, with a zero at the end.
        unsafe { (self.functions.av_strerror)(code, text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        text.into_owned()
    }
}

/// A structure that the library allocated.
struct Owned<'a> {
    pointer: NonNull<c_void>,
    free: unsafe extern "C" fn(*mut Pointer),
    _library: &'a Library,
}

impl<'a> Owned<'a> {
    /// Allocates a structure; `free` frees what `allocate` returns and sets the pointer to null.
    fn new(
        library: &'a Library,
        allocate: unsafe extern "C" fn() -> Pointer,
        free: unsafe extern "C" fn(*mut Pointer),
    ) -> Result<Self, String> {
        // SAFETY: the allocators take nothing, and return null if there is no memory.
        let pointer = unsafe { allocate() };
        Self::of(library, pointer, free)
    }

    fn of(
        library: &'a Library,
        pointer: Pointer,
        free: unsafe extern "C" fn(*mut Pointer),
    ) -> Result<Self, String> {
        let pointer = NonNull::new(pointer).ok_or("it has no memory")?;
        Ok(Self { pointer, free, _library: library })
    }

    fn pointer(&self) -> Pointer {
        self.pointer.as_ptr()
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let mut pointer = self.pointer();
        // SAFETY: the pointer is of the kind that `free` takes, and is used by nothing after this.
        unsafe { (self.free)(&raw mut pointer) };
    }
}

/// What a container states about a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamParameters<'a> {
    pub(super) extradata: &'a [u8],
    /// Width and height, which some codecs do not state.
    pub(super) size: [i32; 2],
    /// The four-character code, by which the decoder of MPEG-4 tells the encoders whose inverse DCT it has to use.
    pub(super) four_cc: [u8; 4],
}

/// Why a decoder does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The packet or the stream is damaged.
    Damaged(String),
    /// The library does not support something.
    Unsupported(String),
    /// A limit of pixels or of memory is exceeded.
    Limit(String),
    /// Another part of the program took the library's messages, by which damage is found, during a call.
    Unheard,
    /// Anything else.
    Other(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

/// An open decoder, for one thread at a time.
pub(super) struct Context {
    library: &'static Library,
    context: Owned<'static>,
    packet: Owned<'static>,
    frame: Owned<'static>,
    messages: Messages,
}

// SAFETY: the structures are used through `&mut self` alone, apart from reads of a frame through a borrow of the context; the
// library allows any thread for that, one at a time (libavcodec/avcodec.h).
unsafe impl Send for Context {}

impl Context {
    /// Opens a decoder by its name. Returns nothing if the library does not have it.
    pub(super) fn open(
        library: &'static Library,
        name: &str,
        stream: StreamParameters<'_>,
        options: &[(&str, String)],
    ) -> Option<Result<Self, Failure>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name ends with a zero.
        let codec = unsafe { (library.functions.avcodec_find_decoder_by_name)(name.as_ptr()) };
        if codec.is_null() {
            return None;
        }
        // SAFETY: an AVCodec begins with the pointer to its name, and has the id at byte 20.
        let (found, id): (*const c_char, c_int) = unsafe { (field(codec, 0), field(codec, 20)) };
        // SAFETY: the name of a codec is a string that ends with a zero and lives as long as the library.
        if found.is_null() || unsafe { CStr::from_ptr(found) } != name.as_c_str() {
            return Some(Err(Failure::Unsupported("its AVCodec has another layout".into())));
        }
        Some(Self::open_codec(library, codec, id, stream, options))
    }

    fn open_codec(
        library: &'static Library,
        codec: Pointer,
        id: c_int,
        StreamParameters { extradata, size: pixels, four_cc }: StreamParameters<'_>,
        options: &[(&str, String)],
    ) -> Result<Self, Failure> {
        let functions = &library.functions;
        // SAFETY: `codec` is one of the library's; the function returns null if there is no memory.
        let context = unsafe { (functions.avcodec_alloc_context3)(codec) };
        let context = Owned::of(library, context, functions.avcodec_free_context)?;
        let parameters = library.parameters()?;
        let size = c_int::try_from(extradata.len())
            .map_err(|_| Failure::Other("the extradata are too long".into()))?;
        // SAFETY: the fields are those of the table at the top, checked by `Library::check`. The extradata have memory of
        // the library's own, with zeros after them, which the parameters own from here on.
        unsafe {
            set_field::<c_int>(parameters.pointer(), 0, 0);
            set_field::<c_int>(parameters.pointer(), 4, id);
            set_field::<u32>(parameters.pointer(), 8, u32::from_le_bytes(four_cc));
            set_field::<[c_int; 2]>(parameters.pointer(), library.size_at(), pixels);
            if size > 0 {
                let copy = (functions.av_mallocz)(extradata.len() + PADDING).cast::<u8>();
                if copy.is_null() {
                    return Err(Failure::Other("it has no memory".into()));
                }
                copy.copy_from_nonoverlapping(extradata.as_ptr(), extradata.len());
                set_field::<*mut u8>(parameters.pointer(), 16, copy);
                set_field::<c_int>(parameters.pointer(), 24, size);
            }
        }
        // SAFETY: both structures are the library's, and alive; the parameters are copied.
        let (code, _) = library.listen(Messages::Strict, || unsafe {
            (functions.avcodec_parameters_to_context)(context.pointer(), parameters.pointer())
        });
        if code < 0 {
            return Err(library.failure(code));
        }
        let mut dictionary: Pointer = std::ptr::null_mut();
        for (key, value) in options {
            let (key, value) = (CString::new(*key), CString::new(value.as_str()));
            if let (Ok(key), Ok(value)) = (key, value) {
                // SAFETY: the dictionary is null or the library's; the strings end with zeros and are copied.
                unsafe {
                    (functions.av_dict_set)(&raw mut dictionary, key.as_ptr(), value.as_ptr(), 0)
                };
            }
        }
        // SAFETY: the context was made for this codec and is not open; options that are not known stay in the dictionary,
        // which is freed.
        let (code, heard) = library.listen(Messages::Strict, || unsafe {
            let code = (functions.avcodec_open2)(context.pointer(), codec, &raw mut dictionary);
            (functions.av_dict_free)(&raw mut dictionary);
            code
        });
        if heard.is_too_large {
            return Err(too_large());
        }
        if code < 0 {
            return Err(library.failure(code));
        }
        let packet = Owned::new(library, functions.av_packet_alloc, functions.av_packet_free)?;
        let frame = Owned::new(library, functions.av_frame_alloc, functions.av_frame_free)?;
        Ok(Self { library, context, packet, frame, messages: Messages::Strict })
    }

    /// Sets whether the references that a start within a stream leaves out are no errors. All pictures then come out, and not
    /// only those that the library counts as exact.
    ///
    /// # Errors
    ///
    /// Fails if the library does not take the options.
    pub(super) fn tolerate_missing_references(&mut self, is_tolerant: bool) -> Result<(), Failure> {
        self.messages = if is_tolerant { Messages::Tolerant } else { Messages::Strict };
        let flags = self.option(c"flags").unwrap_or(0);
        let flags = if is_tolerant { flags | OUTPUT_CORRUPT } else { flags & !OUTPUT_CORRUPT };
        for (name, value) in
            [(c"err_detect", if is_tolerant { 0 } else { EXPLODE }), (c"flags", flags)]
        {
            let context = self.context.pointer();
            // SAFETY: the context begins with its class, as the function expects; the name ends with a zero.
            let (code, _) = self.library.listen(self.messages, || unsafe {
                (self.library.functions.av_opt_set_int)(context, name.as_ptr(), value, 0)
            });
            if code < 0 {
                return Err(self.library.failure(code));
            }
        }
        Ok(())
    }

    /// Returns an option as a number, such as `colorspace`, which the decoder may set from the stream.
    pub(super) fn option(&self, name: &CStr) -> Option<i64> {
        let mut value = 0;
        let context = self.context.pointer();
        // SAFETY: the context begins with its class, as the function expects; the name ends with a zero.
        let code = unsafe {
            (self.library.functions.av_opt_get_int)(context, name.as_ptr(), 0, &raw mut value)
        };
        (code >= 0).then_some(value)
    }

    /// Sends a packet, whose picture will have `token`; or the end of the stream. All pictures must have been received.
    pub(super) fn send(&mut self, packet: Option<(&[u8], i64)>) -> Result<(), Failure> {
        let send = self.library.functions.avcodec_send_packet;
        let (code, heard) = match packet {
            // SAFETY: a null packet is the end of the stream.
            None => self.library.listen(self.messages, || unsafe {
                send(self.context.pointer(), std::ptr::null_mut())
            }),
            Some((bytes, token)) => {
                let size = c_int::try_from(bytes.len())
                    .map_err(|_| Failure::Other("the packet is too long".into()))?;
                // SAFETY: the fields are those of the table at the top. The packet has no `buf`, so that the library
                // copies the bytes, of which `size` are there, before the function returns; then it points to nothing.
                self.library.listen(self.messages, || unsafe {
                    let packet = self.packet.pointer();
                    set_field::<[i64; 2]>(packet, 8, [token, token]);
                    set_field::<*const u8>(packet, 24, bytes.as_ptr());
                    set_field::<c_int>(packet, 32, size);
                    let code = send(self.context.pointer(), packet);
                    set_field::<*const u8>(packet, 24, std::ptr::null());
                    set_field::<c_int>(packet, 32, 0);
                    code
                })
            }
        };
        self.outcome(code, heard)
    }

    /// Receives the next picture and returns the token of its packet; nothing if another packet is needed first, or after
    /// the last one.
    pub(super) fn receive(&mut self) -> Result<Option<i64>, Failure> {
        let receive = self.library.functions.avcodec_receive_frame;
        // SAFETY: both structures are the library's; what the frame had before is freed.
        let (code, heard) = self.library.listen(self.messages, || unsafe {
            receive(self.context.pointer(), self.frame.pointer())
        });
        if code == END || code == -again() {
            return self.outcome(0, heard).map(|()| None);
        }
        self.outcome(code, heard)?;
        // SAFETY: a field of the table at the top.
        Ok(Some(unsafe { field(self.frame.pointer(), 136) }))
    }

    /// Returns the picture that was received last.
    pub(super) fn picture(&self) -> Picture<'_> {
        Picture { context: self }
    }

    /// Forgets all pictures, so that decoding can start at another packet.
    pub(super) fn flush(&mut self) {
        // SAFETY: the context is open.
        self.library.listen(self.messages, || unsafe {
            (self.library.functions.avcodec_flush_buffers)(self.context.pointer());
        });
    }

    fn outcome(&self, code: c_int, heard: Heard) -> Result<(), Failure> {
        let is_missing = heard.messages == Messages::Strict && heard.is_reference_missing;
        match code {
            _ if heard.is_too_large => Err(too_large()),
            ..0 if !(code == INVALID_DATA && is_missing) => Err(self.library.failure(code)),
            _ if !heard.is_heard => Err(Failure::Unheard),
            _ if heard.is_damaged => Err(Failure::Damaged(
                "a part of a picture or a picture that it refers to is missing".into(),
            )),
            _ => Ok(()),
        }
    }
}

fn too_large() -> Failure {
    Failure::Limit("its pictures have more pixels than the limit".into())
}

/// `EAGAIN`.
const fn again() -> c_int {
    if cfg!(any(
        target_os = "macos",
        target_os = "ios",
        target_os = "freebsd",
        target_os = "openbsd",
        target_os = "netbsd"
    )) {
        35
    } else {
        11
    }
}

/// The picture that was received last.
pub(super) struct Picture<'a> {
    context: &'a Context,
}

impl Picture<'_> {
    fn pointer(&self) -> Pointer {
        self.context.frame.pointer()
    }

    /// Returns the width and height as the library states them.
    pub(super) fn size(&self) -> [i32; 2] {
        // SAFETY: a field of the table at the top.
        unsafe { field(self.pointer(), 104) }
    }

    /// Returns the name of the pixel format.
    pub(super) fn format(&self) -> String {
        // SAFETY: a field of the table at the top; the function takes any number, and returns null or a string that ends
        // with a zero and lives as long as the library.
        let name = unsafe {
            (self.context.library.functions.av_get_pix_fmt_name)(field(self.pointer(), 116))
        };
        if name.is_null() {
            return "unknown".into();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// Returns the layout of the planes, or nothing if the pixel format is none of those that are read.
    pub(super) fn layout(&self) -> Option<Layout> {
        Layout::named(&self.format())
    }

    /// Copies the planes without padding.
    pub(super) fn planes(&self, layout: Layout) -> Result<Vec<Vec<u8>>, String> {
        if self.layout() != Some(layout) {
            return Err("the pixel format is another one".into());
        }
        let [width, height] = self.size().map(|pixels| usize::try_from(pixels).unwrap_or(0));
        let sizes = layout.planes(width, height);
        sizes
            .into_iter()
            .enumerate()
            .map(|(plane, (row, rows))| self.copy(plane, row, rows))
            .collect()
    }

    /// Copies a plane. `row` and `rows` must follow from the format and the size of the picture.
    fn copy(&self, plane: usize, row: usize, rows: usize) -> Result<Vec<u8>, String> {
        // SAFETY: fields of the table at the top.
        let (planes, strides): ([*const u8; 8], [c_int; 8]) =
            unsafe { (field(self.pointer(), 0), field(self.pointer(), 64)) };
        let (start, stride) = (planes[plane], strides[plane]);
        let stride =
            usize::try_from(stride).ok().filter(|&stride| stride >= row && !start.is_null());
        let Some(stride) = stride else {
            return Err(format!(
                "plane {plane} has rows of {} bytes, expected {row} or more",
                strides[plane]
            ));
        };
        let mut copy = Vec::new();
        copy.try_reserve_exact(row * rows)
            .map_err(|_| "there is no memory for a frame".to_owned())?;
        for y in 0..rows {
            // SAFETY: the library allocates the planes of a picture for its format and size, `stride` bytes from row to
            // row, and keeps them until the next picture is received, which the borrow of the context forbids.
            copy.extend_from_slice(unsafe {
                std::slice::from_raw_parts(start.add(y * stride), row)
            });
        }
        Ok(copy)
    }
}

/// The planes of a pixel format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) subsampling: Subsampling,
    /// Bits of a sample; above 8, a sample has two little-endian bytes.
    pub(super) depth: u32,
    /// True if the second plane has both chroma values of a pixel, one after the other.
    pub(super) is_interleaved: bool,
    /// True if the format's name says that luma is from 0 to 255.
    pub(super) is_full_range: bool,
}

impl Layout {
    /// Returns the layout of a pixel format (libavutil/pixfmt.h).
    fn named(format: &str) -> Option<Self> {
        let (planes, depth) = match format.strip_suffix("le") {
            Some(wide) => {
                let depth =
                    ["9", "10", "12", "14"].into_iter().find(|depth| wide.ends_with(depth))?;
                (wide.strip_suffix(depth)?, depth.parse().ok()?)
            }
            None => (format, 8),
        };
        let (subsampling, is_interleaved, is_full_range) = match planes {
            "gray" => (Subsampling::Gray, false, false),
            "yuv420p" => (Subsampling::Yuv420, false, false),
            "yuv422p" => (Subsampling::Yuv422, false, false),
            "yuv444p" => (Subsampling::Yuv444, false, false),
            "yuvj420p" => (Subsampling::Yuv420, false, true),
            "yuvj422p" => (Subsampling::Yuv422, false, true),
            "yuvj444p" => (Subsampling::Yuv444, false, true),
            "nv12" => (Subsampling::Yuv420, true, false),
            _ => return None,
        };
        Some(Self { subsampling, depth, is_interleaved, is_full_range })
    }

    /// Returns the bytes of a row and the number of rows of each plane.
    fn planes(self, width: usize, height: usize) -> Vec<(usize, usize)> {
        let sample = if self.depth > 8 { 2 } else { 1 };
        let (half_width, half_height) = (width.div_ceil(2), height.div_ceil(2));
        let chroma = match self.subsampling {
            Subsampling::Gray => None,
            Subsampling::Yuv420 => Some((half_width, half_height)),
            Subsampling::Yuv422 => Some((half_width, height)),
            Subsampling::Yuv444 => Some((width, height)),
        };
        let mut planes = vec![(width * sample, height)];
        match chroma {
            Some((width, height)) if self.is_interleaved => {
                planes.push((2 * width * sample, height));
            }
            Some((width, height)) => planes.extend([(width * sample, height); 2]),
            None => {}
        }
        planes
    }
}

#[cfg(test)]
mod tests {
    use super::super::Libavcodec;
    use super::*;

    unsafe extern "C" fn deaf(_: Pointer, _: c_int, _: *const c_char, _: Pointer) {}

    #[test]
    fn messages_that_another_part_of_the_program_took_are_taken_back() {
        let Ok(found) = Libavcodec::find() else {
            println!("left out: there is no libavcodec");
            return;
        };
        let library = &found.library;
        let say = |text: &CStr| {
            // SAFETY: no object sends the message, and its text, which ends with a zero, has no conversions.
            unsafe { (library.functions.av_log)(std::ptr::null_mut(), LOG_ERROR, text.as_ptr()) };
        };
        // SAFETY: the function does nothing.
        let become_deaf = || unsafe { (library.functions.av_log_set_callback)(deaf) };
        become_deaf();
        let ((), heard) = library.listen(Messages::Strict, || say(c"concealing errors"));
        assert!(heard.is_heard && heard.is_damaged);
        let ((), heard) = library.listen(Messages::Strict, || say(c"another message"));
        assert!(heard.is_heard && !heard.is_damaged);
        let ((), heard) = library.listen(Messages::Tolerant, || say(c"another message"));
        assert!(heard.is_damaged);
        // The messages of a call during which they were taken can't be trusted.
        let ((), heard) = library.listen(Messages::Strict, become_deaf);
        assert!(!heard.is_heard);
    }
}
