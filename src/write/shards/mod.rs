//! Writes any source in the shard formats of other loaders.
//!
//! | file          | holds                                                                     |
//! |---------------|---------------------------------------------------------------------------|
//! | `name.rs`     | the names of shards: `train-{000000}.tar`                                  |
//! | `key.rs`      | the names of samples: safe keys inside an archive                     |
//! | `column.rs`   | from fields to extensions: `jpg`, `cls`, `depth.npy`                            |
//! | `bytes.rs`    | a value as a file's bytes                                                  |
//! | `tar.rs`      | members of a tar archive                                                   |
//! | `example.rs`  | a sample as a `tf.train.Example`                                           |
//! | `detection.rs` | the features of TensorFlow's detection models                             |
//! | `record.rs`   | TFRecord's frames                                                          |
//! | `mds.rs`      | MDS shards and their index                                                 |
//! | `parquet/`    | the columns of Parquet files                                               |

mod bytes;
mod column;
mod detection;
mod example;
mod key;
mod mds;
mod name;
#[cfg(feature = "parquet")]
mod parquet;
mod record;
mod tar;

pub(super) use bytes::{
    Member, audio_extension, extension, file_bytes, gray_png, json_text, png_file, rows_file, wrong,
};
pub(super) use column::{Columns, custom_field, is_file_name, label, same_name};
pub(super) use detection::detection_image;
pub(super) use example::{ExampleLayout, encode_record};
pub(super) use key::{last_part, safe_key};
pub(super) use mds::{FirstValues, MOST_BYTES as MOST_MDS_BYTES, MdsLayout, MdsShard};
pub(super) use name::Template;
#[cfg(feature = "parquet")]
pub(super) use parquet::{ParquetLayout, ParquetShard};
pub(super) use record::frame;
pub(super) use tar::{END, member_header, padding};
