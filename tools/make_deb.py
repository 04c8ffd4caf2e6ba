#!/usr/bin/env python3
"""Packs what a build made as a Debian package, BUILD/partita_VERSION_ARCH.deb, and prints its name.
Needs dpkg-dev, which g++ brings. The version is the build's (cmake/version.cmake).

usage: make_deb.py BUILD [--output FOLDER] [--version VERSION] [--fast]
--fast compresses little, for tests.
"""
import argparse
import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ("partita", "partita_remote", "cudart_shim_12", "cudart_shim_13", "cuda_shim",
           "cublas_shim_12", "cublas_shim_13", "cublasLt_shim_12", "cublasLt_shim_13",
           "cudnn_shim_9", "cufft_shim_11", "cufft_shim_12", "curand_shim_10", "cusparse_shim_12",
           "nvrtc_shim", "partita_library", "lanes_hip")
CONTROL = """Package: partita
Version: {version}
Architecture: {architecture}
Maintainer: The maintainers of Partita <maintainers@partita.invalid>
Installed-Size: {size}
Depends: {depends}, passwd
Recommends: systemd, python3, libopenblas0-pthread
Suggests: libnvidia-ml1
Section: admin
Priority: optional
Description: spatial partitioning of GPUs for inference services and batches
 Partita plans which MIG instances on which GPUs serve which models, judges and
 simulates plans, applies them to a node without taking services down, and runs
 the gateway, the workers and queues of jobs on it. CUDA programs can be run on
 a GPU that is elsewhere, or on the cores of this machine.
"""
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: partita

Files: *
Copyright: 2026 the authors of Partita
License: Apache-2.0
 Licensed under the Apache License, Version 2.0. On Debian systems its whole
 text is in /usr/share/common-licenses/Apache-2.0.
"""


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          **options).stdout


def stage(build, root):
    """What `make install` installs, below root, with Debian's places for documents."""
    environment = dict(os.environ, DESTDIR=str(root))
    run("cmake", "--install", str(build), "--prefix", "/usr", "--strip", env=environment)
    shutil.copytree(SOURCE / "packaging/etc", root / "etc/partita")
    shutil.rmtree(root / "usr/share/partita/etc")
    documents = root / "usr/share/doc/partita"
    documents.mkdir(parents=True, exist_ok=True)
    (documents / "copyright").write_text(COPYRIGHT, encoding="utf-8")
    for page in (root / "usr/share/man").rglob("*.[15]"):
        zipped(page, page.read_bytes())
        page.unlink()


def zipped(path, content):
    with open(f"{path}.gz", "wb") as file:
        with gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
            packed.write(content)


def changes(root, version):
    """CHANGELOG.md, and the same with the version that this is."""
    text = (SOURCE / "CHANGELOG.md").read_text(encoding="utf-8")
    documents = root / "usr/share/doc/partita"
    zipped(documents / "changelog", f"This is {version}.\n\n{text}".encode())


def depends(root):
    """What dpkg-shlibdeps says the ELF files need."""
    with tempfile.TemporaryDirectory() as folder:
        debian = pathlib.Path(folder, "debian")
        debian.mkdir()
        (debian / "control").write_text("Source: partita\n\nPackage: partita\nArchitecture: any\n",
                                      encoding="utf-8")
        libraries = sorted((root / "usr/lib/partita/remote").iterdir())
        said = run("dpkg-shlibdeps", "-O", f"-l{root}/usr/lib/partita/remote",
                   *(f"-e{path}" for path in (root / "usr/bin/partita",
                                              *(root / "usr/lib/partita").glob("partita-*"),
                                              *(root / "usr/lib").glob("libpartita.so.?"),
                                              *libraries)), cwd=folder)
    return said.strip().removeprefix("shlibs:Depends=")


def files_below(root):
    return sorted(path for path in root.rglob("*")
                  if path.is_file() and not path.is_symlink()
                  and "DEBIAN" not in path.relative_to(root).parts[:1])


def modes(root):
    """The umask of who builds is no matter of who installs."""
    for path in sorted(root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def describe(root, version):
    debian = root / "DEBIAN"
    debian.mkdir(exist_ok=True)
    found = files_below(root)
    (debian / "control").write_text(CONTROL.format(
        version=version, architecture=run("dpkg", "--print-architecture").strip(),
        depends=depends(root),
        size=sum(path.stat().st_size for path in found) // 1024 + 1), encoding="utf-8")
    settings = sorted((root / "etc").rglob("*.yaml"))
    (debian / "conffiles").write_text(
        "".join(f"/{path.relative_to(root)}\n" for path in settings), encoding="utf-8")
    (debian / "md5sums").write_text("".join(
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
        for path in found if path not in settings), encoding="utf-8")
    (debian / "shlibs").write_text(f"libpartita 0 partita (>= {version})\n", encoding="utf-8")
    (debian / "triggers").write_text("activate-noawait ldconfig\n", encoding="utf-8")
    for script in (SOURCE / "packaging/deb").iterdir():
        shutil.copy(script, debian / script.name)


def pack(root, output, version, fast):
    describe(root, version)
    modes(root)
    how = ("-Zgzip", "-z1") if fast else ("-Zxz",)
    said = run("dpkg-deb", "--root-owner-group", *how, "--build", str(root), str(output))
    return said.split("'")[-2]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("--output", type=pathlib.Path)
    arguments.add_argument("--version", action="append")
    arguments.add_argument("--fast", action="store_true")
    said = arguments.parse_args()
    built = (said.build / "version.txt").read_text(encoding="utf-8").strip()
    committed = subprocess.run(["git", "-C", str(SOURCE), "log", "-1", "--format=%ct"],
                               capture_output=True, text=True, check=False).stdout.strip()
    os.environ.setdefault("SOURCE_DATE_EPOCH", committed or "0")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root")
        stage(said.build, root)
        for version in said.version or [built]:
            changes(root, version)
            run("python3", str(SOURCE / "tools/make_sbom.py"), str(root), str(said.build),
                "partita", version, str(root / "usr/share/doc/partita/sbom.spdx.json"), *TARGETS)
            print(pack(root, said.output or said.build, version, said.fast))


if __name__ == "__main__":
    main()
