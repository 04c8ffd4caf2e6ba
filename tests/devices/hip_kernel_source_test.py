#!/usr/bin/env python3
"""The source of the AMD probe kernels, which GPU machines alone compile: clang makes code of it for
each architecture, which reads the registers of that architecture. Skipped without a clang that
knows any of them; architectures that it does not know are left out."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILERS = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
# What AMD's run-time compiler has built in.
PRELUDE = """
#define __global__ __attribute__((global))
struct Index { unsigned x; };
struct uint4 { unsigned x, y, z, w; };
#define threadIdx (Index{__builtin_amdgcn_workitem_id_x()})
#define blockIdx (Index{__builtin_amdgcn_workgroup_id_x()})
"""
# Architecture: gfx numbers, registers read, SiteForm.
ARCHITECTURES = {
    "gfx900": (9, 0, {"HW_ID"}, 1),
    "gfx906": (9, 0, {"HW_ID"}, 1),
    "gfx908": (9, 0, {"HW_ID"}, 2),
    "gfx90a": (9, 0, {"HW_ID"}, 2),
    "gfx942": (9, 4, {"HW_ID", "XCC_ID"}, 2),
    "gfx950": (9, 5, {"HW_ID", "XCC_ID"}, 2),
    "gfx1030": (10, 3, {"HW_ID1"}, 3),
    "gfx1100": (11, 0, {"HW_ID1"}, 4),
    "gfx1200": (12, 0, {"HW_ID1"}, 4),
}


def source():
    text = (ROOT / "node/drivers/hip_mask/hip_kernel_source.h").read_text()
    return text[text.index('R"(') + 3:text.index(')";')]


def compiled(architecture, folder):
    """The assembly that the first compiler makes that knows the architecture; None without one."""
    major, minor, _, _ = ARCHITECTURES[architecture]
    file = pathlib.Path(folder) / f"{architecture}.hip"
    file.write_text(f"#define GFX_MAJOR {major}\n#define GFX_MINOR {minor}\n{PRELUDE}{source()}\n"
                    "static_assert(sizeof(Note) == 32, \"\");\n"
                    'extern "C" __global__ void form(int* out) { *out = 7000 + SITE_FORM; }\n')
    for compiler in filter(shutil.which, COMPILERS):
        command = [compiler, "-x", "hip", f"--offload-arch={architecture}", "--cuda-device-only",
                   "-nogpulib", "-nogpuinc", "-Wall", "-Werror", "-O3", "-S", "-o", "-", str(file)]
        done = subprocess.run(command, capture_output=True, text=True)
        if "invalid target ID" in done.stderr or "unsupported" in done.stderr:
            continue
        if done.returncode != 0:
            raise AssertionError(f"{architecture}: {done.stderr}")
        return done.stdout
    return None


class Kernels(unittest.TestCase):
    def test_compile_and_read_the_registers(self):
        known = 0
        with tempfile.TemporaryDirectory() as folder:
            for architecture, (_, _, registers, form) in ARCHITECTURES.items():
                with self.subTest(architecture):
                    assembly = compiled(architecture, folder)
                    if assembly is None:
                        continue
                    known += 1
                    read = set(re.findall(r"s_getreg_b32 \w+, hwreg\(HW_REG_(\w+)", assembly))
                    self.assertEqual(read, registers)
                    self.assertIn(f"{7000 + form:#x}", assembly)
                    for name in ("partita_note", "partita_compute", "partita_read"):
                        self.assertIn(f".amdhsa_kernel {name}\n", assembly)
        print(f"{known} of {len(ARCHITECTURES)} architectures", file=sys.stderr)


if __name__ == "__main__":
    if not any(map(shutil.which, COMPILERS)):
        sys.exit(77)
    unittest.main()
