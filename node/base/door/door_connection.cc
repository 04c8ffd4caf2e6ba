#include "base/door/door_connection.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace partita::serve {

namespace {

constexpr std::size_t kFirstText = 16'384, kProbeText = 1024;
constexpr std::uint64_t kLingerBytes = 64u << 20;  // of a long body, before the reset
constexpr std::int64_t kLingerNs = 2'000'000'000;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

struct Fault {
  int status = 0;
  std::string what = {};
};
// What is wrong with a chunked body: its form is broken, or it ends too soon or too late. `text`
// has come of its text, where it goes to the exchange's text.
std::optional<Fault> fault_of(const Inlet& inlet, const Exchange& exchange,
                              std::optional<std::size_t> text) {
  if (!inlet.chunks()) return std::nullopt;
  const ChunkedBody& chunks = *inlet.chunks();
  const bool open = text && exchange.text_open;
  if (chunks.broken()) return Fault{400, "the body's chunks are broken"};
  if (chunks.ended() && !open && (!text || *text < exchange.text_wanted))
    return Fault{400, "the body ends too soon"};
  if (open && *text == exchange.text_wanted && !chunks.ended() && !inlet.text().empty())
    return Fault{413, "the body is longer than " + std::to_string(*text) + " bytes"};
  return std::nullopt;
}

}  // namespace

DoorConnection::DoorConnection(Desk& desk, int fd, const TlsServer* tls, Peer peer)
    : desk_(desk),
      transport_(fd, tls),
      inlet_(transport_, desk.buffers),
      outlet_(transport_),
      backlog_(desk,
               [this] {
                 exchange_->stream_broken = true;
                 outlet_.clear();
                 deadline_ = 0;
               }),
      peer_(std::move(peer)) {
  const DoorLimits& limits = desk.limits;
  deadline_ = Loop::now_ns() + (tls == nullptr ? limits.idle_ns : limits.head_ns);
  ++desk.counts.connections;
}

DoorConnection::~DoorConnection() {
  --desk_.counts.connections;
  if (exchange_ != nullptr) exchange_->wake = nullptr;
  watch_.reset();
}

void DoorConnection::start(Loop& loop) {
  loop_ = &loop;
  watch_ = loop.watch(transport_.fd(), [this](Readiness readiness) { ready(readiness); });
}

void DoorConnection::ready(Readiness readiness) {
  if (http2_ != nullptr) {
    http2_->ready(readiness);
    follow_http2();
    if (on_change) on_change();
    return;
  }
  if (readiness.readable || readiness.closed || (readiness.writable && inlet_.wants_write()))
    inlet_.ready();
  if (readiness.writable || readiness.closed) outlet_.ready();
  if (readiness.closed && (stage_ == Stage::backend || stage_ == Stage::stream)) {
    close();
  } else {
    advance();
  }
  if (on_change) on_change();
}

void DoorConnection::expire() {
  if (http2_ != nullptr) {
    http2_->expire();
    return follow_http2();
  }
  const bool asking =
      (stage_ == Stage::head && head_begun_) || stage_ == Stage::text || stage_ == Stage::tensors;
  if (!asking) return close();
  refuse(408, stage_ == Stage::head ? "the request's head took too long"
                                    : "the request's body took too long");
  advance();
}

// What is wrong with what comes; nobody knows what would follow.
void DoorConnection::refuse(int status, std::string_view what) {
  const HeadFacts facts = exchange_ == nullptr ? HeadFacts{} : exchange_->facts();
  const std::string service = exchange_ == nullptr ? "" : exchange_->service;
  if (exchange_ != nullptr) exchange_->wake = nullptr;
  exchange_ = std::make_shared<AnsweredExchange>(facts, desk_.site.refusal(status, what));
  exchange_->service = service;
  keep_alive_ = false;
  begin_reply();
}

// Everything that can be done now is done.
void DoorConnection::advance() {
  if (std::exchange(advancing_, true)) return;
  while (stage_ != Stage::dead && step()) {
  }
  advancing_ = false;
  if (stage_ == Stage::http2) return follow_http2();
  if (stage_ != Stage::dead && inlet_.closed() && !listens()) close();
  if (stage_ == Stage::dead) return;
  const bool writing = outlet_.blocked() && (stage_ == Stage::write || stage_ == Stage::stream);
  // What a client sends while it does not fetch its answer stays in the kernel.
  const bool reading = !inlet_.paused() && !inlet_.closed() && stage_ != Stage::write;
  watch_.want(reading, writing || inlet_.wants_write());
}

// A client that sends nothing more may still read its answer. One that has gone looks the same, but
// its side breaks the connection when something comes: an interim answer, the first letter of the
// answer where HTTP/1.0 has none, or a zero in front of the length of the next chunk, which change
// nothing for who is there.
bool DoorConnection::listens() {
  if (stage_ == Stage::write) return true;
  if (stage_ != Stage::backend && stage_ != Stage::stream) return false;
  if (http10_ && stream_head_sent_) return true;
  if (std::exchange(asked_if_there_, true) || outlet_.waiting() > 0) return true;
  const std::string_view text = stream_head_sent_ ? "0" : http10_ ? "H" : kContinue;
  if (http10_) head_sent_ = text.size();
  const iovec from{const_cast<char*>(text.data()), text.size()};
  return transport_.write({&from, 1}).bytes == text.size();
}

bool DoorConnection::step() {
  switch (stage_) {
    case Stage::head:
      return step_head();
    case Stage::text:
      return step_text();
    case Stage::tensors:
      return step_tensors();
    case Stage::backend:
    case Stage::stream:
      return step_waiting();
    case Stage::write:
      return step_write();
    case Stage::drain:
    case Stage::linger:
      return step_drop();
    case Stage::http2:
    case Stage::dead:
      break;
  }
  return false;
}

void DoorConnection::close() {
  if (http2_ != nullptr && stage_ != Stage::dead) {
    if (!http2_->dead()) http2_->leave();
    http2_->close();
  }
  if (exchange_ != nullptr) {
    ++desk_.counts.abandoned;
    log(kClientGone);
    exchange_->wake = nullptr;
    exchange_ = nullptr;
  }
  backlog_.is(0);
  stage_ = Stage::dead;
  watch_.reset();
}

void DoorConnection::body_came() {
  deadline_ = moved_by(desk_.limits, body_began_ns_, inlet_.came());
}

// ---- the head

bool DoorConnection::step_head() {
  const DoorLimits& limits = desk_.limits;
  while (!inlet_.text().empty() && !head_begun_ &&
         (inlet_.text()[0] == '\r' || inlet_.text()[0] == '\n'))
    inlet_.skip(1);  // empty lines before a request
  if (const std::string_view have = inlet_.text(); !have.empty()) {
    if (!std::exchange(head_begun_, true)) deadline_ = Loop::now_ns() + limits.head_ns;
    const std::size_t end = end_of_head(have, scanned_);
    if (end != std::string_view::npos) {
      if (!asked_ && have.starts_with(kHttp2Preface.substr(0, end)))
        begin_http2();
      else
        begin_exchange(end);
      return true;
    }
    scanned_ = have.size();
    if (have.size() == kMaxHeadBytes) {
      inlet_.begin_body(kUnknownRest, false);
      refuse(431, "the head is over 16 KiB");
      return true;
    }
  }
  if (!inlet_.readable()) {
    if (inlet_.text().empty()) inlet_.give_back();
    return false;
  }
  inlet_.fill();
  return !inlet_.closed();  // once more: what came, or to give the buffer back
}

// From here on the inlet and the outlet have nothing to do.
void DoorConnection::begin_http2() {
  stage_ = Stage::http2;
  lives_ = std::make_shared<bool>(true);
  const auto changed = [this] {
    follow_http2();
    if (on_change) on_change();
  };
  const auto soon = [this, changed] {
    loop_->post([this, changed, lives = std::weak_ptr(lives_)] {
      if (lives.expired() || stage_ == Stage::dead) return;
      http2_->advance();
      changed();
    });
  };
  http2_ = std::make_unique<Http2Connection>(
      desk_, transport_, peer_, Http2Connection::Later{.soon = soon, .changed = changed});
  http2_->start(inlet_.text());
  inlet_.give_back();
}

void DoorConnection::follow_http2() {
  if (stage_ == Stage::dead) return;
  if (http2_->dead())
    close();
  else
    watch_.want(http2_->reads(), http2_->writes());
}

void DoorConnection::begin_exchange(std::size_t head_bytes) {
  const std::string_view text = inlet_.text().substr(0, head_bytes);
  began_ns_ = Loop::now_ns();
  if (desk_.log != nullptr) began_unix_ns_ = unix_ns();
  deadline_ = kNoDeadline;
  const auto head = parse_http_head(text);
  text_have_ = scatter_at_ = longest_piece_ = 0;
  probed_ = stream_head_sent_ = asked_if_there_ = false;
  head_sent_ = 0;
  asked_ = true;
  body_began_ns_ = began_ns_;
  if (!head) {
    expects_continue_ = false;
    inlet_.skip(head_bytes);
    inlet_.begin_body(kUnknownRest, false);
    return refuse(400, to_string(head.error()));
  }
  keep_alive_ = head->keep_alive;
  http10_ = head->http10;
  expects_continue_ = head->expect_continue && !head->http10;
  inlet_.begin_body(head->transfer_encoding ? kUnknownRest : head->content_length.value_or(0),
                    head->chunked);
  if (transport_.encrypted() && peer_.certificate.empty())
    peer_.certificate = transport_.certificate_name();
  exchange_ = desk_.site.route(*head, peer_);
  inlet_.skip(head_bytes);
  exchange_->wake = [this] {
    if (advancing_) return;  // advance() sees it itself
    advance();
    if (on_change) on_change();
  };
  apply(exchange_->begin());
}

void DoorConnection::apply(Step next) {
  switch (next) {
    case Step::text:
      stage_ = Stage::text;
      return body_came();
    case Step::tensors:
      stage_ = Stage::tensors;
      scatter_at_ = 0;
      return body_came();
    case Step::backend:
      stage_ = Stage::backend;
      deadline_ = kNoDeadline;
      return;
    case Step::stream:
      stage_ = Stage::stream;
      deadline_ = kNoDeadline;
      return;
    case Step::answer:
      return begin_reply();
  }
}

// ---- the body

// A client that waits to be asked for its body is asked.
void DoorConnection::continue_wanted() {
  if (!std::exchange(expects_continue_, false)) return;
  const iovec text{const_cast<char*>(kContinue.data()), kContinue.size()};
  if (transport_.write({&text, 1}).bytes != kContinue.size()) close();
}

bool DoorConnection::step_text() {
  Exchange& exchange = *exchange_;
  if (exchange.ended()) {  // others needed its memory
    apply(Step::answer);
    return true;
  }
  const std::size_t wanted = exchange.text_wanted;
  const auto whole = [&] {
    return exchange.text_open ? inlet_.body_ended() : text_have_ == wanted;
  };
  if (!whole()) {
    if (text_have_ == exchange.text.size() && text_have_ < wanted) {
      const std::size_t size = std::min(wanted, std::max(kFirstText, 2 * text_have_));
      const Step next = exchange.on_growth(size);
      if (next != Step::text) {
        apply(next);
        return true;
      }
      exchange.text.resize(size);
    }
    const std::span<char> room = std::span(exchange.text).subspan(text_have_);
    std::size_t got = inlet_.take(room);
    text_have_ += got;
    body_came();
    if (const auto fault = fault_of(inlet_, exchange, text_have_)) {
      refuse(fault->status, fault->what);
      return true;
    }
    if (got == 0 && !whole()) {
      if (!probed_ && text_have_ >= kProbeText) {
        probed_ = true;
        const Step next = exchange.on_part(std::string_view(exchange.text).substr(0, text_have_));
        if (next != Step::text) {
          apply(next);
          return true;
        }
      }
      continue_wanted();
      if (stage_ == Stage::dead) return false;
      const iovec place{room.data(), room.size()};
      if (!inlet_.read({&place, 1}, got)) return false;
      text_have_ += got;
      body_came();
    }
  }
  if (!whole()) return true;
  exchange.text.resize(text_have_);
  if (exchange.text_open) {
    exchange.text_wanted = text_have_;
    exchange.on_length(text_have_);
  }
  exchange.text_came();
  apply(exchange.on_text());
  return true;
}

bool DoorConnection::step_tensors() {
  if (exchange_->ended()) {  // its places are somebody else's now
    apply(Step::answer);
    return true;
  }
  std::vector<iovec>& scatter = exchange_->scatter;
  while (scatter_at_ < scatter.size() && !inlet_.text().empty()) {
    const iovec& place = scatter[scatter_at_];
    const std::size_t got = inlet_.take({static_cast<char*>(place.iov_base), place.iov_len});
    if (got == 0) break;
    forward(scatter, scatter_at_, got);
  }
  body_came();
  if (scatter_at_ == scatter.size()) {
    apply(exchange_->on_filled());
    return true;
  }
  if (const auto fault = fault_of(inlet_, *exchange_, std::nullopt)) {
    refuse(fault->status, fault->what);
    return true;
  }
  continue_wanted();
  if (stage_ == Stage::dead) return false;
  std::size_t got = 0;
  if (!inlet_.read(some(scatter, scatter_at_), got)) return false;
  forward(scatter, scatter_at_, got);
  body_came();
  return true;
}

// ---- waiting for the answer; meanwhile the client may leave, or send its next request

bool DoorConnection::step_waiting() {
  Exchange& exchange = *exchange_;
  const bool ended = exchange.ended();
  if (ended) {
    exchange.finish();
    if (!exchange.stream_begun) {
      begin_reply();
      return true;
    }
  }
  if (exchange.stream_broken) {
    close();  // the client sees that the answer has no end
    return false;
  }
  const bool chunked = !http10_;
  if (exchange.stream_begun && !std::exchange(stream_head_sent_, true)) {
    if (http10_ || desk_.closing) keep_alive_ = false;
    outlet_.put(reply_head(exchange.reply, {.date = desk_.date,
                                            .more_headers = exchange.more_headers,
                                            .keep_alive = keep_alive_,
                                            .http10 = http10_,
                                            .chunked = chunked,
                                            .with_length = false})
                    .substr(head_sent_));
  }
  outlet_.put_piece(exchange.pieces, chunked);
  longest_piece_ = std::max(longest_piece_, exchange.pieces.size());
  exchange.pieces_taken();
  if (ended) {
    deadline_ = answer_by(desk_.limits, outlet_.end_stream(chunked));
    stage_ = Stage::write;
    return true;
  }
  bool broken = false;
  if (outlet_.waiting() > 0 && !outlet_.blocked()) {
    const Outlet::Sent sent = outlet_.send_some();
    deadline_ = kNoDeadline;
    if (sent == Outlet::Sent::blocked) deadline_ = answer_by(desk_.limits, outlet_.waiting());
    broken = sent == Outlet::Sent::broken;
  }
  // Gone, or it does not fetch what it asked for.
  if (broken || outlet_.waiting() > desk_.limits.stream_bytes + longest_piece_) {
    close();
    return false;
  }
  if (std::exchange(exchange.unsent, outlet_.waiting()) > 0 && exchange.unsent == 0)
    exchange.on_fetched();
  backlog_.is(exchange.unsent);
  return inlet_.fill();
}

// ---- the answer

void DoorConnection::begin_reply() {
  const Reply& reply = exchange_->reply;
  if (!inlet_.body_ended() && inlet_.chunks() && exchange_->submitted_ns > 0) inlet_.take({});
  // A rest that was announced with Expect may never come; a long one is not worth reading.
  const bool unread = inlet_.left() > kDrainBytes || (inlet_.left() > 0 && expects_continue_);
  if (unread || desk_.closing) keep_alive_ = false;
  const bool bodiless = exchange_->facts().method == Method::head;
  std::string text = reply_head(reply, {.date = desk_.date,
                                        .more_headers = exchange_->more_headers,
                                        .keep_alive = keep_alive_,
                                        .http10 = http10_})
                         .substr(head_sent_);
  if (!bodiless) text += reply.text;
  deadline_ =
      answer_by(desk_.limits,
                outlet_.begin(std::move(text), bodiless ? std::span<const iovec>() : reply.spans));
  stage_ = Stage::write;
}

bool DoorConnection::step_write() {
  const Outlet::Sent sent = exchange_->stream_broken ? Outlet::Sent::broken : outlet_.send();
  if (stream_head_sent_) backlog_.is(outlet_.waiting());
  if (sent == Outlet::Sent::broken) close();
  if (sent == Outlet::Sent::all) end_exchange();
  return sent == Outlet::Sent::all;
}

void DoorConnection::end_exchange() {
  log(exchange_->status());
  count_answer(desk_, peer_, *exchange_);
  exchange_->wake = nullptr;
  exchange_->give_back();
  exchange_ = nullptr;
  outlet_.clear();
  inlet_.end_body();
  scanned_ = 0;
  head_begun_ = false;
  const bool unread = inlet_.left() > 0;
  if (keep_alive_) {
    stage_ = unread ? Stage::drain : Stage::head;
    if (unread) deadline_ = answer_by(desk_.limits, inlet_.left());
    deadline_ = Loop::now_ns() + desk_.limits.idle_ns;
    return;
  }
  transport_.end_writing();
  stage_ = Stage::linger;  // until the client has read the end and closes
  deadline_ = Loop::now_ns() + kLingerNs;
}

// A body that nobody wants: to its end when the connection goes on, else until the client has read
// the answer and closes, since a reset could destroy the answer on its way.
bool DoorConnection::step_drop() {
  const bool lingers = stage_ == Stage::linger;
  const bool came = inlet_.drop(lingers);
  if (!lingers && inlet_.left() == 0) {
    stage_ = Stage::head;
    deadline_ = Loop::now_ns() + desk_.limits.idle_ns;
    return true;
  }
  if (lingers && inlet_.dropped() > kLingerBytes) close();
  return came && stage_ != Stage::dead;
}

void DoorConnection::log(int status) {
  if (desk_.log == nullptr) return;
  const std::uint64_t length = exchange_->facts().content_length;
  log_answer(desk_, peer_, *exchange_,
             {.status = status,
              .began_ns = began_ns_,
              .began_unix_ns = began_unix_ns_,
              .bytes_in = length - std::min(inlet_.left(), length),
              .bytes_out = outlet_.bytes()});
}

}  // namespace partita::serve
