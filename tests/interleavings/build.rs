//! Selects the scheduler in `engine/src/sync`. A cargo feature of the engine would not do: `--all-features`
//! would turn it on for the real engine, too.

fn main() {
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rerun-if-changed=build.rs");
}
