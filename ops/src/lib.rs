//! Fuseloop's ops: what each one means and how it is compiled.

pub mod area;
mod shape;

pub use shape::{Channels, DType, ImageView, Layout, Size, Window};
