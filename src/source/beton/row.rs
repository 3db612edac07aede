//! A row of the sample table: the offsets of its cells, one for each field, and the content of a cell.
//!
//! The layout is numpy's `np.dtype([...], align=True)`, the rules of a C structure: a cell begins at the
//! end of the one before it, rounded up to its own alignment; a row ends at the end of the last, rounded
//! up to the greatest alignment. Padding is zero. Sizes and alignments are in [`FieldKind`]'s table; the
//! cells of `(image, int)` are at offsets 0 and 16, in a row of 24 bytes.
//!
//! The table itself is not aligned in the file, so cells are read byte by byte.

use super::take;
use crate::error::{Error, fail};
use crate::source::{FieldKind, ImageMode};

/// The offsets of the cells in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLayout {
    cells: Vec<CellSpan>,
    size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CellSpan {
    offset: usize,
    size: usize,
}

impl RowLayout {
    /// Returns the layout for fields of these kinds, in the dataset's order.
    ///
    /// # Errors
    ///
    /// Fails if a row would be longer than the machine can address: only user-defined fields can ask for that.
    pub fn new<'k>(kinds: impl IntoIterator<Item = &'k FieldKind>) -> Result<Self, Error> {
        let too_long = || fail!(Memory, "a row of the sample table is over 2^63 bytes long");
        let mut cells = Vec::new();
        let mut end = 0usize;
        let mut row_align = 1;
        for kind in kinds {
            let (size, align) = size_and_align(kind);
            let offset = round_up(end, align).ok_or_else(too_long)?;
            end = offset.checked_add(size).ok_or_else(too_long)?;
            row_align = row_align.max(align);
            cells.push(CellSpan { offset, size });
        }
        let size = round_up(end, row_align).ok_or_else(too_long)?;
        Ok(Self { cells, size })
    }

    /// Returns the size of a row in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the offset of a field's cell in its row; `None` if there is no such field.
    #[must_use]
    pub fn offset(&self, field: usize) -> Option<usize> {
        Some(self.cells.get(field)?.offset)
    }

    /// Returns a field's cell in a row; `None` if there is no such field or the row is too short.
    #[must_use]
    pub fn cell<'r>(&self, row: &'r [u8], field: usize) -> Option<&'r [u8]> {
        let cell = self.cells.get(field)?;
        row.get(cell.offset..)?.get(..cell.size)
    }

    /// Returns a field's cell for writing; `None` if there is no such field or the row is too short.
    pub fn cell_mut<'r>(&self, row: &'r mut [u8], field: usize) -> Option<&'r mut [u8]> {
        let cell = self.cells.get(field)?;
        row.get_mut(cell.offset..)?.get_mut(..cell.size)
    }
}

fn size_and_align(kind: &FieldKind) -> (usize, usize) {
    match kind {
        FieldKind::Float
        | FieldKind::Int
        | FieldKind::NdArray { .. }
        | FieldKind::TorchTensor { .. } => (8, 8),
        FieldKind::RgbImage | FieldKind::BitPlaneImage => (ImageCell::SIZE, 1),
        FieldKind::Bytes | FieldKind::Json => (16, 1),
        FieldKind::Custom { row_size, align } => (*row_size, *align),
    }
}

fn round_up(value: usize, align: usize) -> Option<usize> {
    value.checked_next_multiple_of(align).filter(|&rounded| isize::try_from(rounded).is_ok())
}

/// The cell of an image.
///
/// | offset | size | field    | meaning                              |
/// |-------:|-----:|----------|--------------------------------------|
/// |      0 |    1 | `mode`   | 0 JPEG, 1 raw, 2 bit planes          |
/// |      1 |    2 | `width`  | columns                              |
/// |      3 |    2 | `height` | rows                                 |
/// |      5 |    8 | `ptr`    | file offset of the image's bytes     |
///
/// Only the allocation table tells the number of bytes. FFCV takes the mode 2 for raw, so a field whose type FFCV knows
/// has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageCell {
    /// How the bytes are coded.
    pub mode: ImageMode,
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// The file offset of the bytes.
    pub ptr: u64,
}

impl ImageCell {
    /// The size of an image's cell in bytes.
    pub const SIZE: usize = 13;

    /// Reads a cell.
    ///
    /// # Errors
    ///
    /// If the cell is too short, or the image is neither a JPEG, raw nor bit planes.
    pub fn parse(mut cell: &[u8]) -> Result<Self, Error> {
        let len = cell.len();
        let mut fields = || -> Option<(u8, u16, u16, u64)> {
            Some((
                u8::from_le_bytes(take(&mut cell)?),
                u16::from_le_bytes(take(&mut cell)?),
                u16::from_le_bytes(take(&mut cell)?),
                u64::from_le_bytes(take(&mut cell)?),
            ))
        };
        let (mode, width, height, ptr) = fields().ok_or_else(|| too_short(len))?;
        let mode = match mode {
            0 => ImageMode::Jpeg,
            1 => ImageMode::Raw,
            2 => ImageMode::BitPlanes,
            found => return Err(other_mode(found)),
        };
        Ok(Self { mode, width, height, ptr })
    }

    /// Returns the cell's bytes. The mode of another image file is 255, which no reader accepts: see [`ImageMode::Png`].
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0] = match self.mode {
            ImageMode::Jpeg => 0,
            ImageMode::Raw => 1,
            ImageMode::BitPlanes => 2,
            _ => u8::MAX,
        };
        bytes[1..3].copy_from_slice(&self.width.to_le_bytes());
        bytes[3..5].copy_from_slice(&self.height.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.ptr.to_le_bytes());
        bytes
    }
}

/// The content of a cell of the sample table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'r> {
    /// A float field's value.
    Float(f64),
    /// An int field's value.
    Int(i64),
    /// Where an image is stored.
    Image(ImageCell),
    /// Where a Bytes or JSON value is stored.
    Bytes {
        /// The file offset of the bytes.
        ptr: u64,
        /// The number of bytes.
        size: u64,
    },
    /// Where an array or a tensor is stored; its size is known from its field.
    Array {
        /// File offset of the first element.
        ptr: u64,
    },
    /// A user-defined field's bytes.
    Custom(&'r [u8]),
}

impl<'r> Cell<'r> {
    /// Reads a cell of a field of this kind.
    ///
    /// # Errors
    ///
    /// If the cell is too short, or its image has a mode that the field can't have. Never panics, whatever the bytes.
    pub fn parse(kind: &FieldKind, cell: &'r [u8]) -> Result<Self, Error> {
        let mut rest = cell;
        let mut word = || take(&mut rest).ok_or_else(|| too_short(cell.len()));
        Ok(match kind {
            FieldKind::Float => Self::Float(f64::from_le_bytes(word()?)),
            FieldKind::Int => Self::Int(i64::from_le_bytes(word()?)),
            FieldKind::RgbImage => match ImageCell::parse(cell)? {
                ImageCell { mode: ImageMode::BitPlanes, .. } => return Err(other_mode(2)),
                cell => Self::Image(cell),
            },
            FieldKind::BitPlaneImage => Self::Image(ImageCell::parse(cell)?),
            FieldKind::Bytes | FieldKind::Json => {
                Self::Bytes { ptr: u64::from_le_bytes(word()?), size: u64::from_le_bytes(word()?) }
            }
            FieldKind::NdArray { .. } | FieldKind::TorchTensor { .. } => {
                Self::Array { ptr: u64::from_le_bytes(word()?) }
            }
            FieldKind::Custom { .. } => Self::Custom(cell),
        })
    }

    /// Writes the cell into its bytes in a row, see [`RowLayout::cell_mut`].
    ///
    /// # Panics
    ///
    /// Panics if the bytes do not have the cell's size, because the cell is not of its field's kind.
    pub fn put(&self, out: &mut [u8]) {
        match self {
            Self::Float(value) => out.copy_from_slice(&value.to_le_bytes()),
            Self::Int(value) => out.copy_from_slice(&value.to_le_bytes()),
            Self::Image(image) => out.copy_from_slice(&image.to_bytes()),
            Self::Bytes { ptr, size } => {
                let (first, second) = out.split_at_mut(8);
                first.copy_from_slice(&ptr.to_le_bytes());
                second.copy_from_slice(&size.to_le_bytes());
            }
            Self::Array { ptr } => out.copy_from_slice(&ptr.to_le_bytes()),
            Self::Custom(bytes) => out.copy_from_slice(bytes),
        }
    }
}

fn too_short(found: usize) -> Error {
    fail!(Damaged, "a cell of {found} bytes is too short for its field")
}

fn other_mode(found: u8) -> Error {
    fail!(Damaged, "image mode {found}, expected 0 (JPEG) or 1 (raw)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use FieldKind::{Bytes, Float, Int, Json, RgbImage};

    fn offsets(kinds: &[FieldKind]) -> (Vec<usize>, usize) {
        let layout = RowLayout::new(kinds).unwrap();
        ((0..kinds.len()).map(|k| layout.offset(k).unwrap()).collect(), layout.size())
    }

    /// These are the rows that FFCV itself writes.
    #[test]
    fn cells_lie_where_numpy_puts_them() {
        let nd = FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: vec![2, 3] };
        let tensor = FieldKind::TorchTensor { dtype: "<i2".parse().unwrap(), shape: vec![4] };
        assert_eq!(offsets(&[RgbImage, Int]), (vec![0, 16], 24));
        assert_eq!(offsets(&[Int, RgbImage]), (vec![0, 8], 24));
        assert_eq!(offsets(&[RgbImage, RgbImage, Int]), (vec![0, 13, 32], 40));
        assert_eq!(offsets(&[RgbImage]), (vec![0], 13));
        assert_eq!(offsets(&[RgbImage, Bytes]), (vec![0, 13], 29));
        assert_eq!(offsets(&[Bytes, RgbImage, Float]), (vec![0, 16, 32], 40));
        let all = [RgbImage, RgbImage, Int, Float, Bytes, Json, nd, tensor];
        assert_eq!(offsets(&all), (vec![0, 13, 32, 40, 48, 64, 80, 88], 96));
    }

    #[test]
    fn a_row_too_long_for_the_machine_is_refused() {
        let custom = FieldKind::Custom { row_size: usize::MAX, align: 1 };
        let refused = |layout: Result<RowLayout, Error>| layout.unwrap_err().to_string();
        let too_long = "a row of the sample table is over 2^63 bytes long";
        assert_eq!(refused(RowLayout::new([&custom, &Int])), too_long);
        let custom = FieldKind::Custom { row_size: 1, align: 1 << (usize::BITS - 1) };
        assert_eq!(refused(RowLayout::new([&custom])), too_long);
    }

    #[test]
    fn a_cell_of_a_png_is_never_read() {
        let cell = ImageCell { mode: ImageMode::Png, width: 1, height: 1, ptr: 0 };
        assert_eq!(ImageCell::parse(&cell.to_bytes()), Err(other_mode(255)));
        for found in 3..=u8::MAX {
            let mut bytes = cell.to_bytes();
            bytes[0] = found;
            assert_eq!(ImageCell::parse(&bytes), Err(other_mode(found)));
        }
    }

    #[test]
    fn bit_planes_are_read_only_from_a_field_that_other_readers_refuse() {
        let cell = ImageCell { mode: ImageMode::BitPlanes, width: 1, height: 1, ptr: 0 };
        let parse = |kind: &FieldKind| Cell::parse(kind, &cell.to_bytes()).map(|_| ());
        assert_eq!(parse(&FieldKind::BitPlaneImage), Ok(()));
        assert_eq!(parse(&FieldKind::RgbImage), Err(other_mode(2)));
    }

    #[test]
    fn every_cell_comes_back_as_it_was_put() {
        let image = ImageCell { mode: ImageMode::Raw, width: 500, height: 375, ptr: 1 << 40 };
        let array = FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: vec![2] };
        let cells = [
            (Float, Cell::Float(-0.5)),
            (Int, Cell::Int(i64::MIN)),
            (RgbImage, Cell::Image(image)),
            (Json, Cell::Bytes { ptr: 7, size: 9 }),
            (array, Cell::Array { ptr: 11 }),
            (FieldKind::Custom { row_size: 3, align: 1 }, Cell::Custom(&[1, 2, 3])),
        ];
        for (kind, cell) in cells {
            let layout = RowLayout::new([&kind]).unwrap();
            let mut row = vec![0; layout.size()];
            cell.put(layout.cell_mut(&mut row, 0).unwrap());
            assert_eq!(Cell::parse(&kind, layout.cell(&row, 0).unwrap()), Ok(cell));
        }
    }
}
