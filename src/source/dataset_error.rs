//! The error of opening a dataset of any format.

use super::BoxError;

/// Why a dataset could not be opened. The message begins with the name of the dataset, or of the file that
/// is damaged.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DatasetError(#[from] pub(crate) BoxError);
