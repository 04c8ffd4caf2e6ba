"""The Debian package in a clean root: made from the files of the packages that it depends on and of
the essential ones, nothing else. Installed, used, upgraded, removed, purged there. Needs root (a
namespace of its own, chroot) and Debian."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["PARTITA"]).parent
NODE = """gpus: [{model: A100-80GB, count: 8, mig: true}]
state: node.state
speed: 0
"""
SETTINGS = """all: {driver: sim, machine: /tmp/node.yaml}
workers: {command: sleep 1000}
gateway: {http: "127.0.0.1:0"}
"""
UNITS = ("partita-agent", "partita-apply", "partita-gateway", "partita-slurm", "partita-workers")
LEFT_OUT = re.compile(r"/usr/share/(doc|man|locale|info|i18n|lintian|perl|common-licenses)/")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*command, **options):
    return subprocess.run([str(one) for one in command], check=True, capture_output=True, text=True,
                          **options).stdout


if os.geteuid() != 0:
    skip("not root")
for tool in ("dpkg-deb", "dpkg-shlibdeps", "unshare", "chroot", "ninja", "readelf"):
    if shutil.which(tool) is None:
        skip(f"no {tool}")
if not (BUILD / "remote/libcuda.so.1").exists() or not (BUILD / "libpartita.so.0").exists():
    skip("the package's parts are not built")
try:
    run("unshare", "--mount", "--pid", "--fork", "true")
except subprocess.CalledProcessError as refused:
    skip(f"no namespaces: {refused.stderr.strip()}")


class Installed:
    """What dpkg knows of the packages of this machine."""

    def __init__(self):
        form = "\t".join(("${Package}", "${Essential}", "${Pre-Depends}, ${Depends}", "${Provides}",
                          "${db:Status-Status}\n"))
        self.needs, self.essential, self.provided = {}, set(), {}
        for line in run("dpkg-query", "-W", "-f", form).splitlines():
            name, essential, depends, provides, status = line.split("\t")
            if status != "installed":
                continue
            self.needs[name] = self.names(depends)
            if essential == "yes":
                self.essential.add(name)
            for one in self.names(provides):
                self.provided.setdefault(one[0], name)

    @staticmethod
    def names(text):
        """Per dependency its alternatives."""
        return [[re.split(r"[ (:]", one.strip())[0] for one in part.split("|")]
                for part in text.split(",") if part.strip()]

    def closure(self, wanted):
        found, open_ = set(), list(wanted)
        while open_:
            name = open_.pop()
            name = name if name in self.needs else self.provided.get(name)
            if name is None or name in found:
                continue
            found.add(name)
            for alternatives in self.needs[name]:
                there = [one for one in alternatives if one in self.needs or one in self.provided]
                open_ += there[:1]
        return found


def clean_root(root, packages):
    """A root with these packages installed, and no other file."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "dev", "sys", "run", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates",
                 "var/lib/dpkg/triggers", "var/log"):
        (root / name).mkdir(parents=True, exist_ok=True)
    files = set()
    for name in packages:
        for path in run("dpkg", "-L", name).splitlines():
            if not LEFT_OUT.match(path) and not os.path.isdir(path) and os.path.lexists(path):
                files.add(os.path.realpath(os.path.dirname(path)) + "/" + os.path.basename(path))
    listing = "\0".join(sorted(path.lstrip("/") for path in files)).encode()
    packed = subprocess.Popen(["tar", "-C", "/", "--null", "-T", "-", "-cf", "-"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    unpack = subprocess.Popen(["tar", "-C", root, "-xf", "-"], stdin=packed.stdout)
    packed.stdout.close()
    packed.stdin.write(listing)
    packed.stdin.close()
    if packed.wait() != 0 or unpack.wait() != 0:
        raise RuntimeError("tar")
    for name in ("passwd", "group"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    if not (root / "bin/sh").exists():
        (root / "bin/sh").symlink_to("dash")
    for name in ("awk",):  # alternatives, which no package lists
        real = os.path.realpath(f"/usr/bin/{name}")
        if os.path.exists(real) and not (root / f"usr/bin/{name}").exists():
            (root / f"usr/bin/{name}").symlink_to(real)
    status = pathlib.Path("/var/lib/dpkg/status").read_text(encoding="utf-8", errors="replace")
    stanzas = [one for one in status.split("\n\n")
               if one.strip() and one.split("\n", 1)[0].removeprefix("Package: ") in packages]
    (root / "var/lib/dpkg/status").write_text("\n\n".join(stanzas) + "\n\n", encoding="utf-8")
    (root / "var/lib/dpkg/available").write_text("", encoding="utf-8")
    info = root / "var/lib/dpkg/info"
    for path in pathlib.Path("/var/lib/dpkg/info").iterdir():
        if path.name == "format" or path.name.rsplit(".", 1)[0].split(":")[0] in packages:
            shutil.copy(path, info / path.name)
    (root / "var/lib/dpkg/triggers/ldconfig").write_text("libc-bin\n", encoding="utf-8")
    subprocess.run(["ldconfig", "-r", root], check=True)


def tree(root):
    """Every file and link below the folders that a package may touch."""
    found = {}
    for top in ("etc", "usr", "var/lib/partita", "run"):
        for path in sorted((root / top).rglob("*")):
            name = str(path.relative_to(root))
            if name == "etc/ld.so.cache" or re.match(r"etc/(g(roup|shadow)|\.pwd\.lock)", name):
                continue
            if path.is_symlink() or path.is_file():
                found[name] = os.readlink(path) if path.is_symlink() else path.stat().st_size
    return found


class DebTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="partita-deb-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.version = (BUILD / "version.txt").read_text("utf-8").strip()
        cls.debs = [pathlib.Path(name) for name in run(
            sys.executable, SOURCE / "tools/make_deb.py", BUILD, "--output", cls.folder, "--fast",
            "--version", cls.version, "--version", cls.version + ".1").split()]
        cls.unpacked = cls.folder / "unpacked"
        run("dpkg-deb", "-x", cls.debs[0], cls.unpacked)
        cls.depends = run("dpkg-deb", "-f", cls.debs[0], "Depends").strip()
        installed = Installed()
        wanted = [one[0] for one in installed.names(cls.depends)]
        cls.root = cls.folder / "root"
        cls.root.mkdir()
        clean_root(cls.root, installed.closure([*wanted, *installed.essential]))

    def inside(self, script, status=0, **options):
        """A script of the shell in the root, in a namespace of processes and mounts of its own."""
        enter = (f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev && "
                 f"exec chroot {self.root} /bin/sh -ec \"$0\"")
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C",
                       "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", enter, script],
                              capture_output=True, text=True, env=environment, timeout=120,
                              check=False, **options)
        self.assertEqual(done.returncode, status, f"{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def install(self, deb):
        shutil.copy(deb, self.root / "tmp/partita.deb")
        return self.inside("dpkg -i /tmp/partita.deb && rm /tmp/partita.deb")

    def test_life_of_a_package(self):
        before = tree(self.root)
        self.install(self.debs[0])
        self.assertRegex((self.root / "etc/group").read_text("utf-8"), r"(?m)^partita:x:\d+:$")
        self.works()
        self.boots()
        self.runs_services()
        # An upgrade keeps settings that were changed, and replaces what was not.
        settings = self.root / "etc/partita/partita.yaml"
        settings.write_text("all: {driver: sim}\n", encoding="utf-8")
        self.install(self.debs[1])
        self.assertEqual(settings.read_text("utf-8"), "all: {driver: sim}\n")
        said = self.inside("dpkg-query -W -f '${Version} ${Status}' partita")
        self.assertEqual(said, f"{self.version}.1 install ok installed")
        self.inside("partita gpus >/dev/null")
        # Removal leaves settings and state, a purge nothing.
        self.inside("dpkg -r partita")
        left = set(tree(self.root)) - set(before)
        self.assertEqual({name for name in left if not name.startswith("var/lib/partita")},
                         {"etc/partita/agent.yaml", "etc/partita/partita.yaml"})
        self.inside("dpkg --purge partita")
        self.assertEqual(tree(self.root), before)
        self.assertNotIn("partita", (self.root / "etc/group").read_text("utf-8"))
        for name in ("etc/partita", "var/lib/partita", "usr/lib/partita", "usr/share/partita"):
            self.assertFalse((self.root / name).exists(), name)

    def works(self):
        self.assertEqual(self.inside("partita --version").strip(), f"partita {self.version}")
        said = self.inside(
            "cd /tmp; partita init mine; partita plan --services mine/services.yaml --profiles "
            "mine/profiles.csv --gpu A100-80GB --format json -o plan.json; partita verify "
            "plan.json --services mine/services.yaml --profiles mine/profiles.csv")
        self.assertIn("no violation", said)
        self.inside("partita remote run -- /bin/true")
        said = self.inside("partita mask --gpu MI50 --units 19 --policy packed")
        self.assertIn("19 CUs", said)

    def boots(self):
        """MIG instances vanish at a reboot; what partita-apply runs brings them back."""
        unit = (self.root / "usr/lib/systemd/system/partita-apply.service").read_text("utf-8")
        start = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
        (self.root / "tmp/node.yaml").write_text(NODE, encoding="utf-8")
        said = self.inside(f"""cd /tmp
export PARTITA_SIM=/tmp/node.yaml PARTITA_DRIVER=sim
partita apply plan.json >apply.log 2>&1
partita status --format json >before.json
rm node.state
partita status | head -1
{start} >again.log 2>&1
partita status | head -1
partita status --format json >after.json""").splitlines()
        self.assertIn("0 instances", said[0])
        self.assertNotIn("0 instances", said[-1])
        layouts = [json.loads((self.root / "tmp" / name).read_text("utf-8"))
                   for name in ("before.json", "after.json")]
        self.assertEqual(*([[[(one["profile"], one["start"], one.get("service"))
                              for one in gpu["instances"]] for gpu in node["gpus"]]
                            for node in layouts]))

    def runs_services(self):
        """What the units of workers, gateway and agent run starts and ends when it is asked to."""
        (self.root / "etc/partita/partita.yaml").write_text(SETTINGS, encoding="utf-8")
        self.inside("""cd /tmp
partita workers >workers.log 2>&1 & pid=$!
for i in $(seq 200); do
  kill -0 $pid
  [ -s /var/lib/partita/node-*/workers.json ] && break
  sleep 0.1
done
[ -s /var/lib/partita/node-*/workers.json ]
kill $pid; wait $pid
partita gateway >gateway.log 2>&1 & pid=$!
for i in $(seq 200); do kill -0 $pid; grep -q listening gateway.log && break; sleep 0.1; done
grep -q listening gateway.log
kill $pid; wait $pid
: >/etc/partita/partita.yaml""")
        if "agent" not in self.inside("partita --help").split():
            return  # a build without the agent
        self.inside("""export PARTITA_DRIVER=sim PARTITA_SIM=/tmp/node.yaml
partita agent --settings /etc/partita/agent.yaml >/tmp/agent.log 2>&1 & pid=$!
for i in $(seq 100); do [ -S /run/partita/api.sock ] && break; kill -0 $pid; sleep 0.1; done
[ -S /run/partita/api.sock ]; kill $pid; wait $pid""")

    def test_units_are_clean(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        # A root of its own: the program where the units say, and the targets that they name.
        root = self.folder / "units"
        shutil.copytree(self.unpacked, root, symlinks=True)
        shutil.copytree("/usr/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True,
                        dirs_exist_ok=True)
        (root / "lib").symlink_to("usr/lib")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={root}",
                               *(f"{unit}.service" for unit in UNITS)],
                              capture_output=True, check=False, text=True)
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "partita" in line]
        self.assertEqual((ours, done.returncode), ([], 0), done.stderr)

    def test_units_are_in_a_sandbox(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        units = self.unpacked / "usr/lib/systemd/system"
        for unit in ("partita-agent", "partita-gateway", "partita-apply", "partita-slurm"):
            said = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                                   "--threshold=30", units / f"{unit}.service"], check=False,
                                  capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stdout[-200:] + said.stderr)

    def test_lintian_finds_no_error(self):
        if shutil.which("lintian") is None:
            self.skipTest("no lintian")
        said = subprocess.run(["lintian", "--fail-on", "error", self.debs[0]], check=False,
                              capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_control(self):
        fields = run("dpkg-deb", "-f", self.debs[0])
        self.assertIn(f"\nVersion: {self.version}\n", "\n" + fields)
        self.assertRegex(self.depends, r"libc6 \(>= ")
        self.assertIn("libssl3", self.depends)
        listing = run("dpkg-deb", "-c", self.debs[0])
        self.assertNotRegex(listing, r" (?!root/root)\S+/\S+ +\d+ 2")
        self.assertNotIn("libnvidia-ml", listing)
        for name in ("usr/bin/partita", "usr/lib/partita/partita-lab",
                     "usr/lib/partita/partita-remote", "usr/lib/partita/remote/libcudart.so.12",
                     "usr/lib/partita/remote/libcuda.so.1", "usr/lib/libpartita.so.0",
                     "usr/lib/partita/libpartita_lanes_hip.so",
                     "usr/lib/python3/dist-packages/partita/py.typed",
                     "usr/share/partita/alerts.yaml", "usr/share/doc/partita/runbook.md",
                     "usr/lib/sysusers.d/partita.conf", "usr/share/partita/grafana.json",
                     "usr/share/partita/grafana-agent.json",
                     "usr/share/man/man1/partita-plan.1.gz",
                     "usr/share/man/man5/partita-formats.5.gz",
                     "usr/share/bash-completion/completions/partita",
                     "usr/share/doc/partita/changelog.gz", "usr/share/doc/partita/copyright"):
            self.assertIn(f" ./{name}", listing)

    def test_a_page_per_command_with_its_formats(self):
        pages = self.unpacked / "usr/share/man"
        names = {path.name for path in (pages / "man1").iterdir()}
        self.assertGreater(len(names), 70)
        if shutil.which("man") is None:
            self.skipTest("no man")
        environment = dict(os.environ, MANWIDTH="100", LC_ALL="C.UTF-8", MANROFFSEQ="")
        said = {}
        for page in [*sorted((pages / "man1").iterdir())[::9], pages / "man1/partita-plan.1.gz",
                     pages / "man1/partita.1.gz", pages / "man5/partita-formats.5.gz"]:
            done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True,
                                  check=False, env=environment)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            said[page.name] = re.sub(r".\x08", "", done.stdout)
        plan = said["partita-plan.1.gz"]
        self.assertRegex(plan, r"FORMATS(.|\n)*\n +services\s+YAML or JSON; reads it")
        self.assertRegex(plan, r"FORMATS(.|\n)*\n +plan\s+JSON; writes it")
        self.assertNotRegex(plan, r"\n +energy model\s")
        self.assertIn("rate_rps", said["partita-formats.5.gz"])
        self.assertNotRegex(said["partita-formats.5.gz"], r"```|\]\(#")

    def test_what_it_is_made_of(self):
        sbom = json.loads((self.unpacked / "usr/share/doc/partita/sbom.spdx.json").read_text())
        self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
        versions = {one["name"]: one["versionInfo"] for one in sbom["packages"]}
        related = {}
        ids = {one["SPDXID"]: one["name"] for one in sbom["packages"]}
        for one in sbom["relationships"]:
            other = ids.get(one["relatedSpdxElement"])
            kind = one["relationshipType"]
            related.setdefault(kind, set()).add(other if kind != "BUILD_DEPENDENCY_OF"
                                                else ids[one["spdxElementId"]])
        # Another way to the same: what the dynamic linker finds, by the package that dpkg says.
        own = {path.name for path in self.unpacked.rglob("*.so*")}
        found = set()
        for path in (self.unpacked / "usr/bin/partita", self.unpacked / "usr/lib/libpartita.so.0"):
            listed = run("objdump", "-p", path)
            for soname in re.findall(r"NEEDED +(\S+)", listed):
                if soname not in own:
                    where = run("sh", "-c", f"ldconfig -p | grep -F '\t{soname} (' | head -1")
                    real = os.path.realpath(where.split("=> ")[1].strip())
                    for name in (real, real.removeprefix("/usr")):
                        owner = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True,
                                               check=False)
                        if owner.returncode == 0:
                            found.add(owner.stdout.split(":")[0])
                            break
        self.assertGreater(len(found), 8)
        self.assertLessEqual(found, related["DYNAMIC_LINK"])
        for name in ("libeigen3-dev", "nlohmann-json3-dev", "libcli11-dev", "libexpected-dev",
                     "libzstd-dev"):
            self.assertIn(name, related["STATIC_LINK"] | related["BUILD_DEPENDENCY_OF"])
        self.assertLessEqual({"libeigen3-dev", "libcli11-dev"}, related["STATIC_LINK"])
        self.assertFalse({"libgtest-dev", "libgmock-dev", "librapidcheck-dev"} & set(versions))
        for name, version in versions.items():
            if name != "partita":
                self.assertIn(version, run("dpkg-query", "-W", "-f", "${Version}\n", name))


if __name__ == "__main__":
    unittest.main()
