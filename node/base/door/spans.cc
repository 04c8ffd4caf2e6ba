#include "base/door/spans.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/append.h"
#include "base/clock.h"
#include "base/door/access_log.h"
#include "base/door/trace_context.h"
#include "base/http/http_stream.h"
#include "base/json_writer.h"
#include "base/quiet_thread.h"

namespace partita::serve {
namespace {

constexpr std::int64_t kPatienceNs = 2'000'000'000;
constexpr std::size_t kOwnSpanAt = 36, kOwnSpanDigits = 16, kOwnFlagsAt = 53;  // of a traceparent
constexpr std::size_t kMostPath = 256;  // of what a client says, for each span that waits
constexpr int kFirstFault = 500;

// Whether it says so itself; of later versions the flags are where version 00 has them.
bool sampled(std::string_view parent) {
  if (parent.size() < kOwnFlagsAt + 2) return false;
  const char low = parent[kOwnFlagsAt + 1];
  const int digit = low <= '9' ? low - '0' : low - 'a' + 10;
  return (digit & 1) != 0;
}

std::string quoted(std::string_view text) { return JsonWriter().string(text).take(); }

std::string attribute(std::string_view key, std::string_view text) {
  return fmt::format(R"({{"key":"{}","value":{{"stringValue":{}}}}})", key, quoted(text));
}
std::string attribute(std::string_view key, std::int64_t number) {
  return fmt::format(R"({{"key":"{}","value":{{"intValue":"{}"}}}})", key, number);
}

std::string new_span() {
  std::uint64_t bits = 0;
  while (bits == 0)
    if (::getrandom(&bits, sizeof bits, 0) < 0) bits = 1;
  return fmt::format("{:016x}", bits);
}

// As of OTLP 1.x: ids in hexadecimal digits, 64-bit numbers as texts, kind 2 is a server.
std::string span_of(const AccessRecord& record) {
  const std::string_view path = record.path.substr(0, kMostPath);
  std::string attributes = attribute("http.request.method", record.method) + "," +
                           attribute("url.path", path) + "," +
                           attribute("client.address", record.client) + "," +
                           attribute("http.response.status_code", std::int64_t{record.status}) +
                           "," + attribute("partita.queue_ns", record.queue_ns) + "," +
                           attribute("partita.rows", std::int64_t{record.items});
  if (!record.service.empty())
    attributes += "," + attribute("partita.service", record.service.substr(0, kMostPath));
  return fmt::format(R"({{"traceId":"{}","spanId":"{}","parentSpanId":"{}","name":{},"kind":2,)"
                     R"("startTimeUnixNano":"{}","endTimeUnixNano":"{}","attributes":[{}],)"
                     R"("status":{{"code":{}}}}})",
                     trace_id(record.trace_parent), new_span(),
                     record.trace_parent.substr(kOwnSpanAt, kOwnSpanDigits),
                     quoted(fmt::format("{} {}", record.method, path)), record.unix_ns,
                     record.unix_ns + record.total_ns, attributes,
                     record.status >= kFirstFault ? 2 : 0);
}

std::string document_of(const std::vector<std::string>& spans) {
  return fmt::format(R"({{"resourceSpans":[{{"resource":{{"attributes":[{}]}},"scopeSpans":[)"
                     R"({{"scope":{{"name":"partita"}},"spans":[{}]}}]}}]}})",
                     attribute("service.name", "partita-gateway"), joined(spans, ","));
}

}  // namespace

struct Spans::Impl {
  explicit Impl(Url at) : url(std::move(at)) {}

  bool send(const std::vector<std::string>& spans) const {
    const auto dialer = HttpDialer::to(url, {});
    if (!dialer) return false;
    RealClock clock;
    const auto answer =
        fetch(*dialer,
              dialer->request("POST", "/v1/traces", "Content-Type: application/json\r\n",
                              document_of(spans)),
              clock, kPatienceNs);
    return answer && answer->status / 100 == 2;
  }

  void run() {
    std::unique_lock lock(mutex);
    for (bool last = false; !last;) {
      changed.wait_for(lock, std::chrono::seconds(1), [&] { return ended; });
      last = ended;
      const std::vector<std::string> spans = std::exchange(waiting, {});
      lock.unlock();
      const bool sent = spans.empty() || send(spans);
      lock.lock();
      if (!sent) dropped += spans.size();
    }
  }

  const Url url;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> waiting;
  std::uint64_t dropped = 0;
  bool ended = false;
  std::thread thread;
};

Spans::Spans(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->thread = quiet_thread([this] { impl_->run(); });
}

Spans::~Spans() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ended = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

Result<std::unique_ptr<Spans>> Spans::open(const std::string& url) {
  const Url parsed = TRY(parse_url_prefix("--otlp", url));
  return std::unique_ptr<Spans>(new Spans(std::make_unique<Impl>(parsed)));
}

void Spans::add(const AccessRecord& record) {
  if (trace_id(record.trace_parent).empty() || !sampled(record.trace_parent)) return;
  std::string span = span_of(record);
  const std::lock_guard lock(impl_->mutex);
  if (impl_->waiting.size() < kMostWaiting)
    impl_->waiting.push_back(std::move(span));
  else
    ++impl_->dropped;
}

std::uint64_t Spans::dropped() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->dropped;
}

}  // namespace partita::serve
