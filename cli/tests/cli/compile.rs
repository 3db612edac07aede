//! Lists that `fuseloop compile` compiles, in a C program and in a Rust program without a compiler: they have the arrays of
//! a [`Transform`].

use super::command::{fuseloop, jpeg, refused, stdout_of};
use fuseloop::Transform;
use fuseloop::transform::{Image, Key};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pipeline files: row functions, several loops for a block, choices, another type of image, and any size.
const LISTS: [(&str, &str); 5] = [
    (
        "val",
        r#"[fields]
image = [{ op = "Resize", size = 40 }, { op = "CenterCrop", size = 32 }, { op = "Normalize", mean = [0.5, 0.4, 0.3], std = [0.2, 0.3, 0.4] }, "ToChannelsFirst"]"#,
    ),
    (
        "train",
        r#"[fields]
image = [
    { op = "RandomResizedCrop", size = 32 }, "RandomHorizontalFlip",
    { op = "ColorJitter", brightness = 0.4, contrast = 0.4, saturation = 0.4 },
    { op = "RandomGrayscale", p = 0.5 }, "RandomErasing",
    { op = "Normalize", mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225] },
    { op = "Convert", to = "f16" }, "ToChannelsFirst",
]"#,
    ),
    (
        "policy",
        r#"[fields]
image = [{ op = "RandomRotation", degrees = 30, interpolation = "bilinear" }, "TrivialAugmentWide", { op = "Resize", size = [24, 40] }]"#,
    ),
    (
        "gray",
        r#"number_rule = "exact"
read_mode = { image = "gray" }
[fields]
image = [{ op = "RandomEqualize", p = 0.5 }, { op = "GaussianBlur", kernel_size = 5 }]"#,
    ),
    (
        "any",
        r#"[fields]
image = ["RandomVerticalFlip", { op = "RandomSolarize", threshold = 128.0 }, { op = "Convert", to = "f32" }]"#,
    ),
];

const SAMPLES: u64 = 24;

/// The library for C, and the library for Rust, both without a compiler.
struct Runtime {
    c: PathBuf,
    rust: PathBuf,
}

impl Runtime {
    /// Builds them where the tests were built, whose crates are used again.
    fn build() -> Self {
        let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--release", "--locked", "--offline", "-p", "fuseloop-runtime"]);
        cargo.args(["--message-format=json-render-diagnostics", "--target-dir"]).arg(target);
        let output =
            cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let files: Vec<String> = lines
            .filter_map(|line| line["filenames"].as_array().cloned())
            .flatten()
            .map(|file| file.as_str().unwrap().to_owned())
            .collect();
        let find = |start: &str, end: &str| {
            let name = |file: &&String| {
                let name = Path::new(file).file_name().unwrap().to_str().unwrap();
                name.starts_with(start) && name.ends_with(end)
            };
            PathBuf::from(
                files.iter().find(name).unwrap_or_else(|| panic!("no {start}{end}: {files:?}")),
            )
        };
        Self { c: find("libfuseloop_runtime", ".a"), rust: find("libfuseloop-", ".rlib") }
    }
}

/// Writes the files of all lists, and two object files that are not right.
fn compile_lists(dir: &Path, isa: &str) {
    for (name, text) in LISTS {
        let files = ["toml", "o", "h", "rs"].map(|end| format!("{name}.{end}"));
        fs::write(dir.join(&files[0]), text).unwrap();
        let [toml, object, header, rust] = files.each_ref().map(String::as_str);
        let said = fuseloop(
            dir,
            &["compile", toml, "-o", object, "--header", header, "--rust", rust, "--isa", isa],
        );
        let errors = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.success() && errors.contains("bytes of code"), "{name}: {errors}");
    }
    for (name, found, wrong) in [
        ("damaged", &b"CenterCrop"[..], &b"CenterFrop"[..]),
        ("later", b"FUSELOOP\x01", b"FUSELOOP\x02"),
    ] {
        let object = format!("{name}.o");
        let files = [format!("{name}.h"), format!("{name}.rs")];
        stdout_of(
            dir,
            &[
                "compile", "val.toml", "-o", &object, "--header", &files[0], "--rust", &files[1],
                "-q",
            ],
        );
        let mut bytes = fs::read(dir.join(&object)).unwrap();
        let at = bytes.windows(found.len()).position(|window| window == found).unwrap();
        bytes[at..at + found.len()].copy_from_slice(wrong);
        fs::write(dir.join(&object), bytes).unwrap();
    }
}

/// Runs a command, which must succeed without a warning, such as that of a loop that the object file lacks.
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{command:?}: {:?}\n{errors}",
        output.status
    );
}

#[test]
fn compiled_ahead_of_time_lists_have_the_bits_of_a_transform_in_c_and_in_rust() {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        println!("skipped: object files are tested on x86-64 Linux");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let runtime = Runtime::build();
    let archive = fs::read(&runtime.c).unwrap();
    assert!(!archive.windows(9).any(|window| window == b"cranelift"), "the library has a compiler");

    let (height, width, stride) = (50, 61, 3 * 61 + 5);
    let pixels: Vec<u8> = (0..height * stride).map(|i| (i * i / 97 + i / 3) as u8).collect();
    let file = jpeg(90, 70, 3);
    fs::write(dir.join("pixels.raw"), &pixels).unwrap();
    fs::write(dir.join("photo.jpg"), &file).unwrap();

    let widest = fuseloop::internals::jit::VectorBits::widest().count();
    for isa in [128, 256, 512].into_iter().filter(|isa| *isa <= widest) {
        compile_lists(dir, &isa.to_string());
        let mut wanted = vec![];
        for (name, _) in LISTS {
            let list = Transform::from_spec(dir.join(format!("{name}.toml"))).unwrap();
            let shape = if name == "gray" { [height, 3 * width, 1] } else { [height, width, 3] };
            for sample in 0..SAMPLES {
                let key = Key::new(7, 2, sample);
                let rows = Image::rows(&pixels, shape, stride).unwrap();
                wanted.extend_from_slice(list.apply(&rows, key).unwrap().as_bytes());
                wanted
                    .extend_from_slice(list.apply(&Image::encoded(&file), key).unwrap().as_bytes());
            }
        }
        let numbers = [height, width, stride].map(|number| number.to_string());
        let programs = [c_program(dir, &runtime), Some(rust_program(dir, &runtime))];
        for program in programs.into_iter().flatten() {
            let mut command = Command::new(&program);
            command.arg("pixels.raw").args(&numbers).args(["photo.jpg", "found"]).current_dir(dir);
            run(command.env("FUSELOOP_NO_JIT", "1"));
            let found = fs::read(dir.join("found")).unwrap();
            assert!(found == wanted, "{} with {isa} bits", program.display());
        }
    }
}

/// Builds the C program; `None` without a C compiler.
fn c_program(dir: &Path, runtime: &Runtime) -> Option<PathBuf> {
    let program = dir.join("in_c");
    fs::write(dir.join("main.c"), include_str!("compile/main.c")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I", ".", "main.c"])
        .current_dir(dir);
    for name in ["val", "train", "policy", "gray", "any", "damaged", "later"] {
        cc.arg(format!("{name}.o"));
    }
    cc.arg(&runtime.c).args(["-lm", "-lpthread", "-ldl", "-o"]).arg(&program);
    match cc.output() {
        Err(_) => {
            println!("skipped: the C program needs a C compiler called cc");
            None
        }
        Ok(_) => {
            run(&mut cc);
            Some(program)
        }
    }
}

fn rust_program(dir: &Path, runtime: &Runtime) -> PathBuf {
    let program = dir.join("in_rust");
    fs::write(dir.join("main.rs"), include_str!("compile/main.rs.in")).unwrap();
    let mut library = runtime.rust.as_os_str().to_owned();
    if let Some(deps) = runtime.rust.parent().filter(|folder| !folder.ends_with("deps")) {
        library = deps.join("deps").join(runtime.rust.file_name().unwrap()).into();
    }
    let deps = Path::new(&library).parent().unwrap().to_owned();
    let mut rustc = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
    rustc.args(["--edition", "2024", "-O", "main.rs", "-o"]).arg(&program).current_dir(dir);
    let mut known = std::ffi::OsString::from("fuseloop=");
    known.push(&library);
    rustc.arg("--extern").arg(known).arg("-L").arg(format!("dependency={}", deps.display()));
    for name in ["val", "train", "policy", "gray", "any", "damaged"] {
        rustc.arg("-C").arg(format!("link-arg={name}.o"));
    }
    run(&mut rustc);
    program
}

#[test]
fn a_list_that_has_no_code_of_its_own_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (list, says) in [
        (r#"{ op = "MixUp", alpha = 0.2 }"#, "MixUp works on batches"),
        (r#"{ op = "ToDevice", device = "auto" }"#, "ToDevice ends on a GPU"),
        (
            r#"{ op = "Resize", size = { from = 32, to = 64, epochs = 4, step = 8 } }"#,
            "change with the epoch",
        ),
    ] {
        fs::write(dir.join("list.toml"), format!("[fields]\nimage = [{list}]\n")).unwrap();
        let (code, errors) = refused(dir, &["compile", "list.toml", "-o", "list.o"]);
        assert!(code == 1 && errors.contains(says), "{list}: {errors}");
    }
    fs::write(dir.join("val.toml"), LISTS[0].1).unwrap();
    for (arguments, says) in [
        (&["val.toml", "-o", "val.toml"][..], "inputs are never modified"),
        (&["val.toml", "-o", "a-b.o"], "set it with --name"),
        (&["val.toml", "-o", "val.o", "--header", "val.o"], "two outputs have this path"),
        (&["val.toml", "-o", "val.o", "--isa", "64"], "128, 256 or 512"),
        (&["none.toml", "-o", "val.o"], "none.toml"),
    ] {
        let (_, errors) = refused(dir, &[&["compile"], arguments].concat());
        assert!(errors.contains(says), "{arguments:?}: {errors}");
    }
    assert!(!dir.join("val.o").exists());
}
