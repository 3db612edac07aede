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

mod error;
mod field;
mod header;
mod index;
mod pages;
mod read;
mod row;
mod stats;
mod table;

pub use error::{OpenError, ReadError, SourceCause, SourceError};
use field::CustomRows;
pub use field::{CustomRow, FieldError, parse_fields};
pub use header::{Header, HeaderError};
pub use pages::{PageStats, PagedBeton, ProcessCache};
pub use read::{Beton, BetonHead, OpenOptions};
pub use row::{Cell, ImageCell, LayoutError, RowLayout};
pub use stats::FieldStats;
pub use table::Allocation;

/// Takes the next `N` bytes off `rest`. If there are fewer, returns `None` and takes nothing.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}
