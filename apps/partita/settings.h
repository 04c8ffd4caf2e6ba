// Settings: what stands for flags that a command line leaves out. A value is looked for on the
// command line, in the environment (PARTITA_PLAN_GPU for `plan --gpu`, then PARTITA_GPU for --gpu
// of every command), in the settings file (under the command, then under `all`), and is the default
// where none of them says it. Also what every command has: --config, --quiet, --verbose. Refers to
// the files and the commands, which must outlive it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace partita {
struct Document;
struct Node;
}  // namespace partita

namespace partita::cli {

// Read where neither --config nor PARTITA_CONFIG names another one, and it is there.
inline constexpr const char* kSettingsFile = "/etc/partita/partita.yaml";
// The section of the settings file that is for every command.
inline constexpr const char* kAllCommands = "all";
// The group of the flags that every command has.
inline constexpr const char* kEverywhere = "Options of every command";

// PARTITA_BATCH_RUN_STATE_DIR of {"partita", "batch", "run"} and "state-dir".
std::string variable_of(const std::vector<std::string>& path, const std::string& flag);
// PARTITA_STATE_DIR of "state-dir"; empty where Partita gives a variable of that name, with another
// meaning, to what it starts.
std::string variable_of(const std::string& flag);

// Refuses with FILE:LINE what no command below `root` has. `whole`: nor another program.
Result<void> check_settings(const Document& document, const CLI::App& root, bool whole);

class Settings {
 public:
  // `whole`: the commands are all that there are, but for those of other programs by name.
  Settings(Files& files, bool whole) : files_(files), whole_(whole) {}
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  // The command goes by this verb (verbs.h): the verb's settings come before its own.
  void said_as(std::string verb) { verb_ = std::move(verb); }
  // What is said of a flag of this verb before any command is described; a bad file says nothing.
  std::vector<std::string> told(std::span<char* const> words, std::string_view verb,
                                std::string_view flag);
  // Whether there may be a settings file, given the words of a command line.
  bool may_come_from_file(std::span<char* const> words) const;
  // Gives every command below `root`, which are all there, its three flags, and all flags their
  // values once the words are read.
  void add_to(CLI::App& root);

  bool quiet() const { return quiet_; }
  bool verbose() const { return verbose_; }
  // Where values come from, a sentence each.
  const std::vector<std::string>& sources() const { return sources_; }

 private:
  struct Found {
    std::vector<std::string> values;
    std::string source;  // a variable, or FILE:LINE
  };

  void add_flags(CLI::App& command);
  void fill_in(const CLI::App& root, const std::string& named);
  Result<void> read_file(const std::string& path, const CLI::App* root);
  Found find(const std::vector<std::vector<std::string>>& paths, const std::string& flag) const;
  void set(CLI::Option& option, const Found& found);

  Files& files_;
  bool whole_;
  std::shared_ptr<Document> document_;  // none: no file
  bool quiet_ = false, verbose_ = false;
  std::string config_, verb_;
  std::vector<std::string> sources_;
};

// A single value as words; empty: it is none.
std::string scalar_text(const Node& value);

}  // namespace partita::cli
