//! Audio against soundfile's samples (`scripts/audio_goldens.py`), and against damage.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use super::test_images::folder;
use super::{AudioOptions, DecodeOptions, Decoder};
use crate::error::{Damage, Error};
use crate::sample::Limits;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use sha2::{Digest as _, Sha256};

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(folder("audio").join(name)).unwrap()
}

/// A golden, and what soundfile says of it.
struct Golden {
    name: String,
    sample_rate: u32,
    channels: u16,
    frames: u32,
    sha256: String,
}

fn goldens() -> Vec<Golden> {
    let text = String::from_utf8(golden("expected.txt")).unwrap();
    let golden = |line: &str| {
        let [name, rate, channels, frames, sha256] =
            line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        Golden {
            name: name.to_owned(),
            sample_rate: rate.parse().unwrap(),
            channels: channels.parse().unwrap(),
            frames: frames.parse().unwrap(),
            sha256: sha256.to_owned(),
        }
    };
    let all: Vec<Golden> = text.lines().map(golden).collect();
    assert_eq!(all.len(), 13);
    all
}

impl Golden {
    /// All channels of the file, or their mean.
    fn options(&self, num_channels: u16) -> AudioOptions {
        AudioOptions::new(self.sample_rate).num_channels(num_channels)
    }
}

fn decoder() -> Decoder {
    Decoder::new(DecodeOptions::default())
}

/// Returns the rows of a range of frames; `None` is all of them.
fn read(
    bytes: &[u8],
    options: AudioOptions,
    range: Option<(u32, u32)>,
) -> Result<Vec<Vec<f32>>, Error> {
    let mut decoder = decoder();
    let mut opened = decoder.open_audio(bytes, options)?;
    let size = opened.size();
    let full = size.full();
    let window = range.map_or(full, |(left, width)| Window { left, width, ..full });
    let view = opened.decode(window)?.window(window).unwrap();
    let row = |y| {
        let (samples, rest) = view.row(y).as_chunks::<4>();
        assert!(rest.is_empty());
        samples.iter().map(|four| f32::from_ne_bytes(*four)).collect()
    };
    Ok((0..size.height).map(row).collect())
}

/// Returns samples frame by frame, as soundfile does.
fn interleaved(rows: &[Vec<f32>]) -> Vec<f32> {
    (0..rows[0].len()).flat_map(|frame| rows.iter().map(move |row| row[frame])).collect()
}

#[test]
fn samples_are_soundfiles() {
    for golden_file in goldens() {
        let Golden { name, channels, frames, sha256, .. } = &golden_file;
        let bytes = golden(name);
        let rows = read(&bytes, golden_file.options(*channels), None).unwrap();
        assert_eq!((rows.len(), rows[0].len()), ((*channels).into(), *frames as usize), "{name}");
        let samples = interleaved(&rows);
        if name.ends_with(".mp3") || name.ends_with(".ogg") {
            let expected = golden(&format!("{name}.f32"));
            let expected = expected.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
            let off = samples.iter().zip(expected).map(|(found, want)| (found - want).abs());
            let most = off.fold(0.0, f32::max);
            assert!(most < 1e-4, "{name}: {most}");
        } else {
            let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            let digest = Sha256::digest(&bytes);
            let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(&found, sha256, "{name}");
        }
    }
}

/// The files of `scripts/audio_goldens.py` that torchaudio resampled, and their rates there.
const RESAMPLED: [(&str, u32); 5] = [
    ("u8.wav", 16_000),
    ("i16.wav", 44_100),
    ("i24.wav", 16_000),
    ("i24.flac", 22_050),
    ("i24.flac", 96_000),
];

#[test]
fn resampled_files_are_torchaudios() {
    for (name, rate) in RESAMPLED {
        let stored = goldens().into_iter().find(|golden| golden.name == name).unwrap();
        let options = AudioOptions::new(rate).num_channels(stored.channels).resample(true);
        let samples = interleaved(&read(&golden(name), options, None).unwrap());
        let want = golden(&format!("{name}.{rate}.f32"));
        let want = want.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
        assert_eq!(samples.len(), want.len(), "{name} at {rate}");
        // torchaudio computes the phases of its filters as f32.
        let most =
            samples.iter().zip(want).map(|(found, want)| (found - want).abs()).fold(0.0, f32::max);
        assert!(most < 1e-5, "{name} at {rate}: {most}");
    }
}

#[test]
fn ranges_of_resampled_files_have_the_bits_of_the_whole() {
    for golden_file in goldens() {
        let bytes = golden(&golden_file.name);
        for rate in [11_025, 16_000, 48_000] {
            let options = AudioOptions::new(rate).resample(true);
            let whole = read(&bytes, options, None).unwrap();
            let frames = whole[0].len() as u32;
            let want = (u64::from(golden_file.frames) * u64::from(rate))
                .div_ceil(golden_file.sample_rate.into());
            assert_eq!(u64::from(frames), want, "{} at {rate}", golden_file.name);
            for step in 0..12 {
                let left = frames * step / 12;
                let width = (frames - left).min(1 + 97 * step);
                let part = read(&bytes, options, Some((left, width))).unwrap();
                let cut = &whole[0][left as usize..(left + width) as usize];
                assert!(part[0] == cut, "{} at {rate}: {width} from {left} on", golden_file.name);
            }
        }
    }
}

#[test]
fn a_file_of_the_rate_is_not_changed_by_resampling() {
    let options = AudioOptions::new(16_000);
    let flac = golden("i16.flac");
    assert!(
        read(&flac, options.resample(true), None).unwrap() == read(&flac, options, None).unwrap()
    );
}

#[test]
fn a_decoder_reads_files_of_many_rates() {
    let (flac, mut decoder) = (golden("i24.flac"), decoder());
    for rate in (8_000..20_000).step_by(1_000).chain([8_000]) {
        let options = AudioOptions::new(rate).resample(true);
        let mut opened = decoder.open_audio(&flac, options).unwrap();
        let full = opened.size().full();
        assert!(opened.decode(full).is_ok(), "{rate}");
    }
}

#[test]
fn every_file_is_checked_to_its_end() {
    for Golden { name, .. } in goldens() {
        let bytes = golden(&name);
        assert_eq!(decoder().check_audio(&bytes), Ok(()), "{name}");
        let cut = decoder().check_audio(&bytes[..bytes.len() / 2]);
        assert!(cut.is_err(), "{name}");
    }
    let opus = decoder().check_audio(&golden("opus.opus")).unwrap_err().to_string();
    assert!(opus.contains("it is Opus, which is not read"), "{opus}");
    // The MD5 of a FLAC is in bytes 26 to 41, behind `fLaC` and the other numbers of its first block.
    let mut flac = golden("i16.flac");
    flac[30] ^= 1;
    assert!(read(&flac, AudioOptions::new(16_000), None).is_ok());
    let error = decoder().check_audio(&flac).unwrap_err().to_string();
    assert_eq!(error, "FLAC that can't be decoded: its samples are not those of its MD5");
    flac[26..42].fill(0);
    assert_eq!(decoder().check_audio(&flac), Ok(()), "it has no MD5");
    // The number of its samples is in the last 36 bits before the MD5.
    let mut short = golden("i16.flac");
    let stated = u64::from_be_bytes(short[18..26].try_into().unwrap()) & ((1 << 36) - 1);
    short[22..26].copy_from_slice(&(stated as u32 / 2).to_be_bytes());
    let error = decoder().check_audio(&short).unwrap_err().to_string();
    let want = format!("its header states {} samples, but more follow", stated / 2);
    assert!(error.ends_with(&want), "{error}");
}

#[test]
fn one_channel_is_the_mean_of_all() {
    let rows = read(&golden("i16.wav"), AudioOptions::new(16_000).num_channels(2), None).unwrap();
    let mono = read(&golden("i16.wav"), AudioOptions::new(16_000), None).unwrap();
    assert_eq!(mono.len(), 1);
    for (frame, found) in mono[0].iter().enumerate() {
        assert_eq!(*found, (rows[0][frame] + rows[1][frame]) / 2.0, "{frame}");
    }
}

#[test]
fn ranges_have_the_bits_of_the_whole() {
    for golden_file in goldens() {
        let Golden { name, frames, .. } = &golden_file;
        let (bytes, options) = (golden(name), golden_file.options(1));
        let whole = read(&bytes, options, None).unwrap();
        for step in 0..24 {
            let left = frames * step / 24;
            let width = (frames - left).min(1 + 97 * step);
            let part = read(&bytes, options, Some((left, width))).unwrap();
            let cut = &whole[0][left as usize..(left + width) as usize];
            assert!(part[0] == cut, "{name}: {width} frames from {left} on");
        }
    }
}

#[test]
fn another_rate_or_other_channels_are_refused_with_the_cure() {
    let refused = |name: &str, options| {
        let error = read(&golden(name), options, None).unwrap_err();
        assert_eq!(error.damage_found(), Some(Damage::Unsupported));
        error.to_string()
    };
    assert_eq!(
        refused("i16.wav", AudioOptions::new(44_100)),
        "audio of 16000 samples a second, expected 44100: set `sample_rate` to 16000 if all files have it, or `resample` to \
         true"
    );
    let error = refused("i16.wav", AudioOptions::new(4_294_967_291).resample(true));
    assert!(
        error.contains("whose ratio to 4294967291 needs too large a filter: resample the file"),
        "{error}"
    );
    assert_eq!(
        refused("i16.flac", AudioOptions::new(16_000).num_channels(2)),
        "FLAC of 1 channel, expected 2: set `num_channels` to 1, which is the mean of the channels of any file, or to the \
         number that all files have"
    );
}

#[test]
fn files_that_are_no_audio_say_what_they_are() {
    let message = |bytes: &[u8]| {
        let error = read(bytes, AudioOptions::new(16_000), None).unwrap_err();
        error.to_string()
    };
    let opus = message(&golden("opus.opus"));
    assert_eq!(
        opus,
        "Ogg that can't be decoded: it is Opus, which is not read: convert it, for example by `ffmpeg -i in.opus \
         out.flac`"
    );
    assert_eq!(message(b"\xff\xd8\xff\xe0"), "audio that can't be decoded: it is a JPEG");
    assert_eq!(message(b""), "audio that can't be decoded: the file is empty");
    let text = message(b"text");
    assert!(text.ends_with("expected a WAV, FLAC, MP3 or Ogg Vorbis file"), "{text}");
}

#[test]
fn a_file_that_is_cut_short_is_damaged() {
    for golden_file in goldens() {
        let (bytes, options) = (golden(&golden_file.name), golden_file.options(1));
        // An MP3 may lack its last frames without being cut: its tag is off by one in some encoders.
        let tenths = if golden_file.name.ends_with(".mp3") { 6 } else { 10 };
        for tenths in 0..tenths {
            let cut = &bytes[..bytes.len() * tenths / 10];
            let found = read(cut, options, None);
            assert!(found.is_err(), "{}: {tenths} tenths", golden_file.name);
        }
    }
}

#[test]
fn headers_that_lie_are_refused_within_the_limits() {
    let mut wav = golden("i16.wav");
    let data = wav.windows(4).position(|four| four == b"data").unwrap();
    wav[data + 4..data + 8].copy_from_slice(&0x4000_0000_u32.to_le_bytes());
    wav[4..8].copy_from_slice(&0x4000_1000_u32.to_le_bytes());
    let error = read(&wav, AudioOptions::new(16_000), None).unwrap_err();
    assert_eq!(error.damage_found(), Some(Damage::OverLimit));
    assert_eq!(error.to_string(), "WAV of 268435456 samples, the limit is 67108864");
    wav[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    wav[data + 4..data + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read(&wav, AudioOptions::new(16_000), None).unwrap_err().to_string();
    assert!(error.starts_with("WAV that was written to a pipe"), "{error}");

    let limits = Limits { max_pixels: 500, ..Limits::DEFAULT };
    let mut small = Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() });
    let flac = golden("i16.flac");
    let error = small.open_audio(&flac, AudioOptions::new(16_000)).unwrap_err();
    assert_eq!(error.to_string(), "FLAC of 14000 samples, the limit is 500");
    let limits = Limits { max_sample_bytes: 500, ..Limits::DEFAULT };
    let mut small = Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() });
    let error = small.open_audio(&flac, AudioOptions::new(16_000)).unwrap_err();
    assert_eq!(error.to_string(), format!("{} bytes are stored, the limit is 500", flac.len()));
}

#[test]
fn tags_before_and_after_the_audio_are_skipped() {
    let flac = golden("i16.flac");
    let options = AudioOptions::new(16_000);
    let tagged = [&b"ID3\x04\0\0\0\0\0\x03abc"[..], &flac].concat();
    assert!(read(&tagged, options, None).unwrap() == read(&flac, options, None).unwrap());
    let tagged = [&flac[..], b"TAG", &[b' '; 125]].concat();
    assert!(read(&tagged, options, None).unwrap() == read(&flac, options, None).unwrap());
    assert_eq!(decoder().check_audio(&tagged), Ok(()));
    let size = decoder().open_audio(&tagged, options).unwrap().size();
    assert_eq!(size, Size::new(1, 14_000));
}
