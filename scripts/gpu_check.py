"""What a trainer in Python sees of batches on a GPU, checked.

    python3 gpu_check.py libfuseloop_torch.so [--json FILE] [--device cuda:0]

The library is built from `examples/fuseloop_torch.rs`. The script prints a line for each check, and
exits with code 1 if one fails. If no GPU can be opened it says so and exits, with code 0 unless
REQUIRE_GPU=1. Values must equal those of the CPU's batches, bit for bit. Checks that need PyTorch say
so and are skipped if PyTorch, or its CUDA, is not available; the others call the driver through ctypes.

A forgotten wait has an effect if the consumer is slow: `torch.cuda._sleep` keeps a stream busy while
the loader continues.
"""

import argparse
import ctypes
import json
import os
import sys
import time
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64, c_void_p

SIDE, ROWS, SAMPLES = 48, 8, 64

NORMALIZE = '{ op = "Normalize", mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225] }'
CROP = '{ op = "RandomResizedCrop", size = 40 }, { op = "ToDevice", device = "cuda:0" }, "RandomHorizontalFlip"'
LABEL = '["Squeeze", { op = "ToDevice", device = "cuda:0" }]'


def ops(*words):
    return "[" + ", ".join(words) + "]"


def converted(dtype, *rest):
    return ops(CROP, NORMALIZE, f'{{ op = "Convert", to = "{dtype}" }}', *rest)


MIXUP = '{ op = "MixUp", alpha = 0.4 }'
PIPELINES = {
    "f32 first": (ops(CROP, NORMALIZE, '"ToChannelsFirst"'), LABEL),
    "f32 last": (ops(CROP, NORMALIZE), LABEL),
    "f16 first": (converted("f16", '"ToChannelsFirst"'), LABEL),
    "f16 last": (converted("f16"), LABEL),
    "bf16 first": (converted("bf16", '"ToChannelsFirst"'), LABEL),
    "u8 last": (ops(CROP), LABEL),
    "jitter": (ops(CROP, '{ op = "ColorJitter", brightness = 0.4, contrast = 0.4, saturation = 0.4 }',
                   NORMALIZE, '"ToChannelsFirst"'), LABEL),
    "mixed": (converted("f16", '"ToChannelsFirst"', MIXUP),
              ops('{ op = "ToDevice", device = "cuda:0" }', '{ op = "OneHot", classes = 10 }', MIXUP)),
}


def pipeline(name, device, device_batches=None, batches_ahead=None):
    """Returns the text of a pipeline file."""
    image, label = PIPELINES[name]
    settings = [f"batch_size = {ROWS}", "seed = 3", 'order = "random"', "drop_last = false"]
    if device:
        settings.append(f'device = "{device}"')
    if device_batches:
        settings.append(f"device_batches = {device_batches}")
    if batches_ahead:
        settings.append(f"batches_ahead = {batches_ahead}")
    return "\n".join(settings) + f"\n[fields]\nimage = {image}\nlabel = {label}\n"


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def expect(fine, words):
    if not fine:
        raise Failed(words)


class ManagedTensor(ctypes.Structure):
    """`DLManagedTensor` of dlpack.h, before 1.0."""


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedTensor))
ManagedTensor._fields_ = [
    ("data", c_void_p), ("kind", c_int32), ("ordinal", c_int32), ("ndim", c_int32),
    ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
    ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)),
    ("byte_offset", c_uint64), ("context", c_void_p), ("deleter", DELETER),
]


class Library:
    """The functions of the library."""

    FUNCTIONS = {
        "fuseloop_error": (c_char_p, []),
        "fuseloop_open": (c_void_p, [c_char_p, c_char_p, c_uint64, c_uint32]),
        "fuseloop_device": (c_char_p, [c_void_p]),
        "fuseloop_begin": (c_int32, [c_void_p, c_uint32]),
        "fuseloop_next": (c_void_p, [c_void_p]),
        "fuseloop_rows": (c_int64, [c_void_p]),
        "fuseloop_dlpack": (ctypes.POINTER(ManagedTensor), [c_void_p, c_char_p, c_int64]),
        "fuseloop_bytes": (c_int64, [c_void_p, c_char_p, c_char_p, c_size_t]),
        "fuseloop_let_go": (None, [c_void_p]),
        "fuseloop_close": (None, [c_void_p]),
    }

    def __init__(self, path):
        library = ctypes.CDLL(os.path.abspath(path))
        for name, (result, arguments) in self.FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("fuseloop_"), function)

    def checked(self, value, failed=None):
        if value == failed or (failed is None and not value):
            raise Failed((self.error() or b"no reason").decode())
        return value

    def loader(self, name, device, samples=SAMPLES, **settings):
        return Loader(self, pipeline(name, device, **settings), samples)


class Loader:
    def __init__(self, library, text, samples):
        self.library, self.handle = library, None
        self.handle = library.checked(library.open(None, text.encode(), samples, SIDE))

    def device(self):
        return self.library.device(self.handle).decode()

    def epoch(self, number=0):
        """Yields the batches of an epoch; each is freed when the next is requested, unless the caller holds it."""
        self.library.checked(self.library.begin(self.handle, number), -1)
        while handle := self.library.next(self.handle):
            yield Batch(self.library, handle)
        if error := self.library.error():
            raise Failed(error.decode())

    def close(self):
        if self.handle:
            self.library.close(self.handle)
        self.handle = None

    __del__ = close


class Batch:
    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def bytes(self, name):
        count = self.library.bytes(self.handle, name.encode(), None, 0)
        self.library.checked(count, -1)
        to = ctypes.create_string_buffer(count)
        self.library.checked(self.library.bytes(self.handle, name.encode(), to, count), -1)
        return to.raw

    def managed(self, name, stream):
        return self.library.checked(self.library.dlpack(self.handle, name.encode(), stream))

    def let_go(self):
        if self.handle:
            self.library.let_go(self.handle)
        self.handle = None

    __del__ = let_go


def both(batch):
    return {name: batch.bytes(name) for name in ("image", "label")}


def on_cpu(library, name, samples=SAMPLES, epoch=0):
    return [both(batch) for batch in library.loader(name, "cpu", samples).epoch(epoch)]


# --- without PyTorch -------------------------------------------------------------------------


def values(library, device):
    """Every pipeline's batches are those of the CPU."""
    for name in PIPELINES:
        want = on_cpu(library, name, 44)
        got = [both(batch) for batch in library.loader(name, device, 44).epoch()]
        expect(len(got) == len(want) == 6, f"{name}: {len(got)} batches")
        for number, (a, b) in enumerate(zip(got, want)):
            expect(a == b, f"{name}: batch {number} differs")
    return f"{len(PIPELINES)} pipelines"


def driver_copy(address, count):
    """Returns bytes of the device, read by the driver alone."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, to = c_void_p(), ctypes.create_string_buffer(count)

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        expect(code == 0, f"{name}: error {code}")

    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), c_int(0))
    call("cuCtxPushCurrent_v2", context)
    call("cuCtxSynchronize")
    call("cuMemcpyDtoH_v2", to, c_uint64(address), c_size_t(count))
    call("cuCtxPopCurrent_v2", ctypes.byref(context))
    call("cuDevicePrimaryCtxRelease_v2", c_int(0))
    return to.raw


def capsules(library, device):
    """A tensor describes itself, outlives its batch and its loader, and is deleted once."""
    want = on_cpu(library, "f16 first")
    loader = library.loader("f16 first", device, device_batches=12)
    kept = []
    for batch in loader.epoch():
        kept.append(batch.managed("image", 1))
        batch.let_go()
    loader.close()
    for managed, bytes_of in zip(kept, want):
        tensor = managed.contents
        shape = [tensor.shape[k] for k in range(tensor.ndim)]
        strides = [tensor.strides[k] for k in range(tensor.ndim)]
        expect(shape == [ROWS, 3, 40, 40], f"shape {shape}")
        expect(strides == [4800, 1600, 40, 1], f"strides {strides}")
        expect((tensor.kind, tensor.ordinal) == (2, 0), "it is not on cuda:0")
        expect((tensor.code, tensor.bits, tensor.lanes) == (2, 16, 1), "it is not f16")
        got = driver_copy(tensor.data + tensor.byte_offset, ROWS * 3 * 40 * 40 * 2)
        expect(got == bytes_of["image"], "it differs from the CPU's")
        tensor.deleter(managed)
    return f"{len(kept)} tensors"


def refused(library, words, **arguments):
    try:
        library.loader("f32 first", **arguments)
    except Failed as error:
        expect(words in str(error), f"the error is: {error}")
        expect("\n" not in str(error), "the error has several lines")
        return str(error)
    raise Failed("it was not refused")


def wrong_device(library, device):
    """A GPU that does not exist is refused, in a line that says how many exist."""
    return refused(library, "this process sees", device="cuda:99")


def forked(library, device):
    """The fork of a process that used the GPU gets an error that says so, and does not hang or crash."""
    library.loader("f32 first", device)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = refused(library, "forked", device=device)
            os.write(writing, said.encode())
            os._exit(0)
        except BaseException as error:
            os.write(writing, repr(error).encode())
            os._exit(1)
    os.close(writing)
    deadline = time.time() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.time() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise Failed("it hangs")
        time.sleep(0.01)
    said = os.read(reading, 4096).decode()
    expect(ended[1] == 0, f"status {ended[1]}: {said}")
    return said


def all_held(library, device):
    """A consumer that holds all available batches gets an error that names the remedy."""
    loader = library.loader("f32 first", device, device_batches=3, batches_ahead=1)
    kept = []
    try:
        for batch in loader.epoch():
            kept.append(batch.managed("image", -1))
            batch.let_go()
    except Failed as error:
        expect("device_batches" in str(error), f"the error is: {error}")
        said = str(error)
    else:
        raise Failed(f"{len(kept)} batches were held")
    finally:
        for managed in kept:
            managed.contents.deleter(managed)
    expect(len(kept) <= 3, f"{len(kept)} batches were held")
    return said


# --- with PyTorch ----------------------------------------------------------------------------


def torch_of():
    try:
        import torch
    except ImportError:
        raise Skipped("there is no PyTorch") from None
    if not torch.cuda.is_available():
        raise Skipped("PyTorch has no CUDA here")
    return torch


def stream_of(torch):
    """Returns DLPack's number of PyTorch's current stream: PyTorch's default stream is CUDA's."""
    return torch.cuda.current_stream().cuda_stream or 1


def tensor(torch, batch, name):
    """Returns a tensor of a batch, through DLPack, on PyTorch's current stream."""
    managed = batch.managed(name, stream_of(torch))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    # PyTorch takes ownership of the tensor and deletes it. The name lives as long as this module.
    return torch.utils.dlpack.from_dlpack(new(ctypes.cast(managed, c_void_p), b"dltensor", None))


def bytes_of(torch, value):
    return bytes(value.contiguous().view(torch.uint8).flatten().tolist())


def torch_values(library, device):
    """PyTorch sees the CPU's values, types and shapes."""
    torch = torch_of()
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8}
    for name in PIPELINES:
        want = on_cpu(library, name)
        for number, batch in enumerate(library.loader(name, device).epoch()):
            image, label = tensor(torch, batch, "image"), tensor(torch, batch, "label")
            expect(str(image.device) == "cuda:0" and image.shape[0] == ROWS, f"{image.device}")
            expect(image.dtype == types.get(name.split()[0], image.dtype), f"{name}: {image.dtype}")
            for value, field in ((image, "image"), (label, "label")):
                fine = bytes_of(torch, value) == want[number][field]
                expect(fine, f"{name}: {field} of batch {number} differs")
    return f"{len(PIPELINES)} pipelines"


def slow_consumer(library, device):
    """Busy streams of PyTorch: a batch is not overwritten before they have read it."""
    torch = torch_of()
    want = on_cpu(library, "f16 first")
    for stream in [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]:
        loader = library.loader("f16 first", device, device_batches=3, batches_ahead=1)
        read = []
        with torch.cuda.stream(stream):
            for batch in loader.epoch():
                image = tensor(torch, batch, "image")
                torch.cuda._sleep(30_000_000)  # about 15 ms, many times as long as a batch takes
                read.append(image.clone())
                del image
                batch.let_go()
        stream.synchronize()
        for number, copy in enumerate(read):
            fine = bytes_of(torch, copy) == want[number]["image"]
            expect(fine, f"batch {number} was written over, on {stream}")
    return "the default stream and two others"


def two_streams(library, device):
    """A batch that two streams read, one of them busy, is not reused before both are done."""
    torch = torch_of()
    want = on_cpu(library, "f16 first")
    loader = library.loader("f16 first", device, device_batches=3, batches_ahead=1)
    streams, read = [torch.cuda.Stream(), torch.cuda.Stream()], []
    for batch in loader.epoch():
        for stream, sleep in zip(streams, (0, 30_000_000)):
            with torch.cuda.stream(stream):
                image = tensor(torch, batch, "image")
                if sleep:
                    torch.cuda._sleep(sleep)
                read.append(image.clone())
                del image
        batch.let_go()
    torch.cuda.synchronize()
    for number, copy in enumerate(read):
        fine = bytes_of(torch, copy) == want[number // 2]["image"]
        expect(fine, f"batch {number // 2} was written over")
    return f"{len(read)} reads"


def held(library, device):
    """Tensors that are held stay unchanged."""
    torch = torch_of()
    want = on_cpu(library, "f32 first")
    loader = library.loader("f32 first", device, device_batches=12)
    kept = [tensor(torch, batch, "image") for batch in loader.epoch()]
    loader.close()
    for number, image in enumerate(kept):
        expect(bytes_of(torch, image) == want[number]["image"], f"batch {number} differs")
    return f"{len(kept)} batches, after the loader was closed"


def constant_memory(library, device):
    """Epochs allocate no new memory, and a loader releases all of its memory."""
    torch = torch_of()
    torch.zeros(1, device="cuda").item()

    def free():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]

    def run(loader, number):
        total = 0.0
        for batch in loader.epoch(number):
            total += tensor(torch, batch, "image").float().sum().item()
        return total

    # An earlier loader allocates the memory that kernels and streams never release.
    run(library.loader("f32 first", device), 0)
    before = free()
    loader = library.loader("f32 first", device, device_batches=4, batches_ahead=2)
    run(loader, 0)
    first = free()
    for number in (1, 2, 3):
        run(loader, number)
    last = free()
    loader.close()
    after = free()
    expect(abs(first - last) <= 4 << 20, f"{first - last} bytes more after three epochs")
    expect(abs(before - after) <= 4 << 20, f"{before - after} bytes were not given back")
    return f"{before - first} bytes for a loader, in every epoch"


CHECKS = [values, capsules, wrong_device, all_held, torch_values, slow_consumer, two_streams, held,
          constant_memory, forked]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--json", help="a file that gets a line for each check")
    parser.add_argument("--device", default="cuda:0")
    given = parser.parse_args()
    library, failures, lines = Library(given.library), 0, []
    try:
        library.loader("u8 last", given.device)
    except Failed as reason:
        print(f"skipped: {reason}")
        sys.exit(os.environ.get("REQUIRE_GPU", "0") != "0")
    for check in CHECKS:
        began = time.time()
        try:
            outcome, words = "ok", check(library, given.device)
        except Skipped as reason:
            outcome, words = "skipped", str(reason)
        except Exception as reason:  # PyTorch has errors of its own: the other checks continue
            words = str(reason) if isinstance(reason, Failed) else repr(reason)
            outcome, failures = "FAILED", failures + 1
        print(f"{outcome:<8} {check.__name__:<16} {words}", flush=True)
        lines.append({"group": "python", "name": check.__name__, "outcome": outcome, "words": words,
                      "seconds": round(time.time() - began, 3)})
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
