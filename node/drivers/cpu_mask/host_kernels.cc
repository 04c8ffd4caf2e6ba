#include "drivers/cpu_mask/host_kernels.h"

#include "drivers/cpu_mask/cpu_mask_driver.h"

namespace partita::drivers::cpu_mask {
namespace {

using device::HostKernel;
using device::Kernel;

constexpr std::size_t kMemoryWords = std::size_t{1} << 24;  // 128 MiB
constexpr std::size_t kWordsPerLine = 8;

// The compiler must believe that somebody reads the value.
void keep(std::uint64_t value) { asm volatile("" : : "r"(value)); }

}  // namespace

Result<Kernel> HostKernels::noting(int number, std::int64_t groups, bool closed) {
  if (kernels_.size() <= static_cast<std::size_t>(number))
    kernels_.resize(static_cast<std::size_t>(number) + 1);
  Notes& notes = at(number);
  notes.groups = std::vector<Cell>(static_cast<std::size_t>(groups));
  notes.open = !closed;
  return Kernel{groups, HostKernel{[this, &notes](std::int64_t group) {
                  Cell& cell = notes.groups[static_cast<std::size_t>(group)];
                  const std::int64_t begin = ++stamps_;
                  notes.open.wait(false);
                  cell.runs.fetch_add(1, std::memory_order_relaxed);
                  cell.note = {group, this_unit(), begin, ++stamps_};
                }}};
}

void HostKernels::open(int number) {
  at(number).open = true;
  at(number).open.notify_all();
}

std::vector<device::GroupNote> HostKernels::notes(int number) {
  std::vector<device::GroupNote> all;
  for (const Cell& cell : at(number).groups) all.insert(all.end(), cell.runs.load(), cell.note);
  return all;
}

Result<Kernel> HostKernels::computing(std::int64_t groups, std::int64_t rounds) {
  return Kernel{groups, HostKernel{[rounds](std::int64_t group) {
                  auto value = static_cast<std::uint64_t>(group);
                  for (std::int64_t i = 0; i < rounds; ++i)
                    value = value * 6364136223846793005u + 1442695040888963407u;
                  keep(value);
                }}};
}

Result<Kernel> HostKernels::reading(std::int64_t groups, std::int64_t bytes) {
  if (!memory_) memory_ = std::make_shared<std::vector<std::uint64_t>>(kMemoryWords, 1);
  const auto lines =
      (static_cast<std::size_t>(bytes) / sizeof(std::uint64_t) + kWordsPerLine - 1) / kWordsPerLine;
  return Kernel{groups, HostKernel{[memory = memory_, lines](std::int64_t group) {
                  std::size_t at = static_cast<std::size_t>(group) * lines * kWordsPerLine;
                  std::uint64_t sum = 0;
                  for (std::size_t i = 0; i < lines; ++i, at += kWordsPerLine)
                    sum += (*memory)[at % kMemoryWords];
                  keep(sum);
                }}};
}

}  // namespace partita::drivers::cpu_mask
