//! Options of the commands that write images, and the report on how images were stored.

use super::number;
use super::print::counted;
use super::problem::Problem;
use super::recut::changed;
use clap::ValueEnum;
use fuseloop::recut::Tile;
use fuseloop::source::ImageMode;
use fuseloop::write::{ImageOptions, Reencoded, SizeChange, WriteMode};
use std::fmt::Write as _;

/// The options for storing images.
#[derive(clap::Args)]
pub(super) struct StoredArgs {
    /// How to store images
    #[arg(long, value_enum, default_value_t = Mode::Lossless)]
    write_mode: Mode,
    /// Downscale images whose longer side exceeds this many pixels
    #[arg(long, value_name = "PIXELS")]
    max_resolution: Option<u32>,
    /// Encode images as JPEGs of this quality (1-100). By default JPEGs are copied unchanged.
    #[arg(long, value_name = "QUALITY", value_parser = clap::value_parser!(u8).range(1..=100))]
    jpeg_quality: Option<u8>,
    /// Insert a restart marker every N pixels (or once per `row`), losslessly, so that crops decode faster.
    /// `--write-mode tiled` sets it to 32; with `--write-mode planes` it is the tile width.
    #[arg(long, value_name = "PIXELS")]
    tile: Option<Tile>,
    /// Share of images stored as JPEG by `--write-mode proportion`, 0 to 1 [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    compress_probability: Option<f64>,
    /// Raw size above which `--write-mode smart` stores JPEG, such as 100kB
    #[arg(long, value_name = "BYTES", value_parser = number::whole_bytes::<u64>)]
    smart_threshold: Option<u64>,
    /// Also decode JPEGs and audio files that are copied unchanged, to detect damage
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// JPEGs unchanged, others as 8-bit RGB without alpha (PNG outside .beton files); frames of video files as JPEG
    Lossless,
    /// Pixels (PNG outside .beton files)
    Raw,
    /// Class numbers of masks: pixels in a .beton, PNG otherwise. JPEGs and lossy WebPs are errors.
    Mask,
    /// JPEG, lossy for PNGs and pixels
    Jpg,
    /// Lossless, with JPEGs re-cut so that crops decode faster
    Tiled,
    /// Lossless, with JPEGs as bit planes. Crops decode in half the time of re-cut JPEGs. FFCV cannot read
    /// bit planes; a conversion without it restores the JPEGs
    /// byte for byte.
    Planes,
    /// JPEG above `--smart-threshold`, pixels below; lossy for PNGs above it
    Smart,
    /// JPEG for a share of the images (lossy for PNGs), pixels for others
    Proportion,
}

impl StoredArgs {
    /// Converts the arguments to options.
    ///
    /// # Errors
    ///
    /// If JPEGs should be re-cut but none are stored, or an option is one of another mode.
    pub(super) fn options(&self) -> Result<ImageOptions, Problem> {
        if matches!(self.write_mode, Mode::Raw | Mode::Mask) && self.tile.is_some() {
            return Err(Problem::NoTiles);
        }
        if matches!(self.write_mode, Mode::Raw | Mode::Mask) && self.jpeg_quality.is_some() {
            return Err(Problem::Refused {
                message: "`--jpeg-quality` is not for `--write-mode raw` and `mask`, which store no JPEGs".to_owned(),
                help: "choose another mode, such as `jpg`, or leave the option out",
            });
        }
        let thresholds = [
            (
                self.smart_threshold.is_some(),
                Mode::Smart,
                "`--smart-threshold` is only for `--write-mode smart`",
            ),
            (
                self.compress_probability.is_some(),
                Mode::Proportion,
                "`--compress-probability` is only for `--write-mode proportion`",
            ),
        ];
        if let Some((.., message)) =
            thresholds.iter().find(|(is_given, mode, _)| *is_given && *mode != self.write_mode)
        {
            let help = "choose this mode, or leave the option out";
            return Err(Problem::Refused { message: (*message).to_owned(), help });
        }
        let write_mode = match self.write_mode {
            Mode::Lossless | Mode::Tiled | Mode::Planes => WriteMode::Lossless,
            Mode::Raw => WriteMode::Raw,
            Mode::Mask => WriteMode::Mask,
            Mode::Jpg => WriteMode::Jpg,
            Mode::Smart => WriteMode::Smart { smart_threshold: self.smart_threshold },
            Mode::Proportion => WriteMode::Proportion {
                compress_probability: self.compress_probability.unwrap_or(0.5),
            },
        };
        Ok(ImageOptions {
            write_mode,
            max_resolution: self.max_resolution,
            jpeg_quality: self.jpeg_quality,
            verify: self.verify,
            tile: self.tile(),
            bit_planes: self.write_mode == Mode::Planes,
            ..ImageOptions::default()
        })
    }

    /// Returns how to get JPEGs instead of pixels from the files of other formats, if the mode leaves a choice.
    pub(super) fn hint_of_pixels(&self) -> Option<&'static str> {
        let is_lossless = matches!(self.write_mode, Mode::Lossless | Mode::Tiled | Mode::Planes);
        is_lossless.then_some("`--jpeg-quality 90` stores JPEGs (lossy)")
    }

    /// Returns the tile size; `None` if JPEGs are neither re-cut nor stored as bit planes.
    fn tile(&self) -> Option<Tile> {
        self.tile.or(matches!(self.write_mode, Mode::Tiled | Mode::Planes).then(Tile::default))
    }

    /// Returns the report's word for a rewritten JPEG; `None` if JPEGs are stored unchanged.
    pub(super) fn rewritten(&self) -> Option<&'static str> {
        match self.write_mode {
            Mode::Planes => Some(BIT_PLANES),
            _ => self.tile().map(|_| RE_CUT),
        }
    }
}

/// How reports call re-cutting.
pub(super) const RE_CUT: &str = "re-cut";
/// How reports call the storing of JPEGs as bit planes.
pub(super) const BIT_PLANES: &str = "stored as bit planes";

/// Adds which images were not stored as given, and whether that was lossy. `hint` is for files that became pixels.
pub(super) fn add_reencoded(
    text: &mut String,
    reencoded: &[Reencoded],
    change: SizeChange,
    hint: Option<&str>,
) {
    let all: u64 = reencoded.iter().map(|kind| kind.images).sum();
    if all > 0 {
        let _ = writeln!(text, "re-encoded {}, {}:", counted(all, "image"), changed(change));
    }
    for Reencoded { from, to, is_lossy, images, .. } in reencoded {
        let lost = match (is_lossy, to) {
            (false, _) => "no pixel changed",
            (true, ImageMode::Jpeg | ImageMode::BitPlanes) => "lossy",
            (true, _) if from.is_other_file() => {
                "downscaled, or stored without alpha or with fewer bits per channel"
            }
            (true, _) => "downscaled",
        };
        let are_pixels = *to == ImageMode::Raw && from.is_other_file();
        let hint = hint.filter(|_| are_pixels).map_or_else(String::new, |hint| format!("; {hint}"));
        let (from, to, images) = (word(*from), word(*to), super::print::count(*images));
        let _ = match from == to {
            true => writeln!(text, "  {images} as {to} again: {lost}"),
            false => writeln!(text, "  {images} from {from} to {to}: {lost}{hint}"),
        };
    }
}

fn word(mode: ImageMode) -> String {
    match mode {
        ImageMode::Raw => "raw pixels".into(),
        ImageMode::Webp => "WebP".into(),
        ImageMode::BitPlanes => "bit planes".into(),
        mode => mode.name().to_ascii_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_re_encoded_is_told_with_what_it_cost() {
        let kind = |from, to, is_lossy, images| {
            let lost_orientations = 0;
            Reencoded { from, to, is_lossy, images, lost_orientations }
        };
        let mut text = String::new();
        add_reencoded(&mut text, &[], SizeChange::default(), None);
        assert_eq!(text, "");
        let all = [
            kind(ImageMode::Jpeg, ImageMode::Raw, true, 1),
            kind(ImageMode::Png, ImageMode::Jpeg, true, 1200),
            kind(ImageMode::Png, ImageMode::Raw, false, 34),
            kind(ImageMode::Png, ImageMode::Raw, true, 2),
            kind(ImageMode::Jpeg, ImageMode::Jpeg, true, 64),
        ];
        let change = SizeChange { before: 1000, after: 3000 };
        add_reencoded(&mut text, &all, change, Some("ask for JPEGs"));
        assert_eq!(
            text,
            "re-encoded 1,301 images, 1.0 kB to 3.0 kB (+200.0 %):\n  \
             1 from JPEG to raw pixels: downscaled\n  \
             1,200 from PNG to JPEG: lossy\n  \
             34 from PNG to raw pixels: no pixel changed; ask for JPEGs\n  \
             2 from PNG to raw pixels: downscaled, or stored without alpha or with fewer bits per channel; ask for JPEGs\n  \
             64 as JPEG again: lossy\n"
        );
    }
}
