//! Arrays of Arrow in the memory of others, and the values of their rows.
//!
//! | layout                          | buffers after the validity           | children              |
//! |---------------------------------|--------------------------------------|-----------------------|
//! | numbers, dates, times           | values                               |                       |
//! | `bool`                          | a bit a row, the lowest first        |                       |
//! | `binary`, `string`              | offsets of 4 bytes, bytes            |                       |
//! | `large_binary`, `large_string`  | offsets of 8 bytes, bytes            |                       |
//! | `binary_view`, `string_view`    | views of 16 bytes, several of bytes  |                       |
//! | `fixed_size_binary[N]`          | bytes                                |                       |
//! | `list`, `large_list`            | offsets of 4 or 8 bytes              | the items             |
//! | `fixed_size_list[N]`            |                                      | the items             |
//! | `struct`                        |                                      | one for each name     |
//!
//! The validity has a bit for each row, 0 for a null; without it, no row is null. Row `n` is value `offset + n` of all
//! buffers. Integers are little-endian. From the Arrow Columnar Format 1.5.
//!
//! Buffers are files of others that lie in memory: an access that does not lie within its buffer is an error of its row.

use crate::source::NdType;
use crate::source::dtype::{ByteOrder, NdKind};
use crate::source::parquet::leaf::RowShape;
use serde_json::Value as Json;
use std::ops::Range;

/// The memory of a buffer.
pub type Memory = Box<dyn AsRef<[u8]> + Send + Sync>;

/// The most values that the JSON of a row may have.
const MOST_VALUES: u64 = 1 << 22;

/// The number of values in the JSON of a row, and the bytes of its texts and names.
pub(super) struct JsonSize {
    values: u64,
    bytes: u64,
    most_bytes: u64,
}

impl JsonSize {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self { values: 0, bytes: 0, most_bytes }
    }

    fn add_value(&mut self) -> Result<(), String> {
        self.values += 1;
        match self.values > MOST_VALUES {
            true => Err("too many values for JSON".to_owned()),
            false => Ok(()),
        }
    }

    fn add_text(&mut self, len: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(len as u64);
        let most = self.most_bytes;
        match self.bytes > most {
            true => Err(format!("JSON with more than {most} bytes of text, the limit of a sample")),
            false => Ok(()),
        }
    }
}

/// An array of Arrow: a piece of a column.
pub struct ArrowArray {
    layout: Layout,
    len: u64,
    offset: u64,
    validity: Option<Memory>,
    buffers: Vec<Memory>,
    children: Vec<(String, ArrowArray)>,
}

/// How the values lie in the buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    Null,
    Bits,
    /// Numbers; Parquet stores them multiplied by `times` and divided by `over`.
    Numbers {
        dtype: NdType,
        times: i64,
        over: i64,
    },
    FixedBytes(u64),
    Bytes(OffsetSize),
    Views,
    Struct,
    List(OffsetSize),
    FixedList(u64),
    Unknown,
}

/// The bytes of an offset.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OffsetSize {
    Four,
    Eight,
}

/// The values of a row.
pub(super) struct Row<'a> {
    pub(super) leaf: &'a ArrowArray,
    /// The rows of the leaf.
    pub(super) range: Range<u64>,
    pub(super) shape: RowShape,
}

impl Layout {
    /// Returns the layout of a type by pyarrow's text for it.
    fn of(text: &str) -> Self {
        let (name, rest) = text.split_once('[').unwrap_or((text, ""));
        let inside = rest.split([',', ']']).next().unwrap_or_default();
        let numbers = |kind, size, times, over| {
            let dtype = NdType::new(kind, size, ByteOrder::Little);
            dtype.map_or(Self::Unknown, |dtype| Self::Numbers { dtype, times, over })
        };
        let of = |kind, size| numbers(kind, size, 1, 1);
        let sized = |layout: fn(u64) -> Self| inside.parse().map_or(Self::Unknown, layout);
        match (name, inside) {
            ("null", _) => Self::Null,
            ("bool", _) => Self::Bits,
            ("int8", _) => of(NdKind::Int, 1),
            ("int16", _) => of(NdKind::Int, 2),
            ("uint8", _) => of(NdKind::UInt, 1),
            ("uint16", _) => of(NdKind::UInt, 2),
            ("uint32", _) => of(NdKind::UInt, 4),
            ("uint64", _) => of(NdKind::UInt, 8),
            ("halffloat", _) => of(NdKind::Float, 2),
            ("float", _) => of(NdKind::Float, 4),
            ("double", _) => of(NdKind::Float, 8),
            // Parquet has no seconds, and no days in milliseconds.
            ("time32", "s") => numbers(NdKind::Int, 4, 1000, 1),
            ("timestamp", "s") => numbers(NdKind::Int, 8, 1000, 1),
            ("date64", _) => numbers(NdKind::Int, 8, 1, 86_400_000),
            ("int32" | "date32" | "time32", _) => of(NdKind::Int, 4),
            ("int64" | "time64" | "timestamp" | "duration", _) => of(NdKind::Int, 8),
            ("binary" | "string", _) => Self::Bytes(OffsetSize::Four),
            ("large_binary" | "large_string", _) => Self::Bytes(OffsetSize::Eight),
            ("binary_view" | "string_view", _) => Self::Views,
            ("fixed_size_binary", _) => sized(Self::FixedBytes),
            ("struct", _) => Self::Struct,
            ("list", _) => Self::List(OffsetSize::Four),
            ("large_list", _) => Self::List(OffsetSize::Eight),
            ("fixed_size_list", _) => sized(Self::FixedList),
            _ => Self::Unknown,
        }
    }
}

impl ArrowArray {
    /// Returns an array of a layout, by pyarrow's text for its type, with its own buffers. The children of a structure begin
    /// where it begins; those of a list are all items that its offsets count.
    pub fn new(
        layout: &str,
        (offset, len): (u64, u64),
        buffers: impl IntoIterator<Item = Option<Memory>>,
        children: Vec<(String, Self)>,
    ) -> Self {
        let mut buffers = buffers.into_iter();
        let validity = buffers.next().flatten();
        let buffers = buffers.map(|buffer| buffer.unwrap_or_else(|| Box::new([]))).collect();
        Self { layout: Layout::of(layout), len, offset, validity, buffers, children }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the values of rows are read.
    pub(super) fn is_known(&self) -> bool {
        self.layout != Layout::Unknown
    }

    /// Returns the number of the child of a name.
    pub(super) fn child(&self, name: &str) -> Option<usize> {
        self.children.iter().position(|(own, _)| own == name)
    }

    /// Returns the way to each leaf, in the order of Parquet: the numbers of the children.
    pub(super) fn leaves(&self) -> Vec<Vec<usize>> {
        if self.children.is_empty() {
            return vec![vec![]];
        }
        let below = self.children.iter().enumerate().flat_map(|(number, (_, child))| {
            child.leaves().into_iter().map(move |path| [&[number][..], &path].concat())
        });
        below.collect()
    }

    /// Returns the array at the end of a path, and the number of lists that it is in.
    pub(super) fn below(&self, path: &[usize]) -> Option<(&Self, usize)> {
        path.iter().try_fold((self, 0), |(array, lists), child| {
            let is_list = array.layout != Layout::Struct;
            Some((&array.children.get(*child)?.1, lists + usize::from(is_list)))
        })
    }

    /// Returns the values of a row in a leaf.
    pub(super) fn row(&self, path: &[usize], row: u64) -> Result<Row<'_>, String> {
        let (mut array, mut range) = (self, row..row.saturating_add(1));
        let (mut lens, mut is_ragged, mut is_null) = (vec![], false, false);
        for child in path {
            is_null |= !array.are_valid(&range)?;
            if array.layout != Layout::Struct {
                let items;
                (items, is_ragged) = array.all_items(&range, is_ragged, &mut lens)?;
                range = items;
            }
            array = &array.children.get(*child).ok_or("its type has changed")?.1;
        }
        is_null |= !array.are_valid(&range)?;
        let shape = match (is_null, is_ragged) {
            (true, _) => RowShape::Null,
            (_, true) => RowShape::Ragged,
            _ => RowShape::Array(lens),
        };
        Ok(Row { leaf: array, range, shape })
    }

    /// Returns the items of several lists that follow one another, and adds their length.
    fn all_items(
        &self,
        rows: &Range<u64>,
        mut is_ragged: bool,
        lens: &mut Vec<u64>,
    ) -> Result<(Range<u64>, bool), String> {
        if let Layout::FixedList(len) = self.layout {
            lens.push(if rows.is_empty() { 0 } else { len });
            return Ok((self.items_of(rows)?, is_ragged));
        }
        let mut found = None;
        for row in rows.clone() {
            let items = self.items_of(&(row..row + 1))?;
            let len = items.end - items.start;
            is_ragged |= found.replace(len).is_some_and(|other| other != len);
        }
        lens.push(found.unwrap_or(0));
        Ok((self.items_of(rows)?, is_ragged))
    }

    /// Returns the items of the lists of rows.
    fn items_of(&self, rows: &Range<u64>) -> Result<Range<u64>, String> {
        if rows.is_empty() {
            return Ok(0..0);
        }
        let (start, end) = (self.at(rows.start)?, self.at(rows.end - 1)? + 1);
        let range = match self.layout {
            Layout::FixedList(len) => start.checked_mul(len).zip(end.checked_mul(len)),
            Layout::List(size) => Some((self.offset_at(size, start)?, self.offset_at(size, end)?)),
            _ => None,
        };
        let items = self.children.first().map_or(0, |(_, child)| child.len);
        match range {
            Some((start, end)) if start <= end && end <= items => Ok(start..end),
            Some((start, end)) => Err(format!("a list of items {start} to {end} of {items}")),
            None => Err("it is no list".to_owned()),
        }
    }

    /// Returns whether no row of a range is null.
    fn are_valid(&self, rows: &Range<u64>) -> Result<bool, String> {
        if rows.is_empty() {
            return Ok(true);
        }
        let (first, last) = (self.at(rows.start)?, self.at(rows.end - 1)?);
        match &self.validity {
            _ if self.layout == Layout::Null => Ok(false),
            None => Ok(true),
            Some(bits) => {
                for at in first..=last {
                    if !bit((**bits).as_ref(), at)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Returns the index of a row in the buffers.
    fn at(&self, row: u64) -> Result<u64, String> {
        let at = self.offset.checked_add(row).filter(|_| row < self.len);
        at.filter(|at| *at < u64::MAX).ok_or_else(|| format!("an array has {} rows", self.len))
    }

    /// Returns bytes of a buffer.
    fn part(&self, buffer: usize, start: u64, size: u64) -> Result<&[u8], String> {
        let memory = self.buffers.get(buffer).map_or(&[][..], |memory| (**memory).as_ref());
        let part = || {
            let start = usize::try_from(start).ok()?;
            memory.get(start..start.checked_add(usize::try_from(size).ok()?)?)
        };
        part().ok_or_else(|| {
            format!("{size} bytes from byte {start} on of a buffer of {}", memory.len())
        })
    }

    fn value_at(&self, at: u64, size: u64) -> Result<&[u8], String> {
        self.part(0, at.saturating_mul(size), size)
    }

    fn offset_at(&self, size: OffsetSize, at: u64) -> Result<u64, String> {
        let found = match size {
            OffsetSize::Four => i64::from(self.word(at, i32::from_le_bytes)?),
            OffsetSize::Eight => self.word(at, i64::from_le_bytes)?,
        };
        u64::try_from(found).map_err(|_| format!("an offset of {found}"))
    }

    fn word<T, const N: usize>(&self, at: u64, of: fn([u8; N]) -> T) -> Result<T, String> {
        let bytes = self.value_at(at, N as u64)?.try_into();
        bytes.map(of).map_err(|_| "a buffer that ends".to_owned())
    }

    /// Returns the bytes of a row.
    pub(super) fn bytes(&self, row: u64) -> Result<&[u8], String> {
        let at = self.at(row)?;
        match self.layout {
            Layout::Bytes(size) => {
                let (start, end) = (self.offset_at(size, at)?, self.offset_at(size, at + 1)?);
                let len = end.checked_sub(start);
                self.part(1, start, len.ok_or_else(|| format!("bytes from {start} to {end}"))?)
            }
            Layout::FixedBytes(size) => self.value_at(at, size),
            Layout::Views => {
                let view = self.value_at(at, 16)?;
                let word = |n: usize| {
                    let word = view.get(4 * n..)?.first_chunk()?;
                    u32::try_from(i32::from_le_bytes(*word)).ok()
                };
                match (word(0), word(2), word(3)) {
                    (Some(len @ 0..=12), ..) => Ok(&view[4..4 + len as usize]),
                    (Some(len), Some(buffer), Some(start)) => {
                        self.part((buffer as usize).saturating_add(1), start.into(), len.into())
                    }
                    _ => Err("a view with a negative length or offset".to_owned()),
                }
            }
            _ => Err("its type has changed".to_owned()),
        }
    }

    /// Returns the integer of a row.
    pub(super) fn int(&self, row: u64) -> Result<i64, String> {
        let at = self.at(row)?;
        match self.layout {
            Layout::Bits => {
                Ok(bit(self.buffers.first().map_or(&[], |bits| (**bits).as_ref()), at)?.into())
            }
            Layout::Numbers { dtype, times, over } if dtype.kind != NdKind::Float => {
                let bytes = self.value_at(at, dtype.item_size())?;
                let is_negative =
                    dtype.kind == NdKind::Int && bytes.last().is_some_and(|byte| *byte >= 0x80);
                let mut word = [if is_negative { 0xff } else { 0 }; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                let value = i64::from_le_bytes(word);
                if value < 0 && dtype.kind == NdKind::UInt {
                    return Err("an integer of 2^63 or more".to_owned());
                }
                let value = value.checked_mul(times).ok_or("a time beyond 2^63")?;
                Ok(value / over)
            }
            _ => Err("its type has changed".to_owned()),
        }
    }

    /// Returns the float of a row.
    pub(super) fn float(&self, row: u64) -> Result<f64, String> {
        let at = self.at(row)?;
        match self.layout {
            Layout::Numbers { dtype, .. } if dtype.kind == NdKind::Float => {
                Ok(match dtype.item_size() {
                    2 => half::f16::from_bits(self.word(at, u16::from_le_bytes)?).to_f64(),
                    4 => self.word(at, f32::from_le_bytes)?.into(),
                    _ => self.word(at, f64::from_le_bytes)?,
                })
            }
            _ => Err("its type has changed".to_owned()),
        }
    }

    /// Returns the numbers of rows if they lie in memory as this type.
    pub(super) fn numbers(
        &self,
        rows: &Range<u64>,
        dtype: NdType,
    ) -> Result<Option<&[u8]>, String> {
        let own = Layout::Numbers { dtype, times: 1, over: 1 };
        if rows.is_empty() {
            return Ok(Some(&[]));
        }
        if self.layout != own {
            return Ok(None);
        }
        let (first, last) = (self.at(rows.start)?, self.at(rows.end - 1)?);
        let size = dtype.item_size();
        let bytes = first.checked_mul(size).zip((last - first + 1).checked_mul(size));
        let (start, len) = bytes.ok_or("its rows overflow")?;
        self.part(0, start, len).map(Some)
    }

    /// Appends the number of a row as this type, as `Cells::append` does.
    pub(super) fn append(&self, row: u64, dtype: NdType, to: &mut Vec<u8>) -> Result<(), String> {
        let size = dtype.item_size() as usize;
        let is_float =
            matches!(self.layout, Layout::Numbers { dtype, .. } if dtype.kind == NdKind::Float);
        match (is_float, dtype.kind, size) {
            (true, NdKind::Float, 4) => to.extend((self.float(row)? as f32).to_le_bytes()),
            (true, NdKind::Float, 8) => to.extend(self.float(row)?.to_le_bytes()),
            (false, NdKind::Float, 4) => to.extend((self.int(row)? as f32).to_le_bytes()),
            (false, NdKind::Int | NdKind::UInt | NdKind::Bool, _) => {
                to.extend(&self.int(row)?.to_le_bytes()[..size]);
            }
            _ => return Err("its type has changed".to_owned()),
        }
        Ok(())
    }

    /// Returns a row as JSON, and adds its values and texts to `size`, which has their limits: many texts may lie in the
    /// same few bytes.
    pub(super) fn json(&self, row: u64, size: &mut JsonSize) -> Result<Json, String> {
        size.add_value()?;
        if !self.are_valid(&(row..row.saturating_add(1)))? {
            return Ok(Json::Null);
        }
        Ok(match self.layout {
            Layout::Struct => {
                let fields = self.children.iter().map(|(name, child)| {
                    size.add_text(name.len())?;
                    Ok((name.clone(), child.json(row, size)?))
                });
                Json::Object(fields.collect::<Result<_, String>>()?)
            }
            Layout::List(_) | Layout::FixedList(_) => {
                let items = self.items_of(&(row..row + 1))?;
                let (_, child) = self.children.first().ok_or("its type has changed")?;
                Json::Array(items.map(|item| child.json(item, size)).collect::<Result<_, _>>()?)
            }
            Layout::Bits => (self.int(row)? != 0).into(),
            Layout::Numbers { dtype, .. } if dtype.kind == NdKind::Float => {
                let value = self.float(row)?;
                let number = serde_json::Number::from_f64(value).map(Json::Number);
                number.ok_or_else(|| format!("{value} is no number of JSON"))?
            }
            Layout::Numbers { dtype, .. }
                if dtype.kind == NdKind::UInt && dtype.item_size() == 8 =>
            {
                self.word(self.at(row)?, u64::from_le_bytes)?.into()
            }
            Layout::Numbers { .. } => self.int(row)?.into(),
            _ => {
                let bytes = self.bytes(row)?;
                size.add_text(bytes.len())?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => text.into(),
                    Err(error) => return Err(format!("a text that is not UTF-8: {error}")),
                }
            }
        })
    }
}

/// Returns a bit of a buffer.
fn bit(bits: &[u8], at: u64) -> Result<bool, String> {
    let byte = usize::try_from(at / 8).ok().and_then(|byte| bits.get(byte));
    let byte = byte.ok_or_else(|| format!("bit {at} of a buffer of {} bytes", bits.len()))?;
    Ok(byte >> (at % 8) & 1 == 1)
}
