#include "server/cuda/cuda_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace partita::remote::cuda {

using server::Answered;
using server::Id;
using server::kDefaultStream;
using server::refuse;
using server::Refused;

// ---- streams ----

Streams::~Streams() {
  const DriverApi& api = context_.api();
  if (joint_ != nullptr) api.cuEventDestroy_v2(joint_);
  for (auto& [id, stream] : streams_) {
    for (const Mark& mark : stream.marks)
      if (mark.event != nullptr) spare_.push_back(mark.event);
    end(stream);
  }
  for (abi::Event event : spare_) api.cuEventDestroy_v2(event);
}

Result<void> Streams::open() {
  Stream stream;
  if (!lanes_.empty()) {
    if (auto ok = context_.needed("cuEventCreate",
                                  context_.api().cuEventCreate(&joint_, abi::kEventDisableTiming));
        !ok)
      return ok;
    auto made = TRY(lanes_.front().create_stream(0));
    stream.stream = made;
    stream.on = {made};
  }
  streams_.emplace(kDefaultStream, std::move(stream));
  return {};
}

Answered<abi::Stream> Streams::make(const server::StreamSpec& spec) {
  if (!lanes_.empty()) {
    const auto made = lanes_.front().create_stream(spec.priority);
    if (!made) return refuse(server::kLaunchOutOfResources, to_string(made.error()));
    return *made;
  }
  abi::Stream made = nullptr;
  if (Answered<void> ok =
          context_.done("cuStreamCreateWithPriority",
                        context_.api().cuStreamCreateWithPriority(
                            &made, spec.blocking ? 0 : abi::kStreamNonBlocking, spec.priority));
      !ok)
    return tl::unexpected<Refused>(ok.error());
  return made;
}

Answered<Id> Streams::create(const server::StreamSpec& spec) {
  const auto made = make(spec);
  if (!made) return tl::unexpected<Refused>(made.error());
  const Id id = context_.next_id();
  streams_.emplace(
      id,
      Stream{.stream = *made, .blocking = spec.blocking, .priority = spec.priority, .on = {*made}});
  return id;
}

void Streams::end(Stream& stream) {
  for (abi::Stream one : stream.on)
    if (one != nullptr) context_.api().cuStreamDestroy_v2(one);
}

void Streams::destroy(Id id) {
  Stream& stream = streams_.at(id);
  // What the default stream would have waited for it still does.
  if (!lanes_.empty() && !context_.dead() && stream.blocking && stream.fresh)
    static_cast<void>(wait_for(streams_.at(kDefaultStream).stream, stream.stream));
  for (Mark& mark : stream.marks) deliver(mark);
  end(stream);
  streams_.erase(id);
}

// What is put on `stream` from now on begins after what is on `earlier` by now.
Answered<void> Streams::wait_for(abi::Stream stream, abi::Stream earlier) {
  const DriverApi& api = context_.api();
  if (Answered<void> ok = context_.done("cuEventRecord", api.cuEventRecord(joint_, earlier)); !ok)
    return ok;
  return context_.done("cuStreamWaitEvent", api.cuStreamWaitEvent(stream, joint_, 0));
}

// What lanes::go_to_lane() asks for.
struct Streams::Door {
  Streams& streams;
  const Stream& stream;
  Answered<abi::Stream> make(std::size_t lane) const {
    const auto made = streams.lanes_[lane].create_stream(stream.priority);
    if (!made) return refuse(server::kLaunchOutOfResources, to_string(made.error()));
    return *made;
  }
  Answered<bool> finished(abi::Stream on) const {
    const abi::Return code = streams.context_.api().cuStreamQuery(on);
    if (code != 0 && code != server::kNotReady)
      return streams.context_.refused("cuStreamQuery", code);
    return code == 0;
  }
  Answered<void> wait_for(abi::Stream later, abi::Stream earlier) const {
    return streams.wait_for(later, earlier);
  }
};

Answered<void> Streams::go_to_lane(Stream& stream, std::size_t lane) {
  return lanes::go_to_lane(stream.stream, stream.on, lane, Door{*this, stream});
}

Answered<void> Streams::order(Id id) {
  if (lanes_.empty() || context_.dead()) return {};
  Stream& stream = streams_.at(id);
  if (id == kDefaultStream) {
    for (auto& [number, other] : streams_) {
      if (number == kDefaultStream || !other.blocking || !std::exchange(other.fresh, false))
        continue;
      if (Answered<void> ok = wait_for(stream.stream, other.stream); !ok) return ok;
    }
    ++default_epoch_;
  } else if (stream.blocking) {
    stream.fresh = true;
    if (std::exchange(stream.joined, default_epoch_) != default_epoch_)
      return wait_for(stream.stream, streams_.at(kDefaultStream).stream);
  }
  return {};
}

Answered<void> Streams::mark(Stream& stream, Mark mark) {
  const DriverApi& api = context_.api();
  if (spare_.empty()) {
    abi::Event made = nullptr;
    if (Answered<void> ok =
            context_.done("cuEventCreate", api.cuEventCreate(&made, abi::kEventDisableTiming));
        !ok && !context_.dead())
      return ok;
    if (made != nullptr) spare_.push_back(made);
  }
  if (!context_.dead()) {
    mark.event = spare_.back();
    if (Answered<void> ok =
            context_.done("cuEventRecord", api.cuEventRecord(mark.event, stream.stream));
        !ok && !context_.dead())
      return ok;
    spare_.pop_back();
  }
  if (stream.marks.empty()) context_.young();
  stream.marks.push_back(std::move(mark));
  return {};
}

void Streams::deliver(Mark& mark) {
  context_.tell_printed(mark.event);
  const bool filled = mark.into != nullptr && !context_.dead();
  if (filled) std::memcpy(mark.into->data() + mark.offset, mark.buffer, mark.bytes);
  if (mark.tell) {
    if (filled) mark.tell->bytes = std::move(*mark.into);
    context_.tell(*std::move(mark.tell));
  }
  if (mark.buffer != nullptr) pinned_.give_back(mark.buffer);
  if (mark.event != nullptr) spare_.push_back(mark.event);
}

std::size_t Streams::poll() {
  std::size_t left = 0;
  for (auto& [id, stream] : streams_) {
    while (!stream.marks.empty()) {
      Mark& first = stream.marks.front();
      if (!context_.dead() &&
          !context_.finished("a kernel or copy", context_.api().cuEventQuery(first.event)))
        break;
      deliver(first);
      stream.marks.pop_front();
    }
    left += stream.marks.size();
  }
  return left;
}

bool Streams::finished(Id id) {
  const auto idle = [this](const Stream& stream) {
    return context_.finished("a stream", context_.api().cuStreamQuery(stream.stream));
  };
  const Stream& stream = streams_.at(id);
  if (!idle(stream)) return false;
  if (id != kDefaultStream) return !stream.blocking || idle(streams_.at(kDefaultStream));
  return std::ranges::all_of(
      streams_, [&](const auto& other) { return !other.second.blocking || idle(other.second); });
}

bool Streams::idle(const std::function<bool(const Stream& stream)>& of) {
  return std::ranges::all_of(streams_, [&](const auto& one) {
    const Stream& stream = one.second;
    return !of(stream) ||
           (stream.marks.empty() &&
            context_.finished("a stream", context_.api().cuStreamQuery(stream.stream)));
  });
}

void Streams::wait_for_all() {
  for (const auto& [id, stream] : streams_)
    if (stream.stream != nullptr) context_.api().cuStreamSynchronize(stream.stream);
}

// ---- events ----

Events::~Events() {
  for (const auto& [id, event] : events_) context_.api().cuEventDestroy_v2(event.event);
}

Answered<Id> Events::create(const server::EventSpec& spec) {
  Event made;
  if (const abi::Return code =
          context_.api().cuEventCreate(&made.event, spec.timing ? 0 : abi::kEventDisableTiming);
      code != 0)
    return context_.refused("cuEventCreate", code);
  const Id id = context_.next_id();
  events_.emplace(id, made);
  return id;
}

void Events::destroy(Id id) {
  std::erase_if(watched_, [this, id](const Watched& watched) {
    if (watched.event == id) reached(watched);
    return watched.event == id;
  });
  context_.api().cuEventDestroy_v2(events_.at(id).event);
  events_.erase(id);
}

Answered<void> Events::record(abi::Stream stream, Id id, bool node) {
  Event& event = events_.at(id);
  Answered<void> ok = context_.done(
      "cuEventRecord",
      context_.api().cuEventRecordWithFlags(event.event, stream, node ? abi::kExternalEvent : 0));
  if (ok) event.recorded = true;
  return ok;
}

Answered<void> Events::wait(abi::Stream stream, Id id, bool node) {
  const Event& event = events_.at(id);
  if (!event.recorded && !node) return {};
  return context_.done(
      "cuStreamWaitEvent",
      context_.api().cuStreamWaitEvent(stream, event.event, node ? abi::kExternalEvent : 0));
}

bool Events::finished(Id id) {
  const Event& event = events_.at(id);
  return context_.dead() || !event.recorded ||
         context_.finished("an event", context_.api().cuEventQuery(event.event));
}

Answered<std::uint64_t> Events::elapsed(Id from, Id to) {
  const Event &first = events_.at(from), &last = events_.at(to);
  if (!first.recorded || !last.recorded)
    return refuse(server::kInvalidHandle, "the event was not recorded");
  float ms = 0;
  const abi::Return code = context_.api().cuEventElapsedTime(&ms, first.event, last.event);
  if (code == server::kNotReady) return refuse(code, {});
  if (code != 0) return context_.refused("cuEventElapsedTime", code);
  constexpr double kNanosPerMs = 1e6;
  return static_cast<std::uint64_t>(std::max(0.0, double{ms} * kNanosPerMs));
}

void Events::watch(Id id, std::uint64_t tag) {
  if (watched_.empty()) context_.young();
  watched_.push_back({id, tag});
}

bool Events::poll() {
  std::erase_if(watched_, [this](const Watched& watched) {
    if (!finished(watched.event)) return false;
    reached(watched);
    return true;
  });
  return !watched_.empty();
}

}  // namespace partita::remote::cuda
