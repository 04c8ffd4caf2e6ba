#include "verbs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/append.h"
#include "base/document.h"
#include "base/split.h"
#include "profile/csv.h"

namespace partita::cli {
namespace {

constexpr Trigger flag(std::string_view name) { return {Trigger::Is::flag, name}; }
constexpr Trigger marker(std::string_view name) { return {Trigger::Is::marker, name}; }
constexpr Trigger again(std::string_view name) { return {Trigger::Is::again, name}; }
constexpr Trigger url(std::string_view name) { return {Trigger::Is::url, name}; }
constexpr Trigger word(std::string_view text) { return {Trigger::Is::word, text}; }
constexpr Trigger prefix(std::string_view text) { return {Trigger::Is::prefix, text}; }
constexpr Trigger two_words() { return {Trigger::Is::two, "A B"}; }
constexpr Trigger kind(std::string_view name) { return {Trigger::Is::kind, name}; }
constexpr Trigger spelling(std::string_view name) { return {Trigger::Is::spelling, name}; }

constexpr std::array<Trigger, 4> kOfFleet = {flag("--fleet"), flag("--fleet-name"),
                                             flag("--settings")};

constexpr VerbForm kForms[] = {
    {"init", "batch generate", {flag("--count")}},
    {"planners", "batch schedulers", {spelling("")}},
    {"gpus", "layouts", {marker("--layouts"), flag("--with")}},
    {"plan", "batch stream",
     {again("--tasks"), flag("--online"), flag("--method"), flag("--replan")}},
    {"plan", "batch schedule", {flag("--tasks")}},
    {"plan", "power plan", {flag("--table")}},
    {"plan", "fleet plan", {url("--fleet"), flag("--fleet-name"), flag("--settings")}},
    {"verify", "batch verify", {flag("--tasks"), kind("BatchSchedule")}},
    {"verify", "power verify", {flag("--table"), kind("PowerPlan")}},
    {"verify", "kernels verify", {kind("KernelPlan")}},
    {"simulate", "batch simulate", {flag("--tasks"), kind("BatchSchedule")}},
    {"simulate", "power simulate", {flag("--table")}},
    {"simulate", "kernels simulate", {kind("KernelPlan")}},
    {"compare", "batch compare", {flag("--tasks"), flag("--schedulers")}},
    {"compare", "diff", {two_words()}},
    {"show", "watch", {spelling("--watch")}},
    {"show", "profile plot", {spelling("--format=plot")}},
    {"show", "replay", {flag("--draft"), kind("Recording")}},
    {"show", "profile show", {flag("--model"), kind("Profiles"), kind("Folder")}},
    {"status", "fleet status", kOfFleet},
    {"apply", "rollback", {spelling("--rollback")}},
    {"apply", "batch run", {flag("--tasks"), kind("BatchSchedule")}},
    {"apply", "fleet apply", kOfFleet},
    {"drain", "fleet drain", kOfFleet},
    {"history", "fleet history", kOfFleet},
    {"explain", "fleet explain", kOfFleet},
    {"approve", "fleet approve", kOfFleet},
    {"approve", "reject", {marker("--reject")}},
    {"lease", "return", {marker("--return")}},
    {"lease", "leases", {marker("--list"), flag("--end-expired")}},
    {"profile law", "profile fit", {flag("--gpu")}},
    {"power set", "power restore", {marker("--restore")}},
    {"queue list", "batch list", {word("batches")}},
    {"queue show", "batch show", {prefix("batch:")}},
    {"queue show", "queue logs", {marker("--logs")}},
    {"queue show", "queue wait", {marker("--until-over")}},
    {"queue cancel", "batch cancel", {prefix("batch:")}},
    {"queue hold", "batch pause", {prefix("batch:")}},
    {"queue release", "batch resume", {prefix("batch:")}},
};

// Of the program, before the verb: those that have a value.
constexpr std::array kBefore = {"--server", "--token-file",         "--server-ca",
                                "--config", "--client-certificate", "--client-key"};

// Flags that ask for a form also where settings say them, since they say what a verb is about; the
// others mean something to several forms.
constexpr std::string_view kFleet = "--fleet";
constexpr std::array<std::string_view, 3> kAbout = {"--tasks", "--table", kFleet};

using Words = std::vector<std::string>;

std::string kind_of(Files& files, const std::string& file) {
  if (file.empty() || file.starts_with('-') || !files.exists(file)) return {};
  if (files.is_directory(file)) return "Folder";
  const auto text = files.read(file);
  if (text && file.ends_with(".csv")) {
    const auto columns = profile::csv_cells(text->substr(0, text->find_first_of("\r\n")));
    const auto has = [&](const char* name) { return std::ranges::count(*columns, name) > 0; };
    return columns && has("model") && (has("gpcs") || has("processes")) ? "Profiles" : "CSV";
  }
  if (!text || text->find("kind") == std::string::npos) return {};
  const auto document = parse_document(file, *text);
  const Node* kind = document ? document->root.find("kind") : nullptr;
  return kind == nullptr ? std::string() : kind->text;
}

// How often a flag stands there with a value that has this in it.
std::ptrdiff_t count(const Words& words, std::string_view name, std::string_view in = {}) {
  const std::string flag(name);
  std::ptrdiff_t times = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].starts_with(flag + "=") || words[i] == flag)
      times += in.empty() || words[i].find(in) != words[i].npos ||
               (i + 1 < words.size() && words[i + 1].find(in) != words[i + 1].npos);
  return times;
}

bool two_words_first_or_last(const Words& words) {
  const auto plain = [](const std::string& word) { return word == "-" || !word.starts_with('-'); };
  return !words.empty() && (plain(words.front()) || (words.size() > 1 && plain(words.back()) &&
                                                     plain(words[words.size() - 2])));
}

// Cuts a word, or what it begins with; whether there was one.
bool cut(const Trigger& trigger, Words& words) {
  const auto found = std::ranges::find_if(words, [&](const std::string& word) {
    return trigger.is == Trigger::Is::prefix ? word.starts_with(trigger.text)
                                             : word == trigger.text;
  });
  if (found == words.end()) return false;
  found->erase(0, trigger.text.size());
  if (found->empty()) words.erase(found);
  return true;
}

// Whether it holds for the words behind a verb, which lose what says nothing else.
bool holds(Files& files, const Trigger& trigger, Words& words) {
  switch (trigger.is) {
    case Trigger::Is::flag:
      return count(words, trigger.text) > 0;
    case Trigger::Is::marker:
      return std::erase(words, trigger.text) > 0;
    case Trigger::Is::again:
      return count(words, trigger.text) > 1;
    case Trigger::Is::url:
      return count(words, trigger.text, "://") > 0;
    case Trigger::Is::word:
    case Trigger::Is::prefix:
      return cut(trigger, words);
    case Trigger::Is::two:
      return two_words_first_or_last(words);
    case Trigger::Is::kind:
      return !words.empty() && (kind_of(files, words.front()) == trigger.text ||
                                kind_of(files, words.back()) == trigger.text);
    case Trigger::Is::spelling:
    case Trigger::Is::none:
      break;
  }
  return false;
}

// Whether it holds for a flag with these values.
bool holds(const Trigger& trigger, const Words& values) {
  const bool is_url = std::ranges::any_of(
      values, [](const std::string& value) { return value.find("://") != value.npos; });
  return trigger.is == Trigger::Is::again ? values.size() > 1
         : trigger.is == Trigger::Is::url ? is_url
                                          : !values.empty();
}

// Where the verb begins.
std::size_t verb_at(const Words& words) {
  std::size_t at = 1;
  while (at < words.size() && words[at].starts_with('-'))
    at += std::ranges::find(kBefore, words[at]) == kBefore.end() ? 1 : 2;
  return at;
}

// A command line, and where the verb begins.
struct Line {
  Words all = {};
  std::size_t at = 0;
  Words::const_iterator begin() const { return all.begin() + static_cast<std::ptrdiff_t>(at); }
  // The words behind a command that is said there; none: another one is.
  std::optional<Words> behind(std::string_view path) const {
    const Words name = split(path, ' ');
    if (all.size() < at + name.size() || !std::equal(name.begin(), name.end(), begin()))
      return std::nullopt;
    return Words(begin() + static_cast<std::ptrdiff_t>(name.size()), all.end());
  }
  Words with(std::string_view path, const Words& rest) const {
    Words line(all.begin(), begin());
    for (const Words& more : {split(path, ' '), rest})
      line.insert(line.end(), more.begin(), more.end());
    return line;
  }
};

Line line_of(std::span<char* const> words) {
  Line line{{words.begin(), words.end()}};
  line.at = std::min(verb_at(line.all), line.all.size());
  return line;
}

// Takes out what is a program's, from "--" on.
Words cut_program(Words& words) {
  const auto end = std::ranges::find(words, "--");
  const Words others(end, words.end());
  words.erase(end, words.end());
  return others;
}

bool asks_for_help(const Words& words) { return count(words, "-h") + count(words, "--help") > 0; }

const CLI::App* app_at(const CLI::App& root, std::string_view path) {
  const CLI::App* app = &root;
  for (const std::string& word : split(path, ' ')) {
    app = child_named(*app, word);
    if (app == nullptr || app->get_prefix_command()) return nullptr;
  }
  return app;
}

}  // namespace

bool is_only_words(const VerbForm& form) { return form.first().is == Trigger::Is::spelling; }

const CLI::App* child_named(const CLI::App& command, const std::string& name) {
  for (const CLI::App* child : command.get_subcommands({}))
    if (child->get_name() == name) return child;
  return nullptr;
}

std::string path_below(const CLI::App& command) {
  if (command.get_parent() == nullptr) return {};
  const std::string above = path_below(*command.get_parent());
  return above.empty() ? command.get_name() : above + " " + command.get_name();
}

Spoken with_verb(Files& files, std::span<char* const> words) {
  const Line line = line_of(words);
  for (const VerbForm& form : kForms) {
    auto rest = line.behind(is_only_words(form) ? form.was : form.verb);
    if (!rest) continue;
    if (is_only_words(form)) {  // which may be a form of something
      Words said = line.with(said_now(form), *rest);
      std::vector<char*> again;
      for (std::string& word : said) again.push_back(word.data());
      return with_verb(files, again);
    }
    const Words others = cut_program(*rest);
    if (asks_for_help(*rest)) break;
    bool wanted = false;
    for (const Trigger& one : form.when) wanted = holds(files, one, *rest) || wanted;
    rest->insert(rest->end(), others.begin(), others.end());
    if (wanted) return {line.with(form.was, *rest), std::string(form.verb)};
  }
  return {line.all};
}

std::vector<const VerbForm*> forms_told(Files& files, std::span<char* const> words,
                                        const Told& told) {
  const Line line = line_of(words);
  std::vector<const VerbForm*> forms;
  for (const VerbForm& form : kForms) {
    auto rest = line.behind(form.verb);
    if (!rest) continue;
    cut_program(*rest);
    if (asks_for_help(*rest)) return {};
    // A document of another kind says by itself what is meant.
    const bool document = !rest->empty() && !(kind_of(files, rest->front()).empty() &&
                                              kind_of(files, rest->back()).empty());
    const auto asks = [&](const Trigger& one) {
      return std::ranges::find(kAbout, one.text) != kAbout.end() &&
             !(document && one.text != kFleet) && holds(one, told(form.verb, one.text.substr(2)));
    };
    if (std::ranges::any_of(form.when, asks)) forms.push_back(&form);
  }
  return forms;
}

Spoken with_told(const CLI::App& root, std::span<char* const> words,
                 std::span<const VerbForm* const> forms) {
  const Line line = line_of(words);
  for (const VerbForm* form : forms) {
    const CLI::App* app = app_at(root, form->was);
    auto rest = line.behind(form->verb);
    if (app == nullptr || !rest) continue;
    const Words others = cut_program(*rest);
    const bool fits = std::ranges::all_of(*rest, [&](const std::string& word) {
      return !word.starts_with('-') || word == "-" ||
             app->get_option_no_throw(word.substr(0, word.find('='))) != nullptr;
    });
    rest->insert(rest->end(), others.begin(), others.end());
    if (fits) return {line.with(form->was, *rest), std::string(form->verb)};
  }
  return {line.all};
}

const VerbForm* form_called(std::string_view was) {
  const auto found = std::ranges::find(kForms, was, &VerbForm::was);
  return found == std::end(kForms) ? nullptr : found;
}

std::string said_now(const VerbForm& form) {
  const std::string first(form.first().text);
  return std::string(form.verb) + (first.empty() ? "" : " ") + first;
}

std::string said_now(std::string_view name) {
  const VerbForm* form = form_called(name);
  return form == nullptr ? std::string(name) : said_now(*form);
}

std::string when_text(const VerbForm& form) {
  Words all;
  for (const Trigger& one : form.when)
    if (one.is != Trigger::Is::none) all.emplace_back(one.text);
  return "With " + joined(all, " or ");
}

std::string marker_of(const VerbForm& form) {
  return std::string(form.first().is == Trigger::Is::marker ? form.first().text : "");
}

std::vector<FormOf> forms_of(const CLI::App& command) {
  const std::string path = path_below(command);
  const CLI::App* root = &command;
  while (root->get_parent() != nullptr) root = root->get_parent();
  std::vector<FormOf> forms;
  for (const VerbForm& form : kForms)
    if (form.verb == path)
      if (const CLI::App* app = app_at(*root, form.was)) forms.push_back({&form, app});
  return forms;
}

std::vector<std::string> names_below(const CLI::App& command) {
  Words names;
  for (const CLI::App* child : command.get_subcommands({})) {
    const std::string path = path_below(*child);
    const bool older = std::ranges::any_of(kForms, [&](const VerbForm& form) {
      return form.was == path || form.was.starts_with(path + " ");
    });
    if (older || !child->get_group().empty()) names.push_back(child->get_name());
  }
  return names;
}

void hide_forms(CLI::App& root) {
  for (const VerbForm& form : kForms)
    if (const CLI::App* found = app_at(root, form.was)) {
      auto* const app = const_cast<CLI::App*>(found);
      app->group("");
      CLI::App* const parent = app->get_parent();
      const auto listed =
          parent->get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
      if (parent != &root && listed.empty()) parent->group("");
    }
}

}  // namespace partita::cli
