#include "verbs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>

#include "base/append.h"
#include "base/document.h"
#include "base/split.h"

namespace partita::cli {
namespace {

// When: --flag is given; --flag! too, and it says nothing else; --flag* is given more than once;
// --flag=:// with such a value; word: stands there, and says nothing else; word: with a colon
// begins one, and is cut off; @ two words without a flag; Kind of the first or last word's document.
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
    {"compare", "@", "diff"},
    {"show", "+--watch", "watch"},
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

// What stands behind the verb.
class Rest {
 public:
  Rest(Files& files, const Words& words, std::size_t begin) : files_(files), begin_(begin) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(begin);
    words_.assign(first, std::find(first, words.end(), "--"));
  }
  bool wants_help() const { return count("-h") + count("--help") > 0; }

  // Whether this alternative of a `when` holds. `all`: the whole line, which loses what says
  // nothing else.
  bool holds(std::string_view one, Words& all) const {
    if (one == "@") return two_words();
    if (one.starts_with("--")) return flag_holds(one, all);
    if (one.front() >= 'A' && one.front() <= 'Z') return is_about(one);
    const auto found = std::ranges::find_if(words_, [&](const std::string& word) {
      return one.ends_with(':') ? word.starts_with(one) : word == one;
    });
    if (found == words_.end()) return false;
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(begin_) + (found - words_.begin());
    if (one.ends_with(':'))
      *at = at->substr(one.size());
    else
      all.erase(at);
    return true;
  }

 private:
  std::ptrdiff_t count(std::string_view flag) const {
    return std::ranges::count_if(words_, [&](std::string_view word) {
      return word == flag || (word.starts_with(flag) && word.substr(flag.size()).starts_with('='));
    });
  }
  bool flag_holds(std::string_view one, Words& all) const {
    const std::string flag(one.substr(0, one.find_first_of("!*=")));
    const std::string_view how = one.substr(flag.size());
    const auto times = count(flag);
    if (how == "!" && times > 0) std::erase(all, flag);
    if (!how.starts_with('=')) return times > (how == "*" ? 1 : 0);
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const bool behind = words_[i] == flag && i + 1 < words_.size();
      if (!behind && !words_[i].starts_with(flag + "=")) continue;
      if (words_[behind ? i + 1 : i].find(how.substr(1)) != std::string::npos) return true;
    }
    return false;
  }
  bool is_about(std::string_view kind) const {
    if (kinds_.empty() && !words_.empty())
      kinds_ = {kind_of(files_, words_.front()), kind_of(files_, words_.back())};
    return std::ranges::find(kinds_, kind) != kinds_.end();
  }
  bool two_words() const {
    const auto plain = [&](std::size_t i) {
      return i < words_.size() && !words_[i].starts_with('-');
    };
    return plain(0) || (words_.size() > 1 && plain(words_.size() - 2) && plain(words_.size() - 1));
  }

  Files& files_;
  std::size_t begin_;
  Words words_;
  mutable Words kinds_;  // looked up once they matter
};

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

Spoken with_verb(Files& files, std::span<char* const> words) {
  Words all(words.begin(), words.end());
  const std::size_t at = verb_at(all);
  // `path` instead of so many words from there.
  const auto replace = [at](Words line, std::size_t count, std::string_view path) {
    const auto begin = line.begin() + static_cast<std::ptrdiff_t>(at);
    const Words instead = split(path, ' ');
    line.insert(line.erase(begin, begin + static_cast<std::ptrdiff_t>(count)), instead.begin(),
                instead.end());
    return line;
  };
  const auto said = [&](std::string_view path) {
    const Words name = split(path, ' ');
    return all.size() >= at + name.size() &&
           std::equal(name.begin(), name.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
  };
  const auto old = std::ranges::find_if(
      kForms, [&](const VerbForm& one) { return is_only_words(one) && said(one.was); });
  if (old != std::end(kForms))
    return {replace(std::move(all), split(old->was, ' ').size(), said_now(*old))};
  const auto verb =
      std::ranges::find_if(kForms, [&](const VerbForm& one) { return said(one.verb); });
  if (verb == std::end(kForms)) return {std::move(all)};
  const std::size_t count = split(verb->verb, ' ').size();
  const Rest rest(files, all, at + count);
  if (rest.wants_help()) return {std::move(all)};
  for (const VerbForm& form : kForms) {
    Words line = all;
    bool wanted = false;
    if (form.verb == verb->verb && !is_only_words(form))
      for (const std::string& one : split(form.when, '|')) wanted = rest.holds(one, line) || wanted;
    if (wanted) return {replace(std::move(line), count, form.was), std::string(form.verb)};
  }
  return {std::move(all)};
}

const VerbForm* form_called(std::string_view was) {
  const auto found = std::ranges::find(kForms, was, &VerbForm::was);
  return found == std::end(kForms) ? nullptr : found;
}

std::string said_now(const VerbForm& form) {
  if (form.when == "+") return std::string(form.verb);
  if (is_only_words(form)) return std::string(form.verb) + " " + std::string(form.when.substr(1));
  const std::string first = split(form.when, '|').front();
  const std::string flag = first.substr(0, first.find_first_of("!*="));
  const std::string behind = first.starts_with("--") || first == "batches" ? " " + flag
                             : first.ends_with(':')                        ? " " + flag + "NUMBER"
                             : first == "@"                                ? " A B"
                                                                           : " FILE";
  return std::string(form.verb) + behind;
}

std::string said_now(std::string_view name) {
  const VerbForm* form = form_called(name);
  return form == nullptr ? std::string(name) : said_now(*form);
}

std::string when_text(const VerbForm& form) {
  Words all;
  for (const std::string& one : split(form.when, '|')) {
    const std::string flag = one.substr(0, one.find_first_of("!*="));
    if (one == "@")
      all.emplace_back("of two documents");
    else if (one.ends_with('*'))
      all.push_back("with more than one " + flag);
    else if (one.ends_with("=://"))
      all.push_back("with " + flag + " URL");
    else if (one.starts_with("--"))
      all.push_back("with " + flag);
    else if (one.ends_with(':'))
      all.push_back("of " + one + "NUMBER");
    else
      all.push_back((one == "batches" ? "with " : "of a ") + one);
  }
  std::string text = joined(all, ", or ");
  text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

std::string marker_of(const VerbForm& form) {
  const std::string first = split(form.when, '|').front();
  return first.ends_with('!') ? first.substr(0, first.size() - 1) : std::string();
}

std::vector<FormOf> forms_of(const CLI::App& command) {
  std::string path;
  const CLI::App* root = &command;
  for (; root->get_parent() != nullptr; root = root->get_parent())
    path = root->get_name() + (path.empty() ? "" : " " + path);
  std::vector<FormOf> forms;
  for (const VerbForm& form : kForms)
    if (form.verb == path)
      if (const CLI::App* app = app_at(*root, form.was)) forms.push_back({&form, app});
  return forms;
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
