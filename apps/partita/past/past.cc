#include "past/past.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <ctime>

#include "flags.h"
#include "node/state_dir.h"

namespace partita::cli {

void add_past(CLI::App& command, PastFlags& flags) {
  flag(command, "--file", flags.file);
  add_state_dir(command, flags.state_dir);
  add_device_flags(command, flags.device);
}

Result<history::Store> open_past(Context& context, const PastFlags& flags) {
  std::string path = flags.file;
  if (path.empty()) {
    const auto directory = found_state_directory(context, flags.device, flags.state_dir);
    if (!directory) return failed(directory.error());
    path = history::history_path(*directory);
  }
  if (!context.files.exists(path)) {
    if (!flags.file.empty()) return bad_input("--file", path + ": there is no such file");
    return environment_error(path, "nothing has been kept of this node yet");
  }
  return history::Store::open(path, history::Access::read);
}

std::string local_time(std::int64_t time_ms) {
  const std::time_t seconds = time_ms / 1000;
  std::tm parts{};
  std::array<char, 64> text{};
  if (::localtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts) == 0)
    return fmt::format("{} ms", time_ms);
  return text.data();
}

}  // namespace partita::cli
