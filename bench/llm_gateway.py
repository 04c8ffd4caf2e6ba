#!/usr/bin/env python3
"""What the gateway costs a streamed token, and what it adds to the time to the first one.

    bench/llm_gateway.py [PROGRAM [SECONDS]]

An engine that computes nothing (`partita engine`), a gateway and `partita load` on this machine.
CPU: of the gateway's process, over the tokens that passed, with about 64 streams at a time; beside
it that of a relay that knows nothing of what it passes on: epoll_wait, a recv and a send per event,
the floor of whoever stands between two TCP connections here (wants a C compiler). They are measured
in turn. TTFT: of the same requests sent to the engine itself and through the gateway, in turn, a
few times each. Wants idle cores.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ENGINE, GATEWAY, RELAY = 18091, 18092, 18093
TURNS = 4
SERVICE = """services:
  - {{name: chat, kind: llm, model: chat, rate_rps: {}, slo: {{ttft_ms: 5000}},
     tokens: {{in: 64, out: {}}}}}
"""

# A connection to the engine for each that comes; whichever has bytes gives them to the other one.
RELAY_C = r"""
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int other[65536];
static long passed;
static void tell(int signal) { (void)signal; dprintf(1, "%ld\n", passed); }
static struct sockaddr_in at(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}
static void join(int epoll, int fd, int to) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
  other[fd] = to;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  struct sockaddr_in here = at(atoi(argv[1])), engine = at(atoi(argv[2]));
  int on = 1, door = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(door, (struct sockaddr*)&here, sizeof here) || listen(door, 1024)) return 1;
  struct epoll_event e = {.events = EPOLLIN, .data.fd = door};
  epoll_ctl(epoll, EPOLL_CTL_ADD, door, &e);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGUSR1, tell);
  static char room[65536];
  struct epoll_event ready[64];
  for (;;) {
    int n = epoll_wait(epoll, ready, 64, -1);
    if (n < 0 && errno != EINTR) return 1;
    for (int i = 0; i < n; ++i) {
      int fd = ready[i].data.fd;
      if (fd == door) {
        int client = accept(door, 0, 0), to = socket(AF_INET, SOCK_STREAM, 0);
        if (client < 0 || connect(to, (struct sockaddr*)&engine, sizeof engine)) return 1;
        join(epoll, client, to);
        join(epoll, to, client);
        continue;
      }
      if (other[fd] < 0) continue;
      ssize_t got = recv(fd, room, sizeof room, 0);
      if (got > 0 && send(other[fd], room, got, MSG_NOSIGNAL) == got) {
        ++passed;
        continue;
      }
      int to = other[fd];
      other[fd] = other[to] = -1;
      close(fd), close(to);
    }
  }
}
"""


def up(port, path):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing at port {port}")


def cpu_ns(pid):
    """Of all threads of a process, as the scheduler counts."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def tokens_passed():
    with urllib.request.urlopen(f"http://127.0.0.1:{GATEWAY}/metrics", timeout=5) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith('vllm:inter_token_latency_seconds_count{model_name="chat"}'):
                return float(line.split()[-1])
    return 0.0


def load(program, port, services, seconds):
    command = [program, "load", "--openai", f"http://127.0.0.1:{port}", "--services", services,
               "--duration", f"{seconds}s", "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)["services"][0]


def relay():
    """The relay's process; none without a compiler."""
    with open("relay.c", "w", encoding="utf-8") as file:
        file.write(RELAY_C)
    made = subprocess.run(["cc", "-O2", "-o", "relay", "relay.c"], check=False)
    if made.returncode != 0:
        return None
    return subprocess.Popen(["./relay", str(RELAY), str(ENGINE)], stdout=subprocess.PIPE)


def relayed(process):
    process.send_signal(signal.SIGUSR1)
    return float(process.stdout.readline())


def per_token(program, door, seconds):
    """CPU of the process behind a port, over what it passed on, in microseconds."""
    port, process, passed = door
    command = [program, "load", "--openai", f"http://127.0.0.1:{port}", "--services",
               "streams.yaml", "--duration", f"{seconds + 10}s"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(9)  # until as many have begun as end
    cpu, events = cpu_ns(process.pid), passed()
    time.sleep(seconds)
    each = (cpu_ns(process.pid) - cpu) / (passed() - events) / 1e3
    running.wait()
    return each


def show_per_token(program, gateway, seconds):
    doors = {"gateway": (GATEWAY, gateway, tokens_passed)}
    plain = relay()
    if plain:
        doors["plain relay"] = (RELAY, plain, lambda: relayed(plain))
    runs = {name: [] for name in doors}
    idle = cpu_ns(gateway.pid)
    time.sleep(5)
    print(f"gateway without a request: {(cpu_ns(gateway.pid) - idle) / 5e6:.2f} ms of CPU a second")
    try:
        for _ in range(TURNS):
            for name, door in doors.items():
                runs[name].append(per_token(program, door, seconds / TURNS))
    finally:
        if plain:
            plain.terminate()
            plain.wait()
    for name, each in runs.items():
        print("CPU per token event, {}: median {:.2f} us, {} runs {}".format(
            name, statistics.median(each), len(each), " ".join(f"{one:.2f}" for one in each)))


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/partita")
    seconds = float((sys.argv[2:3] or ["15"])[0])
    with tempfile.TemporaryDirectory(prefix="partita-llm-") as folder:
        os.chdir(folder)
        os.mkdir("state", 0o700)
        for name, text in (("streams.yaml", SERVICE.format(8, 400)),
                           ("short.yaml", SERVICE.format(50, 2))):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        children = []
        try:
            engine = [program, "engine", "--listen", f"127.0.0.1:{ENGINE}", "--model", "chat",
                      "--step-cost"]
            for command in (engine + ["step=20"],
                            [program, "gateway", "--http", f"127.0.0.1:{GATEWAY}", "--state-dir",
                             "state", "--engine", f"chat=http://127.0.0.1:{ENGINE}"]):
                children.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            up(GATEWAY, "/v2/health/ready")
            show_per_token(program, children[1], seconds)
            children[0].terminate()
            children[0].wait()
            children[0] = subprocess.Popen(engine + ["step=1"], stderr=subprocess.DEVNULL)
            up(GATEWAY, "/v2/health/ready")
            added = {"p50": [], "p99": []}
            for _ in range(5):
                direct = load(program, ENGINE, "short.yaml", seconds / 3)
                through = load(program, GATEWAY, "short.yaml", seconds / 3)
                for at, list_of in added.items():
                    list_of.append(through["ttft_ms"][at] - direct["ttft_ms"][at])
            for at, list_of in added.items():
                print("added TTFT, {}: median {:.3f} ms, {}".format(
                    at, statistics.median(list_of), " ".join(f"{one:.3f}" for one in list_of)))
        finally:
            for child in children:
                child.terminate()
                child.wait()


if __name__ == "__main__":
    main()
