//! The same pixels on every machine and in every build: hashes of the outputs of decoders and the usual
//! pipelines, stored here as literals.
//!
//! | output              | code that must produce the hash                                        |
//! |---------------------|------------------------------------------------------------------------|
//! | decoded goldens     | the decoder in the loader's configuration                              |
//! | pipelines W1 to W5  | compiled code; the oracle, which runs on a CPU without AVX2            |
//! | drawn numbers       | functions of mathematics, whose last bit differs between C libraries   |
//!
//! A debug build and a release build must match the same literals, with vectors of any width: `.ci/run`
//! runs these tests in both builds, and in the debug build also with `FUSELOOP_ISA=128`.

use fuseloop::internals::decode::Decoder;
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop::internals::workload::Workload;
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::rows::affine_matrix;
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// The hash of all goldens that decode, in the order of their names.
const DECODED: &str = "e6926f817638a78fda0330a1dc7b49029fa7f83a96abcb2c7a19082d994b367a";

/// The hashes of W1 to W5: four samples in two epochs, one golden each.
const PIPELINES: [&str; 5] = [
    "b4667ba8583ef2ac77d77dab776d724bc4db47776f19ac915a23ac9b8e57b1e0",
    "348d81a1051c1e959f56a7814cf49ba11646b4ff60d91637884eb2606efd0e9a",
    "973b018e27bf19865535195eecffa9ebd32307a34051cbdbf95d67391fbe7477",
    "d1a7b9591c07ca532e6a611278f23245290fb08442b499af52858e7ca3bfc5f2",
    "9cf9520553b96831a0fe62ae8826c40bf461bcd6f2704dff56eb02c550e9a6f5",
];

/// The hash of drawn normal numbers, and of matrices of drawn angles.
const DRAWN: &str = "fb4b8dfa3af139d803536d9552b971654acf819b13093daf9bfdaa67e38569c4";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg")
}

/// A golden's pixels and size; `None` if the golden is refused.
fn decoded(path: &Path) -> Option<(Vec<u8>, Size)> {
    let bytes = std::fs::read(path).unwrap();
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &bytes };
    let mut decoder = Decoder::default();
    let size = decoder.size(&image).ok()?;
    let decoded = decoder.decode(&image, size.full()).ok()?;
    let view = decoded.window(size.full()).unwrap();
    Some(((0..size.height).flat_map(|y| view.row(y).to_vec()).collect(), size))
}

fn hash(parts: impl IntoIterator<Item = Vec<u8>>) -> String {
    let mut hash = Sha256::new();
    parts.into_iter().for_each(|part| hash.update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn decoded_pictures_are_the_literal_pixels() {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    paths.sort();
    let pictures: Vec<Vec<u8>> =
        paths.iter().filter_map(|path| decoded(path).map(|(pixels, _)| pixels)).collect();
    assert!(pictures.len() > 20, "{}", pictures.len());
    assert_eq!(hash(pictures), DECODED);
}

#[test]
fn pipelines_are_the_literal_pixels_compiled_and_evaluated() {
    let (pixels, size) = decoded(&folder().join("420.jpg")).unwrap();
    let view = ImageView::packed(&pixels, size).unwrap();
    let mut found = vec![];
    for workload in Workload::ALL {
        let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
        let plan = ImagePlan::new(workload.ops().unwrap(), input, NumberRule::Fused).unwrap();
        let kernel = Kernel::compile(plan).unwrap();
        let (mut compiled, mut evaluated) = (vec![], vec![]);
        for (epoch, sample) in (0..2).flat_map(|epoch| (0..4).map(move |sample| (epoch, sample))) {
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(42, epoch, sample), size, &mut draws);
            compiled.push(aligned(kernel.plan().sample_bytes(), |row| {
                kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, row);
            }));
            evaluated.push(jit::evaluate(kernel.plan(), &view, &draws));
        }
        assert_eq!(hash(compiled), hash(evaluated.clone()), "{workload:?}: compiled, evaluated");
        found.push(hash(evaluated));
    }
    assert_eq!(found, PIPELINES);
}

#[test]
fn drawn_numbers_are_the_literal_bits() {
    let mut rng = SampleKey::new(42, 0, 0).op(0);
    let normals = (0..10_000).flat_map(|_| rng.normal().to_le_bytes()).collect();
    let mut rng = SampleKey::new(42, 0, 1).op(0);
    let mut degrees = |most: f32| f64::from(rng.uniform(-most, most));
    let matrices = (0..10_000).flat_map(|_| {
        let (angle, shear) = (degrees(360.0), [degrees(80.0), degrees(80.0)]);
        affine_matrix(angle, [0.0; 2], 1.0, shear, [0.0; 2]).map(f64::to_le_bytes)
    });
    assert_eq!(hash([normals, matrices.flatten().collect()]), DRAWN);
}

/// The bytes that `fill` writes into a buffer of `len` bytes, which starts at a cache line.
fn aligned(len: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; len + 64];
    let start = bytes.as_ptr().align_offset(64);
    fill(&mut bytes[start..start + len]);
    bytes[start..start + len].to_vec()
}
