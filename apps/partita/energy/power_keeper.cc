#include "energy/power_keeper.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace partita::cli {

Result<PowerKeeper> PowerKeeper::start(const DeviceFlags& device,
                                       const std::string& state_directory) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return environment_error("the keeper of the settings", std::strerror(errno));
  const Descriptor theirs(ends[0]);
  Descriptor ours(ends[1]);
  ChildSpec spec{
      .program = kOwnProgram,
      .argv = {"partita", "power", "restore", "--after-input", "--driver", device.driver},
      .called = "the keeper of the settings",
      .quiet = true,
      .input = theirs.get(),
      // What is typed at this program's terminal is not for it.
      .group = ChildSpec::Group::own_session,
      .outlives = true,
      .ready_within = std::chrono::seconds(20)};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) spec.argv.insert(spec.argv.end(), {flag, value});
  };
  add("--machine", device.machine);
  add("--catalogue", device.catalogue);
  add("--state-dir", state_directory);
  auto child = TRY(Child::start(spec));
  return PowerKeeper(std::move(ours), std::move(child));
}

void wait_for_end_of_input() {
  char buffer[256];
  while (true) {
    const auto got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

}  // namespace partita::cli
