//! `fuseloop compile`: compiles a pipeline file ahead of time, for programs without a compiler.

use super::number;
use super::output::{self, Existing};
use super::print::note;
use super::problem::Problem;
use fuseloop::internals::info::counted;
use fuseloop::internals::spec::ahead_of_time;
use fuseloop::internals::transform::AheadOfTime;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Compile a pipeline file to an object file, for programs without a compiler
///
/// A C program links the object file with the library of the crate fuseloop-runtime, and includes the header. A Rust program
/// links it, and includes the Rust file; it uses the crate fuseloop without the feature `jit`.
///
/// The list gets images of one type: u8 with three channels, unless the file sets `read_mode`. It needs an x86-64.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop compile val.toml -o val.o --header val.h
  fuseloop compile val.toml -o val.o --rust val.rs
  fuseloop compile val.toml -o val.o --header val.h --isa 256    # for CPUs with AVX2")]
pub(super) struct Args {
    /// Pipeline file
    #[arg(value_name = "FILE.toml")]
    pipeline: PathBuf,
    /// Path of the object file
    #[arg(long, short = 'o', value_name = "FILE.o", value_parser = output::local())]
    out: PathBuf,
    /// Path of a header for C and C++
    #[arg(long, value_name = "FILE.h", value_parser = output::local())]
    header: Option<PathBuf>,
    /// Path of a file that Rust programs include
    #[arg(long, value_name = "FILE.rs", value_parser = output::local())]
    rust: Option<PathBuf>,
    /// Name of the list in the program [default: that of the object file]
    #[arg(long)]
    name: Option<String>,
    /// Number of bits of vectors, of 128, 256 and 512 [default: the CPU's]
    #[arg(long, value_name = "BITS", value_parser = number::at_least_one::<std::num::NonZeroU64>)]
    isa: Option<std::num::NonZeroU64>,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let name = name(args)?;
    let outputs = [Some(&args.out), args.header.as_ref(), args.rust.as_ref()];
    let outputs: Vec<&PathBuf> = outputs.into_iter().flatten().collect();
    for (k, path) in outputs.iter().enumerate() {
        output::refuse_input(path, &args.pipeline, [])?;
        if outputs[..k].contains(path) {
            return Err(Problem::Refused {
                message: format!("{}: two outputs have this path", path.display()),
                help: "give each output a path of its own",
            });
        }
    }
    let compiled =
        ahead_of_time(&args.pipeline, &format!("fuseloop_list_{name}"), args.isa.map(Into::into))?;
    let write = |path: &Path, bytes: &[u8]| output::write_bytes(path, Existing::Replace, &[bytes]);
    write(&args.out, &compiled.object)?;
    if let Some(path) = &args.header {
        write(path, header(&name, &args.pipeline, &compiled).as_bytes())?;
    }
    if let Some(path) = &args.rust {
        write(path, rust(&name).as_bytes())?;
    }
    let (code, data, bodies) = compiled.sizes;
    note(&format!(
        "{}: {} with vectors of {} bits, {code} bytes of code, {data} bytes of data",
        args.out.display(),
        counted(bodies as u64, "loop"),
        compiled.bits
    ));
    Ok(())
}

/// Returns the name of the list, which C and Rust must take as a part of a name.
fn name(args: &Args) -> Result<String, Problem> {
    let stem = args.out.file_stem().unwrap_or_default().to_string_lossy();
    let name = args.name.as_deref().unwrap_or(&stem);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_taken = name == "fuseloop" || name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_word) || is_taken {
        return Err(Problem::Refused {
            message: format!(
                "{name:?} can't be a part of a name in C: use up to 64 letters, digits and underscores, no digit first, and not `fuseloop`"
            ),
            help: "set it with --name",
        });
    }
    Ok(name.to_owned())
}

/// The declarations that all headers have.
const COMMON: &str = include_str!("fuseloop.h");

/// Returns the header of a list.
fn header(name: &str, pipeline: &Path, compiled: &AheadOfTime) -> String {
    let AheadOfTime {
        header,
        bits,
        sizes: (code, data, _),
        input: (input, channels),
        dtype,
        shape,
        ..
    } = compiled;
    let upper = name.to_ascii_uppercase();
    let file = pipeline.file_name().unwrap_or_default().to_string_lossy().replace("*/", "* /");
    let side = |side: &usize| match side {
        0 => "of the image".to_owned(),
        side => side.to_string(),
    };
    let axes: Vec<String> = shape.iter().map(side).collect();
    let axes = axes.join(", ");
    let is_fixed = !shape.contains(&0);
    let mut text = format!(
        "/* The list of {file}, compiled by fuseloop {version}. Do not edit: run `fuseloop compile` again.

   image   {input} [height, width, {channels}], or an image file
   array   {dtype} [{axes}]
   CPU     x86-64 with {cpu}
   memory  the object has {code} bytes of code and {data} bytes of data, which are only read. A context allocates with the
           first image, and keeps for later ones: the decoded part of an image file, the rows between two ops, and
           tables of the sizes of the image and the array. No thread is started, and no page is made executable.

   cc main.c {name}.o libfuseloop_runtime.a -lm -lpthread -ldl

       fuseloop_context *context;
       fuseloop_key key = {{0}};
       if ({name}_open(&context) != FUSELOOP_OK) puts(fuseloop_last_error());
",
        version = env!("CARGO_PKG_VERSION"),
        cpu = match bits {
            512 => "AVX-512 and VBMI",
            _ => "AVX2, FMA and F16C",
        },
    );
    let _ = if is_fixed {
        writeln!(
            text,
            "       static _Alignas(8) uint8_t out[{upper}_BYTES];
       if (fuseloop_apply_file(context, file, file_bytes, key, out, sizeof out, NULL) != FUSELOOP_OK)
           puts(fuseloop_last_error());"
        )
    } else {
        writeln!(
            text,
            "       fuseloop_array array;
       if (fuseloop_apply_file(context, file, file_bytes, key, NULL, 0, &array) != FUSELOOP_OK)
           puts(fuseloop_last_error());
       void *out = malloc(array.bytes);
       fuseloop_apply_file(context, file, file_bytes, key, out, array.bytes, &array);"
        )
    };
    let _ = writeln!(text, "       fuseloop_close(context); */\n");
    let _ = writeln!(text, "{COMMON}");
    let _ = writeln!(text, "#ifndef FUSELOOP_LIST_{upper}\n#define FUSELOOP_LIST_{upper}\n");
    let _ = writeln!(text, "#define {upper}_CHANNELS {channels}");
    let _ =
        writeln!(text, "#define {upper}_DTYPE FUSELOOP_{}", dtype.to_string().to_ascii_uppercase());
    let _ = writeln!(text, "#define {upper}_AXES {}", shape.len());
    if is_fixed {
        let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
        let bytes = shape.iter().product::<usize>() * dtype.bytes();
        let _ = writeln!(text, "#define {upper}_SHAPE {{{}}}", sides.join(", "));
        let _ = writeln!(text, "#define {upper}_BYTES {bytes}");
    }
    let _ = writeln!(
        text,
        "
#ifdef __cplusplus
extern \"C\" {{
#endif

extern const fuseloop_list fuseloop_list_{name};

/* Opens the list: see fuseloop_open. */
static inline int {name}_open(fuseloop_context **context)
{{
    return fuseloop_open(&fuseloop_list_{name}, UINT64_C(0x{header:016x}), context);
}}

#ifdef __cplusplus
}}
#endif

#endif"
    );
    text
}

/// Returns the file that Rust programs include.
fn rust(name: &str) -> String {
    let text = include_str!("list.rs.in").replace("VERSION", env!("CARGO_PKG_VERSION"));
    text.replace("NAME", name)
}
