// Who executes code for the simulated GPUs of drivers' tests, in a library that has one: entries of
// a module, and memory at addresses of its own. Without one they know the probes' kernels alone.
// Thread rule: one call at a time; what a launch gives back from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace partita::device {

class CodeEngine {
 public:
  virtual ~CodeEngine() = default;
  // The address of new memory; 0 where there is no more.
  virtual std::uint64_t allocate(std::size_t bytes) = 0;
  virtual void release(std::uint64_t address) = 0;
  // These bytes, which one block of memory holds; null where none does.
  virtual std::byte* bytes_at(std::uint64_t address, std::size_t bytes) = 0;
  // The number of a module, above 0; 0 where the image is none.
  virtual std::uint64_t load(const char* image) = 0;
  virtual bool has(std::uint64_t module, const std::string& kernel) = 0;
  struct Launch {
    std::uint64_t module = 0;
    std::string kernel;
    std::array<unsigned, 3> grid{}, block{};
    unsigned shared = 0;
    void** arguments = nullptr;
  };
  // Runs a work-group, and answers whether it did nothing wrong; null where no device takes it.
  virtual std::function<bool(std::int64_t group)> launch(const Launch& launch) = 0;
};

inline CodeEngine* code_engine = nullptr;

}  // namespace partita::device
