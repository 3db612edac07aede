//! The error of every call of this crate.
//!
//! The causes are private types, each beside the code that it is about. A cause implements [`Cause`], and
//! `?` turns it into an [`Error`].

use crate::sample::SampleId;
use crate::threads::ThreadsError;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::{ParamError, TypeError};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

/// Any error, with its message: what closures and sources of users return.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// [`Display`](fmt::Display) shows the whole message in one line: what was found, where, what was expected and
/// what to do next. It includes the causes, so [`source`](StdError::source) returns only what the message
/// leaves out: the cause of an error that a function of the user returned. `Debug` shows the message too, so
/// that a `main` that returns a [`Result`] prints it.
///
/// ```
/// use fuseloop::{ErrorKind, Loader};
///
/// let error = Loader::open("missing.beton").err().expect("no such file");
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.path(), Some("missing.beton".as_ref()));
/// assert!(error.to_string().starts_with("missing.beton: "));
/// ```
pub struct Error(Box<dyn Cause>);

/// What an [`Error`] is about: what a program may branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file, a folder or an object does not exist.
    NotFound,
    /// The destination exists already.
    AlreadyExists,
    /// The system or the network could not read or write.
    Io,
    /// A file is not in the expected format, or is damaged as a whole.
    Format,
    /// A sample is damaged: it can't be read, decoded or written.
    Damaged,
    /// The build lacks a feature, or the dataset does not offer what was asked for.
    Unsupported,
    /// A parameter or a setting is invalid, or contradicts another one.
    Parameter,
    /// A list of ops does not fit its field.
    Pipeline,
    /// No field or output has this name or type, or the name is taken.
    Field,
    /// A cursor is damaged or belongs to another run.
    Cursor,
    /// More memory is needed than the system has, or than a limit allows.
    Memory,
    /// A GPU is not available or has failed.
    Device,
    /// Nothing was ready in time. The call can be repeated.
    Timeout,
    /// Threads can't be started, have ended, or belong to the process that this one was forked from.
    Threads,
    /// A function panicked.
    Panic,
    /// A function or a source of the user returned an error.
    Custom,
}

/// The cause of an [`Error`]. Its message includes those of the causes in it.
pub(crate) trait Cause: StdError + Send + Sync + 'static {
    /// Returns what the cause is about.
    fn details(&self) -> Details<'_>;
}

/// What a [`Cause`] is about.
pub(crate) struct Details<'a> {
    kind: ErrorKind,
    path: Option<&'a Path>,
    sample: Option<SampleId>,
    field: Option<&'a str>,
    offset: Option<u64>,
    custom: Option<&'a (dyn StdError + Send + Sync + 'static)>,
}

impl<'a> Details<'a> {
    pub(crate) fn of(kind: ErrorKind) -> Self {
        Self { kind, path: None, sample: None, field: None, offset: None, custom: None }
    }

    /// Returns the details of an error of the system.
    pub(crate) fn of_io(kind: io::ErrorKind) -> Self {
        Self::of(match kind {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::OutOfMemory => ErrorKind::Memory,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        })
    }

    /// Returns the details of an error that a function or a source of the user returned.
    pub(crate) fn of_custom(error: &'a BoxError) -> Self {
        match error.downcast_ref::<Error>() {
            Some(error) => error.details(),
            None => Self { custom: Some(&**error), ..Self::of(ErrorKind::Custom) },
        }
    }

    /// Sets the path, unless a cause further inside knows one.
    pub(crate) fn path(self, path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        Self { path: self.path.or(Some(path.as_ref())), ..self }
    }

    pub(crate) fn sample(self, sample: SampleId) -> Self {
        Self { sample: Some(sample), ..self }
    }

    pub(crate) fn field(self, field: &'a str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// Sets the offset, unless a cause further inside knows one.
    pub(crate) fn offset(self, offset: u64) -> Self {
        Self { offset: self.offset.or(Some(offset)), ..self }
    }
}

impl Error {
    /// Returns what the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.details().kind
    }

    /// Returns the file or folder that the error is about, or the address of an object.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.details().path
    }

    /// Returns the sample that the error is about.
    #[must_use]
    pub fn sample(&self) -> Option<SampleId> {
        self.0.details().sample
    }

    /// Returns the field or output that the error is about.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.details().field
    }

    /// Returns the position in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.details().offset
    }

    /// Returns the error that a function or a source of the user returned, to downcast it.
    #[must_use]
    pub fn get_ref(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.0.details().custom
    }

    /// Returns what the error is about, for a cause that contains it.
    pub(crate) fn details(&self) -> Details<'_> {
        self.0.details()
    }

    /// Returns the cause, if it has this type.
    pub(crate) fn cause<C: StdError + 'static>(&self) -> Option<&C> {
        let cause: &dyn StdError = &*self.0;
        cause.downcast_ref()
    }

    /// Wraps an error of which only the message is known.
    pub(crate) fn boxed(error: BoxError, kind: ErrorKind) -> Self {
        Self(Box::new(Boxed { error, kind }))
    }
}

/// Converts a cause: also [`ParamError`] and [`TypeError`] of ops,
/// [`TensorError`](crate::batch::TensorError) of batches and [`io::Error`].
impl<C: Cause> From<C> for Error {
    fn from(cause: C) -> Self {
        Self(Box::new(cause))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.details().custom?.source()
    }
}

/// An error of which only the message is known.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct Boxed {
    error: BoxError,
    kind: ErrorKind,
}

impl Cause for Boxed {
    fn details(&self) -> Details<'_> {
        match self.kind {
            ErrorKind::Custom => Details::of_custom(&self.error),
            kind => Details::of(kind),
        }
    }
}

impl Cause for ParamError {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Parameter)
    }
}

impl Cause for TypeError {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Pipeline)
    }
}

impl Cause for NoMemory {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Memory)
    }
}

impl Cause for ThreadsError {
    fn details(&self) -> Details<'_> {
        Details::of(match self {
            Self::TooMany { .. } => ErrorKind::Parameter,
            _ => ErrorKind::Threads,
        })
    }
}

impl Cause for io::Error {
    fn details(&self) -> Details<'_> {
        Details::of_io(self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Loader;
    use crate::order::{Ranks, Uneven};
    use crate::source::{
        Beton, Dataset, FieldKind, FieldSpec, Generator, OpenOptions, OwnedValue, Record, Source,
        Stream,
    };
    use fuseloop_ops::{OneHot, RandomHorizontalFlip, Squeeze, ops};
    use std::fs;
    use std::num::ParseIntError;

    /// Labels 0 to 3; reading one of them fails as `damage` says.
    struct Labels {
        fields: Vec<FieldSpec>,
        damage: fn(SampleId) -> Result<(), BoxError>,
    }

    impl Labels {
        fn new(damage: fn(SampleId) -> Result<(), BoxError>) -> Self {
            let label = FieldSpec { name: "label".to_owned(), kind: FieldKind::Int };
            Self { fields: vec![label], damage }
        }
    }

    impl Source for Labels {
        fn fields(&self) -> &[FieldSpec] {
            &self.fields
        }

        fn len(&self) -> u64 {
            4
        }

        fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
            (self.damage)(sample)?;
            Ok(vec![OwnedValue::Int(sample.0 as i64)])
        }

        fn name(&self) -> String {
            "labels".to_owned()
        }
    }

    /// An error of a user, with a cause that its message leaves out.
    #[derive(Debug, thiserror::Error)]
    #[error("no row")]
    struct NoRow(#[from] ParseIntError);

    fn refuse_the_third(sample: SampleId) -> Result<(), BoxError> {
        if sample.0 == 2 { Err(NoRow("x".parse::<i64>().unwrap_err()).into()) } else { Ok(()) }
    }

    fn first_error(damage: fn(SampleId) -> Result<(), BoxError>) -> Error {
        let loader = Loader::from_source(Labels::new(damage)).batch_size(2).build().unwrap();
        loader.epoch(0).unwrap().find_map(Result::err).unwrap()
    }

    /// The messages of an error and of its sources.
    fn chain(error: &Error) -> Vec<String> {
        let mut messages = vec![error.to_string()];
        let mut next = error.source();
        while let Some(error) = next {
            messages.push(error.to_string());
            next = error.source();
        }
        messages
    }

    fn labels() -> crate::LoaderBuilder {
        Loader::from_source(Labels::new(|_| Ok(())))
    }

    /// Errors of many calls, each with its kind.
    fn errors() -> Vec<(ErrorKind, Error)> {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("text.beton"), "hello, this is text and no dataset").unwrap();
        fs::create_dir(path("empty")).unwrap();
        let dataset = |name: &str| Dataset::open(path(name)).map(drop).unwrap_err();
        let generator = || Generator::new(1, 1);
        let failing = |ticket: u64| if ticket == 0 { Ok(Some(0)) } else { Err("no more") };
        let mut queue = generator().start(failing).unwrap();
        let gone = io::Error::from(io::ErrorKind::PermissionDenied);
        vec![
            (ErrorKind::NotFound, dataset("none.beton")),
            (ErrorKind::NotFound, dataset("none.tar")),
            (ErrorKind::NotFound, dataset("none-*.tar")),
            (ErrorKind::NotFound, dataset("none.tfrecord")),
            (ErrorKind::NotFound, dataset("none.csv")),
            (ErrorKind::Format, dataset("text.beton")),
            (ErrorKind::Format, dataset("empty")),
            (ErrorKind::Field, labels().without("x").build().err().unwrap()),
            (ErrorKind::Parameter, labels().batch_size(0).build().err().unwrap()),
            (ErrorKind::Parameter, Ranks::new(3, 2, Uneven::Pad).unwrap_err()),
            (ErrorKind::Cursor, "{}".parse::<crate::Cursor>().unwrap_err()),
            (ErrorKind::Parameter, Stream::concat([]).map(drop).unwrap_err()),
            (ErrorKind::Parameter, RandomHorizontalFlip::new(2.0).unwrap_err().into()),
            (ErrorKind::Pipeline, {
                let image = ops![RandomHorizontalFlip::new(0.5).unwrap()];
                labels().pipeline("label", image).build().err().unwrap()
            }),
            (ErrorKind::Damaged, {
                let classes = ops![OneHot::new(3).unwrap()];
                let loader = labels().pipeline("label", classes).batch_size(2).build().unwrap();
                loader.epoch(0).unwrap().find_map(Result::err).unwrap()
            }),
            (ErrorKind::Custom, first_error(refuse_the_third)),
            (ErrorKind::Custom, queue.find_map(Result::err).unwrap()),
            (ErrorKind::Parameter, Generator::new(0, 1).start(failing).unwrap_err()),
            (ErrorKind::Io, gone.into()),
        ]
    }

    #[test]
    fn a_chain_of_errors_says_each_thing_once() {
        for (kind, error) in errors() {
            let chain = chain(&error);
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(format!("{error:?}"), chain[0]);
            for (k, later) in chain.iter().enumerate() {
                let said = chain[..k].iter().any(|earlier| earlier.contains(later));
                assert!(!said, "{later:?} is said twice: {chain:?}");
            }
        }
    }

    #[test]
    fn the_error_of_a_user_is_in_the_message_and_its_cause_is_the_source() {
        let error = first_error(refuse_the_third);
        assert_eq!((error.sample(), error.field()), (Some(SampleId(2)), Some("label")));
        let cause = "invalid digit found in string";
        assert_eq!(chain(&error), ["batch 1: sample 2: labels (label): no row", cause]);
        assert!(error.get_ref().unwrap().is::<NoRow>());
    }

    #[test]
    fn an_error_of_a_call_survives_a_source_that_returns_it() {
        let fails = |_| {
            Beton::open("none.beton", &OpenOptions::default())?;
            Ok(())
        };
        let error = first_error(fails);
        assert_eq!((error.kind(), error.sample()), (ErrorKind::NotFound, Some(SampleId(0))));
        assert_eq!(error.path(), Some("none.beton".as_ref()));
        let boxed: BoxError = error.into();
        assert_eq!(Error::from(boxed).kind(), ErrorKind::NotFound);
    }

    #[test]
    fn ops_on_an_array_of_other_elements_name_the_types_that_they_take() {
        let dtype = "<u4".parse().unwrap();
        let kind = FieldKind::NdArray { dtype, shape: vec![2] };
        let fields = vec![FieldSpec { name: "mask".to_owned(), kind }];
        let source = Labels { fields, damage: |_| Ok(()) };
        let builder = Loader::from_source(source).pipeline("mask", ops![Squeeze]);
        let error = builder.build().err().unwrap();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Pipeline, Some("mask")));
        let text = "field mask: its elements are <u4, but ops take |u1, |b1, <i2, ";
        assert!(error.to_string().starts_with(text), "{error}");
    }
}
