//! Writes MDS shards that mosaicml-streaming reads (`StreamingDataset`), as its `MDSWriter` writes them.
//!
//! ```text
//! index.json ─▶ columns, shards     shard: u32 n, u32 offsets[n + 1], the columns as JSON, the samples
//! sample: u32 size of each column without a fixed one, then the values in the order of the fields
//! ```
//!
//! | field                | encoding of its column                                                   |
//! |----------------------|--------------------------------------------------------------------------|
//! | image                | `jpeg` if the first is a JPEG, else `png`: PIL opens any image of either  |
//! | int, float           | `int`, `float64`                                                         |
//! | bytes                | `str` if those of the first samples are texts, else `bytes`              |
//! | JSON                 | `json`                                                                   |
//! | array, tensor        | `ndarray:int16:2,3`; `ndarray:int16` for a single element or none        |
//! | rows of objects      | `ndarray:float32`: an array with a row for each object                   |
//! | user-defined         | refused                                                                  |
//!
//! `MDSWriter` sorts the columns by name, and no reader depends on it. The key `fuseloop` of the index has what no column
//! says: the names of classes, what the fields of objects are, and bytes that are no images (`source/mds/known.rs`).

use super::bytes::{
    count_of_rows, file_bytes, json_bytes, rows_of, text_bytes, to_little_endian, word, wrong,
};
use super::column::{ObjectRow, custom_field};
use crate::error::{Error, fail};
use crate::source::{
    FieldKind, FieldSpec, MDS_INDEX_BYTES, NdType, ObjectField, ObjectFields, OwnedValue, Record,
};
use crate::write::beside::Beside;
use crate::write::value::WriteSampleError;
use serde_json::{Value, json};

/// The most bytes of a shard: its offsets have 32 bits.
pub(in crate::write) const MOST_BYTES: u64 = u32::MAX as u64;

/// The bytes of an offset in the table of a shard.
const OFFSET: u64 = 4;

/// The most axes of an array that has its shape in each sample.
const MOST_AXES: usize = 63;

/// What the first samples of a dataset are.
pub(in crate::write) struct FirstValues<'a> {
    /// True of the fields whose bytes are texts.
    pub(in crate::write) texts: &'a [bool],
    /// True of the fields whose first image is stored as a JPEG.
    pub(in crate::write) jpegs: &'a [bool],
    /// True of the fields whose bytes begin as images.
    pub(in crate::write) pictures: &'a [bool],
    /// True of the fields that are audio files.
    pub(in crate::write) audio: &'a [bool],
}

/// How the samples of a dataset are laid out in shards.
pub(in crate::write) struct MdsLayout {
    columns: Vec<Column>,
    /// The JSON of the columns and the options, without its braces: in front of `raw_data` and behind `samples` in the
    /// order of the keys.
    config: [String; 2],
    /// The value of the key `fuseloop` in the index.
    more: Option<Value>,
}

/// A column.
struct Column {
    encoding: Encoding,
    /// The bytes of every value, if all have as many.
    size: Option<u64>,
}

/// How a value becomes bytes.
enum Encoding {
    Jpeg,
    Png,
    Int,
    Float,
    Str,
    Bytes,
    Json,
    /// The elements of an array, whose shape is that of the column.
    Elements(NdType),
    /// The shape of an array and its elements.
    Array(NdType, Vec<u64>),
    /// An array with a row of this type and shape for each object.
    Rows(ObjectRow),
}

impl MdsLayout {
    /// Returns the layout of samples of these fields. `size_limit` is the most bytes of a shard, for readers to know.
    ///
    /// # Errors
    ///
    /// Fails if a field can't be a column.
    pub(in crate::write) fn new(
        fields: &[FieldSpec],
        beside: &Beside,
        first: &FirstValues<'_>,
        size_limit: Option<u64>,
    ) -> Result<Self, Error> {
        let none = ObjectFields::default();
        let objects = beside.objects.as_ref().unwrap_or(&none);
        let (mut columns, mut texts) = (vec![], [vec![], vec![], vec![]]);
        let (mut plain, mut audio) = (vec![], vec![]);
        for (index, field) in fields.iter().enumerate() {
            let is = |of: &[bool]| of.get(index) == Some(&true);
            let row = objects.get(&field.name).and_then(ObjectField::row);
            let is_text = is(first.texts) && !is(first.audio);
            let encoding = encoding(field, row, is_text, is(first.jpegs))?;
            if matches!(encoding, Encoding::Bytes) && is(first.pictures) {
                plain.push(field.name.clone());
            }
            if is(first.audio) {
                audio.push(field.name.clone());
            }
            let (name, size) = (encoding.name(field)?, encoding.size(field));
            let [names, encodings, sizes] = &mut texts;
            names.push(ascii(&json!(field.name).to_string()));
            encodings.push(json!(name).to_string());
            sizes.push(json!(size).to_string());
            columns.push(Column { encoding, size });
        }
        let [names, encodings, sizes] = texts.map(|list| list.join(", "));
        let config = [
            format!(
                "\"column_encodings\": [{encodings}], \"column_names\": [{names}], \"column_sizes\": [{sizes}], \
                 \"compression\": null, \"format\": \"mds\", \"hashes\": []"
            ),
            format!("\"size_limit\": {}, \"version\": 2", json!(size_limit)),
        ];
        Ok(Self { columns, config, more: more(beside, plain, audio) })
    }

    /// Returns the bytes of a sample.
    ///
    /// # Errors
    ///
    /// If a value is not of its field's kind, or can't be stored.
    pub(in crate::write) fn sample(
        &self,
        record: Record,
        fields: &[FieldSpec],
    ) -> Result<Vec<u8>, WriteSampleError> {
        let (mut sizes, mut values) = (vec![], vec![]);
        for ((value, field), column) in record.into_iter().zip(fields).zip(&self.columns) {
            let bytes = column.encoding.bytes(value, field)?;
            let len = bytes.len() as u64;
            match (column.size, u32::try_from(len)) {
                (Some(size), _) if size == len => {}
                (None, Ok(len)) => sizes.extend(len.to_le_bytes()),
                (Some(size), _) => {
                    return Err(wrong(field, format_args!("{len} bytes, expected {size}")));
                }
                (None, Err(_)) => {
                    let reason =
                        format_args!("{len} bytes, a value in MDS has at most {MOST_BYTES}");
                    return Err(wrong(field, reason));
                }
            }
            values.push(bytes);
        }
        values.insert(0, sizes);
        Ok(values.concat())
    }

    /// Returns the number of bytes that a sample takes in a shard.
    pub(in crate::write) fn bytes_of(&self, sample: u64) -> u64 {
        sample.saturating_add(OFFSET)
    }

    /// Returns the number of bytes of a shard without samples.
    fn empty_bytes(&self) -> u64 {
        2 * OFFSET + self.columns_json().len() as u64
    }

    /// Returns the columns as the shards have them.
    fn columns_json(&self) -> String {
        let [before, after] = &self.config;
        format!("{{{before}, {after}}}")
    }

    /// Returns the text of the index. A shard is the name of its file, its samples and its bytes.
    ///
    /// # Errors
    ///
    /// Fails if it is longer than the reader takes.
    pub(in crate::write) fn index(
        &self,
        shards: impl Iterator<Item = (String, u64, u64)>,
    ) -> Result<Vec<u8>, Error> {
        let [before, after] = &self.config;
        let shard = |(name, samples, bytes): (String, u64, u64)| {
            let name = json!(name);
            format!(
                "{{{before}, \"raw_data\": {{\"basename\": {name}, \"bytes\": {bytes}, \"hashes\": {{}}}}, \
                 \"samples\": {samples}, {after}, \"zip_data\": null}}"
            )
        };
        let shards: Vec<String> = shards.map(shard).collect();
        let count = shards.len();
        let more = self.more.as_ref();
        // An index is known by its first key.
        let more = more.map_or_else(String::new, |more| {
            format!(", \"fuseloop\": {}", ascii(&more.to_string()))
        });
        let text = format!("{{\"shards\": [{}], \"version\": 2{more}}}", shards.join(", "));
        let bytes = text.len() as u64;
        if bytes > MDS_INDEX_BYTES {
            return Err(fail!(
                Memory,
                "the index of {count} shards has {bytes} bytes, the limit is {MDS_INDEX_BYTES}: write larger shards, by \
                 max_bytes or max_samples"
            ));
        }
        Ok(text.into_bytes())
    }
}

/// Escapes the characters beyond ASCII of a JSON text, as Python's `json.dumps` does.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            ' '..='~' => text.push(character),
            // They are in strings alone: nothing is between our tokens but spaces.
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    text
}

/// Returns what no column says; `plain` are the columns of bytes that begin as images, which are none; `audio`
/// are those that are audio files.
fn more(beside: &Beside, plain: Vec<String>, audio: Vec<String>) -> Option<Value> {
    let parsed = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_or_default();
    let mut more = serde_json::Map::new();
    if let Some(classes) = beside.table() {
        more.insert("classes".to_owned(), parsed(&classes.to_bytes()));
    }
    if let Some(objects) = beside.objects.as_ref().filter(|objects| objects.iter().len() > 0) {
        more.insert("objects".to_owned(), parsed(objects.to_json("").as_bytes()));
    }
    if !plain.is_empty() {
        more.insert("bytes".to_owned(), plain.into());
    }
    if !audio.is_empty() {
        more.insert("audio".to_owned(), audio.into());
    }
    (!more.is_empty()).then_some(Value::Object(more))
}

/// Returns the encoding of a field. `row` is what an object has, if the field has a row for each.
fn encoding(
    field: &FieldSpec,
    row: Option<ObjectRow>,
    is_text: bool,
    is_jpeg: bool,
) -> Result<Encoding, Error> {
    if let Some(row) = row {
        return Ok(Encoding::Rows(row));
    }
    Ok(match &field.kind {
        FieldKind::RgbImage | FieldKind::BitPlaneImage if is_jpeg => Encoding::Jpeg,
        FieldKind::RgbImage | FieldKind::BitPlaneImage => Encoding::Png,
        FieldKind::Int => Encoding::Int,
        FieldKind::Float => Encoding::Float,
        FieldKind::Bytes if is_text => Encoding::Str,
        FieldKind::Bytes => Encoding::Bytes,
        FieldKind::Json => Encoding::Json,
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            // A column has no shape without axes, and none with an axis of length 0.
            match shape.is_empty() || shape.contains(&0) {
                true => Encoding::Array(*dtype, shape.clone()),
                false => Encoding::Elements(*dtype),
            }
        }
        FieldKind::Custom { .. } => return Err(custom_field(&field.name)),
    })
}

impl Encoding {
    /// Returns the name of the encoding.
    ///
    /// # Errors
    ///
    /// Fails for elements that MDS does not have.
    fn name(&self, field: &FieldSpec) -> Result<String, Error> {
        let array = |dtype: NdType| {
            let refused = || {
                fail!(
                    Field,
                    "field {:?} is an array of {dtype}, which MDS does not have: convert to .beton or .tar, or leave the \
                     field out",
                    field.name
                )
                .of_field(&field.name)
            };
            dtype_name(dtype).ok_or_else(refused)
        };
        Ok(match self {
            Self::Jpeg => "jpeg".to_owned(),
            Self::Png => "png".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Float => "float64".to_owned(),
            Self::Str => "str".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Json => "json".to_owned(),
            Self::Elements(dtype) => {
                let sides: Vec<String> = shape_of(field).iter().map(u64::to_string).collect();
                format!("ndarray:{}:{}", array(*dtype)?, sides.join(","))
            }
            Self::Array(dtype, shape) if shape.len() > MOST_AXES => {
                return Err(fail!(
                    Field,
                    "field {:?} is an array of {dtype} with {} axes, expected at most {MOST_AXES} in MDS: leave the field out",
                    field.name,
                    shape.len()
                )
                .of_field(&field.name));
            }
            Self::Array(dtype, _) | Self::Rows((dtype, _)) => {
                format!("ndarray:{}", array(*dtype)?)
            }
        })
    }

    /// Returns the size of every value in bytes, if all have one.
    fn size(&self, field: &FieldSpec) -> Option<u64> {
        match self {
            Self::Int | Self::Float => Some(8),
            Self::Elements(dtype) => {
                let elements =
                    shape_of(field).iter().try_fold(1_u64, |all, side| all.checked_mul(*side));
                elements?.checked_mul(dtype.item_size())
            }
            _ => None,
        }
    }

    /// Returns the bytes of a value.
    fn bytes(&self, value: OwnedValue, field: &FieldSpec) -> Result<Vec<u8>, WriteSampleError> {
        if !value.fits(&field.kind) {
            let (expected, found) = (field.kind.word(), word(&value));
            return Err(WriteSampleError::Kind { field: field.name.clone(), expected, found });
        }
        match (self, value) {
            (Self::Int, OwnedValue::Int(value)) => Ok(value.to_le_bytes().to_vec()),
            (Self::Float, OwnedValue::Float(value)) => Ok(value.to_le_bytes().to_vec()),
            (Self::Elements(dtype), OwnedValue::NdArray(mut elements)) => {
                to_little_endian(*dtype, &mut elements);
                Ok(elements)
            }
            (Self::Array(dtype, shape), OwnedValue::NdArray(mut elements)) => {
                to_little_endian(*dtype, &mut elements);
                Ok(with_shape(shape, &elements))
            }
            (Self::Rows((dtype, row)), OwnedValue::Bytes(bytes)) => {
                let rows = rows_of(&bytes, *dtype, row, field)?;
                let count = count_of_rows(rows, *dtype, row);
                Ok(with_shape(&[&[count], &row[..]].concat(), rows))
            }
            (Self::Str, value) => text_bytes(value, field),
            (Self::Json, value) => json_bytes(value, field),
            (_, value) => file_bytes(value, field),
        }
    }
}

/// Returns the shape of an array field.
fn shape_of(field: &FieldSpec) -> &[u64] {
    match &field.kind {
        FieldKind::NdArray { shape, .. } | FieldKind::TorchTensor { shape, .. } => shape,
        _ => &[],
    }
}

/// Returns the name of elements as NumPy has it; `None` for those that MDS does not have.
fn dtype_name(dtype: NdType) -> Option<&'static str> {
    Some(match &*dtype.little_endian().to_string() {
        "|u1" => "uint8",
        "|i1" => "int8",
        "<u2" => "uint16",
        "<i2" => "int16",
        "<u4" => "uint32",
        "<i4" => "int32",
        "<u8" => "uint64",
        "<i8" => "int64",
        "<f2" => "float16",
        "<f4" => "float32",
        "<f8" => "float64",
        _ => return None,
    })
}

/// Returns the bytes of an array whose column does not have its shape: u8 `axes << 2 | log2(bytes of a length)`, the
/// lengths in the fewest bytes, the elements.
fn with_shape(shape: &[u64], elements: &[u8]) -> Vec<u8> {
    let longest = shape.iter().max().copied().unwrap_or_default();
    let log = match longest {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3_u8,
    };
    // `name` has checked the number of axes.
    let mut bytes = vec![(shape.len() as u8) << 2 | log];
    for side in shape {
        bytes.extend(&side.to_le_bytes()[..1 << log]);
    }
    bytes.extend(elements);
    bytes
}

/// A shard that is being written. It is held in memory, because the offsets of its samples come first.
pub(in crate::write) struct MdsShard<'a> {
    layout: &'a MdsLayout,
    samples: Vec<Vec<u8>>,
    /// The bytes of the shard, with these samples.
    bytes: u64,
}

impl<'a> MdsShard<'a> {
    pub(in crate::write) fn new(layout: &'a MdsLayout) -> Self {
        Self { layout, samples: vec![], bytes: layout.empty_bytes() }
    }

    /// Returns the number of bytes of the shard.
    pub(in crate::write) fn held(&self) -> u64 {
        self.bytes
    }

    /// Adds a sample, with which the shard has at most [`MOST_BYTES`].
    pub(in crate::write) fn add(&mut self, sample: Vec<u8>) {
        self.bytes += self.layout.bytes_of(sample.len() as u64);
        self.samples.push(sample);
    }

    /// Returns the pieces of the file.
    pub(in crate::write) fn finish(self) -> impl Iterator<Item = Vec<u8>> {
        let Self { layout, samples, .. } = self;
        let columns = layout.columns_json().into_bytes();
        let table = OFFSET * (samples.len() as u64 + 2);
        let word = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let mut head = word(samples.len() as u64).to_vec();
        let mut at = table + columns.len() as u64;
        head.extend(word(at));
        for sample in &samples {
            at += sample.len() as u64;
            head.extend(word(at));
        }
        head.extend(columns);
        std::iter::once(head).chain(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: FieldKind) -> FieldSpec {
        FieldSpec { name: "a".to_owned(), kind }
    }

    fn array(dtype: &str, shape: &[u64]) -> FieldSpec {
        field(FieldKind::NdArray { dtype: dtype.parse().unwrap(), shape: shape.to_vec() })
    }

    fn layout(field: &FieldSpec) -> Result<MdsLayout, Error> {
        let first = FirstValues { texts: &[], jpegs: &[], pictures: &[], audio: &[] };
        MdsLayout::new(std::slice::from_ref(field), &Beside::default(), &first, None)
    }

    #[test]
    fn shapes_have_the_fewest_bytes() {
        assert_eq!(with_shape(&[], &[7]), [0, 7]);
        assert_eq!(with_shape(&[0, 4], &[]), [2 << 2, 0, 4]);
        assert_eq!(with_shape(&[2, 256], &[]), [2 << 2 | 1, 2, 0, 0, 1]);
        assert_eq!(with_shape(&[1 << 16], &[]), [1 << 2 | 2, 0, 0, 1, 0]);
        assert_eq!(with_shape(&[1 << 32], &[]), [1 << 2 | 3, 0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn json_is_escaped_as_json_dumps_escapes_it() {
        // json.dumps("a\"\\\n\x1f\x7f\u00e9\u2028\U0001f600")
        let text = json!("a\"\\\n\u{1f}\u{7f}\u{e9}\u{2028}\u{1f600}").to_string();
        assert_eq!(ascii(&text), r#""a\"\\\n\u001f\u007f\u00e9\u2028\ud83d\ude00""#);
    }

    #[test]
    fn elements_that_mds_does_not_have_are_refused() {
        for (dtype, shape) in [("|b1", &[2][..]), ("<c8", &[2]), ("<f16", &[]), ("|b1", &[0])] {
            let error = layout(&array(dtype, shape)).err().unwrap().to_string();
            assert!(error.contains("which MDS does not have: convert to .beton"), "{error}");
        }
        let error = layout(&array("<f4", &[0; 64])).err().unwrap().to_string();
        assert!(error.contains("64 axes, expected at most 63"), "{error}");
        let error = layout(&field(FieldKind::Custom { row_size: 1, align: 1 })).err().unwrap();
        assert!(error.to_string().contains("user-defined"), "{error}");
    }

    #[test]
    fn a_shard_has_as_many_bytes_as_it_says() {
        let field = field(FieldKind::Bytes);
        let layout = layout(&field).unwrap();
        let mut shard = MdsShard::new(&layout);
        for len in [0, 3, 1000] {
            let record = vec![OwnedValue::Bytes(vec![1; len])];
            shard.add(layout.sample(record, std::slice::from_ref(&field)).unwrap());
        }
        let held = shard.held();
        let bytes = shard.finish().collect::<Vec<_>>().concat();
        assert_eq!(bytes.len() as u64, held);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let offsets = [4, 8, 12, 16].map(word);
        assert_eq!((word(0), offsets[3]), (3, bytes.len() as u32));
        assert_eq!(
            offsets.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>(),
            [4, 7, 1004]
        );
        assert_eq!(bytes[20], b'{');
        assert_eq!(bytes[offsets[1] as usize..][..7], [3, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn an_index_that_is_not_read_is_not_written() {
        let layout = layout(&field(FieldKind::Int)).unwrap();
        let shards = |count: u64| (0..count).map(|n| (format!("shard.{n:05}.mds"), 1, 100));
        assert!(layout.index(shards(1000)).is_ok());
        let error = layout.index(shards(300_000)).unwrap_err().to_string();
        assert!(error.contains("the index of 300000 shards has"), "{error}");
    }
}
