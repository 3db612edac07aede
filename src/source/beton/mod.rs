//! FFCV's `.beton` file format, version 2.
//!
//! ```text
//! 0                header                24 B                        header.rs
//! 24               field descriptors     1041 B a field              field.rs
//! 24 + 1041 F      sample table          row size x samples          row.rs
//! ...              zeros up to a multiple of the page size
//! data start       pages                 page size each
//! alloc_table_ptr  allocation table      24 B a value, to the end    table.rs
//! ```
//!
//! All integers are little-endian; pointers are offsets from the start of the file. There is
//! no magic number and no checksum. A file without pointer fields has neither padding nor
//! pages: its allocation table is empty and begins where the sample table ends.
//!
//! Each of these files has the `parse` of its structure beside the code that writes it, so that the
//! reader and the writer share one definition.

mod field;
mod header;
mod index;
mod open;
mod pages;
mod read;
mod row;
mod sample_table;
mod stats;
mod table;

pub use field::CustomRow;
use field::CustomRows;
#[cfg(feature = "write")]
pub(crate) use field::{check_custom, same_name};
pub use header::Header;
pub(super) use open::IS_IT_BETON;
pub use open::{BetonHead, OpenOptions};
pub use pages::{PageStats, PagedBeton, ProcessCache};
pub use read::Beton;
pub use row::{Cell, ImageCell, RowLayout};
pub use stats::FieldStats;
pub use table::Allocation;

/// The advice for a file whose end is missing.
pub const INCOMPLETE: &str =
    "the file is incomplete: copy it again, or write it again with `fuseloop write`";

/// Takes the next `N` bytes off `rest`. If there are fewer, returns `None` and takes nothing.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}
