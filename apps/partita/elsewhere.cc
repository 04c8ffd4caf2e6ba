#include "elsewhere.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "places.h"

namespace partita::cli {
namespace {

constexpr std::string_view kLabProgram = "partita-lab", kRemoteProgram = "partita-remote";
constexpr Elsewhere kElsewhere[] = {
    {"lab", kLabProgram, "The research tools: masks, kernels, graphs, probes, heat, floorplans"},
    {"mask", kLabProgram, "Choose the compute units of a kernel: a mask of SMs or CUs"},
    {"kernels", kLabProgram, "Share a GPU between kernels by masks: plan, check, simulate, run"},
    {"graph", kLabProgram, "Run a graph of tasks on lanes"},
    {"probe", kLabProgram, "Measure what lanes of a device can do"},
    {"thermal", kLabProgram, "Temperatures of chips, from their floorplan and power"},
    {"floorplan", kLabProgram, "Where the blocks of a chip are, from infrared images"},
    {"energy fit", kLabProgram, "Fit the energy per access of each component to measured runs"},
    {"energy predict", kLabProgram, "Predict the energy of programs from their counters"},
    {"energy validate", kLabProgram, "Cross-validate a model: predict each row from the others"},
    {"remote", kRemoteProgram, "Run CUDA programs on a GPU that is elsewhere, or on no GPU at all"},
    {"ptx", kRemoteProgram, "Show, check and run PTX on the CPU"},
};

// Empty: it is not installed.
std::string place_of(std::string_view program) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(own_program()).parent_path();
  for (const fs::path& place : {folder / program, folder / "../lib/partita" / program})
    if (::access(place.c_str(), X_OK) == 0) return place.string();
  return {};
}

std::string_view last_word(std::string_view words) { return words.substr(words.rfind(' ') + 1); }

// Commands of `from` that `into` has only by name, or not at all.
void merge(CommandDoc& into, const CommandDoc& from) {
  for (const CommandDoc& child : from.children) {
    const auto known = std::ranges::find_if(
        into.children, [&](const CommandDoc& one) { return one.path.back() == child.path.back(); });
    if (known == into.children.end()) continue;  // help of its own
    if (known->elsewhere)
      *known = child;
    else
      merge(*known, child);
  }
}

}  // namespace

const Elsewhere* elsewhere_of(std::string_view words) {
  const auto found = std::ranges::find_if(kElsewhere, [&](const Elsewhere& one) {
    return words == one.words || words.starts_with(std::string(one.words) + " ");
  });
  return found == std::end(kElsewhere) ? nullptr : found;
}

bool is_elsewhere(const CLI::App& command) { return command.get_prefix_command(); }

std::span<const Elsewhere> elsewhere() { return kElsewhere; }

Command add_elsewhere(CLI::App& parent, const Elsewhere& command) {
  CLI::App* app =
      parent.add_subcommand(std::string(last_word(command.words)), std::string(command.summary));
  app->prefix_command()->set_help_flag();
  return {app, [&command](Context& context) { return become(context, command); }};
}

std::vector<Command> add_elsewhere(CLI::App& parent, std::string_view group) {
  std::vector<Command> commands;
  for (const Elsewhere& one : kElsewhere)
    if (one.words.starts_with(std::string(group) + " "))
      commands.push_back(add_elsewhere(parent, one));
  return commands;
}

Result<Exit> become(const Context& context, const Elsewhere& command) {
  const std::string program(command.program), place = place_of(program);
  if (place.empty())
    return environment_error(program, fmt::format("is not installed, and carries out `{}`: it is "
                                                  "looked for beside this program and in "
                                                  "../lib/partita (`make build` builds it)",
                                                  command.words));
  std::vector<char*> words(context.words.begin(), context.words.end());
  if (command.words == "lab")
    words.erase(std::ranges::find_if(
        words, [](const char* word) { return std::string_view(word) == "lab"; }));
  words.push_back(nullptr);
  std::fflush(nullptr);
  ::execv(place.c_str(), words.data());
  return environment_error(place, std::strerror(errno));
}

std::string said_by(std::string_view program, const std::string& words) {
  const std::string place = place_of(program);
  if (place.empty() || place.find('\'') != std::string::npos) return {};
  std::FILE* pipe = ::popen(fmt::format("'{}' {} 2>/dev/null", place, words).c_str(), "re");
  if (pipe == nullptr) return {};
  std::string said;
  char piece[4096];
  for (std::size_t n = 0; (n = std::fread(piece, 1, sizeof(piece), pipe)) > 0;)
    said.append(piece, n);
  return ::pclose(pipe) == 0 ? said : std::string{};
}

CommandDocs with_others(CommandDocs own) {
  for (const std::string_view program : kOtherPrograms) {
    const auto docs = parse_docs(std::string(program), said_by(program, "docs"));
    if (!docs) continue;
    merge(own.root, docs->root);
    own.kinds.insert(own.kinds.end(), docs->kinds.begin(), docs->kinds.end());
  }
  return own;
}

}  // namespace partita::cli
