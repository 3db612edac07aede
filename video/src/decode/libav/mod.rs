//! Decoding by libavcodec, the library of FFmpeg, which is loaded at run time and never linked.
//!
//! It is given packets and the bytes that a container has for a decoder, never a file. A decoder has one thread, stops at
//! damage (`err_detect=explode`, and messages about references and parts of pictures that it made up), and refuses pictures above the limit of pixels before it allocates them. What comes back
//! is checked: size, pixel format, rows. Each picture has the number of its packet, which the library passes on.

mod ffi;

use super::frame::{Shape, check_pixels, eight_bits};
use super::{Frame, Subsampling};
use crate::error::{over_limit, unsupported};
use crate::{
    Codec, Color, MatrixCoefficients, VideoError, VideoErrorKind, VideoIndex, VideoLimits,
};
use ffi::{Context, Failure, Layout, Library, StreamParameters};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

/// The environment variable with the path of libavcodec.
const VARIABLE: &str = "FUSELOOP_LIBAVCODEC";

/// Why libavcodec can't be used; see [`Libavcodec::find`]. It is shown as the reason, without the cure.
///
/// ```
/// use fuseloop_video::NoLibavcodec;
///
/// let found = NoLibavcodec::SwitchedOff;
/// assert_eq!(found.to_string(), "FUSELOOP_LIBAVCODEC=none switches it off");
/// assert_eq!(found.cure(), "unset that variable");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoLibavcodec {
    /// The environment variable `FUSELOOP_LIBAVCODEC` is `none`.
    SwitchedOff,
    /// No library that can be used was found, for this reason.
    NotFound(String),
}

impl NoLibavcodec {
    /// Returns what a user can do to have the library.
    #[must_use]
    pub fn cure(&self) -> &'static str {
        match self {
            Self::SwitchedOff => "unset that variable",
            Self::NotFound(_) => INSTALL,
        }
    }
}

impl fmt::Display for NoLibavcodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchedOff => write!(f, "{VARIABLE}=none switches it off"),
            Self::NotFound(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for NoLibavcodec {}

/// The cure where the library is not found.
pub(super) const INSTALL: &str =
    "install FFmpeg or set FUSELOOP_LIBAVCODEC to the path of libavcodec";

/// libavcodec, the library of FFmpeg that decodes video, found on this system.
///
/// It is searched once per process: at the path in the environment variable `FUSELOOP_LIBAVCODEC` if that is set, and else by
/// the names that the versions from FFmpeg 4 to 8 have, where the system searches libraries. A version that is not known is
/// refused. If the variable is `none`, no library is searched.
///
/// Some damage is found by the messages of the library alone. So this crate takes the messages of the process: those of its
/// own calls become errors, and all others go to `av_log_default_callback`, which prints to stderr. A program that has a
/// callback of its own in the same libavutil loses it to the first call of a decoder; if it sets its callback again, it
/// loses it again, and a packet that is being decoded at that moment is an error.
///
/// ```
/// use fuseloop_video::Libavcodec;
///
/// match Libavcodec::find() {
///     Ok(found) => println!("libavcodec {} ({})", found.version(), found.path()),
///     Err(reason) => println!("no libavcodec: {reason}"),
/// }
/// ```
pub struct Libavcodec {
    path: String,
    library: Library,
}

impl Libavcodec {
    /// Returns the library, loaded at the first call.
    ///
    /// # Errors
    ///
    /// Returns the reason why there is none that can be used.
    pub fn find() -> Result<&'static Self, &'static NoLibavcodec> {
        static FOUND: OnceLock<Result<Libavcodec, NoLibavcodec>> = OnceLock::new();
        FOUND.get_or_init(Self::load).as_ref()
    }

    fn load() -> Result<Self, NoLibavcodec> {
        match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) if path == "none" => Err(NoLibavcodec::SwitchedOff),
            path => Self::load_from(path).map_err(NoLibavcodec::NotFound),
        }
    }

    /// Loads the library at a path, or where the system searches it.
    fn load_from(path: Option<OsString>) -> Result<Self, String> {
        if let Some(path) = path {
            let shown = Path::new(&path).display().to_string();
            let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
            let mut fault = None;
            for [_, util] in Library::VERSIONS {
                match Library::load(&path, folder.join(name("avutil", util)).as_os_str()) {
                    Ok(Ok(library)) => return Ok(Self { path: shown, library }),
                    Ok(Err(found)) => fault = Some(found),
                    Err(reason) => {
                        return Err(format!(
                            "{VARIABLE} is {shown}, which can't be loaded ({reason})"
                        ));
                    }
                }
            }
            let fault = fault.unwrap_or_default();
            return Err(format!("{shown}, named by {VARIABLE}, can't be used: {fault}"));
        }
        let mut faults = String::new();
        for [codec, util] in Library::VERSIONS {
            for folder in FOLDERS {
                let path = format!("{folder}{}", name("avcodec", codec));
                let util = format!("{folder}{}", name("avutil", util));
                match Library::load(OsStr::new(&path), OsStr::new(&util)) {
                    Ok(Ok(library)) => return Ok(Self { path, library }),
                    Ok(Err(fault)) => faults += &format!("; {path} can't be used: {fault}"),
                    // The system names the library itself if that is what it does not find, and else what that needs.
                    Err(reason) if is_missing(&reason, &path) => {}
                    Err(reason) => faults += &format!("; {path} can't be loaded: {reason}"),
                }
            }
        }
        let [first, last] = [58, 62].map(|version| name("avcodec", version));
        Err(match faults.strip_prefix("; ") {
            Some(faults) => faults.into(),
            None => format!("{first} to {last} is not installed"),
        })
    }

    /// Returns the version of the library, such as `59.37.100`.
    #[must_use]
    pub fn version(&self) -> String {
        let [major, minor, micro] = self.library.version;
        format!("{major}.{minor}.{micro}")
    }

    /// Returns the name or path by which the library was loaded.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The folders that are searched; without a name, where the system searches. macOS does not search that of Homebrew.
const FOLDERS: &[&str] =
    if cfg!(target_os = "macos") { &["", "/opt/homebrew/lib/", "/usr/local/lib/"] } else { &[""] };

/// Returns the file name of a version of a library.
fn name(library: &str, version: u32) -> String {
    if cfg!(windows) {
        format!("{library}-{version}.dll")
    } else if cfg!(target_os = "macos") {
        format!("lib{library}.{version}.dylib")
    } else {
        format!("lib{library}.so.{version}")
    }
}

/// Returns true if the reason why a library can't be loaded is that there is no such file. Windows names no file.
fn is_missing(reason: &str, path: &str) -> bool {
    cfg!(windows)
        || reason.starts_with(&format!("{path}: cannot open shared object file"))
        || reason.contains("no such file")
}

/// Returns the names of the decoders of a codec, the preferred one first.
fn decoders(codec: &Codec) -> &'static [&'static str] {
    match codec {
        Codec::MotionJpeg => &["mjpeg"],
        Codec::H264 => &["h264"],
        Codec::Hevc => &["hevc"],
        Codec::Mpeg4 => &["mpeg4"],
        Codec::MsMpeg4V2 => &["msmpeg4v2"],
        Codec::MsMpeg4V3 => &["msmpeg4"],
        Codec::Mpeg2 => &["mpeg2video"],
        Codec::Vp8 => &["vp8"],
        Codec::Vp9 => &["vp9"],
        Codec::Av1 => &["libdav1d", "libaom-av1", "libgav1"],
        Codec::Other(_) => &[],
    }
}

/// A decoder of libavcodec.
pub(super) struct Libav {
    context: Context,
    color: Color,
    max_pixels: u64,
    /// The size of all pictures, once known.
    size: Option<[u32; 2]>,
}

impl Libav {
    pub(super) fn open(
        library: &'static Libavcodec,
        index: &VideoIndex,
        limits: &VideoLimits,
    ) -> Result<Self, VideoError> {
        check_pixels(index.width.into(), index.height.into(), limits.max_pixels)?;
        let side = |pixels: u32| {
            i32::try_from(pixels).map_err(|_| over_limit!("a frame of {pixels} pixels in a row"))
        };
        let stream = StreamParameters {
            extradata: &index.extradata,
            size: [side(index.width)?, side(index.height)?],
            four_cc: index.four_cc,
        };
        let mut options = vec![
            ("threads", "1".to_owned()),
            ("err_detect", "explode".to_owned()),
            // Without it, a picture that is cropped at its left keeps columns up to an aligned one.
            ("flags", "+unaligned".to_owned()),
            ("max_pixels", limits.max_pixels.min(i32::MAX as u64).to_string()),
        ];
        if index.codec == Codec::H264 {
            // The decoder then keeps pictures as long as the standard allows if the stream does not state how long, instead
            // of a guess that it corrects by losing pictures.
            options.push(("strict", "strict".to_owned()));
        }
        let names = decoders(&index.codec);
        let version = library.version();
        let opened =
            names.iter().find_map(|name| Context::open(&library.library, name, stream, &options));
        match opened {
            Some(Ok(context)) => {
                Ok(Self { context, color: index.color, max_pixels: limits.max_pixels, size: None })
            }
            Some(Err(Failure::Damaged(fault))) => Err(damaged(format!(
                "the bytes for the decoder of {} are damaged ({fault})",
                super::name(&index.codec)
            ))),
            Some(Err(failure @ (Failure::Limit(_) | Failure::Unheard))) => Err(error(failure)),
            Some(Err(Failure::Unsupported(fault) | Failure::Other(fault))) => Err(unsupported!(
                "libavcodec {version} can't decode {} ({fault})",
                super::name(&index.codec)
            )),
            None => Err(unsupported!(
                "libavcodec {version} has no decoder of {}: set FUSELOOP_LIBAVCODEC to the path of another one, or {}",
                super::name(&index.codec),
                super::CONVERT
            )),
        }
    }

    pub(super) fn reset(&mut self) {
        self.context.flush();
    }

    /// Sets whether the references that a start within a stream leaves out are no errors.
    pub(super) fn tolerate_missing_references(
        &mut self,
        is_tolerant: bool,
    ) -> Result<(), VideoError> {
        self.context.tolerate_missing_references(is_tolerant).map_err(error)
    }

    /// Sends a packet with its number, or the end of the stream. All pictures of the packets before must have been received.
    pub(super) fn send(&mut self, packet: Option<(&[u8], u32)>) -> Result<(), VideoError> {
        self.context.send(packet.map(|(bytes, number)| (bytes, i64::from(number)))).map_err(error)
    }

    /// Receives a picture and returns the number of its packet, or nothing if another packet is needed first.
    pub(super) fn receive(&mut self) -> Result<Option<u32>, VideoError> {
        let Some(token) = self.context.receive().map_err(error)? else { return Ok(None) };
        u32::try_from(token)
            .map(Some)
            .map_err(|_| damaged("the decoder returned a picture of no packet"))
    }

    /// Returns the picture that was received last.
    pub(super) fn frame(&mut self) -> Result<Frame, VideoError> {
        let frame = frame(&self.context, self.color, self.max_pixels)?;
        let size = [frame.width, frame.height];
        let known = *self.size.get_or_insert(size);
        if known == size { Ok(frame) } else { Err(super::size_changes(known, size)) }
    }
}

fn damaged(message: impl Into<String>) -> VideoError {
    VideoError::new(VideoErrorKind::Damaged, message)
}

fn error(failure: Failure) -> VideoError {
    match failure {
        Failure::Damaged(message) => damaged(format!("the packet does not decode ({message})")),
        Failure::Unsupported(message) => {
            unsupported!("the packet has what libavcodec does not support ({message})")
        }
        Failure::Limit(message) => over_limit!("libavcodec refuses the stream: {message}"),
        Failure::Unheard => unsupported!(
            "another part of the program set the callback for FFmpeg's messages while a packet was decoded, so that damage \
             may have been missed: set it before videos are decoded"
        ),
        Failure::Other(message) => damaged(format!("the decoder stopped: {message}")),
    }
}

/// Copies a picture.
fn frame(context: &Context, container: Color, max_pixels: u64) -> Result<Frame, VideoError> {
    let picture = context.picture();
    let [width, height] = picture.size().map(|pixels| u32::try_from(pixels).unwrap_or(0));
    if width == 0 || height == 0 {
        return Err(damaged("the decoder returned a picture without a size"));
    }
    check_pixels(width.into(), height.into(), max_pixels)?;
    let Some(layout) = picture.layout() else {
        return Err(unsupported!(
            "frames of the pixel format {}: convert the file, as by ffmpeg -i IN -pix_fmt yuv420p OUT",
            picture.format()
        ));
    };
    let planes = picture.planes(layout).map_err(damaged)?;
    let stated = |name| context.option(name).and_then(|number| u64::try_from(number).ok());
    let matrix =
        stated(c"colorspace").map_or(MatrixCoefficients::Unknown, MatrixCoefficients::of_number);
    // AVCOL_RANGE_MPEG is 1, AVCOL_RANGE_JPEG 2.
    let range = stated(c"color_range").filter(|&range| range != 0).map(|range| range == 2);
    let shape = Shape {
        width,
        height,
        subsampling: layout.subsampling,
        matrix: super::matrix(matrix, container),
        is_full_range: layout.is_full_range || range.or(container.is_full_range).unwrap_or(false),
    };
    let whole = || damaged("the decoder returned planes of other sizes");
    Frame::new(shape, separate(planes, layout)).ok_or_else(whole)
}

/// Returns three planes of 8 bits.
fn separate(planes: Vec<Vec<u8>>, layout: Layout) -> [Vec<u8>; 3] {
    let mut planes = planes.into_iter();
    let mut next = || {
        let plane = planes.next().unwrap_or_default();
        if layout.depth > 8 { eight_bits(&plane, layout.depth) } else { plane }
    };
    match (layout.subsampling, layout.is_interleaved) {
        (Subsampling::Gray, _) => [next(), vec![], vec![]],
        (_, true) => {
            let (luma, chroma) = (next(), next());
            let every_other =
                |first: usize| chroma.iter().skip(first).step_by(2).copied().collect();
            [luma, every_other(0), every_other(1)]
        }
        (_, false) => [next(), next(), next()],
    }
}
