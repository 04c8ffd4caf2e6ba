#include "base/door/http2_stream.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/door/loop.h"

namespace partita::serve {
namespace {

constexpr std::size_t kFieldBytes = 32;    // RFC 9113, 6.5.2
constexpr std::size_t kProbedText = 1024;  // of a text whose beginning says whom it is for
constexpr std::int64_t kNotLate = std::numeric_limits<std::int64_t>::max();

}  // namespace

Http2Stream::Http2Stream(Desk& desk)
    : desk_(desk), backlog_(desk, [this] {
        break_off();
        deadline_ = 0;
      }) {}

Http2Stream::~Http2Stream() {
  if (exchange_ == nullptr) return;
  exchange_->wake = nullptr;
  exchange_->give_back();
}

std::size_t Http2Stream::header(std::string_view name, std::string_view value) {
  head_bytes_ += name.size() + value.size() + kFieldBytes;
  if (head_bytes_ > kMaxHeadBytes) return head_bytes_;
  fields_.push_back({.begin = head_.size(), .name = name.size(), .value = value.size()});
  head_ += name;
  head_ += value;
  return head_bytes_;
}

void Http2Stream::begin(const Peer& peer, bool body, std::function<void()> wake) {
  began_ns_ = Loop::now_ns();
  if (desk_.log != nullptr) began_unix_ns_ = unix_ns();
  body_ended_ = !body;
  if (head_bytes_ > kMaxHeadBytes) return refuse(431, "the head is over 16 KiB");
  std::vector<HeadField> fields;
  fields.reserve(fields_.size());
  const std::string_view all = head_;
  for (const Field& field : fields_)
    fields.push_back(
        {all.substr(field.begin, field.name), all.substr(field.begin + field.name, field.value)});
  const auto head = http2_head(fields, body);
  if (!head) return refuse(400, to_string(head.error()));
  expects_continue_ = head->expect_continue && body;
  exchange_ = desk_.site.route(*head, peer);
  head_ = {};
  fields_ = {};
  exchange_->wake = std::move(wake);
  apply(exchange_->begin());
}

void Http2Stream::refuse(int status, std::string_view what) {
  const HeadFacts facts = exchange_ == nullptr ? HeadFacts{} : exchange_->facts();
  const std::string service = exchange_ == nullptr ? "" : exchange_->service;
  if (exchange_ != nullptr) exchange_->wake = nullptr;
  exchange_ = std::make_shared<AnsweredExchange>(facts, desk_.site.refusal(status, what));
  exchange_->service = service;
  apply(Step::answer);
}

void Http2Stream::apply(Step next) {
  switch (next) {
    case Step::text:
      stage_ = Stage::text;
      deadline_ = moved_by(desk_.limits, began_ns_, came_);
      if (!exchange_->text_open && text_have_ == exchange_->text_wanted) return text_whole();
      if (body_ended_) body_end();
      return;
    case Step::tensors:
      stage_ = Stage::tensors;
      scatter_at_ = 0;
      deadline_ = moved_by(desk_.limits, began_ns_, came_);
      forward(exchange_->scatter, scatter_at_, 0);  // what is empty
      if (scatter_at_ == exchange_->scatter.size()) return apply(exchange_->on_filled());
      if (body_ended_) body_end();
      return;
    case Step::backend:
      stage_ = Stage::backend;
      deadline_ = kNotLate;
      if (exchange_->ended()) awake();
      return;
    case Step::stream:
      stage_ = Stage::stream;
      deadline_ = kNotLate;
      awake();
      return;
    case Step::answer:
      stage_ = Stage::answer;
      ended_ = true;
      deadline_ = answer_by(desk_.limits, length());
      return;
  }
}

// ---- the body

void Http2Stream::body(std::string_view bytes) {
  came_ += bytes.size();
  expects_continue_ = false;
  while (!bytes.empty() && (stage_ == Stage::text || stage_ == Stage::tensors)) {
    if (exchange_->ended()) return apply(Step::answer);  // its places are somebody else's now
    bytes.remove_prefix(stage_ == Stage::text ? into_text(bytes) : into_scatter(bytes));
  }
  if (stage_ == Stage::text || stage_ == Stage::tensors)
    deadline_ = moved_by(desk_.limits, began_ns_, came_);
}

std::size_t Http2Stream::into_text(std::string_view bytes) {
  Exchange& exchange = *exchange_;
  const std::size_t wanted = exchange.text_wanted;
  if (text_have_ == wanted) {  // which is the limit of one that has no length
    refuse(413, "the body is longer than " + std::to_string(wanted) + " bytes");
    return 0;
  }
  if (!probed_ && text_have_ >= kProbedText) {
    probed_ = true;
    const Step next = exchange.on_part(std::string_view(exchange.text).substr(0, text_have_));
    if (next != Step::text) {
      apply(next);
      return 0;
    }
  }
  if (text_have_ == exchange.text.size()) {
    // No more than has come, and as much again: many requests are in one connection.
    const std::size_t size = std::min(wanted, std::max(text_have_ + bytes.size(), 2 * text_have_));
    const Step next = exchange.on_growth(size);
    if (next != Step::text) {
      apply(next);
      return 0;
    }
    exchange.text.resize(size);
  }
  const std::size_t count = std::min(bytes.size(), exchange.text.size() - text_have_);
  std::memcpy(exchange.text.data() + text_have_, bytes.data(), count);
  text_have_ += count;
  if (!exchange.text_open && text_have_ == wanted) text_whole();
  return count;
}

void Http2Stream::text_whole() {
  exchange_->text.resize(text_have_);
  if (exchange_->text_open) {
    exchange_->text_wanted = text_have_;
    exchange_->on_length(text_have_);
  }
  exchange_->text_came();
  apply(exchange_->on_text());
}

std::size_t Http2Stream::into_scatter(std::string_view bytes) {
  std::vector<iovec>& scatter = exchange_->scatter;
  std::size_t count = 0;
  while (scatter_at_ < scatter.size() && count < bytes.size()) {
    const iovec& place = scatter[scatter_at_];
    const std::size_t part = std::min(place.iov_len, bytes.size() - count);
    std::memcpy(place.iov_base, bytes.data() + count, part);
    count += part;
    forward(scatter, scatter_at_, part);
  }
  if (scatter_at_ == scatter.size()) apply(exchange_->on_filled());
  return count;
}

void Http2Stream::body_end() {
  body_ended_ = true;
  if (stage_ == Stage::text && exchange_->text_open) return text_whole();
  if (stage_ == Stage::text || stage_ == Stage::tensors) refuse(400, "the body ends too soon");
}

// ---- the answer

void Http2Stream::awake() {
  Exchange& exchange = *exchange_;
  const bool filling = stage_ == Stage::text || stage_ == Stage::tensors;
  if (filling && exchange.ended()) return apply(Step::answer);
  if (stage_ == Stage::backend && exchange.ended()) {
    exchange.finish();
    return apply(Step::answer);
  }
  if (stage_ != Stage::stream || ended_) return;
  if (exchange.ended()) {
    exchange.finish();
    if (!exchange.stream_begun) return apply(Step::answer);
    ended_ = true;
  }
  if (taken_ > waiting_.size() / 2) waiting_.erase(0, std::exchange(taken_, 0));
  waiting_ += exchange.pieces;
  longest_piece = std::max(longest_piece, exchange.pieces.size());
  exchange.pieces_taken();
}

std::uint64_t Http2Stream::length() const {
  std::uint64_t length = exchange_->reply.text.size();
  for (const iovec& span : exchange_->reply.spans) length += span.iov_len;
  return length;
}

void Http2Stream::break_off() {
  exchange_->stream_broken = true;
  std::string().swap(waiting_);
  taken_ = 0;
}

std::size_t Http2Stream::read(std::span<char> into, bool& at_end) {
  const bool in_pieces = stage_ == Stage::stream;
  const std::string& text = in_pieces ? waiting_ : exchange_->reply.text;
  std::size_t count = std::min(into.size(), text.size() - taken_);
  std::memcpy(into.data(), text.data() + taken_, count);
  taken_ += count;
  at_end = ended_ && taken_ == text.size();
  if (in_pieces) return count;
  const std::vector<iovec>& spans = exchange_->reply.spans;
  while (span_at_ < spans.size() && count < into.size()) {
    const iovec& span = spans[span_at_];
    const std::size_t part = std::min(into.size() - count, span.iov_len - span_taken_);
    std::memcpy(into.data() + count, static_cast<const char*>(span.iov_base) + span_taken_, part);
    count += part;
    span_taken_ += part;
    if (span_taken_ < span.iov_len) break;
    ++span_at_;
    span_taken_ = 0;
  }
  at_end = at_end && span_at_ == spans.size();
  return count;
}

void Http2Stream::sent() {
  if (stage_ != Stage::stream || broken()) return;
  const std::size_t left = waiting();
  const bool was_waiting = exchange_->unsent > 0;
  if (left == 0) {
    deadline_ = kNotLate;
  } else if (!was_waiting || left < exchange_->unsent) {
    deadline_ = answer_by(desk_.limits, left);
  }
  exchange_->unsent = left;
  if (was_waiting && left == 0) exchange_->on_fetched();
  backlog_.is(left);
}

}  // namespace partita::serve
