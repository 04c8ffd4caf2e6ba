#include "ptx/operands.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/parse_number.h"

namespace partita::ptx {
namespace {

constexpr std::array<std::string_view, 43> kSpecials = {
    "aggr_smem_size",
    "clock",
    "clock64",
    "clock_hi",
    "cluster_ctaid",
    "cluster_ctarank",
    "cluster_nctaid",
    "cluster_nctarank",
    "clusterid",
    "ctaid",
    "current_graph_exec",
    "dynamic_smem_size",
    "globaltimer",
    "globaltimer_hi",
    "globaltimer_lo",
    "gridid",
    "is_explicit_cluster",
    "laneid",
    "lanemask_eq",
    "lanemask_ge",
    "lanemask_gt",
    "lanemask_le",
    "lanemask_lt",
    "nclusterid",
    "nctaid",
    "nsmid",
    "ntid",
    "nwarpid",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_cap",
    "reserved_smem_offset_end",
    "smid",
    "tid",
    "total_smem_size",
    "warpid",
    "pm0_64",
    "pm1_64",
    "pm2_64",
    "pm3_64",
    "pm4_64",
    "pm5_64",
    "pm6_64",
    "pm7_64",
};
struct NumberedSpecial {
  std::string_view prefix;
  std::uint64_t count = 0;
};
constexpr std::array<NumberedSpecial, 3> kNumbered = {
    {{"envreg", 32}, {"pm", 8}, {"reserved_smem_offset_", 2}}};

class Operands {
 public:
  Operands(Reader& reader, const Names& names, bool call)
      : reader_(reader), names_(names), call_(call) {}

  // The last operand's name where it is a symbol that is no variable, else empty.
  std::string_view open() const { return open_; }

  Operand operand() {
    open_ = {};
    const int line = reader_.line();
    Operand result = maybe_pair();
    if (!open_.empty() && result.kind != Operand::Kind::symbol)
      reader_.fail(line, "a label among others");
    return result;
  }

 private:
  Operand maybe_pair() {
    Operand first = single();
    if (!reader_.peek().is('|') || !reader_.ok()) return first;
    Operand pair{.kind = Operand::Kind::pair};
    pair.elements.push_back(std::move(first));
    reader_.take();
    pair.elements.push_back(single());
    return pair;
  }

  Operand single() {
    const Token token = reader_.peek();
    if (token.is('{')) return group(Operand::Kind::vector, '{', '}');
    if (token.is('[')) return address();
    if (token.is('(') && call_) return group(Operand::Kind::list, '(', ')');
    if (token.kind == Token::Kind::name) return name();
    if (token.is('!') || token.is('-')) return changed();
    const bool begins =
        token.kind == Token::Kind::number || token.is('(') || token.is('+') || token.is('~');
    if (!begins) {
      reader_.expected("an operand");
      return {};
    }
    return constant(reader_.constant());
  }

  Operand constant(const Constant& value) {
    static constexpr std::array<Operand::Kind, 3> kKinds = {Operand::Kind::integer,
                                                            Operand::Kind::f32, Operand::Kind::f64};
    return {.kind = kKinds[static_cast<std::size_t>(value.kind)], .bits = value.bits};
  }

  // !%p, -%r, -symbol, or a constant.
  Operand changed() {
    Reader ahead = reader_;
    ahead.take();
    const bool named = ahead.peek().kind == Token::Kind::name && !ahead.peek().is_name("WARP_SZ");
    if (!named) return constant(reader_.constant());
    reader_.take();
    Operand operand = name();
    operand.negated = true;
    return operand;
  }

  // A group within a group is a vector within a list at most.
  Operand group(Operand::Kind kind, char open, char close) {
    Operand group{.kind = kind};
    reader_.expect(open, "before operands");
    if (++depth_ > 2) reader_.fail(reader_.line(), "operands nested too deep");
    while (reader_.ok() && !reader_.peek().is(close)) {
      group.elements.push_back(single());
      if (!reader_.take_if(',')) break;
    }
    --depth_;
    reader_.expect(close, "after operands");
    return group;
  }

  Operand name() {
    const Token token = reader_.peek();
    if (token.text == "_") {
      reader_.take();
      return {.kind = Operand::Kind::sink};
    }
    if (token.text == "WARP_SZ") return constant(reader_.constant());
    reader_.take();
    if (const int reg = names_.find_register(token.text); reg >= 0) {
      Operand operand{.kind = Operand::Kind::reg, .reg = reg};
      // A part of it, as video instructions take: r.b0, r.h1.
      if (reader_.peek().kind == Token::Kind::dot) operand.text = reader_.take().text;
      return operand;
    }
    if (token.text[0] == '%') return special(token);
    Operand operand = symbol(token, Operand::Kind::symbol);
    operand.offset = offset();
    return operand;
  }

  Operand special(const Token& token) {
    Operand operand{.kind = Operand::Kind::special, .text = std::string(token.text.substr(1))};
    if (!is_special(operand.text)) {
      reader_.fail(token.line, "register '" + std::string(token.text) + "' is not declared");
      return operand;
    }
    if (reader_.peek().kind == Token::Kind::dot) {
      operand.text += "." + std::string(reader_.take().text);
    }
    return operand;
  }

  Operand symbol(const Token& token, Operand::Kind kind) {
    Operand operand{.kind = kind, .text = std::string(token.text)};
    if (const std::string* variable = names_.find_variable(token.text)) {
      operand.text = *variable;
    } else if (depth_ == 0 && kind == Operand::Kind::symbol) {
      open_ = token.text;
    } else if (!names_.is_module_symbol(token.text)) {
      reader_.fail(token.line, "'" + operand.text + "' is declared nowhere");
    }
    return operand;
  }

  // + N or - N
  std::int64_t offset() {
    if (reader_.take_if('+')) return reader_.integer();
    return reader_.peek().is('-') ? reader_.integer() : 0;
  }

  // [BASE + OFFSET], and further coordinates as textures and tensors have them.
  Operand address() {
    reader_.expect('[', "before an address");
    Operand result{.kind = Operand::Kind::address};
    const Token token = reader_.peek();
    if (token.kind == Token::Kind::name && !token.is_name("WARP_SZ")) {
      reader_.take();
      result.reg = names_.find_register(token.text);
      if (result.reg < 0 && token.text[0] == '%') {
        reader_.fail(token.line, "register '" + std::string(token.text) + "' is not declared");
      }
      if (result.reg < 0) result = symbol(token, Operand::Kind::address);
      result.offset = offset();
    } else {
      result.bits = static_cast<std::uint64_t>(reader_.integer());
    }
    if (++depth_ > 2) reader_.fail(reader_.line(), "operands nested too deep");
    while (reader_.ok() && reader_.take_if(',')) result.elements.push_back(single());
    --depth_;
    reader_.expect(']', "after an address");
    return result;
  }

  Reader& reader_;
  const Names& names_;
  bool call_;
  int depth_ = 0;
  std::string_view open_;
};

}  // namespace

bool is_special(std::string_view name) {
  if (std::find(kSpecials.begin(), kSpecials.end(), name) != kSpecials.end()) return true;
  return std::any_of(kNumbered.begin(), kNumbered.end(), [&](const NumberedSpecial& row) {
    if (!name.starts_with(row.prefix)) return false;
    const auto number = parse_number<std::uint64_t>(name.substr(row.prefix.size()));
    return number && *number < row.count;
  });
}

ReadOperands read_operands(Reader& reader, const Names& names, bool call) {
  ReadOperands result;
  if (reader.peek().is(';')) return result;
  Operands reading(reader, names, call);
  do {
    result.operands.push_back(reading.operand());
    const std::string_view open = reading.open();
    if (!open.empty()) result.open.push_back({result.operands.size() - 1, open});
  } while (reader.ok() && reader.take_if(','));
  return result;
}

}  // namespace partita::ptx
