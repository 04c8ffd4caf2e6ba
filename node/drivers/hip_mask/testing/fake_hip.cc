// The simulated libamdhip64: HIP's and hiprtc's names over the machine. Each call checks that the
// thread has set its device and that handles are alive.
#include "drivers/hip_mask/testing/fake_hip.h"

#include <algorithm>
#include <cstring>

#include "drivers/hip_mask/testing/fake_call.h"

namespace partita::drivers::hip_mask::fake {
namespace {

using abi::Status;
constexpr std::size_t kDeviceMemory = std::size_t{16} << 30;
constexpr char kMagic[] = "FAKEHIP";

StreamState* alive(Machine& m, abi::Stream stream) { return m.find_stream(stream); }

EventState* alive(Machine& m, abi::Event event) {
  const auto found = m.events.find(event);
  return found == m.events.end() ? nullptr : &found->second;
}

bool on_board(const Machine& m, int device) { return device >= 0 && device < m.board.devices; }

}  // namespace

extern "C" {

// ---- controls ----

void fake_hip_board(const Board* board) {
  const Lock lock(machine().mutex);
  machine().reset(*board);
}
int fake_hip_alive() {
  const Lock lock(machine().mutex);
  return machine().alive();
}
const char* fake_hip_violation() {
  const Lock lock(machine().mutex);
  return machine().violation.c_str();
}
void fake_hip_fail(int number, int code) {
  const Lock lock(machine().mutex);
  machine().fails_in = number;
  machine().fails_with = code;
  machine().failed = false;
}
bool fake_hip_failed() {
  const Lock lock(machine().mutex);
  return machine().failed;
}
void fake_hip_take(const std::uint32_t* words, int count) {
  const Lock lock(machine().mutex);
  machine().taken.assign(words, words + count);
}
int fake_hip_created() {
  const Lock lock(machine().mutex);
  return machine().created;
}
void fake_hip_last_mask(std::uint32_t* words, int count) {
  const Lock lock(machine().mutex);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    words[i] = at < machine().last_mask.size() ? machine().last_mask[at] : 0;
  }
}

// ---- devices ----

Status hipGetDeviceCount(int* count) {
  return call("hipGetDeviceCount", Kind::plain, [&](Machine& m, Lock&) {
    *count = m.board.devices;
    return *count > 0 ? Status::success : Status::no_device;
  });
}
Status hipSetDevice(int device) {
  return call("hipSetDevice", Kind::plain, [&](Machine& m, Lock&) {
    if (!on_board(m, device)) return Status::invalid_device;
    device_of_thread = device;
    return Status::success;
  });
}
Status hipDeviceGetAttribute(int* value, abi::Attribute attribute, int device) {
  return call("hipDeviceGetAttribute", Kind::plain, [&](Machine& m, Lock&) {
    if (!on_board(m, device)) return Status::invalid_device;
    switch (attribute) {
      case abi::Attribute::multiprocessor_count:
      case abi::Attribute::physical_multiprocessor_count:
        *value = m.multiprocessors();
        return Status::success;
      case abi::Attribute::pci_bus:
        *value = 0x43;
        return Status::success;
      case abi::Attribute::pci_device:
      case abi::Attribute::pci_domain:
        *value = 0;
        return Status::success;
      default:  // as before HIP 6.4
        return Status::invalid_value;
    }
  });
}
Status hipDeviceGetName(char* name, int length, int device) {
  return call("hipDeviceGetName", Kind::plain, [&](Machine& m, Lock&) {
    if (!on_board(m, device) || length < 1) return Status::invalid_device;
    std::strncpy(name, m.board.name, static_cast<std::size_t>(length));
    return Status::success;
  });
}
Status hipDeviceComputeCapability(int* major, int* minor, int device) {
  return call("hipDeviceComputeCapability", Kind::plain, [&](Machine& m, Lock&) {
    if (!on_board(m, device)) return Status::invalid_device;
    *major = m.board.gfx / 10000;
    *minor = m.board.gfx / 100 % 100;
    return Status::success;
  });
}
const char* hipGetErrorString(Status) { return "an error of the simulated HIP"; }

// ---- streams ----

Status hipExtStreamCreateWithCUMask(abi::Stream* stream, std::uint32_t words,
                                    const std::uint32_t* mask) {
  return call("hipExtStreamCreateWithCUMask", Kind::on_device, [&](Machine& m, Lock&) {
    if (words == 0 || !mask) return Status::invalid_value;
    if (static_cast<int>(words) != (m.cus() + 31) / 32)
      m.violated("hipExtStreamCreateWithCUMask with another number of words than CUs need");
    auto state = std::make_unique<StreamState>();
    state->words.assign(mask, mask + words);
    m.last_mask = state->words;
    for (std::size_t i = 0; i < std::min(m.taken.size(), state->words.size()); ++i)
      state->words[i] &= ~m.taken[i];
    state->sites = m.sites_of(state->words);
    if (state->sites.empty()) {
      m.violated("hipExtStreamCreateWithCUMask with a mask on which nothing can run");
      return Status::out_of_memory;
    }
    *stream = static_cast<abi::Stream>(m.next_handle());
    m.start(*state);
    m.streams.emplace(*stream, std::move(state));
    ++m.created;
    return Status::success;
  });
}
// As HIP: of the bits that it counts multiprocessors, all when the stream has none of them.
Status hipExtStreamGetCUMask(abi::Stream stream, std::uint32_t words, std::uint32_t* mask) {
  return call("hipExtStreamGetCUMask", Kind::on_device, [&](Machine& m, Lock&) {
    const StreamState* state = alive(m, stream);
    if (!state) return Status::invalid_handle;
    const auto told = static_cast<std::uint32_t>(m.multiprocessors());
    if (words < (told + 31) / 32) return Status::invalid_value;
    std::vector<std::uint32_t> all((told + 31) / 32, 0xFFFFFFFF), has = all;
    if (told % 32 != 0) all.back() = (1u << told % 32) - 1;
    for (std::size_t i = 0; i < all.size(); ++i) has[i] = state->words[i] & all[i];
    if (std::ranges::all_of(has, [](std::uint32_t word) { return word == 0; })) has = all;
    std::ranges::copy(has, mask);
    return Status::success;
  });
}
Status hipStreamDestroy(abi::Stream stream) {
  return call("hipStreamDestroy", Kind::destroying, [&](Machine& m, Lock& lock) {
    StreamState* state = alive(m, stream);
    if (!state) return Status::invalid_handle;
    if (state->ended < state->given) m.violated("hipStreamDestroy of a stream with work");
    m.close(lock, stream);
    return Status::success;
  });
}
Status hipStreamSynchronize(abi::Stream stream) {
  return call("hipStreamSynchronize", Kind::on_device, [&](Machine& m, Lock& lock) {
    StreamState* state = alive(m, stream);
    if (!state) return Status::invalid_handle;
    const std::int64_t all = state->given;
    m.changed.wait(lock, [&] { return state->ended >= all; });
    return m.lost ? Status::illegal_address : Status::success;
  });
}
Status hipStreamQuery(abi::Stream stream) {
  return call("hipStreamQuery", Kind::on_device, [&](Machine& m, Lock&) {
    const StreamState* state = alive(m, stream);
    if (!state) return Status::invalid_handle;
    return state->ended == state->given ? Status::success : Status::not_ready;
  });
}
Status hipStreamWaitEvent(abi::Stream stream, abi::Event event, unsigned flags) {
  return call("hipStreamWaitEvent", Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = alive(m, stream);
    const EventState* awaited = alive(m, event);
    if (!state || !awaited) return Status::invalid_handle;
    if (flags != 0) return Status::invalid_value;
    if (awaited->done) m.push(*state, {[done = awaited->done] { return *done; }, [] {}});
    return Status::success;
  });
}

// ---- events ----

Status hipEventCreateWithFlags(abi::Event* event, unsigned flags) {
  return call("hipEventCreateWithFlags", Kind::on_device, [&](Machine& m, Lock&) {
    if (flags != abi::kEventDisableTiming) return Status::invalid_value;
    *event = static_cast<abi::Event>(m.next_handle());
    m.events.emplace(*event, EventState{});
    return Status::success;
  });
}
Status hipEventRecord(abi::Event event, abi::Stream stream) {
  return call("hipEventRecord", Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = alive(m, stream);
    EventState* recorded = alive(m, event);
    if (!state || !recorded) return Status::invalid_handle;
    recorded->done = std::make_shared<bool>(false);
    m.push(*state, {[] { return true; },
                    [&m, done = recorded->done] {
                      const Lock inner(m.mutex);
                      *done = true;
                    }});
    return Status::success;
  });
}
Status hipEventQuery(abi::Event event) {
  return call("hipEventQuery", Kind::on_device, [&](Machine& m, Lock&) {
    const EventState* state = alive(m, event);
    if (!state) return Status::invalid_handle;
    return !state->done || *state->done ? Status::success : Status::not_ready;
  });
}
Status hipEventDestroy(abi::Event event) {
  return call("hipEventDestroy", Kind::destroying, [&](Machine& m, Lock&) {
    return m.events.erase(event) == 1 ? Status::success : Status::invalid_handle;
  });
}

// ---- kernels ----

Status hipModuleLoadData(abi::Module* module, const void* image) {
  return call("hipModuleLoadData", Kind::on_device, [&](Machine& m, Lock&) {
    const auto* text = static_cast<const char*>(image);
    if (!text || std::strcmp(text, kMagic) != 0) return Status::invalid_image;
    const char* const source = text + sizeof kMagic;
    std::uint64_t of_engine = 0;
    if (device::code_engine && std::strstr(source, "__global__") == nullptr)
      of_engine = device::code_engine->load(source);
    *module = static_cast<abi::Module>(m.next_handle());
    if (of_engine != 0) m.of_engine[*module] = of_engine;
    m.modules.emplace(*module, source);
    return Status::success;
  });
}
Status hipModuleUnload(abi::Module module) {
  return call("hipModuleUnload", Kind::destroying, [&](Machine& m, Lock&) {
    std::erase_if(m.functions, [&](const auto& entry) { return entry.second.first == module; });
    return m.modules.erase(module) == 1 ? Status::success : Status::invalid_handle;
  });
}
Status hipModuleGetFunction(abi::Function* function, abi::Module module, const char* name) {
  return call("hipModuleGetFunction", Kind::on_device, [&](Machine& m, Lock&) {
    const auto loaded = m.modules.find(module);
    if (loaded == m.modules.end()) return Status::invalid_handle;
    if (const auto own = m.of_engine.find(module);
        own != m.of_engine.end() && device::code_engine->has(own->second, name)) {
      *function = static_cast<abi::Function>(m.next_handle());
      m.functions[*function] = {module, nullptr};
      m.named[*function] = name;
      return Status::success;
    }
    const HostFunction* known = host_function(name);
    if (!known || loaded->second.find("void " + std::string(name) + "(") == std::string::npos)
      return Status::not_found;
    *function = static_cast<abi::Function>(m.next_handle());
    m.functions[*function] = {module, known};
    return Status::success;
  });
}
// NOLINTNEXTLINE(readability-function-size): the signature is HIP's
Status hipModuleLaunchKernel(abi::Function function, unsigned x, unsigned y, unsigned z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                             abi::Stream stream, void** arguments, void** extra) {
  return call("hipModuleLaunchKernel", Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = alive(m, stream);
    const auto found = m.functions.find(function);
    if (!state || found == m.functions.end()) return Status::invalid_handle;
    if (x == 0 || block_x == 0 || extra || std::uint64_t{x} * block_x > 0xFFFFFFFF)
      return Status::invalid_configuration;
    if (!found->second.second) {
      const bool taken = m.launch(*state, {.module = m.of_engine.at(found->second.first),
                                           .kernel = m.named.at(function),
                                           .grid = {x, y, z},
                                           .block = {block_x, block_y, block_z},
                                           .shared = shared,
                                           .arguments = arguments});
      return taken ? Status::success : Status::invalid_configuration;
    }
    if (y != 1 || z != 1 || block_y != 1 || block_z != 1) return Status::invalid_configuration;
    m.launch(*state, *found->second.second, arguments, x);
    return Status::success;
  });
}

// ---- memory ----

Status hipHostMalloc(void** memory, std::size_t bytes, unsigned flags) {
  return call("hipHostMalloc", Kind::on_device, [&](Machine& m, Lock&) {
    if (bytes == 0 || (flags & abi::kHostCoherent) == 0) return Status::invalid_value;
    std::unique_ptr<char[]> block(new char[bytes]);
    std::memset(block.get(), 0xA5, bytes);
    *memory = block.get();
    m.host.emplace(*memory, std::move(block));
    return Status::success;
  });
}
Status hipHostFree(void* memory) {
  return call("hipHostFree", Kind::destroying, [&](Machine& m, Lock& lock) {
    m.changed.wait(lock, [&] { return m.idle(); });  // as HIP does
    return m.host.erase(memory) == 1 ? Status::success : Status::invalid_handle;
  });
}
Status hipMalloc(void** memory, std::size_t bytes) {
  return call("hipMalloc", Kind::on_device, [&](Machine& m, Lock&) {
    *memory = device::code_engine ? reinterpret_cast<void*>(device::code_engine->allocate(bytes))
                                  : m.next_handle();
    if (!*memory) return Status::out_of_memory;
    m.device.emplace(*memory, bytes);
    return Status::success;
  });
}
Status hipFree(void* memory) {
  return call("hipFree", Kind::destroying, [&](Machine& m, Lock&) {
    if (device::code_engine && m.device.contains(memory))
      device::code_engine->release(reinterpret_cast<std::uintptr_t>(memory));
    return m.device.erase(memory) == 1 ? Status::success : Status::invalid_handle;
  });
}
Status hipMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("hipMemGetInfo", Kind::on_device, [&](Machine& m, Lock&) {
    *free = *total = kDeviceMemory;
    for (const auto& [memory, bytes] : m.device) *free -= bytes;
    return Status::success;
  });
}

// ---- hiprtc ----

int hiprtcCreateProgram(abi::Program* program, const char* source, const char*, int headers,
                        const char**, const char**) {
  return static_cast<int>(call("hiprtcCreateProgram", Kind::plain, [&](Machine& m, Lock&) {
    if (!source || headers != 0) return Status::invalid_value;
    *program = static_cast<abi::Program>(m.next_handle());
    m.programs.emplace(*program, source);
    return Status::success;
  }));
}
int hiprtcCompileProgram(abi::Program program, int, const char**) {
  return static_cast<int>(call("hiprtcCompileProgram", Kind::on_device, [&](Machine& m, Lock&) {
    if (!m.programs.contains(program)) return Status::invalid_handle;
    if (m.programs.at(program).find("partita_note") != std::string::npos &&
        !m.programs.at(program).starts_with("#define GFX_MAJOR " +
                                            std::to_string(m.board.gfx / 10000) + "\n"))
      m.violated("hiprtcCompileProgram of a source for another GPU");
    return m.board.compiles ? Status::success : static_cast<Status>(6);
  }));
}
int hiprtcGetProgramLogSize(abi::Program, std::size_t* size) {
  *size = sizeof "no such thing";
  return 0;
}
int hiprtcGetProgramLog(abi::Program, char* log) {
  std::strcpy(log, "no such thing");
  return 0;
}
int hiprtcGetCodeSize(abi::Program program, std::size_t* size) {
  return static_cast<int>(call("hiprtcGetCodeSize", Kind::plain, [&](Machine& m, Lock&) {
    const auto found = m.programs.find(program);
    if (found == m.programs.end()) return Status::invalid_handle;
    *size = sizeof kMagic + found->second.size() + 1;
    return Status::success;
  }));
}
int hiprtcGetCode(abi::Program program, char* code) {
  return static_cast<int>(call("hiprtcGetCode", Kind::plain, [&](Machine& m, Lock&) {
    const auto found = m.programs.find(program);
    if (found == m.programs.end()) return Status::invalid_handle;
    std::memcpy(code, kMagic, sizeof kMagic);
    std::strcpy(code + sizeof kMagic, found->second.c_str());
    return Status::success;
  }));
}
int hiprtcDestroyProgram(abi::Program* program) {
  return static_cast<int>(call("hiprtcDestroyProgram", Kind::destroying, [&](Machine& m, Lock&) {
    return m.programs.erase(*program) == 1 ? Status::success : Status::invalid_handle;
  }));
}

}  // extern "C"

}  // namespace partita::drivers::hip_mask::fake
