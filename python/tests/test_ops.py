"""The classes of ops: they follow the registry, as data and as Python."""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import _fuseloop, ops

WHOLE = [ops.Resize((32, 32))]
REGISTRY = {entry["name"]: entry for entry in _fuseloop.registry()}
ORDERS = Path(__file__).parent / "golden" / "parameters.json"


def made(entry: dict) -> ops.Op:
    """Builds an op from the examples in the registry."""
    given = {param["name"]: param["value"] for param in entry["params"] if param["need"] == "required"}
    if any(param["kind"] == "Ops" for param in entry["params"]):
        given = {
            name: [getattr(ops, op)() for op in value] if isinstance(value, tuple) else value
            for name, value in given.items()
        }
    return getattr(ops, entry["name"])(**given)


@pytest.mark.parametrize("name", REGISTRY)
def test_ops_follow_the_registry(name: str) -> None:
    entry = REGISTRY[name]
    kind = getattr(ops, name)
    for alias in entry["aliases"]:
        assert getattr(ops, alias) is kind
    signature = inspect.signature(kind)
    params = {param["name"]: param for param in entry["params"]}
    assert set(signature.parameters) == set(params)
    for param in signature.parameters.values():
        need, value = params[param.name]["need"], params[param.name]["value"]
        expected = {"required": inspect.Parameter.empty, "default": value, "optional": None}[need]
        assert param.default == expected
    assert kind.__doc__ and kind.__match_args__ == tuple(signature.parameters)

    op = made(entry)
    assert op == made(entry) and hash(op) == hash(made(entry)) and op.name == name
    assert pickle.loads(pickle.dumps(op)) == op
    assert eval(repr(op), {**vars(ops)}) == op  # noqa: S307, its own repr
    with pytest.raises(AttributeError, match="does not change"):
        op.p = 1
    with pytest.raises(fl.ParamError, match="no parameter nonsense"):
        kind(nonsense=1)


def test_order_of_parameters_is_kept() -> None:
    """What may be given by position is an interface: a change shows here."""
    found = {name: list(getattr(ops, name).__match_args__) for name in REGISTRY}
    assert found == json.loads(ORDERS.read_text(encoding="utf-8"))


def test_order_of_parameters_is_torchvisions() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    compared = 0
    for name in REGISTRY:
        theirs = getattr(v2, name, None)
        if theirs is None:
            continue
        own = list(getattr(ops, name).__match_args__)
        known = [param for param in inspect.signature(theirs).parameters if param in own]
        assert [param for param in own if param in known] == known, name
        compared += 1
    assert compared > 15


def test_transforms_of_weights_have_torchvisions_pixels(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    presets = pytest.importorskip("torchvision.transforms._presets")
    from PIL import Image
    from torchvision import transforms as v1

    bicubic = v1.InterpolationMode.BICUBIC
    for preset in (
        presets.ImageClassification(crop_size=24),
        presets.ImageClassification(crop_size=32, resize_size=36, interpolation=bicubic, mean=(0.5,) * 3, std=(0.2,) * 3),
        presets.SemanticSegmentation(resize_size=40),
    ):
        made = ops.from_torchvision(preset)
        dataset = fl.sources.open(photos)
        options = {"collate": {"image": fl.Collate.list(to=(96, 96))}, "as_dict": True}
        loader = fl.torch.Loader(dataset, batch_size=len(dataset), image=made, **options)
        (images,) = (batch["image"] for batch in loader)
        files = sorted(photos.rglob("*.png"))
        level = 1 / 255 / min(preset.std)
        for file, found in zip(files, images, strict=True):
            expected = preset(Image.open(file))
            assert found.shape == expected.shape
            # Pillow rounds after the columns and after the rows: a pixel differs by at most one level.
            assert (found - expected).abs().max() < 1.01 * level
            assert ((found - expected).abs() < 1e-5).float().mean() > 0.7
    detection = ops.from_torchvision(presets.ObjectDetection())
    assert detection == [ops.Normalize((0.0,) * 3, (1.0,) * 3), ops.ToChannelsFirst()]
    assert torch.is_tensor(expected)
    with pytest.raises(fl.ConfigError, match="VideoClassification has no op"):
        ops.from_torchvision(presets.VideoClassification(crop_size=(112, 112), resize_size=(128, 171)))


def test_fills_of_torchvision() -> None:
    v1 = pytest.importorskip("torchvision.transforms")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    for module in (v1, v2):
        assert ops.from_torchvision(module.ElasticTransform()) == [ops.ElasticTransform((50.0, 50.0), (5.0, 5.0), fill=0)]
        assert ops.from_torchvision(module.ElasticTransform(fill=(1, 2, 3)))[0].params["fill"] == (1, 2, 3)
        assert ops.from_torchvision(module.ElasticTransform(fill=[7]))[0].params["fill"] == 7


def test_transforms_of_torchvision(same_size: Path) -> None:
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    from torchvision import transforms as v1

    train = v1.Compose([
        v1.RandomResizedCrop(224, interpolation=v1.InterpolationMode.BICUBIC),
        v1.RandomHorizontalFlip(),
        v1.RandomApply([v1.ColorJitter(0.4, (0.5, 0.9), hue=0.1)], p=0.8),
        v1.RandAugment(),
        v1.ToTensor(),
        v1.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        v1.RandomErasing(0.25),
    ])
    assert ops.from_torchvision(train) == [
        ops.RandomResizedCrop(224, interpolation="bicubic"),
        ops.RandomHorizontalFlip(),
        ops.RandomApply([ops.ColorJitter((0.6, 1.4), (0.5, 0.9), 0.0, (-0.1, 0.1))], 0.8),
        ops.RandAugment(interpolation="nearest"),
        ops.Normalize.imagenet(),
        ops.RandomErasing(0.25),
        ops.ToChannelsFirst(),
    ]
    assert ops.from_torchvision(v2.Grayscale()) == [ops.Grayscale()]
    assert ops.from_torchvision(v2.Grayscale(3)) == [ops.Grayscale(num_output_channels=3)]
    detection = [
        v2.RandomIoUCrop(min_scale=0.5, sampler_options=[0.1, 1.0], trials=9),
        v2.ScaleJitter((640, 480), scale_range=(0.5, 1.5)),
        v2.RandomShortestSize([480, 512], 1333),
        v2.ElasticTransform(alpha=40.0, sigma=4.0),
        v2.SanitizeBoundingBoxes(min_size=2.0),
        v2.ConvertBoundingBoxFormat("CXCYWH"),
        v2.ClampKeyPoints(),
    ]
    assert ops.from_torchvision(v2.Compose(detection)) == [
        ops.RandomIoUCrop((0.5, 1.0), sampler_options=[0.1, 1.0], trials=9),
        ops.ScaleJitter((640, 480), (0.5, 1.5)),
        ops.RandomShortestSize([480, 512], 1333),
        ops.ElasticTransform((40.0, 40.0), (4.0, 4.0)),
        ops.SanitizeBoundingBoxes(2.0),
        ops.ConvertBoundingBoxFormat("cxcywh"),
        ops.ClampKeyPoints(),
    ]
    for transform, message in [
        (v2.FiveCrop(8), "FiveCrop has no op"),
        (v2.Normalize((0.5,) * 3, (0.5,) * 3), "put ToTensor"),
        (v2.Resize(8, interpolation=v2.InterpolationMode.LANCZOS), "no interpolation lanczos"),
        (v2.ToDtype(torch.int64), "scale=True"),
    ]:
        with pytest.raises(fl.ConfigError, match=message):
            ops.from_torchvision(transform)

    val = v2.Compose([
        v2.ToImage(), v2.Resize(40), v2.CenterCrop(24), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
    ])
    batch = next(iter(fl.Loader(same_size, 8, image=ops.from_torchvision(val))))
    pictures = fl.Loader(same_size, 8, image=WHOLE)
    for own, picture in zip(batch["image"].numpy(), next(iter(pictures))["image"].numpy()):
        theirs = val(picture).numpy()
        # One level of 255, divided by the smallest standard deviation.
        assert np.abs(own - theirs).max() <= 1.01 / 255 / 0.2


def test_every_transform_with_an_op_is_converted() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    given = {
        "RandomResize": (32, 64),
        "RandomShortestSize": ([32, 64],),
        "ScaleJitter": ((32, 64),),
        "ConvertBoundingBoxFormat": ("XYXY",),
        "Pad": (3,), "RandomAffine": (30, (0.1, 0.2), (0.8, 1.2), 10), "RandomRotation": (30,), "GaussianBlur": (5,),
        "RandomPosterize": (3,), "RandomSolarize": (99,), "RandomAdjustSharpness": (1.5,), "Resize": ((8, 9),),
        "CenterCrop": (8,), "JPEG": (50,), "RandomCrop": (8, 2), "RandomResizedCrop": (8,), "Grayscale": (3,),
    } | {name: ([v2.RandomInvert()],) for name in ("RandomApply", "RandomOrder", "RandomChoice")}
    converted = 0
    for name in REGISTRY:
        if hasattr(v2, name) and name not in ("MixUp", "CutMix", "Normalize"):
            (op,) = ops.from_torchvision(getattr(v2, name)(*given.get(name, ())))
            assert op.name == name
            converted += 1
    assert converted > 25


def test_values_of_other_libraries() -> None:
    assert ops.Resize(np.int64(256)) == ops.Resize(256) == ops.Resize(np.array(256))
    assert ops.Resize(np.array([8, 9])) == ops.Resize((8, 9)) == ops.Resize([8, 9])
    assert ops.Convert(np.float16) == ops.Convert("f16") == ops.Convert(np.dtype("float16")) == ops.Convert("float16")
    assert ops.Normalize(np.full(3, 0.5), [0.25] * 3) == ops.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    assert ops.RandomHorizontalFlip(1) == ops.RandomHorizontalFlip(1.0)
    torch = pytest.importorskip("torch")
    assert ops.Convert(torch.bfloat16) == ops.Convert("bf16")
    assert ops.Normalize(torch.full((3,), 0.5), (0.25, 0.25, 0.25)) == ops.Normalize((0.5,) * 3, (0.25,) * 3)


def test_randaugment_takes_a_string_in_place_of_numbers() -> None:
    op = ops.RandAugment(config="rand-m9-mstd0.5-inc1")
    assert op.params == {"config": "rand-m9-mstd0.5-inc1"} and op.num_ops is None
    assert eval(repr(op), {**vars(ops)}) == op == pickle.loads(pickle.dumps(op))  # noqa: S307, its own repr
    with pytest.raises(fl.ParamError, match="config is given together with num_ops"):
        ops.RandAugment(3, config="rand-m9")


def test_patterns_and_lists() -> None:
    match ops.RandomResizedCrop(224, (0.5, 1)):
        case ops.RandomResizedCrop(size, scale):
            assert (size, scale) == (224, (0.5, 1))
        case _:
            raise AssertionError
    assert ops.Compose(None, [ops.Resize(8), [ops.ToChannelsFirst()]]) == [ops.Resize(8), ops.ToChannelsFirst()]
    with pytest.raises(fl.ConfigError, match="no op"):
        ops.Compose("Resize")
    nested: list = []
    nested.append(nested)
    with pytest.raises((fl.ConfigError, RecursionError)):
        ops.RandomApply(nested)


def test_constants_are_those_of_rust(tmp_path: Path) -> None:
    from conftest import picture, png

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.png").write_bytes(png(picture(1, 8, 8)))
    for op, toml in [
        (ops.Normalize.imagenet(), "mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225]"),
        (ops.Normalize.cifar10(), "mean = [0.4914, 0.4822, 0.4465], std = [0.2023, 0.1994, 0.201]"),
    ]:
        pipeline = tmp_path / "pipeline.toml"
        pipeline.write_text(
            'fields.image = [{ op = "Resize", size = [8, 8] }, { op = "Normalize", ' + toml + " }]\n", encoding="utf-8"
        )
        given = next(iter(fl.Loader(tmp_path, image=[ops.Resize((8, 8)), op])))
        written = next(iter(fl.Loader.from_spec(pipeline, tmp_path)))
        assert given["image"].numpy().tobytes() == written["image"].numpy().tobytes()
