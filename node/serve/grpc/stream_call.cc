// A stream of inferences: each is a request like one that comes alone, and is answered in the
// stream, in the order in which they came. What fails has its message there, and the stream goes
// on; a client that says `triton_grpc_error: true` has it end instead, with the status. A client
// with many requests under way is not read from, nor is one that does not fetch its answers; beyond
// the first, requests of a stream count as calls do. A stream that waits for its client ends as a
// call does whose message does not come.
#include <algorithm>
#include <deque>

#include "serve/front/grpc_ask.h"
#include "serve/grpc/inference.h"
#include "serve/oip/grpc_messages.h"

namespace partita::serve {
namespace {

class StreamCall final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;
  void OnReadDone(bool ok) override {
    on_loop(*this, [ok](StreamCall& call) { call.came(ok); });
  }
  void OnWriteDone(bool) override {
    on_loop(*this, [](StreamCall& call) { call.written(); });
  }
  void OnCancel() override {
    on_loop(*this, [](StreamCall& call) { call.end(grpc::Status::CANCELLED); });
  }
  void end(const grpc::Status& status) override;
  void wind_up() override;
  void answered(GrpcInference& inference, GrpcOutcome&& outcome) override;

 private:
  // One that came, until its answer is being written.
  struct Asked {
    std::shared_ptr<GrpcInference> inference;
    bool counted = false;  // as a call
    std::optional<grpc::ByteBuffer> answer = {};
    grpc::Status status = {};
  };
  void start() override { StartRead(&request_); }
  void came(bool ok);
  void ask();
  std::optional<grpc::Status> take_one();
  void give_one();
  void written();
  void go_on();
  bool write();
  void finish(const grpc::Status& status);

  grpc::ByteBuffer request_ = {}, response_ = {};
  // On the loop.
  std::deque<Asked> asked_ = {};  // in their order
  bool reading_ = true, writing_ = false, identified_ = false;
  bool writing_counted_ = false;  // what is written counts as a call
  bool asking_ = false;
  bool waiting_ = true;     // for its client
  bool strict_ = false;     // an error ends it
  bool closed_ = false;     // no more come
  grpc::Status last_ = {};  // its end, when all is answered
};

void StreamCall::came(bool ok) {
  reading_ = false;
  if (finished_) return;
  if (!ok) closed_ = true;
  if (!closed_) ask();
  asking_ = false;
  go_on();
}

void StreamCall::ask() {
  asking_ = true;  // what is answered at once is written when all of this is done
  if (!std::exchange(identified_, true)) {
    strict_ = metadata("triton_grpc_error") == "true";
    const Began began;
    if (const auto refusal = identify()) {
      log({.began = began,
           .status = http_status_of(refusal->error_code()),
           .bytes_in = request_.Length()});
      return end(*refusal);
    }
  }
  asked_.push_back({.inference = std::make_shared<GrpcInference>(*this)});
  const auto inference = asked_.back().inference;
  const bool first = asked_.size() == 1 && !writing_;
  if (auto refusal = first ? std::nullopt : take_one()) {
    inference->refuse(std::move(request_), *refusal);
  } else {
    asked_.back().counted = !first;
    inference->begin(std::move(request_));
  }
}

std::optional<grpc::Status> StreamCall::take_one() {
  std::shared_ptr<GrpcCall> displaced;
  std::optional<grpc::Status> refusal;
  {
    const std::lock_guard lock(shared_->mutex);
    refusal = shared_->take(peer(), displaced);
    if (!refusal) ++shared_->in_streams;
  }
  if (displaced) end_later(displaced, "others needed its place, and it waited for its client");
  return refusal;
}

void StreamCall::give_one() {
  const std::lock_guard lock(shared_->mutex);
  --shared_->in_streams;
  shared_->give(peer());
}

void StreamCall::answered(GrpcInference& inference, GrpcOutcome&& outcome) {
  const auto one = std::ranges::find_if(
      asked_, [&](const Asked& each) { return each.inference.get() == &inference; });
  if (one == asked_.end()) return;
  one->status = outcome.status;
  std::vector<grpc::Slice> parts;
  if (outcome.status.ok()) {
    parts.emplace_back(encode_stream_head(outcome.message.Length()));
    std::vector<grpc::Slice> message;
    if (outcome.message.Dump(&message).ok()) std::ranges::move(message, std::back_inserter(parts));
  } else {
    parts.emplace_back(encode_stream_error(outcome.status.error_message(), inference.id()));
  }
  one->answer = grpc::ByteBuffer(parts.data(), parts.size());
  go_on();
}

// The next answer, where it is there: they go in the order of the requests.
bool StreamCall::write() {
  if (writing_ || asked_.empty() || !asked_.front().answer) return false;
  if (const grpc::Status status = asked_.front().status; strict_ && !status.ok()) {
    end(status);
    return false;
  }
  Asked one = std::move(asked_.front());
  asked_.pop_front();
  writing_ = true;
  writing_counted_ = one.counted;
  response_.Swap(&*one.answer);
  StartWrite(&response_);
  return true;
}

void StreamCall::written() {
  if (finished_) return;  // end() has given it back
  writing_ = false;
  response_.Clear();
  if (std::exchange(writing_counted_, false)) give_one();
  go_on();
}

void StreamCall::go_on() {
  if (finished_ || asking_) return;
  const bool wrote = write();
  if (finished_) return;
  if (closed_ && asked_.empty() && !writing_) return finish(last_);
  if (!reading_ && !closed_ && asked_.size() < shared_->most_in_stream) {
    reading_ = true;
    StartRead(&request_);
  }
  const bool waits = writing_ || (asked_.empty() && !closed_);
  if (waits && (wrote || !waiting_))
    wait_anew();
  else if (!waits && waiting_)
    wait_no_more();
  waiting_ = waits;
}

void StreamCall::end(const grpc::Status& status) {
  if (finished_) return;
  for (const Asked& one : asked_) {
    one.inference->let_go(status);
    if (one.counted) give_one();
  }
  asked_.clear();
  if (std::exchange(writing_counted_, false)) give_one();
  finish(status);
}

void StreamCall::finish(const grpc::Status& status) {
  finished_ = true;
  // What a client does not fetch would be in the way of the status. Behind Finish() the context may
  // be gone.
  if (writing_) context_->TryCancel();
  Finish(status);
}

void StreamCall::wind_up() {
  if (finished_ || closed_) return;
  closed_ = true;
  last_ = {grpc::StatusCode::UNAVAILABLE, "this gateway is shutting down"};
  go_on();
}

}  // namespace

std::shared_ptr<GrpcCall> make_stream_call(std::shared_ptr<GrpcShared> shared,
                                           grpc::GenericCallbackServerContext* context) {
  return std::make_shared<StreamCall>(std::move(shared), context);
}

}  // namespace partita::serve
