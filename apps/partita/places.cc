#include "places.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace partita::cli {

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

std::string state_home() {
  if (::geteuid() == 0) return "/var/lib/partita";
  const std::string state = environment_variable("XDG_STATE_HOME");
  return (state.empty() ? environment_variable("HOME") + "/.local/state" : state) + "/partita";
}

std::string default_runtime_directory() {
  if (::geteuid() == 0) return "/run/partita";
  const std::string runtime = environment_variable("XDG_RUNTIME_DIR");
  return runtime.empty() ? fmt::format("/tmp/partita-{}", ::geteuid()) : runtime + "/partita";
}

std::string lock_directory() {
  if (std::string set = environment_variable("PARTITA_LOCK_DIR"); !set.empty()) return set;
  return ::geteuid() == 0 ? "/run/lock/partita" : default_runtime_directory() + "/locks";
}

Result<PrivateFolder> PrivateFolder::make() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error) / "partita-XXXXXX";
  if (error || ::mkdtemp(path.data()) == nullptr)
    return environment_error(path, error ? error.message() : std::strerror(errno));
  return PrivateFolder(path);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace partita::cli
