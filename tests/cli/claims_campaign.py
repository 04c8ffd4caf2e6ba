"""Random claims in virtual time: a scheduler of ours that takes the first device whose counters are
there, a kubelet of ours that prepares and unprepares at a real plugin, kills of it, an API server
with conflicts, versions that are too old and restarts; after every call a judge looks at the node.
"""

import heapq
import random
import signal
import threading

MIX = ("1g.5gb", "4g.20gb")  # half each
SLICES = {"1g.5gb": 1, "4g.20gb": 4}


class Counters:
    """What the scheduler knows: the counters of the published pool less those of given devices."""

    def __init__(self):
        self.given = {}  # by claim: {(set, counter): how many}
        self.used = {}

    @staticmethod
    def of(device):
        return {(use["counterSet"], name): int(of["value"])
                for use in device["consumesCounters"] for name, of in use["counters"].items()}

    def fits(self, takes, counters):
        return all(self.used.get(key, 0) + n <= counters[key[0]].get(key[1], 0)
                   for key, n in takes.items())

    def add(self, claim, takes, sign):
        for key, n in takes.items():
            self.used[key] = self.used.get(key, 0) + sign * n
        if sign > 0:
            self.given[claim] = takes

    def free(self, claim):
        self.add(claim, self.given.pop(claim), -1)

    def first_fit(self, devices, counters):
        for device, takes in devices:
            if self.fits(takes, counters):
                return device, takes
        return None


def arrivals(claims, load, gpus, seed):
    """[(when, profile, length)]: Poisson arrivals, exponential lengths of mean 1."""
    random_ = random.Random(seed)
    rate = load * gpus * 7 / (sum(SLICES[one] for one in MIX) / len(MIX))
    now, out = 0.0, []
    for _ in range(claims):
        now += random_.expovariate(rate)
        out.append((now, random_.choice(MIX), random_.expovariate(1.0)))
    return out


def mean_wait(jobs, look, begin, end):
    """The mean wait in lengths of a job; `look` gives ({profile: [(device, takes)]}, counters),
    begin(claim, device) and end(claim) are told."""
    scheduler, ends, waiting, waited = Counters(), [], [], 0.0
    coming = iter(enumerate(jobs))
    nexts = next(coming, None)
    while nexts or waiting:
        if nexts and (not ends or nexts[1][0] <= ends[0][0]):
            now = nexts[1][0]
            waiting.append(nexts)
            nexts = next(coming, None)
        else:
            now, gone = heapq.heappop(ends)
            end(gone)
            scheduler.free(gone)
        by_profile, counters = look()
        rest = []
        for claim, (since, profile, length) in waiting:
            found = scheduler.first_fit(by_profile[profile], counters)
            if found is None:
                rest.append((claim, (since, profile, length)))
                continue
            scheduler.add(claim, found[1], 1)
            begin(claim, found[0])
            waited += now - since
            heapq.heappush(ends, (now + length, claim))
        waiting = rest
    for _, gone in sorted(ends):
        end(gone)
    return waited / len(jobs)


def by_profile(devices):
    out = {profile: [] for profile in MIX}
    for device in devices:
        profile = device["attributes"]["profile"]["string"]
        if profile in out:
            out[profile].append((device, Counters.of(device)))
    return out


def place_of(device):
    said = device["attributes"]
    return said["gpu"]["int"], said["profile"]["string"], said["start"]["int"]


class Campaign:
    """`world` is the test of the plugin: start(), claims(), kill and its API server."""

    def __init__(self, world, claims, kills, seed, load=0.65):
        self.world, self.kills = world, kills
        self.random = random.Random(seed)
        self.jobs = arrivals(claims, load, 8, seed)
        self.kill_share = kills / (2 * claims)  # of the calls
        self.held = {}  # claim: (device, UUID)
        self.calls = self.killed = self.outages = 0
        self.parsed = (None, None)

    def run(self):
        """(mean wait, mean wait of the same claims where devices come by GPU and start)"""
        devices, counters = self.pool()
        sorted_ = sorted(devices, key=lambda one: (place_of(one)[0], place_of(one)[2]))
        fixed = by_profile(sorted_), counters
        theirs = mean_wait(self.jobs, lambda: fixed, lambda *_: None, lambda _: None)
        ours = mean_wait(self.jobs, self.look, self.begin, self.end)
        self.world.assertEqual(self.instances(), {})
        return ours, theirs

    def pool(self):
        return self.world.until(self.world.api.pool)

    def look(self):
        version = self.world.api.published
        if self.parsed[0] != version:
            devices, counters = self.pool()
            self.parsed = version, (by_profile(devices), counters)
        return self.parsed[1]

    # ---- the kubelet

    def begin(self, claim, device):
        world, uid = self.world, f"u{claim}"
        if claim % 5000 == 4999:
            print(f"{claim + 1} claims, {self.killed} kills", flush=True)
        world.api.put_claim("c" + uid, uid, [("n1", device["name"])])
        if self.random.random() < 0.01:  # its pod is gone before it starts
            world.api.drop_claim(uid)
            self.held[claim] = device, None
            return
        self.disturb()
        self.held[claim] = device, None
        self.call(world.PREPARE, claim)
        self.held[claim] = device, world.uuid_of(uid)
        if self.random.random() < 0.02:  # asked again: the kubelet was restarted
            self.again([claim, self.random.choice(list(self.held))])
        self.judge()

    def end(self, claim):
        if self.held[claim][1] is not None:
            self.disturb()
            self.call(self.world.UNPREPARE, claim)
            self.world.api.drop_claim(f"u{claim}")
        del self.held[claim]
        self.judge()

    def again(self, claims):
        asked = sorted({one for one in claims if self.held[one][1] is not None})
        for at in range(0, len(asked), 32):
            part = asked[at:at + 32]
            self.ask(self.world.PREPARE, part)
            for one in part:
                self.world.assertEqual(self.world.uuid_of(f"u{one}"), self.held[one][1])

    def ask(self, method, claims):
        """Until it is done, as the kubelet asks again; an API server that is away is excused."""
        asked = [(f"cu{one}", f"u{one}") for one in claims]
        for _ in range(2000):
            errors = [error for _, error in self.world.claims(method, *asked).values() if error]
            if not errors:
                return
            self.world.assertTrue(errors[0].startswith("http://127.0.0.1"), errors[0])
        self.world.fail(errors[0])

    def call(self, method, claim):
        """Some calls meet a kill."""
        self.calls += 1
        if self.killed < self.kills and self.random.random() < self.kill_share:
            self.killed_within(method, claim)
        self.ask(method, [claim])

    def killed_within(self, method, claim):
        """kill -9 at some moment of the call; whoever was prepared has what it had."""
        world, plugin = self.world, self.world.plugin
        killer = threading.Timer(self.random.uniform(0, 0.012),
                                 lambda: plugin.send_signal(signal.SIGKILL))
        killer.start()
        try:
            world.claims(method, (f"cu{claim}", f"u{claim}"))
        except (OSError, TypeError):
            pass
        killer.join()
        plugin.wait()
        self.killed += 1
        device, _ = self.held[claim]
        made = self.instances().get(place_of(device))  # complete before the kill?
        world.start()
        self.again(one for one in self.held if one != claim)
        if method == world.PREPARE:
            self.ask(method, [claim])
            if made is not None:
                world.assertEqual(world.uuid_of(f"u{claim}"), made)

    def disturb(self):
        api = self.world.api
        with api.lock:
            if self.random.random() < 0.01:
                api.conflicts = self.random.randint(1, 3)
            if self.random.random() < 0.005:
                api.gone = 1
        if self.random.random() < 0.001:
            self.outages += 1
            api.restart(self.random.uniform(0, 0.3))

    # ---- the judge

    def instances(self):
        """{place: UUID} of the node's state; its memory slices are used once at most."""
        found, used = {}, set()
        for index, gpu in enumerate(self.world.node_state()["gpus"]):
            for one in gpu["instances"]:
                size = {"1g.5gb": 1, "4g.20gb": 4}[one["profile"]]
                for piece in range(one["start"], one["start"] + size):
                    self.world.assertNotIn((index, piece), used)
                    used.add((index, piece))
                for compute in one["compute"]:
                    found[index, one["profile"], one["start"]] = compute["uuid"]
        return found

    def judge(self):
        """What is there is what was claimed and prepared, no more and no less."""
        prepared = {place_of(device): uuid for device, uuid in self.held.values()
                    if uuid is not None}
        self.world.assertEqual(self.instances(), prepared)
