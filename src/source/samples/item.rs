//! One item of a stream, and how it is read.

use super::{address, check_record};
use crate::sample::SampleId;
use crate::source::{
    BoxError, Buffer, FieldSpec, OwnedValue, Record, SampleLocation, Source, Value,
};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// One item of a stream.
///
/// ```
/// use fuseloop::source::stream::Item;
/// use fuseloop::source::{OwnedValue, SampleLocation};
/// use std::sync::Arc;
///
/// let location = Arc::new(SampleLocation::of_key("dog/1"));
/// let item = Item::Held { record: Arc::new(vec![OwnedValue::Int(7)]), location };
/// assert!(matches!(item.read()?[..], [OwnedValue::Int(7)]));
/// # Ok::<(), fuseloop::source::BoxError>(())
/// ```
#[derive(Clone)]
pub enum Item {
    /// A reference to a sample: the thread that needs it reads it.
    At {
        /// The source of the sample.
        source: Arc<dyn Source>,
        /// The sample's number in that source.
        sample: SampleId,
    },
    /// A record that is made, or found to be damaged, when it is read.
    #[doc(hidden)]
    Lazy(Arc<dyn LazyRecord>),
    /// A record from a source that can only be read in sequence.
    Held {
        /// The values of the record.
        record: Arc<Record>,
        /// The sample's location, which errors name.
        location: Arc<SampleLocation>,
    },
    /// An item of one of several combined streams.
    Of {
        /// The index of that stream.
        part: usize,
        /// The item.
        item: Arc<Self>,
    },
}

/// A record that is no sample of a source, and is made when it is read.
#[doc(hidden)]
pub trait LazyRecord: Send + Sync {
    /// Returns the fields of the record.
    fn fields(&self) -> &[FieldSpec];

    /// Makes the record.
    fn read(&self) -> Result<Record, BoxError>;

    /// Returns the name of the item for errors.
    fn name(&self) -> String;

    /// Returns where a value is from.
    fn locate(&self, field: usize) -> Option<SampleLocation>;
}

/// A record that can't be read, in a stream that goes on: reading it returns the error.
#[cfg(any(feature = "tar", feature = "tfrecord"))]
pub(in crate::source) struct UnreadableRecord {
    pub(in crate::source) fields: Arc<[FieldSpec]>,
    /// The name of the stream, or of the file.
    pub(in crate::source) name: String,
    pub(in crate::source) location: Arc<SampleLocation>,
    pub(in crate::source) error: crate::error::Error,
}

#[cfg(any(feature = "tar", feature = "tfrecord"))]
impl LazyRecord for UnreadableRecord {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn read(&self) -> Result<Record, BoxError> {
        Err(self.error.copy().into())
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn locate(&self, _: usize) -> Option<SampleLocation> {
        Some((*self.location).clone())
    }
}

/// An error of one item, together with the item's name.
#[derive(Debug)]
struct ItemError {
    item: String,
    error: BoxError,
}

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.item, self.error)
    }
}

impl Error for ItemError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.error)
    }
}

impl Item {
    /// Reads the values.
    ///
    /// # Errors
    ///
    /// If the item can't be read.
    pub fn read(&self) -> Result<Record, BoxError> {
        match self {
            Self::At { source, sample } => {
                source.read(*sample).map_err(|error| self.refused(error))
            }
            Self::Lazy(record) => record.read().map_err(|error| self.refused(error)),
            Self::Held { record, .. } => Ok(Record::clone(record)),
            Self::Of { item, .. } => item.read(),
        }
    }

    /// Reads the values like [`read`](Self::read), but moves the record out if no other item shares it.
    pub(in crate::source) fn into_record(self) -> Result<Record, BoxError> {
        match self {
            Self::Held { record, .. } => Ok(Arc::unwrap_or_clone(record)),
            item => item.read(),
        }
    }

    /// Labels the item with its component's index. The label replaces an earlier one: only the last
    /// combinator counts.
    pub(crate) fn of_component(self, part: usize) -> Self {
        let item = match self {
            Self::Of { item, .. } => item,
            item => Arc::new(item),
        };
        Self::Of { part, item }
    }

    /// The index of the component that the item belongs to; 0 if its stream has no components.
    ///
    /// # Errors
    ///
    /// If the index is known only to the item's source, and the source can't read it.
    #[doc(hidden)]
    pub fn component(&self) -> Result<usize, BoxError> {
        match self {
            Self::Of { part, .. } => Ok(*part),
            Self::At { source, sample } => source.component(*sample, &mut Buffer::default()),
            Self::Lazy(_) | Self::Held { .. } => Ok(0),
        }
    }

    /// Reads the item and returns it with its record.
    ///
    /// # Errors
    ///
    /// If the item can't be read.
    #[doc(hidden)]
    pub fn held(&self) -> Result<Self, BoxError> {
        match self {
            Self::Held { .. } => Ok(self.clone()),
            Self::At { .. } | Self::Lazy(_) => {
                let location = self.locate(0).map(SampleLocation::of_sample);
                let location = location.unwrap_or_else(|| SampleLocation::of_key(self.name()));
                let record = Arc::new(self.read()?);
                let held = Self::Held { record, location: Arc::new(location) };
                Ok(match self {
                    Self::At { source, .. } if source.components() > 1 => {
                        held.of_component(self.component()?)
                    }
                    _ => held,
                })
            }
            Self::Of { part, item } => Ok(Self::Of { part: *part, item: Arc::new(item.held()?) }),
        }
    }

    /// Returns the item without its record: only its name and its location.
    pub(in crate::source) fn without_record(&self) -> Self {
        match self {
            Self::At { .. } | Self::Lazy(_) => self.clone(),
            Self::Held { location, .. } => {
                Self::Held { record: Arc::default(), location: Arc::clone(location) }
            }
            Self::Of { part, item } => {
                Self::Of { part: *part, item: Arc::new(item.without_record()) }
            }
        }
    }

    /// The values, if the item holds its record.
    pub(in crate::source) fn record(&self) -> Option<&Record> {
        match self {
            Self::At { .. } | Self::Lazy(_) => None,
            Self::Held { record, .. } => Some(record),
            Self::Of { item, .. } => item.record(),
        }
    }

    /// The item's name in error messages: its source, and its number or key there.
    #[doc(hidden)]
    pub fn name(&self) -> String {
        match self {
            Self::Held { location, .. } => location.to_string(),
            Self::Of { item, .. } => item.name(),
            Self::Lazy(record) => record.name(),
            // The only sample of a source needs no number.
            Self::At { source, .. } if source.len() == 1 => source.name().to_owned(),
            Self::At { source, sample } => match source.locate(*sample, 0) {
                Some(location) if location.key.is_some() => location.to_string(),
                _ => format!("{}: sample {sample}", source.name()),
            },
        }
    }

    /// The location where the item is stored; see [`Source::locate`].
    pub(in crate::source) fn locate(&self, field: usize) -> Option<SampleLocation> {
        match self {
            Self::At { source, sample } => source.locate(*sample, field),
            Self::Lazy(record) => record.locate(field),
            Self::Held { location, .. } => Some((**location).clone()),
            Self::Of { item, .. } => item.locate(field),
        }
    }

    /// Reads one field: borrowed from the item or the source, or decoded into `buffer`.
    pub(in crate::source) fn value<'a>(
        &'a self,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        match self {
            Self::At { source, sample } => {
                source.value(*sample, field, buffer).map_err(|error| self.refused(error))
            }
            Self::Lazy(record) => {
                let of = (address(&**record), SampleId(0));
                let loaded = buffer.load_record(of, record.fields(), || record.read());
                loaded.map_err(|error| self.refused(error))?;
                buffer.record_value(field).ok_or_else(|| no_field(field))
            }
            Self::Held { record, .. } => {
                record.get(field).map(OwnedValue::borrowed).ok_or_else(|| no_field(field))
            }
            Self::Of { item, .. } => item.value(field, buffer),
        }
    }

    /// Refuses an item whose fields differ from `fields`: a user's own stream may be wrong.
    pub(in crate::source) fn check(&self, fields: &[FieldSpec]) -> Result<(), BoxError> {
        match self {
            Self::Held { record, .. } => {
                check_record(record, fields).map_err(|error| self.refused(error))
            }
            Self::At { source, .. } => self.check_fields(source.fields(), fields),
            Self::Lazy(record) => self.check_fields(record.fields(), fields),
            Self::Of { item, .. } => item.check(fields),
        }
    }

    fn check_fields(&self, own: &[FieldSpec], fields: &[FieldSpec]) -> Result<(), BoxError> {
        if std::ptr::eq(own, fields) || own == fields {
            return Ok(());
        }
        Err(self.refused("its fields are not those of the stream".into()))
    }

    /// Adds the item's name to an error, unless the message names it already.
    fn refused(&self, error: BoxError) -> BoxError {
        let says_where = || {
            let message = error.to_string();
            let is_named = match self {
                Self::At { source, .. } => message.starts_with(source.name()),
                Self::Lazy(record) => message.starts_with(&record.name()),
                _ => return false,
            };
            is_named || self.locate(0).is_some_and(|location| location.is_named_by(&message))
        };
        if error.is::<ItemError>() || says_where() {
            return error;
        }
        Box::new(ItemError { item: self.name(), error })
    }
}

fn no_field(field: usize) -> BoxError {
    format!("field {field} does not exist").into()
}
