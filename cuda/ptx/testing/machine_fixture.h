// A machine with one module, for tests: buffers as vectors, parameter blocks by value.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ptx/machine.h"

namespace partita::ptx {

class Parameters {
 public:
  template <class T>
  Parameters& add(T value) {
    bytes_.resize((bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(&bytes_[at], &value, sizeof(T));
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Device {
 public:
  explicit Device(const std::string& body, std::uint64_t arena = std::uint64_t{1} << 26) {
    machine_ = std::move(*Machine::open(arena));
    const auto module =
        machine_->load(".version 7.8\n.target sm_80\n.address_size 64\n" + body, "test");
    EXPECT_TRUE(module) << (module ? "" : to_string(module.error()));
    if (module) module_ = *module;
  }

  Machine& machine() { return *machine_; }
  ModuleId module() const { return module_; }
  std::uint64_t allocate(std::uint64_t bytes) { return *machine_->allocate(bytes); }
  template <class T>
  std::uint64_t upload(const std::vector<T>& from) {
    const std::uint64_t at = allocate(from.size() * sizeof(T));
    write(at, from);
    return at;
  }
  template <class T>
  void write(std::uint64_t at, const std::vector<T>& from) {
    const auto to = machine_->writable(at, from.size() * sizeof(T));
    ASSERT_TRUE(to);
    std::memcpy(to->data(), from.data(), to->size());
  }
  template <class T>
  std::vector<T> download(std::uint64_t at, std::size_t count) {
    std::vector<T> to(count);
    const auto from = machine_->readable(at, count * sizeof(T));
    EXPECT_TRUE(from);
    if (from) std::memcpy(to.data(), from->data(), from->size());
    return to;
  }
  Launch launch(std::string_view kernel, Extent grid, Extent block, const Parameters& parameters,
                Checks checks = {}) {
    const auto id = machine_->find_kernel(module_, kernel);
    EXPECT_TRUE(id);
    return {.kernel = id ? *id : KernelId{},
            .grid = grid,
            .block = block,
            .parameters = parameters.bytes(),
            .checks = checks};
  }
  std::shared_ptr<Run> run(const Launch& launch) {
    auto run = run_here(*machine_, launch);
    EXPECT_TRUE(run) << (run ? "" : to_string(run.error()));
    return run ? *run : nullptr;
  }
  std::shared_ptr<Run> run(std::string_view kernel, Extent grid, Extent block,
                           const Parameters& parameters, Checks checks = {}) {
    return run(launch(kernel, grid, block, parameters, checks));
  }

 private:
  std::unique_ptr<Machine> machine_;
  ModuleId module_{};
};

}  // namespace partita::ptx
