//! Lists that `fuseloop compile` compiled ahead of time: code that is a part of the program.
//!
//! The object file defines one static, [`CompiledObject`], in the byte order of its CPU:
//!
//! | offset | bytes | field         | meaning                                        |
//! |-------:|------:|---------------|------------------------------------------------|
//! |      0 |     8 | `magic`       | `FUSELOOP`                                     |
//! |      8 |     4 | `format`      | 1                                              |
//! |     12 |     4 | `crc`         | CRC-32C of the description                     |
//! |     16 |     8 | `description` | address of the [description](Description), JSON |
//! |     24 |     8 | `length`      | bytes of the description                       |
//! |     32 |     8 | `entries`     | address of the addresses of the functions      |
//! |     40 |     8 | `count`       | number of functions, one for each loop body    |
//!
//! The list is planned again by the program that runs it, which finds each loop body by a [key](body_key) of all that its
//! code depends on. The functions call row functions by addresses among their constants, which are filled in here: the
//! object needs no symbol of the program, and nothing of it is written.

#![allow(unsafe_code, reason = "reads the static of an object file by its addresses")]

use super::body::{CompiledBody, row_functions};
use super::code::{BodyFn, Code};
use super::param_block::{HEADER, PASS, REGION};
use super::shuffle_tables::shuffles_for;
use super::spec;
use super::vector_bits::{Fallback, VectorBits};
use crate::error::{Error, fail};
use crate::plan::{FusedOp, ImagePlan};
use fuseloop_ops::DType;
use fuseloop_ops::internals::{MAX_CHANNELS, PixelFormat};
use serde_json::Value;
use std::fmt::Write as _;
use std::slice;

/// A list of ops that `fuseloop compile` wrote to an object file, for
/// [`Transform::linked`](crate::Transform::linked).
///
/// A program can't make one: it declares the static that the object file defines, as the file of `--rust` does.
///
/// ```no_run
/// use fuseloop::Transform;
/// use fuseloop::transform::CompiledObject;
///
/// unsafe extern "C" {
///     static fuseloop_list_val: CompiledObject;
/// }
/// // SAFETY: the object file defines it, and nothing writes to it.
/// let val = Transform::linked(unsafe { &fuseloop_list_val })?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct CompiledObject {
    magic: [u8; 8],
    format: u32,
    crc: u32,
    description: *const u8,
    length: u64,
    entries: *const BodyFn,
    count: u64,
}

// SAFETY: nothing is written, here or through the addresses.
unsafe impl Sync for CompiledObject {}

/// The first bytes of the static.
pub(super) const MAGIC: [u8; 8] = *b"FUSELOOP";

/// The format of the static and of the description.
pub(super) const FORMAT: u32 = 1;

/// How the code of an object file is made again.
const AGAIN: &str =
    "run `fuseloop compile` again, of the version of fuseloop that the program is built with";

/// The code of an object file.
#[derive(Debug)]
pub(crate) struct LinkedCode {
    pub(crate) description: Description,
    entries: &'static [BodyFn],
}

/// The description of an object file's code.
#[derive(Debug)]
pub(crate) struct Description {
    /// The version of fuseloop, and a hash of what compiled code and the host agree on.
    abi: String,
    bits: VectorBits,
    /// The pipeline file.
    pub(crate) pipeline: String,
    /// The number that is written to the header, too.
    pub(crate) header: u64,
    /// The loop bodies, in the order of their functions.
    bodies: Vec<BodyDescription>,
}

/// A loop body of an object file.
#[derive(Debug)]
pub(super) struct BodyDescription {
    pub(super) key: u64,
    /// The bytes of code.
    pub(super) code: usize,
    pub(super) constants: Vec<u128>,
    pub(super) passes: Vec<Result<VectorBits, Fallback>>,
    /// The row functions that the code calls, and the offsets of their addresses among the constants.
    pub(super) calls: Vec<(String, usize)>,
}

impl LinkedCode {
    /// Checks an object file that is part of the program.
    pub(crate) fn open(list: &'static CompiledObject) -> Result<Self, Error> {
        if list.magic != MAGIC {
            return Err(fail!(
                Format,
                "the static does not begin with `FUSELOOP`: use the one that the object file of `fuseloop compile` defines"
            ));
        }
        if list.format != FORMAT {
            return Err(fail!(
                Format,
                "the object file has format {}, but this program reads format {FORMAT}: {AGAIN}",
                list.format
            ));
        }
        // SAFETY: a reference to a `CompiledObject` is that of a static that `fuseloop compile` wrote, or a copy of it, whose
        // addresses are good for these lengths, as long as the program runs, and which nothing writes to.
        let (text, entries) = unsafe {
            (
                slice::from_raw_parts(list.description, list.length as usize),
                slice::from_raw_parts(list.entries, list.count as usize),
            )
        };
        let crc = crc32c::crc32c(text);
        if crc != list.crc {
            return Err(fail!(
                Format,
                "the object file is damaged: the checksum of its description is {crc:08x}, but should be {:08x}: {AGAIN}",
                list.crc
            ));
        }
        let mut description = Description::parse(text, entries.len())?;
        let (found, own) = (&description.abi, abi());
        if *found != own {
            return Err(fail!(
                Format,
                "the object file was written by fuseloop {found}, but this program is built with {own}: {AGAIN}"
            ));
        }
        let missing = missing_features(description.bits);
        if !missing.is_empty() {
            return Err(fail!(
                Unsupported,
                "the object file is for vectors of {} bits, but this CPU has no {missing}: all need AVX2 and FMA, and \
                 `fuseloop compile --isa 256` needs no AVX-512",
                description.bits.count()
            ));
        }
        for body in &mut description.bodies {
            for (name, offset) in &body.calls {
                let mut known = row_functions();
                let (_, address) = known.find(|(known, _)| known == name).ok_or_else(damaged)?;
                *body.constants.get_mut(offset / 16).ok_or_else(damaged)? = address as u128;
            }
        }
        Ok(Self { description, entries })
    }

    /// Returns a loop body.
    pub(super) fn body(
        &self,
        (plan, block): (&ImagePlan, usize),
        links: &[FusedOp],
    ) -> Result<CompiledBody, Error> {
        let key = body_key(plan, block, links);
        let mut bodies = self.description.bodies.iter().zip(self.entries);
        let Some((body, entry)) = bodies.find(|(body, _)| body.key == key) else {
            return Err(fail!(
                Pipeline,
                "the object file has no code for this list of ops: its settings were changed after `fuseloop compile`, or it \
                 has targets: {AGAIN}"
            ));
        };
        let spec = spec(plan, block, links, self.description.bits);
        if body.passes.len() != 1 + spec.readings().count() {
            return Err(damaged());
        }
        let code = Code::Linked(*entry, body.code);
        Ok(CompiledBody::new(spec, code, body.constants.clone(), body.passes.clone()))
    }
}

/// Returns the error of a description that can't be read although its checksum is right.
fn damaged() -> Error {
    fail!(Format, "the object file is damaged: its description can't be read: {AGAIN}")
}

impl Description {
    #[cfg(feature = "object")]
    pub(super) fn new(
        bits: VectorBits,
        pipeline: String,
        header: u64,
        bodies: Vec<BodyDescription>,
    ) -> Self {
        Self { abi: abi(), bits, pipeline, header, bodies }
    }

    /// Returns the description as JSON.
    #[cfg(feature = "object")]
    pub(super) fn text(&self) -> String {
        let body = |body: &BodyDescription| {
            let constants = body.constants.iter().map(|constant| format!("{constant:032x}"));
            serde_json::json!({
                "key": format!("{:016x}", body.key),
                "code": body.code,
                "constants": constants.collect::<String>(),
                "passes": body.passes.iter().map(pass_word).collect::<Vec<_>>(),
                "calls": body.calls,
            })
        };
        let Self { abi, bits, pipeline, header, bodies } = self;
        let description = serde_json::json!({
            "abi": abi,
            "bits": bits.count(),
            "pipeline": pipeline,
            "header": format!("{header:016x}"),
            "bodies": bodies.iter().map(body).collect::<Vec<_>>(),
        });
        description.to_string()
    }

    /// Reads a description of the code of `count` functions.
    pub(crate) fn parse(text: &[u8], count: usize) -> Result<Self, Error> {
        let read = |value: Value| {
            let text = |name: &str| value.get(name)?.as_str();
            let bits = VectorBits::of_count(value.get("bits")?.as_u64()?)?;
            let bodies = value.get("bodies")?.as_array()?;
            let bodies = bodies.iter().map(|body| BodyDescription::of(body, bits));
            Some(Self {
                abi: text("abi")?.to_owned(),
                bits,
                pipeline: text("pipeline")?.to_owned(),
                header: u64::from_str_radix(text("header")?, 16).ok()?,
                bodies: bodies.collect::<Option<Vec<_>>>()?,
            })
        };
        let description = serde_json::from_slice(text).ok().and_then(read);
        description.filter(|read| read.bodies.len() == count).ok_or_else(damaged)
    }
}

impl BodyDescription {
    fn of(value: &Value, bits: VectorBits) -> Option<Self> {
        let constants = value.get("constants")?.as_str()?.as_bytes().chunks(32);
        let constant = |digits| u128::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        let call = |call: &Value| {
            let offset = usize::try_from(call.get(1)?.as_u64()?).ok()?;
            Some((call.get(0)?.as_str()?.to_owned(), offset))
        };
        let pass = |word: &Value| match word.as_str()? {
            "" => Some(Ok(bits)),
            word => Fallback::named(word).map(Err),
        };
        Some(Self {
            key: u64::from_str_radix(value.get("key")?.as_str()?, 16).ok()?,
            code: usize::try_from(value.get("code")?.as_u64()?).ok()?,
            constants: constants.map(constant).collect::<Option<_>>()?,
            passes: value.get("passes")?.as_array()?.iter().map(pass).collect::<Option<_>>()?,
            calls: value.get("calls")?.as_array()?.iter().map(call).collect::<Option<_>>()?,
        })
    }
}

/// Returns the word of a pass in a description: none for the vectors that were asked for.
#[cfg(feature = "object")]
fn pass_word(pass: &Result<VectorBits, Fallback>) -> String {
    pass.err().map_or(String::new(), Fallback::name)
}

/// Returns the key of a loop body: a hash of all that its code depends on, but for the width of its vectors.
pub(super) fn body_key(plan: &ImagePlan, block: usize, links: &[FusedOp]) -> u64 {
    fnv(format!("{} {block} {links:?}", plan.code_key()).as_bytes())
}

/// Returns the 64-bit FNV-1a hash, which is the same for all compilers.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Returns the version of this crate, and a hash of what compiled code and the host agree on.
fn abi() -> String {
    let mut agreed = format!("{FORMAT} {HEADER} {PASS} {REGION}");
    for (name, _) in row_functions() {
        let _ = write!(agreed, " {name}");
    }
    for dtype in [DType::U8, DType::U16, DType::I16, DType::F32] {
        for channels in 1..=MAX_CHANNELS {
            for mirrored in [false, true] {
                let shuffles = shuffles_for(PixelFormat { channels, dtype }, mirrored);
                let _ = write!(agreed, " {:x}", crc32c::crc32c(shuffles.as_flattened()));
            }
        }
    }
    // The layout of what code reads is defined in these files.
    for file in
        [include_str!("param_block.rs"), include_str!("invocation.rs"), include_str!("call.rs")]
    {
        let _ = write!(agreed, " {:x}", crc32c::crc32c(file.as_bytes()));
    }
    format!("{} ({:08x})", env!("CARGO_PKG_VERSION"), crc32c::crc32c(agreed.as_bytes()))
}

/// Returns the features of the CPU that code with vectors of `bits` needs and this CPU lacks.
#[cfg(target_arch = "x86_64")]
fn missing_features(bits: VectorBits) -> String {
    use std::arch::is_x86_feature_detected as has;
    let needed = [
        ("AVX2", has!("avx2")),
        ("FMA", has!("fma")),
        ("F16C", has!("f16c")),
        ("BMI1", has!("bmi1")),
        ("BMI2", has!("bmi2")),
        ("LZCNT", has!("lzcnt")),
        ("POPCNT", has!("popcnt")),
        ("AVX-512 with VBMI", bits != VectorBits::V512 || VectorBits::widest() == bits),
    ];
    let missing = needed.iter().filter(|(_, has)| !has).map(|(name, _)| *name);
    missing.collect::<Vec<_>>().join(", ")
}

/// Returns the kind of CPU that code needs.
#[cfg(not(target_arch = "x86_64"))]
fn missing_features(_: VectorBits) -> String {
    "x86-64 instructions".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_says;

    /// A static whose description is `text`, with the right checksum.
    fn list(text: &str) -> &'static CompiledObject {
        let text = text.to_owned().leak();
        let (crc, length) = (crc32c::crc32c(text.as_bytes()), text.len() as u64);
        let entries = std::ptr::NonNull::dangling().as_ptr();
        let description = text.as_ptr();
        let list = CompiledObject {
            magic: MAGIC,
            format: FORMAT,
            crc,
            description,
            length,
            entries,
            count: 0,
        };
        Box::leak(Box::new(list))
    }

    fn of_version(version: &str) -> String {
        format!(r#"{{"abi":"{version}","bits":128,"pipeline":"","header":"0","bodies":[]}}"#)
    }

    fn says(text: &str, words: &str) {
        assert_says(LinkedCode::open(list(text)).unwrap_err(), [words]);
    }

    #[test]
    fn an_object_of_another_version_is_refused() {
        says(&of_version("0.0.1 (00000000)"), "written by fuseloop 0.0.1");
        assert!(LinkedCode::open(list(&of_version(&abi()))).is_ok());
    }

    #[test]
    fn a_description_that_is_none_is_refused() {
        let right = of_version(&abi());
        for wrong in ["", "{}", "[1]", "\u{7f}", &right[1..], &right.replace("128", "64")] {
            says(wrong, "its description can't be read");
        }
        let call = r#"{"key":"1","code":1,"constants":"","passes":[""],"calls":[["make_row",0]]}"#;
        let body = right.replace("[]", &format!("[{call}]"));
        assert!(Description::parse(body.as_bytes(), 1).is_ok());
        assert!(Description::parse(body.as_bytes(), 2).is_err());
    }
}
