#include "base/http/http_response.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace partita::serve {
namespace {

using State = HttpResponse::State;

// All of `text`, in pieces of these sizes again and again; how much was taken.
std::size_t feed(HttpResponse& answer, std::string_view text, std::size_t piece) {
  std::size_t used = 0;
  while (used < text.size() && answer.state() < State::done) {
    const std::size_t count = std::min(piece, text.size() - used);
    used += answer.take({text.data() + used, count});
  }
  return used;
}

struct Case {
  std::string text;
  int status;
  bool keeps_alive;
  std::string body;
};

TEST(HttpResponse, ReadsAnswersInAnyPieces) {
  const Case cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, true, "hello"},
      {"HTTP/1.1 503 Busy\r\ncontent-length:0\r\nConnection: Close\r\n\r\n", 503, false, ""},
      {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false, "x"},
      {"HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 1\n\nx", 200, true, "x"},
      {"HTTP/1.1 204\r\n\r\n", 204, true, ""},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, true,
       "ab"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n"
       "0\r\nTrailer: t\r\n\r\n",
       200, true, "abc0123456789"}};
  for (const Case& one : cases) {
    for (const std::size_t piece : {1, 2, 3, 7, 1000}) {
      HttpResponse answer(100);
      // What follows is another answer's.
      EXPECT_EQ(feed(answer, one.text + "HTTP/1.1", piece), one.text.size()) << one.text;
      EXPECT_EQ(answer.state(), State::done) << one.text << answer.why();
      EXPECT_EQ(answer.status(), one.status);
      EXPECT_EQ(answer.keeps_alive(), one.keeps_alive) << one.text;
      EXPECT_EQ(answer.body(), one.body);
    }
  }
}

TEST(HttpResponse, ABodyWithoutALengthEndsWithTheConnection) {
  HttpResponse answer(100);
  feed(answer, "HTTP/1.1 200 OK\r\n\r\nsome", 3);
  EXPECT_EQ(answer.state(), State::body);
  answer.end();
  EXPECT_EQ(answer.state(), State::done);
  EXPECT_EQ(answer.body(), "some");
  EXPECT_FALSE(answer.keeps_alive());
}

TEST(HttpResponse, AnythingElseIsBroken) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n"), std::string("HTTP/2 200\r\n"),
        std::string("HTTP/1.1 2x0 OK\r\n"), ok + "no colon\r\n", ok + "Content-Length: -1\r\n",
        ok + "Content-Length: 1\r\nContent-Length: 2\r\n",
        ok + "Content-Length: 99999999999999999999\r\n", ok + "Transfer-Encoding: gzip\r\n",
        ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", ok + std::string(70'000, 'x'),
        ok + "Transfer-Encoding: chunked\r\n\r\n" + std::string(2000, '1')}) {
    HttpResponse answer;
    feed(answer, text, 1000);
    EXPECT_EQ(answer.state(), State::broken) << text.substr(0, 80);
    EXPECT_STRNE(answer.why(), "");
  }
  HttpResponse cut;
  feed(cut, ok + "Content-Length: 5\r\n\r\nab", 4);
  cut.end();
  EXPECT_EQ(cut.state(), State::broken);
}

TEST(HttpResponse, ABodyAboveItsLimitIsBrokenHoweverItComes) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  for (const std::string& text :
       {ok + "Content-Length: 101\r\n\r\n", ok + "\r\n" + std::string(101, 'x'),
        ok + "Transfer-Encoding: chunked\r\n\r\n65\r\n",
        ok + "Transfer-Encoding: chunked\r\n\r\n64\r\n" + std::string(100, 'x') + "\r\n1\r\nx"}) {
    for (const std::size_t piece : {1, 7, 1000}) {
      HttpResponse answer(100);
      feed(answer, text, piece);
      EXPECT_EQ(answer.state(), State::broken) << text;
      HttpResponse unkept;
      feed(unkept, text, piece);
      EXPECT_EQ(unkept.state(), State::body) << text;
    }
  }
  HttpResponse taken(100);  // what was taken away counts, too
  feed(taken, ok + "\r\n" + std::string(60, 'x'), 1000);
  EXPECT_EQ(taken.take_body(), std::string(60, 'x'));
  feed(taken, std::string(41, 'x'), 1000);
  EXPECT_EQ(taken.state(), State::broken);
}

TEST(HttpResponse, HeadersAreFoundWhateverTheirCase) {
  HttpResponse answer(100);
  feed(answer, "HTTP/1.1 200 OK\r\nX-Y:  z \r\nContent-Length: 0\r\n\r\n", 3);
  EXPECT_EQ(answer.header("x-y"), "z");
  EXPECT_EQ(answer.header("CONTENT-LENGTH"), "0");
  EXPECT_EQ(answer.header("x"), "");
}

}  // namespace
}  // namespace partita::serve
