//! Transforms from pipeline files.

use super::{Settings, Spec};
use crate::error::{Error, fail};
#[cfg(feature = "object")]
use crate::loader::transform::linked::AheadOfTime;
use crate::loader::transform::linked::LinkedCode;
use crate::loader::transform::{CompiledObject, Transform};
use std::path::Path;

impl Transform {
    /// A transform by a [pipeline file](Spec): the ops of the field called `image`, or else of
    /// the only field with ops. Of the file's settings, `seed`, `number_rule`, `exif_orientation`, `scaled_decode`,
    /// `read_mode`, `device` and `device_batches` apply; the others are for loaders.
    ///
    /// # Errors
    ///
    /// If the file can't be read, is no pipeline file, or has no such field; if a number of its ops follows the epoch; see
    /// [`new`](Self::new).
    pub fn from_spec(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let spec = Spec::open(path)?;
        of_spec(&spec).map_err(|error| error.at(path))
    }

    /// A transform by the list that `fuseloop compile` wrote to an object file, which is linked into the program. It
    /// runs without a compiler, and makes no page executable: the crate may be built without its feature `jit`.
    ///
    /// It takes image files, and pixels of the type that they are read as: u8 `[height, width, 3]`, unless the pipeline
    /// file sets `read_mode`. Its arrays are those of [`from_spec`](Self::from_spec), bit for bit. Settings that the list
    /// depends on, and targets, can't be changed.
    ///
    /// The file that `fuseloop compile --rust val.rs` writes calls this function:
    ///
    /// ```ignore
    /// include!("val.rs"); // fn transform() -> fuseloop::Result<Transform>
    /// ```
    ///
    /// # Errors
    ///
    /// If the object file is of another version of fuseloop, is damaged, or needs instructions that this CPU lacks.
    pub fn linked(list: &'static CompiledObject) -> Result<Self, Error> {
        linked(list, None)
    }
}

/// Returns the transform of an object file, whose header has the number `header`.
pub(crate) fn linked(
    list: &'static CompiledObject,
    header: Option<u64>,
) -> Result<Transform, Error> {
    let code = LinkedCode::open(list)?;
    let description = &code.description;
    if header.is_some_and(|header| header != description.header) {
        return Err(fail!(
            Format,
            "the header and the object file are of different runs of `fuseloop compile`: run it again, and build the \
             program with both of its files"
        ));
    }
    let spec = Spec::parse(&description.pipeline, Path::new("pipeline of the object file"))?;
    of_spec(&spec)?.with_code(code)
}

/// Compiles the list of a pipeline file for an object file that defines `symbol`, with vectors of `isa` bits.
#[cfg(feature = "object")]
pub(crate) fn ahead_of_time(
    path: &Path,
    symbol: &str,
    isa: Option<u64>,
) -> Result<AheadOfTime, Error> {
    let text = super::read::text(path)?;
    let spec = Spec::parse(&text, path)?;
    let compiled = of_spec(&spec).and_then(|list| list.ahead_of_time(&text, symbol, isa));
    compiled.map_err(|error| error.at(path))
}

/// Returns the transform of a pipeline file that was read before: see [`Transform::from_spec`].
pub(crate) fn of_spec(spec: &Spec) -> Result<Transform, Error> {
    let mut fields = spec.fields.iter();
    let only = fields.next().filter(|_| fields.next().is_none());
    let image = spec.fields.get_key_value("image").or(only);
    let Some((name, ops)) = image else {
        let known: Vec<&str> = spec.fields().collect();
        return Err(fail!(
            Field,
            "none of the fields with ops is called image: {}; keep the ops of one field in the file, or call the field \
             of the images `image`",
            known.join(", ")
        ));
    };
    let Some(ops) = &ops.fixed else {
        return Err(fail!(
            Pipeline,
            "the ops of {name} change with the epoch, but a transform has one list: write the list of one epoch into \
             a file of its own"
        ));
    };
    let Settings {
        seed,
        number_rule,
        exif_orientation,
        scaled_decode,
        read_mode,
        device,
        device_batches,
        ..
    } = spec.settings();
    let mut transform = Transform::new(ops.clone())?;
    if let Some(seed) = *seed {
        transform = transform.seed(seed);
    }
    if let Some(rule) = *number_rule {
        transform = transform.number_rule(rule);
    }
    if let Some(turn) = *exif_orientation {
        transform = transform.exif_orientation(turn);
    }
    if let Some(scaled) = *scaled_decode {
        transform = transform.scaled_decode(scaled);
    }
    if let Some(device) = *device {
        transform = transform.device(&device.to_string())?;
    }
    if let Some(batches) = *device_batches {
        transform = transform.device_batches(batches)?;
    }
    let modes = read_mode.iter().flatten();
    if let Some((_, mode)) = modes.into_iter().find(|(field, _)| field == name) {
        transform = transform.read_mode(*mode);
    }
    Ok(transform)
}
