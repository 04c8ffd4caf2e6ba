// Answers of HTTP servers, in one piece and byte by byte, good and hostile.
#include "serve/worker/http_response.h"

#include <gtest/gtest.h>

#include "serve/worker/http_client.h"

namespace partita::serve {
namespace {

// The reader after all of `text`, in pieces of that many bytes, and the end of the stream.
Result<HttpResponseReader> read_all(const std::string& text, std::size_t step) {
  HttpResponseReader reader(100);
  for (std::size_t at = 0; at < text.size(); at += step) {
    if (auto fed = reader.feed(std::string_view(text).substr(at, step)); !fed)
      return failed(fed.error());
  }
  if (!reader.done()) {
    if (auto ended = reader.end_of_stream(); !ended) return failed(ended.error());
  }
  return reader;
}

struct Answer {
  std::string text;
  int status;
  std::string body;
  bool keep_alive;
};

TEST(HttpResponse, IsReadInPiecesOfAnySize) {
  const std::vector<Answer> answers = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
      {"HTTP/1.1 200 OK\r\ncontent-length:5\r\nConnection: Close\r\n\r\nhello", 200, "hello",
       false},
      {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, "", true},
      {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
      {"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, "until the end", false},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x",
       true},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n"
       "A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
       200, "abc0123456789", true}};
  for (const Answer& answer : answers) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, answer.text.size()}) {
      const auto reader = read_all(answer.text, step);
      ASSERT_TRUE(reader) << answer.text << to_string(reader.error());
      EXPECT_EQ(reader->status(), answer.status);
      EXPECT_EQ(reader->body(), answer.body) << step;
      EXPECT_EQ(reader->keep_alive(), answer.keep_alive) << answer.text;
    }
  }
  const auto reader = read_all("HTTP/1.1 200 OK\r\nX-Y:  z \r\nContent-Length: 0\r\n\r\n", 3);
  EXPECT_EQ(reader->header("x-y"), "z");
  EXPECT_EQ(reader->header("x"), "");
}

TEST(HttpResponse, HostileServersAreRefused) {
  const std::vector<std::string> answers = {
      "SSH-2.0-OpenSSH\r\n\r\n",
      "HTTP/1.1 9 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
      "HTTP/1.1 200 OK\r\n\r\n" + std::string(101, 'x'),
      "HTTP/1.1 200 OK\r\nA: " + std::string(kMaxHeadBytes, 'x'),
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(5000, '1')};
  for (const std::string& text : answers) {
    EXPECT_FALSE(read_all(text, text.size())) << text.substr(0, 80);
    EXPECT_FALSE(read_all(text, 1)) << text.substr(0, 80);
  }
}

TEST(HttpClient, ReadsUrls) {
  const auto read = [](const std::string& text) { return parse_url("--forward", text); };
  EXPECT_EQ(*read("http://a"), (Url{.host = "a", .port = 80, .path = ""}));
  EXPECT_EQ(*read("http://a:8000/v2/models/m"),
            (Url{.host = "a", .port = 8000, .path = "/v2/models/m"}));
  EXPECT_EQ(*read("http://[::1]:9"), (Url{.host = "::1", .port = 9, .path = ""}));
  EXPECT_EQ(host_header(*read("http://[::1]:9")), "[::1]:9");
  for (const char* text : {"", "http://", "https://a", "ftp://a", "http://a:0", "http://a:99999",
                           "http://[::1", "http://a b", "http://a/\r\nX: y", "http://a:1x"}) {
    EXPECT_FALSE(read(text)) << text;
  }
}

}  // namespace
}  // namespace partita::serve
