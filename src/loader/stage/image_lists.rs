//! The rows of lists of images: the images of a sample are run one after another, each into its part of the row.
//!
//! ```text
//! read the list ──▶ for each image: draw (the same) ─▶ decode the window ─▶ compiled loop ─▶ its part of the row
//!               ──▶ zeros behind the last one
//! ```

use super::{LoaderStage, SampleRows, StageError, Worker};
use crate::error::Error;
use crate::loader::image_lists::{image, stored_list};
use crate::loader::opened_image::StoredImage;
use crate::run::Phase;
use crate::sample::SampleId;
use crate::source::Value;
use fuseloop_ops::internals::SampleKey;

impl LoaderStage {
    /// Writes all outputs of list number `list` of a sample.
    pub(super) fn fill_list(
        &self,
        worker: &mut Worker,
        list: usize,
        key: SampleKey,
        place: usize,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let (field, outputs) = &self.fields[place];
        let sample = SampleId(key.sample());
        let of_field =
            |error: Error| self.error(sample, &self.source.fields()[*field].name, *field, error);
        let (number, list) = (list, self.setup.lists[list].1);
        let Worker { buffer, pictures, .. } = worker;
        pictures.watch.phase(Phase::Read);
        let stored = stored_list(&*self.source, number);
        let value = self.source.value(sample, stored, buffer);
        let value = value.map_err(|error| of_field(error.into()))?;
        let images = list.of_value(&value).map_err(of_field)?;
        let count = list.max();
        for (index, file) in images.files().take(count).enumerate() {
            let of_image = |error: Error| of_field(error.context(format_args!("image {index}")));
            let image = StoredImage::Value(Value::Image(image(file).map_err(of_image)?));
            rows.image = Some(index);
            let key = list.key(key, index);
            let filled = self.fill_images(pictures, (None, None), key, image, outputs, rows);
            rows.image = None;
            pictures.decoded += u64::from(filled.is_ok());
            filled.map_err(of_image)?;
        }
        let filled = images.count().min(count);
        for &k in outputs {
            let row = rows.of(k);
            let bytes = row.len() / count;
            row[filled * bytes..].fill(0);
        }
        Ok(())
    }
}
