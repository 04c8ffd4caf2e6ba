#include "ptx/body.h"

#include <utility>

#include "ptx/declarations.h"
#include "ptx/operands.h"
#include "ptx/words.h"

namespace partita::ptx {
namespace {

constexpr std::uint64_t kMaxFiles = 1'000'000;

class Body {
 public:
  Body(Reader& reader, Budget& budget, Names& names, Function& function)
      : reader_(reader), budget_(budget), names_(names), function_(function) {}

  void read() {
    const int first = names_.depth();
    while (reader_.ok() && !reader_.ended()) {
      if (reader_.peek().is('}') && names_.depth() == first) break;
      statement();
    }
    reader_.expect('}', "at the end of a function");
    if (!reader_.ok()) return;
    names_.close(function_);
    for (const auto& [name, places] : names_.unresolved()) {
      if (names_.is_module_symbol(name)) continue;
      reader_.fail(places.front().line, "'" + std::string(name) + "' is declared nowhere");
    }
  }

 private:
  void statement() {
    spend(reader_, budget_.statements, 1, "statements");
    const Token token = reader_.peek();
    if (token.is('{')) {
      reader_.take();
      names_.open();
      if (names_.depth() > static_cast<int>(kMaxNesting)) {
        reader_.fail(token.line, "braces nested too deep", ErrorCode::limit);
      }
    } else if (token.is('}')) {
      reader_.take();
      names_.close(function_);
    } else if (token.is(';')) {
      reader_.take();
    } else if (token.kind == Token::Kind::dot) {
      directive();
    } else if (token.is('@')) {
      guarded();
    } else if (token.kind == Token::Kind::name) {
      reader_.take();
      if (reader_.take_if(':')) {
        label(token);
      } else {
        instruction(token, std::nullopt);
      }
    } else {
      reader_.expected("a statement");
    }
  }

  void directive() {
    if (reader_.take_if_dot("reg")) {
      registers();
    } else if (reader_.take_if_dot("loc")) {
      read_location(reader_, &function_);
    } else if (reader_.take_if_dot("pragma")) {
      while (reader_.ok() && !reader_.ended() && !reader_.peek().is(';')) reader_.take();
      reader_.expect(';', "after a pragma");
    } else {
      variables();
    }
  }

  // Behind `.reg`: .v4? TYPE NAME, NAME<COUNT>, ...;
  void registers() {
    while (reader_.ok() && reader_.take_if_dot("align")) reader_.take_count("an alignment", 4096);
    const Token word = reader_.peek();
    const Type type = word.kind == Token::Kind::dot ? type_of(word.text) : Type::none;
    if (type == Type::none) {
      reader_.expected("the type of a register");
      return;
    }
    reader_.take();
    do {
      const Token name = reader_.peek();
      reader_.take_name("the name of a register");
      if (!reader_.ok()) return;
      const auto first = static_cast<int>(function_.registers.size());
      std::optional<std::vector<std::string>> added;
      if (reader_.take_if('<')) {
        const std::uint64_t count = reader_.take_count("a number of registers", kMaxRegisters);
        reader_.expect('>', "after a number of registers");
        if (room_for(count)) added = names_.add_registers(name.text, first, count);
      } else if (room_for(1)) {
        auto one = names_.add_register(name.text, first);
        if (one) added.emplace().push_back(*std::move(one));
      }
      keep(std::move(added), name, type);
    } while (reader_.take_if(','));
    reader_.expect(';', "after registers");
  }

  bool room_for(std::uint64_t count) {
    if (!reader_.ok()) return false;
    if (function_.registers.size() + count > kMaxRegisters) {
      reader_.fail(reader_.line(),
                   "more than " + std::to_string(kMaxRegisters) + " registers in a function",
                   ErrorCode::limit);
      return false;
    }
    return spend(reader_, budget_.registers, count, "registers");
  }

  void keep(std::optional<std::vector<std::string>> names, const Token& name, Type type) {
    if (!reader_.ok()) return;
    if (!names) {
      declared_twice(name);
      return;
    }
    for (std::string& one : *names) function_.registers.push_back({std::move(one), type});
  }

  void declared_twice(const Token& name) {
    reader_.fail(name.line, "'" + std::string(name.text) + "' is declared twice");
  }

  void variables() {
    const Token first = reader_.peek();
    const DeclarationHead head = read_head(reader_);
    if (!reader_.ok()) return;
    const bool fits =
        head.space == Space::local || head.space == Space::shared || head.space == Space::param;
    if (!fits) {
      reader_.fail(first.line, "expected .reg, .local, .shared or .param in a function");
      return;
    }
    do {
      const Token name = reader_.peek();
      Variable variable = read_declarator(reader_, head);
      if (!reader_.ok()) return;
      auto unique = names_.add_variable(name.text);
      if (!unique) {
        declared_twice(name);
        return;
      }
      variable.name = *std::move(unique);
      function_.variables.push_back(std::move(variable));
      spend(reader_, budget_.statements, 1, "statements");
    } while (reader_.take_if(','));
    reader_.expect(';', "after a variable");
  }

  void label(const Token& name) {
    auto unique = names_.add_label(name.text);
    if (!unique) {
      declared_twice(name);
    } else if (reader_.take_if_dot("branchtargets") || reader_.take_if_dot("calltargets")) {
      targets(*std::move(unique));
    } else if (reader_.take_if_dot("callprototype")) {
      prototype(*std::move(unique));
    } else {
      function_.labels.push_back({*std::move(unique), function_.code.size()});
    }
  }

  void targets(std::string name) {
    function_.targets.push_back({std::move(name), {}});
    do {
      const Token target = reader_.peek();
      function_.targets.back().labels.emplace_back(reader_.take_name("a label"));
      names_.wait_for_label(target.text, {.targets = true,
                                          .at = function_.targets.size() - 1,
                                          .item = function_.targets.back().labels.size() - 1,
                                          .line = target.line});
    } while (reader_.ok() && reader_.take_if(','));
    reader_.expect(';', "after targets");
  }

  // Behind the word: (RESULT)? _ (PARAMETERS) .noreturn? ;
  void prototype(std::string name) {
    Prototype prototype{.name = std::move(name)};
    if (reader_.peek().is('(')) {
      prototype.results = read_parameters(reader_, budget_, nullptr, nullptr);
    }
    reader_.take_name("'_'");
    if (reader_.peek().is('(')) {
      prototype.parameters = read_parameters(reader_, budget_, nullptr, nullptr);
    }
    while (reader_.ok() && reader_.peek().kind == Token::Kind::dot) {
      reader_.take();
      if (reader_.peek().kind == Token::Kind::number) reader_.take();
    }
    reader_.expect(';', "after a prototype");
    function_.prototypes.push_back(std::move(prototype));
  }

  void guarded() {
    reader_.take();
    Guard guard{.negated = reader_.take_if('!')};
    const Token name = reader_.peek();
    guard.reg = names_.find_register(reader_.take_name("a predicate"));
    if (!reader_.ok()) return;
    if (guard.reg < 0) {
      reader_.fail(name.line, "predicate '" + std::string(name.text) + "' is not declared");
      return;
    }
    const Token opcode = reader_.peek();
    reader_.take_name("an instruction");
    if (reader_.ok()) instruction(opcode, guard);
  }

  void instruction(const Token& opcode, std::optional<Guard> guard) {
    Instruction& instruction = function_.code.emplace_back();
    instruction.opcode = opcode.text;
    instruction.guard = guard;
    instruction.line = opcode.line;
    instruction.scope = names_.depth();
    while (reader_.peek().kind == Token::Kind::dot) {
      instruction.modifiers.emplace_back(reader_.take().text);
    }
    ReadOperands read = read_operands(reader_, names_, opcode.text == "call");
    reader_.expect(';', "after an instruction");
    if (!reader_.ok()) return;
    instruction.operands = std::move(read.operands);
    const std::size_t at = function_.code.size() - 1;
    for (const auto& [item, name] : read.open) {
      names_.wait_for_label(name, {.at = at, .item = item, .line = instruction.line});
    }
  }

  Reader& reader_;
  Budget& budget_;
  Names& names_;
  Function& function_;
};

}  // namespace

bool spend(Reader& reader, std::size_t& left, std::size_t amount, std::string_view what) {
  if (amount > left) {
    reader.fail(reader.line(), "too many " + std::string(what) + " in the module",
                ErrorCode::limit);
    return false;
  }
  left -= amount;
  return true;
}

std::vector<Variable> read_parameters(Reader& reader, Budget& budget, Names* names,
                                      Function* function) {
  std::vector<Variable> parameters;
  reader.expect('(', "before parameters");
  if (reader.take_if(')')) return parameters;
  do {
    const DeclarationHead head = read_head(reader);
    const Token name = reader.peek();
    Variable parameter = read_declarator(reader, head);
    spend(reader, budget.statements, 1, "statements");
    if (reader.ok() && head.space != Space::param && head.space != Space::reg) {
      reader.fail(name.line, "a parameter is .param or .reg");
    }
    if (!reader.ok()) break;
    if (names && head.space == Space::reg) {
      auto unique = names->add_register(name.text, static_cast<int>(function->registers.size()));
      if (unique) function->registers.push_back({*unique, head.type});
      parameter.name = std::move(unique).value_or("");
    } else if (names) {
      parameter.name = names->add_variable(name.text).value_or("");
    }
    if (parameter.name.empty()) {
      reader.fail(name.line, "'" + std::string(name.text) + "' is declared twice");
    }
    parameters.push_back(std::move(parameter));
  } while (reader.ok() && reader.take_if(','));
  reader.expect(')', "after parameters");
  return parameters;
}

void read_body(Reader& reader, Budget& budget, Names& names, Function& function) {
  Body(reader, budget, names, function).read();
}

// FILE LINE COLUMN [, function_name LABEL [+ N], inlined_at FILE LINE COLUMN]
void read_location(Reader& reader, Function* function) {
  const auto file = static_cast<int>(reader.take_count("the number of a file", kMaxFiles));
  const auto line = static_cast<int>(reader.take_count("a line", INT32_MAX));
  if (reader.peek().kind == Token::Kind::number) reader.take();
  while (reader.take_if(',')) {
    const std::string_view word = reader.take_name("function_name or inlined_at");
    if (word == "function_name") {
      if (reader.peek().kind == Token::Kind::dot) {
        reader.take();
      } else {
        reader.take_name("a label");
      }
      if (reader.take_if('+')) reader.integer();
    } else if (word == "inlined_at") {
      for (int at = 0; at < 3; ++at) reader.take_count("a number", INT32_MAX);
    } else if (reader.ok()) {
      reader.expected("function_name or inlined_at");
    }
  }
  if (function && reader.ok()) function->locations.push_back({function->code.size(), file, line});
}

}  // namespace partita::ptx
