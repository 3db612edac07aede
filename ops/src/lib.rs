//! Fuseloop's ops: what each one means and how it is compiled.

mod shape;

pub use shape::{Channels, DType, ImageView, Layout, Size, Window};
