#include "serve/worker/worker_loop.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "serve/link/slot_memory.h"
#include "serve/wire/frames.h"
#include "serve/worker/link_sender.h"
#include "serve/worker/pulse.h"
#include "serve/worker/warm_up.h"

namespace partita::serve {
namespace {

constexpr std::size_t kMaxMessage = 1000;  // of an error in DONE

// How a connection ended.
enum class Ending { gateway_gone, drained, told_to_end };

// A worker over all its connections.
class LinkedWorker {
 public:
  LinkedWorker(Engine& engine, const LoopOptions& options)
      : engine_(&engine), options_(options), spec_(engine.spec()) {}
  LinkedWorker(Streams& streams, const LoopOptions& options)
      : streams_(&streams), options_(options), spec_(streams.spec()), curve_(streams.curve()) {}

  Result<void> work() {
    for (;;) {
      std::optional<Connection> connection = TRY(connect());
      if (!connection) return {};
      link_ = std::make_shared<LinkSender>(*std::move(connection));
      const Result<Ending> ending = serve();
      pulse_.send_to(nullptr);
      if (streams_ != nullptr) streams_->stop();
      memory_.reset();
      if (!ending) return failed(ending.error());
      if (*ending != Ending::gateway_gone) return {};
      say("the gateway has gone; waiting for it");
    }
  }

 private:
  void say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }

  // Waits for the link (when there is one) or the wish to end; true when it is time to end.
  bool wait(int link_fd, std::int64_t limit_ns) {
    std::array<pollfd, 2> watched = {pollfd{leaving_ ? -1 : options_.leave_fd, POLLIN, 0},
                                     pollfd{link_fd, POLLIN, 0}};
    const timespec limit{limit_ns / 1'000'000'000, limit_ns % 1'000'000'000};
    ::ppoll(watched.data(), watched.size(), limit_ns < 0 ? nullptr : &limit, nullptr);
    return watched[0].revents != 0;
  }

  // Nothing: told to end before any gateway was there.
  Result<std::optional<Connection>> connect() {
    for (bool said = false;; said = true) {
      Result<Connection> connection = Connection::connect(options_.seat.link);
      if (connection) return std::optional(*std::move(connection));
      if (connection.error().code != ErrorCode::not_found) return failed(connection.error());
      if (!said) say("waiting for a gateway at " + options_.seat.link);
      if (wait(-1, kRetryNs)) return std::optional<Connection>();
    }
  }

  Result<Ending> serve() {
    const Hello hello{
        .place = options_.seat.place, .service = options_.seat.service, .model = spec_};
    pulse_.send_to(link_);
    leaving_ = draining_ = false;
    if (!link_->send(hello)) return Ending::gateway_gone;
    for (;;) {
      Result<Received> received = link_->connection().receive(buffer_);
      if (!received) return Ending::gateway_gone;
      if (received->kind == Received::Kind::ended) return ended();
      if (received->kind == Received::Kind::nothing_yet) {
        if (leaving_ && steady_ns() > leave_by_) return Ending::told_to_end;
        if (draining_ && streams_->idle()) return drained();
        const bool leave = wait(link_->connection().fd(), draining_  ? kRetryNs
                                                          : leaving_ ? kLeaveLimit
                                                                     : -1);
        if (leave && !memory_) return Ending::told_to_end;
        if (leave) start_leaving();
        continue;
      }
      const std::optional<Ending> ending = TRY(take(*std::move(received)));
      if (ending) return *ending;
    }
  }

  Ending ended() const { return leaving_ ? Ending::told_to_end : Ending::gateway_gone; }

  Ending drained() {
    link_->send(Drained{});
    say("drained");
    return Ending::drained;
  }

  void start_leaving() {
    leaving_ = true;
    leave_by_ = steady_ns() + kLeaveLimit;
    link_->send(Leaving{});
    say("leaving");
  }

  // What one frame says. Nothing: go on.
  Result<std::optional<Ending>> take(Received received) {
    const Result<Frame> frame = decode(received.bytes);
    if (!frame) {
      say(to_string(frame.error()));
      return std::optional(Ending::gateway_gone);
    }
    if (const auto* run = std::get_if<Run>(&*frame)) {
      if (!memory_ || !execute(*run)) return std::optional(ended());
    } else if (const auto* region = std::get_if<Region>(&*frame)) {
      return get_ready(*region, std::move(received.descriptor));
    } else if (const auto* joint = std::get_if<Joint>(&*frame)) {
      if (!memory_) return std::optional(ended());
      const auto joined =
          joint->own ? memory_->part(*joint) : memory_->join(received.descriptor.get(), *joint);
      if (!joined) return failed(joined.error());
    } else if (const auto* refused = std::get_if<Refused>(&*frame)) {
      return environment_error("the gateway refuses this worker", refused->reason);
    } else if (std::holds_alternative<Drain>(*frame)) {
      draining_ = true;
      if (streams_ == nullptr || streams_->idle()) return std::optional(drained());
    } else if (const auto* cancel = std::get_if<Cancel>(&*frame)) {
      if (streams_ != nullptr) streams_->cancel(*cancel);
    } else if (engine_ != nullptr && engine_->states() != nullptr) {
      if (!hear_of_states(*frame, *engine_->states())) return std::optional(ended());
    }
    return std::optional<Ending>();
  }

  // False: the gateway is gone.
  bool hear_of_states(const Frame& frame, SequenceStates& states) {
    if (const auto* fetch = std::get_if<FetchState>(&frame))
      return link_->send(states.part(*fetch));
    if (const auto* part = std::get_if<StatePart>(&frame)) return link_->send(states.take(*part));
    if (const auto* forget = std::get_if<ForgetStates>(&frame))
      for (const std::uint64_t sequence : forget->sequences) states.forget(sequence);
    return true;
  }

  Result<std::optional<Ending>> get_ready(const Region& region, Descriptor descriptor) {
    if (region.slot_bytes < layout_.bytes) {
      return environment_error("link", fmt::format("slots of {} bytes, the model needs {}",
                                                   region.slot_bytes, layout_.bytes));
    }
    memory_ = TRY(SlotMemory::attach(std::move(descriptor), region.slot_bytes, region.slots));
    if (curve_.empty()) {
      pulse_.busy_until(steady_ns() + kWarmUpLimit);
      const auto pause = [&] { return !wait(-1, 0); };
      Result<std::vector<CurvePoint>> curve = warm_up(*engine_, pause);
      pulse_.busy_until(0);
      if (!curve && curve.error().code == ErrorCode::timeout)
        return std::optional(Ending::told_to_end);
      if (!curve) return failed(curve.error());
      curve_ = *std::move(curve);
    }
    if (!link_->send(Ready{.curve = curve_})) return std::optional(ended());
    say(fmt::format("ready: batch {} takes {:.3f} ms", curve_.back().batch,
                    static_cast<double>(curve_.back().nanos) / 1e6));
    return std::optional<Ending>();
  }

  // False: the gateway is gone.
  bool execute(const Run& run) {
    done_.batch = run.batch;
    done_.nanos = 0;
    done_.message.clear();
    slots_.clear();
    for (const std::uint32_t slot : run.slots) {
      if (slot < memory_->slots()) slots_.push_back(memory_->base(slot));
    }
    const auto most = static_cast<std::size_t>(spec_.max_batch);
    if (slots_.size() < run.slots.size() || slots_.size() > most) {
      done_.message = fmt::format("a batch of {} with slots outside the memory, or above {}",
                                  run.slots.size(), most);
    } else if (streams_ != nullptr) {
      streams_->start(run, slots_, link_);
      return true;
    } else {
      const std::int64_t begin = steady_ns();
      const std::int64_t loads = spec_.set ? kLoadLimit : 0;
      pulse_.busy_until(begin + loads + std::max(kHangFloor, kHangFactor * curve_.back().nanos));
      const Result<void> ran = engine_->run(slots_);
      pulse_.busy_until(0);
      done_.nanos = steady_ns() - begin;
      if (!ran) done_.message = to_string(ran.error()).substr(0, kMaxMessage);
    }
    done_.status.assign(run.slots.size(),
                        done_.message.empty() ? ItemStatus::ok : ItemStatus::failed);
    done_.values = streams_ == nullptr ? engine_->filling().values : 0;
    done_.padding = streams_ == nullptr ? engine_->filling().padding : 0;
    done_.set = streams_ == nullptr && engine_->set_tally() ? *engine_->set_tally() : SetTally{};
    if (streams_ == nullptr && done_.message.empty()) {
      for (const Engine::Fault& fault : engine_->faults()) {
        done_.status[fault.item] = ItemStatus::failed;
        if (done_.message.empty()) done_.message = fault.message.substr(0, kMaxMessage);
      }
    }
    encode_done(done_, answer_);
    return link_->send(answer_);
  }

  Engine* engine_ = nullptr;  // one of the two
  Streams* streams_ = nullptr;
  const LoopOptions& options_;
  const ModelSpec spec_;
  const SlotLayout layout_ = slot_layout(spec_);
  std::shared_ptr<LinkSender> link_;
  std::optional<SlotMemory> memory_;
  std::vector<CurvePoint> curve_;  // measured once
  bool leaving_ = false, draining_ = false;
  std::int64_t leave_by_ = 0;
  std::array<char, kMaxFrameBytes> buffer_{};
  std::vector<char*> slots_;
  Done done_;
  std::string answer_;
  Pulse pulse_;  // last: its thread ends first
};

}  // namespace

Result<void> run_worker(Engine& engine, const LoopOptions& options) {
  return std::make_unique<LinkedWorker>(engine, options)->work();
}

Result<void> run_worker(Streams& streams, const LoopOptions& options) {
  return std::make_unique<LinkedWorker>(streams, options)->work();
}

}  // namespace partita::serve
