"""partita remote run and doctor: exit statuses, environment, private servers, libraries' names;
and, where the build made them, CUDA programs on a private server of this machine's cores."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, CliTest

LIBRARIES = os.path.join(os.path.dirname(PROGRAM), "remote")
PROGRAMS = os.path.join(LIBRARIES, "programs")
NVCC = shutil.which("nvcc")
MPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "devices")

VECTOR_ADD = """
#include <cstdio>
__global__ void add(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] += a[i];
}
int main() {
  const int n = 1000;
  float host[n], *a, *b;
  for (int i = 0; i < n; ++i) host[i] = i;
  cudaMalloc(&a, sizeof host);
  cudaMalloc(&b, sizeof host);
  cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemcpy(b, host, sizeof host, cudaMemcpyHostToDevice);
  add<<<4, 256>>>(a, b, n);
  cudaMemcpy(host, b, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) if (host[i] != 2 * i) return 1;
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) != 0 || p.warpSize != 32) return 2;
  std::puts("added");
}
"""

# The fields of cudaDeviceProp that the client fills, and where CUDA's own header has them.
LAYOUT = """
#include <cstddef>
#include <cstdio>
#include <cuda_runtime_api.h>
int main() {
  std::printf("%zu", sizeof(cudaDeviceProp));
#define PLACE(f) std::printf(" %zu", offsetof(cudaDeviceProp, f))
  PLACE(uuid); PLACE(totalGlobalMem); PLACE(warpSize); PLACE(totalConstMem); PLACE(major);
  PLACE(multiProcessorCount); PLACE(surfaceAlignment); PLACE(l2CacheSize); PLACE(clusterLaunch);
  PLACE(sharedMemPerBlockOptin); PLACE(unifiedFunctionPointers);
  std::printf(" %zu %zu %zu %zu", sizeof(cudaFuncAttributes), sizeof(cudaPointerAttributes),
              sizeof(cudaLaunchConfig_t), sizeof(cudaMemcpy3DParms));
}
"""

# A program of the driver interface that looks at no error: both with a kernel that cannot run here.
REFUSED = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
KERNEL = ".visible .entry %s() { %s ret; }"
HEAD = ".version 8.0\\n.target sm_90a\\n.address_size 64\\n"
BAD = KERNEL % ("bad", "wgmma.fence.sync.aligned;")
cuda.cuInit(0)
context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
code = (HEAD + BAD + (KERNEL % ("good", "") if "good" in sys.argv else "")).encode()
if "log" in sys.argv:
    for code in (code, b"no code", (HEAD + KERNEL % ("good", "")).encode()):
        log = ctypes.create_string_buffer(b"before", 60)
        options = (ctypes.c_int * 2)(6, 5)
        values = (ctypes.c_void_p * 2)(60, ctypes.addressof(log))
        status = cuda.cuModuleLoadDataEx(ctypes.byref(module), code, 2, options, values)
        print(status, values[0] or 0, log.value.decode(), sep="|")
        cuda.cuDevicePrimaryCtxReset_v2(0)
cuda.cuModuleLoadData(ctypes.byref(module), code)
cuda.cuModuleGetFunction(ctypes.byref(function), module, b"bad")
cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
cuda.cuCtxSynchronize()
"""


def remote(*words, cwd=None, environment=None):
    return subprocess.run([PROGRAM, "remote", *words], cwd=cwd, capture_output=True, text=True,
                          timeout=120, check=False, env={**os.environ, **(environment or {})})


class RunTest(CliTest):
    def run_words(self, *words, flags=(), **options):
        return remote("run", *flags, "--", *words, **options)

    def test_exit_status_and_signal_of_the_program_are_passed_on(self):
        self.assertEqual(self.run_words("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_words("sh", "-c", "kill -KILL $$").returncode,
                         128 + signal.SIGKILL)
        self.assertEqual(self.run_words("true").returncode, 0)

    def test_a_wrong_value_is_told_by_its_flag(self):
        done = self.run_partita("remote", "run", "--units", "99999999", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--units", done.stderr.decode())

    def test_what_the_program_finds_in_its_environment(self):
        result = self.run_words("sh", "-c", 'echo "$PARTITA_REMOTE|$LD_LIBRARY_PATH|$1"', "sh",
                                "--flag", environment={"LD_LIBRARY_PATH": "/somewhere"})
        self.assertEqual(result.returncode, 0, result.stderr)
        address, path, word = result.stdout.strip().split("|")
        self.assertEqual(path, os.path.realpath(LIBRARIES) + ":/somewhere")
        self.assertEqual(word, "--flag")
        self.assertRegex(address, "^unix:/")
        # The private server and its folder went with the program.
        self.assertFalse(os.path.exists(os.path.dirname(address.removeprefix("unix:"))))

    def test_flags_become_environment(self):
        result = remote("run", "--server", "tcp:127.0.0.1:1", "--profile", "CPU-2", "--check",
                        "--stats", "s.json", "--", "sh", "-c",
                        'echo "$PARTITA_REMOTE $PARTITA_REMOTE_SHAPE $PARTITA_REMOTE_CHECK '
                        '$PARTITA_REMOTE_STATS"', cwd=self.path("."))
        self.assertEqual(result.stdout.split()[:3], ["tcp:127.0.0.1:1", "CPU-2", "1"])
        self.assertTrue(os.path.isabs(result.stdout.split()[3]))

    def test_a_file_that_cannot_be_written_is_said_before_the_program_runs(self):
        for flag in ("--stats", "--kernel-times", "--record-kernels"):
            for file in ("/nowhere/at/all", self.path(".")):
                result = self.run_words("echo", "ran", flags=(flag, file))
                self.assertEqual((result.returncode, result.stdout), (3, ""), result.stderr)
                self.assertIn(file, result.stderr)
        for flag in ("--metrics", "--kernel-times"):
            result = remote("serve", "--listen", "unix:" + self.path("s"), flag, "/nowhere/m")
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("/nowhere/m", result.stderr)
        result = self.run_words("true", flags=("--stats", self.path("new.json")))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse(os.path.exists(self.path("new.json")))

    def test_a_program_that_is_not_there(self):
        result = self.run_words("no-such-program-here")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no-such-program-here: no such program in PATH", result.stderr)
        self.assertEqual(remote("run").returncode, 2)


class ProgramsTest(CliTest):
    """The build's own CUDA programs; each checks itself."""

    def setUp(self):
        super().setUp()
        wanted = [os.path.join(PROGRAMS, name) for name in ("reduction", "streams")]
        if not all(os.path.exists(path) for path in wanted):
            self.skipTest("this build made no CUDA programs")

    def test_a_program_on_a_private_server(self):
        stats = self.path("stats.json")
        result = remote("run", "--stats", stats, "--", os.path.join(PROGRAMS, "reduction"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("right", result.stdout)
        counts = json.loads(self.read(stats))
        self.assertEqual(counts["kind"], "RemoteStats")
        self.assertGreater(counts["kernels"], 0)
        self.assertEqual(counts["blocking_round_trips"],
                         sum(counts["blocking_by_cause"].values()))
        self.assertEqual(counts["blocking_by_cause"]["session"], 1)

    def test_kernel_times_on_a_full_disk_are_no_success(self):
        for program, want in ((("true", ), 0), ((os.path.join(PROGRAMS, "reduction"), ), 3)):
            result = remote("run", "--kernel-times", "/dev/full", "--", *program)
            self.assertEqual(result.returncode, want, result.stdout + result.stderr)
        self.assertIn("/dev/full: the times of kernels cannot be written", result.stderr)
        result = remote("run", "--stats", "/dev/full", "--", *program)
        self.assertIn("/dev/full cannot be written", result.stderr)

    def test_each_program_of_several_has_its_counts(self):
        result = remote("run", "--stats", self.path("s.json"), "--", "sh", "-c",
                        '"$1/reduction"; "$1/streams"', "sh", PROGRAMS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        files = [name for name in os.listdir(self.path(".")) if name.startswith("s.json")]
        self.assertEqual(len(files), 2, files)
        self.assertIn("s.json", files)
        kernels = {json.loads(self.read(self.path(name)))["kernels"] for name in files}
        self.assertEqual(len(kernels), 2, "the counts of one program twice")

    def test_a_fault_under_the_checks_is_the_exit_status(self):
        faulty = os.path.join(PROGRAMS, "faulty")
        for fault, words in (("race", "race: read of"), ("fresh", "uninitialised: read of"),
                             ("early", "without it ended: warps 2-3"), ("bounds", "out of bounds")):
            result = remote("run", "--check", "--", faulty, fault)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertIn(words, result.stderr)
        plain = remote("run", "--", faulty, "early")
        self.assertEqual((plain.returncode, plain.stderr), (0, ""), plain.stdout)
        for status, want in (("9", 9), ("0", 0)):
            result = remote("run", "--check", "--fault-exit", status, "--", faulty, "early")
            self.assertEqual(result.returncode, want, result.stdout + result.stderr)
            self.assertIn("divergence", result.stderr)
        for more in ((), ("--check", ), ("--check", "--fault-exit", "9")):  # nothing is wrong
            self.assertEqual(remote("run", *more, "--", faulty).returncode, 0)
        # The program's own failure stays one, and a fault is told where the program says nothing.
        failing = ("sh", "-c", f"'{faulty}' $1; exit 5", "sh")
        self.assertEqual(remote("run", "--check", "--", *failing, "none").returncode, 5)
        self.assertEqual(remote("run", "--check", "--", *failing, "race").returncode, 1)
        self.assertEqual(remote("run", "--fault-exit", "3", "--", "true").returncode, 0)

    def test_a_launch_that_failed_is_no_success(self):
        """A program that looks at no error, and one that asks which it is."""
        faulty = os.path.join(PROGRAMS, "faulty")
        result = remote("run", "--", faulty, "refused", "unseen")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("a launch failed, and the program did not ask for its error", result.stderr)
        for words in (("bounds", "unseen"), ("bounds", "reset"), ("none", "graph")):
            result = remote("run", "--", faulty, *words)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertIn("the program did not ask for its error", result.stderr)
        for words in (("none", "unseen"), ("none", "reset")):
            result = remote("run", "--", faulty, *words)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        passed_on = remote("run", "--fault-exit", "0", "--", faulty, "refused", "unseen")
        self.assertEqual(passed_on.returncode, 0, passed_on.stdout + passed_on.stderr)
        asks = remote("run", "--", "sh", "-c", f"'{faulty}' bounds || exit 0")
        self.assertEqual(asks.returncode, 0, asks.stdout + asks.stderr)
        self.assertNotIn("did not ask", asks.stderr)

    def test_code_that_is_refused_is_no_success(self):
        """Alone in its module or beside a good kernel; the program asks, and looks at nothing."""
        for words in ((), ("good", )):
            result = remote("run", "--", "python3", "-c", REFUSED, *words)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            end = result.stderr.split("the session ended with error 218")[1]
            self.assertRegex(end, "refused in this program: .*'wgmma.fence.sync.aligned' is not")
            self.assertIn("no success", end)
            self.assertNotIn("did not ask", end)

    def test_what_is_wrong_with_code_is_in_the_programs_log(self):
        """Cut where the buffer ends; nothing where nothing is wrong."""
        result = remote("run", "--", "python3", "-c", REFUSED, "log")
        refused, none, good = result.stdout.splitlines()
        text = "module_load: ptx:4: 'wgmma.fence.sync.aligned' is not supported"[:59]
        self.assertEqual(refused, f"218|59|{text}", result.stderr)
        self.assertRegex(none, r"209\|\d+\|.*neither PTX nor a cubin")
        self.assertEqual(good, "0|0|", result.stderr)

    def test_a_program_that_ran_nothing_is_no_success(self):
        """It looks at no error and leaves without exit handlers."""
        ignored = (os.path.join(PROGRAMS, "faulty"), "ignored")
        for flags in ((), ("--server", "unix:/nowhere/sock"), ("--profile", "CPU-99")):
            result = remote("run", *flags, "--", *ignored)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            result = remote("run", "--fault-exit", "0", *flags, "--", *ignored)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        # Of several programs, too; and one that asks takes back only its own.
        bounds = (os.path.join(PROGRAMS, "faulty"), "bounds")
        result = remote("run", "--", "sh", "-c", '"$1" ignored; "$1" bounds; true', "sh", *ignored)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        result = remote("run", "--", "sh", "-c", '"$1" bounds; true', "sh", *bounds)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_what_was_launched_last_is_checked_too(self):
        """A program that waits for nothing before it ends."""
        last = remote("run", "--check", "--", os.path.join(PROGRAMS, "faulty"), "early", "unseen")
        self.assertEqual(last.returncode, 1, last.stdout + last.stderr)
        self.assertIn("divergence", last.stderr)

    def test_a_recording_is_written(self):
        result = remote("run", "--record", self.path("r"), "--",
                        os.path.join(PROGRAMS, "streams"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertGreater(os.path.getsize(self.path("r")), 1000)


class InstancesOnDemandTest(CliTest):
    """MIG instances of a simulated GPU for sessions on the simulated libcuda."""

    SIMULATED_CUDA = os.path.join(os.path.dirname(PROGRAM), "src", "remote", "cuda",
                                  "libremote_cuda_sim.so")
    PROGRAM_TEXT = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def ok(status):
    if status: sys.exit(f"status {status}")
ok(cuda.cuInit(0))
context, device = ctypes.c_void_p(), ctypes.c_int()
ok(cuda.cuDeviceGet(ctypes.byref(device), 0))
ok(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device))
memory = ctypes.c_uint64()
ok(cuda.cuMemAlloc_v2(ctypes.byref(memory), 64))
ok(cuda.cuMemcpyHtoD_v2(memory, b"x" * 64, 64))
back = ctypes.create_string_buffer(64)
ok(cuda.cuMemcpyDtoH_v2(back, memory, 64))
name = ctypes.create_string_buffer(100)
ok(cuda.cuDeviceGetName(name, 100, device))
print(back.raw == b"x" * 64, name.value.decode(), flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]): time.sleep(0.01)
"""

    def setUp(self):
        super().setUp()
        if not os.path.exists(self.SIMULATED_CUDA):
            self.skipTest("this build made no simulated libcuda")
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 2, mig: true}]\n"
                   "state: node.state\nspeed: 0\n")
        self.write("program.py", self.PROGRAM_TEXT)
        self.address = "unix:" + self.path("s")

    def serve(self, *words):
        server = subprocess.Popen(
            [PROGRAM, "remote", "serve", "--listen", self.address, "--backend", "cuda",
             "--library", self.SIMULATED_CUDA, "--state-dir", self.path("state"), "--no-sandbox",
             *(words or ("--gpu", "1", "--driver", "sim", "--machine", self.path("machine.yaml")))],
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PATH": f"{MPS}:{os.environ['PATH']}"})
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertIn("listening", server.stdout.readline())
        return server

    def start(self, profile, *words):
        command = [PROGRAM, "remote", "run", "--server", self.address, "--profile", profile, "--",
                   "python3", self.path("program.py"), *words]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        return running

    def profiles(self, wanted):
        end = time.monotonic() + 30
        while True:
            status = subprocess.run([PROGRAM, "status", "--driver", "sim", "--machine",
                                     self.path("machine.yaml"), "--format", "json"],
                                    capture_output=True, text=True, check=True).stdout
            found = [sorted(one["profile"] for one in gpu["instances"])
                     for gpu in json.loads(status)["gpus"]]
            if found == wanted or time.monotonic() > end:
                return self.assertEqual(found, wanted)

    def test_instances_come_with_sessions_and_go_with_them(self):
        server = self.serve()
        small, large = self.start("2g.20gb", self.path("go")), self.start("4g.40gb",
                                                                          self.path("go"))
        for running in (small, large):
            self.assertEqual(running.stdout.readline(), "True Simulated GPU\n")
        self.profiles([[], ["2g.20gb", "4g.40gb"]])
        refused = self.start("5g.50gb")
        self.assertIn("no part of shape 5g.50gb", refused.stdout.read())
        self.write("go", "")
        waited = self.start("7g.80gb")  # once the two have gone
        self.assertEqual(waited.stdout.readline(), "True Simulated GPU\n")
        for running in (small, large, waited):
            self.assertEqual(running.wait(30), 0)
        self.profiles([[], []])
        server.terminate()
        self.assertEqual(server.wait(30), 0)

    def test_after_a_kill_the_next_server_takes_back_what_was_lent(self):
        server = self.serve()
        running = self.start("1g.10gb", self.path("go"))
        self.assertEqual(running.stdout.readline(), "True Simulated GPU\n")
        server.kill()
        server.wait()
        self.write("go", "")
        running.wait(30)
        self.profiles([[], ["1g.10gb"]])
        self.serve()
        self.profiles([[], []])

    def test_shares_of_a_device_through_mps(self):
        device = "GPU-0a1b"
        server = self.serve("--shape", f"25%={device}", "--shape", f"70%={device}")
        for share in ("25", "70"):
            running = self.start(share + "%")
            self.assertEqual(running.stdout.readline(),
                             f"True Simulated GPU, {share} % of {device}\n")
            self.assertEqual(running.wait(30), 0)
        logs = [os.path.join(folder, "control.log")
                for folder, _, names in os.walk(self.path("state")) if "control.log" in names]
        self.assertEqual(len(logs), 1)  # one daemon, of that device
        self.assertIn(f"device {device}", self.read(logs[0]))
        server.terminate()
        self.assertEqual(server.wait(30), 0)
        left = [name for _, _, names in os.walk(self.path("state")) for name in names]
        self.assertNotIn("nvidia-cuda-mps-control.pid", left)
        for wrong, word in ((("25%=",), "25%=UUID"), (("60%", "50%"), "%"), (("0%",), "%"),
                            (("x%",), "25%")):
            words = [part for shape in wrong for part in ("--shape", shape)]
            refused = remote("serve", "--listen", self.address, "--backend", "cuda", *words)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(word, refused.stderr)

    def test_what_cannot_be(self):
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 2, mig: false}]\n"
                   "state: off.state\nspeed: 0\n")
        words = ("serve", "--listen", self.address, "--driver", "sim", "--machine",
                 self.path("machine.yaml"), "--gpu", "0")
        off = remote(*words, "--backend", "cuda", "--library", self.SIMULATED_CUDA)
        self.assertEqual(off.returncode, 3, off.stderr)
        self.assertIn("MIG is off on GPU 0", off.stderr)
        self.assertEqual(remote(*words).returncode, 2)  # the back end is the cpu's


class DoctorTest(CliTest):
    def test_a_program_without_device_code_can_run(self):
        result = remote("doctor", "sh")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("can run", result.stdout)
        self.assertIn("no device code", result.stdout)

    def test_what_is_no_executable_is_refused(self):
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("hello")
        result = remote("doctor", self.path("text"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("not a 64-bit ELF file", result.stderr)

    def test_imports_of_refused_functions_are_named(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        with open(self.path("p.c"), "w", encoding="utf-8") as file:
            file.write("int cudaMallocMipmappedArray(void**, long, int); int cudaFree(void*);\n"
                       "int main() { return cudaMallocMipmappedArray(0, 1, 1) + cudaFree(0); }\n")
        subprocess.run([compiler, self.path("p.c"), "-o", self.path("p"), "-fno-lto",
                        os.path.join(LIBRARIES, "libcudart.so.13"), "-Wl,--allow-shlib-undefined"],
                       check=True)
        result = remote("doctor", "--format", "json", self.path("p"))
        found = json.loads(result.stdout)
        self.assertEqual((result.returncode, found["can_run"]), (1, False))
        self.assertEqual(found["unsupported"], ["cudaMallocMipmappedArray"])
        self.assertEqual(found["runtime"], "libcudart.so.13")

    def test_cublas_is_there_but_for_what_it_refuses(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        for function, runs, on_a_gpu in (("cublasSgemm_v2", True, False),
                                         ("cublasCherk_v2", True, True),
                                         ("cublasCher2k_v2", False, False)):
            with open(self.path("p.c"), "w", encoding="utf-8") as file:
                file.write(f"int {function}(); int main() {{ return {function}(); }}\n")
            subprocess.run([compiler, self.path("p.c"), "-o", self.path("p"), "-fno-lto",
                            os.path.join(LIBRARIES, "libcublas.so.13"),
                            "-Wl,--allow-shlib-undefined"], check=True)
            found = json.loads(remote("doctor", "--format", "json", self.path("p")).stdout)
            self.assertEqual((found["can_run"], found["unsupported"]),
                             (runs, [] if runs else [function]))
            self.assertEqual([function in note for note in found["remarks"] if "GPU and" in note],
                             [True] if on_a_gpu else [])


class LibrariesTest(CliTest):
    def symbols(self, library):
        if shutil.which("nm") is None:
            self.skipTest("no nm")
        text = subprocess.run(["nm", "-D", "--defined-only", os.path.join(LIBRARIES, library)],
                              capture_output=True, text=True, check=True).stdout
        return [line.split()[-1] for line in text.splitlines() if " A " not in line]

    def test_they_show_cudas_names_only_under_cudas_versions(self):
        for version in ("12", "13"):
            names = self.symbols(f"libcudart.so.{version}")
            self.assertIn(f"cudaMalloc@@libcudart.so.{version}", names)
            wrong = [name for name in names
                     if not re.fullmatch(rf"(__)?cuda\w+@@libcudart\.so\.{version}", name)]
            self.assertEqual(wrong, [])
        for library in ("libcublas.so.12", "libcublas.so.13", "libcufft.so.11", "libcufft.so.12",
                        "libcurand.so.10", "libcusparse.so.12", "libcusolver.so.11",
                        "libcusolver.so.12", "libcudnn.so.9"):
            prefix = library[3:].split(".")[0]
            wrong = [name for name in self.symbols(library)
                     if not re.fullmatch(rf"{prefix}\w+@@{re.escape(library)}", name)]
            self.assertEqual(wrong, [])
        names = self.symbols("libpartita-nvrtc.so")
        linker = r"__nvJitLink(Create|GetLinkedCubin(Size)?)_1[23]_\d"
        self.assertEqual([name for name in names if not re.fullmatch(linker, name)],
                         ["nvrtcGetCUBIN", "nvrtcGetCUBINSize"])
        self.assertEqual(sorted(self.symbols("libpartita-audit.so")),
                         ["la_objsearch", "la_version"])
        wrong = [name for name in self.symbols("libcuda.so.1")
                 if not re.fullmatch(r"cu[A-Z]\w*", name)]
        self.assertEqual(wrong, [])

    def test_a_program_with_a_library_of_its_own_gets_ours(self):
        """By a path that comes before LD_LIBRARY_PATH, and by the file's own."""
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        os.mkdir(self.path("brought"))
        with open(self.path("brought.c"), "w", encoding="utf-8") as file:
            file.write("int cudaDriverGetVersion(int* version) { return *version = 77; }\n")
        subprocess.run([compiler, "-shared", "-fPIC", self.path("brought.c"), "-o",
                        self.path("brought/libcudart.so.13"), "-Wl,-soname,libcudart.so.13"],
                       check=True)
        with open(self.path("p.c"), "w", encoding="utf-8") as file:
            file.write(f"""#include <dlfcn.h>
int cudaDriverGetVersion(int*);
int main(void) {{
  int version = 0, other = 0;
  void* file = dlopen("{self.path('brought/libcudart.so.13')}", RTLD_NOW);
  int (*again)(int*) = (int (*)(int*))dlsym(file, "cudaDriverGetVersion");
  return cudaDriverGetVersion(&version) + again(&other) + (version < 12000) + (other < 12000);
}}
""")
        subprocess.run([compiler, self.path("p.c"), "-o", self.path("p"), "-fno-lto", "-ldl",
                        self.path("brought/libcudart.so.13"), "-Wl,--disable-new-dtags",
                        f"-Wl,-rpath,{self.path('brought')}"], check=True)
        self.assertEqual(subprocess.run([self.path("p")], check=False).returncode, 156)
        result = remote("run", "--", self.path("p"))
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)

    def test_they_need_nothing_but_libc_and_one_another(self):
        if shutil.which("readelf") is None:
            self.skipTest("no readelf")
        for library in ("libcudart.so.12", "libcudart.so.13", "libcuda.so.1", "libcublas.so.12",
                        "libcublas.so.13", "libcufft.so.11", "libcufft.so.12", "libcurand.so.10",
                        "libcusparse.so.12", "libcusolver.so.12", "libcudnn.so.9",
                        "libpartita-audit.so", "libpartita-nvrtc.so", "libpartita-remote.so.1"):
            text = subprocess.run(["readelf", "-d", os.path.join(LIBRARIES, library)],
                                  capture_output=True, text=True, check=True).stdout
            needed = set(re.findall(r"NEEDED.*\[(.*)\]", text))
            self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2",
                                          "libpartita-remote.so.1"}, library)
            self.assertEqual(re.findall(r"SONAME.*\[(.*)\]", text), [library])


@unittest.skipUnless(NVCC, "no nvcc")
class CompilerTest(CliTest):
    """Programs as nvcc makes them: every form of a fat binary, and layouts against its headers."""

    def compile(self, name, source, *flags):
        with open(self.path(name + ".cu"), "w", encoding="utf-8") as file:
            file.write(source)
        subprocess.run([NVCC, "-o", self.path(name), self.path(name + ".cu"), *flags], check=True,
                       capture_output=True)
        return self.path(name)

    def test_every_form_of_a_fat_binary(self):
        for flags in (["-gencode", "arch=compute_80,code=compute_80"],
                      ["--no-compress", "-gencode", "arch=compute_80,code=compute_80"],
                      ["--compress-mode=size", "-gencode",
                       "arch=compute_80,code=[compute_80,sm_80]"],
                      ["--compress-mode=speed", "-gencode", "arch=compute_80,code=compute_80"]):
            program = self.compile("add", VECTOR_ADD, "-cudart", "shared", *flags)
            self.assertEqual(remote("doctor", program).returncode, 0)
            result = remote("run", "--", program)
            self.assertEqual((result.returncode, result.stdout), (0, "added\n"), result.stderr)

    def test_a_static_runtime_is_seen_and_refused(self):
        program = self.compile("add", VECTOR_ADD, "-gencode", "arch=compute_80,code=compute_80")
        result = remote("doctor", program)
        self.assertEqual(result.returncode, 1)
        self.assertIn("relink with `-cudart shared`", result.stdout)
        for words in ((program, ), ("sh", "-c", f"{program}; exit 0")):
            result = remote("run", "--", *words)
            self.assertNotEqual((result.returncode, result.stdout), (0, "added\n"))
            self.assertIn("relink with `-cudart shared`", result.stderr)
        result = remote("run", "--", program)
        self.assertEqual((result.returncode, result.stdout), (2, ""))

    def test_code_for_gpus_only_is_named(self):
        program = self.compile("add", VECTOR_ADD, "-cudart", "shared", "-gencode",
                               "arch=compute_80,code=sm_80")
        self.assertIn("no PTX inside", remote("doctor", program).stdout)
        result = remote("run", "--", program)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("device code for sm_80 only; the server needs PTX", result.stderr)

    def test_structures_are_laid_out_as_in_cudas_headers(self):
        told = subprocess.run([self.compile("layout", LAYOUT)], capture_output=True, text=True,
                              check=True).stdout.split()
        if int(told[0]) != 1008:
            self.skipTest("another CUDA than 13")
        self.assertEqual(told, ["1008", "256", "288", "308", "352", "360", "384", "552", "596",
                                "748", "672", "752", "144", "88", "56", "160"])


if __name__ == "__main__":
    unittest.main()
