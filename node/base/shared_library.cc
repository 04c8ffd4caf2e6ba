#include "base/shared_library.h"

namespace partita {

tl::expected<SharedLibrary, std::string> SharedLibrary::open(const std::vector<std::string>& files,
                                                             bool stays) {
  std::string reason;
  for (const std::string& file : files) {
    if (void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | (stays ? RTLD_NODELETE : 0)))
      return SharedLibrary(handle, file);
    const char* said = ::dlerror();
    if (reason.empty()) reason = said != nullptr ? said : "no reason given";
  }
  return tl::unexpected(std::move(reason));
}

}  // namespace partita
