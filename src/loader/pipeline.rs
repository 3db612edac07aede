//! The ops of an output: one list for all epochs, or a list by epoch.

use crate::error::{Error, ErrorKind};
use crate::sample::Epoch;
use crate::source::BoxError;
use fuseloop_ops::Ops;
use fuseloop_ops::ParamError;
use std::fmt;
use std::sync::Arc;

/// The ops of an output: a fixed list, or a list by epoch.
///
/// A fixed list is written as it is, [`ops!`](fuseloop_ops::ops), wherever a pipeline is expected. A
/// list by epoch changes over the training, for progressive resizing or growing magnitudes; see
/// [`by_epoch`](Self::by_epoch).
#[derive(Clone)]
pub struct Pipeline(Kind);

#[derive(Clone)]
enum Kind {
    Fixed(Ops),
    ByEpoch(Arc<OpsByEpoch>),
}

type OpsByEpoch = dyn Fn(Epoch) -> Result<Ops, BoxError> + Send + Sync;

impl Pipeline {
    /// Creates a list by epoch: `ops` is called when an epoch starts, and its list is planned and
    /// compiled for that epoch. Code that would be the same is reused. `ops` should return the same list
    /// whenever it is called with the same epoch, so that an epoch can be repeated and resumed.
    ///
    /// An error of `ops`, of any type, is returned by the call that starts the epoch; for epoch 0, by
    /// [`LoaderBuilder::build`](super::LoaderBuilder::build).
    ///
    /// ```no_run
    /// use fuseloop::loader::Pipeline;
    /// use fuseloop::{Epoch, Loader, ops::*};
    ///
    /// fn growing(epoch: Epoch) -> Result<Ops, ParamError> {
    ///     Ok(ops![RandomResizedCrop::new(128 + 8 * epoch.index())?, ToChannelsFirst])
    /// }
    ///
    /// let loader = Loader::open("train.beton")?
    ///     .pipeline("image", Pipeline::by_epoch(growing))
    ///     .view("second", "image", Pipeline::by_epoch(growing))
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_epoch<E: Into<BoxError>>(
        ops: impl Fn(Epoch) -> Result<Ops, E> + Send + Sync + 'static,
    ) -> Self {
        Self(Kind::ByEpoch(Arc::new(move |epoch| ops(epoch).map_err(Into::into))))
    }

    /// Returns the ops of `output` in an epoch.
    pub(super) fn ops(&self, epoch: Epoch, output: &str) -> Result<Ops, Error> {
        match &self.0 {
            Kind::Fixed(ops) => Ok(ops.clone()),
            Kind::ByEpoch(ops) => ops(epoch).map_err(|error| {
                let is_param = error.is::<ParamError>();
                let list = format_args!("output {output}: its list for epoch {}", epoch.index());
                let error = Error::of_user(error).context(list).of_field(output);
                if is_param { error.of_kind(ErrorKind::Parameter) } else { error }
            }),
        }
    }

    /// Returns true for a list by epoch.
    pub(super) fn is_by_epoch(&self) -> bool {
        matches!(self.0, Kind::ByEpoch(_))
    }
}

impl From<Ops> for Pipeline {
    fn from(ops: Ops) -> Self {
        Self(Kind::Fixed(ops))
    }
}

/// Writes the ops of a fixed list.
impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Fixed(ops) => f.debug_tuple("Pipeline").field(ops).finish(),
            Kind::ByEpoch(_) => f.write_str("Pipeline::by_epoch(..)"),
        }
    }
}
