#include "base/door/door_connection.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

namespace partita::serve {

namespace {

constexpr std::size_t kSpareBuffers = 256;
constexpr std::size_t kFirstText = 16'384, kProbeText = 1024;
constexpr std::size_t kVectors = 64;               // of a read or write
constexpr std::uint64_t kDrainBytes = 262'144;     // a refused body up to this is read and dropped
constexpr std::uint64_t kLingerBytes = 64u << 20;  // of a longer one, before the reset
constexpr std::int64_t kLingerNs = 2'000'000'000;
constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();
constexpr int kClientGone = 499;  // in the access log

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 422:
      return "Unprocessable Content";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

// Goes `bytes` forward in vectors of which `at` is the first that is not done.
void forward(std::vector<iovec>& vectors, std::size_t& at, std::size_t bytes) {
  while (at < vectors.size() && bytes >= vectors[at].iov_len) bytes -= vectors[at++].iov_len;
  if (bytes == 0) return;
  vectors[at].iov_base = static_cast<char*>(vectors[at].iov_base) + bytes;
  vectors[at].iov_len -= bytes;
}

std::span<const iovec> some(const std::vector<iovec>& vectors, std::size_t at) {
  return std::span(vectors).subspan(at, std::min(kVectors, vectors.size() - at));
}

}  // namespace

std::unique_ptr<HeadBuffer> Desk::take_buffer() {
  if (spare.empty()) return std::unique_ptr<HeadBuffer>(new HeadBuffer);  // bytes as they are
  auto buffer = std::move(spare.back());
  spare.pop_back();
  return buffer;
}

void Desk::give_buffer(std::unique_ptr<HeadBuffer> buffer) {
  if (buffer == nullptr || spare.size() >= kSpareBuffers) return;
  buffer->begin = buffer->end = 0;
  spare.push_back(std::move(buffer));
}

DoorConnection::DoorConnection(Desk& desk, int fd, const TlsServer* tls, Peer peer)
    : desk_(desk), transport_(fd, tls), peer_(std::move(peer)) {
  const DoorLimits& limits = desk.limits;
  deadline_ = Loop::now_ns() + (tls == nullptr ? limits.idle_ns : limits.head_ns);
  ++desk.counts.connections;
}

DoorConnection::~DoorConnection() {
  --desk_.counts.connections;
  if (exchange_ != nullptr) exchange_->wake = nullptr;
  watch_.reset();
  desk_.give_buffer(std::move(buffer_));
}

void DoorConnection::start(Loop& loop) {
  watch_ = loop.watch(transport_.fd(), [this](Readiness readiness) { ready(readiness); });
}

void DoorConnection::ready(Readiness readiness) {
  if (readiness.readable || readiness.closed) readable_ = true;
  if (readiness.writable || readiness.closed) write_blocked_ = false;
  if (readiness.closed && (stage_ == Stage::backend || stage_ == Stage::stream)) {
    die();
  } else {
    if (readiness.writable && read_wants_write_) readable_ = true;
    advance();
  }
  if (on_change) on_change();
}

void DoorConnection::expire() {
  const bool asking =
      (stage_ == Stage::head && head_begun_) || stage_ == Stage::text || stage_ == Stage::tensors;
  if (!asking) return die();
  refuse_body(408, stage_ == Stage::head ? "the request's head took too long"
                                         : "the request's body took too long");
  advance();
}

// What is wrong with what comes; nobody knows what would follow.
void DoorConnection::refuse_body(int status, std::string_view what) {
  const HeadFacts facts = exchange_ == nullptr ? HeadFacts{} : exchange_->facts();
  const std::string service = exchange_ == nullptr ? "" : exchange_->service;
  if (exchange_ != nullptr) exchange_->wake = nullptr;
  exchange_ = std::make_shared<AnsweredExchange>(facts, desk_.site.refusal(status, what));
  exchange_->service = service;
  keep_alive_ = false;
  begin_reply();
}

void DoorConnection::close_if_idle() {
  if (idle()) die();
}

// Everything that can be done now is done.
void DoorConnection::advance() {
  if (std::exchange(advancing_, true)) return;
  while (stage_ != Stage::dead && step()) {
  }
  advancing_ = false;
  if (stage_ != Stage::dead) want();
}

void DoorConnection::want() {
  const bool writing = write_blocked_ && (stage_ == Stage::write || stage_ == Stage::stream);
  // What a client sends while it does not fetch its answer stays in the kernel.
  const bool reading = !read_paused_ && stage_ != Stage::write;
  if (writing || read_wants_write_ || !reading || stage_ == Stage::write)
    return watch_.want(reading, writing || read_wants_write_);
  watch_.want(true, false);
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
      return step_waiting();
    case Stage::stream:
      return step_stream();
    case Stage::write:
      return step_write();
    case Stage::drain:
    case Stage::linger:
      return step_discard();
    case Stage::dead:
      break;
  }
  return false;
}

void DoorConnection::die() {
  if (exchange_ != nullptr) {
    ++desk_.counts.abandoned;
    log(kClientGone);
    exchange_->wake = nullptr;
    exchange_ = nullptr;
  }
  stage_ = Stage::dead;
  watch_.reset();
}

bool DoorConnection::fill(std::span<const iovec> into, std::size_t& got) {
  if (!readable_) return false;
  const Transport::Moved moved = transport_.read(into);
  got = moved.bytes;
  read_wants_write_ = moved.blocked && moved.writable;
  if (moved.ended) {
    die();
  } else if (moved.blocked) {
    readable_ = false;
  } else if (!transport_.encrypted()) {
    std::size_t room = 0;
    for (const iovec& each : into) room += each.iov_len;
    if (got < room) readable_ = false;  // there was no more; the next event says when there is
  }
  return got > 0;
}

std::string_view DoorConnection::buffered() const {
  if (buffer_ == nullptr) return {};
  return {buffer_->bytes.data() + buffer_->begin, buffer_->end - buffer_->begin};
}

// Bytes of the body that lie in the buffer.
std::size_t DoorConnection::take_buffered(std::span<char> into) {
  const std::string_view have = buffered();
  if (have.empty()) return 0;
  if (incoming_) {
    const ChunkedBody::Taken taken = incoming_->take(have, into);
    buffer_->begin += taken.wire;
    body_came(taken.body);
    if (incoming_->ended()) body_left_ = 0;
    return taken.body;
  }
  const std::size_t count = std::min(have.size(), into.size());
  if (count == 0) return 0;
  std::memcpy(into.data(), have.data(), count);
  buffer_->begin += count;
  body_left_ -= count;
  body_came(count);
  return count;
}

// Reads into the buffer; as fill().
bool DoorConnection::fill_buffer() {
  if (buffer_ == nullptr) buffer_ = desk_.take_buffer();
  HeadBuffer& buffer = *buffer_;
  if (buffer.begin > 0) {
    std::memmove(buffer.bytes.data(), buffer.bytes.data() + buffer.begin, buffered().size());
    buffer.end -= std::exchange(buffer.begin, 0);
  }
  std::size_t got = 0;
  const iovec room{buffer.bytes.data() + buffer.end, buffer.bytes.size() - buffer.end};
  if (!fill({&room, 1}, got)) return false;
  buffer.end += got;
  return true;
}

// Reads the body to where it belongs; a chunked one to the buffer, from where it is taken.
bool DoorConnection::fill_body(std::span<const iovec> into, std::size_t& got) {
  got = 0;
  if (incoming_) return fill_buffer();
  if (!fill(into, got)) return false;
  body_left_ -= got;
  body_came(got);
  return true;
}

// A body has the grace, and for what has come of it the time that this takes at the slowest rate:
// who stops sending is not waited for because much is still to come.
void DoorConnection::body_came(std::size_t bytes) {
  body_in_ += bytes;
  const auto rate = static_cast<std::uint64_t>(desk_.limits.bytes_per_second);
  const std::uint64_t ms = body_in_ * 1000 / rate;
  deadline_ =
      body_began_ns_ + desk_.limits.body_grace_ns + static_cast<std::int64_t>(ms) * 1'000'000;
}

void DoorConnection::body_deadline(std::uint64_t bytes) {
  const DoorLimits& limits = desk_.limits;
  const auto seconds = static_cast<std::int64_t>(bytes) / limits.bytes_per_second;
  deadline_ = Loop::now_ns() + limits.body_grace_ns + seconds * 1'000'000'000;
}

// ---- the head

bool DoorConnection::step_head() {
  const DoorLimits& limits = desk_.limits;
  while (!buffered().empty() && !head_begun_ && (buffered()[0] == '\r' || buffered()[0] == '\n'))
    ++buffer_->begin;  // empty lines before a request
  if (const std::string_view have = buffered(); !have.empty()) {
    if (!std::exchange(head_begun_, true)) deadline_ = Loop::now_ns() + limits.head_ns;
    const std::size_t end = end_of_head(have, scanned_);
    if (end != std::string_view::npos) {
      begin_exchange(end);
      return true;
    }
    scanned_ = have.size();
    if (have.size() == kMaxHeadBytes) {
      keep_alive_ = false;
      body_left_ = kDrainBytes + 1;
      exchange_ = std::make_shared<AnsweredExchange>(
          HeadFacts{}, desk_.site.refusal(431, "the head is over 16 KiB"));
      begin_reply();
      return true;
    }
  }
  if (!readable_ && !transport_.holds_input()) {
    if (buffered().empty()) desk_.give_buffer(std::move(buffer_));
    return false;
  }
  readable_ = true;
  fill_buffer();
  return stage_ != Stage::dead;  // once more: what came, or to give the buffer back
}

void DoorConnection::begin_exchange(std::size_t head_bytes) {
  const std::string_view text = buffered().substr(0, head_bytes);
  began_ns_ = Loop::now_ns();
  if (desk_.log != nullptr) began_unix_ns_ = unix_ns();
  deadline_ = kNoDeadline;
  const auto head = parse_http_head(text);
  bytes_out_ = discarded_ = 0;
  text_have_ = scatter_at_ = 0;
  probed_ = chunked_ = stream_head_sent_ = false;
  asked_ = true;
  incoming_.reset();
  body_in_ = 0;
  body_began_ns_ = began_ns_;
  if (!head) {
    keep_alive_ = expects_continue_ = false;
    body_left_ = kDrainBytes + 1;  // nobody knows what follows
    exchange_ = std::make_shared<AnsweredExchange>(
        HeadFacts{}, desk_.site.refusal(400, to_string(head.error())));
    buffer_->begin += head_bytes;
    return begin_reply();
  }
  keep_alive_ = head->keep_alive;
  http10_ = head->http10;
  expects_continue_ = head->expect_continue && !head->http10;
  body_left_ = head->transfer_encoding ? kDrainBytes + 1 : head->content_length.value_or(0);
  if (head->chunked) incoming_.emplace();
  if (transport_.encrypted() && peer_.certificate.empty())
    peer_.certificate = transport_.certificate_name();
  exchange_ = desk_.site.route(*head, peer_);
  buffer_->begin += head_bytes;
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
      return body_came(0);
    case Step::tensors:
      stage_ = Stage::tensors;
      scatter_at_ = 0;
      return body_came(0);
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
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  const iovec text{const_cast<char*>(kContinue.data()), kContinue.size()};
  if (transport_.write({&text, 1}).bytes != kContinue.size()) die();
}

// The form of a chunked body is broken, or it ends too soon or too late.
bool DoorConnection::body_refused() {
  if (!incoming_) return false;
  const Exchange& exchange = *exchange_;
  const bool text = stage_ == Stage::text;
  if (incoming_->broken()) {
    refuse_body(400, "the body's chunks are broken");
  } else if (incoming_->ended() && !(text && exchange.text_open) &&
             (!text || text_have_ < exchange.text_wanted)) {
    refuse_body(400, "the body ends too soon");
  } else if (text && exchange.text_open && text_have_ == exchange.text_wanted &&
             !incoming_->ended() && !buffered().empty()) {
    refuse_body(413, "the body is longer than " + std::to_string(text_have_) + " bytes");
  } else {
    return false;
  }
  return true;
}

bool DoorConnection::step_text() {
  Exchange& exchange = *exchange_;
  const std::size_t wanted = exchange.text_wanted;
  const auto whole = [&] {
    return exchange.text_open ? body_ended() : text_have_ == wanted;
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
    std::size_t got = take_buffered(room);
    text_have_ += got;
    if (body_refused()) return true;
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
      if (!fill_body({&place, 1}, got)) return false;
      text_have_ += got;
    }
  }
  if (!whole()) return true;
  exchange.text.resize(text_have_);
  if (exchange.text_open) {
    exchange.text_wanted = text_have_;
    exchange.on_length(text_have_);
  }
  apply(exchange.on_text());
  return true;
}

bool DoorConnection::step_tensors() {
  if (exchange_->ended()) {  // its places are somebody else's now
    apply(Step::answer);
    return true;
  }
  std::vector<iovec>& scatter = exchange_->scatter;
  while (scatter_at_ < scatter.size() && !buffered().empty()) {
    const iovec& place = scatter[scatter_at_];
    const std::size_t got = take_buffered({static_cast<char*>(place.iov_base), place.iov_len});
    if (got == 0) break;
    forward(scatter, scatter_at_, got);
  }
  if (scatter_at_ == scatter.size()) {
    apply(exchange_->on_filled());
    return true;
  }
  if (body_refused()) return true;
  continue_wanted();
  if (stage_ == Stage::dead) return false;
  std::size_t got = 0;
  if (!fill_body(some(scatter, scatter_at_), got)) return false;
  forward(scatter, scatter_at_, got);
  return true;
}

// ---- waiting for the answer; meanwhile the client may leave, or send its next request

bool DoorConnection::step_waiting() {
  if (!exchange_->ended()) return watch_client();
  exchange_->finish();
  begin_reply();
  return true;
}

bool DoorConnection::watch_client() {
  if (!readable_) return false;
  if (buffer_ == nullptr) buffer_ = desk_.take_buffer();
  HeadBuffer& buffer = *buffer_;
  if (buffer.end == buffer.bytes.size()) {
    read_paused_ = true;
    readable_ = false;
    return false;
  }
  std::size_t got = 0;
  const iovec room{buffer.bytes.data() + buffer.end, buffer.bytes.size() - buffer.end};
  if (!fill({&room, 1}, got)) return false;
  buffer.end += got;
  return true;
}

bool DoorConnection::step_stream() {
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
    die();  // the client sees that the answer has no end
    return false;
  }
  if (exchange.stream_begun && !std::exchange(stream_head_sent_, true)) {
    chunked_ = !http10_;
    if (http10_) keep_alive_ = false;
    out_text_ = reply_head(exchange.reply, false);
  }
  if (!exchange.pieces.empty()) {
    if (chunked_) {
      char size[20];
      std::snprintf(size, sizeof size, "%zx\r\n", exchange.pieces.size());
      out_text_ += size;
    }
    out_text_ += exchange.pieces;
    if (chunked_) out_text_ += "\r\n";
    exchange.pieces.clear();
  }
  if (ended) {
    if (chunked_) out_text_ += "0\r\n\r\n";
    out_ = {{out_text_.data(), out_text_.size()}};
    out_at_ = 0;
    body_deadline(out_text_.size());
    stage_ = Stage::write;
    return true;
  }
  if (out_text_.size() > desk_.limits.stream_bytes) {
    die();  // a client that does not fetch what it asked for
    return false;
  }
  if (!out_text_.empty() && !write_blocked_) {
    const iovec text{out_text_.data(), out_text_.size()};
    const Transport::Moved moved = transport_.write({&text, 1});
    if (moved.ended) {
      die();
      return false;
    }
    bytes_out_ += moved.bytes;
    out_text_.erase(0, moved.bytes);
    write_blocked_ = !out_text_.empty();
    deadline_ = kNoDeadline;
    if (write_blocked_) body_deadline(out_text_.size());
  }
  if (std::exchange(exchange.unsent, out_text_.size()) > 0 && exchange.unsent == 0)
    exchange.on_fetched();
  return watch_client();
}

// ---- the answer

std::string DoorConnection::reply_head(const Reply& reply, bool with_length) {
  std::size_t length = reply.text.size();
  for (const iovec& span : reply.spans) length += span.iov_len;
  if (desk_.closing) keep_alive_ = false;
  std::string out;
  out.reserve(256 + reply.text.size());
  out += "HTTP/1.1 ";
  out += std::to_string(reply.status);
  out += ' ';
  out += reason_of(reply.status);
  out += "\r\n";
  out += desk_.date;
  const bool bodiless = reply.status == 204 || reply.status == 304;
  if (length > 0 || !with_length) {
    out += "Content-Type: ";
    out += reply.content_type;
    out += "\r\n";
  }
  if (with_length && !bodiless) {
    out += "Content-Length: ";
    out += std::to_string(length);
    out += "\r\n";
  } else if (chunked_ && !bodiless) {
    out += "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n";
  }
  out += reply.headers;
  if (!keep_alive_) out += "Connection: close\r\n";
  if (keep_alive_ && http10_) out += "Connection: keep-alive\r\n";
  out += "\r\n";
  return out;
}

void DoorConnection::begin_reply() {
  Reply& reply = exchange_->reply;
  if (incoming_ && !incoming_->ended() && exchange_->submitted_ns > 0) take_buffered({});
  // A rest that was announced with Expect may never come; a long one is not worth reading.
  if (body_left_ > kDrainBytes || (body_left_ > 0 && expects_continue_)) keep_alive_ = false;
  out_text_ = reply_head(reply, true);
  out_.clear();
  out_at_ = 0;
  if (exchange_->facts().method != Method::head) {
    out_text_ += reply.text;
    out_.push_back({out_text_.data(), out_text_.size()});
    for (const iovec& span : reply.spans)
      if (span.iov_len > 0) out_.push_back(span);
  } else {
    out_.push_back({out_text_.data(), out_text_.size()});
  }
  std::uint64_t length = 0;
  for (const iovec& span : out_) length += span.iov_len;
  body_deadline(length);
  stage_ = Stage::write;
}

bool DoorConnection::step_write() {
  if (write_blocked_) return false;
  while (out_at_ < out_.size()) {
    const Transport::Moved moved = transport_.write(some(out_, out_at_));
    if (moved.ended) {
      die();
      return false;
    }
    if (moved.blocked) {
      write_blocked_ = true;
      return false;
    }
    bytes_out_ += moved.bytes;
    forward(out_, out_at_, moved.bytes);
  }
  end_exchange();
  return stage_ != Stage::dead;
}

void DoorConnection::end_exchange() {
  log(exchange_->reply.status);
  const auto hundreds = static_cast<std::size_t>(exchange_->reply.status / 100);
  if (hundreds < desk_.counts.answers.size()) ++desk_.counts.answers[hundreds];
  if (exchange_->submitted_ns > 0) {
    const int status = exchange_->reply.status;
    peer_.answered = peer_.answered || status == 200;
    peer_.faulted = peer_.faulted || status == 500 || status == 422;
  }
  exchange_->wake = nullptr;
  exchange_->give_back();
  exchange_ = nullptr;
  out_.clear();
  out_text_.clear();
  scanned_ = 0;
  head_begun_ = read_paused_ = false;
  discarded_ = 0;
  const bool unread = body_left_ > 0;
  if (keep_alive_) {
    stage_ = unread ? Stage::drain : Stage::head;
    if (unread) return body_deadline(body_left_);
    deadline_ = Loop::now_ns() + desk_.limits.idle_ns;
    return;
  }
  transport_.end_writing();
  stage_ = Stage::linger;  // until the client has read the end and closes
  deadline_ = Loop::now_ns() + kLingerNs;
}

// A body that nobody wants: to its end when the connection goes on, else until the client has read
// the answer and closes, since a reset could destroy the answer on its way.
bool DoorConnection::step_discard() {
  const bool lingers = stage_ == Stage::linger;
  const std::size_t have =
      lingers ? buffered().size()
              : static_cast<std::size_t>(std::min<std::uint64_t>(buffered().size(), body_left_));
  if (have > 0) buffer_->begin += have;
  body_left_ -= std::min<std::uint64_t>(body_left_, have);
  if (!lingers && body_left_ == 0) {
    stage_ = Stage::head;
    deadline_ = Loop::now_ns() + desk_.limits.idle_ns;
    return true;
  }
  std::array<char, 16'384> scrap;
  const std::size_t limit =
      lingers ? scrap.size()
              : static_cast<std::size_t>(std::min<std::uint64_t>(scrap.size(), body_left_));
  const iovec room{scrap.data(), limit};
  std::size_t got = 0;
  if (!fill({&room, 1}, got)) return false;
  discarded_ += got;
  body_left_ -= std::min<std::uint64_t>(body_left_, got);
  if (lingers && discarded_ > kLingerBytes) die();
  return stage_ != Stage::dead;
}

void DoorConnection::log(int status) {
  if (desk_.log == nullptr) return;
  const Exchange& exchange = *exchange_;
  const std::int64_t now = Loop::now_ns();
  const bool queued = exchange.submitted_ns > 0;
  const std::int64_t until = exchange.ended_ns > 0 ? exchange.ended_ns : now;
  desk_.log->add({.unix_ns = began_unix_ns_,
                  .client = peer_.address,
                  .method = exchange.facts().method_name,
                  .path = exchange.facts().path,
                  .service = exchange.service,
                  .trace_parent = exchange.facts().trace.parent,
                  .status = status,
                  .items = exchange.items,
                  .bytes_in = exchange.facts().content_length -
                              std::min(body_left_, exchange.facts().content_length),
                  .bytes_out = bytes_out_,
                  .queue_ns = queued ? until - exchange.submitted_ns : 0,
                  .total_ns = now - began_ns_});
}

}  // namespace partita::serve
