#include "drivers/green_ctx/work_queue.h"

#include <utility>

namespace partita::drivers::green_ctx {

Mark::~Mark() {
  if (!event) return;
  const Current current(*gpu);
  gpu->api().destroy_event(event);
}

Result<bool> Mark::finished() const {
  const abi::Return code = gpu->api().query_event(event);
  if (code == abi::Return::success) return true;
  if (code == abi::Return::not_ready) return false;
  return failed(gpu->library().error(code, "cuEventQuery(event)"));
}

Result<std::shared_ptr<Mark>> Marks::take() {
  if (!idle_.empty()) {
    auto mark = std::move(idle_.back());
    idle_.pop_back();
    return mark;
  }
  auto mark = std::make_shared<Mark>(gpu_);
  TRY(gpu_->library().checked(gpu_->api().create_event(&mark->event, abi::kEventDisableTiming),
                              "cuEventCreate(event)"));
  return mark;
}

void Marks::give(std::shared_ptr<Mark> mark) {
  if (mark.use_count() == 1 && idle_.size() < kMaxIdleMarks) idle_.push_back(std::move(mark));
}

WorkQueue::~WorkQueue() {
  const Current current(*gpu_);
  gpu_->api().destroy_stream(stream_);
}

Result<bool> WorkQueue::finished(const Mark* mark) const {
  if (mark) return mark->finished();
  const abi::Return code = gpu_->api().query_stream(stream_);
  if (code == abi::Return::success) return true;
  if (code == abi::Return::not_ready) return false;
  return failed(gpu_->library().error(code, "cuStreamQuery(stream)"));
}

Result<std::int64_t> WorkQueue::unfinished(Marks& marks) {
  while (!items_.empty()) {
    const auto ended = TRY(finished(items_.front().get()));
    if (!ended) break;
    if (items_.front()) marks.give(std::move(items_.front()));
    items_.pop_front();
  }
  return at_most();
}

Result<void> WorkQueue::push(std::shared_ptr<Mark> mark) {
  const abi::Return code = gpu_->api().record_event(mark->event, stream_);
  items_.push_back(code == abi::Return::success ? std::move(mark) : nullptr);
  return gpu_->library().checked(code, "cuEventRecord(event)");
}

}  // namespace partita::drivers::green_ctx
