//! The exported functions, by subject.

mod context;
mod device;
mod event;
mod kernel;
mod memory;
mod report;
mod stream;
