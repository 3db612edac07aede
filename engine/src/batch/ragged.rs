//! Tensors whose samples differ in size: the layout of their rows, and how they are read.
//!
//! ```text
//!          row 0     row 1     row 2          sizes      · old contents of an earlier batch,
//! List     aaaa····  bb······  cccccc··       4, 2, 6      never readable
//! Ragged   aaaabbcc  cccc····  ········       4, 2, 6    = offsets 0, 4, 6, 12
//!          aaaabbcc  cccc····  ········       [3, 1], [0, 2], [6, 0]: rows of two frames each
//! Padded   aaaa00bb  0000cccc  cc······       4, 2, 6    = rows of 6, the largest of the batch
//!
//! axis 0   [H, W, C]: the sizes of H and W differ       axis 1   [C, H, W]: the same two
//! ```
//!
//! While a batch is filled, all three layouts are the same: every sample has its own range, as long as
//! the longest sample may be, so that workers write independently. A second tensor, an ordinary one of
//! i64, holds the size of each sample. A ragged or padded tensor is then packed in place, which moves
//! each sample once, towards the front. So is a tensor whose rows had [more room](TensorSpec::room) than they need.
//!
//! A tensor therefore takes the batch size times the longest sample of *address space*. Memory pages
//! that no sample reached are never written, and the system allocates no memory for them.

use super::{Element, HostBatch, RowsMut, SlotError, TensorError, TensorSpec};

/// The layout of the rows of a tensor.
///
/// ```
/// # use fuseloop_engine::batch::{TensorRows, TensorSpec};
/// /// Returns true if all samples of a batch have one shape, as most models want it.
/// fn has_one_shape(tensors: &[TensorSpec]) -> bool {
///     tensors.iter().all(|tensor| tensor.rows == TensorRows::Even)
/// }
/// # assert!(has_one_shape(&[TensorSpec::new("label", fuseloop_ops::DType::I64, [])]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorRows {
    /// Every row has the shape of the tensor.
    #[default]
    Even,
    /// The shape is that of the largest row; each row starts where it would if all rows had that size.
    List {
        /// The index of the tensor that holds the size of each row along some adjacent dimensions.
        sizes: usize,
        /// The first of these dimensions.
        axis: usize,
    },
    /// The shape is that of the longest row; each row starts where the row before it ends.
    Ragged {
        /// The index of the tensor that holds the length of each row along the first dimension. If it has several
        /// numbers for a row, they are the lengths of the row's frames, which follow each other.
        sizes: usize,
    },
    /// Images. Every image is padded to the largest height and the largest width in the batch, rounded up, which
    /// are at most those of the shape; each row starts where the row before it ends.
    Padded {
        /// The index of the tensor that holds the height and width of each image.
        sizes: usize,
        /// The dimension of the height; that of the width comes next.
        axis: usize,
        /// The number that the height and the width are rounded up to a multiple of.
        multiple: usize,
        /// The bytes of an element of the padding to the right of an image and below it, followed by zeros.
        pad: [u8; 8],
    },
    /// The rows are on a device; the batch's host memory holds the data that they are computed from.
    Device {
        /// The bytes of one sample in host memory.
        staged: usize,
    },
}

impl TensorRows {
    /// Returns the index of the tensor that holds the size of each row.
    #[must_use]
    #[doc(hidden)]
    pub const fn sizes(self) -> Option<usize> {
        match self {
            Self::Even | Self::Device { .. } => None,
            Self::List { sizes, .. } | Self::Ragged { sizes } | Self::Padded { sizes, .. } => {
                Some(sizes)
            }
        }
    }

    /// Returns the first dimension whose size differs from row to row.
    const fn axis(self) -> usize {
        match self {
            Self::Even | Self::Device { .. } | Self::Ragged { .. } => 0,
            Self::List { axis, .. } | Self::Padded { axis, .. } => axis,
        }
    }
}

impl TensorSpec {
    /// Returns the shape of a sample of these sizes along the dimensions that differ. The sizes were written by a
    /// stage; they are clamped so that no sample exceeds its range.
    #[must_use]
    #[doc(hidden)]
    pub fn shape_of(&self, sizes: &[i64]) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if let (TensorRows::Ragged { .. }, Some(length)) = (self.rows, shape.first_mut()) {
            *length = sizes.iter().fold(0, |sum, &size| sum + bounded(size, *length - sum));
            return shape;
        }
        let sides = shape.iter_mut().skip(self.rows.axis());
        sides.zip(sizes).for_each(|(side, &size)| *side = bounded(size, *side));
        shape
    }

    /// Returns the number of elements of a sample of these sizes.
    fn elements(&self, sizes: &[i64]) -> usize {
        self.shape_of(sizes).iter().product()
    }

    /// Returns the height and width that the images of a batch are padded to.
    fn padded<'a>(&self, multiple: usize, sizes: impl Iterator<Item = &'a [i64]>) -> [usize; 2] {
        let axis = self.rows.axis();
        let most = [self.shape[axis], self.shape[axis + 1]];
        let largest = sizes.fold([0; 2], |largest, sizes| {
            let shape = self.shape_of(sizes);
            [0, 1].map(|side: usize| shape[axis + side].max(largest[side]))
        });
        [0, 1].map(|side: usize| largest[side].next_multiple_of(multiple.max(1)).min(most[side]))
    }
}

fn bounded(found: i64, most: usize) -> usize {
    usize::try_from(found).map_or(if found < 0 { 0 } else { most }, |n| n.min(most))
}

/// Refuses tensors whose row sizes are not available.
pub(super) fn check(tensors: &[TensorSpec]) -> Result<(), SlotError> {
    let is_known = |tensor: &TensorSpec, sizes: usize| {
        let Some(sizes) = tensors.get(sizes) else { return false };
        let sized: usize = sizes.shape.iter().product();
        let axes = tensor.shape.len();
        let is_fit = match tensor.rows {
            TensorRows::Ragged { .. } => sized > 0 && axes > 0,
            rows => {
                (1..=axes).contains(&sized)
                    && rows.axis() + sized <= axes
                    && sizes.shape.len() <= 1
                    && (sized == 2 || !matches!(rows, TensorRows::Padded { .. }))
            }
        };
        is_fit && sizes.rows == TensorRows::Even && sizes.dtype == i64::DTYPE
    };
    let mut tensors = tensors.iter();
    match tensors.find(|tensor| tensor.rows.sizes().is_some_and(|k| !is_known(tensor, k))) {
        None => Ok(()),
        Some(tensor) => Err(SlotError::Sizes { name: tensor.name.clone() }),
    }
}

/// Packs the ragged and the padded tensors of a finished batch, and those whose rows had more room than they need.
pub fn pack(rows: &mut RowsMut<'_>, tensors: &[TensorSpec]) {
    for (k, spec) in tensors.iter().enumerate() {
        match spec.rows {
            TensorRows::Ragged { sizes } => {
                let bytes = |lengths: &[i64]| spec.elements(lengths) * spec.dtype.bytes();
                let frames: usize = tensors[sizes].shape.iter().product();
                let lengths = numbers(rows, sizes);
                let lengths: Vec<usize> = lengths.chunks(frames.max(1)).map(bytes).collect();
                move_together(rows.output(k), &lengths);
            }
            TensorRows::Padded { sizes, axis, multiple, pad } => {
                let sizes = numbers(rows, sizes);
                let sizes = sizes.as_chunks::<2>().0;
                let to = spec.padded(multiple, sizes.iter().map(<[i64; 2]>::as_slice));
                let planes = spec.shape[..axis].iter().product();
                let channels: usize = spec.shape[axis + 2..].iter().product();
                let element = &pad[..spec.dtype.bytes()];
                let padding = ImagePadding { planes, pixel: channels * element.len(), element };
                let shapes = sizes.iter().map(|sizes| spec.shape_of(sizes));
                let sizes: Vec<_> = shapes.map(|shape| [shape[axis], shape[axis + 1]]).collect();
                padding.pad_together(rows.output(k), &sizes, to);
            }
            TensorRows::Even | TensorRows::List { .. } => {
                let bytes = spec.shape_bytes().unwrap_or(usize::MAX);
                if spec.room > bytes {
                    let lengths = vec![bytes; rows.len()];
                    move_together(rows.output(k), &lengths);
                }
            }
            TensorRows::Device { .. } => {}
        }
    }
}

/// Reads the numbers of a tensor of sizes.
fn numbers(rows: &mut RowsMut<'_>, k: usize) -> Vec<i64> {
    let (numbers, _) = rows.output(k).as_chunks();
    numbers.iter().map(|&number| i64::from_ne_bytes(number)).collect()
}

/// How images are padded in place.
#[derive(Clone, Copy, Debug)]
pub struct ImagePadding<'a> {
    /// The number of planes, each of which is padded.
    pub planes: usize,
    /// The bytes of a pixel of a plane.
    pub pixel: usize,
    /// The bytes of an element of the padding.
    pub element: &'a [u8],
}

impl ImagePadding<'_> {
    /// Pads an image of size `[rows, columns]`, stored at the start of `image`, to size `to`, at the right and below.
    /// `image` has the bytes of the padded image.
    ///
    /// # Panics
    ///
    /// If a side of the image is longer than in `to`, or `image` has another length.
    pub fn pad(&self, image: &mut [u8], [rows, columns]: [usize; 2], to: [usize; 2]) {
        let (line, wide) = (columns * self.pixel, to[1] * self.pixel);
        assert!(rows <= to[0] && columns <= to[1], "{rows} x {columns} pixels in {to:?}");
        assert_eq!(image.len(), self.planes * to[0] * wide, "bytes of a padded image");
        // From the last row to the first: each row moves to where only rows were that have moved already.
        for plane in (0..self.planes).rev() {
            for y in (0..rows).rev() {
                let (from, start) = ((plane * rows + y) * line, (plane * to[0] + y) * wide);
                image.copy_within(from..from + line, start);
                self.fill(&mut image[start + line..start + wide]);
            }
            self.fill(&mut image[(plane * to[0] + rows) * wide..(plane + 1) * to[0] * wide]);
        }
    }

    /// Pads image `i` of `bytes`, stored at the start of its range, to size `to`, and moves it to the end of image
    /// `i - 1`.
    fn pad_together(&self, bytes: &mut [u8], sizes: &[[usize; 2]], to: [usize; 2]) {
        let sample_len = bytes.len() / sizes.len().max(1);
        let padded = self.planes * to[0] * to[1] * self.pixel;
        for (i, &[rows, columns]) in sizes.iter().enumerate() {
            let (start, stored) = (i * padded, self.planes * rows * columns * self.pixel);
            // No range is smaller than a padded image, so the image stays in front of the next one.
            bytes.copy_within(i * sample_len..i * sample_len + stored, start);
            self.pad(&mut bytes[start..start + padded], [rows, columns], to);
        }
    }

    fn fill(&self, rest: &mut [u8]) {
        match self.element {
            [first, others @ ..] if others.iter().all(|byte| byte == first) => rest.fill(*first),
            element => rest.chunks_exact_mut(element.len()).for_each(|to| {
                to.copy_from_slice(element);
            }),
        }
    }
}

/// Moves the first `lengths[i]` bytes of row `i` of `bytes` to the end of row `i - 1`.
fn move_together(bytes: &mut [u8], lengths: &[usize]) {
    let row = bytes.len() / lengths.len().max(1);
    let mut end = 0;
    for (i, &length) in lengths.iter().enumerate() {
        bytes.copy_within(i * row..i * row + length, end);
        end += length;
    }
}

impl HostBatch {
    /// Returns the samples of a tensor that [differ in size](TensorRows), each as its own slice.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name, its elements are not `T`, or its rows have one size.
    pub fn list<'a, T: Element>(
        &'a self,
        name: &str,
    ) -> Result<impl ExactSizeIterator<Item = &'a [T]> + use<'a, T>, TensorError> {
        let (k, spec) = self.typed::<T>(name)?;
        let sizes = match spec.rows {
            TensorRows::List { sizes, .. } | TensorRows::Ragged { sizes } => sizes,
            TensorRows::Device { .. } => return Err(TensorError::uneven(spec)),
            TensorRows::Even | TensorRows::Padded { .. } => {
                return Err(TensorError::Even { name: name.to_owned() });
            }
        };
        let (elements, sample_len) = (self.slot().elements::<T>(k), spec.shape.iter().product());
        let is_packed = matches!(spec.rows, TensorRows::Ragged { .. });
        let step = if is_packed { 0 } else { sample_len };
        let (mut row, mut packed) = (0_usize, 0);
        Ok(self.sizes(sizes).map(move |sizes| {
            let (start, count) = (row * step + packed, spec.elements(sizes));
            row += 1;
            packed += if is_packed { count } else { 0 };
            &elements[start..start + count]
        }))
    }

    /// Returns a tensor packed as [`TensorRows::Ragged`].
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name, its elements are not `T`, or it is not ragged.
    pub fn ragged<T: Element>(&self, name: &str) -> Result<Ragged<'_, T>, TensorError> {
        let (k, spec) = self.typed::<T>(name)?;
        let sizes = match spec.rows {
            TensorRows::Ragged { sizes } => sizes,
            TensorRows::List { .. } | TensorRows::Device { .. } => {
                return Err(TensorError::uneven(spec));
            }
            TensorRows::Even | TensorRows::Padded { .. } => {
                return Err(TensorError::Even { name: name.to_owned() });
            }
        };
        let inner = spec.shape.get(1..).unwrap_or_default().to_vec();
        let item: usize = inner.iter().product();
        let frames: usize = self.specs()[sizes].shape.iter().product();
        let mut offsets = Vec::with_capacity(self.len() + 1);
        let mut of_frames = Vec::with_capacity(self.len() * frames);
        let mut end = 0;
        offsets.push(end);
        for sizes in self.sizes(sizes) {
            let mut room = spec.shape.first().copied().unwrap_or(0);
            for &size in sizes {
                of_frames.push(end);
                let length = bounded(size, room);
                room -= length;
                end += length as u64;
            }
            offsets.push(end);
        }
        of_frames.push(end);
        // No overflow: every sample fits into its range, and all ranges fit into memory.
        let count = end as usize * item;
        let values = &self.slot().elements::<T>(k)[..count];
        Ok(Ragged { values, offsets, of_frames, frames, inner })
    }

    /// Returns the shape of a sample of tensor `k` in this batch; `None` if the samples differ in shape.
    pub(super) fn sample_shape(&self, k: usize) -> Option<Vec<usize>> {
        let spec = &self.specs()[k];
        match spec.rows {
            TensorRows::Even => Some(spec.shape.clone()),
            TensorRows::Padded { sizes, axis, multiple, .. } => {
                let mut shape = spec.shape.clone();
                let padded = spec.padded(multiple, self.sizes(sizes));
                shape[axis..axis + 2].copy_from_slice(&padded);
                Some(shape)
            }
            TensorRows::Ragged { .. } | TensorRows::List { .. } | TensorRows::Device { .. } => None,
        }
    }

    /// Returns the bytes of all samples of a ragged tensor.
    pub(super) fn packed_bytes(&self, k: usize, sizes: usize) -> &[u8] {
        let spec = &self.specs()[k];
        let elements: usize = self.sizes(sizes).map(|sizes| spec.elements(sizes)).sum();
        &self.slot().bytes(k)[..elements * spec.dtype.bytes()]
    }

    /// Returns the sizes of each row from tensor `k`.
    fn sizes(&self, k: usize) -> impl ExactSizeIterator<Item = &[i64]> {
        // At least one, see `check`.
        let count = self.specs()[k].shape.iter().product();
        self.slot().elements::<i64>(k).chunks_exact(count)
    }
}

/// A borrowed tensor whose samples are stored one after the other, without gaps: PyTorch's nested
/// tensor, TensorFlow's ragged tensor.
///
/// ```text
/// values   [total, inner...]      sample i  =  values[offsets[i]..offsets[i + 1]]
/// offsets  [len + 1]              offsets[0] = 0, offsets[len] = total
/// ```
///
/// ```no_run
/// # use fuseloop_engine::batch::{HostBatch as Batch, TensorError};
/// # fn example(batch: &Batch) -> Result<(), TensorError> {
/// let boxes = batch.ragged::<f32>("boxes")?;
/// for sample in 0..boxes.len() {
///     println!("{} boxes", boxes.row(sample).map_or(0, |row| row.len() / 4));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Ragged<'a, T> {
    values: &'a [T],
    offsets: Vec<u64>,
    /// The offset of each frame of each sample, and the end of the last one.
    of_frames: Vec<u64>,
    /// The number of frames of a sample; 1 if samples have none.
    frames: usize,
    inner: Vec<usize>,
}

impl<'a, T: Element> Ragged<'a, T> {
    /// Returns the elements of all samples.
    #[must_use]
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// Returns the offset of each sample, and the end of the last one. Offsets count along the first
    /// dimension of `values`: with an inner shape, they do not count single elements.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Returns the shape of the items that the offsets count; empty if they count single elements.
    #[must_use]
    pub fn inner(&self) -> &[usize] {
        &self.inner
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns true if there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements of sample `i` of the batch, of all of its frames if it is a clip; `None` past the last.
    #[must_use]
    pub fn row(&self, i: usize) -> Option<&'a [T]> {
        self.between(*self.offsets.get(i)?, *self.offsets.get(i + 1)?)
    }

    /// Returns the number of frames of a sample: 1 where samples are no clips.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the elements of frame `frame` of sample `i`, which is a clip; `None` past the last. The frames of several
    /// clips of a sample follow each other.
    #[must_use]
    pub fn frame(&self, i: usize, frame: usize) -> Option<&'a [T]> {
        let frame = Some(frame).filter(|frame| *frame < self.frames)?;
        let at = i.checked_mul(self.frames)?.checked_add(frame)?;
        self.between(*self.of_frames.get(at)?, *self.of_frames.get(at + 1)?)
    }

    /// Returns the elements between two offsets.
    fn between(&self, start: u64, end: u64) -> Option<&'a [T]> {
        let item: usize = self.inner.iter().product();
        self.values.get(start as usize * item..end as usize * item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchSpec, SlotPool};
    use crate::sample::{Epoch, SampleId, SampleRef};
    use fuseloop_ops::DType;
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    fn specs(rows: fn(usize) -> TensorRows) -> Vec<TensorSpec> {
        let text = TensorSpec { rows: rows(1), ..TensorSpec::new("text", DType::I16, [3]) };
        vec![text, TensorSpec::new("text.length", DType::I64, [])]
    }

    /// Builds a batch of samples of these lengths: sample `i` is `10 i, 10 i + 1, ...`, followed by -1.
    fn batch(rows: fn(usize) -> TensorRows, lengths: &[i64]) -> HostBatch {
        let specs = specs(rows);
        let spec = BatchSpec::new(&specs, NonZeroUsize::new(lengths.len()).unwrap()).unwrap();
        let pool = Arc::new(SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {})));
        let mut slot = pool.redeem(pool.take().unwrap()).unwrap();
        let ids = 0..lengths.len() as u64;
        slot.visits_mut().extend(ids.map(|id| SampleRef::once(SampleId(id))));
        let mut rows = slot.rows_mut();
        for (i, &length) in lengths.iter().enumerate() {
            let value = |j: i64| if j < length { 10 * i as i16 + j as i16 } else { -1 };
            let row: Vec<u8> = (0..3).flat_map(|j| value(j).to_ne_bytes()).collect();
            rows.output(0)[6 * i..][..6].copy_from_slice(&row);
            rows.output(1)[8 * i..][..8].copy_from_slice(&length.to_ne_bytes());
        }
        pack(&mut rows, &specs);
        HostBatch::new(slot, &pool, Epoch(0), 0)
    }

    fn list(sizes: usize) -> TensorRows {
        TensorRows::List { sizes, axis: 0 }
    }

    fn ragged(sizes: usize) -> TensorRows {
        TensorRows::Ragged { sizes }
    }

    #[test]
    fn a_ragged_batch_is_packed() {
        let batch = batch(ragged, &[2, 0, 3, 1]);
        let ragged = batch.ragged::<i16>("text").unwrap();
        assert_eq!(ragged.values(), [0, 1, 20, 21, 22, 30]);
        assert_eq!(ragged.offsets(), [0, 2, 2, 5, 6]);
        assert_eq!((ragged.len(), ragged.is_empty(), ragged.inner()), (4, false, &[][..]));
        assert_eq!(ragged.row(1), Some(&[][..]));
        assert_eq!(ragged.row(2), Some(&[20, 21, 22][..]));
        assert_eq!(ragged.row(4), None);
        assert_eq!(batch.bytes("text").unwrap().len(), 12);
    }

    #[test]
    fn pictures_are_padded_to_the_largest_of_the_batch() {
        let sizes = [[1, 3], [2, 1], [0, 0], [2, 2]];
        let (sample_len, channels) = (4 * 5 * 2, 2);
        let mut bytes = vec![99; sizes.len() * sample_len];
        for (i, [h, w]) in sizes.into_iter().enumerate() {
            let picture = (0..h * w * channels).map(|k| (10 * i + k) as u8);
            bytes[i * sample_len..].iter_mut().zip(picture).for_each(|(to, value)| *to = value);
        }
        let padding = ImagePadding { planes: 1, pixel: channels, element: &[7] };
        padding.pad_together(&mut bytes, &sizes, [2, 3]);
        let want = [
            [0, 1, 2, 3, 4, 5, 7, 7, 7, 7, 7, 7],
            [10, 11, 7, 7, 7, 7, 12, 13, 7, 7, 7, 7],
            [7; 12],
            [30, 31, 32, 33, 7, 7, 34, 35, 36, 37, 7, 7],
        ];
        assert_eq!(bytes[..48], want.concat());
        padding.pad_together(&mut [], &[], [0, 0]);
    }

    #[test]
    fn pictures_of_two_bytes_are_padded_with_whole_elements() {
        let sizes = [[1, 1], [1, 2]];
        let mut bytes: Vec<u8> = [[10, 11, 99, 99], [20, 21, 22, 23]].concat();
        let padding = ImagePadding { planes: 1, pixel: 2, element: &[7, 8] };
        padding.pad_together(&mut bytes, &sizes, [1, 2]);
        assert_eq!(bytes, [10, 11, 7, 8, 20, 21, 22, 23]);
    }

    /// Every size of an image in every larger one, against a plain copy.
    #[test]
    fn each_plane_is_padded() {
        let padding = ImagePadding { planes: 3, pixel: 1, element: &[0] };
        for [h, w, rows, columns] in [[2, 3, 1, 2], [4, 4, 4, 2], [4, 4, 2, 4], [3, 5, 0, 0]] {
            let stored: Vec<u8> = (1..=(3 * rows * columns) as u8).collect();
            let mut image = vec![99; 3 * h * w];
            image[..stored.len()].copy_from_slice(&stored);
            padding.pad(&mut image, [rows, columns], [h, w]);
            for (at, &found) in image.iter().enumerate() {
                let (plane, y, x) = (at / (h * w), at / w % h, at % w);
                let inside = y < rows && x < columns;
                let index = (plane * rows + y) * columns + x;
                assert_eq!(found, if inside { stored[index] } else { 0 }, "{plane} {y} {x}");
            }
        }
    }

    /// Images of planes are padded to a multiple, and their shape says so.
    #[test]
    fn a_padded_batch_has_one_shape() {
        let padded = |sizes: usize| TensorRows::Padded { sizes, axis: 1, multiple: 4, pad: [9; 8] };
        let image =
            TensorSpec { rows: padded(1), ..TensorSpec::new("image", DType::U8, [2, 8, 8]) };
        let specs = [image, TensorSpec::new("image.size", DType::I64, [2])];
        let spec = BatchSpec::new(&specs, NonZeroUsize::new(2).unwrap()).unwrap();
        let pool = Arc::new(SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {})));
        let mut slot = pool.redeem(pool.take().unwrap()).unwrap();
        slot.visits_mut().extend((0..2).map(|id| SampleRef::once(SampleId(id))));
        let mut rows = slot.rows_mut();
        for (i, [height, width]) in [[1_i64, 3], [5, 2]].into_iter().enumerate() {
            let bytes = (2 * height * width) as usize;
            rows.output(0)[128 * i..][..bytes].fill(i as u8 + 1);
            let sizes = [height.to_ne_bytes(), width.to_ne_bytes()].concat();
            rows.output(1)[16 * i..][..16].copy_from_slice(&sizes);
        }
        pack(&mut rows, &specs);
        let batch = HostBatch::new(slot, &pool, Epoch(0), 0);
        assert_eq!(batch.shape("image").unwrap(), [2, 2, 8, 4]);
        let image = batch.tensor::<u8>("image").unwrap();
        let count = |value: u8| image.as_slice().iter().filter(|&&found| found == value).count();
        assert_eq!([1, 2, 9].map(count), [6, 20, 102]);
        assert_eq!(image.as_slice()[..8], [1, 1, 1, 9, 9, 9, 9, 9]);
    }

    /// Rows that need more room while a batch is filled than their shape has are side by side in the batch.
    #[test]
    fn rows_with_more_room_are_moved_together() {
        let image = TensorSpec { room: 64, ..TensorSpec::new("image", DType::U8, [2, 3]) };
        let sizes = TensorSpec::new("masks.length", DType::I64, []);
        let rows = TensorRows::Ragged { sizes: 1 };
        let masks = TensorSpec { room: 128, rows, ..TensorSpec::new("masks", DType::U8, [4, 5]) };
        let specs = [image, sizes, masks];
        let spec = BatchSpec::new(&specs, NonZeroUsize::new(3).unwrap()).unwrap();
        assert_eq!(spec.row_bytes(), [64, 8, 128]);
        let pool = Arc::new(SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {})));
        let mut slot = pool.redeem(pool.take().unwrap()).unwrap();
        slot.visits_mut().extend((0..3).map(|id| SampleRef::once(SampleId(id))));
        let mut rows = slot.rows_mut();
        for (row, length) in [2_i64, 0, 1].into_iter().enumerate() {
            let value = row as u8 + 1;
            rows.output(0)[64 * row..][..6].fill(value);
            rows.output(1)[8 * row..][..8].copy_from_slice(&length.to_ne_bytes());
            rows.output(2)[128 * row..][..5 * length as usize].fill(value);
        }
        pack(&mut rows, &specs);
        let batch = HostBatch::new(slot, &pool, Epoch(0), 0);
        let wanted = [[1; 6], [2; 6], [3; 6]].concat();
        assert_eq!(batch.bytes("image").unwrap(), wanted);
        assert_eq!(batch.tensor::<u8>("image").unwrap().as_slice(), wanted);
        assert_eq!(batch.share_memory("image").unwrap().as_slice(), wanted);
        let masks = batch.ragged::<u8>("masks").unwrap();
        assert_eq!(masks.values(), [[1; 10].as_slice(), &[3; 5]].concat());
    }

    #[test]
    fn a_list_gives_the_same_samples_packed_or_not() {
        for rows in [list, ragged] {
            let batch = batch(rows, &[2, 0, 3, 1]);
            let samples = batch.list::<i16>("text").unwrap();
            assert_eq!(samples.len(), 4);
            assert!(samples.eq([&[0, 1][..], &[], &[20, 21, 22], &[30]]));
        }
    }

    #[test]
    fn what_lies_behind_a_sample_is_not_lent() {
        let message = |error: TensorError| error.to_string();
        let one = batch(list, &[1]);
        assert_eq!(
            message(one.tensor::<i16>("text").unwrap_err()),
            "the samples of 'text' differ in size: use `list`"
        );
        assert!(one.bytes("text").is_err() && one.ragged::<i16>("text").is_err());
        assert_eq!(
            message(batch(ragged, &[1]).tensor::<i16>("text").unwrap_err()),
            "the samples of 'text' differ in size: use `ragged`"
        );
        assert_eq!(
            message(one.ragged::<i64>("text.length").unwrap_err()),
            "the samples of 'text.length' all have one size: use `tensor`"
        );
        assert_eq!(
            message(one.list::<i32>("text").err().unwrap()),
            "tensor 'text' holds i16, but was requested as i32"
        );
    }

    #[test]
    fn sizes_that_are_not_true_are_bounded() {
        for rows in [list, ragged] {
            let batch = batch(rows, &[i64::MAX, -5, 2]);
            let lengths: Vec<usize> = batch.list::<i16>("text").unwrap().map(<[_]>::len).collect();
            assert_eq!(lengths, [3, 0, 2]);
        }
    }

    #[test]
    fn sizes_that_are_nowhere_are_refused() {
        let checked = |rows: TensorRows, of: TensorSpec| {
            let mut specs = specs(ragged);
            specs[0].rows = rows;
            specs[1] = of;
            BatchSpec::new(&specs, NonZeroUsize::MIN).map(|_| ())
        };
        let message = "output 'text': no i64 tensor has the sizes of its rows";
        let refused = |rows, of| assert_eq!(checked(rows, of).unwrap_err().to_string(), message);
        let lengths = |dtype, shape: &[usize]| TensorSpec::new("n", dtype, shape);
        for rows in [list, ragged] {
            refused(rows(2), lengths(DType::I64, &[1]));
            refused(rows(0), lengths(DType::I64, &[1]));
            refused(rows(1), lengths(DType::I32, &[1]));
            refused(rows(1), lengths(DType::I64, &[0]));
        }
        refused(list(1), lengths(DType::I64, &[2]));
        refused(list(1), lengths(DType::I64, &[1, 1]));
        assert!(checked(ragged(1), lengths(DType::I64, &[2, 3])).is_ok());
    }

    #[test]
    fn rows_of_frames_are_packed_and_have_the_frames() {
        let text = TensorSpec { rows: ragged(1), ..TensorSpec::new("text", DType::I16, [6]) };
        let specs = [text, TensorSpec::new("text.length", DType::I64, [3])];
        let spec = BatchSpec::new(&specs, NonZeroUsize::new(2).unwrap()).unwrap();
        let pool = Arc::new(SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {})));
        let mut slot = pool.redeem(pool.take().unwrap()).unwrap();
        slot.visits_mut().extend([0, 1].map(|id| SampleRef::once(SampleId(id))));
        let mut rows = slot.rows_mut();
        let values = [1_i16, 2, 3, 9, 9, 9, 4, 5, 6, 7, 8, 9];
        rows.output(0).copy_from_slice(&values.map(i16::to_ne_bytes).concat());
        // The last sample claims more than it has room for.
        let lengths = [2_i64, 0, 1, 1, 3, 9];
        rows.output(1).copy_from_slice(&lengths.map(i64::to_ne_bytes).concat());
        pack(&mut rows, &specs);
        let batch = HostBatch::new(slot, &pool, Epoch(0), 0);
        let ragged = batch.ragged::<i16>("text").unwrap();
        assert_eq!(ragged.values(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((ragged.offsets(), ragged.frames()), (&[0, 3, 9][..], 3));
        assert_eq!(ragged.row(1), Some(&[4, 5, 6, 7, 8, 9][..]));
        let frames = |i| [0, 1, 2, 3].map(|frame| ragged.frame(i, frame));
        assert_eq!(frames(0), [Some(&[1, 2][..]), Some(&[]), Some(&[3]), None]);
        assert_eq!(frames(1), [Some(&[4][..]), Some(&[5, 6, 7]), Some(&[8, 9]), None]);
        assert_eq!(frames(2), [None; 4]);
        assert!(batch.list::<i16>("text").unwrap().eq([&[1, 2, 3][..], &[4, 5, 6, 7, 8, 9]]));
    }
}
