//! The `fuseloop` command.
fn main() {}
