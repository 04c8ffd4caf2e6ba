// A client made by hand for tests, over any channel, and a whole server (sessions on FakeBackends)
// behind a simulated network.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/session.h"
#include "server/testing/fake_backend.h"
#include "wire/net/testing/sim_net.h"

namespace partita::remote::server {

class TestClient {
 public:
  explicit TestClient(Channel& channel, Nanos patience = std::chrono::seconds(5))
      : patience_(patience), writer_(channel, patience), reader_(channel) {}

  template <class Op>
  bool send(const Op& op, Bytes bulk = {}) {
    return static_cast<bool>(writer_.put(op, 0, bulk));
  }
  template <class Op>
  struct Answer {
    bool came = false;
    Outcome outcome = {};
    typename Op::Reply reply = {};
    std::vector<std::byte> body = {}, bulk = {};  // reply points into the body
  };
  // Sends a sync operation and reads on until its answer.
  template <class Op>
  Answer<Op> ask(const Op& op, Bytes bulk = {}) {
    Answer<Op> answer;
    const std::uint32_t request = ask_later(op, bulk);
    while (!answers.contains(request))
      if (!read()) return answer;
    return answer_of<Op>(request);
  }
  template <class Op>
  std::uint32_t ask_later(const Op& op, Bytes bulk = {}) {
    if (writer_.put(op, ++request_, bulk)) static_cast<void>(writer_.flush());
    return request_;
  }
  template <class Op>
  Answer<Op> answer_of(std::uint32_t request) {
    Answer<Op> answer;
    const auto found = answers.find(request);
    if (found == answers.end()) return answer;
    answer.body = found->second.body;
    answer.bulk = found->second.bulk;
    const Bytes body = answer.body;
    const auto outcome = decode<Outcome>(body.first(8));
    const auto reply = decode<typename Op::Reply>(body.subspan(8));
    if (!outcome || !reply) return answer;
    answer.came = true;
    answer.outcome = *outcome;
    answer.reply = *reply;
    return answer;
  }
  Result<void> flush() { return writer_.flush(); }

  // One frame of the server; false when none came.
  bool read() {
    if (!flush()) return false;
    const Result<Frame> frame = reader_.next(patience_);
    if (!frame) return failed_with(frame.error());
    Got got{frame->header, {frame->body.begin(), frame->body.end()}, {}};
    got.bulk.resize(frame->header.bulk_bytes);
    if (!got.bulk.empty())
      if (const auto bulk = reader_.read_bulk(got.bulk, patience_); !bulk)
        return failed_with(bulk.error());
    if ((got.header.code & kAnswer) != 0) {
      answers[got.header.request] = std::move(got);
    } else if (const auto said_now = decode<Said>(got.body);
               got.header.code == Said::kSpec.code && said_now) {
      auto& into = said_now->to_error != 0 ? said : printed;
      into.append(reinterpret_cast<const char*>(said_now->text.data()), said_now->text.size());
      into += '\n';
    } else {
      notices.push_back(std::move(got));
    }
    return true;
  }

  struct Got {
    FrameHeader header = {};
    std::vector<std::byte> body = {}, bulk = {};
  };
  std::map<std::uint32_t, Got> answers;
  std::vector<Got> notices;
  std::string said, printed;
  std::string error;

 private:
  bool failed_with(const Error& why) {
    error = to_string(why);
    return false;
  }
  Nanos patience_;
  FrameWriter writer_;
  FrameReader reader_;
  std::uint32_t request_ = 0;
};

// Sessions for whoever connects to the simulated network; each has a FakeBackend.
class TestServer {
 public:
  explicit TestServer(SimOptions options = {}, FakeBackend::Options backend = {},
                      SessionLimits limits = {})
      : net(options), backend_(backend), limits_(limits) {
    // Whoever waits here has nobody who looks at a session again.
    if (limits_.load_at_once > kNoWait) limits_.load_at_once = std::chrono::hours(1);
    listener_ = *net.listen("sim");
    net.set_server([this] { step(); });
  }
  struct Seat {
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Session> session;
    FakeBackend* device = nullptr;
    bool ended = false;
    std::string reason = {};
    std::size_t left_over = 0;  // objects of the device when it ended
  };
  void step() {
    while (auto accepted = listener_->accept(Nanos(0))) {
      auto seat = std::make_unique<Seat>();
      seat->channel = std::move(accepted->channel);
      seat->session = std::make_unique<Session>(*seat->channel, images, token, limits_);
      seats.push_back(std::move(seat));
    }
    for (const auto& seat : seats) step(*seat);
  }
  void step(Seat& seat) {
    if (seat.ended) return;
    for (int rounds = 0; rounds < 10'000; ++rounds) {
      const Session::Step step = seat.session->step();
      if (seat.session->wanted()) {
        seat.session->grant(seats.size(), open(seat), [this, &seat] { return reopen(seat); });
        continue;
      }
      if (step.ended) {
        seat.ended = true;
        seat.reason = seat.session->reason();
        seat.session.reset();
        seat.device = nullptr;
        seat.channel->shut();
        return;
      }
      if (!step.busy) return;
    }
  }
  Result<std::unique_ptr<DeviceBackend>> reopen(Seat& seat) {
    if (!reopens) return environment_error("device", "it fell off the bus");
    return open(seat);
  }
  std::unique_ptr<DeviceBackend> open(Seat& seat) {
    auto device = std::make_unique<FakeBackend>(backend_);
    seat.device = device.get();
    return device;
  }

  SimNet net;
  MemoryImages images;
  std::string token;
  bool reopens = true;
  std::vector<std::unique_ptr<Seat>> seats;

 private:
  FakeBackend::Options backend_;
  SessionLimits limits_;
  std::unique_ptr<Listener> listener_;
};

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace partita::remote::server
