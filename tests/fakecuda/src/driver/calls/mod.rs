//! The exported functions, by what they are about.

mod context;
mod device;
mod event;
mod kernel;
mod memory;
mod report;
mod stream;
