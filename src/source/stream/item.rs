//! One item of a stream, and reading it.

use crate::sample::SampleId;
use crate::source::samples::check_record;
use crate::source::{BoxError, Buffer, FieldSpec, OwnedValue, Record, Source, Value};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// One item of a stream.
#[derive(Clone)]
pub enum Item {
    /// A place: read when it is needed, by whoever needs it.
    At {
        /// What it is of.
        source: Arc<dyn Source>,
        /// Where.
        sample: SampleId,
    },
    /// A record that could only be had in sequence.
    Held {
        /// Its values.
        record: Arc<Record>,
        /// What it is called in errors.
        key: Arc<str>,
    },
}

/// What is wrong with one item, and what it is called where it is from.
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
    /// Its values.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub fn read(&self) -> Result<Record, BoxError> {
        match self {
            Self::At { source, sample } => {
                source.read(*sample).map_err(|error| self.refused(error))
            }
            Self::Held { record, .. } => Ok(Record::clone(record)),
        }
    }

    /// The same item, read: held from here on.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub fn held(&self) -> Result<Self, BoxError> {
        match self {
            Self::Held { .. } => Ok(self.clone()),
            Self::At { .. } => {
                Ok(Self::Held { record: Arc::new(self.read()?), key: self.name().into() })
            }
        }
    }

    /// What it is called in errors: where it is from, and its place or key there.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Held { key, .. } => key.to_string(),
            // The only one there is needs no number.
            Self::At { source, .. } if source.len() == 1 => source.name(),
            Self::At { source, sample } => match source.key(*sample) {
                Some(key) => format!("{}: sample {sample} ({key})", source.name()),
                None => format!("{}: sample {sample}", source.name()),
            },
        }
    }

    /// One field: lent, or in `buffer`.
    pub(in crate::source) fn value<'a>(
        &'a self,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        match self {
            Self::At { source, sample } => {
                source.value(*sample, field, buffer).map_err(|error| self.refused(error))
            }
            Self::Held { record, .. } => record
                .get(field)
                .map(OwnedValue::borrowed)
                .ok_or_else(|| format!("it has no field {field}").into()),
        }
    }

    /// Refuses an item that is not of these fields: a stream of the user's own may be mistaken.
    pub(in crate::source) fn check(&self, fields: &[FieldSpec]) -> Result<(), BoxError> {
        match self {
            Self::Held { record, .. } => {
                check_record(record, fields).map_err(|error| self.refused(error))
            }
            Self::At { source, .. }
                if std::ptr::eq(source.fields(), fields) || source.fields() == fields =>
            {
                Ok(())
            }
            Self::At { .. } => Err(self.refused("its fields are not those of the stream".into())),
        }
    }

    /// With the item's name, once.
    fn refused(&self, error: BoxError) -> BoxError {
        if error.is::<ItemError>() {
            return error;
        }
        Box::new(ItemError { item: self.name(), error })
    }
}
