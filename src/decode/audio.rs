//! Audio files: from the bytes of a file and a range of its frames to a signal.
//!
//! ```text
//! (bytes, AudioOptions, frames)  ->  f32 [T] or [channels, T]
//! ```
//!
//! | format     | number of frames         | what is decoded                                   |
//! |------------|--------------------------|---------------------------------------------------|
//! | WAV        | from the header          | the packets of the range                          |
//! | FLAC       | from the header          | the packets of the range, found by bisection      |
//! | MP3        | by counting the packets  | the packets down to the last of the range         |
//! | Ogg Vorbis | by counting the packets  | the same                                          |
//!
//! A frame is a sample of each channel. An integer of `n` bits becomes `k / 2^(n-1)`, as in libsndfile; several channels
//! that are read as one become their mean, which is their sum from the first to the last, divided by their number.
//! The delay and the padding of encoders are dropped, if the file states them. A file of another rate is resampled on
//! request (`resample.rs`), after its channels have become one. Inside the range the samples equal those of decoding the
//! whole file, bit for bit.
//!
//! Any bytes yield a signal or an [`Error`]. The number of frames is checked before memory is allocated; a file that ends
//! early, lacks packets or changes its rate or its channels is damaged, as far as it is decoded.

use super::buffer::room;
use super::error::{begins_with, no_memory, too_many_bytes};
use super::resample::{Ratio, Resampler};
use super::{AudioOptions, Decoded};
use crate::error::{Damage, Error, fail};
use crate::panicked::call_decoder;
use crate::sample::Limits;
use crate::source::AudioFormat;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::{ImageView, PixelFormat};
use fuseloop_ops::{DType, Size};
use std::io::Cursor;
use symphonia::core::audio::GenericAudioBufferRef;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::well_known::CODEC_ID_OPUS;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoderOptions};
use symphonia::core::formats::{FormatOptions, FormatReader, SeekMode, SeekTo, Track, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, ReadOnlySource};
use symphonia::core::units::Timestamp;
use symphonia::default::formats::{FlacReader, MpaReader, OggReader, WavReader};

/// The maximum number of frames of a file, as of all arrays: columns and sums of their levels fit in `i32`.
const MOST_FRAMES: u64 = 1 << 26;

/// The maximum number of frames by which the tag of an MP3 may differ from its packets: some encoders count the tag.
const MP3_FRAME: u64 = 1152;

/// The number of bytes of a sample.
const SAMPLE: usize = size_of::<f32>();

/// The reason why Opus is refused.
const OPUS: &str =
    "it is Opus, which is not read: convert it, for example by `ffmpeg -i in.opus out.flac`";

/// The reason why a file is damaged whose bytes end too early.
const CUT: &str = "the file is cut short";

/// Decodes audio files. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct AudioDecoder {
    limits: Limits,
    /// The samples of the range, row by row.
    samples: Vec<u8>,
    /// The channels of a packet.
    planes: Vec<Vec<f32>>,
    /// The samples of a row before they are resampled, with zeros around the file.
    padded: Vec<f32>,
    /// The resampled samples of the range, row by row.
    resampled: Vec<u8>,
}

/// A file whose header was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct AudioFile {
    options: AudioOptions,
    format: &'static AudioFormat,
    /// The number of frames of the signal.
    frames: u32,
    /// The number of frames of the file.
    stored: u32,
    /// The sample rate of the file.
    sample_rate: u32,
    /// The number of channels of the file.
    channels: usize,
    /// The ratio of the rates, if the file is resampled.
    ratio: Option<Ratio>,
}

impl AudioFile {
    /// Returns the size of the signal as an image: channels and frames.
    pub(super) fn size(&self) -> Size {
        Size::new(self.options.num_channels.into(), self.frames)
    }

    /// Returns the type of an element.
    pub(super) fn pixels(&self) -> PixelFormat {
        PixelFormat { channels: 1, dtype: DType::F32 }
    }
}

impl AudioDecoder {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Reads the header of a file, and compares it with `options`.
    pub(super) fn open(&self, bytes: &[u8], options: AudioOptions) -> Result<AudioFile, Error> {
        let (format, header) = self.header(bytes)?;
        let Header { sample_rate, channels, frames } = header;
        let AudioOptions { sample_rate: wanted, num_channels, resample } = options;
        if sample_rate != wanted && !resample {
            return Err(other_rate(sample_rate, wanted));
        }
        if num_channels != 1 && channels != usize::from(num_channels) {
            let error = fail!(
                Damaged,
                "{} of {channels} channel{}, expected {num_channels}: set `num_channels` to 1, which is the mean of the channels \
                 of any file, or to the number that all files have",
                format.name,
                if channels == 1 { "" } else { "s" }
            );
            return Err(error.damage(Damage::Unsupported));
        }
        let stored = self.frames(format, frames, num_channels)?;
        let file = AudioFile {
            options,
            format,
            frames: stored,
            stored,
            sample_rate,
            channels,
            ratio: None,
        };
        if sample_rate == wanted {
            return Ok(file);
        }
        let ratio = Ratio::new(sample_rate, wanted).ok_or_else(|| no_ratio(sample_rate, wanted))?;
        let frames = self.frames(format, ratio.output_frames(stored), num_channels)?;
        Ok(AudioFile { frames, ratio: Some(ratio), ..file })
    }

    /// Decodes all of a file, of any rate and any number of channels, without storing its samples. A FLAC is compared with
    /// the MD5 of its samples, if it has one.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), Error> {
        let (format, header) = self.header(bytes)?;
        let frames = self.frames(format, header.frames, 1)?;
        let options = AudioDecoderOptions::default().verify(true);
        let (_, bytes) = AudioFormat::of_file(bytes).unwrap_or((format, bytes));
        let is_flac = format.name == "FLAC";
        let decoded = call_decoder(format.name, || {
            let mut packets = Packets::at(bytes, format, 0, options)?;
            let mut found = 0;
            while let Some((_, buffer)) = packets.next()? {
                header.check(&buffer)?;
                found += buffer.frames() as u64;
                // A loader would read a part of such a FLAC alone. Its MD5 is that of all its samples.
                if found > frames.into() && is_flac {
                    return Err(format!("its header states {frames} samples, but more follow"));
                }
                if found > frames.into() {
                    break;
                }
            }
            match packets.decoder.finalize().verify_ok {
                Some(false) if found == u64::from(frames) => {
                    Err("its samples are not those of its MD5".to_owned())
                }
                _ => Ok(found),
            }
        });
        let found = decoded.map_err(|reason| damaged(format, &reason))?;
        if found < frames.into() { Err(cut(format, found, frames)) } else { Ok(()) }
    }

    /// Reads the header of a file.
    fn header(&self, bytes: &[u8]) -> Result<(&'static AudioFormat, Header), Error> {
        let (found, max) = (bytes.len() as u64, self.limits.max_sample_bytes);
        if found > max {
            return Err(too_many_bytes(found, max));
        }
        let Some((format, bytes)) = AudioFormat::of_file(bytes) else {
            let what = begins_with(bytes, 4, "a WAV, FLAC, MP3 or Ogg Vorbis file");
            return Err(fail!(Damaged, "audio that can't be decoded: {what}"));
        };
        // A program that writes to a pipe can't return to the header.
        if bytes.starts_with(b"RIFF\xff\xff\xff\xff") {
            return Err(fail!(
                Damaged,
                "WAV that was written to a pipe, whose header has no length: write it to a file, for example by \
                 `ffmpeg -i pipe.wav file.wav`"
            )
            .damage(Damage::Unsupported));
        }
        let header = call_decoder(format.name, || Header::read(bytes, format));
        Ok((format, header.map_err(|reason| damaged(format, &reason))?))
    }

    /// Checks the number of frames of a file or a signal.
    fn frames(&self, format: &AudioFormat, frames: u64, num_channels: u16) -> Result<u32, Error> {
        let most = MOST_FRAMES.min(self.limits.max_pixels / u64::from(num_channels));
        match u32::try_from(frames) {
            Ok(0) => Err(fail!(Damaged, "{} without a sample", format.name)),
            Ok(frames) if u64::from(frames) <= most => Ok(frames),
            _ => {
                let error =
                    fail!(Damaged, "{} of {frames} samples, the limit is {most}", format.name);
                Err(error.damage(Damage::OverLimit))
            }
        }
    }

    /// Decodes the frames that are the columns of `wanted`.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        file: &AudioFile,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let (first, count) = (u64::from(wanted.left), wanted.width as usize);
        let samples = match file.ratio {
            None => self.stored(bytes, file, (first, count))?,
            Some(ratio) => self.resampled(bytes, file, ratio, (first, count))?,
        };
        let size = Size::new(file.options.num_channels.into(), wanted.width);
        let view = ImageView::packed_format(samples, size, file.pixels());
        let view = view.expect("every sample was written");
        Ok(Decoded { view, top: 0, left: wanted.left })
    }

    /// Decodes frames of a file, row by row.
    fn stored(
        &mut self,
        bytes: &[u8],
        file: &AudioFile,
        (first, count): (u64, usize),
    ) -> Result<&[u8], Error> {
        let rows = usize::from(file.options.num_channels);
        let samples = room(&mut self.samples, rows * count * SAMPLE)?;
        let planes = &mut self.planes;
        let mut range = Range { first, count, rows, samples, written: 0 };
        // A seek that a damaged index misleads must not decide: the packets before the range count then.
        let seeks = is_seekable(file.format) && range.first > 0;
        let is_found = seeks && file.read(bytes, true, &mut range, planes).is_ok();
        if !(is_found && range.written == count) {
            range.written = 0;
            file.read(bytes, false, &mut range, planes)
                .map_err(|reason| damaged(file.format, &reason))?;
        }
        if range.written < count {
            return Err(cut(file.format, range.first + range.written as u64, file.stored));
        }
        Ok(range.samples)
    }

    /// Decodes the frames of a file that frames of its signal are made of, and resamples them.
    fn resampled(
        &mut self,
        bytes: &[u8],
        file: &AudioFile,
        ratio: Ratio,
        (first, count): (u64, usize),
    ) -> Result<&[u8], Error> {
        let (before, from, len) = ratio.input(first, count);
        let decoded = (u64::from(file.stored) - from).min((len - before) as u64) as usize;
        self.stored(bytes, file, (from, decoded))?;
        let resampler = Resampler::shared(ratio)?;
        let rows = usize::from(file.options.num_channels);
        let out = room(&mut self.resampled, rows * count * SAMPLE)?;
        self.padded.clear();
        self.padded.try_reserve_exact(len).map_err(|_| no_memory(len * SAMPLE))?;
        let stored = self.samples.chunks_exact(decoded * SAMPLE);
        for (samples, out) in stored.zip(out.chunks_exact_mut(count * SAMPLE)) {
            self.padded.clear();
            self.padded.resize(before, 0.0);
            let samples = samples.as_chunks::<SAMPLE>().0;
            self.padded.extend(samples.iter().map(|four| f32::from_ne_bytes(*four)));
            self.padded.resize(len, 0.0);
            resampler.resample(first, &self.padded, out.as_chunks_mut::<SAMPLE>().0);
        }
        Ok(out)
    }
}

/// The frames that are decoded, and the memory for their samples.
struct Range<'a> {
    first: u64,
    count: usize,
    /// The number of rows of `samples`, each of `count` samples.
    rows: usize,
    samples: &'a mut [u8],
    /// The number of frames that were written.
    written: usize,
}

impl AudioFile {
    /// Decodes the packets of a range: from that with its first frame on if `seeks`, otherwise from the first on.
    fn read(
        &self,
        bytes: &[u8],
        seeks: bool,
        range: &mut Range<'_>,
        planes: &mut Vec<Vec<f32>>,
    ) -> Result<(), String> {
        let &Self { format, stored, sample_rate, channels, .. } = self;
        let header = Header { sample_rate, channels, frames: stored.into() };
        let (_, bytes) = AudioFormat::of_file(bytes).unwrap_or((format, bytes));
        call_decoder(format.name, || {
            let first = if seeks { range.first } else { 0 };
            let mut packets = Packets::at(bytes, format, first, AudioDecoderOptions::default())?;
            while range.written < range.count
                && let Some((start, buffer)) = packets.next()?
            {
                header.check(&buffer)?;
                let from = range.first + range.written as u64;
                // No packet is missing between the frames that were written and this one.
                let skipped = from.saturating_sub(start).min(buffer.frames() as u64) as usize;
                let taken = (buffer.frames() - skipped).min(range.count - range.written);
                if taken == 0 {
                    continue;
                }
                buffer.slice(skipped..skipped + taken).copy_to_vecs_planar(planes);
                range.write(planes, taken);
            }
            Ok::<_, String>(())
        })
    }
}

impl Range<'_> {
    /// Writes the next `frames` frames.
    fn write(&mut self, planes: &[Vec<f32>], frames: usize) {
        let at = self.written * SAMPLE;
        for (row, samples) in self.samples.chunks_exact_mut(self.count * SAMPLE).enumerate() {
            let out = samples[at..][..frames * SAMPLE].as_chunks_mut::<SAMPLE>().0;
            for (frame, out) in out.iter_mut().enumerate() {
                let sample = if self.rows == 1 && planes.len() > 1 {
                    let sum =
                        planes[1..].iter().fold(planes[0][frame], |sum, plane| sum + plane[frame]);
                    sum / planes.len() as f32
                } else {
                    planes[row][frame]
                };
                *out = sample.to_ne_bytes();
            }
        }
        self.written += frames;
    }
}

fn damaged(format: &AudioFormat, reason: &str) -> Error {
    let error = fail!(Damaged, "{} that can't be decoded: {reason}", format.name);
    match reason {
        OPUS => error.damage(Damage::Unsupported),
        CUT => error.damage(Damage::Cut),
        _ => error,
    }
}

fn cut(format: &AudioFormat, found: u64, frames: u32) -> Error {
    let error = fail!(Damaged, "{} that ends after {found} of its {frames} samples", format.name);
    error.damage(Damage::Cut)
}

fn other_rate(found: u32, wanted: u32) -> Error {
    let error = fail!(
        Damaged,
        "audio of {found} samples a second, expected {wanted}: set `sample_rate` to {found} if all files have it, or \
         `resample` to true"
    );
    error.damage(Damage::Unsupported)
}

fn no_ratio(found: u32, wanted: u32) -> Error {
    let error = fail!(
        Damaged,
        "audio of {found} samples a second, whose ratio to {wanted} needs too large a filter: resample the file, for \
         example by `ffmpeg -i in.wav -ar {wanted} out.wav`"
    );
    error.damage(Damage::Unsupported)
}

/// The header of a file.
struct Header {
    sample_rate: u32,
    channels: usize,
    frames: u64,
}

impl Header {
    fn read(bytes: &[u8], format: &AudioFormat) -> Result<Self, String> {
        let mut reader = reader(bytes, format)?;
        let (track, params) = audio_track(&*reader)?;
        let sample_rate = params.sample_rate.filter(|rate| *rate > 0);
        let sample_rate = sample_rate.ok_or("its header has no sample rate")?;
        let channels = params.channels.as_ref().map(|channels| channels.count());
        let channels = channels.filter(|count| *count > 0).ok_or("its header has no channels")?;
        let frames = match track.num_frames {
            Some(frames) if is_seekable(format) => frames,
            _ => counted(&mut *reader, format)?,
        };
        Ok(Self { sample_rate, channels, frames })
    }

    /// Refuses a packet of another rate, or of other channels.
    fn check(&self, packet: &GenericAudioBufferRef<'_>) -> Result<(), String> {
        let spec = packet.spec();
        let is_same = spec.rate() == self.sample_rate && spec.channels().count() == self.channels;
        is_same.then_some(()).ok_or_else(|| "its sample rate or its channels change".to_owned())
    }
}

/// Counts the frames of the packets of a file, and compares them with those that its header states.
fn counted(reader: &mut dyn FormatReader, format: &AudioFormat) -> Result<u64, String> {
    let (track, _) = audio_track(reader)?;
    let (id, stated, padding) = (track.id, track.num_frames, u64::from(track.padding.unwrap_or(0)));
    let is_mp3 = format.name == "MP3";
    let doubt = if is_mp3 { MP3_FRAME } else { 0 };
    let (mut frames, mut dropped) = (0, 0);
    while let Some(packet) = reader.next_packet().map_err(|error| reason(&error))? {
        if packet.track_id != id {
            continue;
        }
        if is_mp3 {
            let block = mp3_frames(&packet.data);
            let trimmed = packet.trim_end.get().min(block);
            frames += (block - trimmed).saturating_sub(packet.trim_start.get());
            dropped += trimmed;
        } else {
            frames += packet.dur.get();
        }
    }
    let stated = stated.unwrap_or(frames);
    if frames + doubt < stated {
        return Err(format!("its header states {stated} samples, but it has {frames}"));
    }
    if is_mp3 && dropped > padding + doubt {
        let found = frames + dropped - padding;
        return Err(format!(
            "its header states {stated} samples, but it has {found}: it may be several files that were joined, which must be encoded again"
        ));
    }
    Ok(frames)
}

/// Returns the number of frames that a packet of an MP3 is decoded to: two granules of 576 in MPEG 1, one in MPEG 2. (The
/// duration that the reader states is not that of the frames that the decoder keeps.)
fn mp3_frames(packet: &[u8]) -> u64 {
    let is_mpeg1 = packet.get(1).is_some_and(|byte| byte & 0x18 == 0x18);
    if is_mpeg1 { 1152 } else { 576 }
}

/// Returns whether a decoder may begin at any packet and return the same samples.
fn is_seekable(format: &AudioFormat) -> bool {
    matches!(format.name, "WAV" | "FLAC")
}

/// The decoded packets of a file, from the one with a frame on.
struct Packets<'a> {
    reader: Box<dyn FormatReader + 'a>,
    decoder: Box<dyn symphonia::core::codecs::audio::AudioDecoder>,
    track: u32,
    /// The first frame of the next packet.
    next: u64,
    /// True if packets state their first frame.
    is_numbered: bool,
}

impl<'a> Packets<'a> {
    /// Begins at the packet with frame `first`, or before it.
    fn at(
        bytes: &'a [u8],
        format: &AudioFormat,
        first: u64,
        options: AudioDecoderOptions,
    ) -> Result<Self, String> {
        let mut reader = reader(bytes, format)?;
        let (track, params) = audio_track(&*reader)?;
        let decoder = symphonia::default::get_codecs().make_audio_decoder(params, &options);
        let decoder = decoder.map_err(|error| reason(&error))?;
        let (track, is_numbered) = (track.id, is_seekable(format));
        let mut next = 0;
        if first > 0 && is_numbered {
            let ts = Timestamp::new(first as i64);
            let to = SeekTo::Timestamp { ts, track_id: track };
            let found = reader.seek(SeekMode::Accurate, to).map_err(|error| reason(&error))?;
            next = u64::try_from(found.actual_ts.get()).unwrap_or(u64::MAX);
            if next > first {
                return Err(format!("no packet has its sample {first}"));
            }
        }
        Ok(Self { reader, decoder, track, next, is_numbered })
    }

    /// Returns the next packet that is not empty, and its first frame.
    fn next(&mut self) -> Result<Option<(u64, GenericAudioBufferRef<'_>)>, String> {
        let packet = loop {
            let Some(packet) = self.reader.next_packet().map_err(|error| reason(&error))? else {
                return Ok(None);
            };
            if packet.track_id == self.track {
                break packet;
            }
        };
        let start = self.next;
        if self.is_numbered && packet.pts.get() != start as i64 {
            return Err(format!("the packet with its sample {start} is missing"));
        }
        let buffer = self.decoder.decode(&packet).map_err(|error| reason(&error))?;
        self.next += buffer.frames() as u64;
        Ok(Some((start, buffer)))
    }
}

/// Opens a file.
fn reader<'a>(bytes: &'a [u8], format: &AudioFormat) -> Result<Box<dyn FormatReader + 'a>, String> {
    // The length of an MP3 that can be sought would be a guess from its bit rate.
    let source: Box<dyn MediaSource + 'a> = match format.name {
        "MP3" => Box::new(ReadOnlySource::new(bytes)),
        _ => Box::new(Cursor::new(bytes)),
    };
    let stream = MediaSourceStream::new(source, Default::default());
    let options = FormatOptions::default();
    let opened: Result<Box<dyn FormatReader + 'a>, _> = match format.name {
        "WAV" => WavReader::try_new(stream, options).map(|reader| Box::new(reader) as _),
        "FLAC" => FlacReader::try_new(stream, options).map(|reader| Box::new(reader) as _),
        "MP3" => MpaReader::try_new(stream, options).map(|reader| Box::new(reader) as _),
        _ => OggReader::try_new(stream, options).map(|reader| Box::new(reader) as _),
    };
    opened.map_err(|error| reason(&error))
}

/// Returns the one audio track of a file.
fn audio_track<'a>(
    reader: &'a (dyn FormatReader + '_),
) -> Result<(&'a Track, &'a AudioCodecParameters), String> {
    let track = reader.default_track(TrackType::Audio).ok_or("it has no audio")?;
    let Some(CodecParameters::Audio(params)) = &track.codec_params else {
        return Err("its codec is unknown".into());
    };
    if params.codec == CODEC_ID_OPUS {
        return Err(OPUS.into());
    }
    Ok((track, params))
}

/// Returns what is wrong with a file.
fn reason(error: &symphonia::core::errors::Error) -> String {
    use symphonia::core::errors::Error;
    match error {
        Error::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => CUT.into(),
        Error::ResetRequired => "several streams follow each other in it".into(),
        Error::DecodeError(what) | Error::Unsupported(what) | Error::LimitError(what) => {
            (*what).into()
        }
        other => other.to_string(),
    }
}
