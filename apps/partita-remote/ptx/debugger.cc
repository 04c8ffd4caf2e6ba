#include "ptx/debugger.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/parse_number.h"
#include "base/split.h"

namespace partita::cli {
namespace {

using ptx::Type;
using ptx::WarpView;

constexpr std::uint64_t kMostShown = 256;
constexpr int kLinesAround = 5;
constexpr int kLinesTried = 100;
constexpr const char* kHelp =
    "break LINE     stop before this line of the PTX (delete LINE: no more)\n"
    "continue, c    go on to the next stop\n"
    "step, s [N]    the warp's next instruction, or the Nth\n"
    "print, p [%R ...]   registers of the lane; %R/all: of all 32; nothing: all registers\n"
    "x ADDRESS|%R [COUNT [u8|u32|u64|f32|f64]]   memory as the lane sees it\n"
    "lane N         whose registers and memory are shown\n"
    "bt             who called whom\n"
    "list, l        the lines around\n"
    "where          the warp, its lanes and line\n"
    "quit, q        end the launch\n";

std::string text_of(const WarpView::RegisterValue& value) {
  const auto low = static_cast<std::uint32_t>(value.bits);
  if (value.type == Type::pred) return value.bits != 0 ? "true" : "false";
  if (value.type == Type::f32) return fmt::format("{}", std::bit_cast<float>(low));
  if (value.type == Type::f64) return fmt::format("{}", std::bit_cast<double>(value.bits));
  return fmt::format("{0} (0x{0:x})", value.bits);
}

std::optional<std::uint64_t> number(const std::string& text) {
  if (!text.starts_with("0x")) return parse_number<std::uint64_t>(text);
  std::uint64_t value = 0;
  for (const char c : text.substr(2)) {
    const auto at = std::string_view("0123456789abcdef").find(c);
    if (at == std::string_view::npos || value >> 60 != 0) return std::nullopt;
    value = value << 4 | at;
  }
  return text.size() > 2 ? std::optional(value) : std::nullopt;
}

std::string trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return std::string(text);
}

bool carries_out(std::string_view line) {
  constexpr std::string_view kNone = ".{}/()";  // directives, blocks, remarks, the rest of a call
  return !line.empty() && !line.ends_with(':') && kNone.find(line.front()) == kNone.npos;
}

std::string element_text(const std::string& type, std::uint64_t bits) {
  if (type == "f32") return text_of({Type::f32, bits});
  if (type == "f64") return text_of({Type::f64, bits});
  return fmt::format("{}", bits);
}

}  // namespace

void Debugger::before(const WarpView& warp) {
  if (free_) return;
  const bool mine =
      stepping_ && stepping_->first == warp.block() && stepping_->second == warp.warp();
  const bool stops = first_ || breaks_.contains(warp.line());
  if (!stops && !mine) return;
  if (!stops && --steps_ > 0) return;
  first_ = false;
  prompt(warp);
}

void Debugger::failed(const WarpView& warp, const ptx::Fault& fault, unsigned lane) {
  say_(ptx::to_text(fault));
  if (free_) return;
  lane_ = lane;
  prompt(warp);
}

void Debugger::prompt(const WarpView& warp) {
  stepping_.reset();
  if (const std::uint32_t on = warp.executing(); on != 0 && (on >> lane_ & 1) == 0)
    lane_ = static_cast<unsigned>(std::countr_zero(on));
  say_place(warp);
  for (;;) {
    const auto line = read_();
    if (!line) return void(free_ = true);
    Words words;
    for (const std::string& word : split(*line, ' '))
      if (!word.empty()) words.push_back(word);
    if (words.empty()) continue;
    if (goes_on(warp, words)) return;
    if (words[0] != "step" && words[0] != "s") answer(warp, words);
  }
}

bool Debugger::goes_on(const WarpView& warp, const Words& words) {
  const std::string& what = words[0];
  if (what == "step" || what == "s") {
    const auto steps = words.size() > 1 ? number(words[1]) : 1;
    if (!steps || *steps == 0 || words.size() > 2)
      return say_("step N: how many instructions\n"), false;
    steps_ = *steps;
    stepping_.emplace(warp.block(), warp.warp());
  }
  if (what == "quit" || what == "q") stop_(), free_ = true;
  return what == "step" || what == "s" || what == "quit" || what == "q" || what == "continue" ||
         what == "c";
}

void Debugger::answer(const WarpView& warp, const Words& words) {
  const std::string& what = words[0];
  if (what == "break" || what == "b" || what == "delete") return set_break(warp, words);
  if (what == "print" || what == "p") return say_registers(warp, words);
  if (what == "x") return say_memory(warp, words);
  if (what == "lane") return choose_lane(warp, words);
  if (what == "list" || what == "l") return say_lines(warp);
  if (what == "where") return say_place(warp);
  if (what == "help" || what == "h") return say_(kHelp);
  if (what != "bt") return say_(fmt::format("there is no {}: `help` lists what there is\n", what));
  for (const WarpView::Call& call : warp.calls(lane_))
    say_(fmt::format("{} at line {}: {}\n", call.function, call.line,
                     trimmed(warp.text_of(call.line))));
}

void Debugger::set_break(const WarpView& warp, const Words& words) {
  auto line = words.size() == 2 ? parse_number<int>(words[1]) : std::nullopt;
  if (!line) return say_(fmt::format("{} LINE: a line of the PTX\n", words[0]));
  if (words[0] != "delete") {  // where nothing is carried out: the next line that is
    const int last = *line + kLinesTried;
    while (*line < last && !carries_out(trimmed(warp.text_of(*line)))) ++*line;
    if (*line == last)
      return say_(fmt::format("no instruction of the PTX is at line {}\n", words[1]));
  }
  if (words[0] == "delete") return void(breaks_.erase(*line));
  breaks_.insert(*line);
  say_(fmt::format("stops before line {}: {}\n", *line, trimmed(warp.text_of(*line))));
}

void Debugger::choose_lane(const WarpView& warp, const Words& words) {
  const auto lane = words.size() == 2 ? parse_number<int>(words[1]) : std::nullopt;
  if (!lane || *lane < 0 || *lane > 31 || (warp.live() >> *lane & 1) == 0)
    return say_("lane N: one of the warp that has not ended\n");
  lane_ = static_cast<unsigned>(*lane);
}

void Debugger::say_place(const WarpView& warp) {
  const ptx::Extent block = warp.block();
  say_(fmt::format("block ({},{},{}), warp {}, lanes {:08x} of {:08x}, lane {}\nline {}: {}\n",
                   block.x, block.y, block.z, warp.warp(), warp.executing(), warp.live(), lane_,
                   warp.line(), trimmed(warp.text_of(warp.line()))));
}

void Debugger::say_registers(const WarpView& warp, const Words& words) {
  const Words names = words.size() > 1 ? Words(words.begin() + 1, words.end()) : warp.registers();
  for (const std::string& word : names) {
    const bool all = word.ends_with("/all");
    const std::string name = all ? word.substr(0, word.size() - 4) : word;
    for (unsigned lane = all ? 0 : lane_; lane <= (all ? 31 : lane_); ++lane) {
      const auto value = warp.value(name, lane);
      if (!value) return say_(fmt::format("there is no register {} here\n", name));
      say_(all ? fmt::format("{} of lane {} = {}\n", name, lane, text_of(*value))
               : fmt::format("{} = {}\n", name, text_of(*value)));
    }
  }
}

void Debugger::say_memory(const WarpView& warp, const Words& words) {
  constexpr std::pair<std::string_view, std::size_t> kTypes[] = {
      {"u8", 1}, {"u32", 4}, {"u64", 8}, {"f32", 4}, {"f64", 8}};
  std::optional<std::uint64_t> address, count = 1;
  if (words.size() > 1 && words[1].starts_with('%')) {
    if (const auto value = warp.value(words[1], lane_)) address = value->bits;
  } else if (words.size() > 1) {
    address = number(words[1]);
  }
  if (words.size() > 2) count = number(words[2]);
  const std::string type = words.size() > 3 ? words[3] : "u32";
  const auto known = std::ranges::find(kTypes, type, [](const auto& one) { return one.first; });
  if (!address || !count || *count > kMostShown || known == std::end(kTypes))
    return say_("x ADDRESS|%R [COUNT [u8|u32|u64|f32|f64]]: at most 256 of them\n");
  std::string text = fmt::format("0x{:x}:", *address);
  for (std::uint64_t i = 0; i < *count; ++i) {
    std::uint64_t bits = 0;
    const std::span bytes(reinterpret_cast<std::byte*>(&bits), known->second);
    if (!warp.read(lane_, *address + i * known->second, bytes)) {
      text += " (no memory)";
      break;
    }
    text += " " + element_text(type, bits);
  }
  say_(text + "\n");
}

void Debugger::say_lines(const WarpView& warp) {
  for (int line = std::max(1, warp.line() - kLinesAround); line <= warp.line() + kLinesAround;
       ++line)
    say_(fmt::format("{}{:5} {}\n", line == warp.line() ? '>' : ' ', line, warp.text_of(line)));
}

}  // namespace partita::cli
