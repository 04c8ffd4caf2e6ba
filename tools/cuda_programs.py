#!/usr/bin/env python3
"""The CUDA programs of tests/remote/programs, compiled by compilers that the build does not need.

    tools/cuda_programs.py ptx           clang 14 makes the committed ptx/NAME.ptx anew, and the
                                         libraries' kernels.ptx
    tools/cuda_programs.py check         exit 1 where that would change a file
    tools/cuda_programs.py clang OUT     whole programs by clang
    tools/cuda_programs.py nvcc OUT      the same by nvcc, with the shared runtime

--lib DIR says where libcudart.so.12 stands (default: build/release/remote); nvcc brings its own.
CLANG and NVCC in the environment name other compilers.
"""
import argparse
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = TOP / "tests/remote/programs"
LIBRARY = TOP / "apps/remote_client/library/kernels.cu"
# No header or library of CUDA is looked for. sm_70 with PTX 6.4: shuffles and votes with masks.
CLANG = ["-x", "cuda", "-std=c++20", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent",
         "--cuda-gpu-arch=sm_70", "-Xclang", "-target-sdk-version=11.0", "-O2", "-fno-exceptions",
         "-Wno-unknown-cuda-version"]
# One rounding per operation, as in the references; loops stay loops, so that the files are small.
DEVICE = ["--cuda-device-only", "-Xclang", "-target-feature", "-Xclang", "+ptx64",
          "-ffp-contract=off", "-fno-unroll-loops", "-S"]


def sources():
    return sorted(PROGRAMS.glob("*.cu"))


def run(command):
    subprocess.run([str(word) for word in command], check=True, cwd=PROGRAMS)


def clang():
    return os.environ.get("CLANG", "clang++")


def device_text(source):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.ptx"
        run([clang(), *CLANG, *DEVICE, source, "-o", out])
        # Lines that say nothing and end in blanks.
        lines = [line.rstrip() for line in out.read_text().splitlines()]
        return "\n".join(lines) + "\n"


def fat_binary(ptx):
    """One member: PTX as it is, for sm_70."""
    body = ptx.encode() + b"\0"
    body += b"\0" * (-len(body) % 8)
    member = struct.pack("<HHIQIIHHIQQQQ", 1, 0x101, 64, len(body), 0, 0, 0, 6, 70, 0, 0x11, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(member) + len(body)) + member + body


def make_ptx(only_check):
    changed = []
    committed = {source: PROGRAMS / "ptx" / (source.stem + ".ptx") for source in sources()}
    committed[LIBRARY] = LIBRARY.with_suffix(".ptx")
    for source, path in committed.items():
        text = device_text(source)
        if path.exists() and path.read_text() == text:
            continue
        changed.append(path.name)
        if not only_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    print("changed:", " ".join(changed) or "nothing")
    return 1 if only_check and changed else 0


def make_clang(out, lib):
    for source in sources():
        fat, compiled = out / (source.stem + ".fatbin"), out / (source.stem + ".o")
        fat.write_bytes(fat_binary(device_text(source)))
        run([clang(), *CLANG, "--cuda-host-only", "-Xclang", "-fcuda-include-gpubinary",
             "-Xclang", fat, "-c", source.name, "-o", compiled])
        run([clang(), compiled, "-L" + str(lib), "-l:libcudart.so.12", "-o", out / source.stem])


def make_nvcc(out):
    for source in sources():
        run([os.environ.get("NVCC", "nvcc"), "-std=c++20", "-O2", "--fmad=false", "-w",
             "-cudart", "shared", "-gencode", "arch=compute_75,code=compute_75",
             source.name, "-o", out / source.stem])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ptx", "check", "clang", "nvcc"])
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--lib", type=pathlib.Path, default=TOP / "build/release/remote")
    arguments = parser.parse_args()
    if arguments.what in ("ptx", "check"):
        return make_ptx(arguments.what == "check")
    if not arguments.out:
        parser.error("OUT is missing")
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if arguments.what == "clang":
        make_clang(out, arguments.lib.resolve())
    else:
        make_nvcc(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
