//! Page headers, and the shape of a schema: what is needed of Parquet's structures in Thrift's compact protocol that the
//! crate `parquet` keeps to itself.
//!
//! | bytes                         | meaning                                                           |
//! |-------------------------------|-------------------------------------------------------------------|
//! | `dddd tttt`                   | a field: its number is the last one's plus `d`, its type is `t`   |
//! | `0000 tttt`, zigzag varint    | a field with its number                                           |
//! | `0`                           | the end of a structure                                            |
//! | `nnnn tttt`                   | a list of `n` elements; `n` = 15: a varint with the number follows |
//! | varint, bytes                 | binary                                                            |
//!
//! Types: 1 true, 2 false, 3 i8, 4 i16, 5 i32, 6 i64 (zigzag varints), 7 double, 8 binary, 9 list, 10 set, 11 map,
//! 12 structure, 13 UUID. The field numbers are those of `parquet.thrift`.

use parquet::basic::Encoding;

/// The deepest nesting that is read.
const DEEPEST: usize = 64;

const TRUE: u8 = 1;
const STRUCT: u8 = 12;
const LIST: u8 = 9;

/// The header of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// The number of bytes of the page once it is decompressed.
    pub(super) unpacked: u32,
    /// The number of bytes of the page in the file.
    pub(super) stored: u32,
    pub(super) values: u32,
    pub(super) encoding: Encoding,
    /// The CRC-32 of the page in the file.
    pub(super) crc: Option<u32>,
}

/// What a page holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PageKind {
    /// Levels and values, all of them compressed.
    Data { definition: Encoding, repetition: Encoding },
    /// Levels, which are not compressed, and values.
    DataV2 { nulls: u32, rows: u32, definition: u32, repetition: u32, is_compressed: bool },
    /// The values that the data pages have the indexes of.
    Dictionary,
    /// A page of another kind, which has no values.
    Other,
}

/// Parses the header at the beginning of `bytes`, and returns its length, too. `None` if the bytes end before it, or if
/// they are no header.
pub(super) fn page_header(bytes: &[u8]) -> Option<(PageHeader, usize)> {
    let mut reader = Compact(bytes);
    let (mut kind, mut sizes, mut crc) = (None, [None; 2], None);
    // The fields of the structure for the kind of page, by their numbers.
    let (mut of_kind, mut known) = ([None; 10], None);
    reader.fields(|reader, field, of_type| {
        match field {
            1 => kind = Some(reader.zigzag()?),
            2 | 3 => sizes[field as usize - 2] = u32::try_from(reader.zigzag()?).ok(),
            4 if of_type == 5 => crc = Some(reader.zigzag()? as u32),
            5 | 7 | 8 if of_type == STRUCT => {
                known = Some(field);
                reader.fields(|reader, field, of_type| {
                    match (usize::try_from(field).ok().filter(|field| *field < 10), of_type) {
                        (Some(field), 1 | 2) => of_kind[field] = Some(i64::from(of_type == TRUE)),
                        (Some(field), 3..=6) => of_kind[field] = Some(reader.zigzag()?),
                        _ => reader.skip(of_type, 1)?,
                    }
                    Some(())
                })?;
            }
            _ => reader.skip(of_type, 1)?,
        }
        Some(())
    })?;
    let number = |field: usize| u32::try_from(of_kind[field]?).ok();
    let [unpacked, stored] = sizes;
    let (kind, values, encoding) = match (kind?, known) {
        (0, Some(5)) => {
            let kind = PageKind::Data {
                definition: encoding(of_kind[3]?)?,
                repetition: encoding(of_kind[4]?)?,
            };
            (kind, number(1)?, encoding(of_kind[2]?)?)
        }
        (2, Some(7)) => (PageKind::Dictionary, number(1)?, encoding(of_kind[2]?)?),
        (3, Some(8)) => {
            let kind = PageKind::DataV2 {
                nulls: number(2)?,
                rows: number(3)?,
                definition: number(5)?,
                repetition: number(6)?,
                is_compressed: of_kind[7] != Some(0),
            };
            (kind, number(1)?, encoding(of_kind[4]?)?)
        }
        (0 | 2 | 3, _) => return None,
        _ => (PageKind::Other, 0, Encoding::PLAIN),
    };
    let header = PageHeader { kind, unpacked: unpacked?, stored: stored?, values, encoding, crc };
    Some((header, bytes.len() - reader.0.len()))
}

/// Returns the encoding of a number.
fn encoding(number: i64) -> Option<Encoding> {
    Some(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        #[expect(deprecated, reason = "the levels of old files have it")]
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return None,
    })
}

/// Checks the schema in the bytes of a file's metadata: each node has the children that it counts, and none lies deeper
/// than [`DEEPEST`]. The crate recurses from node to node and reserves memory for the count without looking.
pub(super) fn has_sound_schema(metadata: &[u8]) -> bool {
    let mut counts = None;
    let read = Compact(metadata).fields(|reader, field, of_type| {
        if field != 2 {
            return reader.skip(of_type, 0);
        }
        // The crate reads the schema again wherever it finds this field.
        if of_type != LIST || counts.is_some() {
            return None;
        }
        let (count, of_elements) = reader.list()?;
        if of_elements != STRUCT {
            return None;
        }
        let mut nodes = vec![];
        for _ in 0..count {
            let mut children = 0;
            reader.fields(|reader, field, of_type| match (field, of_type) {
                (5, 3..=6) => {
                    children = usize::try_from(reader.zigzag()?).ok()?;
                    Some(())
                }
                _ => reader.skip(of_type, 1),
            })?;
            nodes.push(children);
        }
        counts = Some(nodes);
        Some(())
    });
    let Some(counts) = read.and(counts) else { return false };
    // The numbers of children that are still to come, of the nodes that are open.
    let mut open: Vec<usize> = vec![1];
    for children in counts {
        while open.last() == Some(&0) {
            open.pop();
        }
        let Some(left) = open.last_mut() else { return false };
        *left -= 1;
        if children > 0 {
            open.push(children);
        }
        if open.len() > DEEPEST {
            return false;
        }
    }
    open.iter().all(|left| *left == 0)
}

/// The bytes that are left to read.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads the head of a list: its length, which its bytes have room for, and the type of its elements.
    fn list(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            count => count.into(),
        };
        (count <= self.0.len()).then_some((count, head & 15))
    }

    /// Reads the fields of a structure. `read` must read or skip the value of each.
    fn fields(&mut self, mut read: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut number = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            number = match head >> 4 {
                0 => self.zigzag()?,
                more => number.checked_add(more.into())?,
            };
            read(self, number, head & 15)?;
        }
    }

    fn take(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn skip(&mut self, of_type: u8, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match of_type {
            1 | 2 => Some(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.take(8),
            8 => {
                let count = self.varint()?;
                self.take(count)
            }
            LIST | 10 => {
                let (count, of_elements) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(of_elements, depth))
            }
            11 => {
                let count = self.varint()?;
                if count == 0 {
                    return Some(());
                }
                let types = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(types >> 4, depth)?;
                    self.skip_element(types & 15, depth)
                })
            }
            STRUCT => self.fields(|reader, _, of_type| reader.skip(of_type, depth + 1)),
            13 => self.take(16),
            _ => None,
        }
    }

    /// Skips an element of a list: of these, truths have a byte of their own.
    fn skip_element(&mut self, of_type: u8, depth: usize) -> Option<()> {
        match of_type {
            1 | 2 => self.byte().map(drop),
            _ => self.skip(of_type, depth + 1),
        }
    }
}
