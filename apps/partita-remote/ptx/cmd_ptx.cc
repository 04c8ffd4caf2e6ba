#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iostream>
#include <set>
#include <thread>

#include "base/elements.h"
#include "ptx/machine.h"
#include "ptx/watch.h"
#include "remote/remote_commands.h"

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

// Debugger: a prompt over a launch that runs instruction by instruction: breakpoints at lines of
// the PTX, steps of a warp, registers, memory, calls. Reads its commands line by line; at their end
// the launch goes on without it.
class Debugger final : public ptx::Watcher {
 public:
  using Read = std::function<std::optional<std::string>()>;  // a line; nothing at the end
  using Say = std::function<void(const std::string&)>;
  // `stop` ends the launch.
  Debugger(Read read, Say say) : read_(std::move(read)), say_(std::move(say)) {}

  void set_stop(std::function<void()> stop) { stop_ = std::move(stop); }
  void before(const WarpView& warp) override {
    if (free_) return;
    const bool mine =
        stepping_ && stepping_->first == warp.block() && stepping_->second == warp.warp();
    const bool stops = first_ || breaks_.contains(warp.line());
    if (!stops && !mine) return;
    if (!stops && --steps_ > 0) return;
    first_ = false;
    prompt(warp);
  }
  void failed(const WarpView& warp, const ptx::Fault& fault, unsigned lane) override {
    say_(ptx::to_text(fault));
    if (free_) return;
    lane_ = lane;
    prompt(warp);
  }

 private:
  using Words = std::vector<std::string>;
  void prompt(const WarpView& warp) {
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
  // what makes the launch go on
  bool goes_on(const WarpView& warp, const Words& words) {
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
  void answer(const WarpView& warp, const Words& words) {
    const std::string& what = words[0];
    if (what == "break" || what == "b" || what == "delete") return set_break(warp, words);
    if (what == "print" || what == "p") return say_registers(warp, words);
    if (what == "x") return say_memory(warp, words);
    if (what == "lane") return choose_lane(warp, words);
    if (what == "list" || what == "l") return say_lines(warp);
    if (what == "where") return say_place(warp);
    if (what == "help" || what == "h") return say_(kHelp);
    if (what != "bt")
      return say_(fmt::format("there is no {}: `help` lists what there is\n", what));
    for (const WarpView::Call& call : warp.calls(lane_))
      say_(fmt::format("{} at line {}: {}\n", call.function, call.line,
                       trimmed(warp.text_of(call.line))));
  }
  void set_break(const WarpView& warp, const Words& words) {
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
  void choose_lane(const WarpView& warp, const Words& words) {
    const auto lane = words.size() == 2 ? parse_number<int>(words[1]) : std::nullopt;
    if (!lane || *lane < 0 || *lane > 31 || (warp.live() >> *lane & 1) == 0)
      return say_("lane N: one of the warp that has not ended\n");
    lane_ = static_cast<unsigned>(*lane);
  }
  void say_place(const WarpView& warp) {
    const ptx::Extent block = warp.block();
    say_(fmt::format("block ({},{},{}), warp {}, lanes {:08x} of {:08x}, lane {}\nline {}: {}\n",
                     block.x, block.y, block.z, warp.warp(), warp.executing(), warp.live(), lane_,
                     warp.line(), trimmed(warp.text_of(warp.line()))));
  }
  void say_registers(const WarpView& warp, const Words& words) {
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
  void say_memory(const WarpView& warp, const Words& words) {
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
  void say_lines(const WarpView& warp) {
    for (int line = std::max(1, warp.line() - kLinesAround); line <= warp.line() + kLinesAround;
         ++line)
      say_(fmt::format("{}{:5} {}\n", line == warp.line() ? '>' : ' ', line, warp.text_of(line)));
  }

  Read read_;
  Say say_;
  std::function<void()> stop_ = [] {};
  std::set<int> breaks_;
  bool first_ = true, free_ = false;
  std::optional<std::pair<ptx::Extent, std::uint32_t>> stepping_;  // the warp
  std::uint64_t steps_ = 1;                                        // of it
  unsigned lane_ = 0;
};

// partita ptx run, debug: one kernel of a PTX file on this machine's cores, under the checks of the
// executor.

constexpr std::uint64_t kMaxBufferBytes = std::uint64_t{1} << 34;
constexpr int kMaxUnits = 256;

struct PtxFlags {
  std::string file, kernel, grid = "1", block = "1";
  std::vector<std::string> arguments, dumps, checks;
  std::uint32_t shared = 0;
  std::uint64_t memory_mib = 1024;
  int units = 1;
  bool cooperative = false;
  int fault_exit = 1;
};

struct Buffer {
  std::uint64_t address = 0, bytes = 0;
  ElementType element = {};
};

tl::unexpected<Error> bad_argument(const std::string& argument, const std::string& why) {
  return bad_input("--arg", fmt::format("'{}': {}", argument, why));
}

Result<ptx::Extent> extent_of(const std::string& flag, const std::string& text) {
  const std::vector<std::string> words = split(text, ',');
  std::uint32_t size[3] = {1, 1, 1};
  if (words.size() > 3) return bad_input(flag, "expects x, x,y or x,y,z");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = parse_number<std::uint64_t>(words[i]);
    if (!value || *value == 0 || *value > 0x7fff'ffffu)
      return bad_input(flag, fmt::format("'{}' is no positive number", words[i]));
    size[i] = static_cast<std::uint32_t>(*value);
  }
  return ptx::Extent{size[0], size[1], size[2]};
}

// What is wrong with a part of an argument.
template <class T>
Result<T> of_argument(const std::string& argument, Result<T> part) {
  return part ? part : bad_argument(argument, part.error().message);
}

// Fills a buffer: none, zero, ramp, a number, or @FILE of raw bytes.
Result<void> fill_buffer(Context& context, const std::string& argument, const std::string& fill,
                         ptx::Machine& machine, const Buffer& buffer) {
  if (fill == "none") return {};
  const auto to = TRY(machine.writable(buffer.address, buffer.bytes));
  if (fill.starts_with('@')) {
    const auto content = TRY(context.files.read(fill.substr(1)));
    std::memset(to.data(), 0, to.size());
    std::memcpy(to.data(), content.data(), std::min<std::size_t>(content.size(), to.size()));
    return {};
  }
  return of_argument(argument, fill_elements(to, buffer.element, fill));
}

// buffer:TYPE:COUNT[:FILL] or TYPE:VALUE; the bytes of the parameter.
Result<std::uint64_t> argument_bits(Context& context, const std::string& argument,
                                    ptx::Machine& machine, std::vector<Buffer>& buffers) {
  const std::vector<std::string> words = split(argument, ':');
  if (words[0] != "buffer") {
    if (words.size() != 2) return bad_argument(argument, "expects TYPE:VALUE or buffer:TYPE:COUNT");
    const auto type = TRY(of_argument(argument, element_type(words[0])));
    return of_argument(argument, element_bits(type, words[1]));
  }
  if (words.size() != 3 && words.size() != 4)
    return bad_argument(argument, "expects buffer:TYPE:COUNT or buffer:TYPE:COUNT:FILL");
  const auto element = TRY(of_argument(argument, element_type(words[1])));
  const auto count = parse_number<std::uint64_t>(words[2]);
  if (!count || *count == 0 || *count > kMaxBufferBytes / element.bytes)
    return bad_argument(argument, fmt::format("'{}' is no number of elements", words[2]));
  const auto address = TRY(machine.allocate(*count * element.bytes));
  buffers.push_back({address, *count * element.bytes, element});
  TRY(fill_buffer(context, argument, words.size() == 4 ? words[3] : "none", machine,
                  buffers.back()));
  return address;
}

Result<std::vector<std::byte>> parameters_of(Context& context, const PtxFlags& flags,
                                             ptx::Machine& machine, const ptx::KernelInfo& info,
                                             std::vector<Buffer>& buffers) {
  if (flags.arguments.size() != info.parameters.size())
    return bad_input("--arg", fmt::format("{} takes {} arguments; there are {}", info.name,
                                          info.parameters.size(), flags.arguments.size()));
  std::vector<std::byte> block(info.parameter_bytes);
  for (std::size_t i = 0; i < flags.arguments.size(); ++i) {
    const auto bits = TRY(argument_bits(context, flags.arguments[i], machine, buffers));
    const ptx::ParameterLayout& layout = info.parameters[i];
    std::memcpy(&block[layout.offset], &bits, std::min<std::size_t>(layout.size, sizeof(bits)));
  }
  return block;
}

void execute(ptx::Run& run, int units) {
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t group = next++; group < run.groups(); group = next++) run.execute(group);
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < units; ++i) threads.emplace_back(work);
  work();
}

// --dump ARGUMENT[:COUNT]: the first elements of a buffer, by the number of its argument among the
// buffers.
Result<void> dump(Context& context, const std::string& what, ptx::Machine& machine,
                  const std::vector<Buffer>& buffers) {
  const std::vector<std::string> words = split(what, ':');
  const auto index = parse_number<std::size_t>(words[0]);
  if (!index || *index >= buffers.size() || words.size() > 2)
    return bad_input(
        "--dump", fmt::format("'{}' names none of the {} buffers (from 0)", what, buffers.size()));
  const Buffer& buffer = buffers[*index];
  std::uint64_t count = buffer.bytes / buffer.element.bytes;
  if (words.size() == 2) {
    const auto wanted = parse_number<std::uint64_t>(words[1]);
    if (!wanted) return bad_input("--dump", fmt::format("'{}' is no number", words[1]));
    count = std::min(count, *wanted);
  }
  const auto from = TRY(machine.readable(buffer.address, buffer.bytes));
  std::string text = fmt::format("buffer {}:", *index);
  for (std::uint64_t i = 0; i < count; ++i)
    text += " " + text_of_element(buffer.element, from.data() + i * buffer.element.bytes);
  say(context, text + "\n");
  return {};
}

Result<ptx::Checks> checks_of(const PtxFlags& flags) {
  ptx::Checks checks;
  for (const std::string& list : flags.checks)
    for (const std::string& word : split(list, ',')) {
      if (word == "memory" || word == "all") checks.uninitialised = true;
      if (word == "races" || word == "all") checks.races = checks.global_races = true;
      if (word == "barriers" || word == "all") checks.barriers = true;
      if (word != "memory" && word != "races" && word != "barriers" && word != "all")
        return bad_input("--check",
                         fmt::format("'{}' is none of memory, races, barriers, all", word));
    }
  return checks;
}

Result<Exit> report(Context& context, const PtxFlags& flags, ptx::Machine& machine,
                    const ptx::Run& run, const std::vector<Buffer>& buffers) {
  say(context, run.printed());
  for (const std::string& what : flags.dumps) TRY(dump(context, what, machine, buffers));
  const std::vector<ptx::Fault> faults = run.faults();
  note(context, ptx::to_text(faults));
  const ptx::Run::Counts counts = run.counts();
  note(context, fmt::format("{} fault{}; {} thread-instructions, {} warp instructions\n",
                            faults.size(), faults.size() == 1 ? "" : "s",
                            counts.thread_instructions, counts.warp_instructions));
  return faults.empty() ? Exit::done : static_cast<Exit>(flags.fault_exit);
}

// Runs it, or debugs it.
Result<Exit> run_ptx(Context& context, const PtxFlags& flags, Debugger* debugger) {
  const auto text = TRY(context.files.read(flags.file));
  const auto checks = TRY(checks_of(flags));
  const auto grid = TRY(extent_of("--blocks", flags.grid));
  const auto block = TRY(extent_of("--block", flags.block));
  auto machine = TRY(ptx::Machine::open(flags.memory_mib << 20));
  const auto module = TRY(machine->load(text, flags.file));
  const auto kernel = machine->find_kernel(module, flags.kernel);
  if (!kernel && kernel.error().code == ErrorCode::not_supported) return failed(kernel.error());
  if (!kernel) return bad_input("--kernel", kernel.error().message);
  const ptx::KernelInfo info = (*machine->kernels(module))[kernel->index];
  std::vector<Buffer> buffers;
  auto parameters = TRY(parameters_of(context, flags, *machine, info, buffers));
  const auto run = machine->prepare({.kernel = *kernel,
                                     .grid = grid,
                                     .block = block,
                                     .dynamic_shared = flags.shared,
                                     .parameters = std::move(parameters),
                                     .cooperative = flags.cooperative,
                                     .units = static_cast<std::uint32_t>(flags.units),
                                     .checks = checks,
                                     .watcher = debugger});
  if (!run) return bad_input("", run.error().message);
  if (debugger != nullptr) debugger->set_stop([&run] { (*run)->request_stop(); });
  execute(**run, debugger != nullptr ? 1 : flags.units);
  return report(context, flags, *machine, **run, buffers);
}

// The kernel and what it is given.
void add_launch_flags(CLI::App& command, PtxFlags& flags) {
  file_argument(command, "file", flags.file, "PTX text")->required();
  flag(command, "--kernel", flags.kernel)->required();
  flag(command, "--blocks", flags.grid)->default_str("1");
  flag(command, "--block", flags.block)->default_str("1");
  flag(command, "--shared", flags.shared)->default_str("0");
  takes(command, "--arg", flags.arguments, "--check", flags.checks, "--fault-exit",
        within(flags.fault_exit, 0, 255), "--memory", within(flags.memory_mib, 1, 1 << 20),
        "--cooperative", flags.cooperative, "--dump", flags.dumps);
}

Command add_ptx_run(CLI::App& ptx) {
  auto [command, flags] = adding<PtxFlags>(
      ptx, "run", "Run one kernel on this machine's cores; every access is checked");
  add_launch_flags(*command, *flags);
  within(*command, "--units", flags->units, 1, kMaxUnits);
  command->footer(
      "partita ptx run vadd.ptx --kernel vadd --blocks 4 --block 256 --arg buffer:f32:1000:ramp "
      "--arg buffer:f32:1000:1 --arg buffer:f32:1000 --arg u32:1000 --check all --dump 2:8");
  return {command, [flags](Context& context) { return run_ptx(context, *flags, nullptr); }};
}

std::optional<std::string> next_line() {
  std::fputs("(ptx) ", stderr);
  std::fflush(stderr);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

Command add_ptx_debug(CLI::App& ptx) {
  auto [command, flags] = adding<PtxFlags>(
      ptx, "debug", "Run one kernel instruction by instruction: breakpoints, registers, memory");
  add_launch_flags(*command, *flags);
  command->footer(
      "partita ptx debug vadd.ptx --kernel vadd --block 256 --arg buffer:f32:1000:ramp "
      "--arg buffer:f32:1000:1 --arg buffer:f32:1000 --arg u32:1000");
  return {command, [flags](Context& context) {
            Debugger debugger(next_line, [&](const std::string& text) { say(context, text); });
            return run_ptx(context, *flags, &debugger);
          }};
}

}  // namespace

Command add_ptx(CLI::App& app) {
  CLI::App* ptx = app.add_subcommand("ptx", "Run GPU kernels without a GPU, and check them");
  return group_of(ptx, {add_ptx_run(*ptx), add_ptx_debug(*ptx)});
}

}  // namespace partita::cli
