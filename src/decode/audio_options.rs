//! The settings that audio files are decoded by.

/// The signals that the audio files of a field are decoded to: their sample rate and their number of channels.
///
/// | channels of a file     | `num_channels` | the signal                                     |
/// |------------------------|----------------|------------------------------------------------|
/// | any                    | 1, the default | `[T]`: the mean of the channels                |
/// | as many as asked for   | C              | `[C, T]`                                       |
/// | others                 | C              | none: the sample is damaged                    |
///
/// The elements are `f32`: an integer of `n` bits is divided by `2^(n-1)`, so that it is from -1 to 1; floats stay what they
/// are. A file of another sample rate is a damaged sample, unless [`resample`](Self::resample) is set.
///
/// ```
/// use fuseloop::AudioOptions;
///
/// let stereo = AudioOptions::new(44_100).num_channels(2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AudioOptions {
    pub(crate) sample_rate: u32,
    pub(crate) num_channels: u16,
    pub(crate) resample: bool,
}

impl AudioOptions {
    /// Signals of one channel and `sample_rate` samples a second.
    #[must_use]
    pub fn new(sample_rate: u32) -> Self {
        Self { sample_rate, num_channels: 1, resample: false }
    }

    /// Sets the number of channels. One is the mean of all channels of a file.
    #[must_use]
    pub fn num_channels(self, num_channels: u16) -> Self {
        Self { num_channels, ..self }
    }

    /// If true, files of other sample rates are resampled, as torchaudio's `resample` does by default: by a sinc filter of 6
    /// zero crossings under a Hann window, with a rolloff of 0.99. `ceil(T * sample_rate / rate)` samples become of `T`, after
    /// the channels have become one. A window has the bits of the whole signal.
    ///
    /// ```
    /// use fuseloop::AudioOptions;
    ///
    /// let speech = AudioOptions::new(16_000).resample(true);
    /// ```
    #[must_use]
    pub fn resample(self, resample: bool) -> Self {
        Self { resample, ..self }
    }
}
