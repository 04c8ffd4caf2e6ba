#include "drivers/amd_smi/amd_smi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

namespace partita::drivers::amd_smi {
namespace {

using abi::AmdStatus;

ErrorCode code_of(AmdStatus status) {
  switch (status) {
    case AmdStatus::cannot_load:
    case AmdStatus::init_error:
    case AmdStatus::driver_not_loaded:
    case AmdStatus::no_driver:
      return ErrorCode::no_driver;
    case AmdStatus::no_permission:
      return ErrorCode::denied;
    case AmdStatus::not_found:
      return ErrorCode::not_found;
    case AmdStatus::not_supported:
    case AmdStatus::not_implemented:
    case AmdStatus::no_symbol:
    case AmdStatus::no_data:
    case AmdStatus::setting_unavailable:
      return ErrorCode::not_supported;
    case AmdStatus::invalid:
    case AmdStatus::out_of_bounds:
      return ErrorCode::invalid_argument;
    case AmdStatus::busy:
      return ErrorCode::in_use;
    case AmdStatus::timeout:
      return ErrorCode::timeout;
    default:
      return ErrorCode::environment;
  }
}

// What to say where the library's own words do not help.
const char* sentence(AmdStatus status) {
  switch (status) {
    case AmdStatus::driver_not_loaded:
    case AmdStatus::no_driver:
      return "AMD's kernel driver amdgpu is not loaded";
    case AmdStatus::no_symbol:
      return "the installed AMD SMI does not have this call";
    case AmdStatus::no_permission:
      return "missing rights; clocks and power limits are changed as root";
    default:
      return nullptr;
  }
}

}  // namespace

Error AmdSmiLibrary::error(AmdStatus status, std::string call) const {
  std::string message;
  const char* text = nullptr;
  if (const char* known = sentence(status)) {
    message = known;
  } else if (api_.status_text && api_.status_text(status, &text) == AmdStatus::success && text) {
    message = text;
  }
  const auto code = static_cast<std::uint32_t>(status);
  message = message.empty() ? fmt::format("AMD SMI code {}", code)
                            : fmt::format("{} (AMD SMI code {})", message, code);
  return {code_of(status), std::move(message), std::move(call)};
}

void AmdSmiLibrary::bind() {
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle_, name));
  };
  find(api_.init, "amdsmi_init");
  find(api_.shut_down, "amdsmi_shut_down");
  find(api_.version, "amdsmi_get_lib_version");
  find(api_.status_text, "amdsmi_status_code_to_string");
  find(api_.sockets, "amdsmi_get_socket_handles");
  find(api_.processors, "amdsmi_get_processor_handles");
  find(api_.type, "amdsmi_get_processor_type");
  find(api_.uuid, "amdsmi_get_gpu_device_uuid");
  find(api_.asic, "amdsmi_get_gpu_asic_info");
  find(api_.driver, "amdsmi_get_gpu_driver_info");
  find(api_.memory, "amdsmi_get_gpu_memory_total");
  find(api_.power, "amdsmi_get_power_info");
  find(api_.energy, "amdsmi_get_energy_count");
  find(api_.temperature, "amdsmi_get_temp_metric");
  find(api_.clock, "amdsmi_get_clock_info");
  find(api_.activity, "amdsmi_get_gpu_activity");
  find(api_.violations, "amdsmi_get_violation_status");
  find(api_.cap, "amdsmi_get_power_cap_info");
  find(api_.set_cap, "amdsmi_set_power_cap");
  find(api_.frequencies, "amdsmi_get_clk_freq");
  find(api_.limit_clock, "amdsmi_set_gpu_clk_limit");
  find(api_.performance, "amdsmi_set_gpu_perf_level");
}

Result<void> AmdSmiLibrary::initialise() {
  if (initialised_) return {};
  TRY(call("amdsmi_init", api_.init, abi::kInitGpus));
  initialised_ = true;
  return {};
}

// Before 25 the first number is the year, so that no such library passes for one of ours.
Result<void> AmdSmiLibrary::check_version(const std::string& file) {
  struct {
    abi::AmdVersion version;
    std::uint64_t rest[8];  // older ones write more
  } told{};
  const bool early =
      api_.version && api_.version(&told.version) == AmdStatus::not_initialised;  // asks for it
  if (early) TRY(initialise());
  TRY(call("amdsmi_get_lib_version", api_.version, &told.version));
  const abi::AmdVersion& version = told.version;
  version_ = fmt::format("{}.{}.{}", version.major, version.minor, version.release);
  if (version.major == abi::kMajorVersion) return {};
  return failed({ErrorCode::no_driver,
                 fmt::format("this is AMD SMI {}; only {}.x (ROCm 7) is known, and other versions "
                             "lay their structures out otherwise",
                             version_, abi::kMajorVersion),
                 file});
}

Result<std::unique_ptr<AmdSmiLibrary>> AmdSmiLibrary::open(const std::string& file) {
  const std::vector<std::string> installed = {"libamd_smi.so.26", "/opt/rocm/lib/libamd_smi.so.26",
                                              "libamd_smi.so", "/opt/rocm/lib/libamd_smi.so"};
  void* handle = nullptr;
  std::string reason, loaded;  // reason: of the first
  for (const std::string& name : file.empty() ? installed : std::vector{file}) {
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    loaded = name;
    if (handle) break;
    const char* said = dlerror();
    if (reason.empty()) reason = said ? said : "no reason given";
  }
  if (!handle)
    return failed(
        {ErrorCode::no_driver,
         "AMD's management library cannot be loaded; is ROCm 7 installed? (" + reason + ")",
         file.empty() ? installed.front() : file});
  std::unique_ptr<AmdSmiLibrary> library(new AmdSmiLibrary(handle));
  library->bind();
  // The version first: it needs no initialisation, and nothing else is safe before it is known.
  TRY(library->check_version(loaded));
  TRY(library->initialise());
  return library;
}

AmdSmiLibrary::~AmdSmiLibrary() {
  if (initialised_ && api_.shut_down) api_.shut_down();
  dlclose(handle_);
}

}  // namespace partita::drivers::amd_smi
