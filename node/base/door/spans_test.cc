#include "base/door/spans.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/door/access_log.h"

namespace partita::serve {
namespace {

constexpr const char* kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Takes one request and answers 200.
class Collector {
 public:
  Collector() {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(fd_, 4);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { take(); });
  }
  ~Collector() { ::close(fd_); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string request() {
    thread_.join();
    return request_;
  }

 private:
  void take() {
    const int one = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    char room[16384];
    while (request_.find("]}]}]}") == std::string::npos) {
      const auto got = ::recv(one, room, sizeof room, 0);
      if (got <= 0) break;
      request_.append(room, static_cast<std::size_t>(got));
    }
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    static_cast<void>(::send(one, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL));
    ::close(one);
  }
  int fd_ = -1, port_ = 0;
  std::string request_;
  std::thread thread_;
};

TEST(Spans, GoToTheCollector) {
  Collector collector;
  {
    auto log = AccessLog::open({.otlp = collector.url()}).value();  // without a file
    const AccessRecord record{.unix_ns = 1'000'000'007,
                              .client = "127.0.0.1:1",
                              .method = "POST",
                              .path = "/v2/models/\"m\"/infer",
                              .service = "m",
                              .trace_parent = kParent,
                              .status = 503,
                              .items = 3,
                              .queue_ns = 40,
                              .total_ns = 50};
    log->add(record);
    AccessRecord other = record;
    other.trace_parent = "";
    log->add(other);
    const std::string unsampled = std::string(kParent, 53) + "00";
    other.trace_parent = unsampled;
    log->add(other);
  }
  const std::string request = collector.request();
  EXPECT_TRUE(request.starts_with("POST /v1/traces HTTP/1.1\r\n")) << request;
  const auto json = nlohmann::json::parse(request.substr(request.find("\r\n\r\n") + 4));
  const auto& spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(spans[0]["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(spans[0]["spanId"].get<std::string>().size(), 16U);
  EXPECT_EQ(spans[0]["name"], "POST /v2/models/\"m\"/infer");
  EXPECT_EQ(spans[0]["startTimeUnixNano"], "1000000007");
  EXPECT_EQ(spans[0]["endTimeUnixNano"], "1000000057");
  EXPECT_EQ(spans[0]["status"]["code"], 2);
}

TEST(Spans, ACollectorThatIsGoneKeepsNobodyWaiting) {
  const auto spans = Spans::open("http://127.0.0.1:1").value();
  const AccessRecord record{.method = "GET", .path = "/", .trace_parent = kParent};
  for (std::size_t i = 0; i < 2 * Spans::kMostWaiting; ++i) spans->add(record);
  EXPECT_GE(spans->dropped(), Spans::kMostWaiting / 2);
  EXPECT_FALSE(Spans::open("collector:4318"));
}

}  // namespace
}  // namespace partita::serve
