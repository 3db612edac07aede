#!/usr/bin/env python3
"""Compiles the shipped kernels: writes kernels/ptx/*.ptx and their table.

    pip install nvidia-cuda-nvrtc-cu12==12.0.76      # the version they were compiled with; no GPU is needed
    scripts/kernels_ptx.py [folder with libnvrtc.so.12]

CUDA 12.0 emits PTX 8.0, which every driver since 525 accepts; compute_75 is Turing.
"""
import ctypes
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = ["--gpu-architecture=compute_75", "--std=c++17", "--fmad=false"]


def library():
    if len(sys.argv) > 1:
        return pathlib.Path(sys.argv[1]) / "libnvrtc.so.12"
    import nvidia.cuda_nvrtc

    return pathlib.Path(next(iter(nvidia.cuda_nvrtc.__path__))) / "lib" / "libnvrtc.so.12"


def text(nvrtc, program, what):
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    body = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, body)
    return body.raw.rstrip(b"\0").decode()


def ptx(nvrtc, name, source):
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None) == 0
    options = (ctypes.c_char_p * len(OPTIONS))(*(option.encode() for option in OPTIONS))
    if nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options) != 0:
        sys.exit(f"{name}:\n{text(nvrtc, program, 'ProgramLog')}")
    return text(nvrtc, program, "PTX")


def main():
    nvrtc = ctypes.CDLL(str(library()))
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    assert (major.value, minor.value) == (12, 0), "PTX of another version: older drivers refuse it"
    out = ROOT / "kernels" / "ptx"
    out.mkdir(exist_ok=True)
    for old in out.glob("*.ptx"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["cargo", "test", "--release", "--test", "shipped_kernels", "every_usual"],
            cwd=ROOT,
            check=True,
            env={**os.environ, "FUSELOOP_KERNEL_SOURCES": folder},
        )
        names = sorted(path.stem for path in pathlib.Path(folder).glob("*.cu"))
        for name in names:
            source = (pathlib.Path(folder) / f"{name}.cu").read_bytes()
            # Comments and blank lines are a third of the PTX.
            lines = ptx(nvrtc, f"{name}.cu", source).splitlines()
            body = "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("//"))
            head = f"// source {hashlib.sha256(source).hexdigest()}\n"
            (out / f"{name}.ptx").write_text(head + body + "\n")
    rows = "".join(f'    ("{name}", include_str!("../ptx/{name}.ptx")),\n' for name in names)
    table = ROOT / "kernels" / "src" / "shipped_table.in"
    table.write_text(f"// Written by scripts/kernels_ptx.py.\n&[\n{rows}]\n")
    print(f"{len(names)} kernels, {sum(p.stat().st_size for p in out.glob('*.ptx'))} bytes")


main()
