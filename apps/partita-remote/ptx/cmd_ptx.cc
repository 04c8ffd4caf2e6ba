// partita ptx run, debug: one kernel of a PTX file on this machine's cores, under the checks of the
// executor.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "base/parse_number.h"
#include "flags.h"
#include "ptx/debugger.h"
#include "ptx/machine.h"
#include "remote/remote_commands.h"

namespace partita::cli {
namespace {

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

struct Element {
  std::string_view name;
  std::size_t bytes = 0;
  char kind = 'u';  // u, s, f
};
constexpr Element kElements[] = {{"u8", 1, 'u'},  {"s8", 1, 's'},  {"u16", 2, 'u'}, {"s16", 2, 's'},
                                 {"u32", 4, 'u'}, {"s32", 4, 's'}, {"u64", 8, 'u'}, {"s64", 8, 's'},
                                 {"f32", 4, 'f'}, {"f64", 8, 'f'}};

struct Buffer {
  std::uint64_t address = 0, bytes = 0;
  Element element = {};
};

tl::unexpected<Error> bad_argument(const std::string& argument, const std::string& why) {
  return bad_input("--arg", fmt::format("'{}': {}", argument, why));
}

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (c == separator)
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

Result<ptx::Extent> extent_of(const std::string& flag, const std::string& text) {
  const std::vector<std::string> words = words_of(text, ',');
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

Result<Element> element_of(const std::string& argument, std::string_view name) {
  for (const Element& element : kElements)
    if (element.name == name) return element;
  return bad_argument(argument, fmt::format("no type '{}': u8 s8 u16 s16 u32 s32 u64 s64 f32 f64",
                                            std::string(name)));
}

// The bytes of one number as the element has it.
Result<std::uint64_t> bits_of(const std::string& argument, const Element& element,
                              const std::string& text) {
  if (element.kind == 'f') {
    const auto value = parse_number<double>(text);
    if (!value) return bad_argument(argument, fmt::format("'{}' is no number", text));
    return element.bytes == 8 ? std::bit_cast<std::uint64_t>(*value)
                              : std::bit_cast<std::uint32_t>(static_cast<float>(*value));
  }
  if (const auto value = parse_number<std::int64_t>(text))
    return static_cast<std::uint64_t>(*value);
  if (const auto value = parse_number<std::uint64_t>(text)) return *value;
  return bad_argument(argument, fmt::format("'{}' is no whole number", text));
}

std::uint64_t ramp_bits(const Element& element, std::uint64_t i) {
  if (element.kind != 'f') return i;
  return element.bytes == 8 ? std::bit_cast<std::uint64_t>(static_cast<double>(i))
                            : std::bit_cast<std::uint32_t>(static_cast<float>(i));
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
  std::uint64_t all = 0;
  if (fill != "zero" && fill != "ramp") {
    all = TRY(bits_of(argument, buffer.element, fill));
  }
  for (std::uint64_t i = 0; i < buffer.bytes / buffer.element.bytes; ++i) {
    const std::uint64_t bits = fill == "ramp" ? ramp_bits(buffer.element, i) : all;
    std::memcpy(to.data() + i * buffer.element.bytes, &bits, buffer.element.bytes);
  }
  return {};
}

// buffer:TYPE:COUNT[:FILL] or TYPE:VALUE; the bytes of the parameter.
Result<std::uint64_t> argument_bits(Context& context, const std::string& argument,
                                    ptx::Machine& machine, std::vector<Buffer>& buffers) {
  const std::vector<std::string> words = words_of(argument, ':');
  if (words[0] != "buffer") {
    if (words.size() != 2) return bad_argument(argument, "expects TYPE:VALUE or buffer:TYPE:COUNT");
    const auto element = TRY(element_of(argument, words[0]));
    return bits_of(argument, element, words[1]);
  }
  if (words.size() != 3 && words.size() != 4)
    return bad_argument(argument, "expects buffer:TYPE:COUNT or buffer:TYPE:COUNT:FILL");
  const auto element = TRY(element_of(argument, words[1]));
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

std::string value_text(const Element& element, const std::byte* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, element.bytes);
  if (element.kind == 'f')
    return element.bytes == 8
               ? fmt::format("{}", std::bit_cast<double>(bits))
               : fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  if (element.kind == 'u') return fmt::format("{}", bits);
  const std::size_t unused = 64 - 8 * element.bytes;
  return fmt::format("{}", static_cast<std::int64_t>(bits << unused) >> unused);
}

// --dump ARGUMENT[:COUNT]: the first elements of a buffer, by the number of its argument among the
// buffers.
Result<void> dump(Context& context, const std::string& what, ptx::Machine& machine,
                  const std::vector<Buffer>& buffers) {
  const std::vector<std::string> words = words_of(what, ':');
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
    text += " " + value_text(buffer.element, from.data() + i * buffer.element.bytes);
  say(context, text + "\n");
  return {};
}

Result<ptx::Checks> checks_of(const PtxFlags& flags) {
  ptx::Checks checks;
  for (const std::string& list : flags.checks)
    for (const std::string& word : words_of(list, ',')) {
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
  const auto checks = checks_of(flags);
  const auto grid = extent_of("--grid", flags.grid), block = extent_of("--block", flags.block);
  if (!checks) return failed(checks.error());
  if (!grid) return failed(grid.error());
  if (!block) return failed(block.error());
  auto machine = TRY(ptx::Machine::open(flags.memory_mib << 20));
  const auto module = TRY(machine->load(text, flags.file));
  const auto kernel = machine->find_kernel(module, flags.kernel);
  if (!kernel && kernel.error().code == ErrorCode::not_supported) return failed(kernel.error());
  if (!kernel) return bad_input("--kernel", kernel.error().message);
  const ptx::KernelInfo info = (*machine->kernels(module))[kernel->index];
  std::vector<Buffer> buffers;
  auto parameters = TRY(parameters_of(context, flags, *machine, info, buffers));
  const auto run = machine->prepare({.kernel = *kernel,
                                     .grid = *grid,
                                     .block = *block,
                                     .dynamic_shared = flags.shared,
                                     .parameters = std::move(parameters),
                                     .cooperative = flags.cooperative,
                                     .checks = *checks,
                                     .watcher = debugger});
  if (!run) return bad_input("", run.error().message);
  if (debugger != nullptr) debugger->set_stop([&run] { (*run)->request_stop(); });
  execute(**run, debugger != nullptr ? 1 : flags.units);
  return report(context, flags, *machine, **run, buffers);
}

// The kernel and what it is given.
void add_launch_flags(CLI::App& command, PtxFlags& flags) {
  command.add_option("file", flags.file, "PTX text")->required()->type_name("FILE");
  flag(command, "--kernel", flags.kernel)->required();
  flag(command, "--blocks", flags.grid)->default_str("1");
  flag(command, "--block", flags.block)->default_str("1");
  flag(command, "--shared", flags.shared)->default_str("0");
  flag(command, "--arg", flags.arguments);
  flag(command, "--check", flags.checks);
  add_fault_exit(command, flags.fault_exit);
  within(flag(command, "--memory", flags.memory_mib), 1, 1 << 20)->default_str("1024");
  flag(command, "--cooperative", flags.cooperative);
  flag(command, "--dump", flags.dumps);
}

Command add_ptx_run(CLI::App& ptx) {
  auto [command, flags] = adding<PtxFlags>(
      ptx, "run", "Run one kernel on this machine's cores; every access is checked");
  add_launch_flags(*command, *flags);
  within(flag(*command, "--units", flags->units), 1, kMaxUnits)->default_str("1");
  command->footer(
      "partita ptx run vadd.ptx --kernel vadd --grid 4 --block 256 --arg buffer:f32:1000:ramp "
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
