#include "program.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <ctime>
#include <iterator>
#include <new>
#include <system_error>

#include "base/append.h"
#include "base/check.h"
#include "base/input_output.h"
#include "base/nearest.h"
#include "base/terminal.h"
#include "help/docs.h"
#include "places.h"
#include "settings.h"
#include "verbs.h"
#include "version.h"

namespace partita::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
// Those that docs/ promises an end in order of.
constexpr std::string_view kInOrder[] = {"apply", "drain", "batch run", "power run", "power set"};

extern "C" void end_in_order(int) {
  constexpr std::string_view kSentence = "partita: interrupted before anything was begun\n";
  static_cast<void>(::write(STDERR_FILENO, kSentence.data(), kSentence.size()) > 0);
  ::_exit(static_cast<int>(Exit::environment));
}

// EarlySignals: SIGINT, SIGTERM and SIGHUP from the first line of main() until the chosen command
// has what takes them (StopRequest, AgentSignals). Nothing has been begun by then, so a command
// that promises to end in order just ends, with the status that it promises.
class EarlySignals {
 public:
  enum class Way {
    plain,     // they end the program, as they do any
    in_order,  // they end it with a sentence and the status of an interruption
    kept,      // they wait for whoever takes them
  };
  // Blocks them.
  EarlySignals() {
    sigset_t early;
    sigemptyset(&early);
    for (const int signal : kSignals) sigaddset(&early, signal);
    ::pthread_sigmask(SIG_BLOCK, &early, &before_);
  }
  // Which way they go from now on; `command`: "batch run".
  void hand_over(std::string_view command) const {
    const Way way = way_of(command);
    if (way == Way::kept) return;
    for (const int signal : kSignals) {
      struct sigaction now {};
      ::sigaction(signal, nullptr, &now);
      if (way != Way::in_order || now.sa_handler == SIG_IGN) continue;
      now = {};
      now.sa_handler = end_in_order;
      ::sigaction(signal, &now, nullptr);
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static Way way_of(std::string_view command) {
    if (command == "agent" || command == "workers") return Way::kept;
    return std::ranges::find(kInOrder, command) == std::end(kInOrder) ? Way::plain : Way::in_order;
  }
  sigset_t before_{};
};

constexpr std::string_view kStandard = "-";

// LoudFiles: the Files door of the command line. It says what goes through it, which files and how
// many bytes, and what is written to "-" goes to standard output, as "-" read is standard input.
// Refers to the door behind it.
class LoudFiles final : public Files {
 public:
  using Tell = std::function<void(const std::string&)>;
  LoudFiles(Files& files, Tell tell) : files_(files), tell_(std::move(tell)) {}

  Result<std::string> read(const std::string& path) override {
    Result<std::string> text = files_.read(path);
    if (text)
      tell_(fmt::format("read {}, {} bytes", path == kStandard ? "standard input" : path,
                        text->size()));
    return text;
  }
  Result<void> write_atomic(const std::string& path, std::string_view content) override {
    if (path == kStandard) return write_output(path, content);
    return told(files_.write_atomic(path, content), "wrote {}, {} bytes", path, content.size());
  }
  Result<void> write_unsynced(const std::string& path, std::string_view content) override {
    return files_.write_unsynced(path, content);  // several a second, and of no interest
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    Result<std::vector<std::string>> names = files_.list(path);
    if (names)
      tell_(fmt::format("{} holds {}", path, count_text(static_cast<long>(names->size()), "file")));
    return names;
  }
  bool is_directory(const std::string& path) override { return files_.is_directory(path); }
  bool exists(const std::string& path) override { return path != kStandard && files_.exists(path); }
  Result<void> append(const std::string& path, std::string_view text) override {
    if (path == kStandard) return write_output(path, text);
    return told(files_.append(path, text), "added {} bytes to {}", text.size(), path);
  }
  Result<void> append_unsynced(const std::string& path, std::string_view text) override {
    return told(files_.append_unsynced(path, text), "added {} bytes to {}", text.size(), path);
  }
  Result<void> remove(const std::string& path) override {
    const bool there = files_.exists(path);
    const Result<void> removed = files_.remove(path);
    if (removed && there) tell_("removed " + path);
    return removed;
  }
  Result<void> make_directories(const std::string& path) override {
    const bool there = files_.is_directory(path);
    const Result<void> made = files_.make_directories(path);
    if (made && !there) tell_("made the folder " + path);
    return made;
  }
  Result<FileLock> lock(const std::string& path) override { return files_.lock(path); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return told(files_.rename(from, to), "renamed {} to {}", from, to);
  }

 private:
  template <class... Args>
  Result<void> told(const Result<void>& done, fmt::format_string<Args...> what, Args&&... args) {
    if (done) tell_(fmt::format(what, std::forward<Args>(args)...));
    return done;
  }
  Files& files_;
  Tell tell_;
};

constexpr int kLeastWidth = 40, kMostWidth = 500;

// $COLUMNS, else what the terminal says, else `standard`.
int width_of(int fd, int standard) {
  const std::string said = environment_variable("COLUMNS");
  int columns = 0;
  std::from_chars(said.data(), said.data() + said.size(), columns);
  winsize size{};
  if (columns <= 0 && isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns > 0 ? std::clamp(columns, kLeastWidth, kMostWidth) : standard;
}

Context real_context(Files& files, Clock& clock) {
  Context context{files, clock};
  const bool dumb = environment_variable("TERM") == "dumb";
  context.colour = !dumb && isatty(STDOUT_FILENO) == 1 && environment_variable("NO_COLOR").empty();
  context.progress = !dumb && isatty(STDERR_FILENO) == 1;
  context.width = width_of(STDOUT_FILENO, context.width);
  context.err_width = width_of(STDERR_FILENO, context.err_width);
  return context;
}

// The deepest command that was chosen before parsing failed.
const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> below = app.get_subcommands();
  return below.empty() ? app : chosen(*below.front());
}

// What says which form of a verb it is, where that is a document rather than a flag.
std::string taken_for(const CLI::App& app) {
  const VerbForm* form = form_called(path_below(app));
  if (form == nullptr) return {};
  std::string_view flag, document;
  for (const Trigger& one : form->when) {
    if (one.is == Trigger::Is::flag && flag.empty()) flag = one.text;
    if (one.is == Trigger::Is::kind) document = one.text;
  }
  if (flag.empty() || document.empty()) return {};
  return fmt::format("; for a {} `partita {}` takes {}", document, form->verb, flag);
}

// Whether a flag that a command does not have is one of those in front of all, such as --server.
bool of_the_program(const CLI::App& app, const std::string& flag) {
  const CLI::App* root = &app;
  while (root->get_parent() != nullptr) root = root->get_parent();
  return root->get_option_no_throw(flag) != nullptr;
}

// "unknown command 'plna'; did you mean 'plan'?", and the same for flags.
std::string unknown_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> flags;
  for (const FlagDoc& flag : describe(app).flags)
    flags.insert(flags.end(), flag.names.begin(), flag.names.end());
  if (word.starts_with('-') && of_the_program(app, word.substr(0, word.find('='))))
    return fmt::format("{}: goes before the command", word);
  if (word.starts_with('-'))
    return fmt::format("{}: unknown flag{}{}", word, did_you_mean(word, flags), taken_for(app));
  const std::vector<std::string> names = names_below(app);
  if (names.empty()) return fmt::format("'{}': unexpected argument", word);
  const bool flag = std::ranges::find(flags, "--" + word) != flags.end();  // "version"
  return fmt::format(
      "unknown command '{}'{}", word,
      flag ? fmt::format("; did you mean '--{}'?", word) : did_you_mean(word, names));
}

// Of an error that is about no word in particular.
std::string said(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_name() != "RequiredError" || app.get_require_subcommand_min() == 0 ||
      !app.get_subcommands().empty())
    return error.what();
  return fmt::format("which of its commands? {}", joined(names_below(app), ", "));
}

// CLI11 checks for missing commands and flags before it looks at words that nobody took; the
// unknown word is the better message, because it is usually the misspelt one.
Exit refuse(Context& context, const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  // Words that nobody took: not those of a program behind "--", nor where a value is wrong.
  std::vector<std::string> rest = command.remaining();
  rest.erase(std::ranges::find(rest, "--"), rest.end());
  if (error.get_name() == "ValidationError" || error.get_name() == "ConversionError") rest.clear();
  if (rest.empty() && &command == &app && error.get_name() == "RequiredError") {
    note(context, app.help());
    return Exit::bad_input;
  }
  const std::string path = context.verb.empty() ? path_below(command) : context.verb;
  refusal(context, rest.empty() ? said(command, error) : unknown_word(command, rest.front()));
  note(context, fmt::format("Try 'partita help{}{}'.\n", path.empty() ? "" : " ", path));
  return Exit::bad_input;
}

// Why nothing is to be run; nothing when a command was chosen.
std::optional<Exit> parse(Context& context, CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& wanted) {  // --help, --version
    app.exit(wanted);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return Exit::done;
    refusal(context, "standard output: cannot write all of it");
    return Exit::environment;
  } catch (const CLI::ParseError& error) {
    return refuse(context, app, error);
  }
}

// What the standard library throws where the system refuses memory or a thread is an answer too.
Result<Exit> run(Context& context, const Command& command) {
  try {
    return command.run(context);
  } catch (const std::bad_alloc&) {
    return environment_error("", "the system refused memory; see `ulimit -v` and `free`");
  } catch (const std::system_error& error) {
    return environment_error("", error.what());
  }
}

Exit run(Context& context, const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const Result<Exit> exit = run(context, command);
    if (exit) return *exit;
    refusal(context, to_string(exit.error()));
    return exit_of(exit.error());
  }
  return Exit::bad_input;
}

// Runs what was chosen, as loud as settings say.
Exit run(Context& context, const std::vector<Command>& commands, const Settings& settings) {
  if (settings.quiet() && settings.verbose()) {
    refusal(context, "--quiet and --verbose: one of them");
    return Exit::bad_input;
  }
  context.quiet = settings.quiet();
  if (context.quiet) context.progress = false;
  if (!settings.verbose()) return run(context, commands);
  for (const std::string& source : settings.sources()) complain(context, source);
  const std::int64_t begin_ns = context.clock.now_ns();
  const Exit exit = run(context, commands);
  complain(context,
           fmt::format("took {}, {} of the CPU; exit status {}",
                       duration_text(static_cast<double>(context.clock.now_ns() - begin_ns) * 1e-9),
                       duration_text(static_cast<double>(std::clock()) / CLOCKS_PER_SEC),
                       static_cast<int>(exit)));
  return exit;
}

// The command that the first word names, where nothing asks for the others: a settings file does,
// which is checked against all of them, and so do the commands about the program itself. Describing
// one instead of all of them is a quarter of the time that the program takes to start.
const Entry* alone(const Settings& settings, std::span<char*> words,
                   const std::vector<Entry>& entries) {
  if (words.size() < 2 || settings.may_come_from_file(words)) return nullptr;
  const auto help = [](std::string_view word) { return word == "--help" || word == "-h"; };
  if (std::ranges::any_of(words, help)) return nullptr;  // it tells of all forms of a verb
  const auto found = std::ranges::find(entries, std::string_view(words[1]), &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  return all;
}

std::vector<Command> describe_all(CLI::App& app, const Program& program, const Entry* only) {
  std::vector<Command> commands;
  for (const Entry& entry : program.commands)
    if (only == nullptr || only == &entry) commands.push_back(entry.add(app));
  if (only == nullptr) {
    for (Command& command : add_help_commands(app, program)) commands.push_back(std::move(command));
  }
  if (program.whole) hide_forms(app);
  return program.dress ? program.dress(app, std::move(commands)) : commands;
}

}  // namespace

int run_program(int argc, char** argv, const Program& program) {
  const EarlySignals signals;
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has seen enough ends us quietly
  RealFiles disk;
  RealClock clock;
  Settings settings(disk, program.whole);
  LoudFiles files(disk, [&settings](const std::string& what) {
    if (settings.verbose()) std::fputs(("partita: " + shown(what) + "\n").c_str(), stderr);
  });
  Context context = real_context(files, clock);
  const std::span<char* const> given(argv, static_cast<std::size_t>(argc));
  Spoken said = program.whole ? with_verb(disk, given) : Spoken{{given.begin(), given.end()}};
  const auto told = [&](std::string_view verb, std::string_view flag) {
    return settings.told(given, verb, flag);
  };
  std::vector<const VerbForm*> forms;
  if (program.whole && said.verb.empty()) forms = forms_told(disk, given, told);
  std::vector<char*> words = pointers_to(said.words);
  CLI::App app(program.summary, "partita");
  app.formatter(help_formatter());
  app.set_help_flag("-h,--help", "Explain this command");
  app.set_version_flag("--version", "partita " + version(), "Print the version");
  app.require_subcommand(1);
  const Entry* only = forms.empty() ? alone(settings, words, program.commands) : nullptr;
  const std::vector<Command> commands = describe_all(app, program, only);
  settings.add_to(app);
  if (!forms.empty()) {
    said = with_told(app, given, forms);
    words = pointers_to(said.words);
  }
  context.words = words;
  context.verb = said.verb;
  settings.said_as(said.verb);
  const std::optional<Exit> refused =
      parse(context, app, static_cast<int>(words.size()), words.data());
  signals.hand_over(path_below(chosen(app)));
  const Exit exit = refused ? *refused : run(context, commands, settings);
  if (!context.last) return static_cast<int>(exit);
  // What it says holds once this process is gone, so nothing comes between the two.
  std::fflush(nullptr);
  context.last();
  ::_exit(static_cast<int>(exit));
}

}  // namespace partita::cli
