"""Functions of a pixel that are traced and compiled."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import numpy as np
import pytest
from conftest import run_python

import fuseloop as fl
from fuseloop import ops

# The functions of the tests


@ops.pixel_op
def vignette(px, *, strength=ops.uniform(1.0, 3.0)):
    """Darkens the corners."""
    d = (px.y / px.height - 0.5) ** 2 + (px.x / px.width - 0.5) ** 2
    return px * ops.exp(-strength * d)


@ops.pixel_op
def solarize(px, *, threshold=128.0):
    return ops.where(px < threshold, px, 255.0 - px)


@ops.pixel_op
def matrix(px, *, rows=((0.8, 0.1, 0.1), (0.1, 0.7, 0.2), (0.0, 0.2, 0.9)), add=(4.0, -3.0, 1.0)):
    return [
        ops.fma(px.r, row[0], ops.fma(px.g, row[1], ops.fma(px.b, row[2], more))) for row, more in zip(rows, add)
    ]


@ops.pixel_op
def checkers(px, *, side=8, gain=0.5):
    is_odd = ((px.y // side + px.x // side) % 2) == 1
    return ops.where(is_odd, px * gain, px)


@ops.pixel_op
def tone(px, *, gamma=1.7, low=-0.1, high=0.9):
    scaled = ops.clip(px / 255, low, high)
    return 255 * scaled**gamma


@ops.pixel_op
def waves(px, *, k=0.2):
    grey = ops.mean(px)
    wave = ops.sin(px.x * k) + ops.cos(px.y * k) - abs(grey - 100) / 50
    return px + 20 * wave


@ops.pixel_op
def mixed(px):
    low, high = ops.minimum(px.r, px.g), ops.maximum(px.g, px.b)
    is_odd = (low > 60) & ~(high > 200) | (px.r == 0) ^ (px.b >= 250)
    return ops.where(is_odd, ops.stack([high, low, ops.sqrt(px.r * px.b)]), ops.log(px + 1) * 40 + is_odd * np.float32(3))


@ops.pixel_op
def rounded(px, *, by=7):
    return ops.round(px / by) * by + px // 100 - ops.ceil(px / 90) + ops.trunc(px / -30) + px**3 / 65025 - 2 ** (px / 64)


@ops.pixel_op
def floored(px, *, by=0.3):
    return px // by + px % by + (px - 100) // -7.5 - divmod(300, px - 90.5)[1] + 1000 // (px + 0.1)


FUNCTIONS = [vignette, solarize, matrix, checkers, tone, waves, mixed, rounded, floored]


class ArrayPixel(np.ndarray):
    """An image of float32 with the attributes of a pixel, ``[channels, height, width]``."""

    height = property(lambda self: np.float32(self.shape[-2]))
    width = property(lambda self: np.float32(self.shape[-1]))
    y = property(lambda self: np.arange(self.shape[-2], dtype=np.float32)[:, None])
    x = property(lambda self: np.arange(self.shape[-1], dtype=np.float32)[None, :])
    r = property(lambda self: np.asarray(self[0]))
    g = property(lambda self: np.asarray(self[1]))
    b = property(lambda self: np.asarray(self[2]))
    channels = property(lambda self: tuple(np.asarray(self)))


def on_arrays(function, image, **params):
    """Runs a function on a whole image of bytes in NumPy."""
    pixels = np.ascontiguousarray(image.transpose(2, 0, 1)).astype(np.float32).view(ArrayPixel)
    result = function.__wrapped__(pixels, **params)
    if isinstance(result, list):
        result = np.stack(result)
    assert result.dtype == np.float32
    return np.clip(np.asarray(result), 0, 255).transpose(1, 2, 0)


def through(op, images, dtype="float32", **more):
    """Runs images through a loader, to levels in float32."""
    listed = [op, ops.Convert(dtype)] if dtype else [op]
    loader = fl.Loader(fl.sources.from_arrays(image=images), batch_size=len(images), image=listed, **more)
    return next(iter(loader))["image"].numpy().copy()


def pictures(channels=3, count=3):
    return np.random.default_rng(7).integers(0, 256, (count, 33, 47, channels), dtype=np.uint8)


# What it computes


@ops.pixel_op
def divided(px):
    return [*np.divmod(px.r, px.g), px.b]


def bits(values):
    """Returns the bits of numbers; those of NaN are the same for all of them."""
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def test_the_floored_quotient_and_the_remainder_have_the_bits_of_numpy():
    rng = np.random.default_rng(3)
    special = np.array([0, 1, 3, 0.3, 2**24, 2**24 + 2, 1e-45, 1.1e-38, 3.4e38, np.inf, np.nan, 7, 255, 0.1], np.float32)
    special = np.concatenate([special, -special, np.nextafter(special, np.float32(9)), np.nextafter(special, np.float32(-9))])
    a, b = (side.ravel() for side in np.meshgrid(special, special))
    any_bits = rng.integers(0, 2**32, (2, 600_000), dtype=np.uint32).view(np.float32)
    levels = rng.uniform(-300, 300, (2, 200_000)).astype(np.float32)
    whole = rng.integers(-600, 600, (2, 100_000)).astype(np.float32)
    # Quotients next to whole numbers, and of all sizes.
    near = rng.integers(1, 2**24, 200_000).astype(np.float32) * levels[1]
    a = np.concatenate([a, any_bits[0], levels[0], whole[0], near, near * np.float32(2**40)])
    b = np.concatenate([b, any_bits[1], levels[1], whole[1], levels[1], levels[1]])
    rows = len(a) // 1000
    image = np.stack([a, b, a], axis=-1)[: rows * 1000].reshape(rows, 1000, 3)
    out = fl.Transform([divided()])(image).reshape(-1, 3)
    with np.errstate(all="ignore"):
        want = [a // b, a % b]
    for channel, (name, values) in enumerate(zip(("//", "%"), want)):
        wrong = np.flatnonzero(bits(np.ascontiguousarray(out[:, channel])) != bits(values[: rows * 1000]))
        first = [(a[k], b[k], out[k, channel], values[k]) for k in wrong[:5]]
        assert len(wrong) == 0, f"{name}: {len(wrong)} of {rows * 1000}, such as {first}"



@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_compiled_code_returns_the_bits_of_the_definition(function):
    channels = [1, 3, 4, 5] if function in (vignette, solarize, checkers, tone, rounded) else [3]
    for count in channels:
        fl.check_ops([function()], (30, 41), channels=count, samples=5)
    more = [ops.RandomHorizontalFlip(), ops.RandomSolarize(200), function(p=0.7), ops.RandomInvert(), ops.ToChannelsFirst()]
    fl.check_ops(more, (30, 41), samples=30)
    fl.check_ops([ops.Normalize.imagenet(), function(), ops.Convert("float16")], (30, 41), samples=5)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_numpy_computes_the_same_of_float32_arrays(function):
    images = pictures()
    given = {"strength": 2.25} if function is vignette else {}
    found = through(function(**given), images)
    params = {name: one.default for name, one in inspect.signature(function).parameters.items() if name != "p"}
    for image, one in zip(images, found):
        wanted = on_arrays(function, image, **{**params, **given})
        np.testing.assert_allclose(one, wanted, rtol=3e-6, atol=2e-4)


def test_it_is_the_built_in_op_of_the_same_formula():
    images = pictures()
    rows = (0.8, 0.1, 0.1, 4.0, 0.1, 0.7, 0.2, -3.0, 0.0, 0.2, 0.9, 1.0)
    for own, built_in in [
        (solarize(), ops.RandomSolarize(128, p=1.0)),
        (matrix(), ops.ColorMatrix(rows)),
    ]:
        for dtype in ("float32", None):
            for rule in ("fused", "exact"):
                found, wanted = (through(op, images, dtype, number_rule=rule) for op in (own, built_in))
                np.testing.assert_array_equal(found, wanted)


def test_draws_follow_seed_epoch_and_sample_and_not_the_threads(photos):
    @ops.pixel_op
    def drawn(px, *, a=ops.uniform(10, 20), b=ops.normal(100, 5), c=ops.integers(0, 3), d=ops.choice([7, 9]), e=(1, ops.uniform(2, 3))):
        return ops.stack([a, b, c * 10 + d + e[0] * e[1]])

    def epoch(number, **more):
        listed = [ops.Resize((8, 8)), drawn(**more.pop("params", {})), ops.Convert("float32")]
        loader = fl.Loader(photos, batch_size=5, order="random", image=listed, **{"seed": 3, **more})
        return np.concatenate([batch["image"].numpy().copy() for batch in loader.epoch(number)])

    one = epoch(0, workers=1)
    np.testing.assert_array_equal(one, epoch(0, workers=3))
    assert not np.array_equal(one, epoch(1)) and not np.array_equal(one, epoch(0, seed=4))
    assert (one == one[:, :1, :1]).all()
    a, b, c = one[:, 0, 0].T
    assert ((a >= 10) & (a < 20)).all() and len(set(a)) == 24 and abs(b.mean() - 100) < 5
    kinds = np.unique(np.round(c - 2.5))
    assert set(kinds) <= {7, 9, 17, 19, 27, 29} and len(kinds) > 3
    assert (epoch(0, params={"a": 12.5})[..., 0] == 12.5).all()
    share = epoch(0, params={"a": 12.5, "p": 0.5})[:, 0, 0, 0] == 12.5
    assert 4 < share.sum() < 20


def test_the_place_is_that_in_the_list():
    @ops.pixel_op
    def places(px):
        return [px.y, px.x, px.height * 10 + px.width]

    found = through(places(), pictures()[:, :20], None)
    assert found[0, 5, 7].tolist() == [5, 7, 247]
    listed = [ops.CenterCrop((10, 12)), places()]
    loader = fl.Loader(fl.sources.from_arrays(image=pictures()), batch_size=3, image=listed)
    assert next(iter(loader))["image"].numpy()[0, 3, 4].tolist() == [3, 4, 112]


def test_the_number_of_channels_may_change():
    @ops.pixel_op
    def luminance(px):
        return [0.25 * px.r + 0.5 * px.g + 0.25 * px.b]

    @ops.pixel_op
    def spread(px):
        (level,) = px
        return level, 0, 255 - level

    images = pictures()
    grey = through(luminance(), images)
    assert grey.shape == (3, 33, 47, 1)
    np.testing.assert_array_equal(grey[..., 0], images @ np.float32([0.25, 0.5, 0.25]))
    colored = through(spread(), pictures(1), None)
    assert colored.shape == (3, 33, 47, 3) and (colored[..., 0] + colored[..., 2] == 255).all()
    with pytest.raises(fl.PipelineError, match=r"luminance takes an image of levels.*of 3 or 4 channel\(s\), but gets"):
        through(luminance(), pictures(1))
    with pytest.raises(fl.PipelineError, match="keeps the number of channels"):
        through(luminance(p=0.5), images)


def test_values_after_normalize_are_not_clamped():
    @ops.pixel_op
    def doubled(px):
        return px * -2

    images = pictures()
    plain, found = (
        next(iter(fl.Loader(fl.sources.from_arrays(image=images), batch_size=3, image=listed)))["image"].numpy().copy()
        for listed in ([ops.Normalize.imagenet()], [ops.Normalize.imagenet(), doubled()])
    )
    np.testing.assert_array_equal(found, plain * -2)


def test_pythons_own_functions_are_traced():
    @ops.pixel_op
    def with_builtins(px):
        return round(abs(px - 99) / 7) + math.floor(px / 9) + math.ceil(px / 11) + sum(px.channels) / len(px)

    @ops.pixel_op
    def with_ops(px):
        return ops.round(ops.abs(px - 99) / 7) + ops.floor(px / 9) + ops.ceil(px / 11) + ops.mean(px)

    images = pictures()
    np.testing.assert_array_equal(through(with_builtins(), images), through(with_ops(), images))


def test_numpys_functions_are_traced():
    @ops.pixel_op
    def with_numpy(px):
        return np.where(np.logical_and(px.r > 9, np.float32(99) > px.g), np.sqrt(px), np.clip(np.float64(2) * px, 0, np.rint(px)))

    @ops.pixel_op
    def with_ops(px):
        return ops.where((px.r > 9) & (px.g < 99), ops.sqrt(px), ops.clip(2 * px, 0, ops.round(px)))

    images = pictures()
    np.testing.assert_array_equal(through(with_numpy(), images), through(with_ops(), images))
    means = np.array([1.0, 2.0, 3.0])

    @ops.pixel_op
    def of_arrays(px):
        return means - px + (3, 2, 1)

    assert through(of_arrays(), images)[0, 0, 0].tolist() == np.clip(4 - images[0, 0, 0].astype(int), 0, 255).tolist()


# What can't be traced


def test_an_error_names_the_line():
    line = inspect.currentframe().f_lineno

    def condition(px):
        if px.r > 128:
            return px
        return px * 2

    def as_float(px):
        return px * math.exp(px.r)

    def as_array(px):
        return np.asarray(px) * 2

    def other_function(px):
        x = 3
        return np.tan(px) + x

    def changes(px):
        px[0] = 3
        return px

    def number_as_mask(px):
        return ops.where(px, 1, 2)

    def masks_as_numbers(px):
        return (px > 3) + (px < 9)

    def text(px):
        return px + "one"

    def chained(px):
        return ops.where(3 < px < 9, 1, 2)

    def smallest(px):
        return min(px.r, px.g)

    def large(px):
        return px + 1e39

    def product(px):
        return px @ 3

    for function, offset, words in [
        (condition, 3, "take ops.where"),
        (as_float, 8, "fuseloop.ops or NumPy: exp"),
        (as_array, 11, "an array needs a value"),
        (other_function, 15, "numpy.tan is not traced: there are absolute, add"),
        (changes, 18, "a value does not change"),
        (number_as_mask, 22, "condition of where is a number"),
        (masks_as_numbers, 25, "combined by & and"),
        (text, 28, "str is no number"),
        (chained, 31, "chained comparison"),
        (smallest, 34, "ops.minimum"),
        (large, 37, "too large for float32"),
        (product, 40, "@, << and >> are not traced: there are"),
    ]:
        with pytest.raises(fl.TraceError, match=words) as caught:
            ops.pixel_op(function)()
        error = caught.value
        assert (error.path, error.line) == (__file__, line + offset), function.__name__
        assert str(error).startswith(f"{__file__}, line {line + offset}: ")
        assert isinstance(error, (fl.ConfigError, TypeError))


def test_what_a_function_returns_is_checked():
    for returned, words in [
        (lambda px: None, "it returns NoneType, expected a value"),
        (lambda px: "red", "it returns str, expected a value"),
        (lambda px: px > 3, "it returns what is true or false"),
        (lambda px: [], "expected 1 to 4 values"),
        (lambda px: [px.r] * 5, "expected 1 to 4 values"),
    ]:
        returned.__name__ = "returned"
        with pytest.raises(fl.TraceError, match=words):
            ops.pixel_op(returned)()


def test_an_error_of_the_function_is_raised_as_it_is():
    @ops.pixel_op
    def wrong(px):
        return px * missing  # noqa: F821

    with pytest.raises(NameError, match="missing"):
        wrong()


def test_an_error_for_three_channels_is_of_the_function():
    weights = [0.5, 2.0]

    @ops.pixel_op
    def wrong(px):
        return sum(weights[c] * channel for c, channel in enumerate(px))

    with pytest.raises(IndexError, match="list index out of range") as raised:
        wrong()
    assert raised.value.__notes__ == ["fuseloop: wrong was traced for a pixel of 3 channels"]

    @ops.pixel_op
    def of_alpha(px):
        return px * (px.channels[3] / 255)

    @ops.pixel_op
    def of_two(px):
        value, alpha = px
        return value * alpha

    for op, channels in ((of_alpha(), "channels 4"), (of_two(), "channels 2")):
        assert [line for line in op.program if line.startswith("channels")] == [channels]


def test_a_list_has_one_value_for_each_channel():
    line = inspect.currentframe().f_lineno + 2

    @ops.pixel_op
    def pixels(px):
        return [px, px, px]

    words = r"pixels: it returns a list with a value of several channels.*\[px.r, px.g, px.b\]"
    with pytest.raises(fl.TraceError, match=words) as raised:
        pixels()
    assert raised.value.line == line

    @ops.pixel_op
    def five(px):
        return [px.r] * 5

    with pytest.raises(fl.TraceError, match=f"line {line + 9}: five: it returns a list of 5, expected 1 to 4 values"):
        five()


def test_nan_is_not_propagated_by_minimum_maximum_and_clip():
    image = np.full((4, 4, 3), np.nan, np.float32)
    for function, wanted in (
        (lambda px: ops.minimum(px, 7), 7), (lambda px: ops.maximum(px, 7), 7), (lambda px: ops.clip(px, 1, 5), 1),
        (lambda px: ops.minimum(7, px), np.nan),
    ):
        function.__name__ = "function"
        listed = [ops.Normalize([0.0] * 3, [1.0] * 3, scale="values"), ops.pixel_op(function)()]
        assert np.array_equal(fl.Transform(listed)(image), np.full((4, 4, 3), np.float32(wanted)), equal_nan=True)


def test_a_value_of_another_call_is_refused():
    kept = []

    @ops.pixel_op
    def keeps(px):
        kept.append(px)
        return kept[0] + px

    with pytest.raises(fl.TraceError, match="a value of another call"):
        keeps()


def test_a_program_has_a_limit():
    @ops.pixel_op
    def long(px, *, count):
        value = px
        for k in range(count):
            value = value * 0.5 + k
        return value

    fl.check_ops([long(count=50)], samples=2)
    with pytest.raises(fl.ParamError, match="a shorter program: up to 4096 operations"):
        long(count=1000)
    with pytest.raises(fl.TraceError, match="up to 4096 operations"):
        long(count=10**9)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"strenght": 1}, r"unexpected keyword argument 'strenght'; its parameters: \(\*, strength=uniform"),
        ({"p": 1.5}, "p is 1.5, expected 0.0 to 1.0"),
        ({"strength": object()}, "expected a number, a draw"),
        ({"p": True}, "p is True, expected 0.0 to 1.0"),
    ],
)
def test_parameters_are_checked(params, words):
    with pytest.raises(fl.ParamError, match=words) as caught:
        vignette(**params)
    assert caught.value.op == "vignette"


def test_draws_are_checked():
    for wrong in [
        lambda: ops.uniform(2, 1), lambda: ops.uniform(0, math.inf), lambda: ops.normal(0, -1), lambda: ops.integers(3, 3),
        lambda: ops.integers(0.5, 2), lambda: ops.choice([]), lambda: ops.choice(range(257)), lambda: ops.uniform("a", 1),
    ]:
        with pytest.raises(fl.ParamError, match="expected"):
            wrong()
    with pytest.raises(fl.ParamError, match="expected a function of a pixel"):

        @ops.pixel_op
        def variadic(*px):
            return px

    with pytest.raises(fl.ParamError, match=r"choice\(5\): expected a list"):
        ops.choice(5)
    for draw in (ops.uniform(1, 2), ops.normal(), ops.integers(1, 3), ops.choice([1, 2.5])):
        assert pickle.loads(pickle.dumps(draw)) == copy.copy(draw) == draw
        rebuild, (kind, _) = draw.__reduce__()
        for damaged in ((3, (1, 2)), ([], (1, 2)), (kind, 3), (kind, ("a", 2))):
            with pytest.raises(fl.ParamError):
                rebuild(*damaged)
    with pytest.raises(fl.ParamError, match="made by `def`, found int"):
        ops.pixel_op(int)
    loop: list = []
    loop.append(loop)
    with pytest.raises(fl.ParamError, match="a list that contains itself"):
        vignette(strength=loop)
    with pytest.raises(fl.ParamError, match="a list contains itself"):
        ops.Resize(loop)
    with pytest.raises(fl.ParamError, match="is no text"):
        ops.PixelProgram(["\ud800"])
    with pytest.raises(fl.ParamError, match="a function with a name"):
        ops.pixel_op(lambda px: px)
    with pytest.raises(fl.ConfigError, match=r"call it, vignette\(\)"):
        fl.Loader(fl.sources.from_arrays(image=pictures()), image=vignette)
    with pytest.raises(fl.ConfigError, match=r"call it, vignette\(\)"):
        ops.Compose(vignette)


def test_a_text_that_is_no_program_is_refused():
    for wrong in [[], ["fuseloop pixel program 1"], [line.replace("exp", "tan") for line in vignette().program], vignette().program[:-1]]:
        with pytest.raises(fl.ParamError, match="PixelProgram: program is"):
            ops.PixelProgram(wrong)


# Ops as values


def test_an_op_is_its_program():
    op = vignette(strength=ops.uniform(0.5, 1), p=0.5)
    assert repr(op) == "vignette(strength=uniform(0.5, 1), p=0.5)" and repr(vignette()) == "vignette()"
    assert eval(repr(op), {"vignette": vignette, **vars(ops)}) == op  # noqa: S307, its own repr
    for other in [pickle.loads(pickle.dumps(op)), copy.deepcopy(op), ops.PixelProgram(op.program)]:
        assert other == op and hash(other) == hash(op) and other.program == op.program
    assert repr(pickle.loads(pickle.dumps(op))) == repr(op)
    for other in [vignette(), vignette(strength=1.0), solarize()]:
        assert other != op
    assert vignette(strength=ops.uniform(1.0, 3.0)) == vignette()
    assert solarize(threshold=100) != solarize() and {solarize(), solarize()} == {solarize()}
    assert vignette.__doc__ == "Darkens the corners." and repr(vignette).startswith("<pixel_op vignette(")
    assert pickle.loads(pickle.dumps(vignette)) is vignette
    with pytest.raises(AttributeError, match="does not change"):
        op.program = ()


def test_it_stands_in_containers_and_calls_others():
    @ops.pixel_op
    def both(px):
        return solarize(vignette.__wrapped__(px, strength=2.0))

    images = pictures()
    nested = ops.RandomApply([ops.RandomChoice([solarize(), solarize()])], p=1.0)
    np.testing.assert_array_equal(through(nested, images), through(solarize(), images))
    assert through(both(), images).shape == images.shape


def test_a_state_fits_the_same_program_alone(photos):
    def loader(*listed, **more):
        listed = [ops.Resize((8, 8)), *listed]
        return fl.Loader(photos, batch_size=5, order="random", seed=1, image=listed, **more)

    def rest(epoch):
        return [batch["image"].numpy().tobytes() for batch in epoch]

    first = loader(vignette(), workers=1)
    epoch = first.epoch(0)
    next(epoch)
    state = epoch.state_dict()
    wanted = rest(epoch)
    again = loader(pickle.loads(pickle.dumps(vignette())), workers=2)
    again.load_state_dict(state)
    assert rest(iter(again)) == wanted

    @ops.pixel_op
    def other(px, *, strength=ops.uniform(1.0, 3.0)):
        d = (px.y / px.height - 0.5) ** 2 + (px.x / px.width - 0.25) ** 2
        return px * ops.exp(-strength * d)

    other._name = "vignette"
    for changed in (other(), vignette(strength=2.0), solarize()):
        with pytest.raises(fl.StateError, match="op 1 of output image"):
            refused = loader(changed)
            refused.load_state_dict(state)
            next(iter(refused))


def test_an_op_needs_no_function_where_it_is_loaded():
    data = pickle.dumps([vignette(strength=2.0), solarize()])
    code = f"import pickle, fuseloop as fl; listed = pickle.loads({data!r}); fl.check_ops(listed, samples=2); print(listed)"
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[vignette(strength=2.0), solarize()]\n"


def test_the_plan_shows_the_op_by_its_name():
    loader = fl.Loader(fl.sources.from_arrays(image=pictures()), batch_size=3, image=[vignette(), ops.ToChannelsFirst()])
    assert "vignette" in str(loader.explain())
