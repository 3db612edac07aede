//! The leaves of a schema: columns of plain values, and how their levels and values become the values of rows.
//!
//! ```text
//! schema:     objects: list of { bbox: list of float, category: int }     image: { bytes, path }
//! leaves:     objects.bbox        [rows of rows]                          image.bytes
//!             objects.category    [rows]                                  image.path
//! ```
//!
//! A value has two levels (Dremel): its level of repetition says which list goes on, 0 for a new row; its level of
//! definition says how much of its path is there. A leaf in `n` lists has `n` axes; a row is an array if the lists of
//! each axis have one length.

use super::pages::Pages;
use crate::panicked::call_decoder;
use crate::source::NdType;
use crate::source::dtype::{ByteOrder, NdKind};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{
    AsBytes, BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::schema::types::{ColumnDescPtr, Type};

/// A column of plain values.
#[derive(Clone)]
pub(super) struct Leaf {
    /// The index among the leaves of the schema.
    pub(super) index: usize,
    pub(super) descr: ColumnDescPtr,
    /// For each list that the leaf is in, the level of definition of an element of it.
    pub(super) axes: Vec<i16>,
}

/// The values of a leaf, without those that are null.
pub(super) enum Cells {
    Bool(Vec<bool>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

/// The values of some rows, with their levels.
pub(super) struct Decoded {
    /// The levels of definition; none if the column has no nulls and no lists.
    pub(super) definition: Vec<i16>,
    /// The levels of repetition; none if the column has no lists.
    pub(super) repetition: Vec<i16>,
    pub(super) cells: Cells,
    pub(super) rows: usize,
}

impl Leaf {
    /// Returns the leaf of this index, whose path the nodes are, from the root's child on.
    pub(super) fn new(index: usize, descr: ColumnDescPtr, path: &[&Type]) -> Self {
        let (mut level, mut axes) = (0, vec![]);
        for node in path {
            let info = node.get_basic_info();
            match info.has_repetition().then(|| info.repetition()) {
                Some(Repetition::OPTIONAL) => level += 1,
                Some(Repetition::REPEATED) => {
                    level += 1;
                    axes.push(level);
                }
                _ => {}
            }
        }
        Self { index, descr, axes }
    }

    /// Returns the type of the numbers; `None` if the values are none.
    pub(super) fn dtype(&self) -> Option<NdType> {
        let (kind, size) = match (self.descr.physical_type(), self.descr.logical_type_ref()) {
            (Physical::BOOLEAN, _) => (NdKind::Bool, 1),
            (Physical::FLOAT, _) => (NdKind::Float, 4),
            (Physical::DOUBLE, _) => (NdKind::Float, 8),
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16)) => (NdKind::Float, 2),
            (Physical::INT32 | Physical::INT64, Some(LogicalType::Decimal { .. })) => return None,
            (of @ (Physical::INT32 | Physical::INT64), _) => {
                let widest = if of == Physical::INT32 { 4 } else { 8 };
                match self.descr.converted_type() {
                    ConvertedType::DECIMAL => return None,
                    ConvertedType::INT_8 => (NdKind::Int, 1),
                    ConvertedType::UINT_8 => (NdKind::UInt, 1),
                    ConvertedType::INT_16 => (NdKind::Int, 2),
                    ConvertedType::UINT_16 => (NdKind::UInt, 2),
                    ConvertedType::UINT_32 | ConvertedType::UINT_64 => (NdKind::UInt, widest),
                    _ => (NdKind::Int, widest),
                }
            }
            _ => return None,
        };
        NdType::new(kind, size, ByteOrder::Little)
    }

    /// Returns whether the values are bytes or texts.
    pub(super) fn is_bytes(&self) -> bool {
        self.descr.physical_type() == Physical::BYTE_ARRAY
            || self.descr.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY
                && self.descr.converted_type() == ConvertedType::NONE
                && matches!(self.descr.logical_type_ref(), None | Some(LogicalType::Uuid))
    }

    /// Returns whether the values are texts.
    pub(super) fn is_text(&self) -> bool {
        matches!(
            self.descr.converted_type(),
            ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
        ) || matches!(
            self.descr.logical_type_ref(),
            Some(LogicalType::String | LogicalType::Json | LogicalType::Enum)
        )
    }

    /// Returns whether the values are JSON.
    pub(super) fn is_json(&self) -> bool {
        self.descr.converted_type() == ConvertedType::JSON
            || matches!(self.descr.logical_type_ref(), Some(LogicalType::Json))
    }

    /// Returns whether the writer saw nothing but nulls, and gave the column a type of no meaning.
    pub(super) fn is_null(&self) -> bool {
        matches!(self.descr.logical_type_ref(), Some(LogicalType::Unknown))
    }

    /// Returns the type of a time, which has its unit.
    pub(super) fn time_unit(&self) -> Option<&LogicalType> {
        let is_time = |logical: &&LogicalType| {
            matches!(logical, LogicalType::Timestamp { .. } | LogicalType::Time { .. })
        };
        self.descr.logical_type_ref().filter(is_time)
    }

    /// Returns whether plain values have their lengths before them.
    pub(super) fn has_lengths(&self) -> bool {
        self.descr.physical_type() == Physical::BYTE_ARRAY
    }

    /// Returns whether another leaf has values of the same form.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.dtype() == other.dtype()
            && self.axes.len() == other.axes.len()
            && self.is_bytes() == other.is_bytes()
    }

    /// Returns the level of definition of a value that is not null.
    pub(super) fn defined(&self) -> i16 {
        self.descr.max_def_level()
    }

    /// Decodes all rows of the pages.
    ///
    /// # Errors
    ///
    /// Returns the message of the decoder, of an error or of a panic.
    pub(super) fn decode(&self, pages: Pages) -> Result<Decoded, String> {
        call_decoder("parquet", || match self.descr.physical_type() {
            Physical::BOOLEAN => self.decode_as::<BoolType>(pages, Cells::Bool),
            Physical::INT32 => self.decode_as::<Int32Type>(pages, Cells::I32),
            Physical::INT64 => self.decode_as::<Int64Type>(pages, Cells::I64),
            Physical::FLOAT => self.decode_as::<FloatType>(pages, Cells::F32),
            Physical::DOUBLE => self.decode_as::<DoubleType>(pages, Cells::F64),
            Physical::BYTE_ARRAY => self.decode_as::<ByteArrayType>(pages, Cells::Bytes),
            Physical::FIXED_LEN_BYTE_ARRAY => {
                self.decode_as::<FixedLenByteArrayType>(pages, Cells::Fixed)
            }
            Physical::INT96 => Err("times of 96 bits are not read".to_owned()),
        })
    }

    fn decode_as<T: DataType>(
        &self,
        pages: Pages,
        cells: impl Fn(Vec<T::T>) -> Cells,
    ) -> Result<Decoded, String> {
        let (step, most) =
            (if pages.has_prefixes() { 1 } else { usize::MAX / 2 }, pages.most_bytes);
        let (mut bytes, mut known) = (0, 0);
        let mut reader = ColumnReaderImpl::<T>::new(self.descr.clone(), Box::new(pages));
        let (mut definition, mut repetition, mut values) = (vec![], vec![], vec![]);
        let mut rows = 0;
        loop {
            let read = reader.read_records(
                step,
                Some(&mut definition),
                Some(&mut repetition),
                &mut values,
            );
            match read.map_err(|error| error.to_string())?.0 {
                0 => break,
                found => rows += found,
            }
            if step == 1 {
                bytes +=
                    values[known..].iter().map(|value| value.as_bytes().len() as u64).sum::<u64>();
                known = values.len();
                if bytes > most {
                    return Err(format!("values of more than {most} bytes in a page or column"));
                }
            }
        }
        Ok(Decoded { definition, repetition, cells: cells(values), rows })
    }
}

impl Cells {
    /// Returns the number at an index as an integer; `None` for other values.
    pub(super) fn int(&self, index: usize, dtype: NdType) -> Option<i64> {
        let unsigned = dtype.kind == NdKind::UInt;
        match self {
            Self::Bool(values) => values.get(index).map(|value| i64::from(*value)),
            Self::I32(values) if unsigned => {
                values.get(index).map(|value| i64::from(*value as u32))
            }
            Self::I32(values) => values.get(index).map(|value| i64::from(*value)),
            Self::I64(values) if unsigned => values.get(index).copied().filter(|value| *value >= 0),
            Self::I64(values) => values.get(index).copied(),
            _ => None,
        }
    }

    /// Returns the number at an index as a float; `None` for other values.
    pub(super) fn float(&self, index: usize) -> Option<f64> {
        match self {
            Self::F32(values) => values.get(index).map(|value| f64::from(*value)),
            Self::F64(values) => values.get(index).copied(),
            Self::Fixed(values) => {
                let bits = u16::from_le_bytes(values.get(index)?.data().try_into().ok()?);
                Some(half::f16::from_bits(bits).to_f64())
            }
            _ => None,
        }
    }

    /// Returns the bytes at an index.
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        match self {
            Self::Bytes(values) => values.get(index).map(ByteArray::data),
            Self::Fixed(values) => values.get(index).map(|value| value.data()),
            _ => None,
        }
    }

    /// Appends the bytes of the number at an index as one of this type.
    pub(super) fn append(&self, index: usize, dtype: NdType, to: &mut Vec<u8>) -> Option<()> {
        let size = dtype.item_size() as usize;
        match (self, dtype.kind) {
            (Self::F64(values), NdKind::Float) if size == 4 => {
                to.extend((*values.get(index)? as f32).to_le_bytes());
            }
            (Self::F64(values), _) => to.extend(values.get(index)?.to_le_bytes()),
            (Self::F32(values), _) => to.extend(values.get(index)?.to_le_bytes()),
            (Self::Fixed(values), _) => to.extend(values.get(index)?.data()),
            (Self::Bool(values), _) => {
                to.extend(&i64::from(*values.get(index)?).to_le_bytes()[..size]);
            }
            (Self::I32(values), NdKind::Float) => {
                to.extend((*values.get(index)? as f32).to_le_bytes());
            }
            (Self::I32(values), _) if size == 8 => {
                to.extend(i64::from(*values.get(index)?).to_le_bytes());
            }
            (Self::I32(values), _) => to.extend(&values.get(index)?.to_le_bytes()[..size]),
            (Self::I64(values), NdKind::Float) => {
                to.extend((*values.get(index)? as f32).to_le_bytes());
            }
            (Self::I64(values), _) => to.extend(&values.get(index)?.to_le_bytes()[..size]),
            (Self::Bytes(_), _) => return None,
        }
        Some(())
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Bytes(values) => values.len(),
            Self::Fixed(values) => values.len(),
        }
    }

    /// Returns the bytes of memory of the values, without those that bytes are borrowed from.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::I32(values) => 4 * values.len(),
            Self::F32(values) => 4 * values.len(),
            Self::I64(values) => 8 * values.len(),
            Self::F64(values) => 8 * values.len(),
            Self::Bytes(values) => size_of::<ByteArray>() * values.len(),
            Self::Fixed(values) => size_of::<ByteArray>() * values.len(),
        }
    }
}

/// A row of a leaf in lists.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RowShape {
    /// The length of each axis, and the indexes of its values.
    Array(Vec<u64>),
    /// The row, or something in it, is null.
    Null,
    /// The lists of an axis differ in length.
    Ragged,
}

impl Decoded {
    /// Calls `row` with the shape of each row and the range of its values, in order.
    pub(super) fn rows(
        &self,
        leaf: &Leaf,
        mut row: impl FnMut(usize, RowShape, std::ops::Range<usize>) -> Result<(), String>,
    ) -> Result<(), String> {
        let axes = &leaf.axes;
        // The lowest level of a row that is not null: a list that may be null is null below it.
        let (defined, first_axis) = (leaf.defined(), axes.first().copied().unwrap_or(0));
        let (mut index, mut at, mut value) = (0, 0, 0);
        let levels = self.repetition.len();
        if self.definition.len() != levels {
            return Err("levels of two lengths".to_owned());
        }
        let mut counts = vec![0_u64; axes.len()];
        let mut lens: Vec<Option<u64>> = vec![None; axes.len()];
        while at < levels {
            let (first, start) = (at, value);
            counts.fill(0);
            lens.fill(None);
            let (mut is_null, mut is_ragged) = (false, false);
            loop {
                let (repetition, definition) = (self.repetition[at], self.definition[at]);
                let from = usize::try_from(repetition).unwrap_or(0).max(1) - 1;
                for axis in (from..axes.len()).filter(|axis| definition >= axes[*axis]) {
                    if axis > from || at == first {
                        counts[axis] = 0;
                    }
                    counts[axis] += 1;
                }
                match definition == defined {
                    true => value += 1,
                    // The path exists down to its last element, whose value is null.
                    false if axes.last().is_some_and(|last| definition >= *last) => is_null = true,
                    false => {}
                }
                at += 1;
                let next = self.repetition.get(at).copied().unwrap_or(0);
                // The lists of these axes end here.
                let ended = usize::try_from(next).unwrap_or(0).max(1);
                for axis in (if next == 0 { 0 } else { ended }..axes.len()).rev() {
                    // An inner list that is not there has no length.
                    let is_there = axis == 0 || definition >= axes[axis - 1];
                    if is_there {
                        let len = if definition >= axes[axis] { counts[axis] } else { 0 };
                        is_ragged |= lens[axis].replace(len).is_some_and(|other| other != len);
                    }
                }
                if next == 0 {
                    break;
                }
            }
            // A list that is null, not empty, is the first level of a row that is optional.
            let definition = self.definition[first];
            is_null |= at == first + 1 && definition + 1 < first_axis;
            let shape = match (is_null, is_ragged) {
                (true, _) => RowShape::Null,
                (_, true) => RowShape::Ragged,
                _ => RowShape::Array(lens.iter().map(|len| len.unwrap_or(0)).collect()),
            };
            row(index, shape, start..value)?;
            index += 1;
        }
        match index == self.rows {
            true => Ok(()),
            false => Err(format!("{index} rows of levels, {} of values", self.rows)),
        }
    }
}
