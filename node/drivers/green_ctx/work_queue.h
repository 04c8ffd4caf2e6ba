// WorkQueue: a stream and what of it is unfinished: behind every kernel, record or wait stands an
// event of CUDA, so how many are unfinished is read, not guessed. Marks are those events, reused
// once nobody looks at them any more. Thread rule: one call at a time, with the primary context
// current; synchronising is the exception: it needs no lock, what it waits for it shares.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/lane_refusals.h"
#include "drivers/green_ctx/primary_context.h"

namespace partita::drivers::green_ctx {

inline constexpr std::size_t kMaxIdleMarks = 4096;

// An event of CUDA, without timing; destroyed with its last owner.
struct Mark {
  explicit Mark(std::shared_ptr<const PrimaryContext> on) : gpu(std::move(on)) {}
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  // Whether what it stands behind is finished.
  Result<bool> finished() const;

  std::shared_ptr<const PrimaryContext> gpu;
  abi::Event event = nullptr;
};

class Marks {
 public:
  explicit Marks(std::shared_ptr<const PrimaryContext> gpu) : gpu_(std::move(gpu)) {}
  Result<std::shared_ptr<Mark>> take();
  // A mark that its owner is done with; others may still share it.
  void give(std::shared_ptr<Mark> mark);

 private:
  std::shared_ptr<const PrimaryContext> gpu_;
  std::vector<std::shared_ptr<Mark>> idle_;
};

class WorkQueue {
 public:
  // Takes over the stream, and destroys it at its end.
  WorkQueue(std::shared_ptr<const PrimaryContext> gpu, abi::Stream stream)
      : gpu_(std::move(gpu)), stream_(stream) {}
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  abi::Stream stream() const { return stream_; }
  // Items that are unfinished; gives the marks of the others back.
  Result<std::int64_t> unfinished(Marks& marks);
  // Items that were unfinished when somebody last looked: at least those that are.
  std::int64_t at_most() const { return static_cast<std::int64_t>(items_.size()); }
  // Gives the stream the work of a call, and puts a mark behind it. An item that it has counts even
  // where that fails.
  template <class Work>
  Result<std::shared_ptr<Mark>> give(Marks& marks, const std::string& call, const Work& work) {
    auto mark = TRY(device::within(call, marks.take()));
    if (const abi::Return code = work(stream_); code != abi::Return::success) {
      marks.give(std::move(mark));
      return failed(gpu_->library().error(code, call));
    }
    TRY(device::within(call, push(mark)));
    return mark;
  }
  // The mark behind everything so far; null when that one could not be put.
  std::shared_ptr<Mark> last() const { return items_.back(); }

 private:
  Result<void> push(std::shared_ptr<Mark> mark);
  Result<bool> finished(const Mark* mark) const;

  std::shared_ptr<const PrimaryContext> gpu_;
  abi::Stream stream_;
  std::deque<std::shared_ptr<Mark>> items_;  // null: no mark, so all of the stream must be finished
};

}  // namespace partita::drivers::green_ctx
