#include "ptx/names.h"

#include <utility>

#include "base/check.h"
#include "base/parse_number.h"

namespace partita::ptx {
namespace {

struct Numbered {
  std::string_view prefix;
  std::uint64_t number = 0;
};

// "%r57" as "%r" and 57, if it is spelt as a range would.
std::optional<Numbered> numbered(std::string_view name) {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  const std::string_view tail = name.substr(digits);
  if (tail.empty() || (tail[0] == '0' && tail.size() > 1)) return std::nullopt;
  const auto number = parse_number<std::uint64_t>(tail);
  if (!number) return std::nullopt;
  return Numbered{name.substr(0, digits), *number};
}

}  // namespace

Names::Names(const NameSet& module_symbols) : symbols_(module_symbols) { open(); }

void Names::open() { scopes_.emplace_back(); }

std::string& Names::text_at(Function& function, const Place& place) {
  if (place.targets) return function.targets[place.at].labels[place.item];
  return function.code[place.at].operands[place.item].text;
}

void Names::close(Function& function) {
  CHECK(!scopes_.empty());
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const auto& [name, entry] : scope.names) {
    const auto places = entry.kind == Kind::label ? scope.waiting.find(name) : scope.waiting.end();
    if (places == scope.waiting.end()) continue;
    for (const Place& place : places->second) text_at(function, place) = entry.name;
    scope.waiting.erase(places);
  }
  // The larger takes in the smaller, so that deep nests cost little.
  Waiting& rest = scopes_.empty() ? unresolved_ : scopes_.back().waiting;
  if (rest.size() < scope.waiting.size()) std::swap(rest, scope.waiting);
  for (auto& [name, places] : scope.waiting) {
    std::vector<Place>& all = rest[name];
    if (all.size() < places.size()) std::swap(all, places);
    all.insert(all.end(), places.begin(), places.end());
  }
}

bool Names::taken(std::string_view name) const {
  if (used_.contains(name) || symbols_.contains(name)) return true;
  const auto parts = numbered(name);
  if (!parts) return false;
  const auto range = prefixes_.find(parts->prefix);
  return range != prefixes_.end() && parts->number < range->second;
}

std::string Names::unique(std::string_view name) {
  std::string result(name);
  if (taken(result)) {
    std::uint64_t& suffix = suffixes_[name];
    do {
      result = std::string(name) + "$" + std::to_string(++suffix);
    } while (taken(result));
  }
  used_.insert(result);
  return result;
}

std::optional<std::string> Names::add(std::string_view name, Entry entry) {
  Scope& scope = scopes_.back();
  if (scope.names.contains(name)) return std::nullopt;
  const auto parts = numbered(name);
  if (parts) {
    const auto range = scope.ranges.find(parts->prefix);
    if (range != scope.ranges.end() && parts->number < range->second.count) return std::nullopt;
  }
  std::string result = unique(name);
  if (entry.kind != Kind::reg) entry.name = result;
  scope.names.emplace(name, std::move(entry));
  return result;
}

std::optional<std::string> Names::add_variable(std::string_view name) {
  return add(name, {.kind = Kind::variable});
}

std::optional<std::string> Names::add_label(std::string_view name) {
  return add(name, {.kind = Kind::label});
}

std::optional<std::string> Names::add_register(std::string_view name, int first) {
  return add(name, {.kind = Kind::reg, .reg = first});
}

std::optional<std::vector<std::string>> Names::add_registers(std::string_view prefix, int first,
                                                             std::uint64_t count) {
  Scope& scope = scopes_.back();
  std::vector<std::string> names;
  names.reserve(count);
  // A range whose names are free is remembered as such, else each name goes its own way; so do
  // those of a prefix with a digit at its end, which numbered() could not tell from the number.
  const bool digit = !prefix.empty() && prefix.back() >= '0' && prefix.back() <= '9';
  bool free = !digit && !scope.ranges.contains(prefix) && !prefixes_.contains(prefix);
  for (std::uint64_t at = 0; at < count; ++at) {
    names.push_back(std::string(prefix) + std::to_string(at));
    free = free && !taken(names.back());
  }
  if (free) {
    prefixes_[prefix] = count;
    scope.ranges[prefix] = {first, count};
    return names;
  }
  for (std::uint64_t at = 0; at < count; ++at) {
    auto name = add_register(kept_.emplace_back(names[at]), first + static_cast<int>(at));
    if (!name) return std::nullopt;
    names[at] = *std::move(name);
  }
  return names;
}

int Names::find_register(std::string_view name) const {
  const auto parts = numbered(name);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return found->second.reg;
    if (!parts || scope->ranges.empty()) continue;
    const auto range = scope->ranges.find(parts->prefix);
    if (range != scope->ranges.end() && parts->number < range->second.count) {
      return range->second.first + static_cast<int>(parts->number);
    }
  }
  return -1;
}

const std::string* Names::find_variable(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->names.find(name);
    if (found == scope->names.end()) continue;
    return found->second.kind == Kind::variable ? &found->second.name : nullptr;
  }
  return nullptr;
}

void Names::wait_for_label(std::string_view name, Place place) {
  scopes_.back().waiting[name].push_back(place);
}

}  // namespace partita::ptx
