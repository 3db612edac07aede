//! The error of every call of this crate.
//!
//! An error is made where the fault is seen, with the macro [`fail!`], and callers add what they know; what a deeper call
//! has set stays:
//!
//! ```ignore
//! return Err(fail!(Format, "no allocation table: the file was not finished by its writer"));
//! // The caller knows the file, and shows it before the text: `train.beton: byte 24: no allocation table: ...`
//! .map_err(|error| error.at(path).byte(24))?
//! ```
//!
//! The sentences of all `fail!` stand in `tests/golden/errors.txt`, where they can be read as prose. An error has a type of
//! its own only where code reads its data. Such a type implements [`Cause`], and `?` turns it into an [`Error`].

use crate::escape::Escaped;
use crate::sample::SampleId;
use crate::threads::ThreadsError;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::{ParamError, TypeError};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Any error, with its message: what closures and sources of users return.
pub use fuseloop_ops::author::BoxError;

/// A result of a call of this crate.
///
/// ```
/// fn classes(path: &str) -> fuseloop::Result<usize> {
///     Ok(fuseloop::Loader::open(path)?.build()?.classes()?.iter().len())
/// }
/// assert!(classes("no/such/folder").is_err());
/// ```
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
pub struct Error(Box<Inner>);

/// Creates an [`Error`] of a kind from a text, which is written as that of `format!`. Control characters of the text are
/// escaped.
macro_rules! fail {
    ($kind:ident, $($text:tt)+) => {
        $crate::error::Error::new($crate::error::ErrorKind::$kind, format_args!($($text)+))
    };
}
pub(crate) use fail;

struct Inner {
    kind: ErrorKind,
    text: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    /// True if the text does not name the path, so that it is shown before the text.
    shows_path: bool,
    /// True if the text does not name the offset, so that it is shown before the text.
    shows_offset: bool,
    /// True if the text names neither the sample nor the field, so that they are shown before the text.
    shows_value: bool,
    sample: Option<SampleId>,
    field: Option<String>,
    help: Option<&'static str>,
    /// The index of an op in its list.
    op: Option<usize>,
    lacks_memory: bool,
    damage: Option<Damage>,
    is_not_damage: bool,
    /// The error of a user's function, if no `cause` has it.
    custom: Option<BoxError>,
    /// The cause, if it has a type of its own.
    cause: Option<Box<dyn Cause>>,
}

/// The kind of an [`Error`], on which a program may branch.
///
/// ```
/// use fuseloop::{ErrorKind, Loader};
///
/// let error = Loader::open("no/such/file.beton").err().unwrap();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// ```
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
    /// All the memory for batches is held by batches and tensors that the program has kept.
    BatchesHeld,
    /// Threads can't be started, have ended, or belong to the process that this one was forked from.
    Threads,
    /// A function panicked.
    Panic,
    /// The call was cancelled from another thread.
    Cancelled,
    /// A function or a source of the user returned an error.
    Custom,
}

/// The kinds of damage of an image, and of a value that can't be read, that reports distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The bytes of the image end too soon.
    Cut,
    /// It has more pixels or bytes than the limits allow.
    OverLimit,
    /// It is intact, but of a kind that is not decoded, or not in this mode.
    Unsupported,
    /// It has another format, or none.
    OtherFormat,
    /// The cell of the value in the sample table has impossible contents.
    Cell,
    /// The pointer to the value leads outside the data, or to a position where no value begins.
    Pointer,
    /// The file ends before the value does.
    FileCut,
    /// The number of bytes is not the one that the sample table describes.
    OtherSize,
    /// The system could not read the value.
    Unreadable,
    /// The part that the dataset has of a video has no frame.
    Part,
}

/// The cause of an [`Error`]. Its message includes those of the causes in it.
pub(crate) trait Cause: StdError + Send + Sync + 'static {
    /// Returns what the cause is about.
    fn details(&self) -> Details<'_>;
}

/// The kind of a [`Cause`], and the file, sample, field and offset that it is about.
pub(crate) struct Details<'a> {
    kind: ErrorKind,
    path: Option<&'a Path>,
    sample: Option<SampleId>,
    field: Option<&'a str>,
    offset: Option<u64>,
    help: Option<&'static str>,
    custom: Option<&'a (dyn StdError + Send + Sync + 'static)>,
    /// True if the system has no memory: the data may be intact.
    lacks_memory: bool,
}

impl<'a> Details<'a> {
    pub(crate) fn of(kind: ErrorKind) -> Self {
        Self {
            kind,
            path: None,
            sample: None,
            field: None,
            offset: None,
            help: None,
            custom: None,
            lacks_memory: false,
        }
    }

    /// Returns the details of an error of a system without memory.
    pub(crate) fn no_memory() -> Self {
        Self { lacks_memory: true, ..Self::of(ErrorKind::Memory) }
    }

    /// Returns the details of an error of the system.
    pub(crate) fn of_io(kind: io::ErrorKind) -> Self {
        if kind == io::ErrorKind::OutOfMemory {
            return Self::no_memory();
        }
        Self::of(match kind {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
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

    /// Sets the error of the user among an error and its causes; the kind stays.
    pub(crate) fn custom(self, error: &'a BoxError) -> Self {
        Self { custom: Self::of_custom(error).custom, ..self }
    }

    /// Returns true if the system has no memory, which does not mean that the sample is damaged.
    #[cfg(any(test, feature = "write"))]
    pub(crate) fn lacks_memory(&self) -> bool {
        self.lacks_memory
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

    /// Sets what the user can do in the command line.
    pub(crate) fn help(self, help: &'static str) -> Self {
        Self { help: self.help.or(Some(help)), ..self }
    }

    /// Sets the offset, unless a cause further inside knows one.
    #[cfg(feature = "spec")]
    pub(crate) fn offset(self, offset: u64) -> Self {
        Self { offset: self.offset.or(Some(offset)), ..self }
    }
}

/// These functions say where a fault is. Each keeps what a deeper call has set.
impl Error {
    /// Creates an error; [`fail!`] is shorter.
    pub(crate) fn new(kind: ErrorKind, text: fmt::Arguments<'_>) -> Self {
        let text = match text.as_str() {
            Some(text) => text.to_owned(),
            None => Escaped(&text.to_string()).to_string(),
        };
        Self::of_text(kind, text)
    }

    fn of_text(kind: ErrorKind, text: String) -> Self {
        Self(Box::new(Inner {
            kind,
            text,
            path: None,
            offset: None,
            shows_path: false,
            shows_offset: false,
            shows_value: false,
            sample: None,
            field: None,
            help: None,
            op: None,
            lacks_memory: false,
            damage: None,
            is_not_damage: false,
            custom: None,
            cause: None,
        }))
    }

    /// Converts an error; `kind` is that of types unknown to this crate, of which only the message is known.
    pub(crate) fn boxed(error: BoxError, kind: ErrorKind) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        let error = match error.downcast::<ThreadsError>() {
            Ok(error) => return (*error).into(),
            Err(error) => error,
        };
        let error = match error.downcast::<io::Error>() {
            Ok(error) => return (*error).into(),
            Err(error) => error,
        };
        Self::unknown(error, kind)
    }

    fn unknown(error: BoxError, kind: ErrorKind) -> Self {
        let mut created = Self::of_text(kind, error.to_string());
        created.0.custom = (kind == ErrorKind::Custom).then_some(error);
        created
    }

    /// Wraps the error that a function of the user returned.
    pub(crate) fn of_user(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => Self::unknown(error, ErrorKind::Custom),
        }
    }

    /// Sets the file or folder, or the address of an object. It is shown before the text.
    pub(crate) fn at(mut self, path: impl AsRef<Path>) -> Self {
        if self.0.path.is_none() {
            self.0.path = Some(path.as_ref().to_owned());
            self.0.shows_path = true;
        }
        self
    }

    /// Sets the offset in the file. It is shown before the text, after the path.
    pub(crate) fn byte(mut self, offset: u64) -> Self {
        if self.0.offset.is_none() {
            self.0.offset = Some(offset);
            self.0.shows_offset = true;
        }
        self
    }

    /// Sets the file, folder or address that the text names already.
    pub(crate) fn named_path(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// Sets the offset that the text names already.
    pub(crate) fn named_byte(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Sets the sample. It is not shown.
    pub(crate) fn of_sample(mut self, sample: SampleId) -> Self {
        self.0.sample.get_or_insert(sample);
        self
    }

    /// Sets the sample and the field whose value can't be read. They are shown before the text.
    pub(crate) fn of_value(mut self, sample: SampleId, field: &str) -> Self {
        self.0.shows_value = true;
        self.of_sample(sample).of_field(field)
    }

    /// Sets the field or output. It is not shown.
    pub(crate) fn of_field(mut self, field: &str) -> Self {
        self.0.field.get_or_insert_with(|| field.to_owned());
        self
    }

    /// Sets what the user can do in the command line: `fuseloop` prints it after `help:`.
    pub(crate) fn help(mut self, help: &'static str) -> Self {
        self.0.help.get_or_insert(help);
        self
    }

    /// Sets the index of the op in its list, from 0. It is not shown.
    pub(crate) fn of_op(mut self, index: usize) -> Self {
        self.0.op.get_or_insert(index);
        self
    }

    /// Replaces the kind: a caller knows better what an error means for the user.
    pub(crate) fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Sets what is wrong with an image or a value.
    pub(crate) fn damage(mut self, damage: Damage) -> Self {
        self.0.damage = Some(damage);
        self
    }

    /// Marks an error that no other sample avoids: of a function of the user, or of a setting.
    pub(crate) fn not_damage(mut self) -> Self {
        self.0.is_not_damage = true;
        self
    }

    /// Replaces the kind by that of an error of the system.
    pub(crate) fn of_system(self, kind: io::ErrorKind) -> Self {
        let Details { kind, lacks_memory, .. } = Details::of_io(kind);
        let error = self.of_kind(kind);
        if lacks_memory { error.out_of_memory() } else { error }
    }

    /// Marks an error of a system without memory: the data may be intact.
    pub(crate) fn out_of_memory(mut self) -> Self {
        self.0.lacks_memory = true;
        self
    }

    /// Puts what a caller was doing, and a colon, before the message.
    pub(crate) fn context(self, doing: fmt::Arguments<'_>) -> Self {
        let text = format!("{}: {self}", Escaped(&doing.to_string()));
        self.reworded(text)
    }

    /// Replaces the message, with all that is shown before the text, by one that contains it.
    pub(crate) fn reworded(mut self, text: String) -> Self {
        self.0.text = text;
        self.0.shows_path = false;
        self.0.shows_offset = false;
        self.0.shows_value = false;
        self
    }

    /// Returns the error once more, without the types of its causes.
    pub(crate) fn copy(&self) -> Self {
        let inner = &*self.0;
        Self(Box::new(Inner {
            text: inner.text.clone(),
            path: inner.path.clone(),
            field: inner.field.clone(),
            custom: None,
            cause: None,
            ..*inner
        }))
    }

    /// Returns the text, without the path, the offset, the sample and the field that are shown before it.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns true if the sample and the field of a value are shown before the text.
    pub(crate) fn shows_value(&self) -> bool {
        self.0.shows_value
    }

    /// Returns what is wrong with an image or a value.
    pub(crate) fn damage_found(&self) -> Option<Damage> {
        self.0.damage
    }

    /// Returns true for errors that no other sample avoids, such as those of functions of the user.
    pub(crate) fn is_not_damage(&self) -> bool {
        self.0.is_not_damage
    }

    /// Returns true if the system has no memory: the data may be intact.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.0.lacks_memory
    }

    /// Returns the index of the op in its list.
    #[doc(hidden)]
    #[must_use]
    pub fn op(&self) -> Option<usize> {
        self.0.op
    }

    /// Returns what the user can do in the command line.
    #[doc(hidden)]
    #[must_use]
    pub fn next_step(&self) -> Option<&'static str> {
        self.0.help
    }

    /// Returns what the error is about, for a cause that contains it.
    pub(crate) fn details(&self) -> Details<'_> {
        let inner = &*self.0;
        Details {
            kind: inner.kind,
            path: inner.path.as_deref(),
            sample: inner.sample,
            field: inner.field.as_deref(),
            offset: inner.offset,
            help: inner.help,
            custom: self.get_ref(),
            lacks_memory: inner.lacks_memory,
        }
    }

    /// Returns the cause, if it has this type.
    #[doc(hidden)]
    #[must_use]
    pub fn cause<C: StdError + 'static>(&self) -> Option<&C> {
        let cause: &dyn StdError = &**self.0.cause.as_ref()?;
        cause.downcast_ref()
    }
}

/// Adds a path to the error of a result.
pub(crate) trait AtPath<T> {
    /// Does the same as [`Error::at`].
    fn at(self, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<Error>> AtPath<T> for Result<T, E> {
    fn at(self, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| error.into().at(path))
    }
}

impl Error {
    /// Returns what the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the file or folder that the error is about, or the address of an object.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the sample that the error is about.
    #[must_use]
    pub fn sample(&self) -> Option<SampleId> {
        self.0.sample
    }

    /// Returns the field or output that the error is about.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// Returns the position in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the error that a function or a source of the user returned, to downcast it.
    #[must_use]
    pub fn get_ref(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match &self.0.cause {
            Some(cause) => cause.details().custom,
            None => self.0.custom.as_deref(),
        }
    }
}

/// Converts an error of a closure or a source.
impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        Self::boxed(error, ErrorKind::Custom)
    }
}

/// Converts a cause: also [`ParamError`] and [`TypeError`] of ops,
/// [`TensorError`](crate::batch::TensorError) of batches and [`io::Error`].
impl<C: Cause> From<C> for Error {
    fn from(cause: C) -> Self {
        let mut error = Self::of_text(ErrorKind::Custom, cause.to_string());
        let Details { kind, path, sample, field, offset, help, custom: _, lacks_memory } =
            cause.details();
        error.0.kind = kind;
        error.0.path = path.map(Path::to_owned);
        error.0.sample = sample;
        error.0.field = field.map(str::to_owned);
        error.0.offset = offset;
        error.0.help = help;
        error.0.lacks_memory = lacks_memory;
        error.0.cause = Some(Box::new(cause));
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { text, path, offset, sample, field, .. } = &*self.0;
        let Inner { shows_path, shows_offset, shows_value, .. } = &*self.0;
        if let Some(path) = path.as_deref().filter(|_| *shows_path) {
            write!(f, "{}: ", Escaped(&path.to_string_lossy()))?;
        }
        if let Some(offset) = offset.filter(|_| *shows_offset) {
            write!(f, "byte {offset}: ")?;
        }
        if let (true, Some(sample), Some(field)) = (shows_value, sample, field) {
            write!(f, "sample {sample} ({}): ", Escaped(field))?;
        }
        f.write_str(text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.get_ref()?.source()
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
        Details::no_memory()
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

/// Compares the kinds and the messages.
#[cfg(test)]
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind(), self.to_string()) == (other.kind(), other.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_deeper_call_has_set_stays() {
        let (inner, outer) = (SampleId(1), SampleId(2));
        let error =
            fail!(Format, "no header").at("a.tar").byte(512).of_sample(inner).of_field("image");
        let error =
            error.help("unpack it").at("b").byte(0).of_sample(outer).of_field("label").help("no");
        assert_eq!(error.to_string(), "a.tar: byte 512: no header");
        assert_eq!(error.kind(), ErrorKind::Format);
        assert_eq!((error.path(), error.offset()), (Some(Path::new("a.tar")), Some(512)));
        assert_eq!((error.sample(), error.field()), (Some(inner), Some("image")));
        assert_eq!(error.next_step(), Some("unpack it"));
    }

    #[test]
    fn a_path_and_an_offset_are_shown_once() {
        let error = fail!(Damaged, "9 bytes at byte 7").named_byte(7).at("a");
        assert_eq!((error.to_string(), error.offset()), ("a: 9 bytes at byte 7".into(), Some(7)));
        let error = fail!(Damaged, "cut short").byte(7).at("a").context(format_args!("output x"));
        assert_eq!(error.at("b").byte(8).to_string(), "output x: a: byte 7: cut short");
        let error = fail!(Format, "a is no folder").named_path("a").at("b");
        assert_eq!(
            (error.to_string(), error.path()),
            ("a is no folder".into(), Some("a".as_ref()))
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let name = "a\u{1b}[31m";
        let error =
            fail!(Field, "no field {name}").at("b\n").context(format_args!("output {name}"));
        assert_eq!(error.to_string(), r"output a\u{1b}[31m: b\n: no field a\u{1b}[31m");
    }

    #[test]
    fn the_error_of_the_system_keeps_its_kind() {
        let error = Error::from(io::Error::from(io::ErrorKind::NotFound)).at("a");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().starts_with("a: "), "{error}");
        assert!(error.cause::<io::Error>().is_some());
        let full = Error::from(io::Error::from(io::ErrorKind::OutOfMemory));
        assert!(full.details().lacks_memory() && full.kind() == ErrorKind::Memory);
    }

    #[test]
    fn the_error_of_a_user_can_be_downcast() {
        let error = Error::from(BoxError::from("no row")).context(format_args!("order mine"));
        assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Custom, "order mine: no row"));
        assert!(error.get_ref().is_some());
    }
}
