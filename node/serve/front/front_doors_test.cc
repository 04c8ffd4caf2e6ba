// What is around requests: streams, tokens, TLS, shared memory, the access log, many connections.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/door/access_log.h"
#include "base/door/address.h"
#include "base/door/listener.h"
#include "base/testing/test_certificate.h"
#include "serve/front/testing/door_fixture.h"

namespace partita::serve {
namespace {

using nlohmann::json;
using test::RawClient;
using test::request;

class DoorsTest : public test::DoorFixture {
 protected:
  DoorsTest() {
    backend.add(test::pair_model());
    backend.add({.kind = ModelKind::openai, .name = "chat", .platform = "forward"});
    backend.compute = [this](RequestId id) { test::compute_pair(backend, id); };
    folder = std::filesystem::path(testing::TempDir()) / ("doors" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  ~DoorsTest() override { std::filesystem::remove_all(folder); }
  static std::string get(const std::string& path, const std::string& headers = "") {
    return "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n";
  }

  std::filesystem::path folder;
};

// ---- streams

constexpr std::string_view kChat =
    R"({"model":"chat","stream":true,"messages":[{"role":"user","content":"h\u00e9 [\"]"}]})";

TEST_F(DoorsTest, AChatGoesThroughPieceByPiece) {
  open();
  backend.at_once = false;
  RawClient one = client();
  one.send(request("POST /v1/chat/completions", std::string(kChat)));
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  const std::span<char> slot = backend.input(backend.last, 0, 0);
  std::uint64_t length = 0;
  std::memcpy(&length, slot.data(), sizeof length);
  ASSERT_EQ(std::string_view(slot.data() + 8, length), kChat);

  auto& completion = backend.requests.at(backend.last).completion;
  completion.piece(
      {.http_status = 200, .content_type = "text/event-stream", .bytes = "data: 1\n\n"});
  ASSERT_TRUE(one.wait([&] { return one.input().find("data: 1\n\n") != std::string::npos; }));
  EXPECT_EQ(one.input().find("data: 2"), std::string::npos);
  completion.piece({.bytes = "data: 2\n\n"});
  completion.piece({.bytes = "data: [DONE]\n\n", .last = true});
  backend.finish(backend.last, std::nullopt);
  const auto answer = one.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Type"), "text/event-stream");
  EXPECT_EQ(answer.body, "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
  one.send(get("/v2/health/live"));
  EXPECT_EQ(one.answer().status, 200);  // the connection goes on
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(DoorsTest, AStreamThatBreaksHasNoEnd) {
  open();
  backend.at_once = false;
  RawClient one = client();
  one.send(request("POST /v1/completions", R"({"prompt":"x","model":"chat"})"));
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  backend.requests.at(backend.last).completion.piece({.http_status = 200, .bytes = "abc"});
  backend.finish(backend.last, Denial{Denial::Kind::failed, "its worker died", 0});
  EXPECT_TRUE(one.closed());
  EXPECT_NE(one.input().find("abc"), std::string::npos);
  EXPECT_EQ(one.input().find("\r\n0\r\n"), std::string::npos);
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(DoorsTest, AClientThatFetchesNothingLosesItsStream) {
  FrontOptions options;
  options.limits.stream_bytes = 1 << 20;
  open(options);
  backend.at_once = false;
  RawClient one(*loop, front->port(), 4096);
  one.send(request("POST /v1/chat/completions", std::string(kChat)));
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  const RequestId id = backend.last;
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 200 && backend.requests.contains(id); ++i) {
    const auto give = backend.requests.at(id).completion.piece;
    give({.http_status = 200, .bytes = piece});
    one.turn();
  }
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(DoorsTest, AClientThatSendsNothingMoreGetsItsAnswer) {
  open();
  backend.at_once = false;
  for (const bool streams : {false, true}) {
    RawClient one = client();
    one.send(streams ? request("POST /v1/completions", R"({"prompt":"x","model":"chat"})")
                     : request("POST /v2/models/pair/infer", test::kPairBody));
    ASSERT_TRUE(one.wait([&] { return backend.requests.size() == 1; }));
    if (streams) backend.requests.at(backend.last).completion.piece({.bytes = "abc"});
    ::shutdown(one.fd(), SHUT_WR);
    for (int i = 0; i < 20; ++i) one.turn();
    ASSERT_EQ(backend.requests.size(), 1U);
    if (streams) {
      backend.requests.at(backend.last).completion.piece({.bytes = "def"});
      backend.finish(backend.last, std::nullopt);
      EXPECT_EQ(one.answer().body, "abcdef");
    } else {
      backend.compute(backend.last);
      backend.finish(backend.last, std::nullopt);
      EXPECT_EQ(one.answer().status, 100);
      EXPECT_EQ(json::parse(one.answer().body)["outputs"].size(), 2U);
    }
    EXPECT_TRUE(one.closed());
    RawClient gone = client();
    gone.send(request("POST /v2/models/pair/infer", test::kPairBody));
    ASSERT_TRUE(gone.wait([&] { return backend.requests.size() == 1; }));
    gone.leave();
    RawClient waits = client();
    EXPECT_TRUE(waits.wait([&] { return backend.requests.empty(); }));
  }
}

// HTTP/1.0 knows no interim answer: whether its client listens is asked by the answer's first
// letter.
TEST_F(DoorsTest, AClientOfHttp10ThatSendsNothingMoreGetsItsAnswer) {
  open();
  backend.at_once = false;
  const auto old = [](std::string text) {
    return text.replace(text.find("HTTP/1.1"), 8, "HTTP/1.0");
  };
  for (const bool streams : {false, true}) {
    const std::string asks =
        old(streams ? request("POST /v1/completions", R"({"prompt":"x","model":"chat"})")
                    : request("POST /v2/models/pair/infer", test::kPairBody));
    RawClient one = client();
    one.send(asks);
    ASSERT_TRUE(one.wait([&] { return backend.requests.size() == 1; }));
    ::shutdown(one.fd(), SHUT_WR);
    for (int i = 0; i < 20; ++i) one.turn();
    ASSERT_EQ(backend.requests.size(), 1U);
    if (streams)
      backend.requests.at(backend.last).completion.piece({.http_status = 200, .bytes = "abcdef"});
    else
      backend.compute(backend.last);
    backend.finish(backend.last, std::nullopt);
    EXPECT_TRUE(one.closed());
    const std::string text = one.input(), body = text.substr(text.find("\r\n\r\n") + 4);
    EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n")) << text;
    EXPECT_EQ(text.rfind("HTTP/"), 0U) << text;
    if (streams)
      EXPECT_EQ(body, "abcdef");
    else
      EXPECT_EQ(json::parse(body)["outputs"].size(), 2U);
    RawClient gone = client();
    gone.send(asks);
    ASSERT_TRUE(gone.wait([&] { return backend.requests.size() == 1; }));
    gone.leave();
    RawClient waits = client();
    EXPECT_TRUE(waits.wait([&] { return backend.requests.empty(); }));
  }
}

TEST_F(DoorsTest, ChatRefusalsHaveOpenaisForm) {
  open();
  const auto post = [&](const std::string& body) {
    return ask(request("POST /v1/chat/completions", body));
  };
  const auto nobody = post(R"({"model":"nobody"})");
  EXPECT_EQ(nobody.status, 404);
  EXPECT_EQ(json::parse(nobody.body)["error"]["message"], "there is no model 'nobody'");
  EXPECT_EQ(post(R"({"model":"pair"})").status, 400);
  EXPECT_EQ(post("{}").status, 400);
  EXPECT_EQ(post("[").status, 400);
  backend.denial = Denial{Denial::Kind::overloaded, "full", 100};
  const auto full = post(std::string(kChat));
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.header("Retry-After"), "1");
  RawClient one = client();
  one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_EQ(one.answer().status, 413);
}

// ---- tokens and addresses

TEST_F(DoorsTest, TokensSayWhoMayUseWhat) {
  FrontOptions options;
  options.tokens =
      parse_tokens("tokens", "# ours\npair-pair-pair-pair pair\nall-all-all-all-all *\n").value();
  open(options);
  const std::string pair = "Authorization: Bearer pair-pair-pair-pair\r\n";
  const std::string all = "Authorization: bearer all-all-all-all-all\r\n";
  const auto status = [&](const std::string& path, const std::string& headers) {
    return ask(get(path, headers)).status;
  };
  EXPECT_EQ(status("/v2/health/live", ""), 200);
  EXPECT_EQ(status("/v2/health/ready", ""), 200);
  EXPECT_EQ(status("/v2", ""), 401);
  EXPECT_EQ(status("/v2", "Authorization: Bearer pair-pair-pair-pais\r\n"), 401);
  EXPECT_EQ(status("/v2", "Authorization: Bearer pair-pair-pair-pairx\r\n"), 401);
  EXPECT_EQ(status("/v2", "Authorization: Basic pair-pair-pair-pair\r\n"), 401);
  EXPECT_EQ(status("/v2", pair), 200);
  EXPECT_EQ(status("/v2/models/pair", pair), 200);
  EXPECT_EQ(status("/v2/models/chat", pair), 403);
  EXPECT_EQ(status("/v2/models/chat", all), 200);
  EXPECT_EQ(status("/metrics", pair), 403);
  EXPECT_EQ(status("/metrics", all), 200);
  EXPECT_EQ(status("/v2/systemsharedmemory/status", pair), 403);
  const auto chat = [&](const std::string& headers) {
    return ask(request("POST /v1/chat/completions", std::string(kChat), headers)).status;
  };
  EXPECT_EQ(chat(pair), 403);
  const json stats = json::parse(ask(get("/v2/models/stats", pair)).body)["model_stats"];
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_EQ(stats[0]["name"], "pair");
  EXPECT_EQ(backend.admissions, 0);
}

TEST(TokensTest, FaultsAreNamedWithTheirLine) {
  const auto fault = [](std::string_view text) {
    const auto tokens = parse_tokens("f", text);
    return tokens ? std::string() : to_string(tokens.error());
  };
  EXPECT_EQ(fault(""), "f: there is no token in it");
  EXPECT_EQ(fault("# x\nshort *"), "f:2: a token has 16 to 512 characters");
  EXPECT_EQ(fault("0123456789abcdef"), "f:1: after the token come its services, or '*' for all");
  EXPECT_EQ(fault("0123456789abcdef *\n\n0123456789abcdef x"), "f:3: this token was said before");
  EXPECT_EQ(fault("0123456789abcdef b a # comment"), "");
  EXPECT_EQ(fault("0123456789abcdef b weight=0"),
            "f:1: after weight= comes a number from 1 on, not '0'");
  EXPECT_EQ(fault("0123456789abcdef b priority=9"),
            "f:1: after priority= comes a number from -8 to 8, not '9'");
  EXPECT_EQ(fault("0123456789abcdef b priority=-8 weight=2"), "");
  // A limit that is lost is found out too late.
  EXPECT_EQ(fault("0123456789abcdef b at_once=2"),
            "f:1: unknown limit 'at_once='; did you mean 'at-once='? (there are rpm=, tpm=, "
            "rps=, bytes=, at-once=, weight=, priority=)");
  EXPECT_NE(fault("0123456789abcdef b RPS=2"), "");
  EXPECT_EQ(fault("0123456789abcdef b rps=1 rps=2"), "f:1: rps= is said twice");
}

TEST(TokensTest, AreFoundHoweverManyTheyAre) {
  for (const int count : {1, 8, 9, 500}) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("secret-of-number-{:03} s{}\n", i, i);
    const Tokens tokens = parse_tokens("f", text).value();
    for (const int i : {0, count / 2, count - 1}) {
      const Token* found = tokens.find(fmt::format("Bearer secret-of-number-{:03}", i));
      ASSERT_NE(found, nullptr) << count;
      EXPECT_EQ(found->services, std::vector{fmt::format("s{}", i)});
      EXPECT_EQ(found->name, fmt::format("token {}", i + 1));
    }
    EXPECT_EQ(tokens.find("Bearer secret-of-number-"), nullptr);
    EXPECT_EQ(tokens.find("Basic secret-of-number-000"), nullptr);
    EXPECT_EQ(tokens.find(""), nullptr);
  }
}

TEST_F(DoorsTest, AnOpenAddressNeedsTlsAndTokens) {
  const auto fault = [&](const FrontOptions& options) {
    const auto opened = Front::open(*loop, backend, options);
    return opened ? std::string() : to_string(opened.error());
  };
  EXPECT_EQ(fault({.listen = "0.0.0.0:0"}),
            "0.0.0.0:0: others can reach this address: it needs a certificate with its key and a "
            "tokens file; without them, listen on 127.0.0.1");
  EXPECT_NE(fault({.listen = "0.0.0.0:0", .tls_certificate = "c", .tls_key = "k"}), "");
  EXPECT_EQ(fault({.listen = "localhost:0"}), "");
  EXPECT_EQ(fault({.listen = "127.0.0.1:65536"}), "127.0.0.1:65536: a port is from 0 to 65535");
  EXPECT_NE(fault({.listen = "8000"}), "");
  EXPECT_TRUE(parse_listen_address("[::1]:80").value().loopback);
}

// ---- TLS

TEST_F(DoorsTest, TheSameRequestsGoThroughTls) {
  const partita::test::Certificate files = partita::test::make_certificate(folder);
  FrontOptions options;
  options.tls_certificate = files.certificate;
  options.tls_key = files.key;
  open(options);
  backend.add({.name = "wide",
               .platform = "null",
               .inputs = {{"x", DataType::uint8, {300'000}}},
               .outputs = {{"y", DataType::uint8, {300'000}}}});
  backend.compute = [this](RequestId id) {
    const auto in = backend.input(id, 0, 0);
    std::memcpy(backend.output_place(id, 0, 0).data(), in.data(), in.size());
  };
  RawClient one = client();
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* tls = SSL_new(context);
  SSL_set_fd(tls, one.fd());
  SSL_set_connect_state(tls);
  std::string input;
  const auto pump = [&](auto&& act, auto&& until) {
    const std::int64_t end = Loop::now_ns() + test::kPatience;
    while (!until() && Loop::now_ns() < end) {
      act();
      one.turn();
    }
    return until();
  };
  std::string data(300'000, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 % 251);
  const std::string head =
      R"({"parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[1,300000],)"
      R"("datatype":"UINT8","parameters":{"binary_data_size":300000}}]})";
  std::string bytes =
      get("/v2/health/live") +
      request("POST /v2/models/wide/infer", head + data,
              "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
  const auto write = [&] {
    const int count =
        SSL_write(tls, bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), 16'000)));
    if (count > 0) bytes.erase(0, static_cast<std::size_t>(count));
  };
  EXPECT_TRUE(pump(write, [&] { return bytes.empty(); }));
  const auto read = [&] {
    char some[32'768];
    const int count = SSL_read(tls, some, sizeof some);
    if (count > 0) input.append(some, static_cast<std::size_t>(count));
  };
  EXPECT_TRUE(pump(read, [&] { return input.size() > 300'000; }));
  EXPECT_GE(SSL_version(tls), TLS1_2_VERSION);
  EXPECT_TRUE(pump(read, [&] { return input.ends_with(std::string_view(data).substr(290'000)); }));
  EXPECT_EQ(input.substr(input.size() - data.size()), data);
  SSL_free(tls);
  SSL_CTX_free(context);
  RawClient plain = client();  // no TLS: no answer, and no harm
  plain.send(get("/v2/health/live"));
  EXPECT_TRUE(plain.closed());
}

TEST_F(DoorsTest, OldSuitesAndVersionsOfTlsAreNotSpoken) {
  const auto files = partita::test::make_certificate(folder, "rsa", true);
  const auto server = TlsServer::make(files.certificate, files.key);
  ASSERT_TRUE(server) << to_string(server.error());
  using partita::test::agreed_suite;
  SSL_CTX* const ours = (*server)->context();
  EXPECT_EQ(agreed_suite(ours, "ECDHE-RSA-AES128-GCM-SHA256"), "ECDHE-RSA-AES128-GCM-SHA256");
  EXPECT_NE(agreed_suite(ours, "", TLS1_3_VERSION), "");
  for (const char* suites : {"kRSA", "AES128-GCM-SHA256", "AES256-SHA", "ECDHE-RSA-AES128-SHA256",
                             "ECDHE-RSA-AES256-SHA", "DHE-RSA-AES128-SHA"})
    EXPECT_EQ(agreed_suite(ours, suites), "") << suites;
  EXPECT_EQ(agreed_suite(ours, "ALL:@SECLEVEL=0", TLS1_1_VERSION), "");
}

TEST_F(DoorsTest, AKeyThatOthersMayReadIsRefusedWithTheCommandThatMendsIt) {
  const auto files = partita::test::make_certificate(folder);
  for (const int mode : {0644, 0666, 0602, 0620}) {
    std::filesystem::permissions(files.key, static_cast<std::filesystem::perms>(mode));
    const auto server = TlsServer::make(files.certificate, files.key);
    ASSERT_FALSE(server) << mode;
    EXPECT_EQ(server.error().context, files.key);
    EXPECT_NE(server.error().message.find("chmod 600 " + files.key), std::string::npos)
        << server.error().message;
  }
  for (const int mode : {0600, 0400, 0640}) {  // a group of its own may read
    std::filesystem::permissions(files.key, static_cast<std::filesystem::perms>(mode));
    EXPECT_TRUE(TlsServer::make(files.certificate, files.key)) << mode;
  }
}

TEST_F(DoorsTest, ACertificateThatCannotBeUsedIsNamed) {
  const partita::test::Certificate files = partita::test::make_certificate(folder);
  FrontOptions options{
      .listen = "127.0.0.1:0", .tls_certificate = "/nowhere", .tls_key = files.key};
  EXPECT_EQ(Front::open(*loop, backend, options).error().context, "/nowhere");
  options.tls_certificate = files.certificate;
  options.tls_key = files.certificate;
  EXPECT_EQ(Front::open(*loop, backend, options).error().context, files.certificate);
}

// ---- shared memory

class SharedFile {
 public:
  explicit SharedFile(const std::string& text)
      : name("partita-front-test-" + std::to_string(::getpid())) {
    fd_ = ::shm_open(("/" + name).c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
    EXPECT_EQ(::pwrite(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  ~SharedFile() {
    ::shm_unlink(("/" + name).c_str());
    ::close(fd_);
  }
  void truncate(off_t bytes) { EXPECT_EQ(::ftruncate(fd_, bytes), 0); }
  std::string read(off_t at, std::size_t bytes) {
    std::string text(bytes, '?');
    EXPECT_EQ(::pread(fd_, text.data(), bytes, at), static_cast<ssize_t>(bytes));
    return text;
  }
  const std::string name;

 private:
  int fd_;
};

TEST_F(DoorsTest, CudaSharedMemoryIsRefusedByName) {
  open();
  const std::string base = "POST /v2/cudasharedmemory/";
  EXPECT_EQ(ask(get("/v2/cudasharedmemory/status")).body, "[]");
  EXPECT_EQ(ask(get("/v2/cudasharedmemory/region/r/status")).status, 400);
  const auto refused = ask(request(base + "region/r/register", "{}"));
  EXPECT_EQ(refused.status, 501);
  EXPECT_NE(refused.body.find("CUDA shared memory"), std::string::npos) << refused.body;
  EXPECT_EQ(ask(request(base + "region/r/unregister", "")).status, 200);
  EXPECT_EQ(ask(request(base + "unregister", "")).status, 200);
  EXPECT_EQ(ask(request(base + "register", "{}")).status, 404);
}

TEST_F(DoorsTest, TensorsGoThroughSharedMemory) {
  open();
  std::string bytes(200, '\0');
  const std::vector<float> x = {1, 2, 3, 4};
  const std::vector<std::int32_t> k = {5, 6};
  std::memcpy(bytes.data() + 8, x.data(), 16);
  std::memcpy(bytes.data() + 24, k.data(), 8);
  SharedFile file(bytes);
  const std::string base = "POST /v2/systemsharedmemory/region/r/";
  const auto wanted = [&](int size) {
    return R"({"key":"/)" + file.name + R"(","offset":8,"byte_size":)" + std::to_string(size) + "}";
  };
  EXPECT_EQ(ask(request(base + "register", wanted(193))).status, 400);  // past the end
  EXPECT_EQ(ask(request(base + "register", R"({"key":"../passwd","byte_size":1})")).status, 400);
  ASSERT_EQ(ask(request(base + "register", wanted(192))).status, 200);
  EXPECT_EQ(ask(request(base + "register", wanted(192))).status, 400);  // taken
  EXPECT_EQ(json::parse(ask(get("/v2/systemsharedmemory/status")).body)[0]["byte_size"], 192);

  const std::string infer = request("POST /v2/models/pair/infer", R"({"inputs":[
    {"name":"x","shape":[1,4],"datatype":"FP32","parameters":{"shared_memory_region":"r",
     "shared_memory_byte_size":16}},
    {"name":"k","shape":[1,2],"datatype":"INT32","parameters":{"shared_memory_region":"r",
     "shared_memory_byte_size":8,"shared_memory_offset":16}}],"outputs":[
    {"name":"twice","parameters":{"shared_memory_region":"r","shared_memory_byte_size":16,
     "shared_memory_offset":100}},{"name":"next"}]})");
  const auto answer = ask(infer);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["outputs"][1]["data"], json::parse("[6,7]"));
  const std::vector<float> twice = {2, 4, 6, 8};
  const std::string written = file.read(108, 16);
  EXPECT_EQ(std::memcmp(written.data(), twice.data(), 16), 0);

  // Unregistered while a request holds it: the request is served.
  backend.at_once = false;
  RawClient one = client();
  one.send(infer);
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 2; }));
  EXPECT_EQ(ask(request(base + "unregister", "")).status, 200);
  test::compute_pair(backend, backend.last);
  backend.finish(backend.last, std::nullopt);
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(ask(infer).status, 400);
  // A file that its owner has made shorter is an error, for him.
  ASSERT_EQ(ask(request(base + "register", wanted(192))).status, 200);
  file.truncate(20);
  const auto shorter = ask(infer);
  EXPECT_EQ(shorter.status, 400);
  EXPECT_NE(shorter.body.find("has become shorter"), std::string::npos);
  EXPECT_TRUE(backend.requests.empty());
}

// ---- the access log

std::vector<json> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_F(DoorsTest, EveryAnswerIsALineOfTheAccessLog) {
  FrontOptions options;
  options.access_log.file = folder / "access.log";
  open(options);
  ask(request("POST /v2/models/pair/infer?x=1",
              R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]},
                            {"name":"k","shape":[1,2],"datatype":"INT32","data":[1,2]}]})",
              "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"));
  ask(get("/v2/models/\"no\""));
  front.reset();
  const auto lines = lines_of(options.access_log.file);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["method"], "POST");
  EXPECT_EQ(lines[0]["path"], "/v2/models/pair/infer");
  EXPECT_EQ(lines[0]["service"], "pair");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[0]["items"], 1);
  EXPECT_EQ(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(lines[0]["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  EXPECT_GT(lines[0]["bytes_out"], 100);
  EXPECT_EQ(lines[1]["path"], "/v2/models/\"no\"");
  EXPECT_EQ(lines[1]["status"], 404);
  EXPECT_FALSE(lines[1].contains("trace_id"));
}

// A request without a trace gets none, unless the options say so.
TEST_F(DoorsTest, TracesAreMadeOnlyWhereAskedFor) {
  const std::string body =
      R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]},
                    {"name":"k","shape":[1,2],"datatype":"INT32","data":[1,2]}]})";
  std::set<std::string> made;
  for (const bool asked : {false, true}) {
    FrontOptions options;
    options.access_log.file = folder / (asked ? "made.log" : "none.log");
    options.new_traces = asked;
    open(options);
    ask(request("POST /v2/models/pair/infer", body));
    ask(request("POST /v2/models/pair/infer", body, "traceparent: 00-aa-bb-01\r\n"));
    ask(get("/v2/models/pair"));
    front.reset();
    const auto lines = lines_of(options.access_log.file);
    ASSERT_EQ(lines.size(), 3u);
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(lines[i].contains("traceparent"), asked);
      if (!asked) continue;
      const std::string parent = lines[i]["traceparent"];
      EXPECT_EQ(trace_context(parent, "").parent, parent);  // one that others understand
      made.insert(lines[i]["trace_id"]);
    }
    EXPECT_FALSE(lines[2].contains("traceparent"));  // no inference
  }
  EXPECT_EQ(made.size(), 2u);
}

TEST_F(DoorsTest, TheAccessLogTurnsOverAndKeepsABoundedNumber) {
  const AccessLogOptions options{.file = folder / "log", .rotate_bytes = 4096, .keep = 2};
  {
    const auto log = AccessLog::open(options).value();
    for (int i = 0; i < 100; ++i) {
      log->add({.client = "c", .method = "GET", .path = "/", .status = i});
      log->flush();
    }
    EXPECT_EQ(log->dropped(), 0u);
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    EXPECT_LE(entry.file_size(), 4096u);
  }
  EXPECT_EQ(files, 3);
  EXPECT_EQ(lines_of(options.file).back()["status"], 99);
  const auto before = lines_of(options.file.c_str() + std::string(".1"));
  EXPECT_EQ(before.back()["status"], lines_of(options.file)[0]["status"].get<int>() - 1);
}

// ---- many connections, the end

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST_F(DoorsTest, IdleConnectionsAreCheap) {
  raise_descriptor_limit();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t wanted = std::min<std::size_t>(500, (limit.rlim_cur - 100) / 2);
  FrontOptions options;
  options.limits.connections = wanted + wanted / 8;  // more than one address gets alone
  open(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  const auto add = [&] { clients.push_back(std::make_unique<RawClient>(*loop, front->port())); };
  for (std::size_t i = 0; i < 100; ++i) add();
  const std::size_t before = resident_bytes();
  for (std::size_t i = 100; i < wanted; ++i) {
    add();
    if (i % 64 == 0) clients.back()->turn();
  }
  ASSERT_TRUE(clients.back()->wait([&] { return front->connections() == wanted; }));
  const std::size_t each = (resident_bytes() - before) / (wanted - 100);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // their shadow memory counts
  EXPECT_LE(each, 16'384u);
#else
  EXPECT_LE(each, 4096u);
#endif
  for (auto& one : clients) one->send_now(get("/v2/health/live"));
  for (auto& one : clients) ASSERT_EQ(one->answer().status, 200);
}

TEST_F(DoorsTest, DrainEndsIdleConnectionsAndLetsOthersHaveTheirAnswer) {
  open();
  backend.at_once = false;
  RawClient idle = client(), busy = client();
  idle.send(get("/v2/health/live"));
  EXPECT_EQ(idle.answer().status, 200);
  busy.send(request("POST /v1/chat/completions", std::string(kChat)));
  ASSERT_TRUE(busy.wait([&] { return backend.submissions == 1; }));
  const int port = front->port();
  front->drain();
  EXPECT_TRUE(idle.closed());
  RawClient late(*loop, port);
  EXPECT_TRUE(late.closed());
  backend.requests.at(backend.last).completion.piece({.http_status = 200, .bytes = "x"});
  backend.finish(backend.last, std::nullopt);
  const auto answer = busy.answer();
  EXPECT_EQ(answer.body, "x");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_TRUE(busy.closed());
}

}  // namespace
}  // namespace partita::serve
