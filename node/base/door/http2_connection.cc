#include "base/door/http2_connection.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/door/address.h"

namespace partita::serve {
namespace {

constexpr std::uint32_t kStreamWindow = 1u << 20;  // a body goes on to its place as it comes
constexpr int kConnectionWindow = 4 << 20;
constexpr int kBlocksAtOnce = 8;            // read before others have their turn
constexpr std::size_t kHeadFlood = 65'536;  // of a head of which 16 KiB are taken
constexpr std::size_t kIdleFrames = 1000, kIdleFramesPerSecond = 100;  // pings, settings, ...
// Of streams that are not fetched, so many may hold as much as one may, and any so small a part.
constexpr std::size_t kFullStreams = 4, kStreamsThatHoldLittle = 64;
constexpr std::size_t kStreamsKeptForOthers = 16;  // one of so many no address gets alone
constexpr std::int64_t kNeverLate = std::numeric_limits<std::int64_t>::max();

std::string_view text_of(const std::uint8_t* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

// Headers of an answer as nghttp2 takes them: names in lower case, in memory that stays.
class AnswerHead {
 public:
  void add(std::string name, std::string value) {
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    if (name == "connection" || name == "transfer-encoding") return;  // of HTTP/1.1 alone
    kept_.push_back({std::move(name), std::move(value)});
  }
  void add_lines(std::string_view lines) {
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find("\r\n"));
      lines.remove_prefix(std::min(lines.size(), line.size() + 2));
      const std::size_t colon = line.find(": ");
      if (colon != std::string_view::npos)
        add(std::string(line.substr(0, colon)), std::string(line.substr(colon + 2)));
    }
  }
  std::vector<nghttp2_nv> values() const {
    std::vector<nghttp2_nv> all;
    all.reserve(kept_.size());
    for (const auto& [name, value] : kept_)
      all.push_back(
          {bytes_of(name), bytes_of(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    return all;
  }

 private:
  std::vector<std::pair<std::string, std::string>> kept_ = {};
};

// A block of the desk's, for as long as it is used.
class BorrowedBlock {
 public:
  explicit BorrowedBlock(Desk& desk) : desk_(desk) {
    if (desk.blocks.empty()) {
      block_ = Block(new char[kBlockBytes]);  // bytes as they are
      return;
    }
    block_ = std::move(desk.blocks.back());
    desk.blocks.pop_back();
  }
  ~BorrowedBlock() { desk_.blocks.push_back(std::move(block_)); }
  BorrowedBlock(const BorrowedBlock&) = delete;
  BorrowedBlock& operator=(const BorrowedBlock&) = delete;
  char* get() const { return block_.get(); }

 private:
  Desk& desk_;
  Block block_;
};

// For its client to fetch it, or adds to what all of this client's wait for; `most`: of one.
bool waits_for_too_much(const std::map<std::int32_t, std::unique_ptr<Http2Stream>>& streams,
                        const Http2Stream& stream, std::size_t most) {
  const auto besides = [](const Http2Stream& one) {  // as much as its longest piece
    return one.waiting() - std::min(one.waiting(), one.longest_piece);
  };
  if (besides(stream) < most / kStreamsThatHoldLittle) return false;
  std::size_t all = 0;
  for (const auto& [id, one] : streams) all += besides(*one);
  return besides(stream) > most || all > kFullStreams * most;
}

}  // namespace

bool Allowance::take(std::size_t most, std::size_t per_second) {
  const std::int64_t now = Loop::now_ns();
  const double since = static_cast<double>(now - std::exchange(at_ns_, now)) / 1e9;
  const auto full = static_cast<double>(most);
  left_ = std::min(full, left_ + since * static_cast<double>(per_second));
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

// ---- what nghttp2 calls. It calls nothing while something is submitted, so an exchange may answer
// in any of these.

struct Http2Connection::Calls {
  static Http2Connection& of(void* user) { return *static_cast<Http2Connection*>(user); }

  static int begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* user) {
    switch (head->type) {
      case NGHTTP2_HEADERS:
      case NGHTTP2_CONTINUATION:
      case NGHTTP2_RST_STREAM:
      case NGHTTP2_WINDOW_UPDATE:
        return 0;
      case NGHTTP2_DATA:
        if (head->length > 0 || (head->flags & NGHTTP2_FLAG_END_STREAM) != 0) return 0;
        break;
      default:
        break;
    }
    Http2Connection& self = of(user);  // it asks for nothing
    return self.idle_frames_.take(kIdleFrames, kIdleFramesPerSecond) ? 0 : self.flood();
  }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Http2Connection& self = of(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;  // trailers, which are dropped
    self.head_of_ = frame->hd.stream_id;
    self.head_by_ = Loop::now_ns() + self.desk_.limits.head_ns;
    if (!self.begin_stream(frame->hd.stream_id))
      nghttp2_submit_rst_stream(self.session_, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                NGHTTP2_REFUSED_STREAM);
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes,
                    std::uint8_t, void* user) {
    Http2Stream* const stream = of(user).find(frame->hd.stream_id);
    if (stream == nullptr || stream->stage() != Http2Stream::Stage::head) return 0;
    const std::size_t total =
        stream->header(text_of(name, name_bytes), text_of(value, value_bytes));
    return total > kHeadFlood ? of(user).flood() : 0;
  }

  static int frame_came(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Http2Connection& self = of(user);
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    const bool request =
        frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    const std::int32_t id = frame->hd.stream_id;
    Http2Stream* const stream = self.find(id);
    if (request) {
      self.head_of_ = 0;
      if (stream == nullptr) return 0;
      if (self.transport_.encrypted() && self.peer_.certificate.empty())
        self.peer_.certificate = self.transport_.certificate_name();
      stream->begin(self.peer_, !ends, [&self, id] { self.wake(id); });
      self.settle(id, *stream);
      return 0;
    }
    const bool of_body = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (!ends || !of_body || stream == nullptr) return 0;
    stream->body_end();
    self.settle(id, *stream);
    return 0;
  }

  static int body(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                  std::size_t bytes, void* user) {
    Http2Connection& self = of(user);
    Http2Stream* const stream = self.find(id);
    if (stream == nullptr) return 0;
    stream->body(text_of(data, bytes));
    self.settle(id, *stream);
    return 0;
  }

  static int frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Http2Connection& self = of(user);
    Http2Stream* const stream = self.find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    constexpr std::size_t kFrameHead = 9;
    stream->bytes_out += frame->hd.length + kFrameHead;
    const bool answers = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (!answers || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    stream->whole = true;
    // RFC 9113, 8.1: the rest of the request is not wanted.
    if (!stream->body_ended())
      nghttp2_submit_rst_stream(self.session_, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                NGHTTP2_NO_ERROR);
    return 0;
  }

  static int closed(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    return of(user).end_stream(id);
  }

  static ssize_t answer(nghttp2_session*, std::int32_t id, std::uint8_t* into, std::size_t room,
                        std::uint32_t* flags, nghttp2_data_source*, void* user) {
    Http2Stream* const stream = of(user).find(id);
    if (stream == nullptr || stream->broken()) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (!stream->has_more()) {
      stream->deferred = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    bool at_end = false;
    const std::size_t count = stream->read({reinterpret_cast<char*>(into), room}, at_end);
    if (at_end) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }
};

Http2Connection::Http2Connection(Desk& desk, Transport& transport, Peer& peer, Later later)
    : desk_(desk),
      transport_(transport),
      peer_(peer),
      later_(std::move(later)),
      of_host_(desk.hosts.try_emplace(host_of(peer.address)).first),
      idle_by_(Loop::now_ns() + desk.limits.idle_ns) {
  ++of_host_->second.connections;
  nghttp2_session_callbacks* calls = nullptr;
  CHECK(nghttp2_session_callbacks_new(&calls) == 0);
  nghttp2_session_callbacks_set_on_begin_frame_callback(calls, Calls::begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(calls, Calls::begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(calls, Calls::header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(calls, Calls::frame_came);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, Calls::body);
  nghttp2_session_callbacks_set_on_frame_send_callback(calls, Calls::frame_sent);
  nghttp2_session_callbacks_set_on_stream_close_callback(calls, Calls::closed);
  CHECK(nghttp2_session_server_new(&session_, calls, this) == 0);
  nghttp2_session_callbacks_del(calls);
  const std::array settings{
      nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                             static_cast<std::uint32_t>(desk.limits.streams_of_connection)},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kMaxHeadBytes},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

Http2Connection::~Http2Connection() {
  close();
  if (--of_host_->second.connections == 0) desk_.hosts.erase(of_host_);
  nghttp2_session_del(session_);
}

void Http2Connection::close() {
  dead_ = true;
  for (const auto& [id, stream] : streams_) abandon(*stream);
  of_host_->second.streams -= streams_.size();
  desk_.counts.streams -= streams_.size();
  streams_.clear();
}

void Http2Connection::start(std::string_view first) {
  advancing_ = true;
  take(first);
  advancing_ = false;
  advance();
}

void Http2Connection::ready(Readiness readiness) {
  if (readiness.readable || readiness.closed || (readiness.writable && wants_write_))
    readable_ = true;
  if (readiness.writable || readiness.closed) blocked_ = false;
  advance();
}

std::int64_t Http2Connection::deadline() const {
  const std::int64_t written_by = blocked_ ? out_by() : kNeverLate;
  if (streams_.empty() && head_of_ == 0) return std::min(idle_by_, written_by);
  std::int64_t first = std::min(written_by, head_of_ == 0 ? kNeverLate : head_by_);
  for (const auto& [id, stream] : streams_)
    if (stream->exchange() != nullptr) first = std::min(first, stream->deadline());
  return first;
}

// Whose body comes too slowly hears it; who does not fetch an answer loses it.
void Http2Connection::expire() {
  const std::int64_t now = Loop::now_ns();
  if (streams_.empty() || (head_of_ != 0 && head_by_ <= now) || (blocked_ && out_by() <= now)) {
    leave();
    dead_ = true;
    return;
  }
  advancing_ = true;
  for (const auto& [id, stream] : streams_) {
    if (stream->exchange() == nullptr || stream->deadline() > now) continue;
    using Stage = Http2Stream::Stage;
    if (stream->stage() == Stage::text || stream->stage() == Stage::tensors) {
      stream->too_slow();
      settle(id, *stream);
    } else {
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    }
  }
  advancing_ = false;
  advance();
}

void Http2Connection::leave() {
  if (!std::exchange(said_goodbye_, true))
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                          nullptr, 0);
  const bool was_advancing = std::exchange(advancing_, true);
  send();
  advancing_ = was_advancing;
}

void Http2Connection::advance() {
  if (std::exchange(advancing_, true)) return;
  int blocks = 0;
  for (bool more = true; more && !dead_;) {
    more = false;
    if (!blocked_ && (blocks < kBlocksAtOnce || transport_.holds_input())) {
      ++blocks;
      more = receive();
    }
    if (dead_) break;
    serve_woken();
    if (desk_.closing && !said_goodbye_) leave();
    send();
    for (const auto& [id, stream] : streams_)
      if (stream->exchange() != nullptr) stream->sent();
    more = more || !woken_.empty();
  }
  advancing_ = false;
  const bool ended =
      nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
  if (ended && out_.empty()) dead_ = true;
}

void Http2Connection::serve_woken() {
  for (const std::int32_t id : std::exchange(woken_, {})) {
    Http2Stream* const stream = find(id);
    if (stream == nullptr || stream->exchange() == nullptr) continue;
    stream->awake();
    settle(id, *stream);
  }
}

// ---- what comes in

bool Http2Connection::receive() {
  if (!readable_ && !transport_.holds_input()) return false;
  const BorrowedBlock block(desk_);
  const iovec room{block.get(), kBlockBytes};
  const Transport::Moved moved = transport_.read({&room, 1});
  wants_write_ = moved.blocked && moved.writable;
  if (moved.ended) dead_ = true;
  readable_ = !moved.blocked && (transport_.encrypted() || moved.bytes == kBlockBytes);
  if (moved.bytes > 0) take({block.get(), moved.bytes});
  return moved.bytes > 0;
}

void Http2Connection::take(std::string_view bytes) {
  if (nghttp2_session_mem_recv(session_, bytes_of(bytes), bytes.size()) >= 0) return;
  flood();
  send();
  dead_ = true;
}

// It asks for more than it may: tells it why, as far as that can be done now.
int Http2Connection::flood() {
  if (!std::exchange(flooded_, true)) {
    ++desk_.counts.flooded;
    nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
  }
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

Http2Stream* Http2Connection::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

bool Http2Connection::begin_stream(std::int32_t id) {
  const std::size_t most = desk_.limits.streams;
  const std::size_t share = most - most / kStreamsKeptForOthers;
  if (desk_.counts.streams >= most || of_host_->second.streams >= share) return false;
  streams_.emplace(id, std::make_unique<Http2Stream>(desk_));
  ++of_host_->second.streams;
  ++desk_.counts.streams;
  asked_ = true;
  return true;
}

// Several may be woken one after the other, and their answers go in one piece.
void Http2Connection::wake(std::int32_t id) {
  woken_.push_back(id);
  if (dead_ || advancing_ || woken_.size() > 1) return;
  if (streams_.size() > 1) return later_.soon();
  advance();
  later_.changed();
}

// ---- what goes out

void Http2Connection::settle(std::int32_t id, Http2Stream& stream) {
  using Stage = Http2Stream::Stage;
  const bool answers =
      stream.stage() == Stage::answer || (stream.stage() == Stage::stream && stream.streams());
  if (!answers) {
    const bool wants_body = stream.stage() == Stage::text || stream.stage() == Stage::tensors;
    if (wants_body && stream.expects_continue()) {
      stream.asked_to_continue();
      const nghttp2_nv status{bytes_of(":status"), bytes_of("100"), 7, 3, NGHTTP2_NV_FLAG_NONE};
      nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, id, nullptr, &status, 1, nullptr);
    }
    return;
  }
  if (!std::exchange(stream.submitted, true)) submit_head(id, stream);
  if (stream.deferred && (stream.has_more() || stream.broken())) {
    stream.deferred = false;
    nghttp2_session_resume_data(session_, id);
  }
  if (!waits_for_too_much(streams_, stream, desk_.limits.stream_bytes)) return;
  stream.break_off();
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
}

void Http2Connection::submit_head(std::int32_t id, Http2Stream& stream) {
  const Exchange& exchange = *stream.exchange();
  const Reply& reply = exchange.reply;
  const bool in_pieces = stream.stage() == Http2Stream::Stage::stream;
  const bool bodiless = reply.status == 204 || reply.status == 304;
  const std::uint64_t length = stream.length();
  AnswerHead head;
  head.add(":status", std::to_string(reply.status));
  head.add_lines(desk_.date);
  if (in_pieces || length > 0) head.add("content-type", std::string(reply.content_type));
  if (in_pieces) head.add("cache-control", "no-cache");
  if (!in_pieces && !bodiless) head.add("content-length", std::to_string(length));
  head.add_lines(reply.headers);
  head.add_lines(exchange.more_headers);
  const bool empty = !in_pieces && (length == 0 || bodiless);
  const bool alone = empty || exchange.facts().method == Method::head;
  const nghttp2_data_provider body{.source = {}, .read_callback = Calls::answer};
  const auto values = head.values();
  nghttp2_submit_response(session_, id, values.data(), values.size(), alone ? nullptr : &body);
}

void Http2Connection::send() {
  if (blocked_) return;
  if (!out_.empty()) {
    const std::string rest = std::exchange(out_, {});
    write(rest);
  }
  const BorrowedBlock block(desk_);
  std::size_t have = 0;
  while (!blocked_ && !dead_) {
    const std::uint8_t* data = nullptr;
    const ssize_t next = nghttp2_session_mem_send(session_, &data);
    if (next < 0) dead_ = true;
    if (next <= 0) break;
    const std::string_view frame = text_of(data, static_cast<std::size_t>(next));
    if (have + frame.size() > kBlockBytes) write({block.get(), std::exchange(have, 0)});
    if (frame.size() > kBlockBytes || blocked_) {
      write(frame);
    } else {
      std::ranges::copy(frame, block.get() + have);
      have += frame.size();
    }
  }
  if (have > 0) write({block.get(), have});
  if (!blocked_) out_since_ = 0;
}

// To the kernel; what it does not take waits.
void Http2Connection::write(std::string_view bytes) {
  while (!bytes.empty() && !blocked_ && !dead_) {
    const iovec from{bytes_of(bytes), bytes.size()};
    const Transport::Moved moved = transport_.write({&from, 1});
    if (moved.ended) dead_ = true;
    blocked_ = moved.blocked;
    out_moved_ += moved.bytes;
    bytes.remove_prefix(moved.bytes);
  }
  if (blocked_ && out_since_ == 0) {
    out_since_ = Loop::now_ns();
    out_moved_ = 0;
  }
  out_ += bytes;
}

// ---- its end

void Http2Connection::abandon(const Http2Stream& stream) {
  if (stream.exchange() == nullptr) return;
  ++desk_.counts.abandoned;
  AnswerFacts facts = stream.facts();
  facts.status = kClientGone;
  log_answer(desk_, peer_, *stream.exchange(), facts);
}

int Http2Connection::end_stream(std::int32_t id) {
  if (head_of_ == id) head_of_ = 0;
  const auto found = streams_.find(id);
  if (found == streams_.end()) return 0;
  const std::unique_ptr<Http2Stream> stream = std::move(found->second);
  streams_.erase(found);
  --of_host_->second.streams;
  --desk_.counts.streams;
  if (streams_.empty()) idle_by_ = Loop::now_ns() + desk_.limits.idle_ns;
  if (stream->whole) {
    log_answer(desk_, peer_, *stream->exchange(), stream->facts());
    count_answer(desk_, peer_, *stream->exchange());
    return 0;
  }
  abandon(*stream);
  const DoorLimits& limits = desk_.limits;
  const bool ours = stream->exchange() != nullptr && stream->broken();
  return ours || resets_.take(limits.resets, limits.resets_per_second) ? 0 : flood();
}

}  // namespace partita::serve
