#include "server/cuda/driver_library.h"

#include <fmt/format.h>

namespace partita::remote::cuda {

Result<std::shared_ptr<const DriverLibrary>> DriverLibrary::open(const std::string& file) {
  auto loaded = SharedLibrary::open({file});
  if (!loaded) return failed({ErrorCode::no_driver, "cannot be loaded: " + loaded.error(), file});
  const std::shared_ptr<const DriverLibrary> library(new DriverLibrary(*std::move(loaded)));
  if (const char* missing = library->api().find.missing)
    return failed({ErrorCode::no_driver,
                   fmt::format("has no {}; a driver of CUDA 12.4 or later is needed", missing),
                   file});
  return library;
}

std::string DriverLibrary::words(const char* call, abi::Return code) const {
  const char* text = nullptr;
  if (api_.cuGetErrorString(code, &text) != 0 || text == nullptr) text = "an error without words";
  return fmt::format("{}: {} ({})", call, text, code);
}

}  // namespace partita::remote::cuda
