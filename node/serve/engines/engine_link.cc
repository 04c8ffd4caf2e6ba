#include "serve/engines/engine_link.h"

#include <array>
#include <span>
#include <utility>

namespace partita::serve {
namespace {

using Moved = HttpStream::Moved;
constexpr std::size_t kReadRoom = 65'536;

}  // namespace

EngineLink::EngineLink(EngineLines& lines, std::string head,
                       std::shared_ptr<const std::string> body, Ends ends)
    : lines_(lines), head_(std::move(head)), body_(std::move(body)), ends_(std::move(ends)) {}

EngineLink::~EngineLink() { watch_.reset(); }

void EngineLink::start(bool fresh) { open(fresh); }

void EngineLink::close() {
  closed_ = true;
  watch_.reset();
  stream_ = {};
}

// One that its engine has not closed meanwhile.
bool EngineLink::take_kept() {
  while (!lines_.kept.empty()) {
    stream_ = std::move(lines_.kept.back());
    lines_.kept.pop_back();
    std::array<char, 1> room{};
    if (stream_.read(room).kind == Moved::Kind::blocked) return true;
  }
  return false;
}

void EngineLink::open(bool fresh) {
  watch_.reset();
  sent_ = 0;
  came_ = false;
  answer_.restart();
  reused_ = !fresh && take_kept();
  if (!reused_) stream_ = lines_.dialer.dial();
  if (!stream_.open()) return end("no connection");
  watch_ = lines_.loop.watch(stream_.descriptor(), [this](Readiness) { ready(); });
  wants_write_ = true;
  if (!write()) return lost("the connection broke");
  watch_.want(true, wants_write_);
}

// Head and body, as far as they go now; false: the connection is broken.
bool EngineLink::write() {
  const std::size_t all = head_.size() + body_->size();
  while (sent_ < all) {
    const bool in_head = sent_ < head_.size();
    const std::string& part = in_head ? head_ : *body_;
    const std::size_t from = in_head ? sent_ : sent_ - head_.size();
    const Moved moved = stream_.write(std::span(part).subspan(from));
    if (moved.kind == Moved::Kind::blocked) return true;
    if (moved.kind != Moved::Kind::some) return false;
    sent_ += moved.bytes;
  }
  wants_write_ = false;
  return true;
}

void EngineLink::ready() {
  const bool wrote = !wants_write_ || write();
  if (!read()) return;
  if (!wrote) return lost("the connection broke");
  watch_.want(true, wants_write_);
}

// Reads what there is and passes it on; false: it is over.
bool EngineLink::read() {
  static thread_local std::array<char, kReadRoom> room;
  while (true) {
    const Moved moved = stream_.read(room);
    if (moved.kind == Moved::Kind::blocked) return true;
    const bool some = moved.kind == Moved::Kind::some;
    const auto came = std::span<const char>(room).first(some ? moved.bytes : 0);
    const std::size_t used = answer_.take(came);
    came_ = came_ || some;
    if (!some) answer_.end();
    if (some && answer_.head_done() && answer_.state() != HttpResponse::State::broken) {
      ends_.more(answer_);
      if (closed_) return false;
    }
    if (answer_.done()) {
      if (some && used == moved.bytes && answer_.keeps_alive() && !wants_write_ &&
          lines_.kept.size() < kMostKeptLines) {
        watch_.reset();
        lines_.kept.push_back(std::move(stream_));
      }
      end("");
      return false;
    }
    if (answer_.state() == HttpResponse::State::broken) {
      lost(some ? answer_.why() : "the connection broke");
      return false;
    }
    if (moved.emptied) return true;
  }
}

void EngineLink::lost(std::string_view why) {
  lost_ += sent();
  if (reused_ && !came_) return open(true);
  end(why);
}

void EngineLink::end(std::string_view why) {
  close();
  ends_.ended(why);
}

}  // namespace partita::serve
