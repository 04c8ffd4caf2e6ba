#include "control/host/change_numbers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"
#include "control/host/agent.h"
#include "control/host/memory_file.h"

namespace partita::control {
namespace {

// 0 where there is no file.
Result<long> number_in(Files& files, const std::string& path) {
  if (!files.exists(path)) return 0L;
  const std::string text = TRY(files.read(path));
  const std::string line = text.substr(0, text.find('\n'));
  const auto number = parse_number<long>(line);
  if (!number || *number < 0 || line.size() + 1 != text.size())
    return bad_input(path + ":1",
                     "is not the number of the last change; write into it a number above that of "
                     "every change of this node");
  return *number;
}

}  // namespace

std::string change_number_path(const std::string& state_dir) { return state_dir + "/last-change"; }

Result<long> last_change(Files& files, const std::string& state_dir, long history) {
  const auto kept = TRY(number_in(files, change_number_path(state_dir)));
  long highest = std::max(kept, history);
  // A memory that cannot be read is complained about by the agent, whose it is.
  for (const char* ending : {"", ".copy"})
    if (const auto memory = read_memory(files, memory_path(state_dir) + ending); memory && *memory)
      highest = std::max(highest, (*memory)->changes);
  return highest;
}

Result<void> keep_last_change(Files& files, const std::string& state_dir, long number) {
  const std::string path = change_number_path(state_dir);
  const auto kept = TRY(number_in(files, path));
  if (kept >= number) return {};
  return files.write_atomic(path, fmt::format("{}\n", number));
}

}  // namespace partita::control
