#include "wire/trace/replay.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "wire/net/frames.h"
#include "wire/trace/recorder.h"

namespace partita::remote {
namespace {

constexpr const char* kReplay = "replay";
constexpr std::size_t kZeros = 1 << 20;

// What the server has said, gathered by a thread, since it speaks while we write.
class Heard {
 public:
  Heard(FrameReader& reader, Nanos patience)
      : reader_(reader), patience_(patience), thread_([this] { listen(); }) {}
  ~Heard() { thread_.join(); }
  Heard(const Heard&) = delete;
  Heard& operator=(const Heard&) = delete;

  // The status of the answer to `request`, when it has come.
  Result<std::int32_t> answer(std::uint32_t request) {
    return wait<std::int32_t>([&](Result<std::int32_t>& found) {
      const auto one = answers_.find(request);
      if (one == answers_.end()) return false;
      found = one->second;
      return true;
    });
  }
  Result<std::int32_t> call(std::uint64_t token) {
    return wait<std::int32_t>([&](Result<std::int32_t>& found) {
      const auto one = calls_.find(token);
      if (one == calls_.end()) return false;
      calls_.erase(one);
      found = 0;
      return true;
    });
  }

 private:
  template <class T, class Look>
  Result<T> wait(Look&& look) {
    std::unique_lock lock(mutex_);
    Result<T> found = T{};
    for (std::uint64_t before = heard_; !look(found); before = heard_) {
      if (end_.code != ErrorCode::infeasible) return failed(end_);
      const bool more = something_.wait_for(
          lock, patience_, [&] { return heard_ != before || end_.code != ErrorCode::infeasible; });
      if (!more) return failed({ErrorCode::timeout, "the server does not answer", kReplay});
    }
    return found;
  }

  void listen() {
    for (;;) {
      const auto frame = reader_.next(std::chrono::hours(24));
      Result<void> good;
      if (frame) {
        note(*frame);
        good = reader_.drop_bulk(patience_);
      }
      if (!frame || !good) {
        const std::lock_guard lock(mutex_);
        end_ = frame ? good.error() : frame.error();
        something_.notify_all();
        return;
      }
    }
  }

  void note(const Frame& frame) {
    const std::lock_guard lock(mutex_);
    if (const auto outcome = outcome_of(frame.header, frame.body)) {
      answers_[frame.header.request] = outcome->status;
    } else if (frame.header.code == Call::kSpec.code) {
      if (const auto called = decode<Call>(frame.body)) calls_.insert(called->token.value);
    }
    ++heard_;
    something_.notify_all();
  }

  FrameReader& reader_;
  Nanos patience_;
  std::mutex mutex_;
  std::condition_variable something_;
  std::map<std::uint32_t, std::int32_t> answers_;
  std::multiset<std::uint64_t> calls_;
  std::uint64_t heard_ = 0;
  Error end_{ErrorCode::infeasible, "", ""};  // infeasible: not yet
  std::thread thread_;
};

struct Arena {
  std::uint64_t begin = 0, bytes = 0;
};

// A recorded body with its addresses moved from the old arena to the new one.
class Mover {
 public:
  Mover(Arena from, Arena to) : from_(from), shift_(to.begin - from.begin) {}

  std::vector<std::byte> moved(const FrameHeader& header, Bytes body) const {
    std::vector<std::byte> bytes(body.begin(), body.end());
    if (shift_ == 0) return bytes;
    with_operation(ClientOperations{}, header.code, [&]<class Op>() {
      auto operation = decode<Op>(body);
      if (!operation) return;
      Op::fields(*operation, [&]<class T>(std::string_view, T& field) {
        if constexpr (std::is_same_v<T, DevicePointer>) field.value = moved(field.value);
      });
      encode(*operation, bytes.data());
      // The parameter block is the last field.
      if constexpr (std::is_same_v<Op, Launch>)
        move_words(std::span(bytes).last(operation->parameters.size()));
    });
    return bytes;
  }
  // Descriptions of textures and the like have addresses in them.
  std::vector<std::byte> moved_bulk(const TraceRecord& record) const {
    std::vector<std::byte> bytes(record.bulk.begin(), record.bulk.end());
    if (record.header.code == CopyIn::kSpec.code && bytes.size() <= kSmallBulk) move_words(bytes);
    return bytes;
  }

 private:
  std::uint64_t moved(std::uint64_t address) const {
    return address - from_.begin < from_.bytes ? address + shift_ : address;
  }
  void move_words(std::span<std::byte> bytes) const {
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      word = moved(word);
      std::memcpy(bytes.data() + at, &word, sizeof word);
    }
  }

  Arena from_;
  std::uint64_t shift_;
};

std::optional<Hello::Reply> hello_reply(Bytes body) {
  if (body.size() < sizeof(Outcome)) return std::nullopt;
  return decode<Hello::Reply>(body.subspan(sizeof(Outcome)));
}

Result<Arena> recorded_arena(const Trace& trace) {
  if (trace.records.empty() || trace.records[0].direction != Direction::up ||
      trace.records[0].header.code != Hello::kSpec.code) {
    return bad_input(kReplay, "the recording does not begin with a hello");
  }
  for (const TraceRecord& record : trace.records) {
    if (record.header.code != (Hello::kSpec.code | kAnswer)) continue;
    if (const auto reply = hello_reply(record.body)) {
      return Arena{reply->arena.value, reply->arena_bytes};
    }
  }
  return bad_input(kReplay, "the recorded hello was not answered");
}

Result<Arena> own_hello(Channel& channel, FrameReader& reader, const ReplayOptions& options) {
  FrameWriter writer(channel, options.patience);
  const Hello hello{.table = protocol_hash(),
                    .token = options.token,
                    .shape = options.shape,
                    .program = kReplay,
                    .pid = static_cast<std::uint64_t>(::getpid())};
  TRY(writer.put(hello, 1));
  TRY(writer.flush());
  for (;;) {
    const auto frame = TRY(reader.next(options.patience));
    const bool answer = frame.header.code == (Hello::kSpec.code | kAnswer);
    const auto outcome = outcome_of(frame.header, frame.body);
    const auto reply = answer ? hello_reply(frame.body) : std::nullopt;
    TRY(reader.drop_bulk(options.patience));
    if (!answer) continue;  // a place in the queue
    if (!outcome || outcome->status != 0 || !reply) {
      return failed({ErrorCode::denied, "the server refuses the session", kReplay});
    }
    return Arena{reply->arena.value, reply->arena_bytes};
  }
}

class Replayer {
 public:
  Replayer(const Trace& trace, Channel& channel, const ReplayOptions& options, Mover mover)
      : trace_(trace),
        channel_(channel),
        options_(options),
        mover_(mover),
        writer_(channel, options.patience) {}

  Result<ReplayResult> run(Heard& heard) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 1; i < trace_.records.size(); ++i) {
      const TraceRecord& record = trace_.records[i];
      if (options_.at_recorded_times) std::this_thread::sleep_until(begin + time_of(record));
      auto done = record.direction == Direction::up ? send(record) : expect(heard, i);
      if (!done) return failed(done.error());
    }
    TRY(writer_.flush());
    result_.took = std::chrono::steady_clock::now() - begin;
    return std::move(result_);
  }

 private:
  Nanos time_of(const TraceRecord& record) const {
    return Nanos(record.nanoseconds - trace_.records[0].nanoseconds);
  }

  Result<void> send(const TraceRecord& record) {
    ++result_.sent;
    const auto body = mover_.moved(record.header, record.body);
    if (record.header.bulk_bytes == 0 || record.kept == KeptBulk::whole) {
      return writer_.put_raw(record.header, body, mover_.moved_bulk(record));
    }
    if (record.header.code == ModulePut::kSpec.code) {
      return bad_input(kReplay, "the recording lacks the image of a module");
    }
    TRY(writer_.flush());
    const std::vector<std::byte> zeros(std::min<std::uint64_t>(kZeros, record.header.bulk_bytes));
    std::array<Bytes, 3> parts{std::as_bytes(std::span(&record.header, 1)), body, {}};
    for (std::uint64_t left = record.header.bulk_bytes; left > 0;) {
      parts[2] = Bytes(zeros).first(std::min<std::uint64_t>(left, zeros.size()));
      TRY(channel_.write(parts, options_.patience));
      left -= parts[2].size();
      parts[0] = parts[1] = {};
    }
    return {};
  }

  // What the server said here must have been said again before anything else is sent.
  Result<void> expect(Heard& heard, std::size_t index) {
    const TraceRecord& record = trace_.records[index];
    const auto outcome = outcome_of(record.header, record.body);
    const auto called =
        record.header.code == Call::kSpec.code ? decode<Call>(record.body) : std::nullopt;
    if (record.header.code == (Hello::kSpec.code | kAnswer) || (!outcome && !called)) return {};
    TRY(writer_.flush());
    if (called) {
      const auto came = heard.call(called->token.value);
      return came ? Result<void>() : failed(came.error());
    }
    const auto status = TRY(heard.answer(record.header.request));
    ++result_.answers;
    if (status != outcome->status) {
      const auto spec = spec_of(record.header, Direction::down);
      result_.differences.push_back({.record = index,
                                     .operation = spec ? std::string(spec->name) : "unknown",
                                     .recorded = outcome->status,
                                     .now = status});
    }
    return {};
  }

  const Trace& trace_;
  Channel& channel_;
  const ReplayOptions& options_;
  Mover mover_;
  FrameWriter writer_;
  ReplayResult result_;
};

}  // namespace

Result<ReplayResult> replay(const Trace& trace, Channel& channel, const ReplayOptions& options) {
  const auto from = TRY(recorded_arena(trace));
  FrameReader reader(channel);
  const auto to = TRY(own_hello(channel, reader, options));
  Heard heard(reader, options.patience);
  auto result = Replayer(trace, channel, options, Mover(from, to)).run(heard);
  channel.shut();  // ends the thread of `heard`
  return result;
}

}  // namespace partita::remote
