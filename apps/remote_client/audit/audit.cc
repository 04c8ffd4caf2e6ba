// An auditor of the dynamic loader (rtld-audit(7)): whatever looks for a library of CUDA's that
// lies beside this one, by whatever path, gets that. So packages that bring libraries of their own
// (PyTorch's wheels, with paths inside that come before LD_LIBRARY_PATH) run on the client, too.
// The loader keeps it in a namespace of its own.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace {

char folder[PATH_MAX];  // with a slash at its end; empty: not known

}  // namespace

extern "C" __attribute__((visibility("default"))) unsigned la_version(unsigned theirs) {
  Dl_info own;
  if (::dladdr(reinterpret_cast<const void*>(&la_version), &own) != 0 && own.dli_fname != nullptr) {
    const char* const slash = std::strrchr(own.dli_fname, '/');
    const std::size_t length =
        slash == nullptr ? 0 : static_cast<std::size_t>(slash + 1 - own.dli_fname);
    if (length < sizeof(folder)) std::memcpy(folder, own.dli_fname, length);
  }
  return std::min(theirs, unsigned{LAV_CURRENT});
}

extern "C" __attribute__((visibility("default"))) char* la_objsearch(const char* name, uintptr_t*,
                                                                     unsigned) {
  // The loader does not free what it is given, and asks for few.
  static char found[PATH_MAX];
  const char* const slash = std::strrchr(name, '/');
  const char* const file = slash == nullptr ? name : slash + 1;
  const std::size_t before = std::strlen(folder), length = std::strlen(file);
  if (before == 0 || std::strncmp(file, "libcu", 5) != 0 || before + length >= sizeof(found))
    return const_cast<char*>(name);
  std::memcpy(found, folder, before);
  std::memcpy(found + before, file, length + 1);
  return ::access(found, R_OK) == 0 ? found : const_cast<char*>(name);
}
