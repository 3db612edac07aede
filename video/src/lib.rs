//! Video files: an index of the packets of a file, and frames from packets.
//!
//! A [`VideoIndex`] is made from an AVI, MP4, MOV, Matroska or WebM file. It states the codec, and for each packet its
//! offset, size, presentation time and whether decoding can start at it. [`VideoIndex::plan`] returns the packets that a
//! decoder has to read for given frames. This crate starts no thread and knows no dataset.
//!
//! | file       |                                                                              |
//! |------------|------------------------------------------------------------------------------|
//! | `index`    | the index, and plans for given frames                                          |
//! | `saved`    | the index as bytes                                                           |
//! | `codec`    | codecs, by the names that containers have for them                           |
//! | `avi`      | AVI and OpenDML files                                                        |
//! | `mp4`      | MP4 and MOV files, fragmented or not                                         |
//! | `matroska` | Matroska and WebM files                                                      |
//! | `mpeg4`    | the order of pictures of MPEG-4 Part 2, for containers that do not state it    |
//! | `undecodable` | frames that no decoder returns                                            |
//! | `fields`   | integers in bytes                                                            |
//! | `read_at`  | positioned reads                                                             |
//! | `decode`   | frames from packets, by decoders in Rust or by libavcodec                      |
//! | `error`    | the error of all of them                                                     |
//!
//! ```
//! use fuseloop_video::{Codec, VideoIndex, VideoLimits};
//!
//! # fn show() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::File::open("clip.mp4")?;
//! let index = VideoIndex::read(&file, &VideoLimits::DEFAULT)?;
//! assert_eq!(index.codec, Codec::H264);
//! for run in index.plan(&[30, 34, 38])?.runs {
//!     println!("{} packets for frames {:?}", run.packets.len(), run.frames);
//! }
//! # Ok(())
//! # }
//! ```

mod avi;
mod codec;
mod decode;
mod error;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod matroska;
mod mp4;
mod mpeg4;
mod read_at;
mod saved;
mod undecodable;

pub use codec::Codec;
pub use decode::{
    Backend, Frame, Libavcodec, NoLibavcodec, Subsampling, VideoDecoder, jpeg_of_packet,
};
pub use error::{VideoError, VideoErrorKind};
pub use index::{
    Color, DecodePlan, DecodeRun, FrameEntry, MatrixCoefficients, Packet, Rotation, VideoIndex,
    VideoLimits,
};
pub use read_at::ReadExactAt;
