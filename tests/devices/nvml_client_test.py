"""The simulated libnvidia-ml as a stranger sees it: a client in ctypes, written after NVML's public
interface and not after our declarations of it, and one in C.

Return codes: 0 success, 1 uninitialized, 2 invalid argument, 3 not supported, 6 not found, 7 size,
10 timeout, 16 reset required, 19 in use, 23 insufficient resources, 25 version mismatch.
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from ctypes import byref, c_char, c_int, c_uint, c_ulonglong, c_void_p, create_string_buffer

LIBRARY = pathlib.Path(os.environ["PARTITA"]).parent / "sim" / "libnvidia-ml.so.1"
NAME = 96


class PciInfo(ctypes.Structure):
    _fields_ = [("busIdLegacy", c_char * 16), ("domain", c_uint), ("bus", c_uint),
                ("device", c_uint), ("pciDeviceId", c_uint), ("pciSubSystemId", c_uint),
                ("busId", c_char * 32)]


class Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", c_uint), ("total", c_ulonglong), ("reserved", c_ulonglong),
                ("free", c_ulonglong), ("used", c_ulonglong)]


class Placement(ctypes.Structure):
    _fields_ = [("start", c_uint), ("size", c_uint)]


class GiProfile(ctypes.Structure):
    _fields_ = [(n, c_uint) for n in ("id", "isP2pSupported", "sliceCount", "instanceCount",
                                      "multiprocessorCount", "copyEngineCount", "decoderCount",
                                      "encoderCount", "jpegCount", "ofaCount")]
    _fields_ += [("memorySizeMB", c_ulonglong)]


class GiProfileV2(ctypes.Structure):
    _fields_ = [("version", c_uint)] + GiProfile._fields_ + [("name", c_char * NAME)]


class PciInfoExt(ctypes.Structure):
    _fields_ = [(n, c_uint) for n in ("version", "domain", "bus", "device", "pciDeviceId",
                                      "pciSubSystemId", "baseClass", "subClass")]
    _fields_ += [("busId", c_char * 32)]


class GiInfo(ctypes.Structure):
    _fields_ = [("device", c_void_p), ("id", c_uint), ("profileId", c_uint),
                ("placement", Placement)]


class CiProfile(ctypes.Structure):
    _fields_ = [(n, c_uint) for n in ("id", "sliceCount", "instanceCount", "multiprocessorCount",
                                      "sharedCopyEngineCount", "sharedDecoderCount",
                                      "sharedEncoderCount", "sharedJpegCount", "sharedOfaCount")]


class CiInfo(ctypes.Structure):
    _fields_ = [("device", c_void_p), ("gpuInstance", c_void_p), ("id", c_uint),
                ("profileId", c_uint), ("placement", Placement)]


class Attributes(ctypes.Structure):
    _fields_ = [(n, c_uint) for n in ("multiprocessorCount", "sharedCopyEngineCount",
                                      "sharedDecoderCount", "sharedEncoderCount",
                                      "sharedJpegCount", "sharedOfaCount", "gpuInstanceSliceCount",
                                      "computeInstanceSliceCount")]
    _fields_ += [("memorySizeMB", c_ulonglong)]


class Process(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("usedGpuMemory", c_ulonglong), ("gpuInstanceId", c_uint),
                ("computeInstanceId", c_uint)]


def call(name, *arguments):
    """The return code. Handles are integers here, so every argument that is one is a pointer."""
    function = getattr(nvml, name)
    function.restype = c_uint
    return function(*arguments)


def ask(kind, name, *arguments):
    """What the function writes to its last argument, a `kind`; the call must succeed."""
    out = kind()
    code = call(name, *arguments, byref(out))
    if code != 0:
        raise AssertionError(f"{name} answered {code}")
    return out.value if hasattr(out, "value") else out


def text(name, handle, size=NAME):
    buffer = create_string_buffer(size)
    assert call(name, handle, buffer, size) == 0, name
    return buffer.value.decode()


def gpu(index):
    return c_void_p(ask(c_void_p, "nvmlDeviceGetHandleByIndex_v2", index))


def create(device, profile_id, start=None, size=0):
    """Code and handle of a new GPU instance."""
    out = c_void_p()
    if start is None:
        return call("nvmlDeviceCreateGpuInstance", device, profile_id, byref(out)), out
    place = Placement(start, size)
    return call("nvmlDeviceCreateGpuInstanceWithPlacement", device, profile_id, byref(place),
                byref(out)), out


def create_compute(instance, profile_id):
    out = c_void_p()
    return call("nvmlGpuInstanceCreateComputeInstance", instance, profile_id, byref(out)), out


class MachineTest(unittest.TestCase):
    """Each test has a machine of its own and NVML initialised."""
    machine = "gpus: [{model: A100-80GB, count: 2, mig: true}]"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        description = pathlib.Path(self.folder.name) / "machine.yaml"
        description.write_text(f"{self.machine}\nstate: state\nspeed: 0\n")
        os.environ["PARTITA_SIM"] = str(description)
        self.assertEqual(call("nvmlInit_v2"), 0)

    def tearDown(self):
        self.assertEqual(call("nvmlShutdown"), 0)
        self.folder.cleanup()


class LibraryTest(MachineTest):
    def test_initialisation_is_counted(self):
        self.assertEqual(call("nvmlInitWithFlags", 0), 0)
        self.assertEqual(call("nvmlShutdown"), 0)
        self.assertEqual(ask(c_uint, "nvmlDeviceGetCount_v2"), 2)
        self.assertEqual(call("nvmlShutdown"), 0)
        self.assertEqual(call("nvmlDeviceGetCount_v2", byref(c_uint())), 1)
        self.assertEqual(call("nvmlShutdown"), 1)
        self.assertEqual(call("nvmlInit"), 0)

    def test_system(self):
        buffer = create_string_buffer(80)
        self.assertEqual(call("nvmlSystemGetDriverVersion", buffer, 80), 0)
        self.assertRegex(buffer.value.decode(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(call("nvmlSystemGetDriverVersion", buffer, 3), 7)
        self.assertEqual(call("nvmlSystemGetDriverVersion", None, 80), 2)
        self.assertGreaterEqual(ask(c_int, "nvmlSystemGetCudaDriverVersion_v2"), 12000)
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        for code, words in ((0, b"Success"), (1, b"Uninitialized"), (2, b"Invalid Argument"),
                            (3, b"Not Supported"), (6, b"Not Found"), (7, b"Insufficient Size"),
                            (9, b"Driver Not Loaded"), (19, b"In use by another client"),
                            (23, b"Insufficient Resources"), (123456, b"Unknown Error")):
            self.assertEqual(nvml.nvmlErrorString(code), words)

    def test_what_no_board_has(self):
        """Clients linked against NVML start only when all of their names are there."""
        for name in ("nvmlDeviceGetNvLinkVersion", "nvmlDeviceGetFanSpeedRPM",
                     "nvmlDeviceSetApplicationsClocks", "nvmlDeviceGetSupportedVgpus"):
            self.assertEqual(call(name, gpu(0), 0, byref(c_uint())), 3, name)
            self.assertEqual(call(name, c_void_p(16), 0, byref(c_uint())), 2, name)
        self.assertEqual(call("nvmlVgpuTypeGetName", 1, None, None), 3)
        self.assertEqual(call("nvmlUnitGetHandleByIndex", 0, byref(c_void_p())), 2)
        self.assertEqual(call("nvmlGetExcludedDeviceInfoByIndex", 0, None), 2)
        self.assertEqual(ask(c_uint, "nvmlUnitGetCount"), 0)

    def test_before_initialisation(self):
        self.assertEqual(call("nvmlShutdown"), 0)
        buffer = create_string_buffer(80)
        self.assertEqual(call("nvmlSystemGetNVMLVersion", buffer, 80), 0)
        self.assertRegex(buffer.value.decode(), r"^\d+\.\d+\.\d+")
        for name in ("nvmlSystemGetDriverVersion", "nvmlDeviceGetName", "nvmlDeviceGetFanSpeedRPM",
                     "nvmlVgpuTypeGetName", "nvmlGpuInstanceDestroy", "nvmlEventSetFree"):
            self.assertEqual(call(name, None, None, None), 1, name)
        self.assertEqual(call("nvmlInit_v2"), 0)

    def test_settings_are_kept_as_they_are(self):
        for name, present in (("nvmlDeviceSetPersistenceMode", 1), ("nvmlDeviceSetComputeMode", 0),
                              ("nvmlDeviceSetEccMode", 1), ("nvmlDeviceSetAccountingMode", 0)):
            self.assertEqual(call(name, gpu(0), present), 0, name)
            self.assertEqual(call(name, gpu(0), 1 - present), 3, name)
            self.assertEqual(call(name, gpu(0), 7), 2, name)

    def test_finding_and_identity(self):
        first, second = gpu(0), gpu(1)
        self.assertNotEqual(first.value, second.value)
        self.assertEqual(gpu(0).value, first.value)
        self.assertEqual(call("nvmlDeviceGetHandleByIndex_v2", 2, byref(c_void_p())), 2)
        self.assertEqual(text("nvmlDeviceGetName", first), "NVIDIA A100-SXM4-80GB")
        uuid = text("nvmlDeviceGetUUID", second)
        self.assertRegex(uuid, r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertEqual(ask(c_void_p, "nvmlDeviceGetHandleByUUID", uuid.encode()), second.value)
        self.assertEqual(call("nvmlDeviceGetHandleByUUID", b"GPU-0", byref(c_void_p())), 6)
        pci = ask(PciInfo, "nvmlDeviceGetPciInfo_v3", second)
        self.assertEqual(pci.pciDeviceId, 0x20B210DE)
        self.assertEqual(pci.busId.decode(), f"{pci.domain:08X}:{pci.bus:02X}:{pci.device:02X}.0")
        for bus in (pci.busId, pci.busIdLegacy, pci.busId.lower()):
            self.assertEqual(ask(c_void_p, "nvmlDeviceGetHandleByPciBusId_v2", bus), second.value)
        extended = PciInfoExt(version=1 << 24 | 64)
        self.assertEqual(call("nvmlDeviceGetPciInfoExt", second, byref(extended)), 0)
        self.assertEqual((extended.bus, extended.busId, extended.pciDeviceId),
                         (pci.bus, pci.busId, pci.pciDeviceId))
        extended.version = 64
        self.assertEqual(call("nvmlDeviceGetPciInfoExt", second, byref(extended)), 25)
        serial = text("nvmlDeviceGetSerial", second)
        self.assertEqual(ask(c_void_p, "nvmlDeviceGetHandleBySerial", serial.encode()),
                         second.value)
        self.assertEqual(ask(c_uint, "nvmlDeviceGetIndex", second), 1)
        self.assertEqual(ask(c_uint, "nvmlDeviceGetMinorNumber", second), 1)
        major, minor = c_int(), c_int()
        self.assertEqual(call("nvmlDeviceGetCudaComputeCapability", first, byref(major),
                              byref(minor)), 0)
        self.assertEqual((major.value, minor.value), (8, 0))

    def test_older_callers_are_not_written_past_their_struct(self):
        for name, size in (("nvmlDeviceGetPciInfo", 32), ("nvmlDeviceGetPciInfo_v2", 36)):
            buffer = create_string_buffer(b"\xAA" * 68, 68)
            self.assertEqual(call(name, gpu(0), buffer), 0)
            self.assertEqual(buffer.raw[size:], b"\xAA" * (68 - size), name)

    def test_wrong_arguments(self):
        self.assertEqual(call("nvmlDeviceGetCount_v2", None), 2)
        self.assertEqual(call("nvmlDeviceGetIndex", gpu(0), None), 2)
        self.assertEqual(call("nvmlDeviceGetName", gpu(0), create_string_buffer(8), 8), 7)
        for strange in (c_void_p(0), c_void_p(16), c_void_p(ctypes.addressof(c_uint()))):
            self.assertEqual(call("nvmlDeviceGetIndex", strange, byref(c_uint())), 2)
            self.assertEqual(call("nvmlGpuInstanceGetInfo", strange, byref(GiInfo())), 2)
            self.assertEqual(call("nvmlGpuInstanceDestroy", strange), 2)
            self.assertEqual(call("nvmlComputeInstanceDestroy", strange), 2)

    def test_telemetry(self):
        memory = ask(Memory, "nvmlDeviceGetMemoryInfo", gpu(0))
        self.assertEqual(memory.total, 81920 << 20)
        self.assertEqual(memory.free + memory.used, memory.total)
        v2 = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        self.assertEqual(call("nvmlDeviceGetMemoryInfo_v2", gpu(0), byref(v2)), 0)
        self.assertEqual(v2.free + v2.used + v2.reserved, v2.total)
        v2.version = ctypes.sizeof(MemoryV2) | 3 << 24
        self.assertEqual(call("nvmlDeviceGetMemoryInfo_v2", gpu(0), byref(v2)), 25)
        self.assertEqual(call("nvmlDeviceGetUtilizationRates", gpu(0), byref(Placement())), 3)
        power = ask(c_uint, "nvmlDeviceGetPowerUsage", gpu(0))
        limit = ask(c_uint, "nvmlDeviceGetEnforcedPowerLimit", gpu(0))
        self.assertTrue(0 < power < limit)
        before = ask(c_ulonglong, "nvmlDeviceGetTotalEnergyConsumption", gpu(0))
        set_ = c_void_p(ask(c_void_p, "nvmlEventSetCreate"))
        self.assertEqual(call("nvmlDeviceRegisterEvents", gpu(0), c_ulonglong(8), set_), 0)
        self.assertEqual(call("nvmlEventSetWait_v2", set_, create_string_buffer(32), 20), 10)
        self.assertEqual(call("nvmlEventSetFree", set_), 0)
        self.assertEqual(call("nvmlEventSetFree", set_), 2)
        after = ask(c_ulonglong, "nvmlDeviceGetTotalEnergyConsumption", gpu(0))
        self.assertGreaterEqual(after - before, 20 * power // 1000)  # mJ in 20 ms


class GpuInstanceTest(MachineTest):
    def test_profiles_of_an_a100(self):
        # enumerator: id, slices, most, SMs, MiB, name, placements
        known = {0: (19, 1, 7, 14, 9728, "MIG 1g.10gb", [(s, 1) for s in range(7)]),
                 1: (14, 2, 3, 28, 19968, "MIG 2g.20gb", [(0, 2), (2, 2), (4, 2)]),
                 2: (9, 3, 2, 42, 40192, "MIG 3g.40gb", [(0, 4), (4, 4)]),
                 3: (5, 4, 1, 56, 40192, "MIG 4g.40gb", [(0, 4)]),
                 4: (0, 7, 1, 98, 80640, "MIG 7g.80gb", [(0, 8)]),
                 7: (20, 1, 1, 14, 9728, "MIG 1g.10gb+me", [(s, 1) for s in range(7)]),
                 9: (15, 1, 4, 14, 19968, "MIG 1g.20gb", [(0, 2), (2, 2), (4, 2), (6, 2)])}
        found = {}
        for i in range(18):
            v1, v2 = GiProfile(), GiProfileV2(version=ctypes.sizeof(GiProfileV2) | 2 << 24)
            code = call("nvmlDeviceGetGpuInstanceProfileInfo", gpu(0), i, byref(v1))
            self.assertEqual(call("nvmlDeviceGetGpuInstanceProfileInfoV", gpu(0), i, byref(v2)),
                             code)
            if code == 3:
                continue
            self.assertEqual(code, 0)
            self.assertEqual([getattr(v1, f) for f, _ in GiProfile._fields_],
                             [getattr(v2, f) for f, _ in GiProfile._fields_])
            count = c_uint()
            for places in (None, (Placement * 16)()):
                self.assertEqual(call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", gpu(0),
                                      v1.id, places, byref(count)), 0)
            by_id = GiProfileV2(version=v2.version)
            self.assertEqual(call("nvmlDeviceGetGpuInstanceProfileInfoByIdV", gpu(0), v1.id,
                                  byref(by_id)), 0)
            self.assertEqual(bytes(by_id), bytes(v2))
            found[i] = (v1.id, v1.sliceCount, v1.instanceCount, v1.multiprocessorCount,
                        v1.memorySizeMB, v2.name.decode(),
                        [(p.start, p.size) for p in places[:count.value]])
        self.assertEqual(found, known)
        self.assertEqual(call("nvmlDeviceGetGpuInstanceProfileInfo", gpu(0), 99, byref(v1)), 2)
        v2.version = 7
        self.assertEqual(call("nvmlDeviceGetGpuInstanceProfileInfoV", gpu(0), 0, byref(v2)), 25)

    def test_life_of_an_instance(self):
        code, instance = create(gpu(1), 9, 4, 4)
        self.assertEqual(code, 0)
        info = ask(GiInfo, "nvmlGpuInstanceGetInfo", instance)
        self.assertEqual((info.device, info.profileId, info.placement.start, info.placement.size),
                         (gpu(1).value, 9, 4, 4))
        self.assertEqual(ask(c_void_p, "nvmlDeviceGetGpuInstanceById", gpu(1), info.id),
                         instance.value)
        self.assertEqual(create(gpu(1), 9, 4, 4)[0], 23)  # taken
        self.assertEqual(create(gpu(1), 19, 5, 1)[0], 23)  # a part of it is taken
        self.assertEqual(create(gpu(1), 9, 2, 4)[0], 2)  # no such start
        self.assertEqual(create(gpu(1), 9, 0, 3)[0], 2)  # no such size
        self.assertEqual(create(gpu(1), 77, 0, 4)[0], 2)  # no such profile
        self.assertEqual(ask(c_uint, "nvmlDeviceGetGpuInstanceRemainingCapacity", gpu(1), 19), 4)
        listed, count = (c_void_p * 8)(), c_uint()
        self.assertEqual(call("nvmlDeviceGetGpuInstances", gpu(1), 9, listed, byref(count)), 0)
        self.assertEqual(listed[:count.value], [instance.value])
        self.assertEqual(call("nvmlGpuInstanceDestroy", instance), 0)
        self.assertEqual(call("nvmlGpuInstanceDestroy", instance), 2)
        self.assertEqual(call("nvmlGpuInstanceGetInfo", instance, byref(info)), 2)
        self.assertEqual(call("nvmlDeviceGetGpuInstanceById", gpu(1), info.id, byref(listed)), 6)

    def test_the_driver_chooses_the_place(self):
        made = [create(gpu(0), 19) for _ in range(8)]
        self.assertEqual([code for code, _ in made], [0] * 7 + [23])
        starts = [ask(GiInfo, "nvmlGpuInstanceGetInfo", i).placement.start for _, i in made[:7]]
        self.assertEqual(sorted(starts), list(range(7)))

    def test_threads(self):
        codes = []
        threads = [threading.Thread(target=lambda: codes.append(create(gpu(0), 19)[0]))
                   for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(codes), [0] * 7 + [23] * 5)

    def test_two_processes_see_one_machine(self):
        script = ("import sys; sys.argv = ['']; import nvml_client_test as t\n"
                  "t.load(); t.call('nvmlInit_v2'); code, made = t.create(t.gpu(0), 5, 0, 4)\n"
                  "print(code, t.create_compute(made, 3)[0])")
        environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(__file__).parent))
        told = subprocess.run([sys.executable, "-c", script], env=environment, check=True,
                              capture_output=True, text=True)
        self.assertEqual(told.stdout, "0 0\n")
        listed, count = (c_void_p * 8)(), c_uint()
        self.assertEqual(call("nvmlDeviceGetGpuInstances", gpu(0), 5, listed, byref(count)), 0)
        self.assertEqual(count.value, 1)
        mig = c_void_p(ask(c_void_p, "nvmlDeviceGetMigDeviceHandleByIndex", gpu(0), 0))
        self.assertEqual(text("nvmlDeviceGetName", mig), "NVIDIA A100-SXM4-80GB MIG 4g.40gb")


class ReadingTest(MachineTest):
    """The state counts every changing call, refused ones too, where the machine has faults."""
    machine = ("gpus: [{model: A100-80GB}, {model: H200-141GB, mig: false}]\n"
               "instances: [{gpu: 0, profile: 3g.40gb, start: 4}]\n"
               "faults: [{call: 1000}]")

    def test_reading_commands_change_nothing(self):
        before = self.state()
        for command in ("status", "capture"):
            subprocess.run([os.environ["PARTITA"], command, "--driver", "nvml"], check=True,
                           stdout=subprocess.DEVNULL,
                           env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)})
            self.assertEqual(self.state(), before, command)
        self.assertEqual(create(gpu(0), 77)[0], 2)  # refused before it is a change
        self.assertEqual(self.state(), before)
        self.assertEqual(create(gpu(0), 9, 4, 4)[0], 23)
        self.assertNotEqual(self.state(), before)

    def state(self):
        return (pathlib.Path(self.folder.name) / "state").read_bytes()


class BoardTest(MachineTest):
    machine = ("gpus: [{model: A30-24GB}, {model: H200-141GB}, {model: B300-269GB},"
               " {model: GH200-144GB}, {model: GB200-186GB}]")

    def test_every_board_has_figures(self):
        """Also where the catalogue knows neither memory nor multiprocessors."""
        limits = []
        for i in range(5):
            memory = ask(Memory, "nvmlDeviceGetMemoryInfo", gpu(i)).total >> 20
            limits.append(ask(c_uint, "nvmlDeviceGetPowerManagementLimit", gpu(i)) // 1000)
            self.assertGreater(ask(c_uint, "nvmlDeviceGetNumGpuCores", gpu(i)), 0)
            most = {}  # multiprocessors and memory by slices
            for enum in (0, 1, 2, 3, 4):
                profile = GiProfile()
                if call("nvmlDeviceGetGpuInstanceProfileInfo", gpu(i), enum, byref(profile)) == 0:
                    most[profile.sliceCount] = (profile.multiprocessorCount, profile.memorySizeMB)
            self.assertLessEqual(max(most.values())[1], memory)
            self.assertEqual(sorted(most.values()), [most[k] for k in sorted(most)])
            self.assertGreater(most[1], (0, 0))
        self.assertEqual(limits, [165, 700, 1100, 700, 1000])


class OvertakenTest(MachineTest):
    """The first destruction waits a moment before it happens."""
    machine = ("gpus: [{model: A100-80GB}]\n"
               "faults: [{method: destroy_instance, call: 1, hang_s: 0.5, after_effect: true}]")

    def test_a_handle_never_takes_another_instance(self):
        code, old = create(gpu(0), 5, 0, 4)  # the ids of halves are two: both are taken
        self.assertEqual(code, 0)
        self.assertEqual(create(gpu(0), 9, 4, 4)[0], 0)
        id_ = ask(GiInfo, "nvmlGpuInstanceGetInfo", old).id
        slow = threading.Thread(target=call, args=("nvmlGpuInstanceDestroy", old))
        slow.start()
        state = pathlib.Path(self.folder.name) / "state"
        while "destroy_instance" not in state.read_text():  # the count of its calls
            time.sleep(0.01)
        self.assertEqual(call("nvmlGpuInstanceDestroy", old), 0)
        code, fresh = create(gpu(0), 9, 0, 4)
        slow.join()
        self.assertEqual(code, 0)
        self.assertEqual(ask(GiInfo, "nvmlGpuInstanceGetInfo", fresh).id, id_)


class ComputeInstanceTest(MachineTest):
    def setUp(self):
        super().setUp()
        self.instance = create(gpu(0), 9, 0, 4)[1]

    def test_profiles_of_a_3g_instance(self):
        found = {}
        for i in range(9):
            info = CiProfile()
            code = call("nvmlGpuInstanceGetComputeInstanceProfileInfo", self.instance, i, 0,
                        byref(info))
            if code == 0:
                found[i] = (info.id, info.sliceCount, info.instanceCount, info.multiprocessorCount)
            else:
                self.assertEqual(code, 3)
        self.assertEqual(found, {0: (0, 1, 3, 14), 1: (1, 2, 1, 28), 2: (2, 3, 1, 42)})
        self.assertEqual(call("nvmlGpuInstanceGetComputeInstanceProfileInfo", self.instance, 0, 1,
                              byref(info)), 2)

    def test_mig_devices(self):
        self.assertEqual(ask(c_uint, "nvmlDeviceGetMaxMigDeviceCount", gpu(0)), 7)
        self.assertEqual(call("nvmlDeviceGetMigDeviceHandleByIndex", gpu(0), 0,
                              byref(c_void_p())), 6)
        code, part = create_compute(self.instance, 0)
        self.assertEqual(code, 0)
        self.assertEqual(create_compute(self.instance, 2)[0], 23)
        self.assertEqual(ask(c_uint, "nvmlGpuInstanceGetComputeInstanceRemainingCapacity",
                             self.instance, 0), 2)
        info = ask(CiInfo, "nvmlComputeInstanceGetInfo_v2", part)
        self.assertEqual((info.device, info.gpuInstance, info.profileId, info.placement.size),
                         (gpu(0).value, self.instance.value, 0, 1))
        mig = c_void_p(ask(c_void_p, "nvmlDeviceGetMigDeviceHandleByIndex", gpu(0), 0))
        self.assertEqual(ask(c_uint, "nvmlDeviceIsMigDeviceHandle", mig), 1)
        self.assertEqual(ask(c_uint, "nvmlDeviceIsMigDeviceHandle", gpu(0)), 0)
        self.assertEqual(text("nvmlDeviceGetName", mig), "NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb")
        uuid = text("nvmlDeviceGetUUID", mig)
        self.assertTrue(uuid.startswith("MIG-"))
        self.assertEqual(ask(c_void_p, "nvmlDeviceGetHandleByUUID", uuid.encode()), mig.value)
        self.assertEqual(ask(c_void_p, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig),
                         gpu(0).value)
        attributes = ask(Attributes, "nvmlDeviceGetAttributes_v2", mig)
        self.assertEqual((attributes.multiprocessorCount, attributes.gpuInstanceSliceCount,
                          attributes.computeInstanceSliceCount, attributes.memorySizeMB),
                         (14, 3, 1, 40192))
        self.assertEqual(ask(Memory, "nvmlDeviceGetMemoryInfo", mig).total, 40192 << 20)
        # As nvidia-smi shows them on such a board: half of the GPU's window for 4 of 8 slices.
        self.assertEqual(ask(Memory, "nvmlDeviceGetBAR1MemoryInfo", gpu(0)).total, 131072 << 20)
        window = ask(Memory, "nvmlDeviceGetBAR1MemoryInfo", mig)
        self.assertEqual((window.total, window.free, window.used),
                         (65535 << 20, 65535 << 20, 0))
        self.assertEqual(call("nvmlDeviceGetMigMode", mig, byref(c_uint()), byref(c_uint())), 3)

        self.assertEqual(call("nvmlGpuInstanceDestroy", self.instance), 19)
        self.assertEqual(call("nvmlComputeInstanceDestroy", part), 0)
        self.assertEqual(call("nvmlDeviceGetUUID", mig, create_string_buffer(96), 96), 2)
        again = create_compute(self.instance, 0)
        mig = c_void_p(ask(c_void_p, "nvmlDeviceGetMigDeviceHandleByIndex", gpu(0), 0))
        self.assertNotEqual(text("nvmlDeviceGetUUID", mig), uuid)
        self.assertEqual(call("nvmlComputeInstanceDestroy", again[1]), 0)
        self.assertEqual(call("nvmlGpuInstanceDestroy", self.instance), 0)


class OccupiedTest(MachineTest):
    machine = ("gpus: [{model: A100-80GB, count: 1, mig: true}, {model: H100-80GB-SXM5, count: 1, "
               "mig: false}, {model: A100-80GB, count: 1, mig: false}]\n"
               "instances: [{gpu: 0, profile: 2g.20gb, start: 2}]\n"
               "processes: [{gpu: 0, start: 2, pid: 4711, name: train}]")

    def test_processes(self):
        mig = c_void_p(ask(c_void_p, "nvmlDeviceGetMigDeviceHandleByIndex", gpu(0), 0))
        for device in (gpu(0), mig):
            count = c_uint(0)
            name = "nvmlDeviceGetComputeRunningProcesses_v3"
            self.assertEqual(call(name, device, byref(count), None), 7)
            self.assertEqual(count.value, 1)
            room = (Process * 4)()
            count.value = 4
            self.assertEqual(call(name, device, byref(count), room), 0)
            self.assertEqual((count.value, room[0].pid), (1, 4711))
            self.assertEqual(room[0].gpuInstanceId, ask(c_uint, "nvmlDeviceGetGpuInstanceId", mig))
        buffer = create_string_buffer(64)
        self.assertEqual(call("nvmlSystemGetProcessName", 4711, buffer, 64), 0)
        self.assertEqual(buffer.value, b"train")
        self.assertEqual(call("nvmlSystemGetProcessName", 1, buffer, 64), 6)
        compute = (c_void_p * 8)()
        instance = (c_void_p * 8)()
        count = c_uint()
        self.assertEqual(call("nvmlDeviceGetGpuInstances", gpu(0), 14, instance, byref(count)), 0)
        self.assertEqual(call("nvmlGpuInstanceGetComputeInstances", c_void_p(instance[0]), 1,
                              compute, byref(count)), 0)
        self.assertEqual(call("nvmlComputeInstanceDestroy", c_void_p(compute[0])), 19)

    def mode(self, index):
        current, pending = c_uint(), c_uint()
        self.assertEqual(call("nvmlDeviceGetMigMode", gpu(index), byref(current), byref(pending)),
                         0)
        return current.value, pending.value

    def test_mig_mode(self):
        activation = c_uint()

        def set_mode(index, mode):
            self.assertEqual(call("nvmlDeviceSetMigMode", gpu(index), mode, byref(activation)), 0)
            return activation.value, self.mode(index)

        self.assertEqual(call("nvmlDeviceGetGpuInstances", gpu(1), 19, (c_void_p * 8)(),
                              byref(c_uint())), 3)
        self.assertEqual(set_mode(1, 1), (0, (1, 1)))  # Hopper: at once
        self.assertEqual(set_mode(2, 1), (16, (0, 1)))  # Ampere: after a reset
        self.assertEqual(set_mode(0, 0), (19, (1, 1)))  # in use
        self.assertEqual(call("nvmlDeviceSetMigMode", gpu(1), 2, byref(activation)), 2)


C_CLIENT = """
#include <stdio.h>
typedef struct nvmlDevice_st* nvmlDevice_t;
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t*);
int nvmlDeviceGetName(nvmlDevice_t, char*, unsigned);
int main(void) {
  nvmlDevice_t device = 0;
  char name[96];
  int code = nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(1, &device) ||
             nvmlDeviceGetName(device, name, sizeof name) || puts(name) < 0;
  return code || nvmlShutdown();
}
"""


class CClientTest(MachineTest):
    @unittest.skipUnless(shutil.which("gcc"), "no C compiler")
    def test_a_program_in_c_links_and_runs(self):
        source = pathlib.Path(self.folder.name) / "client.c"
        source.write_text(C_CLIENT)
        program = source.with_suffix("")
        subprocess.run(["gcc", "-std=c11", "-Wall", "-Werror", source, "-o", program,
                        f"-L{LIBRARY.parent}", "-lnvidia-ml"], check=True)
        told = subprocess.run([program], env=dict(os.environ, LD_LIBRARY_PATH=str(LIBRARY.parent)),
                              check=True, capture_output=True, text=True)
        self.assertEqual(told.stdout, "NVIDIA A100-SXM4-80GB\n")


def load():
    global nvml
    nvml = ctypes.CDLL(str(LIBRARY))


if __name__ == "__main__":
    if b"libasan" in LIBRARY.read_bytes():
        print("a library with the address sanitizer cannot be loaded into python")
        sys.exit(77)
    load()
    unittest.main()
