// Debugger: a prompt over a launch that runs instruction by instruction: breakpoints at lines of
// the PTX, steps of a warp, registers, memory, calls. Reads its commands line by line; at their end
// the launch goes on without it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ptx/watch.h"

namespace partita::cli {

class Debugger final : public ptx::Watcher {
 public:
  using Read = std::function<std::optional<std::string>()>;  // a line; nothing at the end
  using Say = std::function<void(const std::string&)>;
  // `stop` ends the launch.
  Debugger(Read read, Say say) : read_(std::move(read)), say_(std::move(say)) {}

  void set_stop(std::function<void()> stop) { stop_ = std::move(stop); }
  void before(const ptx::WarpView& warp) override;
  void failed(const ptx::WarpView& warp, const ptx::Fault& fault, unsigned lane) override;

 private:
  using Words = std::vector<std::string>;
  void prompt(const ptx::WarpView& warp);
  bool goes_on(const ptx::WarpView& warp, const Words& words);  // what makes the launch go on
  void answer(const ptx::WarpView& warp, const Words& words);
  void set_break(const ptx::WarpView& warp, const Words& words);
  void choose_lane(const ptx::WarpView& warp, const Words& words);
  void say_place(const ptx::WarpView& warp);
  void say_registers(const ptx::WarpView& warp, const Words& words);
  void say_memory(const ptx::WarpView& warp, const Words& words);
  void say_lines(const ptx::WarpView& warp);

  Read read_;
  Say say_;
  std::function<void()> stop_ = [] {};
  std::set<int> breaks_;
  bool first_ = true, free_ = false;
  std::optional<std::pair<ptx::Extent, std::uint32_t>> stepping_;  // the warp
  std::uint64_t steps_ = 1;                                        // of it
  unsigned lane_ = 0;
};

}  // namespace partita::cli
