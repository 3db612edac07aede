//! Arrow's schema of a table, as pyarrow stores it in the metadata of a Parquet file: which lists have a fixed length, and
//! which are the arrays of `datasets`. Parquet's own schema has neither.
//!
//! ```text
//! base64:  ff ff ff ff  [u32 length]  [flatbuffer of Message, whose header is a Schema]  zeros to a multiple of 8
//! ```
//!
//! Tables and their numbers are those of Arrow's format/Message.fbs and format/Schema.fbs.

/// The key of the metadata.
pub(super) const KEY: &str = "ARROW:schema";

/// Version 5 of Arrow's metadata.
const VERSION: i16 = 4;

/// The number of `Schema` among the headers of a message.
const SCHEMA: u8 = 1;

/// A type of Arrow.
pub(super) enum ArrowType {
    Int {
        bits: i32,
        is_signed: bool,
    },
    /// Floats of 16 bits (0), 32 (1) or 64 (2).
    Float(i16),
    Binary,
    Utf8,
    Bool,
    List,
    Struct,
    FixedSizeList(i32),
}

/// A field of Arrow, which may be null.
pub(super) struct ArrowField {
    pub(super) name: String,
    pub(super) of: ArrowType,
    pub(super) children: Vec<Self>,
    /// The name of an extension type, and its parameters.
    pub(super) extension: Option<(String, String)>,
}

/// Returns the text of the schema, with its metadata: pyarrow reads them here and not in the file's own.
pub(super) fn schema(fields: &[ArrowField], metadata: &[(&str, &str)]) -> String {
    let fields = Flat::Vector(fields.iter().map(ArrowField::flat).collect());
    let schema = Flat::Table(vec![(1, Slot::Of(fields)), (2, Slot::Of(Flat::pairs(metadata)))]);
    let message =
        Flat::Table(vec![(0, Slot::I16(VERSION)), (1, Slot::U8(SCHEMA)), (2, Slot::Of(schema))]);
    let mut flat = vec![0; 4];
    let root = message.write(&mut flat);
    flat[..4].copy_from_slice(&(root as u32).to_le_bytes());
    flat.resize(flat.len().next_multiple_of(8), 0);
    let len = (flat.len() as u32).to_le_bytes();
    base64(&[&[0xff; 4], &len[..], &flat].concat())
}

impl ArrowField {
    fn flat(&self) -> Flat {
        let (number, of) = match self.of {
            ArrowType::Int { bits, is_signed } => {
                (2, vec![(0, Slot::I32(bits)), (1, Slot::U8(is_signed.into()))])
            }
            ArrowType::Float(precision) => (3, vec![(0, Slot::I16(precision))]),
            ArrowType::Binary => (4, vec![]),
            ArrowType::Utf8 => (5, vec![]),
            ArrowType::Bool => (6, vec![]),
            ArrowType::List => (12, vec![]),
            ArrowType::Struct => (13, vec![]),
            ArrowType::FixedSizeList(len) => (16, vec![(0, Slot::I32(len))]),
        };
        let children = self.children.iter().map(Self::flat).collect();
        let mut slots = vec![
            (0, Slot::Of(Flat::Text(self.name.clone()))),
            (1, Slot::U8(1)),
            (2, Slot::U8(number)),
            (3, Slot::Of(Flat::Table(of))),
            (5, Slot::Of(Flat::Vector(children))),
        ];
        if let Some((name, parameters)) = &self.extension {
            let pairs =
                [("ARROW:extension:name", &**name), ("ARROW:extension:metadata", parameters)];
            slots.push((6, Slot::Of(Flat::pairs(&pairs))));
        }
        Flat::Table(slots)
    }
}

/// An object of a flatbuffer.
enum Flat {
    /// The slots that are set, by their numbers.
    Table(Vec<(usize, Slot)>),
    Vector(Vec<Self>),
    Text(String),
}

/// A value in a table.
enum Slot {
    U8(u8),
    I16(i16),
    I32(i32),
    /// An object behind the table.
    Of(Flat),
}

impl Flat {
    /// Returns a vector of keys with their values.
    fn pairs(pairs: &[(&str, &str)]) -> Self {
        let text = |text: &str| Slot::Of(Self::Text(text.to_owned()));
        let pair =
            |(key, value): &(&str, &str)| Self::Table(vec![(0, text(key)), (1, text(value))]);
        Self::Vector(pairs.iter().map(pair).collect())
    }

    /// Appends the object, and returns its position. The objects that it refers to follow it.
    fn write(&self, out: &mut Vec<u8>) -> usize {
        match self {
            Self::Text(text) => {
                out.resize(out.len().next_multiple_of(4), 0);
                let at = out.len();
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
                out.push(0);
                at
            }
            Self::Vector(items) => {
                out.resize(out.len().next_multiple_of(4), 0);
                let at = out.len();
                out.extend((items.len() as u32).to_le_bytes());
                out.resize(out.len() + 4 * items.len(), 0);
                for (index, item) in items.iter().enumerate() {
                    item.refer(at + 4 + 4 * index, out);
                }
                at
            }
            Self::Table(slots) => Self::write_table(slots, out),
        }
    }

    /// Writes a table behind its list of offsets. Each slot has four bytes.
    fn write_table(slots: &[(usize, Slot)], out: &mut Vec<u8>) -> usize {
        out.resize(out.len().next_multiple_of(4), 0);
        let (list, count) = (out.len(), slots.last().map_or(0, |(number, _)| number + 1));
        let size = 4 + 4 * slots.len();
        let mut offsets = vec![0_u16; count];
        for (index, (number, _)) in slots.iter().enumerate() {
            offsets[*number] = 4 + 4 * index as u16;
        }
        for half in [4 + 2 * count as u16, size as u16].into_iter().chain(offsets) {
            out.extend(half.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(4), 0);
        let at = out.len();
        out.extend(((at - list) as u32).to_le_bytes());
        for (_, slot) in slots {
            let bytes = match slot {
                Slot::U8(value) => [*value, 0, 0, 0],
                Slot::I16(value) => i32::from(*value).to_le_bytes(),
                Slot::I32(value) => value.to_le_bytes(),
                Slot::Of(_) => [0; 4],
            };
            out.extend(bytes);
        }
        for (index, (_, slot)) in slots.iter().enumerate() {
            if let Slot::Of(object) = slot {
                object.refer(at + 4 + 4 * index, out);
            }
        }
        at
    }

    /// Writes the object, and its distance at a position before it.
    fn refer(&self, from: usize, out: &mut Vec<u8>) {
        let at = self.write(out);
        out[from..from + 4].copy_from_slice(&((at - from) as u32).to_le_bytes());
    }
}

/// Returns bytes in base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for digit in 0..4 {
            let sextet = word >> (18 - 6 * digit) & 63;
            text.push(if digit > three.len() { '=' } else { char::from(DIGITS[sextet as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    /// `python/tests/test_parquet_writing.py` has pyarrow read it.
    #[test]
    fn a_field_is_where_a_flatbuffer_has_it() {
        let (name, children) = ("n".to_owned(), vec![]);
        let of = ArrowType::Int { bits: 64, is_signed: true };
        let mut out = vec![0; 4];
        let field = ArrowField { name, of, children, extension: None }.flat();
        let at = field.write(&mut out);
        let u32_at = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap()) as usize;
        let list = at - u32_at(at);
        let slot = |number: usize| {
            let at_list = list + 4 + 2 * number;
            at + usize::from(u16::from_le_bytes([out[at_list], out[at_list + 1]]))
        };
        let name = slot(0) + u32_at(slot(0));
        assert_eq!((u32_at(name), &out[name + 4..name + 6]), (1, &b"n\0"[..]));
        assert_eq!((out[slot(1)], out[slot(2)]), (1, 2), "it may be null; an int");
        let of = slot(3) + u32_at(slot(3));
        assert_eq!(out[of + 4..of + 12], [64, 0, 0, 0, 1, 0, 0, 0]);
    }
}
