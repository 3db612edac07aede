"""What users of torch and torchvision write first is an error that says what stands for it here."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import _hints, ops


@pytest.mark.parametrize(
    ("name", "value", "cure"),
    [
        ("shuffle", True, "order='random'"),
        ("collate_fn", lambda rows: rows, "Collate"),
        ("collate_fn", None, "Collate"),
        ("sampler", range(3), "order="),
        ("batch_sampler", [[1, 2]], "order="),
        ("num_workers", 4, "workers="),
        ("where", lambda column: column["label"] == 1, "filter="),
        ("world_size", 8, "ranks="),
        ("num_replicas", 8, "ranks="),
        ("transform", lambda image: image, "from_torchvision"),
        ("transforms", [1], "from_torchvision"),
        ("target_transform", lambda label: label, "label="),
        ("prefetch_factor", 2, "batches_ahead"),
        ("persistent_workers", True, "threads stay"),
        ("worker_init_fn", lambda worker: None, "no worker processes"),
        ("generator", None, "seed="),
        ("pipelines", {}, "fuseloop.ffcv.Loader"),
    ],
)
def test_arguments_of_other_loaders(same_size, name, value, cure):
    with pytest.raises(fl.ConfigError, match=f"{name} is no argument of Loader: .*{cure}") as caught:
        fl.Loader(same_size, **{name: value})
    assert caught.value.hint


def test_a_field_may_have_such_a_name(tmp_path):
    import numpy as np

    dataset = fl.sources.from_python([{"sampler": np.zeros((4, 4, 3), np.uint8)}] * 3)
    assert len(fl.Loader(dataset, batch_size=3, sampler=[ops.Resize((2, 2))])) == 1
    assert len(fl.Loader(dataset, batch_size=3, ops={"sampler": [ops.Resize((2, 2))]})) == 1


def test_an_op_that_is_not_in_a_list(same_size):
    with pytest.raises(fl.ConfigError, match=r"expected a list of ops: image=\[CenterCrop\(32\)\]"):
        fl.Loader(same_size, image=ops.CenterCrop(32))


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ([ops.ToChannelsFirst], r"ToChannelsFirst is no op: it is a class.*ops\.ToChannelsFirst\(\.\.\.\)"),
        (ops.ToChannelsFirst, r"it is a class"),
        (["Resize"], r"write ops\.Resize\(\.\.\.\)"),
        ([lambda image: image], r"ops\.Lambda"),
        ([{"op": "Resize"}], "pipeline files"),
        ([32], "expected one of fuseloop.ops"),
    ],
)
def test_what_is_no_op(same_size, given, cure):
    for call in (lambda: fl.Loader(same_size, image=given), lambda: fl.Loader(same_size, ops={"image": given})):
        with pytest.raises(fl.ConfigError, match=cure):
            call()


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        ({"mask": ["image"]}, "mask is no argument of Loader.*did you mean masks"),
        ({"read_modes": {"image": "gray"}}, "did you mean read_mode"),
        ({"exclude": ["label"]}, "without="),
        ({"parts": {(1, "image"): []}}, "component_ops="),
    ],
)
def test_an_argument_of_another_name_that_holds_a_list(same_size, arguments, cure):
    with pytest.raises(fl.ConfigError, match=cure):
        fl.Loader(same_size, **arguments)


def test_transforms_of_torchvision_are_converted(same_size):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    from torchvision import transforms as v1

    for given in (v1.Compose([v1.ToTensor()]), v2.Compose([v2.ToImage()]), [v2.Resize(32)], [v1.Resize(32)]):
        with pytest.raises(fl.ConfigError, match="from_torchvision"):
            fl.Loader(same_size, image=given)


def test_transforms_of_albumentations_and_timm_are_converted(same_size):
    albumentations = pytest.importorskip("albumentations")
    for given in (albumentations.Compose([]), [albumentations.HorizontalFlip()]):
        with pytest.raises(fl.ConfigError, match=r"ops\.from_albumentations\(transform\)"):
            fl.Loader(same_size, image=given)
    timm = pytest.importorskip("timm.data.transforms")
    with pytest.raises(fl.ConfigError, match=r"ops\.from_timm\(transform\)"):
        fl.Loader(same_size, image=[timm.CenterCropOrPad(8)])


def test_every_class_of_other_libraries_has_a_hint():
    from fuseloop import _albumentations, _timm

    for library in (_albumentations, _timm):
        for name in library.TABLE:
            if name not in ops.__all__:
                with pytest.raises(AttributeError, match=f"fuseloop.ops has no {name}: "):
                    getattr(ops, name)
    with pytest.raises(AttributeError, match="ShiftScaleRotate: it becomes ops.RandomAffine here, and ops.from_albumentations"):
        ops.ShiftScaleRotate  # noqa: B018
    with pytest.raises(AttributeError, match="has no RandomFog: it paints shapes .*ops.Lambda"):
        ops.RandomFog  # noqa: B018


def test_modules_run_after_the_loader(same_size):
    torch = pytest.importorskip("torch")
    with pytest.raises(fl.ConfigError, match="after="):
        fl.Loader(same_size, image=torch.nn.Identity())


def test_every_transform_of_torchvision_is_an_op_or_has_a_hint():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    for name in dir(v2):
        if name[0].isupper() and name not in ops.__all__:
            with pytest.raises(AttributeError, match=f"fuseloop.ops has no {name}: "):
                getattr(ops, name)
    assert not hasattr(ops, "ToTensor")
    with pytest.raises(AttributeError, match="did you mean RandomCrop"):
        ops.RandomCropp  # noqa: B018


def test_every_parameter_of_torchvision_is_ours_or_has_a_hint():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    for name in dir(v2):
        if name not in ops.__all__ or name == "Compose" or not inspect.isclass(getattr(v2, name)):
            continue
        kind = getattr(ops, name)
        for param in inspect.signature(getattr(v2, name)).parameters:
            if param not in kind.__match_args__:
                with pytest.raises(fl.ParamError, match=f"{name} has no parameter {param}; ") as caught:
                    kind(**{param: 1})
                assert caught.value.hint, (name, param)


def test_no_hint_is_about_what_there_is():
    from fuseloop import _hints
    from fuseloop.loader import _NAMES

    assert not set(_hints.OPS) & set(ops.__all__)
    assert not set(_hints.ARGUMENTS) & _NAMES
    for op, param in _hints.PARAMS:
        assert not op or param not in getattr(ops, op).__match_args__


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("loop", ["for a, b in loader: pass", "for k, (a, b) in enumerate(loader): pass"])
def test_a_loop_over_fewer_names_than_tensors_says_their_names(photos, kind, loop):
    if kind == "torch":
        pytest.importorskip("torch")
    loader = (fl.torch.Loader if kind == "torch" else fl.Loader)(
        photos,
        batch_size=4,
        image=[ops.Resize((8, 8))],
        views={"small": fl.View("image", [ops.Resize((4, 4))])},
    )
    with pytest.raises(ValueError, match="too many values to unpack") as caught:
        exec(loop, {"loader": loader})  # noqa: S102
    (note,) = caught.value.__notes__
    assert "a batch has 3 tensors, in this order: image, label, small" in note and 'ops={"small": None}' in note
    with pytest.raises(ValueError, match="not enough values") as caught:
        exec("for a, b, c, d in loader: pass", {"loader": loader})  # noqa: S102
    assert "in this order: image, label, small" in caught.value.__notes__[0]


def test_other_exceptions_in_a_loop_get_no_note(photos):
    loader = fl.Loader(photos, batch_size=4, image=[ops.Resize((8, 8))])
    for raised in ("raise ValueError('another')", "a, b = ()", "1 / 0"):
        with pytest.raises((ValueError, ZeroDivisionError)) as caught:
            exec(f"for images, labels in loader: {raised}", {"loader": loader})  # noqa: S102
        assert not hasattr(caught.value, "__notes__")


def test_parameters_in_torchvisions_order_get_a_hint():
    for call, said in [
        (lambda: ops.RandAugment(2, 9, 31, "nearest"), "torchvision has interpolation at this place, which is config here"),
        (lambda: ops.MixUp(0.3, 10), "OneHot"),
        (lambda: ops.CutMix(0.3, 10), "OneHot"),
        (lambda: ops.Normalize((0.5,) * 3, (0.5,) * 3, True), "no op copies an image"),
        (lambda: ops.RandomIoUCrop(0.3, 1.0, 0.5, 2.0), r"scale=\(min_scale, max_scale\)"),
    ]:
        with pytest.raises(fl.ParamError, match=said) as caught:
            call()
        assert caught.value.hint
    with pytest.raises(fl.ParamError, match="takes 4: scale, aspect_ratio.*torchvision has min_scale, max_scale"):
        ops.RandomIoUCrop(0.3, 1.0, 0.5, 2.0, [0.5], 40)
    # Without a position that torchvision has another parameter at, there is none.
    with pytest.raises(fl.ParamError) as caught:
        ops.RandAugment(2, config="nearest")
    assert "torchvision" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(_hints.SOURCES))
def test_options_of_datasets_belong_to_the_function_that_opens_them(same_size, name):
    call = _hints.SOURCES[name]
    function = getattr(fl.sources, call.partition("(")[0])
    assert name in inspect.signature(function).parameters and f"{name}=" in call
    for value in ("train", ["a", "b"], {0: "a"}, True):
        with pytest.raises(fl.ConfigError, match=f"{name}=.*the function that opens it: Loader") as caught:
            fl.Loader(same_size, **{name: value})
        assert caught.value.hint == f"fuseloop.sources.{call}" and caught.value.hint in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "right"),
    [
        ("ops", [], "ops={'image': "),
        ("views", "image", "views={'view2': fuseloop.View('image'"),
        ("share_draws", "mask", "share_draws={'mask': 'image'}"),
        ("share_draws", {"mask": ["image"]}, "share_draws={'mask': 'image'}"),
        ("component_ops", "image", "component_ops={(1, 'image'): "),
        ("component_ops", {"image": []}, "component_ops={(1, 'image'): "),
        ("collate", "pad", "collate={'image': fuseloop.Collate.pad()}"),
        ("read_mode", "gray", "read_mode={'image': 'gray'}"),
        ("read_mode", {"image": 1}, "read_mode={'image': 'gray'}"),
        ("axes", "HWC", "axes={'scan': 'DHW'}"),
        ("axes", ["HWC"], "axes={'scan': 'DHW'}"),
        ("arrays", "float32", "arrays={'points': ('float32', (-1, 3))}"),
        ("arrays", {"points": "float32"}, "arrays={'points': ('float32', (-1, 3))}"),
        ("arrays", {"points": ("float32", 3)}, "arrays={'points': ('float32', (-1, 3))}"),
        ("arrays", {"points": ("float32", ("a",))}, "arrays={'points': ('float32', (-1, 3))}"),
        ("masks", 3, "masks=['mask']"),
        ("masks", [0], "masks=['mask']"),
        ("without", 3, "without=['mask']"),
        ("filter", np.ones(3, bool), "filter=lambda column: "),
        ("filter", np.ones(3, bool), "numpy.flatnonzero(mask)"),
        ("indices", np.ones(3, bool), "indices=numpy.flatnonzero(mask)"),
        ("indices", [True, False], "indices=numpy.flatnonzero(mask)"),
        ("indices", 1000, "indices=range(1000)"),
        ("process_cache", "1GiB", "fuseloop.ProcessCache('1GiB')"),
    ],
)
def test_settings_of_another_form_are_refused_with_the_right_one(same_size, setting, value, right):
    with pytest.raises(fl.ConfigError, match=f"^{setting}") as caught:
        fl.Loader(same_size, **{setting: value})
    assert right in str(caught.value)


def test_fields_are_left_out_by_their_names(same_size):
    loader = fl.Loader(same_size, 4, without=["label"], image=[ops.CenterCrop(4)])
    assert [tensor.name for tensor in loader.tensors] == ["image"]
    with pytest.raises(fl.ConfigError, match="no field named lable"):
        fl.Loader(same_size, 4, without="lable")


def test_a_mask_may_be_named_by_a_text(tmp_path):
    rows = [{"image": np.zeros((4, 4, 3), np.uint8), "mask": np.zeros((4, 4, 3), np.uint8)}] * 2
    center = [ops.CenterCrop(4)]
    loader = fl.Loader(fl.sources.from_python(rows), 2, masks="mask", image=center, mask=center)
    assert loader.tensors[1].shape == (4, 4, 1)


def test_no_sample_that_a_filter_chooses(same_size):
    with pytest.raises(fl.ConfigError, match="`indices` and `filter` leave none of"):
        fl.Loader(same_size, filter=lambda column: column["label"] > 100)
