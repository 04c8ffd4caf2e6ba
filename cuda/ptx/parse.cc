#include "ptx/parse.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "base/parse_number.h"
#include "ptx/body.h"
#include "ptx/declarations.h"
#include "ptx/names.h"
#include "ptx/reader.h"

namespace partita::ptx {
namespace {

constexpr std::size_t kMaxFileNumber = 100'000;

class ModuleReader {
 public:
  ModuleReader(std::string_view text, std::string_view name) : reader_(text, name) {}

  Result<Module> read() {
    header();
    while (reader_.ok() && !reader_.ended()) item();
    if (reader_.ok()) finish();
    if (!reader_.ok()) return failed(*reader_.error());
    return std::move(module_);
  }

 private:
  void header() {
    if (!reader_.take_if_dot("version")) {
      reader_.expected("'.version' at the start");
      return;
    }
    const Token version = reader_.take();
    const std::size_t point = version.text.find('.');
    const int major = part(version.text.substr(0, point));
    const int minor = point == std::string_view::npos ? -1 : part(version.text.substr(point + 1));
    if (version.kind != Token::Kind::number || major < 0 || minor < 0) {
      reader_.fail(version.line, "expected a version as 8.0, found " + shown(version));
      return;
    }
    module_.version_major = major;
    module_.version_minor = minor;
  }

  // A number of one or two digits, or -1.
  static int part(std::string_view digits) {
    return digits.size() > 2 ? -1 : parse_number<int>(digits).value_or(-1);
  }

  void item() {
    spend(reader_, budget_.statements, 1, "statements");
    const Token token = reader_.peek();
    if (token.is(';')) {
      reader_.take();
      return;
    }
    if (token.kind != Token::Kind::dot) {
      reader_.expected("a directive");
      return;
    }
    if (plain_directive(token.text)) return;
    declaration();
  }

  // What is neither a variable nor a function; false where it is one of these.
  bool plain_directive(std::string_view word) {
    if (word == "target") {
      target();
    } else if (word == "address_size") {
      reader_.take();
      const std::uint64_t bits = reader_.take_count("32 or 64", 64);
      if (bits != 32 && bits != 64) reader_.fail(reader_.line(), "an address size is 32 or 64");
      module_.address_size = static_cast<int>(bits);
    } else if (word == "file") {
      file();
    } else if (word == "section") {
      section();
    } else if (word == "loc") {
      reader_.take();
      read_location(reader_, nullptr);
    } else if (word == "pragma") {
      while (reader_.ok() && !reader_.ended() && !reader_.peek().is(';')) reader_.take();
      reader_.expect(';', "after a pragma");
    } else if (word == "alias") {
      alias();
    } else {
      return false;
    }
    return true;
  }

  // sm_90a, texmode_independent, debug, ...: the first is kept.
  void target() {
    reader_.take();
    const std::string_view target = reader_.take_name("a target as sm_70");
    if (module_.target.empty()) module_.target = target;
    while (reader_.take_if(',')) reader_.take_name("an option of the target");
  }

  // NUMBER "name" [, time, size]
  void file() {
    reader_.take();
    const std::uint64_t number = reader_.take_count("the number of a file", kMaxFileNumber);
    if (reader_.peek().kind != Token::Kind::text) {
      reader_.expected("the name of a file");
      return;
    }
    if (module_.files.size() <= number) module_.files.resize(number + 1);
    module_.files[number] = reader_.take().text;
    while (reader_.take_if(',')) reader_.take_count("a number", UINT64_MAX);
  }

  void section() {
    reader_.take();
    const int at = reader_.line();
    reader_.take();  // .debug_info, or a name
    reader_.expect('{', "after the name of a section");
    if (reader_.ok() && !reader_.skip_braces()) {
      reader_.fail(at, "nothing ends the section that begins here");
    }
  }

  // .alias NAME, FUNCTION;
  void alias() {
    reader_.take();
    Alias alias{.line = reader_.line()};
    alias.name = reader_.take_name("the name of an alias");
    reader_.expect(',', "after an alias");
    alias.target = reader_.take_name("a function");
    reader_.expect(';', "after an alias");
    if (reader_.ok()) aliases_.push_back(std::move(alias));
  }

  void declaration() {
    bool is_extern = false, is_visible = false;
    while (reader_.peek().kind == Token::Kind::dot) {
      const std::string_view word = reader_.peek().text;
      if (word == "extern") {
        is_extern = true;
      } else if (word == "visible" || word == "weak" || word == "common") {
        is_visible = true;
      } else {
        break;
      }
      reader_.take();
    }
    const bool entry = reader_.peek().is_dot("entry");
    if (entry || reader_.peek().is_dot("func")) {
      function(entry, is_visible);
    } else {
      variables(is_extern, is_visible);
    }
  }

  void variables(bool is_extern, bool is_visible) {
    const int at = reader_.line();
    DeclarationHead head = read_head(reader_);
    head.is_extern = head.is_extern || is_extern;
    head.is_visible = head.is_visible || is_visible;
    if (reader_.ok() &&
        (head.space == Space::reg || head.space == Space::param || head.space == Space::none)) {
      reader_.fail(at, "expected .global, .const, .shared or .local in a module");
    }
    while (reader_.ok()) {
      Variable variable = read_initialised(reader_, head, budget_.initial_bytes);
      if (!reader_.ok()) return;
      spend(reader_, budget_.statements, 1, "statements");
      spend(reader_, budget_.initial_bytes, variable.initial.size(), "initial values");
      keep(std::move(variable));
      if (!reader_.take_if(',')) break;
    }
    reader_.expect(';', "after a variable");
  }

  // A definition takes the place of an extern declaration, and needs no second one.
  void keep(Variable variable) {
    const auto known = variables_.find(variable.name);
    if (known != variables_.end()) {
      Variable& other = module_.variables[known->second];
      if (!other.is_extern && !variable.is_extern) declared_twice(variable.name, variable.line);
      if (other.is_extern) other = std::move(variable);
      return;
    }
    if (!symbols_.insert(variable.name).second) declared_twice(variable.name, variable.line);
    variables_.emplace(variable.name, module_.variables.size());
    module_.variables.push_back(std::move(variable));
  }

  void declared_twice(const std::string& name, int line) {
    reader_.fail(line, "'" + name + "' is declared twice");
  }

  void function(bool entry, bool visible) {
    Function function{.is_entry = entry, .is_visible = visible};
    reader_.take();
    Names names(symbols_);
    skip_attribute();
    if (!entry && reader_.peek().is('(')) {
      function.results = read_parameters(reader_, budget_, &names, &function);
    }
    function.line = reader_.line();
    function.name = reader_.take_name("the name of a function");
    if (reader_.ok() && variables_.contains(function.name)) {
      declared_twice(function.name, function.line);
    }
    symbols_.insert(function.name);
    if (reader_.peek().is('(')) {
      function.parameters = read_parameters(reader_, budget_, &names, &function);
    }
    while (reader_.ok() && reader_.peek().kind == Token::Kind::dot) function_directive(function);
    if (reader_.take_if('{')) {
      read_body(reader_, budget_, names, function);
    } else {
      function.is_declared_only = true;
      reader_.expect(';', "or '{' after the head of a function");
    }
    if (reader_.ok()) keep(std::move(function));
  }

  // A body follows at most one declaration's name; a later declaration says nothing new.
  void keep(Function function) {
    const auto known = functions_.find(function.name);
    if (known == functions_.end()) {
      functions_.emplace(function.name, module_.functions.size());
      module_.functions.push_back(std::move(function));
      return;
    }
    Function& other = module_.functions[known->second];
    if (function.is_declared_only) return;
    if (!other.is_declared_only) {
      declared_twice(function.name, function.line);
      return;
    }
    other.name.clear();  // dropped in the end
    known->second = module_.functions.size();
    module_.functions.push_back(std::move(function));
  }

  void skip_attribute() {
    while (reader_.ok() && reader_.take_if_dot("attribute")) {
      reader_.expect('(', "of an attribute");
      while (reader_.ok() && !reader_.ended() && !reader_.peek().is(')')) reader_.take();
      reader_.expect(')', "after an attribute");
    }
  }

  void function_directive(Function& function) {
    static constexpr std::array<std::string_view, 11> kIgnored = {"abi_preserve",
                                                                  "abi_preserve_control",
                                                                  "blocksareclusters",
                                                                  "explicitcluster",
                                                                  "maxclusterrank",
                                                                  "maxnctapersm",
                                                                  "maxnreg",
                                                                  "minnctapersm",
                                                                  "noreturn",
                                                                  "reqnctapercluster",
                                                                  "unique"};
    const Token token = reader_.peek();
    if (token.text == "attribute") return skip_attribute();
    reader_.take();
    if (token.text == "maxntid" || token.text == "reqntid") {
      extents(token.text == "maxntid" ? function.max_threads : function.required_threads);
    } else if (token.text == "pragma") {
      while (reader_.ok() && !reader_.ended() && !reader_.peek().is(';')) reader_.take();
      reader_.expect(';', "after a pragma");
    } else if (std::find(kIgnored.begin(), kIgnored.end(), token.text) != kIgnored.end()) {
      while (reader_.peek().kind == Token::Kind::number || reader_.peek().is(',')) reader_.take();
    } else {
      reader_.fail(token.line, "expected a directive of a function or '{', found " + shown(token));
    }
  }

  void extents(std::uint32_t (&extents)[3]) {
    std::fill(std::begin(extents), std::end(extents), 1U);
    for (std::uint32_t& extent : extents) {
      extent = static_cast<std::uint32_t>(reader_.take_count("a number of threads", UINT32_MAX));
      if (!reader_.take_if(',')) break;
    }
  }

  struct Alias {
    std::string name = {}, target = {};
    int line = 0;
  };

  void finish() {
    resolve_aliases();
    std::erase_if(module_.functions,
                  [](const Function& function) { return function.name.empty(); });
    for (Function& function : module_.functions) rename_clashes(function);
  }

  // An alias becomes a second function of the same body.
  void resolve_aliases() {
    for (const Alias& alias : aliases_) {
      const auto name = functions_.find(alias.name), target = functions_.find(alias.target);
      if (name == functions_.end() || target == functions_.end() ||
          !module_.functions[name->second].is_declared_only ||
          module_.functions[target->second].is_declared_only) {
        reader_.fail(alias.line, "an alias names a declared function and one with a body");
        return;
      }
      Function copy = module_.functions[target->second];
      const std::size_t weight = copy.code.size() + copy.variables.size() + copy.labels.size();
      if (!spend(reader_, budget_.statements, weight, "statements")) return;
      if (!spend(reader_, budget_.registers, copy.registers.size(), "registers")) return;
      copy.name = alias.name;
      copy.is_visible = module_.functions[name->second].is_visible;
      module_.functions[name->second] = std::move(copy);
    }
  }

  // A symbol that the module declares behind a function may have the name of something in it: what
  // is in it gets another.
  void rename_clashes(Function& function);

  Reader reader_;
  Budget budget_;
  Module module_;
  NameSet symbols_;
  std::unordered_map<std::string, std::size_t> variables_, functions_;
  std::vector<Alias> aliases_;
};

// Every text of a function that names something.
template <class Visit>
void visit_operand(Operand& operand, const Visit& visit) {
  if (operand.kind == Operand::Kind::symbol || operand.kind == Operand::Kind::address) {
    visit(operand.text);
  }
  for (Operand& element : operand.elements) visit_operand(element, visit);
}

template <class Visit>
void visit_uses(Function& function, const Visit& visit) {
  for (Instruction& instruction : function.code) {
    for (Operand& operand : instruction.operands) visit_operand(operand, visit);
  }
  for (Targets& targets : function.targets) {
    for (std::string& label : targets.labels) visit(label);
  }
}

template <class Visit>
void visit_names(Function& function, const Visit& visit) {
  for (Register& one : function.registers) visit(one.name);
  for (Variable& one : function.results) visit(one.name);
  for (Variable& one : function.parameters) visit(one.name);
  for (Variable& one : function.variables) visit(one.name);
  for (Label& one : function.labels) visit(one.name);
  for (Targets& one : function.targets) visit(one.name);
  for (Prototype& one : function.prototypes) visit(one.name);
}

void ModuleReader::rename_clashes(Function& function) {
  std::vector<std::string> clashing;
  visit_names(function, [&](const std::string& name) {
    if (symbols_.contains(name)) clashing.push_back(name);
  });
  if (clashing.empty()) return;
  NameSet taken = symbols_;
  visit_names(function, [&](const std::string& name) { taken.insert(name); });
  std::unordered_map<std::string, std::string> renamed;
  for (const std::string& name : clashing) {
    if (renamed.contains(name)) continue;
    std::string other;
    for (int suffix = 1; other.empty() || !taken.insert(other).second; ++suffix) {
      other = name + "$" + std::to_string(suffix);
    }
    renamed.emplace(name, std::move(other));
  }
  const auto rename = [&](std::string& name) {
    const auto found = renamed.find(name);
    if (found != renamed.end()) name = found->second;
  };
  visit_names(function, rename);
  visit_uses(function, rename);
}

}  // namespace

void rename_symbols(Module& module, const std::map<std::string, std::string>& renamed) {
  const auto rename = [&](std::string& name) {
    const auto found = renamed.find(name);
    if (found != renamed.end()) name = found->second;
  };
  for (Variable& variable : module.variables) {
    rename(variable.name);
    for (Variable::Address& address : variable.addresses) rename(address.symbol);
  }
  for (Function& function : module.functions) {
    rename(function.name);
    visit_uses(function, rename);
  }
}

Result<Module> parse(std::string_view text, std::string_view name) {
  if (text.size() > kMaxPtxBytes) {
    return failed({ErrorCode::limit, "PTX of more than 64 MiB", std::string(name) + ":1"});
  }
  return ModuleReader(text, name).read();
}

}  // namespace partita::ptx
