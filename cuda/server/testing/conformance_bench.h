// The bench that the suite of back ends works on: a back end, a module with "add" on it, memory,
// and what completions have told so far. What is wrong is kept as sentences.
#pragma once

#include <fmt/format.h>
#include <poll.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "server/testing/conformance.h"

namespace partita::remote::server {

class ConformanceBench {
 public:
  static constexpr auto kPatience = std::chrono::seconds(20);
  static constexpr std::uint32_t kWords = 256;
  static constexpr std::uint64_t kBytes = kWords * 4;

  ConformanceBench(DeviceBackend& backend, const ConformanceModule& module)
      : backend_(backend), module_(module), at_(backend.device().arena) {}

  void expect(bool good, std::string what) {
    if (!good) wrong_.push_back(std::move(what));
  }
  template <class T>
  T must(Answered<T> answer, const char* what) {
    if (answer) return *std::move(answer);
    wrong_.push_back(
        fmt::format("{}: {} ({})", what, answer.error().reason, answer.error().status));
    return T{};
  }
  void enqueue(Id stream, StreamWork work) {
    const Answered<void> done = backend_.enqueue(stream, std::move(work));
    expect(done.has_value(), "work was refused: " + (done ? "" : done.error().reason));
  }

  // Until `done` says so; false when that takes too long.
  bool until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      DeviceBackend::Polled polled = backend_.poll();
      for (Completed& one : polled.completed) take(one);
      if (done()) return true;
      pollfd ready{backend_.descriptor(), POLLIN, 0};
      ::poll(&ready, 1, polled.again ? 1 : 50);
    }
    return false;
  }
  void take(Completed& one) {
    switch (one.kind) {
      case Completed::Kind::reached:
        expect(reached_.insert(one.tag).second, "a watch was told twice");
        break;
      case Completed::Kind::copied:
        copied_[one.tag] = std::move(one.bytes);
        break;
      case Completed::Kind::held:
        held_.push_back(one);
        break;
      case Completed::Kind::fault:
        faults_.push_back(one.status);
        break;
      default:
        break;
    }
  }
  bool settle(Id stream) {
    const std::uint64_t tag = ++tag_;
    backend_.watch(ObjectKind::stream, stream, tag);
    return until([&] { return reached_.contains(tag); });
  }
  std::vector<std::uint32_t> words(Id stream, std::uint64_t from, std::uint32_t count) {
    const std::uint64_t tag = ++tag_;
    enqueue(stream, CopyOutWork{from, count * std::uint64_t{4}, tag});
    if (!until([&] { return copied_.contains(tag); })) expect(false, "a copy out did not come");
    std::vector<std::uint32_t> out(copied_[tag].size() / 4);
    if (!out.empty()) std::memcpy(out.data(), copied_[tag].data(), out.size() * 4);
    return out;
  }
  static Staging staging(const std::vector<std::uint32_t>& words) {
    const auto bytes = std::as_bytes(std::span(words));
    return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  }
  LaunchWork adding(std::uint64_t to, std::uint32_t count, std::uint32_t more) const {
    LaunchWork work{.kernel = add_.id, .block = {count, 1, 1}};
    work.parameters.resize(16);
    std::memcpy(work.parameters.data(), &to, 8);
    std::memcpy(work.parameters.data() + 8, &count, 4);
    std::memcpy(work.parameters.data() + 12, &more, 4);
    return work;
  }
  std::uint32_t first(Id stream) {
    const auto out = words(stream, at_, 1);
    return out.empty() ? ~0u : out[0];
  }
  void zero() {
    enqueue(kDefaultStream, SetWork{at_, 0, 4, kWords, 1, 0});
    expect(settle(kDefaultStream), "setting did not end");
  }

  bool begin() {
    const DeviceSnapshot& device = backend_.device();
    expect(device.granule > 0 && kBytes % 256 == 0, "a granule of 0");
    expect(device.arena % device.granule == 0, "the arena begins between granules");
    expect(device.uuid.size() == 16, "a uuid of 16 bytes");
    bytes_ = std::max(kBytes, device.granule);
    expect(backend_.allocate(at_, bytes_).has_value(), "memory was refused");
    const Id module = must(backend_.create(ModuleSpec{module_.image}), "the module");
    if (!wrong_.empty()) return false;
    add_ = must(backend_.find_kernel(module, module_.add), "the kernel add");
    crash_ = must(backend_.find_kernel(module, module_.crash), "the kernel crash");
    module_id_ = module;
    return wrong_.empty();
  }

  DeviceBackend& backend_;
  const ConformanceModule& module_;
  const std::uint64_t at_;
  std::uint64_t bytes_ = 0, tag_ = 1000;
  Id module_id_ = 0;
  KernelFacts add_ = {}, crash_ = {};
  std::set<std::uint64_t> reached_;
  std::map<std::uint64_t, std::vector<std::byte>> copied_;
  std::vector<Completed> held_;
  std::vector<Status> faults_;
  std::vector<std::string> wrong_;
};

// Parts of the suite: what devices keep, or clients describe.
void check_textures(ConformanceBench& bench);
void check_conditions(ConformanceBench& bench);

}  // namespace partita::remote::server
