//! The pixels of a decoded picture: a window of its planes as RGB.

use crate::error::{Damage, Error, fail};
use fuseloop_kernels::{YuvPicture, YuvRows, YuvToRgb, yuv_window};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;
use fuseloop_video::{Frame, MatrixCoefficients, Subsampling};

/// Returns the size of a picture as it is stored.
pub(crate) fn frame_size(frame: &Frame) -> Size {
    Size::new(frame.height, frame.width)
}

/// Writes the RGB pixels of a window, which is inside of the picture, to `rgb`.
///
/// # Errors
///
/// If the colours of the picture have a matrix that is not converted, or there is no memory.
pub(crate) fn frame_window(
    frame: &Frame,
    window: Window,
    rows: &mut YuvRows,
    rgb: &mut Vec<u8>,
) -> Result<(), Error> {
    let shares = match frame.matrix {
        MatrixCoefficients::Unknown | MatrixCoefficients::Bt601 => YuvToRgb::BT601,
        MatrixCoefficients::Bt709 => YuvToRgb::BT709,
        MatrixCoefficients::Bt2020 => YuvToRgb::BT2020,
        MatrixCoefficients::Other(number) => {
            let error = fail!(
                Damaged,
                "the colours have the matrix {number} of ITU-T H.273, and only those of BT.601, BT.709 and BT.2020 are \
                 converted: convert the file, as by ffmpeg -i IN -vf scale=out_color_matrix=bt709 OUT.mp4"
            );
            return Err(error.damage(Damage::Unsupported));
        }
    };
    let to = YuvToRgb::new(shares, frame.is_full_range);
    let picture = YuvPicture {
        planes: [0, 1, 2].map(|plane| frame.plane(plane)),
        strides: [0, 1, 2].map(|plane| frame.stride(plane)),
        size: [frame.width, frame.height].map(|side| side as usize),
        chroma_shifts: match frame.subsampling {
            Subsampling::Gray => None,
            Subsampling::Yuv420 => Some([1, 1]),
            Subsampling::Yuv422 => Some([1, 0]),
            Subsampling::Yuv444 => Some([0, 0]),
        },
    };
    let [left, top, width, height] =
        [window.left, window.top, window.width, window.height].map(|side| side as usize);
    let bytes = width * height * RGB;
    rgb.clear();
    if rgb.try_reserve(bytes).is_err() {
        return Err(fail!(Memory, "no memory for the {bytes} bytes of a frame").out_of_memory());
    }
    rgb.resize(bytes, 0);
    yuv_window(&picture, &to, [left, top], [width, height], rgb, width * RGB, rows);
    Ok(())
}
