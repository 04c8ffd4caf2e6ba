// Watching a launch instruction by instruction: for `partita ptx debug`. A Launch with a Watcher
// runs slower, and calls it on the thread that executes the group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/machine.h"

namespace partita::ptx {

// A warp before an instruction, or at the one that failed. Valid during the call it is given to.
class WarpView {
 public:
  virtual ~WarpView() = default;
  virtual Extent block() const = 0;
  virtual std::uint32_t warp() const = 0;  // in its block
  // Lanes that execute the instruction, and those that did not end.
  virtual std::uint32_t executing() const = 0;
  virtual std::uint32_t live() const = 0;
  virtual int line() const = 0;  // of the PTX text
  // Lines of the text, from 1; empty where there is none.
  virtual std::string_view text_of(int line) const = 0;

  struct RegisterValue {
    Type type = Type::none;
    std::uint64_t bits = 0;  // a predicate: 0 or 1
  };
  // Of the function that executes; nothing where it has no such register.
  virtual std::optional<RegisterValue> value(const std::string& name, unsigned lane) const = 0;
  // Names, in the order of their declaration.
  virtual std::vector<std::string> registers() const = 0;
  // From generic memory as the lane sees it; false where not all of it is there.
  virtual bool read(unsigned lane, std::uint64_t address, std::span<std::byte> to) const = 0;
  // Who called whom, the innermost first: a function that calls itself is shown once.
  struct Call {
    std::string function = {};
    int line = 0;  // where it is, or waits for what it called
  };
  virtual std::vector<Call> calls(unsigned lane) const = 0;
};

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void before(const WarpView& warp) = 0;
  // `lane`: whose thread the fault names.
  virtual void failed(const WarpView& warp, const Fault& fault, unsigned lane) = 0;
};

}  // namespace partita::ptx
