// Where things of this user lie by default, and what the environment says. For root the system's
// folders, for others their own.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace partita::cli {

// Its value, empty where it is not set.
std::string environment_variable(const char* name);

// The file of this program.
std::string own_program();

// What outlives a restart: /var/lib/partita, or $XDG_STATE_HOME/partita or ~/.local/state/partita.
std::string state_home();
// Sockets: /run/partita, or $XDG_RUNTIME_DIR/partita or /tmp/partita-UID.
std::string default_runtime_directory();
// Locks of GPUs, the same whatever state directory somebody uses: $PARTITA_LOCK_DIR, else
// /run/lock/partita, or for others than root `locks` where their sockets are.
std::string lock_directory();

// A folder for temporary files that goes with this object and everything in it.
class PrivateFolder {
 public:
  static Result<PrivateFolder> make();
  ~PrivateFolder();
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace partita::cli
