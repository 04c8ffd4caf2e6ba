#include "serve/worker/streams.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/form.h"
#include "serve/worker/oip_batch.h"
#include "serve/worker/warm_up.h"

namespace partita::serve {
namespace {

constexpr std::uint64_t kMaxAnswer = 1u << 30;
constexpr std::uint32_t kBadGateway = 502;

// An answer of ours where the server gives none, in the form that clients of such servers expect.
std::string error_json(const std::string& message) {
  const auto error = [&](Form& f) {
    f.told("type", "server_error");
    f.told("message", message);
  };
  return write_form([&](Form& f) { f.told_object("error", error); }, Form::Style::compact) + "\n";
}

std::string printable_ascii(std::string_view text) {
  std::string kept;
  for (const char c : text.substr(0, 200)) {
    if (c >= ' ' && c <= '~') kept += c;
  }
  return kept;
}

}  // namespace

struct Streams::Tap {
  int fd = -1;  // of the connection to the server while it is open
  bool cancelled = false;
  bool ended = false;
};

struct Streams::Batch {
  std::uint64_t id = 0;
  std::int64_t begin = 0;
  std::shared_ptr<LinkSender> link;
  std::vector<Tap> taps;             // by item; guarded by mutex_
  std::vector<ItemStatus> status;    // by item; each written by its own thread
  std::vector<std::string> message;  // likewise
  std::atomic<std::size_t> left = 0;
};

bool has_messages(std::string_view json) {
  int depth = 0;
  bool key = false;  // a string that comes next is a key
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      const std::size_t first = i + 1;
      for (++i; i < json.size() && json[i] != '"'; ++i) {
        if (json[i] == '\\') ++i;
      }
      if (key && depth == 1 && i < json.size() && json.substr(first, i - first) == "messages")
        return true;
      key = false;
    } else if (c == '{' || c == '[') {
      ++depth;
      key = c == '{';
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',') {
      key = true;
    }
  }
  return false;
}

Streams::Streams(StreamOptions options) : options_(std::move(options)) {
  spec_ = {.kind = ModelKind::openai,
           .name = options_.name,
           .platform = "forward",
           .max_batch = options_.max_batch};
  layout_ = slot_layout(spec_);
  while (options_.url.path.ends_with('/')) options_.url.path.pop_back();
}

Streams::~Streams() { stop(); }

std::vector<CurvePoint> Streams::curve() const {
  std::vector<CurvePoint> curve = {{.batch = 1, .nanos = options_.expected_ns}};
  if (spec_.max_batch > 1)
    curve.push_back({.batch = spec_.max_batch, .nanos = options_.expected_ns});
  return curve;
}

void Streams::start(const Run& run, const std::vector<char*>& slots,
                    std::shared_ptr<LinkSender> link) {
  reap();
  if (streams_.size() + slots.size() > kMaxStreams) {
    link->send(Done{.batch = run.batch,
                    .status = std::vector(slots.size(), ItemStatus::failed),
                    .message = fmt::format("more than {} requests at once", kMaxStreams)});
    return;
  }
  auto batch = std::make_shared<Batch>();
  batch->id = run.batch;
  batch->begin = steady_ns();
  batch->link = std::move(link);
  batch->taps.resize(slots.size());
  batch->status.assign(slots.size(), ItemStatus::failed);
  batch->message.resize(slots.size());
  batch->left = slots.size();
  {
    const std::scoped_lock hold(mutex_);
    batches_[batch->id] = batch;
  }
  for (std::uint32_t item = 0; item < slots.size(); ++item) {
    std::uint64_t size = 0;
    std::memcpy(&size, slots[item], sizeof size);
    size = std::min<std::uint64_t>(size, kOpenaiBodyBytes);
    Letter read{.body = std::string(slots[item] + sizeof size, size),
                .headers = trace_headers(read_slot_trace(slots[item] + layout_.trace))};
    auto ended = std::make_shared<std::atomic<bool>>(false);
    streams_.push_back({std::jthread([this, batch, item, ended, letter = std::move(read)] {
                          work(batch, item, letter);
                          *ended = true;
                        }),
                        ended});
  }
}

void Streams::work(const std::shared_ptr<Batch>& batch, std::uint32_t item, const Letter& letter) {
  const Result<void> passed = pass_on(*batch, item, letter);
  {
    const std::scoped_lock hold(mutex_);
    Tap& tap = batch->taps[item];
    tap.ended = true;
    batch->status[item] = tap.cancelled ? ItemStatus::cancelled
                          : passed      ? ItemStatus::ok
                                        : ItemStatus::failed;
    if (!passed) batch->message[item] = to_string(passed.error());
    if (--batch->left > 0) return;
    batches_.erase(batch->id);
  }
  Done done{.batch = batch->id, .nanos = steady_ns() - batch->begin, .status = batch->status};
  for (const std::string& message : batch->message) {
    if (done.message.empty()) done.message = message.substr(0, 1000);
  }
  batch->link->send(done);
}

// One request: to the server, and what it answers to the gateway, piece by piece.
Result<void> Streams::pass_on(Batch& batch, std::uint32_t item, const Letter& letter) {
  const std::string& body = letter.body;
  const std::int64_t deadline = steady_ns() + options_.timeout_ns;
  Url url = options_.url;
  if (!url.path.ends_with("completions")) {
    if (!url.path.ends_with("/v1")) url.path += "/v1";
    url.path += has_messages(body) ? "/chat/completions" : "/completions";
  }
  Part part{.batch = batch.id, .item = item};
  const auto send = [&]() -> Result<void> {
    if (!batch.link->send(part)) return environment_error("link", "the gateway has gone");
    part = {.batch = batch.id, .item = item, .sequence = part.sequence + 1};
    return {};
  };
  Result<HttpConnection> connection = HttpConnection::open(url, deadline);
  if (!connection) {
    part.http_status = kBadGateway;
    part.content_type = "application/json";
    part.bytes = error_json(to_string(connection.error()));
    static_cast<void>(send());
    return failed(connection.error());
  }
  {
    const std::scoped_lock hold(mutex_);
    if (batch.taps[item].cancelled) return {};
    batch.taps[item].fd = connection->fd();
  }
  const auto untap = [&](int*) {
    const std::scoped_lock hold(mutex_);
    batch.taps[item].fd = -1;
  };
  int nothing = 0;
  const std::unique_ptr<int, decltype(untap)> tapped(&nothing, untap);
  const std::string head =
      request_head("POST", url) +
      fmt::format(
          "Content-Type: application/json\r\nAccept: text/event-stream, application/json\r\n"
          "Connection: close\r\nContent-Length: {}\r\n{}\r\n",
          body.size(), letter.headers);
  const std::array<std::string_view, 2> pieces = {head, body};
  TRY(connection->send(pieces, deadline));
  HttpResponse reader(kMaxAnswer);
  while (!reader.done()) {
    TRY(connection->receive(reader, deadline));
    if (!reader.head_done()) continue;
    if (part.sequence == 0) {
      part.http_status = static_cast<std::uint32_t>(reader.status());
      part.content_type = printable_ascii(reader.header("content-type"));
    }
    const std::string taken = reader.take_body();
    for (std::size_t at = 0; at < taken.size(); at += kMaxPartBytes) {
      part.bytes = taken.substr(at, kMaxPartBytes);
      TRY(send());
    }
  }
  return part.sequence == 0 ? send() : Result<void>{};  // an answer without a body
}

void Streams::cancel(const Cancel& cancel) {
  const std::scoped_lock hold(mutex_);
  const auto found = batches_.find(cancel.batch);
  if (found == batches_.end()) return;
  for (const std::uint32_t item : cancel.items) {
    if (item >= found->second->taps.size()) continue;
    Tap& tap = found->second->taps[item];
    if (tap.ended) continue;
    tap.cancelled = true;
    if (tap.fd >= 0) ::shutdown(tap.fd, SHUT_RDWR);
  }
}

bool Streams::idle() {
  reap();
  return streams_.empty();
}

void Streams::reap() {
  std::erase_if(streams_, [](const Stream& stream) { return stream.ended->load(); });
}

void Streams::stop() {
  {
    const std::scoped_lock hold(mutex_);
    for (auto& [id, batch] : batches_) {
      for (Tap& tap : batch->taps) {
        tap.cancelled = true;
        if (tap.fd >= 0) ::shutdown(tap.fd, SHUT_RDWR);
      }
    }
  }
  streams_.clear();  // waits for the threads
}

}  // namespace partita::serve
