#include "tests/remote/call_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/parse_number.h"
#include "base/split.h"

namespace partita::remote::shapes {
namespace {

using client::kOk;

constexpr std::uint64_t kInputBytes = 3 * 224 * 224 * 4;  // one picture
constexpr std::size_t kImageBytes = 100 * 1024;  // of a module; asked for before it is sent
constexpr std::uint64_t kMegabyte = 1'000'000;

using Row = std::map<std::string, std::string>;

// By the first column.
Result<std::map<std::string, Row>> rows_of(const char* file, const std::string& text) {
  std::map<std::string, Row> rows;
  std::vector<std::string> titles;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const auto cells = split(line, ',');
    if (titles.empty()) {
      titles = cells;
      continue;
    }
    if (cells.size() != titles.size()) return bad_input(file, "a row of another length: " + line);
    for (std::size_t i = 0; i < cells.size(); ++i) rows[cells[0]][titles[i]] = cells[i];
  }
  return rows;
}

// A cell; 0 where it is empty.
Result<double> cell(const char* file, Row& row, const std::string& title) {
  const std::string& text = row[title];
  if (text.empty()) return 0.0;
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= 0)) return bad_input(file, title + " is no number: " + text);
  return *value;
}

}  // namespace

Result<std::vector<CallShape>> parse_shapes(const std::string& calls, const std::string& times) {
  constexpr const char* kCalls = "calls.csv";
  auto rows = rows_of(kCalls, calls);
  auto clocks = rows_of("times.csv", times);
  if (!rows) return failed(rows.error());
  if (!clocks) return failed(clocks.error());
  std::vector<CallShape> shapes;
  for (auto& [program, row] : *rows) {
    CallShape shape{.program = program};
    std::string trouble;
    auto count = [&, &row_now = row](const char* title, double unit = 1) {
      const auto value = cell(kCalls, row_now, title);
      if (!value) trouble = value.error().message;
      return static_cast<std::uint64_t>(value.value_or(0) * unit + 0.5);
    };
    shape.launches = count("launches");
    shape.kernels = count("kernels");
    shape.mallocs = count("mallocs");
    shape.copies_in = count("h2d");
    shape.copies_out = count("d2h");
    shape.calls = count("api_calls");
    shape.waits = count("syncs");
    shape.bytes_in = count("up_mb", kMegabyte);
    shape.bytes_out = count("down_mb", kMegabyte);
    if (!trouble.empty()) return bad_input(kCalls, trouble);
    const auto hot = cell("times.csv", (*clocks)[program], "hot_native_ms");
    if (!hot) return failed(hot.error());
    shape.hot_ms = *hot;
    if (shape.launches == 0 || shape.kernels == 0 || shape.copies_out == 0 || shape.mallocs == 0) {
      return bad_input(kCalls, program + " does nothing");
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::string waiting_kernels(std::uint64_t count) {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (std::uint64_t i = 0; i < count; ++i) {
    text += fmt::format(".visible .entry kernel_{}(.param .u64 nanoseconds)\n{{\nret;\n}}\n", i);
  }
  const std::string line = "// as long as a real one\n";
  while (text.size() < kImageBytes) text += line;
  return text;
}

ShapePlayer::ShapePlayer(client::Session& session, CallShape shape, double scale)
    : session_(session), shape_(std::move(shape)), scale_(scale) {
  image_ = waiting_kernels(shape_.kernels);
}

client::Status ShapePlayer::cold() {
  if (const auto status = load(); status != kOk) return status;
  if (const auto status = send_weights(); status != kOk) return status;
  return infer(std::chrono::nanoseconds(0));
}

client::Status ShapePlayer::load() {
  if (const auto status = session_.ready(); status != kOk) return status;
  client::Module& module = *session_.kernels.modules().add_loaded(image_.c_str());
  if (const auto status = session_.kernels.load(module); status != kOk) return status;
  for (std::uint64_t i = 0; i < shape_.kernels; ++i) {
    client::Kernel* kernel =
        session_.kernels.modules().kernel_named(module, fmt::format("kernel_{}", i));
    if (kernel == nullptr) return client::kNotFound;
    kernels_.push_back(kernel);
  }
  return kOk;
}

client::Status ShapePlayer::send_weights() {
  const auto bytes = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(static_cast<double>(shape_.bytes_in) * scale_));
  const std::uint64_t copies = std::max<std::uint64_t>(1, shape_.copies_in);
  const std::uint64_t piece = std::max<std::uint64_t>(1, bytes / copies);
  const std::uint64_t block = std::max({bytes / shape_.mallocs + 1, piece, kInputBytes});
  memory_.resize(std::max(piece, kInputBytes));
  for (std::uint64_t i = 0; i < shape_.mallocs; ++i) {
    const auto address = session_.memory.allocate(block);
    if (!address) return address.error();
    blocks_.push_back(*address);
  }
  for (std::uint64_t i = 0; i < copies; ++i) {
    const std::uint64_t to = blocks_[i % blocks_.size()];
    if (const auto status = session_.memory.copy_in(0, to, memory_.data(), piece); status != kOk) {
      return status;
    }
    if (const auto status = session_.streams.synchronise(0); status != kOk) return status;
  }
  return kOk;
}

client::Status ShapePlayer::hot(std::chrono::nanoseconds time) {
  if (const auto status = session_.memory.copy_in(0, blocks_[0], memory_.data(), kInputBytes);
      status != kOk) {
    return status;
  }
  return infer(time);
}

client::Status ShapePlayer::infer(std::chrono::nanoseconds time) {
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(static_cast<double>(shape_.bytes_out) * std::min(scale_, 1.0));
  const std::uint64_t piece = std::clamp<std::uint64_t>(bytes / shape_.copies_out, 4, kInputBytes);
  std::uint64_t launched = 0, spent = 0;
  const auto all = static_cast<std::uint64_t>(time.count());
  for (std::uint64_t part = 1; part <= shape_.copies_out; ++part) {
    for (; launched < shape_.launches * part / shape_.copies_out; ++launched) {
      std::uint64_t nanoseconds = all * (launched + 1) / shape_.launches - spent;
      spent += nanoseconds;
      void* parameters[] = {&nanoseconds};
      const client::LaunchShape launch{.grid = {64, 1, 1}, .block = {256, 1, 1}};
      client::Kernel& kernel = *kernels_[launched % kernels_.size()];
      if (const auto status = session_.kernels.launch(kernel, launch, parameters); status != kOk) {
        return status;
      }
      if (const auto status = session_.failure(); status != kOk) return status;
    }
    const auto status = session_.memory.copy_out(0, memory_.data(), blocks_[0], piece, false);
    if (status != kOk) return status;
  }
  return session_.streams.synchronise();
}

std::uint64_t round_trips(client::Session& session) {
  std::uint64_t sum = 0;
  for (const auto& count : session.stats().blocking) sum += count.load();
  return sum;
}

}  // namespace partita::remote::shapes
