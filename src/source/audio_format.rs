//! The formats of audio files: each is declared here once.
//!
//! The format of a file is that of its first bytes, whatever its name is. Folders and tables recognize audio by the
//! extensions of the names.

/// A format of audio files.
#[cfg_attr(
    not(feature = "audio"),
    allow(dead_code, reason = "a build that decodes no audio needs half of it")
)]
#[derive(Debug)]
pub(crate) struct AudioFormat {
    /// The name, as in "WAV that can't be decoded".
    pub(crate) name: &'static str,
    /// The extensions of its files in small letters. The first is that of files that are written.
    pub(crate) extensions: &'static [&'static str],
    begins: fn(&[u8]) -> bool,
}

/// The formats that are read.
pub(crate) const AUDIO_FORMATS: &[AudioFormat] = &[
    AudioFormat {
        name: "WAV",
        extensions: &["wav", "wave"],
        begins: |bytes| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE"),
    },
    AudioFormat { name: "FLAC", extensions: &["flac"], begins: |bytes| bytes.starts_with(b"fLaC") },
    AudioFormat {
        name: "Ogg",
        extensions: &["ogg", "oga"],
        begins: |bytes| bytes.starts_with(b"OggS"),
    },
    AudioFormat {
        name: "MP3",
        extensions: &["mp3"],
        // A frame header of layer III: eleven bits of synchronization, a version, the layer.
        begins: |bytes| matches!(bytes, [0xff, second, ..] if second & 0xe6 == 0xe2 && second & 0x18 != 0x08),
    },
];

/// The extensions of audio files in formats that no build reads: audio that is left out is probably missed.
const OTHER_AUDIO: &[&str] = &[
    "opus", "m4a", "m4b", "aac", "wma", "aif", "aiff", "aifc", "au", "snd", "caf", "amr", "ape",
    "wv", "mka", "ac3", "spx", "mp2", "w64",
];

/// Returns the format of audio files with this extension.
pub(crate) fn of_extension(extension: &str) -> Option<&'static AudioFormat> {
    let is = |known: &&str| extension.eq_ignore_ascii_case(known);
    AUDIO_FORMATS.iter().find(|format| format.extensions.iter().any(&is))
}

/// Returns the format of audio files whose names end as this one.
#[cfg(any(feature = "tar", feature = "write"))]
pub(crate) fn of_name(name: &str) -> Option<&'static AudioFormat> {
    of_extension(name.rsplit('.').next().unwrap_or(name))
}

/// The bytes at the beginning of a file that tell whether it may be audio.
#[cfg(feature = "tar")]
pub(super) const FIRST_BYTES: u64 = 16;

/// Returns whether the first bytes of a file are those of an audio file, or of a tag before one.
#[cfg(feature = "tar")]
pub(super) fn may_begin(first: &[u8]) -> bool {
    first.starts_with(b"ID3") || AudioFormat::of_file(first).is_some()
}

/// Returns the extensions of audio files that this build reads.
pub(super) fn extensions() -> impl Iterator<Item = &'static str> {
    let formats = if cfg!(feature = "audio") { AUDIO_FORMATS } else { &[] };
    formats.iter().flat_map(|format| format.extensions).copied()
}

/// Returns whether files with this extension are audio of a format that is not read.
pub(super) fn is_unread_audio(extension: &str) -> bool {
    OTHER_AUDIO.iter().any(|one| extension.eq_ignore_ascii_case(one))
}

#[cfg_attr(
    not(any(feature = "audio", feature = "tar", feature = "write")),
    allow(dead_code, reason = "files are decoded, recognized and written by features")
)]
impl AudioFormat {
    /// Returns the format of a file, and its bytes without ID3 tags; `None` if it is none of [`AUDIO_FORMATS`].
    pub(crate) fn of_file(bytes: &[u8]) -> Option<(&'static Self, &[u8])> {
        let bytes = after_id3(bytes);
        let format = AUDIO_FORMATS.iter().find(|format| (format.begins)(bytes))?;
        // ID3v1. The last frame of a FLAC would end with it, and have another checksum.
        let bytes = match bytes.split_last_chunk::<128>() {
            Some((rest, [b'T', b'A', b'G', ..])) if format.name == "FLAC" => rest,
            _ => bytes,
        };
        Some((format, bytes))
    }
}

/// Returns the bytes after the ID3v2 tags at the beginning of a file (ID3v2.4, section 3.1).
#[cfg_attr(
    not(any(feature = "audio", feature = "tar", feature = "write")),
    allow(dead_code, reason = "files are decoded, recognized and written by features")
)]
fn after_id3(mut bytes: &[u8]) -> &[u8] {
    const HEADER: usize = 10;
    while let [b'I', b'D', b'3', _, _, flags, a, b, c, d, ..] = *bytes {
        let length =
            [a, b, c, d].iter().fold(0, |length, seven| length << 7 | usize::from(seven & 0x7f));
        let footer = if flags & 0x10 != 0 { HEADER } else { 0 };
        bytes = bytes.get(HEADER + length + footer..).unwrap_or_default();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_tell_what_is_audio() {
        let name = |extension| of_extension(extension).map(|format| format.name);
        assert_eq!(
            (name("WAV"), name("oga"), name("mp3")),
            (Some("WAV"), Some("Ogg"), Some("MP3"))
        );
        assert_eq!(
            (name("opus"), is_unread_audio("Opus"), is_unread_audio("ogg")),
            (None, true, false)
        );
        let docs = include_str!("../../docs/sources.md");
        for AudioFormat { extensions, .. } in AUDIO_FORMATS {
            let listed = format!("`{}`", extensions.join("`, `"));
            assert!(docs.contains(&listed), "docs/sources.md lacks {listed}");
        }
    }

    #[test]
    fn first_bytes_tell_the_format() {
        for (bytes, want) in [
            (&b"RIFF\0\0\0\0WAVEfmt "[..], Some("WAV")),
            (b"RIFF\0\0\0\0WEBPVP8 ", None),
            (b"fLaC\0", Some("FLAC")),
            (b"OggS\0", Some("Ogg")),
            (b"\xff\xfb\x90", Some("MP3")),
            (b"\xff\xf3\x90", Some("MP3")),
            (b"\xff\xd8\xff", None),
            (b"\xff\xea\x90", None),
            (b"ID3\x04\0\0\0\0\0\x02xxfLaC", Some("FLAC")),
            (b"ID3\x04\0\0\x7f\x7f\x7f\x7f", None),
            (b"", None),
        ] {
            let found = AudioFormat::of_file(bytes).map(|(format, _)| format.name);
            assert_eq!(found, want, "{bytes:?}");
        }
    }
}
