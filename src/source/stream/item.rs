//! One item of a stream, and reading it.

use crate::sample::SampleId;
use crate::source::samples::check_record;
use crate::source::{
    BoxError, Buffer, FieldSpec, OwnedValue, Record, SampleLocation, Source, Value,
};
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
        /// Where it is from: what errors call it.
        location: Arc<SampleLocation>,
    },
    /// An item of one of several streams that were put together.
    Of {
        /// Which of them, by its place in the list.
        part: usize,
        /// The item.
        item: Arc<Self>,
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
            Self::Of { item, .. } => item.read(),
        }
    }

    /// As [`read`](Self::read), without a copy of a record that nobody else has.
    pub(super) fn into_record(self) -> Result<Record, BoxError> {
        match self {
            Self::Held { record, .. } => Ok(Arc::unwrap_or_clone(record)),
            item => item.read(),
        }
    }

    /// The same item, of this part of what it now is in. What it was a part of before is no more
    /// told: the last list that it came through counts.
    #[must_use]
    pub fn of_part(self, part: usize) -> Self {
        let item = match self {
            Self::Of { item, .. } => item,
            item => Arc::new(item),
        };
        Self::Of { part, item }
    }

    /// Which part of its stream it is of: 0, if that has no parts.
    ///
    /// # Errors
    ///
    /// If that is known from what it is read of, and this can't be read.
    pub fn part(&self) -> Result<usize, BoxError> {
        match self {
            Self::Of { part, .. } => Ok(*part),
            Self::At { source, sample } => source.part(*sample, &mut Buffer::default()),
            Self::Held { .. } => Ok(0),
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
            Self::At { source, .. } => {
                let location = self.locate(0).map(SampleLocation::of_sample);
                let location = location.unwrap_or_else(|| SampleLocation::of_key(self.name()));
                let record = Arc::new(self.read()?);
                let held = Self::Held { record, location: Arc::new(location) };
                Ok(if source.parts() > 1 { held.of_part(self.part()?) } else { held })
            }
            Self::Of { part, item } => Ok(Self::Of { part: *part, item: Arc::new(item.held()?) }),
        }
    }

    /// The same without what was read: for its name and its location.
    pub(super) fn without_record(&self) -> Self {
        match self {
            Self::At { .. } => self.clone(),
            Self::Held { location, .. } => {
                Self::Held { record: Arc::default(), location: Arc::clone(location) }
            }
            Self::Of { part, item } => {
                Self::Of { part: *part, item: Arc::new(item.without_record()) }
            }
        }
    }

    /// Its values, if it is held.
    pub(super) fn record(&self) -> Option<&Record> {
        match self {
            Self::At { .. } => None,
            Self::Held { record, .. } => Some(record),
            Self::Of { item, .. } => item.record(),
        }
    }

    /// What it is called in errors: where it is from, and its place or key there.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Held { location, .. } => location.to_string(),
            Self::Of { item, .. } => item.name(),
            // The only one there is needs no number.
            Self::At { source, .. } if source.len() == 1 => source.name(),
            Self::At { source, sample } => match source.locate(*sample, 0) {
                Some(location) if location.key.is_some() => location.to_string(),
                _ => format!("{}: sample {sample}", source.name()),
            },
        }
    }

    /// Where it is stored; see [`Source::locate`].
    pub(super) fn locate(&self, field: usize) -> Option<SampleLocation> {
        match self {
            Self::At { source, sample } => source.locate(*sample, field),
            Self::Held { location, .. } => Some((**location).clone()),
            Self::Of { item, .. } => item.locate(field),
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
            Self::Of { item, .. } => item.value(field, buffer),
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
            Self::Of { item, .. } => item.check(fields),
        }
    }

    /// With the item's name, once.
    fn refused(&self, error: BoxError) -> BoxError {
        let says_where = || match self {
            Self::At { source, sample } => {
                let message = error.to_string();
                let location = source.locate(*sample, 0);
                message.starts_with(&source.name())
                    || location.is_some_and(|location| location.is_named_by(&message))
            }
            _ => false,
        };
        if error.is::<ItemError>() || says_where() {
            return error;
        }
        Box::new(ItemError { item: self.name(), error })
    }
}
