"""A Slurm cluster for a test: munged, slurmctld and a slurmd for each of some node names, all on
this machine in a folder and on ports of their own, with a simulated GPU behind each name and the
files of `partita slurm install`. Ends everything that it started.

Jobs write records of their runs, which `judged` looks through: what each ran on, as the simulated
machine itself said then, and from when to when."""

import ctypes
import datetime
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "munge", "slurmctld", "slurmd", "squeue", "sinfo", "sbatch", "scontrol",
            "scancel")
HOST = socket.gethostname().split(".")[0]
PLUGIN = "job_submit_lua.so"
SIZES = {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}

CONF = """ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.sock
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmctldDebug=verbose
StateSaveLocation={state}
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0
SelectTypeParameters=CR_Core
DefMemPerCPU=10
PriorityType=priority/basic
SlurmctldTimeout=30
SlurmdTimeout=20
MinJobAge={min_job_age}
PlugStackConfig={folder}/etc/plugstack.conf
{lines}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
{more}
"""

# What a job does: says what it has, waits so many milliseconds and for a file, where it is told of
# one, and says from time to time that it still runs.
JOB = """#!/bin/bash
record={folder}/records/$SLURM_JOB_ID.$(date +%s%N)
echo "begin $(date +%s.%N) $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" > $record
PARTITA_SIM={folder}/nodes/$SLURMD_NODENAME/machine.yaml {partita} status --driver sim \\
  --format json > $record.json
end=$(( $(date +%s%N) + $1 * 1000000 ))
while now=$(date +%s%N); [ $now -lt $end ]; do
  echo "tick $now" >> $record
  left=$(( (end - now) / 1000000 )); [ $left -gt 500 ] && left=500
  sleep $(printf '%d.%03d' $((left / 1000)) $((left % 1000)))
done
while [ -n "$2" ] && [ ! -e "$2" ]; do
  echo "tick $(date +%s%N)" >> $record
  sleep 0.1
done
echo "end $(date +%s%N)" >> $record
"""


def why_not():
    """Why there can be no cluster here, or nothing."""
    if os.geteuid() != 0:
        return "Slurm's daemons of this test need root"
    for program in PROGRAMS:
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            return f"{program} is not installed (packages_tests.txt)"
    if not glob.glob(f"/usr/lib/*/slurm*/{PLUGIN}"):
        return f"this Slurm has no {PLUGIN}"
    return ""


def free_ports(count):
    """The first of so many ports in a row that nobody listens on, and what keeps them this test's
    as long as it is open: daemons take them later, and another test may look at the same time."""
    for first in range(20000, 32000, count):
        mine = socket.socket(socket.AF_UNIX)
        held = []
        try:
            mine.bind(f"\0partita-slurm-test-{first}")
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            return first, mine
        except OSError:
            mine.close()
        finally:
            for one in held:
                one.close()
    raise SystemExit("no free ports")


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def end_with_parent():
    """Called in a daemon to be: it ends when this test is killed."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_quietly(number):
    """kill -9; whether it was still there."""
    try:
        os.kill(number, signal.SIGKILL)
    except OSError:
        return False
    return True


class Cluster:
    def __init__(self, partita, nodes=8, speed="0", more="", static=None, min_job_age=300):
        """`static`: profiles of instances that stand for good, a list for each node; Slurm has them
        as GPUs of its own then, and Partita places nothing."""
        self.partita, self.count, self.static = partita, nodes, static
        self.folder = tempfile.mkdtemp(prefix="partita-slurm-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        for name in ("etc", "log", "spool", "munge", "nodes", "records"):
            os.mkdir(self.path(name))
        # Of a good disk: one that others keep busy lets slurmctld's state be many seconds late.
        self.state = tempfile.mkdtemp(prefix="partita-slurm-", dir=("/dev/shm" if os.path.isdir(
            "/dev/shm") else self.folder))
        os.chmod(self.path("records"), 0o777)
        self.nodes = [f"g{i}" for i in range(nodes)]
        self.running = {}
        self.environment = dict(os.environ, SLURM_CONF=self.path("etc/slurm.conf"),
                                PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        first, self.mine = free_ports(nodes + 1)
        self.write("job.sh", JOB.format(folder=self.folder, partita=partita))
        for node in self.nodes:
            os.makedirs(self.path(f"nodes/{node}"))
            os.mkdir(self.path(f"spool/{node}"))
            self.write(f"nodes/{node}/machine.yaml", "gpus: [{model: A100-80GB, count: 1, "
                       f"mig: true}}]\nstate: machine.state\nspeed: {speed}\n")
        lines, gres = self.install() if static is None else self.install_static()
        self.spank = os.path.exists(self.path("etc/plugstack.conf.partita"))
        # Where the kernel has the cgroups for it, devices are kept from jobs.
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            self.confines = self.spank and " cgroup2 " in mounts.read()
        plug = self.read("etc/plugstack.conf.partita") if self.spank else ""
        self.write("etc/plugstack.conf", plug.replace(
            " jobs=", f" root={self.folder} {'' if self.confines else 'confine=no '}jobs="))
        self.write("etc/slurm.conf", CONF.format(
            host=HOST, folder=self.folder, port=first, state=self.state,
            nodes="\n".join(f"NodeName={node} NodeHostname={HOST} NodeAddr=127.0.0.1 "
                            f"Port={first + 1 + i} CPUs=16 RealMemory=8000 Gres={gres[i]} "
                            "State=UNKNOWN" for i, node in enumerate(self.nodes)),
            lines=lines, more=more, min_job_age=min_job_age))

    def install(self):
        self.check(self.partita, "slurm", "install", "--site", self.path("etc/slurm.yaml"),
                   "--nodes", f"g[0-{self.count - 1}]", "--gpu", "A100-80GB", "--driver", "sim",
                   "--machine", self.path("nodes/%n/machine.yaml"),
                   "--jobs", self.path("nodes/%n/jobs"), "--ended", self.path("ended"),
                   "--files", self.path("etc"))
        # Slurm wants device nodes of GPUs; there is one for all of these.
        os.mkdir(self.path("dev"))
        os.mknod(self.path("dev/nvidia0"), 0o666 | stat.S_IFCHR, os.makedev(195, 0))
        self.write("etc/gres.conf", self.read("etc/gres.conf.partita").replace(
            "/dev/nvidia", self.path("dev/nvidia")))
        lines = self.read("etc/slurm.conf.partita")
        gres = re.search(r"Gres=(\S+)", lines)[1]
        return lines, [gres] * self.count

    def install_static(self):
        os.mkdir(self.path("dev"))
        gres, text = [], "AutoDetect=off\n"
        for node, profiles in zip(self.nodes, self.static):
            shapes = sorted(set(profiles))
            for shape in shapes:
                files = []
                for _ in range(profiles.count(shape)):
                    files.append(self.path(f"dev/{node}i{len(os.listdir(self.path('dev')))}"))
                    os.mknod(files[-1], 0o666 | stat.S_IFCHR, os.makedev(195, 0))
                text += f"NodeName={node} Name=gpu Type={shape} File={','.join(files)}\n"
            gres.append(",".join(f"gpu:{shape}:{profiles.count(shape)}" for shape in shapes))
        self.write("etc/gres.conf", text)
        return "GresTypes=gpu\nSelectType=select/cons_tres\nJobCompType=jobcomp/none", gres

    # ---- files and commands

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def run(self, *words, **more):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True,
                              errors="replace", check=False, timeout=120, **more)

    def check(self, *words):
        done = self.run(*words)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n"
                                 f"{done.stderr}")
        return done.stdout

    # ---- daemons

    def start(self, name, *words):
        with open(self.path(f"log/{name}.out"), "a", encoding="utf-8") as log:
            self.running[name] = subprocess.Popen(words, env=self.environment, stdout=log,
                                                  stderr=log, stdin=subprocess.DEVNULL,
                                                  start_new_session=True,
                                                  preexec_fn=end_with_parent)

    def kill(self, name):
        """kill -9 of exactly one daemon."""
        process = self.running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def start_munge(self):
        with open(self.path("munge/munge.key"), "wb") as key:
            key.write(os.urandom(1024))
        os.chmod(self.path("munge/munge.key"), 0o600)
        self.start("munged", "munged", "--force", "--foreground",
                   "--socket", self.path("munge/munge.sock"),
                   "--key-file", self.path("munge/munge.key"),
                   "--pid-file", self.path("munge/munged.pid"),
                   "--log-file", self.path("log/munged.log"),
                   "--seed-file", self.path("munge/munged.seed"))
        self.until(lambda: self.run("munge", "-n", "-S",
                                    self.path("munge/munge.sock")).returncode == 0, "munged")

    def start_controller(self, clean=False):
        self.start("slurmctld", "slurmctld", "-D", *(["-c"] if clean else []))

    def start_node(self, node):
        self.start(node, "slurmd", "-D", "-N", node)

    def start_placer(self, *more):
        """Until it has its lock, which a command of the one that was killed a moment ago may hold
        still: started again where it ends, as its unit does."""
        def holds_lock():
            if not self.started("placer"):
                self.start("placer", self.partita, "slurm", "serve", "--site",
                           self.path("etc/slurm.yaml"), "--interval", "200ms", *more)
            with open("/proc/locks", encoding="utf-8") as locks:
                return f" {self.running['placer'].pid} " in locks.read()

        self.until(holds_lock, "the placer's lock")

    def started(self, name):
        """Whether a daemon still runs."""
        return name in self.running and self.running[name].poll() is None

    def start_all(self):
        self.start_munge()
        self.start_controller(clean=True)
        self.until(lambda: not self.started("slurmctld") or
                   self.run("scontrol", "ping").returncode == 0, "slurmctld")
        if not self.started("slurmctld"):
            raise AssertionError(self.told())
        for node in self.nodes:
            self.start_node(node)
        self.until(lambda: self.node_states() == {node: "idle" for node in self.nodes}, "nodes")

    def stop(self):
        self.kill("placer")
        try:
            self.run("scancel", "--user=root", "--full")
        except subprocess.TimeoutExpired:
            pass
        for name in list(self.running):
            if name != "munged":
                self.running[name].terminate()
        for name in list(self.running):
            try:
                if name != "munged":
                    self.running[name].wait(5)
            except subprocess.TimeoutExpired:
                pass
            self.kill(name)
        self.end_strays()
        self.mine.close()
        if os.environ.get("PARTITA_KEEP"):
            print("kept:", self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.rmtree(self.state, ignore_errors=True)

    def processes(self):
        """Of jobs and daemons: those that have this cluster's configuration, by their number."""
        mark = f"SLURM_CONF={self.path('etc/slurm.conf')}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        yield int(entry)
            except OSError:
                continue

    def end_strays(self):
        for number in self.processes():
            kill_quietly(number)

    def kill_process(self, words):
        """kill -9 of one process of the nodes' scripts that is run with these first words."""
        site = self.path("etc/slurm.yaml").encode()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    said = file.read().split(b"\0")
            except OSError:
                continue
            if said[1:1 + len(words)] == [word.encode() for word in words] and site in said:
                return kill_quietly(int(entry))
        return False

    # ---- what it says

    def until(self, holds, what, seconds=240):
        end = time.monotonic() + seconds
        while not (found := holds()):
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {seconds} s\n{self.told()}")
            time.sleep(0.1)
        return found

    def told(self):
        """The ends of all logs, for a failure."""
        text = self.run("squeue", "-o", "%i %T %r %N %k").stdout + \
            self.run("sinfo", "-N", "-o", "%N %t %E").stdout
        for file in sorted(os.listdir(self.path("log"))):
            lines = self.read(f"log/{file}").splitlines()[-15:]
            text += f"--- {file}\n" + "\n".join(lines) + "\n"
        return text

    def node_states(self):
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %t").stdout.split("\n")
        return {line.split()[0]: line.split()[1] for line in lines if line}

    def jobs(self):
        """{id: (state, reason, node)} of jobs that have not ended."""
        rows = [line.split("|") for line in
                self.run("squeue", "-h", "-r", "-o", "%i|%T|%r|%N").stdout.split("\n") if line]
        return {row[0]: tuple(row[1:]) for row in rows}

    def submit(self, *words, milliseconds=500, gate=None):
        """With a gate, the job runs until that file is written."""
        return self.check("sbatch", "--parsable", "-n1", "-o", "/dev/null", *words,
                          self.path("job.sh"), str(milliseconds),
                          *([self.path(gate)] if gate else [])).strip()

    def instances(self, node):
        """Of a node, as its simulated machine has them now: (gpu, profile, start)."""
        said = self.check(self.partita, "status", "--driver", "sim", "--machine",
                          self.path(f"nodes/{node}/machine.yaml"), "--format", "json")
        return [(gpu["index"], one["profile"], one["start"])
                for gpu in json.loads(said)["gpus"] for one in gpu["instances"]]

    # ---- the judge

    def runs(self):
        """{job: [run]}, a run being (begin, end, whole, node, [(gpu, profile, start)]); `whole`: it
        came to its end."""
        runs = {}
        for file in os.listdir(self.path("records")):
            if file.endswith(".json"):
                continue
            lines = [line.split() for line in self.read(f"records/{file}").splitlines()]
            if not lines:
                continue
            begin, node = float(lines[0][1]), lines[0][2]
            devices = lines[0][3].split(",") if len(lines[0]) > 3 else []
            whole = lines[-1][0] == "end"
            end = begin if len(lines) == 1 else int(lines[-1][1]) / 1e9
            runs.setdefault(file.split(".")[0], []).append(
                (begin, end, whole, node, self.held(file, devices)))
        return runs

    def ends_heard(self):
        """{job: [when]}: slurmctld was told that a run of it had come to its end."""
        heard = {}
        line = r"\[(\S+)\] _job_complete: JobId=(?:\S*\()?(\d+)\)? WEXITSTATUS 0"
        for day, job in re.findall(line, self.read("log/slurmctld.log")):
            when = datetime.datetime.fromisoformat(day).timestamp()
            heard.setdefault(job, []).append(when)
        return heard

    def beginnings(self):
        """{job: [(when, what)]}: slurmctld "began" a run of it, or it was "put back"."""
        told = {}
        line = (r"\[(\S+)\] (?:sched: |sched/backfill: )?(?:(Allocate|_start_job: Started)|"
                r"(?:requeue job|Requeuing)) JobId=(?:\S*\()?(\d+)")
        for day, began, job in re.findall(line, self.read("log/slurmctld.log")):
            when = datetime.datetime.fromisoformat(day).timestamp()
            told.setdefault(job, []).append((when, "began" if began else "put back"))
        return told

    def held(self, file, devices):
        try:
            state = json.loads(self.read(f"records/{file}.json"))
        except (OSError, ValueError):
            return None
        found = {one["uuid"]: (gpu["index"], one["profile"], one["start"])
                 for gpu in state["gpus"] for one in gpu["instances"]}
        return [found.get(device) for device in devices]

    def judged(self, wanted):
        """Faults of all runs. `wanted`: {job: [shape]}; each is to have run to its end once, on
        instances of its shapes, and no memory slice was used by two at a time."""
        runs, faults = self.runs(), []
        for job, shapes in wanted.items():
            whole = [run for run in runs.get(job, []) if run[2]]
            if len(whole) != 1:
                faults.append(f"job {job} ({shapes}) ran to its end {len(whole)} times")
            for run in whole:
                got = sorted(one[1] if one else "nothing" for one in run[4] or [])
                if got != sorted(shapes):
                    faults.append(f"job {job} has {got} for {sorted(shapes)} on {run[3]}")
        used = [(run[3], one[0], slot, run[0], run[1], job)
                for job, all_runs in runs.items() for run in all_runs for one in run[4] or []
                if one for slot in range(one[2], one[2] + SIZES[one[1]])]
        used.sort()
        for before, after in zip(used, used[1:]):
            if before[:3] == after[:3] and after[3] < before[4] and before[5] != after[5]:
                faults.append(f"slice {before[2]} of {before[0]} was used by {before[5]} and "
                              f"{after[5]}")
        return faults
