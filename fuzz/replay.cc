// Runs one fuzz target over stored inputs, without libFuzzer: replay NAME FOLDER_OR_FILE... Fails
// when there is no such target, or no input, so that a moved corpus cannot pass silently. A crash
// of the target is the failure of the test.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "target.h"

namespace partita::fuzz {
namespace {

std::map<std::string_view, Target>& targets() {
  static std::map<std::string_view, Target> known;
  return known;
}

void replay(Target target, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// Returns the number of inputs.
int replay_all(Target target, const std::filesystem::path& place) {
  if (std::filesystem::is_regular_file(place)) return replay(target, place), 1;
  if (!std::filesystem::is_directory(place)) return 0;
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place)) {
    if (!entry.is_regular_file()) continue;
    replay(target, entry.path());
    ++count;
  }
  return count;
}

}  // namespace

Registered::Registered(const char* name, Target target) { targets().emplace(name, target); }

}  // namespace partita::fuzz

int main(int argc, char** argv) {
  using partita::fuzz::targets;
  const auto found = targets().find(argc > 1 ? argv[1] : "");
  if (found == targets().end()) {
    std::printf("replay: the first word is none of the %zu targets\n", targets().size());
    return 2;
  }
  int count = 0;
  for (int i = 2; i < argc; ++i) count += partita::fuzz::replay_all(found->second, argv[i]);
  std::printf("%d inputs replayed\n", count);
  return count > 0 ? 0 : 1;
}
