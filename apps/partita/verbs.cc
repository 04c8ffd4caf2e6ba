#include "verbs.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/document.h"
#include "base/split.h"

namespace partita::cli {
namespace {

struct Verb {
  std::string_view word, about;  // about: a kind of document, or a flag
  std::string_view words;
};
constexpr Verb kVerbs[] = {{"verify", "BatchSchedule", "batch verify"},
                           {"verify", "KernelPlan", "kernels verify"},
                           {"verify", "PowerPlan", "power verify"},
                           {"simulate", "BatchSchedule", "batch simulate"},
                           {"simulate", "KernelPlan", "kernels simulate"},
                           {"simulate", "--table", "power simulate"},
                           {"compare", "--tasks", "batch compare"},
                           {"compare", "--schedulers", "batch compare"},
                           {"show", "--model", "profile show"}};

std::string kind_of(Files& files, const std::string& file) {
  if (file.starts_with('-') || !files.exists(file) || files.is_directory(file)) return {};
  const auto text = files.read(file);
  if (!text || text->find("kind") == std::string::npos) return {};
  const auto document = parse_document(file, *text);
  const Node* kind = document ? document->root.find("kind") : nullptr;
  return kind == nullptr ? std::string() : kind->text;
}

}  // namespace

std::vector<std::string> with_verb(Files& files, std::span<char* const> words) {
  std::vector<std::string> all(words.begin(), words.end());
  if (all.size() < 3) return all;
  const auto is_verb = [&](const Verb& one) { return all[1] == one.word; };
  if (std::ranges::none_of(kVerbs, is_verb)) return all;
  std::vector<std::string> about;
  for (std::size_t i = 2; i < all.size(); ++i) {
    about.push_back(all[i].substr(0, all[i].find('=')));
    if (i == 2) about.push_back(kind_of(files, all[i]));
  }
  for (const Verb& verb : kVerbs) {
    if (!is_verb(verb) || std::ranges::find(about, verb.about) == about.end()) continue;
    const std::vector<std::string> path = split(verb.words, ' ');
    all[1] = path.front();
    all.insert(all.begin() + 2, path.begin() + 1, path.end());
    return all;
  }
  return all;
}

}  // namespace partita::cli
