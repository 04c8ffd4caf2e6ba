// The names of one function while it is read: registers, variables and labels of nested { } scopes.
// Each gets a name that is unique in the function and differs from the module's symbols, so that
// what comes later needs no scopes. The text that names point into outlives this.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx/module.h"

namespace partita::ptx {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using NameSet = std::unordered_set<std::string, StringHash, std::equal_to<>>;

class Names {
 public:
  explicit Names(const NameSet& module_symbols);

  void open();
  // Labels of the scope are known now: places in `function` that name one get its unique name,
  // the others wait for the scope around it.
  void close(Function& function);
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }

  // Names as they are to stand in the function; nothing where the scope has the name already.
  std::optional<std::string> add_variable(std::string_view name);
  std::optional<std::string> add_label(std::string_view name);
  // `first`: the index that the register gets.
  std::optional<std::string> add_register(std::string_view name, int first);
  // prefix0 ... prefix(count-1) from index `first` on.
  std::optional<std::vector<std::string>> add_registers(std::string_view prefix, int first,
                                                        std::uint64_t count);

  // What the innermost declaration of a name made it; -1, null where there is none.
  int find_register(std::string_view name) const;
  const std::string* find_variable(std::string_view name) const;
  bool is_module_symbol(std::string_view name) const { return symbols_.contains(name); }

  // A place that may name a label: operand `item` of instruction `at`, or (targets) label `item`
  // of targets list `at`.
  struct Place {
    bool targets = false;
    std::size_t at = 0, item = 0;
    int line = 0;
  };
  void wait_for_label(std::string_view name, Place place);
  // After the last close: places that name no label, by that name.
  using Waiting = std::map<std::string_view, std::vector<Place>>;
  const Waiting& unresolved() const { return unresolved_; }
  static std::string& text_at(Function& function, const Place& place);

 private:
  enum class Kind : std::uint8_t { reg, variable, label };
  struct Entry {
    Kind kind = Kind::reg;
    int reg = -1;
    std::string name = {};  // not of registers
  };
  struct Range {
    int first = 0;
    std::uint64_t count = 0;
  };
  struct Scope {
    std::unordered_map<std::string_view, Entry> names = {};
    std::unordered_map<std::string_view, Range> ranges = {};
    Waiting waiting = {};
  };

  std::optional<std::string> add(std::string_view name, Entry entry);
  bool taken(std::string_view name) const;
  std::string unique(std::string_view name);

  const NameSet& symbols_;
  std::vector<Scope> scopes_;
  NameSet used_;                                                  // single names of the function
  std::unordered_map<std::string_view, std::uint64_t> prefixes_;  // longest range of each prefix
  std::unordered_map<std::string_view, std::uint64_t> suffixes_;  // next to try
  std::deque<std::string> kept_;                                  // keys that no text holds
  Waiting unresolved_;
};

}  // namespace partita::ptx
