"""Slurm with MIG instances that are made for each job: jobs of mixed shapes on eight node names of
this machine, with simulated GPUs behind them; whoever is killed, whatever is cancelled."""

import glob
import os
import random
import re
import shutil
import signal
import stat
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_campaign  # noqa: E402
import slurm_cluster  # noqa: E402

PARTITA = os.environ.get("PARTITA", "")
MIX = ["1g.10gb"] * 4 + ["1g.20gb"] + ["2g.20gb"] * 3 + ["3g.40gb"] * 2 + ["4g.40gb", "7g.80gb"]
SEED = int(os.environ.get("PARTITA_SLURM_SEED", "1"))


class Host:
    """Counters of CPUs and memory, and cgroups of jobs, that a thread lets grow: 200 W, and each
    job works for half of the time."""

    WATTS = 200

    def __init__(self, cluster):
        self.cluster, self.ending, self.begun = cluster, threading.Event(), time.monotonic()
        self.thread = threading.Thread(target=self.run)
        for folder in (self.path("rapl/intel-rapl:0"), *map(self.scope, range(1, 1000))):
            os.makedirs(folder, exist_ok=True)
        for name, text in (("name", "package-0"), ("max_energy_range_uj", "262143328850")):
            with open(self.path(f"rapl/intel-rapl:0/{name}"), "w") as out:
                out.write(text + "\n")
        self.tell()
        self.thread.start()

    def path(self, name):
        return self.cluster.path(f"host/{name}")

    def scope(self, job):
        return self.path(f"cg/system.slice/slurmstepd.scope/job_{job}")

    def tell(self):
        seconds = time.monotonic() - self.begun
        text = {self.path("rapl/intel-rapl:0/energy_uj"): f"{seconds * self.WATTS * 1e6:.0f}\n"}
        for file in glob.glob(self.cluster.path("nodes/*/jobs/*.env")):
            job = os.path.basename(file)[:-4]
            text[self.scope(job) + "/cpu.stat"] = f"usage_usec {seconds / 2 * 1e6:.0f}\n"
        for path, value in text.items():
            with open(path + "~", "w") as out:
                out.write(value)
            os.rename(path + "~", path)

    def run(self):
        while not self.ending.wait(0.1):
            self.tell()

    def end(self):
        self.ending.set()
        self.thread.join()


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster(PARTITA)
        try:
            cls.cluster.start_all()
        except BaseException:
            cls.cluster.stop()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def setUp(self):
        self.cluster.start_placer()
        self.addCleanup(self.cluster.kill, "placer")

    def submit(self, shapes, milliseconds=500, words=(), gate=None):
        return self.cluster.submit(f"--gres={shapes}", *words, milliseconds=milliseconds, gate=gate)

    def refused(self, *words):
        done = self.cluster.run("sbatch", "-n1", "-o", "/dev/null", *words, "--wrap", "true")
        self.assertNotEqual(done.returncode, 0, f"{words}: {done.stdout}")
        return done.stderr

    def all_gone(self):
        """All jobs have ended, all nodes are as before, and nothing is left on them."""
        cluster = self.cluster
        cluster.until(lambda: not cluster.jobs(), "all jobs end")
        cluster.until(lambda: cluster.node_states() == dict.fromkeys(cluster.nodes, "idle"),
                      "nodes are idle")
        for node in cluster.nodes:
            self.assertEqual(cluster.instances(node), [], node)

    def runs(self, job):
        return self.cluster.until(lambda: job in self.cluster.runs(), f"{job} runs")

    def test_jobs_of_mixed_shapes(self):
        rng = random.Random(SEED)
        wanted = {}
        for _ in range(30):
            shape = rng.choice(MIX)
            wanted[self.submit(f"gpu:{shape}:1", rng.randrange(300, 1500))] = [shape]
        self.all_gone()
        self.assertEqual(self.cluster.judged(wanted), [])

    def test_joules_of_a_job_are_in_its_comment(self):
        cluster = self.cluster
        if not cluster.spank:
            self.skipTest("built without Slurm's headers (libslurm-dev)")
        host = Host(cluster)
        self.addCleanup(host.end)
        for node in cluster.nodes:
            name = f"meter {node}"
            cluster.start(name, PARTITA, "slurm", "meter", "--site", cluster.path("etc/slurm.yaml"),
                          "--node-name", node, "--interval", "200ms",
                          "--powercap", host.path("rapl"), "--cgroups", host.path("cg"))
            self.addCleanup(cluster.kill, name)
            reading = cluster.path(f"nodes/{node}/jobs/joules")
            cluster.until(lambda reading=reading: os.path.exists(reading), "a reading")
        batch = self.submit("gpu:3g.40gb:1", 3000)
        # Without a script: each step tells.
        for words in ([], ["salloc", "-n1", "--gres=gpu:3g.40gb:1"]):
            alone = [] if words else ["--mig=3g.40gb"]
            done = cluster.run(*words, "srun", "-n1", *alone, "sh", "-c",
                               "echo job $SLURM_JOB_ID; sleep 3")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_joules(re.search(r"^job (\d+)$", done.stdout, re.M)[1], 3)
        self.all_gone()
        (begin, end, *_), = cluster.runs()[batch]
        self.assert_joules(batch, end - begin)

    def assert_joules(self, job, seconds):
        shown = self.cluster.run("scontrol", "show", "job", job).stdout
        found = re.search(r"AdminComment=partita joules=(\d+) host_joules=(\d+) "
                          r"host_idle_joules=(\d+)", shown)
        self.assertTrue(found, shown)
        # An A100 takes 40 to 400 W, of which an instance of three slices bears a part.
        self.assertGreater(int(found[1]), 10)
        self.assertLess(int(found[1]), 400 * (seconds + 3))
        self.assertGreater(int(found[2]), 0)
        self.assertLess(int(found[2]), Host.WATTS * (seconds + 3))
        self.assertLessEqual(int(found[3]), int(found[2]))

    def test_what_sbatch_refuses(self):
        for words, sentence in (
                (["--gres=gpu:3g.41gb:1"], "no GPU here makes a MIG instance 3g.41gb"),
                (["--gres=gpu:3g.40gb:3"], "one has room for 2"),
                (["--gres=gpu:4g.40gb:1,gpu:3g.40gb:1,gpu:1g.10gb:1"], "8 slices"),
                (["--gres=slice:3"], "slices are counted from shapes"),
                (["--gres=gpu:a100_80gb:1,gpu:1g.10gb:1"], "not for both"),
                (["--gres=gpu:1g.10gb:1", "-n2", "-N2"], "ask for -N 1"),
                (["--gpus=1g.10gb:1"], "not with --gpus"),
                (["--gres=gpu:1g.10gb:1", "--comment=partita shapes=7g.80gb"],
                 "does not begin with 'partita'"),
                (["--gres=gpu:v100:1"], "configuration is not available")):  # not ours: Slurm's
            self.assertIn(sentence, self.refused(*words), words)
        if self.cluster.spank:
            self.assertIn("srun --mig=3g.40gb works",
                          self.cluster.run("srun", "--gres=gpu:3g.40gb:1", "true").stderr)
        self.assertEqual(self.cluster.jobs(), {})

    def test_several_instances_arrays_whole_gpus_and_exclusive_nodes(self):
        two = self.submit("gpu:3g.40gb:2")
        mixed = self.submit("gpu:1g.10gb:2,gpu:2g.20gb:1", words=["--comment=my words"])
        whole = self.submit("gpu:1")
        alone = self.submit("gpu:1g.10gb:1", words=["--exclusive"], gate="alone")
        array = self.submit("gpu:1g.10gb:1", words=["--array=0-5%2"])
        later = self.submit("gpu:2g.20gb:1", words=[f"--dependency=afterok:{two}"])
        self.runs(alone)
        comment = self.cluster.run("squeue", "-h", "-j", alone, "-o", "%k").stdout
        self.assertRegex(comment, r"^partita shapes=1g.10gb at=g\d:0.\d")
        node = self.cluster.jobs()[alone][2]
        self.assertEqual([row for row in self.cluster.jobs().values() if row[2] == node],
                         [self.cluster.jobs()[alone]])
        self.cluster.write("alone", "")
        self.all_gone()
        wanted = {two: ["3g.40gb"] * 2, mixed: ["1g.10gb", "1g.10gb", "2g.20gb"],
                  whole: ["7g.80gb"], alone: ["1g.10gb"], later: ["2g.20gb"]}
        self.assertEqual(self.cluster.judged(wanted), [])
        runs = self.cluster.runs()
        of_array = [run for job, all_runs in runs.items() for run in all_runs
                    if array in self.array_of(job)]
        self.assertEqual(len(of_array), 6)
        for one in of_array:
            beside = [run for run in of_array if run[0] <= one[0] < run[1]]
            self.assertLessEqual(len(beside), 2, "more at once than %2 allows")
        self.assertGreaterEqual(runs[later][0][0], runs[two][0][1])

    def array_of(self, job):
        line = self.cluster.run("scontrol", "show", "job", "-o", job).stdout
        return [word.split("=")[1] for word in line.split() if word.startswith("ArrayJobId=")]

    def test_held_reserved_and_excluded(self):
        held = self.submit("gpu:1g.10gb:1", words=["-H"])
        there = self.submit("gpu:1g.10gb:1", words=["-w", "g[2-3]"])
        elsewhere = self.submit("gpu:7g.80gb:1", words=["--exclude=g[0-6]"])
        self.cluster.check("scontrol", "create", "reservation", "ReservationName=mine",
                           "Nodes=g0", "StartTime=now", "Duration=10", "Users=root")
        self.addCleanup(self.cluster.run, "scontrol", "delete", "ReservationName=mine")
        reserved = self.submit("gpu:2g.20gb:1", words=["--reservation=mine"])
        for job in (there, elsewhere, reserved):
            self.runs(job)
        full = [self.submit("gpu:7g.80gb:1", 1000) for _ in range(8)]
        self.cluster.until(lambda: set(self.cluster.jobs()) == {held}, "others end")
        self.assertNotIn(held, self.cluster.runs())
        self.cluster.check("scontrol", "delete", "ReservationName=mine")
        self.cluster.check("scontrol", "release", held)
        self.all_gone()
        runs = self.cluster.runs()
        self.assertEqual(runs[reserved][0][3], "g0")
        self.assertEqual(runs[elsewhere][0][3], "g7")
        self.assertIn(runs[there][0][3], ("g2", "g3"))
        self.assertNotIn("g0", [runs[job][0][3] for job in full])
        wanted = dict.fromkeys(full + [elsewhere], ["7g.80gb"])
        wanted.update({held: ["1g.10gb"], there: ["1g.10gb"], reserved: ["2g.20gb"]})
        self.assertEqual(self.cluster.judged(wanted), [])

    def test_reservations_that_begin_later(self):
        """Maintenance of all nodes but one in ten minutes, brought forward, and over: what would
        reach into it goes to the other node or waits, its own jobs begin in it."""
        cluster, shape = self.cluster, "gpu:7g.80gb:1"
        cluster.check("scontrol", "create", "reservation", "ReservationName=upkeep",
                      "Flags=MAINT", "Nodes=g[0-6]", "StartTime=now+10minutes", "Duration=30",
                      "Users=root")
        self.addCleanup(cluster.run, "scontrol", "delete", "ReservationName=upkeep")
        short = [self.submit(shape, 300, words=["-t", "5"]) for _ in range(4)]
        long = [self.submit(shape, 300, words=words) for words in (["-t", "20"], [])]
        kept = [self.submit(shape, 300, words=["-w", "g[0-1]", *words])
                for words in (["-t", "20"], [])]
        within = self.submit(shape, 300, words=["--reservation=upkeep", "-t", "20"])
        cluster.until(lambda: set(cluster.jobs()) == {*kept, within}, "others end")
        cluster.check("scontrol", "update", "ReservationName=upkeep", "StartTime=now")
        cluster.until(lambda: within not in cluster.jobs(), "its own job ends")
        self.assertEqual(set(cluster.jobs()), set(kept))
        for job in kept:
            self.assertNotIn(f"job {job}: partita shapes", cluster.read("log/placer.out"))
        self.assertRegex(cluster.read("log/placer.out"),
                         f"job {kept[1]}: no node until reservation upkeep is over; its time limit")
        cluster.check("scontrol", "delete", "ReservationName=upkeep")
        self.all_gone()
        self.assertEqual(
            cluster.judged(dict.fromkeys([*short, *long, *kept, within], ["7g.80gb"])), [])
        runs = cluster.runs()
        self.assertEqual({runs[job][0][3] for job in long}, {"g7"})
        self.assertLess({runs[job][0][3] for job in short}, set(cluster.nodes))
        self.assertNotEqual(runs[within][0][3], "g7")

    def test_cancelled_requeued_and_refused(self):
        wait = [self.submit("gpu:7g.80gb:1", 100, gate="wait") for _ in range(12)]
        mine = lambda: [job for job in wait if job in self.cluster.runs()]
        self.cluster.until(lambda: len(mine()) == 8, "eight run")
        running = mine()
        waiting = [job for job in wait if job not in running]
        for job in waiting[:2]:
            self.cluster.check("scancel", job)
        again = running[0]
        self.cluster.check("scontrol", "requeue", again)
        self.cluster.check("scancel", running[1])
        self.cluster.until(lambda: self.cluster.jobs()[again][0] == "PENDING" or
                           len(self.cluster.runs()[again]) > 1, "it has been ended")
        gone = {running[1], *waiting[:2]}
        self.cluster.write("wait", "")
        # Somebody has an instance on a node of which Slurm knows nothing.
        self.cluster.until(lambda: not self.cluster.jobs(), "all end")
        for node in self.cluster.nodes[:4]:
            self.lease(node, "stranger", "1g.10gb")
            self.addCleanup(self.give_back, node, "stranger")
        more = [self.submit("gpu:7g.80gb:1", 300) for _ in range(6)]
        self.cluster.until(lambda: not self.cluster.jobs(), "all end")
        for node in self.cluster.nodes[:4]:
            self.give_back(node, "stranger")
        self.all_gone()
        wanted = dict.fromkeys([job for job in wait + more if job not in gone], ["7g.80gb"])
        self.assertEqual(self.cluster.judged(wanted), [])
        self.assertGreaterEqual(len(self.cluster.runs()[again]), 2)

    def slow(self, script, seconds=2):
        """The script says that it has begun, and takes its time; returns the file that says so."""
        name, began = f"etc/partita-{script}.sh", f"{script}-began"
        text = self.cluster.read(name)
        self.addCleanup(self.cluster.write, name, text)
        first, rest = text.split("\n", 1)
        self.cluster.write(
            name, f"{first}\n: > '{self.cluster.path(began)}'\nsleep {seconds}\n{rest}")
        return self.cluster.path(began)

    def test_cancelled_in_every_state(self):
        cluster, shape = self.cluster, "gpu:7g.80gb:1"
        running = [self.submit(shape, 100, gate="never") for _ in cluster.nodes]
        for job in running:
            self.runs(job)
        held = self.submit(shape, words=["-H"])
        pending = self.submit(shape)
        behind = self.submit(shape, words=[f"--dependency=afterok:{running[0]}"])
        never = [held, pending, behind]
        cluster.check("scancel", *never)
        cluster.check("scontrol", "suspend", running[0])
        cluster.until(lambda: cluster.jobs()[running[0]][0] == "SUSPENDED", "it is suspended")
        cluster.check("scontrol", "requeuehold", running[1])
        cluster.until(lambda: cluster.jobs()[running[1]][0] == "PENDING", "it is held again")
        cluster.check("scancel", *running)
        self.all_gone()
        prolog, epilog = self.slow("prolog"), self.slow("epilog")
        launched = self.submit(shape, 100, gate="never")
        cluster.until(lambda: os.path.exists(prolog), "its prolog is at work")
        self.assertIn(cluster.jobs()[launched][0], ("CONFIGURING", "RUNNING"))
        cluster.check("scancel", launched)
        ended = self.submit(shape, 100)
        cluster.until(lambda: cluster.jobs().get(ended, ("",))[0] == "COMPLETING",
                      "its end is at work")
        self.assertTrue(os.path.exists(epilog))
        cluster.run("scancel", ended)
        self.all_gone()
        whole = [job for job, runs in cluster.runs().items() for run in runs
                 if run[2] and job in (*never, *running, launched, ended)]
        self.assertEqual(whole, [ended])
        for job in never:
            self.assertNotIn(job, cluster.runs())
        after = [self.submit(shape, 100) for _ in cluster.nodes]  # nothing is left behind
        self.all_gone()
        self.assertEqual(cluster.judged(dict.fromkeys([ended, *after], ["7g.80gb"])), [])

    def test_a_job_whose_prolog_did_not_run_gets_its_instance_later(self):
        """slurmd skips the prolog of a job that it takes for one it knows; a prolog is killed."""
        text = self.cluster.read("etc/partita-prolog.sh")
        self.addCleanup(self.cluster.write, "etc/partita-prolog.sh", text)
        run = f"'{self.program()}' slurm prolog"
        self.assertIn(run, text)
        once = self.cluster.path("once")
        for broken in (text.replace("file=", f"rm {once} 2> /dev/null && exit 0\nfile=", 1),
                       text.replace(run, f"rm {once} 2> /dev/null || {run}", 1)):
            self.cluster.write("once", "")
            self.cluster.write("etc/partita-prolog.sh", broken)
            job = self.submit("gpu:3g.40gb:1")
            self.all_gone()
            self.assertFalse(os.path.exists(once))
            self.assertEqual(self.cluster.judged({job: ["3g.40gb"]}), [])
            self.assertEqual(len(self.cluster.runs()[job]), 1)

    def program(self):
        return os.path.realpath(PARTITA)

    # What a job can open of the device nodes of NVIDIA that its test made: no driver is there, so
    # "No such device" says that it may.
    TRIES = """#!/bin/bash
env | grep -E '^(CUDA_VISIBLE_DEVICES|PARTITA_LEASE_PROFILE)=' > {folder}/seen
for node in {nodes}; do
  (: < $node) 2>> {folder}/seen || true
done
: < /dev/zero && echo zero >> {folder}/seen
"""

    def test_spank_plugin(self):
        if not self.cluster.spank:
            self.skipTest("built without Slurm's headers (libslurm-dev)")
        folder = self.cluster.path("dev")
        os.makedirs(folder + "/nvidia-caps", exist_ok=True)
        nodes = {"nvidiactl": (195, 255), "nvidia0": None, "nvidia1": (195, 1)}
        nodes.update({f"nvidia-caps/nvidia-cap{i}": (237, i) for i in range(1, 150)})
        for name, numbers in nodes.items():
            if numbers is not None:
                os.mknod(f"{folder}/{name}", 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        self.cluster.write("tries.sh", self.TRIES.format(
            folder=self.cluster.folder, nodes=" ".join(f"{folder}/{name}" for name in nodes)))
        job = self.cluster.check("sbatch", "--parsable", "-n1", "-o", "/dev/null",
                                 "--mig=3g.40gb,1g.10gb", self.cluster.path("tries.sh")).strip()
        self.cluster.until(lambda: job not in self.cluster.jobs(), "it ends")
        seen = self.cluster.read("seen")
        self.assertRegex(seen, r"CUDA_VISIBLE_DEVICES=MIG-[^,\s]+,MIG-\S+\n")
        self.assertIn("PARTITA_LEASE_PROFILE=3g.40gb,1g.10gb\n", seen)
        self.assertIn("zero", seen)
        if not self.cluster.confines:
            self.skipTest("no cgroups of version 2 are mounted here")
        refused = re.findall(r"/dev/(\S+): Operation not permitted", seen)
        opened = [name for name in nodes if name not in refused]
        self.assertEqual(opened[:2], ["nvidiactl", "nvidia0"])
        self.assertNotIn("nvidia1", opened)
        self.assertEqual(len(opened), 6, opened)  # two capabilities for each instance
        self.assertIn("makes a MIG instance 3g.41gb", self.refused("--mig=3g.41gb"))

    def test_an_end_that_slurmctld_has_forgotten(self):
        """It is killed before it has written down that a job ended, and told so by the placer."""
        cluster = self.cluster
        job = self.submit("gpu:3g.40gb:1", gate="forgotten")
        self.runs(job)
        begun = time.time()
        cluster.check("scontrol", "update", f"JobId={job}", "Name=saved")  # so that it writes
        saved = os.path.join(cluster.state, "job_state")
        cluster.until(lambda: os.stat(saved).st_mtime > begun, "the start is on disk")
        last = os.stat(saved).st_mtime
        cluster.write("forgotten", "")
        cluster.until(lambda: job in cluster.ends_heard(), "its end is heard")
        cluster.kill("slurmctld")
        forgotten = os.stat(saved).st_mtime == last
        cluster.start_controller()
        self.all_gone()
        self.assertEqual(cluster.judged({job: ["3g.40gb"]}), [])
        self.assertEqual(len(cluster.runs()[job]), 1)
        if forgotten:
            self.assertIn("Slurm forgot it", cluster.read("log/placer.out"))

    def test_a_beginning_that_slurmctld_has_forgotten(self):
        """It is killed before it has written down that jobs began, and they end while it is away:
        the new one takes them for waiting, and is told by their nodes."""
        cluster = self.cluster
        if not cluster.spank:
            self.skipTest("built without Slurm's headers (libslurm-dev)")
        again = self.submit("gpu:2g.20gb:1", 100, ["-w", "g0"], "let_end")
        self.runs(again)
        cluster.check("scontrol", "requeue", again)
        cluster.kill("placer")
        cluster.until(lambda: cluster.jobs()[again][0] == "PENDING", "it is put back")
        since = time.time()

        def runs():
            return [run for all_runs in cluster.runs().values() for run in all_runs
                    if run[0] > since]

        job = self.submit("gpu:3g.40gb:1", 100, ["-w", "g0"], "let_end")
        self.submit("gpu:1g.10gb:1", 100, ["-w", "g0", "--array=3-4"], "let_end")
        saved = os.path.join(cluster.state, "job_state")
        submitted = time.time()
        cluster.check("scontrol", "update", f"JobId={job}", "Name=saved")  # so that it writes
        cluster.until(lambda: os.stat(saved).st_mtime > submitted, "the submissions are on disk")
        shutil.copy(saved, cluster.path("job_state"))
        cluster.start_placer()
        cluster.until(lambda: len(runs()) == 4, "all four run")
        cluster.kill("placer")
        cluster.kill("slurmctld")
        shutil.copy(cluster.path("job_state"), saved)  # as if it had not written since
        cluster.write("let_end", "")
        cluster.until(lambda: all(run[2] for run in runs()), "all four end")
        cluster.start_controller()
        time.sleep(8)  # in which it would begin them again
        cluster.start_placer()
        self.submit("gpu:7g.80gb:1", 100, ["-w", "g0"])  # what they left goes
        self.all_gone()
        # By their instances: slurmctld gives again the numbers that it has forgotten.
        self.assertEqual(sorted(one[1] for run in runs() for one in run[4]),
                         ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"])
        self.assertEqual(cluster.read("log/slurmd.g0.log").count("has forgotten that job"), 4)

    def test_one_placer_per_site(self):
        once = [PARTITA, "slurm", "serve", "--once", "--dry-run", "--site"]
        serve = [*once, self.cluster.path("etc/slurm.yaml")]
        self.assertIn("slurm-placer", self.cluster.run(*serve).stderr)
        self.cluster.write("etc/same.yaml", self.cluster.read("etc/slurm.yaml"))
        self.cluster.check(*once, self.cluster.path("etc/same.yaml"))

    def lease(self, node, owner, profile):
        self.cluster.check(PARTITA, "lease", "--driver", "sim", "--machine",
                           self.cluster.path(f"nodes/{node}/machine.yaml"), "--for", owner,
                           "--profile", profile)

    def give_back(self, node, owner):
        self.cluster.check(PARTITA, "return", "--driver", "sim", "--machine",
                           self.cluster.path(f"nodes/{node}/machine.yaml"), "--for", owner)

    def test_check(self):
        check = [PARTITA, "slurm", "check", "--site", self.cluster.path("etc/slurm.yaml")]
        said = self.cluster.run(*check)
        if self.cluster.spank:
            self.assertEqual((said.returncode, said.stdout),
                             (0, "Jobs can ask for MIG instances here.\n"), said.stderr)
        plugins = self.cluster.read("etc/plugstack.conf")
        self.cluster.write("etc/plugstack.conf", "")
        self.assertIn("does not load spank_partita.so", self.cluster.run(*check).stdout)
        self.cluster.write("etc/plugstack.conf", plugins)
        text = self.cluster.read("etc/slurm.yaml")
        self.cluster.write("etc/other.yaml", text.replace('"g[0-7]"', '"g[0-8]"')
                           .replace("A100-80GB", "A30-24GB"))
        said = self.cluster.run(PARTITA, "slurm", "check", "--site",
                                self.cluster.path("etc/other.yaml"))
        self.assertEqual(said.returncode, 1, said.stderr)
        for sentence in ("Slurm has no node g8.", "Node g0 has 7 slice in Slurm",
                         "job_submit.lua is not what `partita slurm install` writes"):
            self.assertIn(sentence, said.stdout)


class CampaignTest(unittest.TestCase):
    def test_jobs_while_who_runs_them_is_killed(self):
        jobs = slurm_campaign.drawn(30, SEED, load=1, mean_s=3)
        campaign = slurm_campaign.Campaign(PARTITA, jobs, SEED, kills=True)
        campaign.kinds.remove(campaign.kill_controller)  # it takes its time
        faults, figures = campaign.run()
        self.assertEqual(faults, [], figures)
        self.assertEqual(figures["ended"] + figures["cancelled"], figures["jobs"], figures)


if __name__ == "__main__":
    if why := slurm_cluster.why_not():
        print(why)
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started is ended first
    unittest.main()
