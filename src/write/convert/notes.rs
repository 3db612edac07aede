//! Notes on fields that readers of the new dataset get as another type than the source has.
//!
//! | written to | field         | readers get                                          |
//! |------------|---------------|------------------------------------------------------|
//! | tar        | float         | the decimal text of a `.txt` member, every bit of it |
//! | tar        | `video_index` of a clip store | a number of each frame, and no clips |
//! | `metadata.jsonl` | array, tensor, other image, audio or video | the name of a file  |
//!
//! All other types are kept. What TFRecord's features can't hold is stored beside them (`shards/example.rs`).

use super::output_file::FileFields;
use super::{DatasetConversion, OutputFormat};
use crate::source::{Escaped, FieldKind, FieldSpec, is_clip_store};
use crate::write::shards::{Columns, label};

/// The note that names the parts of a clip store that a tar does not keep.
const CLIPS_IN_TAR: &str = "the frames of videos become samples of their own, and a tar does not keep which of them are a clip and when: \
    keep the .beton to read clips, or convert the videos themselves with `--videos files`";

impl DatasetConversion<'_> {
    /// Returns a note for each field that readers get as another type.
    pub(super) fn notes_on_fields(&self) -> Vec<String> {
        match self.form {
            OutputFormat::Beton
            | OutputFormat::TfRecord
            | OutputFormat::Parquet
            | OutputFormat::Mds => vec![],
            OutputFormat::Tar => {
                let columns = Columns::new(&self.fields, self.beside.objects.as_ref());
                let names = columns.map(|columns| columns.names).unwrap_or_default();
                let fields = self.fields.iter().zip(names);
                let clips = is_clip_store(self.source).then(|| CLIPS_IN_TAR.to_owned());
                clips
                    .into_iter()
                    .chain(fields.filter_map(|(field, name)| in_tar(field, &name)))
                    .collect()
            }
            OutputFormat::Folder => in_folder(&self.fields, &self.file_fields()),
        }
    }
}

fn in_tar(field: &FieldSpec, member: &str) -> Option<String> {
    let name = Escaped(&field.name);
    (field.kind == FieldKind::Float).then(|| {
        format!(
            "field {name}: floats of 64 bits are stored exactly, as decimal text in members .{member}, which readers take for text: declare the field as a float when you read the shards"
        )
    })
}

fn in_folder(fields: &[FieldSpec], files: &FileFields) -> Vec<String> {
    let first = files.main(fields);
    if fields.len() == 2 && label(fields).is_some() {
        return vec![];
    }
    let note = |(index, field): (usize, &FieldSpec)| {
        let name = Escaped(&field.name);
        let file = |what: &str| {
            Some(format!(
                "field {name}: {what} becomes a separate file, and metadata.jsonl has its name in the column \
                 {name}_file_name: readers get the name; .beton and shards keep the type"
            ))
        };
        match field.kind {
            FieldKind::NdArray { .. } => file("an array"),
            FieldKind::TorchTensor { .. } => file("a tensor"),
            FieldKind::RgbImage | FieldKind::BitPlaneImage if Some(index) != first => {
                file("an image after the first")
            }
            _ if files.has(index) && Some(index) != first => {
                file("an audio or video file next to an image or another")
            }
            _ => None,
        }
    };
    fields.iter().enumerate().filter_map(note).collect()
}
