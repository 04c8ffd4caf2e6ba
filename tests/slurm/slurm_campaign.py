#!/usr/bin/env python3
"""slurm_campaign.py [--jobs N] [--seed N] [--kills] [--static]: many jobs of mixed shapes on a
Slurm cluster of eight simulated nodes, judged: each to its end once, on an instance of its shape,
no slice used by two at a time, no node drained. Prints throughput and mean wait.

--kills: meanwhile placer, slurmctld, slurmds, prologs and epilogs are killed, jobs are cancelled
and requeued, nodes go down and come back. --static: the same jobs, without kills, on the partition
of the same GPUs that does not change and is the best for them afterwards, once by their end and
once by their waits; Slurm alone hands it out. PARTITA is the program; root is needed
(packages_tests.txt)."""

import argparse
import os
import random
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_cluster  # noqa: E402

SHAPES = ["1g.10gb"] * 4 + ["1g.20gb"] + ["2g.20gb"] * 3 + ["3g.40gb"] * 2 + ["4g.40gb", "7g.80gb"]
NODES = 8
SLICES = 8  # of memory, per node
BETWEEN = 30  # seconds between two kills of slurmctld
SAVED = 7  # seconds until slurmctld's state is on disk, at most, where that is fast
# What halves of an A100 can be without a change: pairs of slices, and the last that has one slice
# of compute and two of memory.
PAIRS = [["2g.20gb"], ["1g.20gb"], ["1g.10gb"] * 2]
LEFT = [["4g.40gb"], ["3g.40gb"]] + [a + b for a in PAIRS for b in PAIRS]
RIGHT = [["3g.40gb"]] + [a + b for a in PAIRS for b in (["1g.10gb"], ["1g.20gb"])]
LAYOUTS = [["7g.80gb"]] + [left + right for left in LEFT for right in RIGHT]


def drawn(count, seed, load, mean_s):
    """Jobs as (seconds after the start, shape, milliseconds), in the order of their coming."""
    rng = random.Random(seed)
    used = statistics.mean(slurm_cluster.SIZES[shape] for shape in SHAPES)
    gap = used * mean_s / (NODES * SLICES) / load
    jobs, now = [], 0.0
    for _ in range(count):
        jobs.append((now, rng.choice(SHAPES), int(1000 * mean_s * (0.25 + 1.5 * rng.random()))))
        now += rng.expovariate(1 / gap)
    return jobs


def alone(jobs, shape, count):
    """(last end, sum of waits) of the jobs of one shape on so many instances, in order."""
    free, last, waits = [0.0] * count, 0.0, 0.0
    for come, wanted, milliseconds in jobs:
        if wanted != shape:
            continue
        first = free.index(min(free))
        begin = max(come, free[first])
        waits += begin - come
        free[first] = begin + milliseconds / 1000
        last = max(last, free[first])
    return last, waits


def best_static(jobs, by):
    """Layouts of the nodes on which these jobs end first (by 0) or wait least (by 1): changes of
    one and two nodes at a time, from many beginnings."""
    rng = random.Random(1)
    known = {}
    shapes = sorted({shape for _, shape, _ in jobs})

    def cost(layouts):
        rows = []
        for shape in shapes:
            count = sum(layout.count(shape) for layout in layouts)
            if count == 0:
                return (float("inf"),) * 2
            if (shape, count) not in known:
                known[shape, count] = alone(jobs, shape, count)
            rows.append(known[shape, count])
        last, waits = max(row[0] for row in rows), sum(row[1] for row in rows)
        return (last, waits) if by == 0 else (waits, last)

    best = None
    for _ in range(20):
        now = [rng.choice(LAYOUTS) for _ in range(NODES)]
        level = cost(now)
        for _ in range(4000):
            other = list(now)
            for _ in range(rng.choice((1, 1, 2))):
                other[rng.randrange(NODES)] = rng.choice(LAYOUTS)
            if (there := cost(other)) <= level:
                now, level = other, there
        if best is None or level < best[0]:
            best = (level, now)
    return best[1]


class Campaign:
    def __init__(self, partita, jobs, seed, kills, static=None):
        self.jobs, self.kills = jobs, kills
        self.rng = random.Random(seed * 7 + 1)
        self.cluster = slurm_cluster.Cluster(partita, NODES, static=static, min_job_age=3600)
        self.static = static
        self.submitted = {}  # id: (when, shape)
        self.cancelled = set()
        self.controller_kills = []  # when
        self.downs = []  # (node, when)
        self.requeued = []  # (job, when), as Slurm took it
        self.down = {}  # node: when it comes back
        self.away = {}  # daemon: when it comes back
        self.did = {}
        self.kinds = [self.kill_placer, self.kill_controller, self.kill_node, self.kill_script,
                      self.kill_script, self.cancel, self.requeue, self.node_down]

    def run(self):
        cluster = self.cluster
        try:
            cluster.start_all()
            if self.static is None:
                cluster.start_placer()
            self.go()
            passed = (self.cancelled | self.unheard() | self.asked_again() |
                      self.begun_by_slurm())
            faults = [] if self.static is not None else cluster.judged(
                {job: [shape] for job, (_, shape) in self.submitted.items() if job not in passed})
            faults += [f"node {node} is {state}" for node, state in cluster.node_states().items()
                       if state != "idle"]
            if faults:
                faults += self.told_of_second_runs(passed)
            return faults, self.figures()
        finally:
            cluster.stop()

    def go(self):
        start, left = time.time(), list(self.jobs)
        next_kill = start + 5
        while left or self.cluster.jobs() or self.down or self.away:
            now = time.time()
            while left and start + left[0][0] <= now and "slurmctld soon" not in self.away:
                _, shape, milliseconds = left[0]
                if not self.submit(shape, milliseconds):
                    break  # no controller just now
                left.pop(0)
            self.come_back(now)
            if self.kills and now >= next_kill and (left or len(self.cluster.jobs()) > 4):
                self.disturb(now)
                next_kill = now + 0.5 + 2 * self.rng.random()
            time.sleep(0.05)
            if now > start + 3600:
                raise AssertionError("not done within an hour\n" + self.cluster.told())

    def submit(self, shape, milliseconds):
        came = time.time()
        done = self.cluster.run("sbatch", "--parsable", "-n1", "-t", "10", "-o", "/dev/null",
                                f"--gres=gpu:{shape}:1", self.cluster.path("job.sh"),
                                str(milliseconds))
        if done.returncode == 0:
            self.submitted[done.stdout.strip()] = (came, shape)
        return done.returncode == 0

    # ---- disturbances

    def disturb(self, now):
        what = self.rng.choice(self.kinds)
        if what(now):
            self.did[what.__name__] = self.did.get(what.__name__, 0) + 1

    def kill_placer(self, now):
        if "placer" in self.away:
            return False
        self.cluster.kill("placer")
        self.away["placer"] = now + self.rng.random()
        return True

    def kill_controller(self, now):
        """Its state is on disk some seconds late, and ends of jobs since then are forgotten. So are
        jobs that were handed in, and starts, of which Slurm ends the run: none for so long."""
        if any(now < kill + BETWEEN for kill in self.controller_kills[-1:]) or \
                {"slurmctld", "slurmctld soon"} & set(self.away):
            return False
        self.cluster.kill("placer")
        now = time.time()
        self.away["slurmctld soon"] = now + SAVED
        self.away["placer"] = now + SAVED + 1
        return True

    def kill_node(self, now):
        node = self.rng.choice(self.cluster.nodes)
        if node in self.away:
            return False
        self.cluster.kill(node)
        self.downs.append((node, time.time()))
        self.away[node] = now + 2 * self.rng.random()
        return True

    def kill_script(self, _):
        """A prolog or epilog at work, wherever it is."""
        end = time.time() + 2
        while time.time() < end:
            if self.cluster.kill_process(("slurm", self.rng.choice(("prolog", "epilog")))):
                return True
            time.sleep(0.002)
        return False

    def some_job(self, states):
        jobs = [job for job, row in self.cluster.jobs().items() if row[0] in states]
        return self.rng.choice(jobs) if jobs else None

    def cancel(self, _):
        job = self.some_job(("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"))
        if job is None or self.cluster.run("scancel", job).returncode != 0:
            return False
        self.cancelled.add(job)
        return True

    def requeue(self, _):
        if "slurmctld soon" in self.away:
            return False
        job = self.some_job(("RUNNING",))
        if job is None or self.cluster.run("scontrol", "requeue", job).returncode != 0:
            return False
        self.requeued.append((job, time.time()))
        return True

    def node_down(self, now):
        node = self.rng.choice(self.cluster.nodes)
        if node in self.down or self.cluster.run(
                "scontrol", "update", f"NodeName={node}", "State=DOWN",
                "Reason=campaign").returncode != 0:
            return False
        self.down[node] = now + 4
        self.downs.append((node, now))
        return True

    def come_back(self, now):
        for name in [name for name, when in self.away.items() if when <= now]:
            del self.away[name]
            if name == "slurmctld soon":
                self.cluster.kill("slurmctld")
                self.controller_kills.append(time.time())
                self.away["slurmctld"] = now + self.rng.random()
                continue
            {"placer": self.cluster.start_placer, "slurmctld": self.cluster.start_controller}.get(
                name, lambda name=name: self.cluster.start_node(name))()
        for node in [node for node, when in self.down.items() if when <= now]:
            self.cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
            if self.cluster.node_states().get(node, "down")[:4] != "down":
                del self.down[node]

    def second_runs(self):
        """(job, run, later): two runs of it one after the other that both came to their end."""
        for job, runs in self.cluster.runs().items():
            whole = sorted((run for run in runs if run[2]), key=lambda run: run[1])
            for run, later in zip(whole, whole[1:]):
                yield job, run, later

    def asked_again(self):
        """Jobs that were requeued once a run of theirs had ended, which Slurm had not heard or had
        forgotten, or a moment before: `scontrol requeue` means a job that has ended, too."""
        return {job for job, run, later in self.second_runs()
                if any(what == job and run[0] < when < later[0] for what, when in self.requeued)}

    def unheard(self):
        """Jobs that ran to their end twice since Slurm itself ended the first run (its node was
        lost or set down) before slurmctld had heard of its end."""
        heard, again = self.cluster.ends_heard(), set()
        for job, run, later in self.second_runs():
            told = [when for when in heard.get(job, []) if run[1] - 0.1 < when < later[0]]
            if any(node == run[3] and run[0] < when < later[0] and
                   not any(heard_at < when for heard_at in told) for node, when in self.downs):
                again.add(job)
        return again

    def begun_by_slurm(self):
        """Jobs of which slurmctld forgot both that they began and that they ended, and which it
        began again by itself, on the place that they had: between two beginnings in its log it was
        killed, and nobody has put the job back. Those that it took for waiting when it heard of
        their end are none of them: who places such a job anew has run it twice."""
        log, again = self.cluster.beginnings(), set()
        for job, run, later in self.second_runs():
            told = [(when, what) for when, what in log.get(job, []) if when <= later[0]]
            if [what for _, what in told[-2:]] == ["began", "began"] and \
                    told[-2][0] <= run[0] < told[-1][0] and \
                    any(run[1] < kill < told[-1][0] for kill in self.controller_kills):
                again.add(job)
        return again

    def told_of_second_runs(self, passed):
        """When those that nothing excuses ran, what slurmctld had heard, what was killed then."""
        first = min(came for came, _ in self.submitted.values())
        heard, log = self.cluster.ends_heard(), self.cluster.beginnings()

        def since(times):
            return [round(when - first, 2) for when in times]
        return [f"job {job} ran {since(run[:2])} on {run[3]} and {since(later[:2])} on {later[3]}; "
                f"slurmctld heard of ends at {since(heard.get(job, []))}; by its log it "
                f"{[(what, *since([when])) for when, what in log.get(job, [])]}"
                for job, run, later in self.second_runs() if job not in passed] + [
            f"slurmctld was killed at {since(self.controller_kills)}",
            f"nodes were down at {[(node, *since([when])) for node, when in self.downs]}",
            f"requeued {[(job, *since([when])) for job, when in self.requeued]}"]

    # ---- figures

    def figures(self):
        runs = self.cluster.runs()
        whole = {job: [run for run in runs.get(job, []) if run[2]] for job in self.submitted}
        done = {job: found[0] for job, found in whole.items() if found}
        first = min(came for came, _ in self.submitted.values())
        last = max(run[1] for run in done.values())
        return {"jobs": len(self.submitted), "cancelled": len(self.cancelled - set(done)),
                "ended": len(done),
                "runs": sum(len(runs.get(job, [])) for job in self.submitted),
                "seconds": round(last - first, 1),
                "jobs_per_s": round(len(done) / (last - first), 3),
                "mean_wait_s": round(statistics.mean(
                    run[0] - self.submitted[job][0] for job, run in done.items()), 2),
                "ended again before Slurm had heard": len(self.unheard()),
                "ended again since requeued": len(self.asked_again()),
                "begun again by Slurm itself": len(self.begun_by_slurm()), "disturbed": self.did}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=float, default=1.3, help="slices asked for / there")
    parser.add_argument("--mean", type=float, default=8, help="seconds that a job takes")
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--static", action="store_true")
    given = parser.parse_args()
    if why := slurm_cluster.why_not():
        sys.exit(why)
    jobs = drawn(given.jobs, given.seed, given.load, given.mean)
    campaigns = {"partita": None}
    if given.static:
        campaigns = {"static, by its end": best_static(jobs, 0),
                     "static, by its waits": best_static(jobs, 1)}
    bad = False
    for name, layouts in campaigns.items():
        faults, figures = Campaign(os.environ["PARTITA"], jobs, given.seed, given.kills,
                                   layouts).run()
        print(name, figures, *sorted(map(str, layouts or [])), *faults, sep="\n  ", flush=True)
        bad = bad or faults
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
