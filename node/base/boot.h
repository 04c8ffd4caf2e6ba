// Which boot of this machine it is.
#pragma once

#include <string>

#include "base/files.h"

namespace partita {

// Empty: nobody says.
inline std::string boot_of(Files& files) {
  const auto boot = files.read("/proc/sys/kernel/random/boot_id");
  return boot ? boot->substr(0, boot->find('\n')) : "";
}

}  // namespace partita
