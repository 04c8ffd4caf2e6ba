#!/usr/bin/env python3
"""Writes what a folder of programs is made of, as SPDX 2.3: the libraries that their ELF files ask
for, and the packages whose headers and archives were compiled in, with dpkg's versions.

usage: make_sbom.py FOLDER BUILD NAME VERSION OUTPUT [TARGET...]
BUILD is a build folder of ninja, TARGETs what was taken from it.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(folder):
    return [path for path in sorted(pathlib.Path(folder).rglob("*"))
            if path.is_file() and not path.is_symlink() and is_elf(path)]


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path))


class Packages:
    """Which installed package a file belongs to, and what dpkg knows of it."""

    def __init__(self):
        self.owners = {}
        for listing in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
            package = listing.stem
            for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
                self.owners[line] = package
        self.known = {}

    def owner(self, path):
        """Debian's folders are below / and /usr both."""
        real = os.path.realpath(path)
        for name in (path, real, real.removeprefix("/usr")):
            if name in self.owners:
                return self.owners[name]
        return None

    def about(self, package):
        if package not in self.known:
            form = "${binary:Package}\t${Version}\t${source:Package}\t${Architecture}\t${Homepage}"
            self.known[package] = run("dpkg-query", "-W", "-f", form, package).split("\t")
        return self.known[package]


def places():
    """Where the dynamic linker finds sonames."""
    found = {}
    for line in run("/sbin/ldconfig", "-p").splitlines():
        match = re.match(r"\s+(\S+) \((.*)\) => (.*)", line)
        if match and "x86-64" in match[2] or match and "AArch64" in match[2]:
            found.setdefault(match[1], match[3])
    return found


def compiled_in(build, targets, source):
    """Files outside the source and build folders that went into the targets: headers, archives."""
    inputs = run("ninja", "-C", build, "-t", "inputs", *targets).splitlines()
    inputs = [line for line in inputs if not line.startswith("ninja:")]
    files = {one for one in inputs if one.endswith(".a") and os.path.isabs(one)}
    wanted = {one for one in inputs if one.endswith(".o")}
    for line in run("ninja", "-C", build, "-t", "deps", *sorted(wanted)).splitlines():
        if line.startswith(" "):
            path = os.path.normpath(os.path.join(build, line.strip()))
            if path.startswith(build + "/"):  # a copy of an installed header, as cli11.cmake makes
                path = "/usr/include/" + "/".join(path.split("/")[-2:])
            if not path.startswith(str(source) + "/"):
                files.add(path)
    return files


def package_entry(packages, package):
    name, version, origin, architecture, home = packages.about(package)
    short = name.split(":")[0]
    entry = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", short),
        "name": short, "versionInfo": version,
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
        "copyrightText": f"see /usr/share/doc/{short}/copyright",
        "sourceInfo": f"Debian source package {origin}",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{short}@{version}?arch={architecture}"}]}
    if home:
        entry["homepage"] = home
    return entry


def when():
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    now = datetime.datetime.now(datetime.timezone.utc)
    at = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc) if epoch else now
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def document(folder, build, name, version, targets):
    source = pathlib.Path(__file__).resolve().parent.parent
    packages, where = Packages(), places()
    own = {path.name for path in elf_files(folder)}
    linked, inside = {}, set()
    for path in elf_files(folder):
        for soname in needed(path):
            if soname in own:
                continue
            package = packages.owner(where.get(soname, ""))
            if package is None:
                raise SystemExit(f"{path}: needs {soname}, which no package has")
            linked.setdefault(package, set()).add(soname)
    for file in compiled_in(str(pathlib.Path(build).resolve()), targets, source):
        package = packages.owner(file)
        if package is not None and package not in linked:
            inside.add(package)
    sources = {packages.about(package)[2] for package in linked}
    ours = {"SPDXID": "SPDXRef-" + name, "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
            "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION"}
    entries, relations = [ours], [("SPDXRef-DOCUMENT", "DESCRIBES", ours["SPDXID"], None)]
    for package in sorted(linked):
        entry = package_entry(packages, package)
        entries.append(entry)
        names = ", ".join(sorted(linked[package]))
        relations.append((ours["SPDXID"], "DYNAMIC_LINK", entry["SPDXID"], names))
    for package in sorted(inside):
        entry = package_entry(packages, package)
        entries.append(entry)
        # Headers of what is linked besides; else code that exists nowhere but in our files.
        if packages.about(package)[2] in sources:
            relations.append((entry["SPDXID"], "BUILD_DEPENDENCY_OF", ours["SPDXID"], None))
        else:
            relations.append((ours["SPDXID"], "STATIC_LINK", entry["SPDXID"], "compiled in"))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}",
        "creationInfo": {"created": when(), "creators": ["Tool: make_sbom.py"]},
        "packages": entries,
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other,
             **({"comment": comment} if comment else {})}
            for one, kind, other, comment in relations]}


def main(folder, build, name, version, output, *targets):
    text = json.dumps(document(folder, build, name, version, targets), indent=1) + "\n"
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
