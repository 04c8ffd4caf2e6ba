#include "drivers/green_ctx/primary_context.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "base/parse_number.h"

namespace partita::drivers::green_ctx {
namespace {

// The digits of a UUID, with or without its prefix, in lower case.
std::string digits_of(std::string_view uuid) {
  if (uuid.starts_with("GPU-") || uuid.starts_with("MIG-")) uuid.remove_prefix(4);
  std::string digits;
  for (const char c : uuid)
    if (c != '-') digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return digits;
}

std::string digits_of(const abi::Uuid& uuid) {
  std::string digits;
  for (const char byte : uuid.bytes)
    digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

Result<abi::Device> find_device(const CudaLibrary& library, const std::string& gpu) {
  const CudaApi& api = library.api();
  const std::string call = fmt::format("open(gpu {})", gpu);
  int count = 0;
  TRY(library.checked(api.device_count(&count), call));
  const std::optional<int> ordinal = gpu.empty() ? 0 : parse_number<int>(gpu);
  for (int i = 0; i < count; ++i) {
    abi::Device device = 0;
    abi::Uuid uuid = {};
    TRY(library.checked(api.device(&device, i), call));
    if (i == ordinal) return device;
    if (ordinal) continue;
    TRY(library.checked(api.device_uuid(&uuid, device), call));
    if (digits_of(uuid) == digits_of(gpu)) return device;
  }
  return failed(
      {ErrorCode::not_found, fmt::format("no such GPU; CUDA shows this process {}", count), call});
}

}  // namespace

Result<std::shared_ptr<const PrimaryContext>> PrimaryContext::open(
    std::shared_ptr<const CudaLibrary> library, const std::string& gpu) {
  const auto device = TRY(find_device(*library, gpu));
  abi::Context context = nullptr;
  TRY(library->checked(library->api().retain_primary(&context, device),
                       fmt::format("open(gpu {})", gpu)));
  const std::shared_ptr<PrimaryContext> opened(new PrimaryContext(std::move(library), device));
  opened->context_ = context;
  return std::shared_ptr<const PrimaryContext>(opened);
}

PrimaryContext::~PrimaryContext() {
  if (context_) library_->api().release_primary(device_);
}

}  // namespace partita::drivers::green_ctx
