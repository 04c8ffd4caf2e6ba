#include "base/cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "base/descriptor.h"

namespace partita {
namespace {

bool write_word(const std::string& path, const char* word) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) return false;
  return ::write(file.get(), word, std::char_traits<char>::length(word)) > 0;
}

// Where the system has mounted cgroups of version 2; "" when nowhere.
std::string mount_point(const std::string& proc) {
  std::ifstream mounts(proc + "/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, folder, type;
    if (words >> device >> folder >> type && type == "cgroup2") return folder;
  }
  return {};
}

// Below the mount point; "" when the process is gone or in none.
std::string place_of(const std::string& proc, const std::string& process) {
  std::ifstream groups(fmt::format("{}/{}/cgroup", proc, process));
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return {};
}

}  // namespace

Cgroups::Cgroups(std::string proc) : proc_(std::move(proc)), mount_(mount_point(proc_)) {
  const std::string place = place_of(proc_, "self");
  if (mount_.empty() || place.empty()) return;
  std::string home = mount_ + (place == "/" ? "" : place);
  // Also where we may make folders, somebody else may own what is in them.
  const bool ours =
      ::access(home.c_str(), W_OK) == 0 && ::access((home + "/cgroup.procs").c_str(), W_OK) == 0;
  if (ours) home_ = std::move(home);
}

std::string Cgroups::folder_of(const std::string& name) const {
  if (!possible()) return {};
  std::string folder = home_ + "/" + name;
  struct stat info {};
  return ::stat(folder.c_str(), &info) == 0 ? folder : std::string{};
}

bool Cgroups::enter(const std::string& name) {
  if (!possible()) return false;
  const std::string folder = home_ + "/" + name;
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
  // A system without cgroup.kill could not end it.
  if (::access((folder + "/cgroup.kill").c_str(), W_OK) == 0 &&
      write_word(folder + "/cgroup.procs", "0"))
    return true;
  ::rmdir(folder.c_str());
  return false;
}

void Cgroups::tidy(const std::string& prefix) const {
  if (!possible()) return;
  std::error_code code;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator it(home_, code), end; !code && it != end;
       it.increment(code)) {
    const bool named = it->path().filename().string().starts_with(prefix);
    if (named && it->is_directory(code)) found.push_back(it->path().string());
  }
  for (const std::string& folder : found) ::rmdir(folder.c_str());  // refused while it is in use
}

bool Cgroups::leave() {
  if (write_word(home_ + "/cgroup.procs", "0")) return true;
  home_.clear();
  return false;
}

std::string Cgroups::folder_with(std::int64_t pid, const std::string& name) const {
  const std::string place = place_of(proc_, std::to_string(pid));
  return !mount_.empty() && place.ends_with("/" + name) ? mount_ + place : std::string{};
}

void end_cgroup(const std::string& folder) { write_word(folder + "/cgroup.kill", "1"); }

bool remove_cgroup(const std::string& folder) {
  return ::rmdir(folder.c_str()) == 0 || errno == ENOENT;
}

}  // namespace partita
