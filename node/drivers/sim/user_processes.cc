#include "drivers/sim/user_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/parse_number.h"

namespace partita::drivers::sim {
namespace {

// The content of a file under /proc; empty when it cannot be read.
std::string slurp(const std::string& path) {
  std::string content;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return content;
  char buffer[1 << 14];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    content.append(buffer, static_cast<std::size_t>(n));
  ::close(fd);
  return content;
}

// The UUIDs that the environment block `environ` makes visible.
std::vector<std::string> devices_of(std::string_view environ) {
  constexpr std::string_view kVariable = "CUDA_VISIBLE_DEVICES=";
  std::vector<std::string> devices;
  while (!environ.empty()) {
    const std::string_view entry = environ.substr(0, environ.find('\0'));
    environ.remove_prefix(std::min(environ.size(), entry.size() + 1));
    if (!entry.starts_with(kVariable)) continue;
    std::string_view list = entry.substr(kVariable.size());
    while (!list.empty()) {
      const std::string_view word = list.substr(0, list.find(','));
      list.remove_prefix(std::min(list.size(), word.size() + 1));
      if (word.starts_with("GPU-") || word.starts_with("MIG-")) devices.emplace_back(word);
    }
  }
  return devices;
}

}  // namespace

std::vector<ObservedProcess> user_processes() {
  std::vector<ObservedProcess> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return found;
  const long self = ::getpid();
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::string_view word = entry->d_name;
    const std::optional<long> number = parse_number<long>(word);
    if (!number || *number == self) continue;
    const long pid = *number;
    std::vector<std::string> devices = devices_of(slurp(fmt::format("/proc/{}/environ", pid)));
    if (devices.empty()) continue;
    std::string name = slurp(fmt::format("/proc/{}/comm", pid));
    if (name.ends_with('\n')) name.pop_back();
    found.push_back({pid, std::move(name), std::move(devices)});
  }
  std::ranges::sort(found, {}, &ObservedProcess::pid);
  return found;
}

}  // namespace partita::drivers::sim
