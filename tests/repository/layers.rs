//! The shape of the tree: the imports of each module, and the files that may hold unsafe code.
//!
//! A module imports modules that come before it, never one that comes after:
//!
//! ```text
//! testing < sample < panicked < threads < warnings < escape < amounts < error < cancel < parallel < exif < source
//!        < decode < order < plan < jit < batch < device < run < loader     (lib, internals, fuzzing: anything)
//!
//! recut       source, decode
//! write       source, decode, order, recut
//! verify      source, decode
//! info        source, decode
//! check_ops   plan, jit
//! spec        decode, order, loader
//! preview     plan, jit, loader
//! ```
//!
//! The modules in the lower list may use those named there, and some of those before `source`; only `lib` uses them,
//! but for `recut`.
//!
//! `sample`, `panicked`, `threads` and `run` are modules of the engine, which the library uses by their own
//! names. Inside the engine:
//!
//! ```text
//! sync < sample < panicked < threads < work_queue < batch < run
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of `engine/src`, each allowed to use those before it.
const ENGINE: [&str; 7] = ["sync", "sample", "panicked", "threads", "work_queue", "batch", "run"];

/// Modules of `src`, and those of the engine that it uses, each allowed to use those before it.
const LAYERS: [&str; 20] = [
    "testing", "sample", "panicked", "threads", "warnings", "escape", "amounts", "error", "cancel",
    "parallel", "exif", "source", "decode", "order", "plan", "jit", "batch", "device", "run",
    "loader",
];

/// Modules beside the layers, and the modules that each may use.
const BESIDE: [(&str, &[&str]); 8] = [
    ("preview", &["sample", "warnings", "amounts", "error", "cancel", "plan", "jit", "loader"]),
    ("check_ops", &["sample", "error", "plan", "jit"]),
    ("recut", &["sample", "panicked", "warnings", "error", "source", "decode"]),
    (
        "write",
        &[
            "sample", "panicked", "threads", "warnings", "amounts", "error", "cancel", "parallel",
            "source", "decode", "order", "recut",
        ],
    ),
    (
        "verify",
        &[
            "sample", "panicked", "threads", "warnings", "escape", "amounts", "error", "cancel",
            "parallel", "source", "decode",
        ],
    ),
    ("info", &["sample", "escape", "amounts", "error", "source", "decode"]),
    ("workload", &["sample", "error"]),
    ("spec", &["sample", "error", "decode", "order", "loader"]),
];

/// Modules whose own files and folders are in layers, too: each uses only those before it. `mod` is what
/// the module's `mod.rs` defines itself; a name that it re-exports counts for the file that defines it.
const INNER: [(&str, &[&str]); 2] = [
    (
        "source",
        &[
            // Samples and values, and the files that they are read from.
            "feature",
            "dtype",
            "field_kind",
            "image_stats",
            "mask_runs",
            "error",
            "packed_images",
            "value",
            "still",
            "bmp_file",
            "gif_file",
            "pnm_file",
            "jxl_file",
            "heic_file",
            "image_format",
            "audio_format",
            "video_format",
            "image_names",
            "media",
            "file_format",
            "webp_file",
            "tiff_lzw",
            "tiff_file",
            "image_header",
            "fetch_ahead",
            "file_pool",
            "file",
            "destination",
            "unfinished",
            "atomic_file",
            "private",
            "run_plan",
            "hub_api",
            // Remote objects and their names, and the files of a dataset, local or remote.
            "remote",
            "location",
            "sample_location",
            "beside",
            "classes",
            "npy",
            "object_fields",
            "samples",
            "names",
            "starts",
            "shared_values",
            "lru_cache",
            "image_size",
            "columnar",
            "in_memory",
            "class_counts",
            "common_names",
            "columns",
            // The files of a dataset.
            "shards",
            "index_file",
            // Samples in sequence, and several sources as one.
            "stream",
            "concat",
            "selected",
            "generate",
            // The formats, and how a name finds its format.
            "video_parts",
            "frames",
            "upright",
            "video_frame",
            "video_list",
            "frame_folders",
            "frame_rows",
            "saved_videos",
            "video_files",
            "open_videos",
            "beton",
            "folder",
            "fixed_length",
            "annotations",
            "tar",
            "tfrecord",
            "mds",
            "parquet",
            "lerobot",
            "other_formats",
            "open",
            "index_shards",
            "mod",
            // Tests of all sources.
            "faults",
            "wrapper_laws",
        ],
    ),
    (
        "loader",
        &[
            // Settings of users, and errors.
            "array_images",
            "targets",
            "cache",
            "clips",
            "collate",
            "cursor",
            "damaged",
            "decoded_forms",
            "error",
            "fingerprint_log",
            "image_lists",
            "pipeline",
            "outputs",
            "in_memory",
            "metrics",
            "stalls",
            // Outputs as data, their planning, and the run of a sample through them.
            "device",
            "elements",
            "mixing",
            "work",
            "classes",
            "columns",
            "component_ops",
            "compile_context",
            "buckets",
            "choose",
            "mix_plan",
            "target_mixing",
            "target_plan",
            "target_rows",
            "compile",
            "opened_image",
            "image_run",
            "stage",
            "transform",
            // Types that users hold.
            "epoch",
            "mod",
            "builder",
            "checks",
            "build",
            "open",
            "inspected_targets",
            "inspect",
            "stats",
            "headroom",
        ],
    ),
];

/// The names that `mod.rs` of `module` takes from its files, each with its file, and those that it takes from
/// another module of the crate, each with `crate`.
fn reexports(module: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join(format!("src/{module}/mod.rs"))).unwrap();
    let code = code(&text);
    let uses = code.match_indices("use ").filter_map(|(at, _)| {
        let (file, names) = code[at + 4..].split_once("::")?;
        let names = if file == "crate" { names.split_once("::")?.1 } else { names };
        Some(heads(names).into_iter().map(|name| (name, file.to_owned())))
    });
    uses.flatten().collect()
}

/// Modules of `src` that may use anything: the root, the hidden door, and the checks that fuzz targets share.
const FREE: [&str; 3] = ["lib", "internals", "fuzzing"];

/// The workspace crates that each of the other crates may use.
const CRATES: [(&str, &[&str]); 9] = [
    ("ops", &["fuseloop_ops_derive"]),
    ("ops/derive", &[]),
    ("engine", &["fuseloop_ops"]),
    ("jpeg", &["fuseloop_kernels", "fuseloop_ops"]),
    ("kernels", &["fuseloop_ops"]),
    ("video", &[]),
    ("webp", &["fuseloop_kernels", "fuseloop_ops"]),
    ("cli", &["fuseloop"]),
    ("runtime", &["fuseloop"]),
];

/// The workspace crates, by their names in code.
const CRATES_BY_NAME: [&str; 8] = [
    "fuseloop",
    "fuseloop_ops",
    "fuseloop_ops_derive",
    "fuseloop_engine",
    "fuseloop_jpeg",
    "fuseloop_kernels",
    "fuseloop_video",
    "fuseloop_webp",
];

/// Folders of code that users build.
const SHIPPED: [&str; 11] = [
    "src",
    "engine",
    "ops",
    "jpeg",
    "kernels",
    "video",
    "webp",
    "cli",
    "runtime",
    "python",
    "integrations",
];

/// Files that may hold unsafe code. A new entry states the purpose here.
const UNSAFE: &[&str] = &[
    "benches/common/plain.rs",        // passes compiled for the CPU's features
    "benches/fused/avx2.rs",          // the counterpart written by hand
    "benches/fused/main.rs",          // its calls
    "benches/fused/op_by_op.rs",      // passes compiled for the CPU's features
    "cli/src/reserve.rs",             // the allocator of the command
    "cli/src/signals.rs",             // signals that end the command
    "cli/src/signals_windows.rs",     // events of the console that end the command
    "engine/src/batch/slot.rs",       // rows of one batch, written by several threads
    "examples/fuseloop_torch.rs",     // pointers of C
    "ops/src/default_floats.rs",      // the register of the floating-point mode
    "kernels/src/bit_planes.rs",      // vectors of coefficients
    "kernels/src/bit_planes/x86.rs",  // the same, as the CPU has them
    "kernels/src/bytes.rs",           // vectors of rows' bytes
    "kernels/src/color.rs",           // the CPU's own multiplications
    "kernels/src/cpu.rs",             // work compiled for the CPU's features
    "kernels/src/entry.rs",           // rows called by address; stores around the caches
    "kernels/src/filter.rs",          // rows compiled for the CPU's features
    "kernels/src/warp.rs",            // reads of pixels at offsets that vectors computed
    "kernels/src/idct.rs",            // the CPU's own multiplications
    "kernels/src/idct/neon.rs",       // the same on aarch64
    "kernels/src/mingw.rs",           // functions by the names of the C library's
    "kernels/src/rows.rs",            // the CPU's own conversions
    "kernels/src/source.rs",          // the CPU's own arithmetic
    "kernels/src/tests.rs",           // rows called by address
    "kernels/src/vp8/color.rs",       // rows compiled for the CPU's features
    "kernels/src/vp8/transform.rs",   // the CPU's own multiplications
    "kernels/src/vp8l/color.rs",      // the CPU's own shuffles
    "kernels/src/vp8l/predict.rs",    // pixels in vectors of the CPU
    "kernels/src/yuv.rs",             // rows compiled for the CPU's features
    "video/src/decode/libav/ffi.rs",  // functions and structures of a C library
    "python/src/memory.rs",           // memory that objects of Python own
    "python/src/tensor.rs",           // structures of C that other libraries own
    "src/source/fetch_ahead.rs",      // a hint for the processor's caches
    "src/device/cuda/bench.rs",       // copies and kernels that are timed
    "src/device/cuda/clock.rs",       // the driver's calls
    "src/device/cuda/context.rs",     // the driver's calls
    "src/device/cuda/driver.rs",      // functions of a C library
    "src/device/cuda/pinned_slot.rs", // pages locked for the device
    "src/device/cuda/handles.rs",     // the driver's calls
    "src/device/cuda/device_buffer.rs", // streams of other libraries
    "src/device/cuda/uploader.rs",    // copies and kernels that run later
    "src/device/cuda/module.rs",      // the driver's calls
    "src/device/cuda/nvrtc.rs",       // functions of a C library
    "src/device/dlpack.rs",           // a C structure that other libraries own
    "src/device/stream.rs",           // handles that are trusted
    "src/jit/call.rs",                // the jump into compiled code
    "src/jit/check.rs",               // stand-in for compiled code that checks every access
    "src/jit/code.rs",                // the release of its pages
    "src/jit/invocation.rs",          // the addresses passed to compiled code
    "src/jit/invocation/chunk.rs",    // the same, of several samples
    "src/jit/linked.rs",              // the addresses in an object file
    "runtime/src/lib.rs",             // functions for C
    "tests/common/float_mode.rs",     // the register of the floating-point mode
    "tests/common/counting.rs",       // a counting allocator
    "tests/common/guarded.rs",        // guard pages
    "tests/common/guarded_maps.rs",   // guard pages around all memory of a process
    "tests/fakecuda/src/abi.rs",      // the pointers of C; exported names
    "tests/fakecuda/src/host_build.rs", // kernels of a library, called by name
    "tests/fakecuda/src/memory.rs",   // memory of the fake devices
    "tests/fakecuda/src/ptx/memory.rs", // addresses that a kernel computes
    "tests/fakecuda/src/report.rs",   // functions of a library, by name
    "tests/fakecuda/tests/common/gpu.rs", // the driver's functions
    "tests/fakecuda/tests/common/nvrtc.rs", // NVRTC's functions
    "tests/fakecuda/tests/common/training.rs", // handles of streams
    "tests/fakecuda/tests/training.rs", // a structure of C
    "tests/process/no_executable_pages.rs", // gives up the right to make pages executable
    "tests/process/fork.rs",          // fork, and the end of the child
    "tests/gpu/kernels.rs",           // kernels of a library, called by name
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files under `dir` with their text, by their path from the root.
pub(super) fn rust_files(dir: &str) -> Vec<(String, String)> {
    let mut left = vec![root().join(dir)];
    let mut files = vec![];
    while let Some(dir) = left.pop() {
        // A folder that does not exist has no files: benches and fuzz may be absent.
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push((from_root(&path), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

fn from_root(path: &Path) -> String {
    let parts: PathBuf = path.strip_prefix(root()).unwrap().into();
    parts.components().map(|part| part.as_os_str().to_str().unwrap()).collect::<Vec<_>>().join("/")
}

/// The top module of its crate that a file is part of.
fn module(path: &str) -> &str {
    let (_, inside) = path.split_once("src/").unwrap();
    inside.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The code of a file without its comments, whose links may name anything.
pub(super) fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The names that follow `prefix` wherever it starts a path: for `use crate::{a::B, c}` and `crate::`,
/// both `a` and `c`.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (offset, _) in code.match_indices(prefix) {
        // After a quote it is a text.
        let before = code[..offset].chars().next_back();
        let begins = before.is_none_or(|c| !is_word(c) && !matches!(c, ':' | '"'));
        if begins {
            names.extend(heads(&code[offset + prefix.len()..]));
        }
    }
    names
}

/// The first name of a path, or of each path in a `{group}`.
fn heads(rest: &str) -> Vec<String> {
    let rest = rest.trim_start();
    let Some(group) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(c),
        }
    }
    parts.iter().map(|part| word(part.trim_start())).filter(|name| !name.is_empty()).collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|&c| is_word(c)).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The modules that the module of `path` may use, besides itself; `None` for a module that is not listed in
/// this file.
fn allowed(path: &str) -> Option<&'static [&'static str]> {
    let (module, is_engine) = (module(path), path.starts_with("engine/"));
    let layers: &[&str] = if is_engine { &ENGINE } else { &LAYERS };
    if let Some(index) = layers.iter().position(|layer| *layer == module) {
        return Some(&layers[..index]);
    }
    let beside = BESIDE.iter().find(|(name, _)| *name == module && !is_engine);
    beside.map(|(_, allowed)| *allowed)
}

/// A description of each wrong import in a file of `src` or `engine/src`.
fn wrong_arrows(path: &str, text: &str) -> Vec<String> {
    let module = module(path);
    if FREE.contains(&module) {
        return vec![];
    }
    let Some(allowed) = allowed(path) else {
        return vec![format!(
            "{path}: module `{module}` has no place in tests/repository/layers.rs"
        )];
    };
    let used = names_after(&code(text), "crate::");
    let wrong = used.iter().filter(|name| *name != module && !allowed.contains(&name.as_str()));
    wrong
        .map(|name| format!("{path}: `{module}` uses `{name}`, which does not lie before it"))
        .collect()
}

#[test]
fn modules_import_only_what_lies_before_them() {
    let files = [rust_files("src"), rust_files("engine/src")].concat();
    let wrong: Vec<String> =
        files.iter().flat_map(|(path, text)| wrong_arrows(path, text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let modules: BTreeSet<&str> = files.iter().map(|(path, _)| module(path)).collect();
    for known in ENGINE.iter().chain(&LAYERS).chain(BESIDE.iter().map(|(name, _)| name)) {
        assert!(
            modules.contains(known),
            "no module `{known}`: take it out of tests/repository/layers.rs"
        );
    }
}

/// The file or folder of `module` that the file at `path` is part of, and how deep in `module` its own
/// module is; `None` for files of other modules and for files with tests.
fn inner_file<'a>(module: &str, path: &'a str) -> Option<(&'a str, usize)> {
    let inside = path.strip_prefix("src/")?.strip_prefix(module)?.strip_prefix('/')?;
    let names: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    let is_test = names.contains(&"tests");
    let depth = names.len() - usize::from(names.last() == Some(&"mod"));
    (!is_test).then_some((names[0], depth))
}

/// A description of each import in a file of `module` that goes to a file or folder of the same module
/// that does not lie before it in `layers`. `names` are the module's re-exports.
fn wrong_inner_arrows(
    (module, layers): (&str, &[&str]),
    names: &BTreeMap<String, String>,
    (path, text): (&str, &str),
) -> Vec<String> {
    let Some((own, depth)) = inner_file(module, path) else { return vec![] };
    let Some(offset) = layers.iter().position(|layer| *layer == own) else {
        return vec![format!("{path}: `{own}` has no place in tests/repository/layers.rs")];
    };
    let code = code(before_tests(text));
    let mut used = names_after(&code, &format!("crate::{module}::"));
    if depth > 0 {
        used.extend(names_after(&code, &"super::".repeat(depth)));
    }
    // A name that is neither a file's nor re-exported is defined by `mod.rs` itself.
    let find = |name: &str| layers.iter().position(|layer| *layer == name);
    let place_of = |name: &str| {
        let place = |file: &String| if file == "crate" { Some(0) } else { find(file) };
        let defined = || names.get(name).and_then(place);
        find(name).or_else(defined).or_else(|| find("mod")).unwrap()
    };
    let wrong = used.iter().filter(|name| place_of(name) > offset);
    wrong
        .map(|name| {
            format!("{path}: `{own}` uses `{module}::{name}`, which does not lie before it")
        })
        .collect()
}

#[test]
fn files_of_a_module_import_only_what_lies_before_them() {
    for (module, layers) in INNER {
        let names = reexports(module);
        let files = rust_files(&format!("src/{module}"));
        let wrong: Vec<String> = files
            .iter()
            .flat_map(|(path, text)| wrong_inner_arrows((module, layers), &names, (path, text)))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for known in layers {
            let has = |path: &str| inner_file(module, path).is_some_and(|(own, _)| own == *known);
            assert!(files.iter().any(|(path, _)| has(path)), "no `{module}::{known}`");
        }
    }
}

/// A test of the search for imports inside a module.
#[test]
fn a_wrong_arrow_inside_a_module_is_found() {
    let layers = ["cache", "error", "work", "mod", "open"];
    let names = [("Plan", "work"), ("Cache", "cache")];
    let names = names.map(|(name, file)| (name.to_owned(), file.to_owned())).into();
    let finds =
        |path: &str, text| wrong_inner_arrows(("loader", &layers), &names, (path, text)).len();
    for (path, wrong) in [
        ("src/loader/error.rs", "use super::work::Plan;"),
        ("src/loader/error.rs", "use super::{cache::Cache, open};"),
        ("src/loader/error.rs", "fn f(_: crate::loader::work::Plan) {}"),
        ("src/loader/error.rs", "use super::Loader;"),
        ("src/loader/error.rs", "use super::{Cache, Plan};"),
        ("src/loader/cache/disk.rs", "use crate::loader::Plan;"),
        ("src/loader/cache/disk.rs", "use super::super::error::LoadError;"),
        ("src/loader/cache/mod.rs", "use super::error::LoadError;"),
        ("src/loader/news.rs", ""),
    ] {
        assert_eq!(finds(path, wrong), 1, "{path}: {wrong}");
    }
    for (path, fine) in [
        ("src/loader/work.rs", "use super::error::{LoadError, Cause}; use crate::source::open;"),
        ("src/loader/open.rs", "use super::{Loader, Plan, work};"),
        ("src/loader/error.rs", "use super::Cache;"),
        ("src/loader/cache/disk.rs", "use super::{SampleCache, table}; use super::open::Open;"),
        ("src/loader/cache/tests.rs", "use super::super::open;"),
        ("src/loader/error.rs", "#[cfg(test)]\nmod tests {\n    use super::super::open;\n}"),
        ("src/source/error.rs", "use super::work;"),
    ] {
        assert_eq!(finds(path, fine), 0, "{path}: {fine}");
    }
}

/// `tests/interleavings` controls only primitives used through `crate::sync`.
#[test]
fn threads_meet_only_at_what_sync_lends() {
    for (path, text) in rust_files("engine/src") {
        if path.starts_with("engine/src/sync/") {
            continue;
        }
        let text = text.split("#[cfg(test)]").next().unwrap();
        for direct in ["std::sync", "std::thread", "std::time::Instant"] {
            assert!(!code(text).contains(direct), "{path} uses {direct}, not crate::sync");
        }
    }
}

#[test]
fn arrows_between_crates_point_at_ops() {
    for (name, allowed) in CRATES {
        for (path, text) in rust_files(&format!("{name}/src")) {
            let (code, own) = (code(&text), format!("fuseloop_{}", name.replace('/', "_")));
            for found in CRATES_BY_NAME {
                let uses = names_after(&code, &format!("{found}::"));
                let fine = uses.is_empty() || found == own || allowed.contains(&found);
                assert!(fine, "{path}: crate `{name}` uses `{found}`");
            }
        }
    }
}

/// A test of the import finder itself: it must recognize each form of an import, and ignore comments.
#[test]
fn a_wrong_arrow_is_found_however_it_is_written() {
    let finds = |text| wrong_arrows("src/plan/mod.rs", text).len();
    for wrong in [
        "use crate::jit::Kernel;",
        "use crate::{jit::{Kernel, Scratch}, order};",
        "use crate::{\n    order,\n    write,\n};",
        "fn f() -> crate::run::Engine {}",
        "pub(in crate::batch) fn f() {}",
        "use crate::Loader;",
    ] {
        assert_eq!(finds(wrong), 1, "{wrong}");
    }
    for fine in [
        "use crate::order::Order; use super::block;",
        "use crate::{order::{self, Cursor}, source::{beton, Value}};",
        "//! See [`Kernel`](crate::jit::Kernel).",
        "let x = 1; // crate::jit",
        "use other_crate::jit;",
        "const TARGET: &str = \"crate::jit\";",
    ] {
        assert_eq!(finds(fine), 0, "{fine}");
    }
    assert_eq!(wrong_arrows("src/write/mod.rs", "use crate::plan::ImagePlan;").len(), 1);
    assert_eq!(wrong_arrows("src/news.rs", "").len(), 1, "a module without a place");
    assert_eq!(wrong_arrows("engine/src/batch/mod.rs", "use crate::run::Engine;").len(), 1);
    assert_eq!(wrong_arrows("engine/src/loader.rs", "").len(), 1, "a module of another crate");
    assert!(wrong_arrows("src/fuzzing.rs", "use crate::write;").is_empty());
}

/// The text before a file's own module of tests. A `#[cfg(test)]` on anything else does not end it.
fn before_tests(text: &str) -> &str {
    let is_module = |at: usize| {
        let mut lines = text[at..].lines().skip(1);
        lines
            .find(|line| !line.starts_with(['#', ' ', ')']))
            .map(|line| line.strip_prefix("pub(super) ").unwrap_or(line))
            .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let attributes = text.match_indices("#[cfg(").filter(|(at, _)| {
        ["#[cfg(test)]", "#[cfg(all(test, "].iter().any(|form| text[*at..].starts_with(form))
    });
    attributes.map(|(at, _)| at).find(|at| is_module(*at)).map_or(text, |at| &text[..at])
}

/// The public types that `text` defines outside its tests: structs, enums, traits, unions and
/// aliases, but no associated types, which are indented in a trait or an impl.
fn public_types(text: &str) -> Vec<String> {
    let code = code(before_tests(text));
    let kinds =
        ["pub struct ", "pub enum ", "pub trait ", "pub union ", "pub type ", "pub unsafe trait "];
    let names =
        code.lines().filter_map(|line| kinds.iter().find_map(|kind| line.strip_prefix(kind)));
    names.map(word).collect()
}

/// Each public type has a name of its own, so that a name identifies a type.
#[test]
fn no_two_public_types_share_a_name() {
    let crates =
        ["src", "engine/src", "ops/src", "jpeg/src", "kernels/src", "video/src", "webp/src"];
    let files = crates.iter().flat_map(|dir| rust_files(dir));
    let mut defined = BTreeMap::<String, Vec<String>>::new();
    for (path, text) in files {
        // This file replaces `device/cuda` if the feature `cuda` is off: the names are the same on purpose.
        if path == "src/device/none.rs" {
            continue;
        }
        for name in public_types(&text) {
            defined.entry(name).or_default().push(path.clone());
        }
    }
    assert!(defined.len() > 200, "the search found only {} types", defined.len());
    let twice: Vec<_> = defined.iter().filter(|(_, paths)| paths.len() > 1).collect();
    assert!(twice.is_empty(), "names that several public types have: {twice:#?}");
}

#[test]
fn public_types_are_found() {
    let text = "\
#[cfg(test)]
mod helpers;
pub struct A;
// pub struct No;
pub(crate) struct No;
pub trait B {
    type No;
}
    #[cfg(test)]
    fn hook() {}
pub enum C<T> {}
pub type D = u8;
impl E {
    pub type No = u8;
}
#[cfg(test)]
#[allow(
    clippy::unwrap_used
)]
mod tests {
pub struct No;
}";
    assert_eq!(public_types(text), ["A", "B", "C", "D"]);
}

#[test]
fn unsafe_code_is_in_the_files_listed_here() {
    let dirs = SHIPPED.iter().chain(&["benches", "examples", "tests"]);
    let files = dirs.flat_map(|dir| rust_files(dir));
    let found: Vec<String> =
        files.filter(|(_, text)| allows_unsafe(text)).map(|(path, _)| path).collect();
    let mut listed = UNSAFE.to_vec();
    listed.sort_unstable();
    assert_eq!(sorted(found), listed, "left: found, right: UNSAFE in tests/repository/layers.rs");
}

/// Prints the number of uses of unsafe code, so that a reviewer of a change sees it grow.
#[test]
fn unsafe_code_is_counted() {
    let files = SHIPPED.iter().flat_map(|dir| rust_files(dir));
    let shipped: Vec<_> = files.filter(|(path, _)| UNSAFE.contains(&path.as_str())).collect();
    let [mut blocks, mut functions, mut others] = [0; 3];
    for (path, text) in &shipped {
        let after = words_after_unsafe(&code(text));
        assert!(
            !after.is_empty(),
            "{path} has no unsafe code: take it out of tests/repository/layers.rs"
        );
        for next in after {
            match &*next {
                "" => blocks += 1,
                "fn" => functions += 1,
                _ => others += 1,
            }
        }
    }
    println!(
        "unsafe code that is shipped: {blocks} blocks, {functions} functions and types of functions, \
         {others} impls and extern items in {} files; files with those of tests and benches: {}",
        shipped.len(),
        UNSAFE.len()
    );
}

/// The words that follow the keyword, in attributes too; an unsafe block has none.
fn words_after_unsafe(code: &str) -> Vec<String> {
    let uses = code.match_indices("unsafe").filter(|(offset, found)| {
        let before = code[..*offset].chars().next_back();
        let after = code[offset + found.len()..].chars().next();
        before.is_none_or(|c| !is_word(c)) && after.is_some_and(|c| c.is_whitespace() || c == '(')
    });
    let next = |(offset, found): (usize, &str)| {
        word(code[offset + found.len()..].trim_start_matches(['(', ' ', '\n']))
    };
    uses.map(next).collect()
}

#[test]
fn uses_of_the_keyword_are_found() {
    let text = "unsafe { x }\n// unsafe {\nunsafe fn f() {}\nallow(unsafe_code) unsafe impl S {}\n#[unsafe(no_mangle)]";
    assert_eq!(words_after_unsafe(&code(text)), ["", "fn", "impl", "no_mangle"]);
}

fn sorted(mut paths: Vec<String>) -> Vec<String> {
    paths.sort();
    paths
}

/// Returns true if a file turns off the workspace's `unsafe_code = "deny"`, for all or some of its code.
fn allows_unsafe(text: &str) -> bool {
    let code: String = code(text).chars().filter(|c| !c.is_whitespace()).collect();
    let mut attributes = code.split('[').filter_map(|rest| rest.split(']').next());
    let turns_off = |attribute: &str| {
        ["allow(", "expect(", "warn("].iter().any(|level| attribute.contains(level))
    };
    attributes.any(|attribute| turns_off(attribute) && attribute.contains("unsafe_code"))
}

/// Checks the `deny` that the list above relies on.
#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let members = [
        "Cargo.toml",
        "engine/Cargo.toml",
        "ops/Cargo.toml",
        "jpeg/Cargo.toml",
        "kernels/Cargo.toml",
        "video/Cargo.toml",
        "webp/Cargo.toml",
    ];
    for manifest in members.into_iter().chain([
        "tests/counts/Cargo.toml",
        "tests/interleavings/Cargo.toml",
        "tests/fakecuda/Cargo.toml",
    ]) {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        assert!(text.contains("[lints]\nworkspace = true"), "{manifest}");
    }
    let text = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(text.contains("unsafe_code = \"deny\""));
}
