"""Files out of one npm package: fetched with npm (from Debian where it or node is missing), checked
against its sum, unpacked; none of its scripts runs. Takes at most LIMIT seconds. Where it cannot be
had, a line says what is left out, and the exit status is 0: everything else works without it."""
import base64
import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import time

LIMIT = 90
FOLDERS = {"x86_64": "x64", "aarch64": "arm64"}


class LeftOut(Exception):
    pass


def run(command, deadline, **how):
    try:
        done = subprocess.run(command, timeout=max(1, deadline - time.monotonic()), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, **how)
    except subprocess.TimeoutExpired:
        raise LeftOut(f"{command[0]} takes too long")
    except OSError as error:
        raise LeftOut(f"{command[0]}: {error.strerror}")
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise LeftOut(f"{os.path.basename(command[0])}: {lines[0] if lines else 'failed'}")


def fetch(package, folder, deadline):
    """The package's file in `folder`."""
    if shutil.which("npm") is None or shutil.which("node") is None:  # npm is a script for node
        here = os.path.dirname(os.path.abspath(__file__))
        run([os.path.join(here, "install_packages"), "npm"], deadline)
    run(["npm", "pack", "--loglevel=error", "--ignore-scripts", "--fetch-retries=1",
         "--fetch-retry-mintimeout=1000", package], deadline, cwd=folder)
    packed = [name for name in os.listdir(folder) if name.endswith(".tgz")]
    if len(packed) != 1:
        raise LeftOut("npm fetched nothing")
    return os.path.join(folder, packed[0])


def check(path, integrity):
    digest = hashlib.sha512()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    if integrity != "sha512-" + base64.b64encode(digest.digest()).decode():
        raise LeftOut("the package is not the one that was expected")


def extract(path, inside, files, folder):
    """Those of `files`, or all where there are none, that lie in the package's folder `inside`."""
    found = 0
    with tarfile.open(path) as archive:
        for entry in archive:
            place, name = os.path.split(entry.name)
            if place != inside or not entry.isfile() or (files and name not in files):
                continue
            target = os.path.join(folder, name)
            with archive.extractfile(entry) as source, open(target + ".part", "wb") as out:
                shutil.copyfileobj(source, out)
            os.replace(target + ".part", target)
            found += 1
    if found < max(1, len(files)):
        raise LeftOut(f"the package has no {' '.join(files) or inside}")


def machine():
    """As npm's packages name this one."""
    name = FOLDERS.get(platform.machine())
    if name is None or platform.system() != "Linux":
        raise LeftOut("there is none for this machine")
    return name


def get(what, packages, folder, files=()):
    """`packages` by machine: (package@version, sum, folder inside); `what` is left out."""
    stamp = os.path.join(folder, "version")
    try:
        package, integrity, inside = packages[machine()]
        if os.path.exists(stamp) and open(stamp).read() == package:
            return
        deadline = time.monotonic() + LIMIT
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            fetched = fetch(package, scratch, deadline)
            check(fetched, integrity)
            extract(fetched, inside, files, folder)
        with open(stamp, "w") as file:
            file.write(package)
    except (LeftOut, OSError, tarfile.TarError) as error:
        print(f"left out: {what} ({error})")
