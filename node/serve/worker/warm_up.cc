#include "serve/worker/warm_up.h"

#include <sys/mman.h>

#include <algorithm>
#include <ctime>

#include "base/median.h"
#include "serve/wire/items.h"

namespace partita::serve {
namespace {

// Zeroed memory for the slots of a whole batch.
class OwnSlots {
 public:
  static Result<OwnSlots> make(std::size_t slot_bytes, int slots) {
    const std::size_t bytes = slot_bytes * static_cast<std::size_t>(slots);
    void* start =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return environment_error("warm-up", "no memory for a whole batch");
    OwnSlots own(start, bytes);
    for (int i = 0; i < slots; ++i)
      own.slots_.push_back(static_cast<char*>(start) + (static_cast<std::size_t>(i) * slot_bytes));
    return own;
  }
  ~OwnSlots() {
    if (start_ != nullptr) ::munmap(start_, bytes_);
  }
  OwnSlots(OwnSlots&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)),
        bytes_(other.bytes_),
        slots_(std::move(other.slots_)) {}
  OwnSlots& operator=(OwnSlots&&) = delete;
  std::span<char* const> first(int n) const {
    return std::span(slots_).first(static_cast<std::size_t>(n));
  }

 private:
  OwnSlots(void* start, std::size_t bytes) : start_(start), bytes_(bytes) {}
  void* start_;
  std::size_t bytes_;
  std::vector<char*> slots_;
};

tl::unexpected<Error> interrupted() {
  return failed({ErrorCode::timeout, "told to end while warming up", ""});
}

}  // namespace

std::int64_t steady_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec * std::int64_t{1'000'000'000}) + now.tv_nsec;
}

std::vector<int> batch_ladder(int max_batch) {
  std::vector<int> batches;
  for (int batch = 1; batch < max_batch; batch *= 2) batches.push_back(batch);
  batches.push_back(max_batch);
  return batches;
}

Result<std::vector<CurvePoint>> warm_up(Engine& engine, const std::function<bool()>& pause) {
  const int most = engine.spec().max_batch;
  const OwnSlots slots = TRY(OwnSlots::make(slot_layout(engine.spec()).bytes, most));
  const SlotLayout layout = slot_layout(engine.spec());
  std::uint64_t sequence = 0;  // each item is all of one
  for (char* slot : slots.first(most)) {
    make_usual(engine.spec(), slot);
    write_slot_step(slot + layout.step, {.sequence = ++sequence, .begins = true, .ends = true});
  }
  for (int i = 0; i < 2; ++i) {
    TRY(engine.run(slots.first(most)));
    if (!pause()) return interrupted();
  }
  std::vector<CurvePoint> curve;
  for (const int batch : batch_ladder(most)) {
    std::vector<std::int64_t> times;
    const std::int64_t end = steady_ns() + kTimePerPoint;
    while (times.empty() || (times.size() < kRunsPerPoint && steady_ns() < end)) {
      const std::int64_t begin = steady_ns();
      TRY(engine.run(slots.first(batch)));
      times.push_back(steady_ns() - begin);
      if (!pause()) return interrupted();
    }
    const std::int64_t before = curve.empty() ? 1 : curve.back().nanos;
    curve.push_back({.batch = batch, .nanos = std::max(before, median(std::move(times)))});
  }
  return curve;
}

}  // namespace partita::serve
