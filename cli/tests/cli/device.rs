//! The promises of `ToDevice` on a machine without a GPU: the list means the same, a GPU requested by
//! number is an error of one line, and `auto` reports why the CPU is used.

use crate::dataset::{self, varied};
use fuseloop::internals::device::Gpu;
use fuseloop::internals::jit;
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop::loader::{Collate, Placement};
use fuseloop::ops::author::{Dim, ImageType};
use fuseloop::ops::internals::{ImageView, SampleKey};
use fuseloop::write::WriteMode;
use fuseloop::{Batch, Error, ErrorKind, Loader, LoaderBuilder, Order, Spec, ops::*};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const SEED: u64 = 5;
const SIDE: u32 = 40;

fn file() -> (tempfile::TempDir, PathBuf) {
    dataset::write(16, WriteMode::Raw, varied)
}

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(5).seed(SEED).order(Order::Random).drop_last(false)
}

fn batches(loader: &Loader, epoch: u32) -> Vec<Batch> {
    loader.epoch(epoch).unwrap().map(Result::unwrap).collect()
}

fn bytes(loader: &Loader, name: &str) -> Vec<u8> {
    batches(loader, 0).iter().flat_map(|batch| batch.bytes(name).unwrap().to_vec()).collect()
}

/// Returns true if there is no GPU here, which the tests of that case need.
fn has_no_gpu() -> bool {
    let none = Gpu::all().is_err();
    if !none {
        println!("skipped: there is a GPU");
    }
    none
}

fn refusal(builder: LoaderBuilder) -> Error {
    builder.build().expect_err("it should have been refused")
}

fn crop() -> RandomResizedCrop {
    RandomResizedCrop::new(SIDE).unwrap().scale(0.3..=1.0).unwrap().ratio(0.8..=1.2).unwrap()
}

/// Two lists of ops before `ToDevice`: the values after the first are whole numbers, those after the
/// second are not.
fn heads() -> [Ops; 2] {
    let flip = || RandomHorizontalFlip::new(0.5).unwrap();
    let jitter = ColorJitter::new(0.4, 0.4, 0.4).unwrap();
    [ops![crop(), flip()], ops![crop(), flip(), jitter]]
}

/// The ops after `ToDevice`.
fn tail() -> Ops {
    ops![
        Cutout::new(8).unwrap().fill([9, 8, 7]),
        Normalize::imagenet(),
        Convert::to(DType::F16),
        ToChannelsFirst,
    ]
}

fn joined(parts: &[&Ops]) -> Ops {
    parts.iter().flat_map(|part| part.iter().cloned()).collect()
}

fn to(device: &str) -> Ops {
    ops![ToDevice::new(device).unwrap()]
}

/// The output of the list's tail, run sample by sample on the bytes that the head produced.
fn by_hand(path: &Path, head: &Ops) -> Vec<u8> {
    let loader = builder(path).pipeline("image", head.clone()).build().unwrap();
    let size = Size::new(SIDE, SIDE);
    let input = ImageType::decoded(Dim::fixed(SIDE), Dim::fixed(SIDE));
    let plan = ImagePlan::new(tail(), input, NumberRule::Fused).unwrap();
    let (mut draws, mut all) = (Draws::default(), vec![]);
    for batch in batches(&loader, 0) {
        let pixels = batch.bytes("image").unwrap().chunks(3 * size.pixels() as usize);
        for (sample, pixels) in batch.ids().iter().zip(pixels) {
            plan.draw(SampleKey::new(SEED, 0, sample.0).field(0), size, &mut draws);
            let view = ImageView::packed(pixels, size).unwrap();
            all.extend(jit::evaluate(&plan, &view, &draws));
        }
    }
    all
}

#[test]
fn a_list_with_the_op_is_the_list_cut_in_two_there() {
    let (_dir, path) = file();
    for head in heads() {
        let want = by_hand(&path, &head);
        let list = joined(&[&head, &to("cpu"), &tail()]);
        let loader = builder(&path).pipeline("image", list).build().unwrap();
        assert!(bytes(&loader, "image") == want, "{head:?}");
    }
}

#[test]
fn where_values_are_whole_the_op_changes_nothing() {
    let (_dir, path) = file();
    let [head, jittered] = heads();
    let of = |list: Ops| {
        let loader = builder(&path).pipeline("image", list).build().unwrap();
        bytes(&loader, "image")
    };
    let with = |head: &Ops| of(joined(&[head, &to("cpu"), &tail()]));
    let without = |head: &Ops| of(joined(&[head, &tail()]));
    assert!(with(&head) == without(&head));
    // The comparison detects the rounding by the op.
    assert!(with(&jittered) != without(&jittered));
}

#[test]
fn labels_arrays_and_bytes_may_lie_anywhere() {
    let (_dir, path) = file();
    let list = |ops: fn() -> Ops| {
        let loader = builder(&path).pipeline("label", ops()).without("image");
        bytes(&loader.build().unwrap(), "label")
    };
    let one_hot = || OneHot::new(10).unwrap();
    assert_eq!(list(|| to("cpu")), list(|| ops![]));
    assert_eq!(
        list(|| ops![OneHot::new(10).unwrap(), ToDevice::new("cpu").unwrap(), Squeeze]),
        list(|| ops![OneHot::new(10).unwrap(), Squeeze])
    );
    let mixed = move || ops![MixUp::new(1.0).unwrap()];
    let image = joined(&[&ops![crop()], &to("cpu"), &ops![Normalize::imagenet()], &mixed()]);
    let label = joined(&[&ops![one_hot()], &to("cpu"), &mixed()]);
    let on = builder(&path).pipeline("image", image).pipeline("label", label).build().unwrap();
    let image = joined(&[&ops![crop(), Normalize::imagenet()], &mixed()]);
    let label = joined(&[&ops![one_hot()], &mixed()]);
    let off = builder(&path).pipeline("image", image).pipeline("label", label).build().unwrap();
    for name in ["image", "label"] {
        assert!(bytes(&on, name) == bytes(&off, name), "{name}");
    }
}

/// How the reason begins if there is no driver.
const NO_DRIVER: &str =
    "a GPU was requested, but the NVIDIA driver's library (libcuda.so.1) is not on this machine: ";

/// A loader whose lists name these devices.
fn naming(path: &Path, image: &'static str, label: &'static str) -> LoaderBuilder {
    builder(path)
        .pipeline("image", joined(&[&ops![crop()], &to(image), &tail()]))
        .pipeline("label", to(label))
}

#[test]
fn a_gpu_by_number_is_had_or_refused() {
    if !has_no_gpu() {
        return;
    }
    let (_dir, path) = file();
    for builder in [
        naming(&path, "cuda:0", "cuda:0"),
        naming(&path, "auto", "cpu").device("cuda"),
        naming(&path, "cpu", "cpu").device("cuda:0"),
    ] {
        let error = refusal(builder);
        assert_eq!(error.kind(), ErrorKind::Device, "{error:?}");
        let line = error.to_string();
        assert!(line.starts_with(NO_DRIVER), "{line}");
        assert!(!line.contains('\n') && line.contains("use the device \"cpu\""), "{line}");
    }
}

#[test]
fn auto_takes_the_cpu_and_says_why() {
    if !has_no_gpu() {
        return;
    }
    let (_dir, path) = file();
    let host = naming(&path, "cpu", "cpu").build().unwrap();
    assert_eq!(host.device(), Placement::default());
    assert!(!host.explain().contains("device:"), "{}", host.explain());
    for builder in [
        naming(&path, "auto", "auto"),
        naming(&path, "cuda:3", "cpu").device("auto"),
        naming(&path, "auto", "cpu").recompile(true),
    ] {
        let loader = builder.build().unwrap();
        let placement = loader.device();
        assert_eq!(placement.device, Device::Cpu);
        let reason = placement.fallback.unwrap();
        assert!(reason.starts_with(NO_DRIVER), "{reason}");
        assert_eq!(
            loader.explain().lines().next().unwrap(),
            format!("device: cpu, since {reason}")
        );
        assert!(bytes(&loader, "image") == bytes(&host, "image"));
        assert_eq!(batches(&loader, 1).len(), 4); // the next epoch's batches too
    }
}

#[test]
fn a_device_for_the_whole_loader_overrides_the_lists() {
    let (_dir, path) = file();
    let loader = naming(&path, "cuda:0", "cuda:1").device("cpu").build().unwrap();
    assert_eq!(loader.device(), Placement::default());
    assert_eq!(loader.device().to_string(), "cpu");
    assert!(
        bytes(&loader, "image") == bytes(&naming(&path, "cpu", "cpu").build().unwrap(), "image")
    );
}

#[test]
fn what_can_not_be_meant_is_refused() {
    let (_dir, path) = file();
    let says = |builder: LoaderBuilder, words: &str| {
        let error = refusal(builder).to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    };
    says(
        naming(&path, "cuda:0", "cuda:1"),
        "both cuda:0 and cuda:1 in ToDevice: a loader has only one",
    );
    says(naming(&path, "auto", "auto").device("gpu"), "expected cpu, auto, cuda or cuda:N");
    says(naming(&path, "auto", "auto").device_batches(0), "0 batches on the device");
    let list = || ops![crop(), Normalize::imagenet()];
    let plain = builder(&path).pipeline("image", list());
    says(plain.device("cuda:0"), "no list of ops has ToDevice");
    let late = joined(&[&list(), &to("auto"), &ops![ToChannelsFirst]]);
    says(
        builder(&path).pipeline("image", late),
        "put Normalize, Convert and ToChannelsFirst after",
    );
    let wild = builder(&path).pipeline("image", joined(&[&to("auto"), &ops![crop()]]));
    says(wild, "put it after the crop or resize");
    let padded = builder(&path).collate("image", Collate::pad());
    says(
        padded.pipeline("image", to("auto")),
        "images of differing sizes are collated on the host",
    );
}

#[test]
fn without_the_op_a_device_that_may_be_the_cpu_is_no_matter() {
    let (_dir, path) = file();
    for device in ["cpu", "auto"] {
        let builder = builder(&path).pipeline("image", ops![crop()]);
        assert_eq!(builder.device(device).build().unwrap().device(), Placement::default());
    }
}

#[test]
fn a_cursor_goes_from_device_to_device() {
    let (_dir, path) = file();
    let one = naming(&path, "cpu", "cpu").build().unwrap();
    let mut run = one.epoch(0).unwrap();
    run.next().unwrap().unwrap();
    let (cursor, rest) = (one.cursor().unwrap(), run.map(Result::unwrap).collect::<Vec<_>>());
    let other = naming(&path, "cuda:0", "auto").device("cpu").build().unwrap();
    let resumed: Vec<Batch> = other.resume(&cursor).unwrap().map(Result::unwrap).collect();
    assert_eq!((rest.len(), resumed.len()), (3, 3));
    for (a, b) in rest.iter().zip(&resumed) {
        assert!(a.ids() == b.ids() && a.bytes("image").unwrap() == b.bytes("image").unwrap());
    }
    // The op itself is part of the plan, because it rounds.
    let without = builder(&path).pipeline("image", joined(&[&ops![crop()], &tail()]));
    assert!(without.build().unwrap().resume(&cursor).is_err());
}

#[test]
fn a_pipeline_file_names_devices() {
    let text = "
        device = 'cpu'
        device_batches = 6
        [[fields.image]]
        op = 'CenterCrop'
        size = 32
        [[fields.image]]
        op = 'ToDevice'
        device = 'cuda:0'
        [[fields.image]]
        op = 'ToChannelsFirst'
    ";
    let spec: Spec = text.parse().unwrap();
    let settings = spec.settings();
    assert_eq!((settings.device, settings.device_batches), (Some(Device::Cpu), Some(6)));
    let (_dir, path) = file();
    let loader = spec.apply(Loader::open(&path).unwrap()).build().unwrap();
    assert_eq!(
        (loader.device(), &*loader.tensors()[0].shape),
        (Placement::default(), &[3, 32, 32][..])
    );
    let error = text.replace("'cpu'", "'gpu'").parse::<Spec>().unwrap_err().to_string();
    assert!(error.contains("pipeline:2:") && error.contains("cuda:N"), "{error}");
}

/// Runs the command and returns its exit code, its stdout and its stderr.
fn command(path: &Path, args: &[&str]) -> (i32, String, String) {
    let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    let args = args.iter().map(|arg| if *arg == "FILE" { name } else { OsStr::new(arg) });
    let output = command.args(args).current_dir(folder).output().unwrap();
    let [said, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), said, errors)
}

#[test]
fn info_tells_what_there_is_or_why_there_is_nothing() {
    if !has_no_gpu() {
        return;
    }
    let (_dir, path) = file();
    let (code, text, _) = command(&path, &["info", "--gpu"]);
    assert!(code == 0 && text.starts_with("no GPU: ") && text.contains("libcuda.so.1"), "{text}");
    let (code, text, _) = command(&path, &["info", "--gpu", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && report["gpus"] == Value::Array(vec![]) && report["no_gpu"].is_string());
    assert_eq!(command(&path, &["info"]).0, 2);
    assert_eq!(command(&path, &["info", "FILE", "--gpu"]).0, 2);
}

#[test]
fn info_tells_how_loops_run_on_the_cpu() {
    let (_dir, path) = file();
    let arch = std::env::consts::ARCH;
    let (code, text, _) = command(&path, &["info", "--cpu"]);
    assert!(code == 0 && text.starts_with(&format!("CPU: {arch}, ")), "{text}");
    assert!(text.contains("\nloops: "), "{text}");
    let (_, text, _) = command(&path, &["info", "--cpu", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(
        report["arch"] == arch
            && report["vector_bits"].is_null() != report["not_compiled"].is_null()
    );
    assert_eq!(command(&path, &["info", "FILE", "--cpu"]).0, 2);
}

#[cfg(feature = "video")]
#[test]
fn info_tells_what_decodes_videos() {
    let (_dir, path) = file();
    let (code, text, _) = command(&path, &["info", "--video"]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.starts_with("decoders of this build: H.264 and Motion JPEG\nlibavcodec: "),
        "{text}"
    );
    let (_, text, _) = command(&path, &["info", "--video", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(report["libavcodec"].is_null() != report["not_found"].is_null(), "{text}");
    assert_eq!(command(&path, &["info", "FILE", "--video"]).0, 2);
}

#[test]
fn bench_and_explain_say_where_they_run() {
    if !has_no_gpu() {
        return;
    }
    let (_dir, path) = file();
    let says = |args: &[&str]| {
        let (code, text, errors) = command(&path, args);
        assert_eq!(code, 0, "{errors}");
        text
    };
    for line in ["bench FILE -e 1 -n 1", "explain FILE -n 0"] {
        let args: Vec<&str> = line.split(' ').collect();
        let on = |device| says(&[&args[..], &["--device", device]].concat());
        let reason = "device: cpu, since a GPU was requested, but";
        assert_eq!(on("auto").matches(reason).count(), 1, "{}", on("auto"));
        assert!(!on("cpu").contains("device:") && !says(&args).contains("device:"));
        let report: Value =
            serde_json::from_str(&says(&[&args[..], &["--device", "auto", "--json"]].concat()))
                .unwrap();
        assert!(report["device"] == "cpu" && report["device_fallback"].is_string(), "{report}");
        let (code, _, errors) = command(&path, &[&args[..], &["--device", "cuda:0"]].concat());
        assert!(code == 1 && errors.contains("help: `fuseloop info --gpu`"), "{errors}");
        assert_eq!(command(&path, &[&args[..], &["--device", "gpu"]].concat()).0, 2);
    }
    assert!(says(&["explain", "FILE", "-n", "0", "--device", "auto"]).contains("ToDevice"));
}
