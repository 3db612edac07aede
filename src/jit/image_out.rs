//! The memory that an image is written to.

/// The bytes of an image, or its planes, with those of other images between them.
#[derive(Debug)]
pub(crate) struct ImageOut<'a> {
    /// From the first byte of the image to its last.
    bytes: &'a mut [u8],
    /// The number of bytes from the beginning of one plane to that of the next; `None` if they follow each other.
    apart: Option<usize>,
}

impl<'a> From<&'a mut [u8]> for ImageOut<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self { bytes, apart: None }
    }
}

impl<'a> ImageOut<'a> {
    /// Planes that begin `apart` bytes after each other.
    pub(crate) fn planes(bytes: &'a mut [u8], apart: usize) -> Self {
        Self { bytes, apart: Some(apart) }
    }

    /// Returns the same memory, borrowed for a shorter time.
    pub(super) fn reborrow(&mut self) -> ImageOut<'_> {
        ImageOut { bytes: self.bytes, apart: self.apart }
    }

    /// Returns the bytes and the number of them from one plane to the next, for an image of `len` bytes in `planes` planes.
    ///
    /// # Panics
    ///
    /// If the length is another than that of such an image, or planes overlap.
    pub(super) fn parts(self, planes: usize, len: usize) -> (&'a mut [u8], usize) {
        let plane = len / planes;
        let apart = self.apart.unwrap_or(plane);
        assert!(planes == 1 || apart >= plane, "planes that overlap");
        assert_eq!(self.bytes.len(), (planes - 1) * apart + plane, "bytes of an image");
        (self.bytes, apart)
    }

    /// Returns each of `planes` planes of an image of `len` bytes.
    pub(super) fn each_plane(
        self,
        planes: usize,
        len: usize,
    ) -> impl Iterator<Item = &'a mut [u8]> {
        let plane = len / planes;
        let (bytes, apart) = self.parts(planes, len);
        bytes.chunks_mut(apart.max(1)).map(move |bytes| &mut bytes[..plane])
    }

    /// Writes an image whose planes follow each other.
    pub(super) fn copy(self, image: &[u8], planes: usize) {
        let plane = (image.len() / planes).max(1);
        let to = self.each_plane(planes, image.len());
        to.zip(image.chunks_exact(plane)).for_each(|(to, plane)| to.copy_from_slice(plane));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::{DecodedPixels, Kernel, Scratch};
    use crate::plan::{Draws, ImagePlan};
    use fuseloop_ops::author::{Dim, ImageType};
    use fuseloop_ops::internals::{ImageView, PixelFormat, SampleKey};
    use fuseloop_ops::*;

    /// A byte that no image writes between its planes.
    const OTHER: u8 = 0xA5;

    fn kernel(ops: Ops, channels: usize, side: u32) -> Kernel {
        let input =
            ImageType::decoded(Dim::fixed(side), Dim::fixed(side)).with_channels(channels as u16);
        Kernel::compile(ImagePlan::new(ops, input, NumberRule::Fused).unwrap()).unwrap()
    }

    #[test]
    fn planes_that_lie_apart_are_those_that_follow_each_other() {
        let lists: [(Ops, usize, u32); 6] = [
            (ops![ToChannelsFirst], 3, 20),
            (
                ops![RandomResizedCrop::new(16).unwrap(), Normalize::imagenet(), ToChannelsFirst],
                3,
                40,
            ),
            (ops![Normalize::imagenet(), Convert::to(DType::F16), ToChannelsFirst], 3, 33),
            (ops![RandomAutocontrast::new(1.0).unwrap(), ToChannelsFirst], 3, 24),
            // Too narrow for vectors: evaluated.
            (ops![RandomCrop::new(3).unwrap(), ToChannelsFirst], 3, 20),
            // More channels than a loop has: plane by plane.
            (ops![RandomResizedCrop::new(16).unwrap(), ToChannelsFirst], 7, 40),
        ];
        for (ops, channels, side) in lists {
            let name = format!("{ops:?}");
            let kernel = kernel(ops, channels, side);
            let pixels: Vec<u8> = (0..side as usize * side as usize * channels)
                .map(|k| (k * 7 % 251) as u8)
                .collect();
            let format = PixelFormat { channels, dtype: DType::U8 };
            let size = Size::new(side, side);
            let source =
                DecodedPixels::whole(ImageView::packed_format(&pixels, size, format).unwrap());
            let (mut draws, mut scratch) = (Draws::default(), Scratch::default());
            kernel.plan().draw(SampleKey::new(1, 2, 3), size, &mut draws);
            let mut image = vec![0; kernel.plan().drawn_bytes(&draws)];
            kernel.try_run(&mut scratch, source, &draws, &mut image).unwrap();
            let plane = image.len() / channels;
            let apart = 3 * plane;
            let mut row = vec![OTHER; apart * channels];
            let bytes = &mut row[plane..][..(channels - 1) * apart + plane];
            let out = ImageOut::planes(bytes, apart);
            kernel.try_run_into(&mut scratch, source, &draws, out).unwrap();
            for (own, expected) in row.chunks_exact(apart).zip(image.chunks_exact(plane)) {
                assert_eq!(&own[plane..2 * plane], expected, "{name}");
                let others = own[..plane].iter().chain(&own[2 * plane..]);
                assert!(others.into_iter().all(|byte| *byte == OTHER), "{name}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "planes that overlap")]
    fn planes_do_not_overlap() {
        let mut bytes = [0; 8];
        let _ = ImageOut::planes(&mut bytes, 3).parts(2, 8);
    }
}
