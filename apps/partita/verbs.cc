#include "verbs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/append.h"
#include "base/document.h"
#include "base/split.h"

namespace partita::cli {
namespace {

// When: --flag is given; --flag! too, and it says nothing else; --flag* is given more than once;
// --flag=:// with such a value; word: stands there, and says nothing else; a word with a colon
// begins one, and is cut off; "A B" two words without a flag; Kind of the first or last document.
// + is the verb itself, with this flag or none: the older name is nothing but words for it.
constexpr VerbForm kForms[] = {
    {"init", "--count", "batch generate"},
    {"planners", "+", "batch schedulers"},
    {"gpus", "--layouts!|--with", "layouts"},
    {"plan", "--tasks*|--online|--method|--replan", "batch stream"},
    {"plan", "--tasks", "batch schedule"},
    {"plan", "--table", "power plan"},
    {"plan", "--fleet=://|--fleet-name|--settings", "fleet plan"},
    {"verify", "--tasks|BatchSchedule", "batch verify"},
    {"verify", "--table|PowerPlan", "power verify"},
    {"verify", "KernelPlan", "kernels verify"},
    {"simulate", "--tasks|BatchSchedule", "batch simulate"},
    {"simulate", "--table", "power simulate"},
    {"simulate", "KernelPlan", "kernels simulate"},
    {"compare", "--tasks|--schedulers", "batch compare"},
    {"compare", "A B", "diff"},
    {"show", "+--watch", "watch"},
    {"show", "+--format=plot", "profile plot"},
    {"show", "--draft|Recording", "replay"},
    {"show", "--model|CSV|Folder", "profile show"},
    {"status", "--fleet=://|--fleet-name|--settings", "fleet status"},
    {"apply", "+--rollback", "rollback"},
    {"apply", "--tasks|BatchSchedule", "batch run"},
    {"apply", "--fleet=://|--fleet-name|--settings", "fleet apply"},
    {"drain", "--fleet=://|--fleet-name|--settings", "fleet drain"},
    {"history", "--fleet=://|--fleet-name|--settings", "fleet history"},
    {"explain", "--fleet=://|--fleet-name|--settings", "fleet explain"},
    {"approve", "--fleet=://|--fleet-name|--settings", "fleet approve"},
    {"approve", "--reject!", "reject"},
    {"lease", "--return!", "return"},
    {"lease", "--list!|--end-expired", "leases"},
    {"profile law", "--gpu", "profile fit"},
    {"power set", "--restore!", "power restore"},
    {"queue list", "batches", "batch list"},
    {"queue show", "batch:", "batch show"},
    {"queue show", "--logs!", "queue logs"},
    {"queue show", "--until-over!", "queue wait"},
    {"queue cancel", "batch:", "batch cancel"},
    {"queue hold", "batch:", "batch pause"},
    {"queue release", "batch:", "batch resume"},
};

// Of the program, before the verb: those that have a value.
constexpr std::array kBefore = {"--server", "--token-file",         "--server-ca",
                                "--config", "--client-certificate", "--client-key"};

using Words = std::vector<std::string>;

std::string kind_of(Files& files, const std::string& file) {
  if (file.empty() || file.starts_with('-') || !files.exists(file)) return {};
  if (files.is_directory(file)) return "Folder";
  if (file.ends_with(".csv")) return "CSV";
  const auto text = files.read(file);
  if (!text || text->find("kind") == std::string::npos) return {};
  const auto document = parse_document(file, *text);
  const Node* kind = document ? document->root.find("kind") : nullptr;
  return kind == nullptr ? std::string() : kind->text;
}

// "--tasks" of "--tasks*".
std::string bare(std::string_view one) {
  if (one.starts_with('+')) return std::string(one.substr(1));
  return std::string(one.substr(0, one.find_first_of("!*=")));
}

// How often a flag stands there with a value that has this in it.
std::ptrdiff_t count(const Words& words, const std::string& flag, std::string_view in = {}) {
  std::ptrdiff_t times = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].starts_with(flag + "=") || words[i] == flag)
      times += in.empty() || words[i].find(in) != words[i].npos ||
               (i + 1 < words.size() && words[i + 1].find(in) != words[i + 1].npos);
  return times;
}

// Whether this alternative of a `when` holds for the words behind a verb, which lose what says
// nothing else.
bool holds(Files& files, std::string_view one, Words& words) {
  const std::string name = bare(one);
  if (one.starts_with("--")) {
    const auto in = one.find('=') == one.npos ? "" : one.substr(one.find('=') + 1);
    const bool given = count(words, name, in) > (one.ends_with('*') ? 1 : 0);
    if (given && one.ends_with('!')) std::erase(words, name);
    return given;
  }
  const auto plain = [](const std::string& word) { return !word.starts_with('-'); };
  if (one == "A B")
    return !words.empty() && (plain(words.front()) || (words.size() > 1 && plain(words.back()) &&
                                                       plain(words[words.size() - 2])));
  if (one.front() < 'a')
    return !words.empty() &&
           (kind_of(files, words.front()) == one || kind_of(files, words.back()) == one);
  const auto found = std::ranges::find_if(words, [&](const std::string& word) {
    return one.ends_with(':') ? word.starts_with(one) : word == one;
  });
  if (found == words.end()) return false;
  found->erase(0, one.size());
  if (found->empty()) words.erase(found);
  return true;
}

// Where the verb begins.
std::size_t verb_at(const Words& words) {
  std::size_t at = 1;
  while (at < words.size() && words[at].starts_with('-'))
    at += std::ranges::find(kBefore, words[at]) == kBefore.end() ? 1 : 2;
  return at;
}

const CLI::App* app_at(const CLI::App& root, std::string_view path) {
  const CLI::App* app = &root;
  for (const std::string& word : split(path, ' ')) {
    const auto below =
        app->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (below.empty() || below.front()->get_prefix_command()) return nullptr;
    app = below.front();
  }
  return app;
}

}  // namespace

bool is_only_words(const VerbForm& form) { return form.when.starts_with('+'); }

std::string path_below(const CLI::App& command) {
  if (command.get_parent() == nullptr) return {};
  const std::string above = path_below(*command.get_parent());
  return above.empty() ? command.get_name() : above + " " + command.get_name();
}

Spoken with_verb(Files& files, std::span<char* const> words) {
  const Words all(words.begin(), words.end());
  const std::size_t at = std::min(verb_at(all), all.size());
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
  // The words behind a command that is said there; null: another one is.
  const auto behind = [&](std::string_view path) -> std::optional<Words> {
    const Words name = split(path, ' ');
    if (all.size() < at + name.size() || !std::equal(name.begin(), name.end(), begin))
      return std::nullopt;
    return Words(begin + static_cast<std::ptrdiff_t>(name.size()), all.end());
  };
  const auto with = [&](std::string_view path, const Words& rest) {
    Words line(all.begin(), begin);
    for (const Words& more : {split(path, ' '), rest})
      line.insert(line.end(), more.begin(), more.end());
    return line;
  };
  for (const VerbForm& form : kForms) {
    auto rest = behind(is_only_words(form) ? form.was : form.verb);
    if (!rest) continue;
    if (is_only_words(form)) {  // which may be a form of something
      Words line = with(said_now(form), *rest);
      std::vector<char*> again;
      for (std::string& word : line) again.push_back(word.data());
      return with_verb(files, again);
    }
    const auto end = std::ranges::find(*rest, "--");
    const Words others(end, rest->end());  // they are of a program
    rest->erase(end, rest->end());
    if (count(*rest, "-h") + count(*rest, "--help") > 0) break;
    bool wanted = false;
    for (const std::string& one : split(form.when, '|'))
      wanted = holds(files, one, *rest) || wanted;
    rest->insert(rest->end(), others.begin(), others.end());
    if (wanted) return {with(form.was, *rest), std::string(form.verb)};
  }
  return {all};
}

const VerbForm* form_called(std::string_view was) {
  const auto found = std::ranges::find(kForms, was, &VerbForm::was);
  return found == std::end(kForms) ? nullptr : found;
}

std::string said_now(const VerbForm& form) {
  const std::string first = bare(split(form.when, '|').front());
  return std::string(form.verb) + (first.empty() ? "" : " ") + first;
}

std::string said_now(std::string_view name) {
  const VerbForm* form = form_called(name);
  return form == nullptr ? std::string(name) : said_now(*form);
}

std::string when_text(const VerbForm& form) {
  Words all;
  for (const std::string& one : split(form.when, '|')) all.push_back(bare(one));
  return "With " + joined(all, " or ");
}

std::string marker_of(const VerbForm& form) {
  return form.when.find('!') == form.when.npos ? "" : bare(split(form.when, '|').front());
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
