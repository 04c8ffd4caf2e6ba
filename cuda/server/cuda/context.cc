#include "server/cuda/context.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace partita::remote::cuda {

using server::Answered;
using server::Completed;
using server::Refused;

namespace {

constexpr std::size_t kAttributes = 160;
constexpr std::size_t kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

}  // namespace

Result<std::unique_ptr<Context>> Context::open(const CudaOptions& options) {
  auto library = TRY(DriverLibrary::open(options.vendor_library));
  std::unique_ptr<Context> made(new Context(std::move(library)));
  if (options.shared) made->lost_ = options.shared->lost;
  made->own_process_ = options.own_process;
  made->ordinal_ = options.device;
  const DriverApi& api = made->api_;
  Result<void> ok = made->needed("cuInit", api.cuInit(0));
  if (ok) ok = made->needed("cuDeviceGet", api.cuDeviceGet(&made->number_, options.device));
  if (ok)
    ok = made->needed("cuDevicePrimaryCtxRetain",
                      api.cuDevicePrimaryCtxRetain(&made->context_, made->number_));
  if (ok) ok = made->needed("cuCtxSetCurrent", api.cuCtxSetCurrent(made->context_));
  if (!ok) return failed(ok.error());
  return made;
}

Context::~Context() {
  if (context_ != nullptr) api_.cuDevicePrimaryCtxRelease_v2(number_);
}

Result<server::DeviceSnapshot> Context::look(const CudaOptions& options) const {
  std::array<char, 256> name{};
  abi::Uuid uuid{};
  std::size_t total = 0;
  int version = 0;
  Result<void> ok = needed("cuDriverGetVersion", api_.cuDriverGetVersion(&version));
  if (ok)
    ok = needed("cuDeviceGetName",
                api_.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), number_));
  if (ok) ok = needed("cuDeviceGetUuid", api_.cuDeviceGetUuid_v2(&uuid, number_));
  if (ok) ok = needed("cuDeviceTotalMem", api_.cuDeviceTotalMem_v2(&total, number_));
  if (!ok) return failed(ok.error());
  server::DeviceSnapshot device{.name = name.data(), .backend = "cuda"};
  device.driver_version = static_cast<std::uint32_t>(version);
  device.total_memory =
      options.memory == 0 ? total : std::min<std::uint64_t>(total, options.memory);
  device.uuid.resize(sizeof(uuid));
  std::memcpy(device.uuid.data(), &uuid, sizeof(uuid));
  device.attributes.assign(kAttributes, 0);
  for (std::size_t i = 1; i < kAttributes; ++i) {
    int value = 0;  // those that this driver does not know stay 0
    if (api_.cuDeviceGetAttribute(&value, static_cast<int>(i), number_) == 0)
      device.attributes[i] = value;
  }
  if (options.shared) {
    const auto most = std::ranges::max_element(options.shared->lanes, {}, &Lane::units);
    device.attributes[kMultiprocessors] = most->units;
  }
  return device;
}

abi::AllocationProperties Context::memory() const {
  abi::AllocationProperties of{};
  of.type = abi::kPinned;
  of.location = {abi::kLocationDevice, ordinal_};
  return of;
}

Result<void> Context::needed(const char* call, abi::Return code) const {
  if (code == 0) return {};
  return failed({ErrorCode::no_driver, library_->words(call, code), "the CUDA driver"});
}

tl::unexpected<Refused> Context::refused(const char* call, abi::Return code) {
  const bool of_the_device = code >= server::kIllegalAddress && code <= server::kLaunchFailure &&
                             code != server::kLaunchOutOfResources;
  if (of_the_device) die(code, library_->words(call, code));
  return server::refuse(code, library_->words(call, code));
}

Answered<void> Context::done(const char* call, abi::Return code) {
  if (code == 0) return {};
  return refused(call, code);
}

bool Context::finished(const char* what, abi::Return code) {
  if (code == server::kNotReady) return false;
  if (code != 0) die(code, library_->words(what, code));
  return true;
}

void Context::die(abi::Return code, const std::string& text) {
  if (std::exchange(dead_, true)) return;
  const char* const whose = lost_ ? "; this session's, or one's that shares its process" : "";
  tell({.kind = Completed::Kind::fault, .status = code, .text = text + whose});
  if (lost_) lost_();
}

std::chrono::nanoseconds Context::patience() const {
  constexpr std::chrono::nanoseconds kLeast(1'000), kMost(1'000'000);
  return std::clamp<std::chrono::nanoseconds>((Clock::now() - busy_since_) / 8, kLeast, kMost);
}

void Context::catch_prints() {
  if (!own_process_ || printed_ != nullptr) return;
  if (auto begun = PrintedText::begin()) printed_ = *std::move(begun);
}

void Context::tell_printed(abi::Event passed) {
  if (printed_ == nullptr || passed == nullptr || dead_) return;
  api_.cuEventSynchronize(passed);
  if (std::string text = printed_->take(); !text.empty())
    tell({.kind = Completed::Kind::printed, .text = std::move(text)});
}

}  // namespace partita::remote::cuda
