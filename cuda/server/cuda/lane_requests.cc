#include "server/cuda/lane_requests.h"

#include <algorithm>
#include <utility>

namespace partita::remote::cuda {

using server::Answered;

LaneRequests::LaneRequests(Context& context, const std::optional<SharedUse>& use)
    : context_(context) {
  if (!use) return;
  cursor_ = use->cursor;
  phases_ = use->phases;
  measured_ = use->measured;
}

LaneRequests::~LaneRequests() {
  if (measured_) {
    end_request();
    take_times();
    measured_(times_.request());
  }
  for (const Timed& timed : timed_)
    for (abi::Event event : {timed.begun, timed.ended})
      if (event != nullptr) spare_.push_back(event);
  if (before_ != nullptr) spare_.push_back(before_);
  for (abi::Event event : spare_) context_.api().cuEventDestroy_v2(event);
}

std::optional<std::size_t> LaneRequests::lane_of(server::Id stream, const std::string& kernel,
                                                 const server::LaunchWork& work) {
  if (!cursor_) return std::nullopt;
  return cursor_->lane_of(kernel, cursor_->by_shape() ? server::shape_of(work) : std::string(),
                          stream);
}

std::size_t LaneRequests::lane_of_phase(const Stream& stream) {
  const lanes::Phase phase = phases_.of(stream.priority);
  auto& mine = of_phase_[static_cast<std::size_t>(phase)];
  if (mine == nullptr) context_.young();
  if (!std::exchange(told_[static_cast<std::size_t>(phase)], true) || mine == nullptr)
    mine = lanes::PhaseShare::work(phases_.share, phase);
  return phases_.lane_of(phase);
}

bool LaneRequests::poll(Streams& streams) {
  for (const lanes::Phase phase : {lanes::Phase::prefill, lanes::Phase::decode}) {
    auto& mine = of_phase_[static_cast<std::size_t>(phase)];
    if (mine != nullptr &&
        streams.idle([&](const Stream& stream) { return phases_.of(stream.priority) == phase; }))
      mine = nullptr;
  }
  return of_phase_[0] != nullptr || of_phase_[1] != nullptr;
}

Answered<void> LaneRequests::begin_kernel(abi::Stream stream, const std::string& kernel,
                                          const server::LaunchWork& work) {
  if (!measured_) return {};
  const auto begun = timing_event(), ended = timing_event();
  if (!begun || !ended) return tl::unexpected(begun ? ended.error() : begun.error());
  timed_.push_back({kernel, server::shape_of(work), *begun, *ended});
  return context_.done("cuEventRecord", context_.api().cuEventRecord(*begun, stream));
}

void LaneRequests::end_kernel(abi::Stream stream, bool launched) {
  if (!measured_) return;
  const Timed& last = timed_.back();
  if (launched) {
    static_cast<void>(
        context_.done("cuEventRecord", context_.api().cuEventRecord(last.ended, stream)));
    return;
  }
  spare_.insert(spare_.end(), {last.begun, last.ended});
  timed_.pop_back();
}

Answered<abi::Event> LaneRequests::timing_event() {
  abi::Event event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (Answered<void> ok =
                 context_.done("cuEventCreate", context_.api().cuEventCreate(&event, 0));
             !ok) {
    return tl::unexpected(ok.error());
  }
  return event;
}

Answered<void> LaneRequests::begin(Streams& streams, server::Id id, const std::string& kernel,
                                   const server::LaunchWork& work) {
  Stream& stream = streams.at(id);
  const auto lane = phases_.share ? lane_of_phase(stream) : lane_of(id, kernel, work);
  if (lane)
    if (Answered<void> ok = streams.go_to_lane(stream, *lane); !ok) return ok;
  return begin_kernel(stream.stream, kernel, work);
}

void LaneRequests::request_ended(bool said) {
  if (marked_ && !said) return;
  marked_ = said;
  end_request();
}

void LaneRequests::end_request() {
  if (cursor_) cursor_->request_ended();
  phases_.request_ended();
  told_ = {};
  if (measured_) timed_.push_back({});
}

void LaneRequests::take_times() {
  while (!timed_.empty()) {
    const Timed& first = timed_.front();
    if (first.kernel.empty()) {
      times_.request_ended();
    } else {
      float ms = 0;
      const abi::Return code = context_.api().cuEventElapsedTime(&ms, first.begun, first.ended);
      if (code == server::kNotReady) return;
      constexpr double kMicrosPerMs = 1e3;
      server::TimedKernel timed{first.kernel, first.shape, double{ms} * kMicrosPerMs};
      if (before_ != nullptr) {
        float gap = 0;
        if (context_.api().cuEventElapsedTime(&gap, before_, first.begun) == 0)
          timed.gap_us = std::max(0.0, double{gap} * kMicrosPerMs);
        spare_.push_back(before_);
      }
      before_ = first.ended;
      spare_.push_back(first.begun);
      if (code == 0) times_.add(std::move(timed));
    }
    timed_.pop_front();
  }
}

}  // namespace partita::remote::cuda
