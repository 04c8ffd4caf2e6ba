#include "drivers/amd_smi/amd_smi_library.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "device/vendor_fault.h"

namespace partita::drivers::amd_smi {
namespace {

using abi::AmdStatus;

constexpr const char* kNoKernelDriver = "AMD's kernel driver amdgpu is not loaded";
constexpr device::VendorFault<AmdStatus> kFaults[] = {
    {AmdStatus::cannot_load, ErrorCode::no_driver},
    {AmdStatus::init_error, ErrorCode::no_driver},
    {AmdStatus::driver_not_loaded, ErrorCode::no_driver, kNoKernelDriver},
    {AmdStatus::no_driver, ErrorCode::no_driver, kNoKernelDriver},
    {AmdStatus::no_permission, ErrorCode::denied,
     "missing rights; clocks and power limits are changed as root"},
    {AmdStatus::not_found, ErrorCode::not_found},
    {AmdStatus::not_supported, ErrorCode::not_supported},
    {AmdStatus::not_implemented, ErrorCode::not_supported},
    {AmdStatus::no_symbol, ErrorCode::not_supported,
     "the installed AMD SMI does not have this call"},
    {AmdStatus::no_data, ErrorCode::not_supported},
    {AmdStatus::setting_unavailable, ErrorCode::not_supported},
    {AmdStatus::invalid, ErrorCode::invalid_argument},
    {AmdStatus::out_of_bounds, ErrorCode::invalid_argument},
    {AmdStatus::busy, ErrorCode::in_use},
    {AmdStatus::timeout, ErrorCode::timeout},
};

}  // namespace

Error AmdSmiLibrary::error(AmdStatus status, std::string call) const {
  const auto fault = device::fault_of(kFaults, status);
  const char* words = fault.words;
  if (words == nullptr && api_.status_text &&
      api_.status_text(status, &words) != AmdStatus::success)
    words = nullptr;
  return {fault.code, device::coded(words, "AMD SMI", status), std::move(call)};
}

Result<void> AmdSmiLibrary::initialise() {
  if (initialised_) return {};
  TRY(call("amdsmi_init", api_.init, abi::kInitGpus));
  initialised_ = true;
  return {};
}

// Before 25 the first number is the year, so that no such library passes for one of ours.
Result<void> AmdSmiLibrary::check_version() {
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
                 library_.file()});
}

Result<std::unique_ptr<AmdSmiLibrary>> AmdSmiLibrary::open(const std::string& file) {
  const std::vector<std::string> installed = {"libamd_smi.so.26", "/opt/rocm/lib/libamd_smi.so.26",
                                              "libamd_smi.so", "/opt/rocm/lib/libamd_smi.so"};
  auto loaded = SharedLibrary::open(file.empty() ? installed : std::vector{file});
  if (!loaded)
    return failed(
        {ErrorCode::no_driver,
         "AMD's management library cannot be loaded; is ROCm 7 installed? (" + loaded.error() + ")",
         file.empty() ? installed.front() : file});
  std::unique_ptr<AmdSmiLibrary> library(new AmdSmiLibrary(*std::move(loaded)));
  // The version first: it needs no initialisation, and nothing else is safe before it is known.
  TRY(library->check_version());
  TRY(library->initialise());
  return library;
}

AmdSmiLibrary::~AmdSmiLibrary() {
  if (initialised_ && api_.shut_down) api_.shut_down();
}

}  // namespace partita::drivers::amd_smi
