//! Datasets without a type of their own: columns in memory, and a function that returns records.

use super::columnar::{Columnar, Values};
use super::samples::value_of_record;
use super::shared_values::EvenValues;
use super::{
    BoxError, Buffer, ClassNames, Facts, FieldKind, Fingerprint, NdType, OwnedImage, Record,
    Source, StoredValues, Value,
};
use crate::error::{Error, fail};
use crate::sample::SampleId;
use fuseloop_ops::Size;
use fuseloop_ops::internals::RGB;
use std::fmt;
use std::mem;

/// A dataset of columns in memory, or of a function that returns records.
///
/// ```
/// use fuseloop::source::{BoxError, Column, Facts, FieldKind, InMemory, OwnedValue};
/// use fuseloop::Loader;
///
/// let pixels = vec![7; 100 * 28 * 28];
/// let digits = InMemory::new([
///     ("image", Column::arrays("|u1".parse()?, &[28, 28], pixels)),
///     ("label", Column::ints((0..100).map(|sample| sample % 10))),
/// ])?;
/// let batch = Loader::from_source(digits).batch_size(25).build()?.epoch(0)?.next().ok_or("no batch")??;
/// assert_eq!(batch.tensor::<u8>("image")?.shape(), [25, 28, 28]);
///
/// let facts = Facts::new([("square", FieldKind::Int)], 1000);
/// let squares = InMemory::from_fn(facts, |sample| {
///     let root = i64::try_from(sample.0)?;
///     Ok(vec![OwnedValue::Int(root * root)])
/// });
/// assert_eq!(Loader::from_source(squares).batch_size(10).build()?.epoch(0)?.count(), 100);
/// # Ok::<(), BoxError>(())
/// ```
pub struct InMemory {
    /// Without columns if there is a function.
    columns: Columnar,
    function: Option<Function>,
}

type Function = Box<dyn Fn(SampleId) -> Result<Record, BoxError> + Send + Sync>;

/// The values of one field of a dataset in memory; see [`InMemory`].
///
/// ```
/// use fuseloop::source::{Column, OwnedImage};
///
/// let labels = Column::ints([3, 1, 2]);
/// let points = Column::arrays("<f4".parse()?, &[17, 2], vec![0; 3 * 17 * 2 * 4]);
/// let images = Column::images(vec![OwnedImage::rgb(8, vec![0; 8 * 8 * 3]); 3]);
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub struct Column(Values, Option<usize>);

impl Column {
    /// Returns a column of whole numbers.
    #[must_use]
    pub fn ints(values: impl IntoIterator<Item = i64>) -> Self {
        Self::of(Values::Ints(values.into_iter().collect()))
    }

    /// Returns a column of floats.
    #[must_use]
    pub fn floats(values: impl IntoIterator<Item = f64>) -> Self {
        Self::of(Values::Floats(values.into_iter().collect()))
    }

    /// Returns a column of images.
    #[must_use]
    pub fn images(images: Vec<OwnedImage>) -> Self {
        Self::of(Values::Images(images))
    }

    /// Returns a column of image files, such as JPEGs, without a copy of them. They may be in different formats.
    ///
    /// ```
    /// use fuseloop::source::Column;
    ///
    /// let photographs: Vec<std::sync::Arc<[u8]>> = vec![];
    /// let column = Column::encoded(photographs);
    /// ```
    #[must_use]
    pub fn encoded<B: AsRef<[u8]> + Send + Sync + 'static>(files: Vec<B>) -> Self {
        Self::of(Values::Encoded(Box::new(files)))
    }

    /// Returns a column of bytes of any length that stay where they are.
    #[doc(hidden)]
    #[must_use]
    pub fn shared_bytes<B: AsRef<[u8]> + Send + Sync + 'static>(values: Vec<B>) -> Self {
        Self::of(Values::Shared(Box::new(values)))
    }

    /// Returns a column of RGB images of one size, whose `height * width * 3` bytes lie one after another. One number as
    /// the size is a square. The memory is read where it is, and not copied.
    #[must_use]
    pub fn rgb(size: impl Into<Size>, pixels: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::of(Values::Pixels(size.into(), EvenValues::new(pixels)))
    }

    /// Returns a column of bytes of any length.
    #[must_use]
    pub fn bytes<B: AsRef<[u8]>>(values: impl IntoIterator<Item = B>) -> Self {
        Self::of(Values::Bytes(values.into_iter().collect()))
    }

    /// Returns a column of arrays of one shape, whose elements lie one after another in C order. The memory is read where
    /// it is, and not copied.
    #[must_use]
    pub fn arrays(
        dtype: NdType,
        shape: &[u64],
        elements: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Self {
        let kind = FieldKind::NdArray { dtype, shape: shape.to_vec() };
        Self::of(Values::Arrays(kind, EvenValues::new(elements)))
    }

    /// Says where the values of a column of [`rgb`](Self::rgb) or [`arrays`](Self::arrays) lie in its memory: the byte
    /// of the first, the distance of two in bytes, and their number.
    #[doc(hidden)]
    #[must_use]
    pub fn at_distance(mut self, start: usize, distance: isize, count: usize) -> Self {
        if let Values::Pixels(_, values) | Values::Arrays(_, values) = &mut self.0 {
            values.place(start, distance);
            self.1 = Some(count);
        }
        self
    }

    fn of(values: Values) -> Self {
        Self(values, None)
    }

    /// Returns the number of values.
    fn len(&self, name: &str) -> Result<usize, Error> {
        let (each, values) = match &self.0 {
            Values::Floats(values) => return Ok(values.len()),
            Values::Images(images) => return Ok(images.len()),
            Values::Bytes(values) => return Ok(values.len()),
            Values::Encoded(values) | Values::Shared(values) => return Ok(values.count()),
            Values::Pixels(size, values) => (size.pixels().checked_mul(RGB as u64), Some(values)),
            Values::Arrays(kind, values) => (kind.array_bytes(), Some(values)),
            Values::Ints(values) => return Ok(values.len()),
            _ => (None, None),
        };
        let bytes = values.map_or(0, EvenValues::bytes) as u64;
        if let (Some(count), Some(each), Some(values)) = (self.1, each, values) {
            if values.holds(count, each) {
                return Ok(count);
            }
            return Err(fail!(Parameter, "column {name}: {bytes} bytes do not hold its values")
                .of_field(name));
        }
        let each = each.filter(|&each| each > 0 && bytes.is_multiple_of(each));
        let each = each.ok_or_else(|| {
            let kind = self.0.kind();
            let what = if kind.is_image() { "images of this size" } else { "arrays" };
            fail!(
                Parameter,
                "column {name}: {bytes} bytes are not a whole number of {what} of the kind {}",
                kind.described()
            )
            .of_field(name)
        })?;
        Ok((bytes / each) as usize)
    }
}

impl InMemory {
    /// Returns a dataset of columns, by their names.
    ///
    /// # Errors
    ///
    /// Fails if there is no column, if two have the same name or another number of values, or if the elements of a column
    /// are not a whole number of arrays.
    pub fn new<N: Into<String>>(
        columns: impl IntoIterator<Item = (N, Column)>,
    ) -> Result<Self, Error> {
        let (mut named, mut samples) = (Vec::<(String, Column)>::new(), None);
        for (name, column) in columns {
            let name = name.into();
            if named.iter().any(|(other, _)| *other == name) {
                return Err(fail!(Field, "two columns have the name {name}").of_field(&name));
            }
            let len = column.len(&name)?;
            let first = *samples.get_or_insert(len);
            if len != first {
                let wanted = format_args!("expected {first} as in the first column");
                return Err(
                    fail!(Parameter, "column {name}: {len} values, {wanted}").of_field(&name)
                );
            }
            named.push((name, column));
        }
        let samples = samples.ok_or_else(|| fail!(Parameter, "no columns, expected 1 or more"))?;
        let columns =
            named.iter_mut().map(|(name, column)| (&**name, mem::take(&mut column.0).into()));
        let mut columns = Columnar::new(columns.collect(), samples as u64, vec![]);
        let mut print = Fingerprint::default();
        print.text("in memory");
        print.fields(&columns.facts.fields);
        columns.hash_values(&mut print);
        columns.facts.name = "the columns".to_owned();
        columns.facts.fingerprint = print.value();
        Ok(Self { columns, function: None })
    }

    /// Returns a dataset whose records are those that `read` returns for a sample, with the fields of `facts` in their
    /// order. It is called by several threads at once, and must return the same values each time.
    #[must_use]
    pub fn from_fn(
        facts: Facts,
        read: impl Fn(SampleId) -> Result<Record, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let columns = Columnar { facts, ..Columnar::new(vec![], 0, vec![]) };
        Self { columns, function: Some(Box::new(read)) }
    }

    /// Sets the name, which errors show.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.columns.facts.name = name.into();
        self
    }

    /// Sets the names of the classes.
    #[must_use]
    pub fn with_class_names(mut self, names: ClassNames) -> Self {
        self.columns.facts = self.columns.facts.with_class_names(move || Ok(Some(names.clone())));
        self
    }
}

impl Source for InMemory {
    fn facts(&self) -> &Facts {
        &self.columns.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.function.as_ref().map_or_else(|| self.columns.read(sample), |read| read(sample))
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        match self.function {
            Some(_) => value_of_record(self, sample, field, buffer),
            None => self.columns.value(sample, field, buffer),
        }
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        self.function.is_none().then_some(&self.columns)
    }
}

/// Shows no values.
impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").field("facts", self.facts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::OwnedValue;

    #[test]
    fn columns_are_read_in_any_order() {
        let image = |level| OwnedImage::rgb((1, 2), vec![level; 6]);
        let source = InMemory::new([
            ("image", Column::images(vec![image(1), image(2)])),
            ("rgb", Column::rgb((1, 2), [[1; 6], [2; 6]].concat())),
            ("n", Column::ints([7, 8])),
            ("x", Column::floats([0.5, 1.5])),
            ("text", Column::bytes(["a", "bcd"])),
            ("pair", Column::arrays(NdType::BYTE, &[2], vec![1, 2, 3, 4])),
        ]);
        let source = source.unwrap();
        let record = vec![
            OwnedValue::Image(image(2)),
            OwnedValue::Image(image(2)),
            OwnedValue::Int(8),
            OwnedValue::Float(1.5),
            OwnedValue::Bytes(b"bcd".to_vec()),
            OwnedValue::NdArray(vec![3, 4]),
        ];
        assert_eq!(source.read(SampleId(1)).unwrap(), record);
        let mut buffer = Buffer::default();
        for (field, value) in record.iter().enumerate() {
            assert_eq!(source.value(SampleId(1), field, &mut buffer).unwrap(), value.borrowed());
            let stored = source.stored().unwrap();
            assert_eq!(stored.value_in_memory(SampleId(1), field), Some(value.borrowed()));
        }
        let facts = source.facts();
        assert_eq!(facts.image_stats(0).unwrap().uniform(), Some(Size::new(1, 2)));
        assert_eq!(facts.image_stats(0), facts.image_stats(1));
        assert_eq!((facts.longest(4), facts.longest(5), facts.samples), (Some(3), None, 2));
        let error = source.read(SampleId(2)).unwrap_err().to_string();
        assert_eq!(error, "no such sample: the dataset has 2");
        assert!(source.value(SampleId(0), 6, &mut buffer).is_err());
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        let message = |columns: Vec<(&str, Column)>| {
            InMemory::new(columns).err().map(|error| error.to_string()).unwrap()
        };
        assert_eq!(message(vec![]), "no columns, expected 1 or more");
        let error = message(vec![("a", Column::ints([1])), ("b", Column::ints([1, 2]))]);
        assert_eq!(error, "column b: 2 values, expected 1 as in the first column");
        let error = message(vec![("a", Column::ints([1])), ("a", Column::ints([1]))]);
        assert_eq!(error, "two columns have the name a");
        let arrays = |shape| message(vec![("a", Column::arrays(NdType::F32, shape, vec![0; 9]))]);
        assert!(arrays(&[3]).starts_with("column a: 9 bytes are not a whole number of arrays"));
        assert!(arrays(&[0]).starts_with("column a: 9 bytes are not a whole number of arrays"));
        let error = message(vec![("a", Column::rgb(2, vec![0; 13]))]);
        assert!(
            error.starts_with("column a: 13 bytes are not a whole number of images"),
            "{error}"
        );
    }

    #[test]
    fn other_values_have_another_fingerprint() {
        let print = |last| {
            let columns = [("n", Column::ints([1, last]))];
            InMemory::new(columns).unwrap().facts().fingerprint
        };
        assert_eq!(print(2), print(2));
        assert_ne!(print(2), print(3));
    }
}
