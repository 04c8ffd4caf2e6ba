#include "api/client.h"

#include <gtest/gtest.h>

#include <fstream>

#include "api/documents.h"
#include "api/exchanges.h"
#include "api/testing/server_fixture.h"
#include "base/testing/test_certificate.h"

namespace partita::api {
namespace {

class ClientTest : public test::ServerFixture {
 protected:
  Result<std::string> call(const std::string& where, ClientOptions options, std::string_view id,
                           const std::string& part = {}, const std::string& body = {}) {
    const auto place = TRY(parse_server_place("--server", where));
    const auto client = TRY(Client::to(place, std::move(options), clock));
    return client.call(id, part, body);
  }
  RealClock clock;
};

TEST_F(ClientTest, PlacesAreReadOrRefused) {
  EXPECT_EQ(parse_server_place("s", "unix:/a/b").value().socket, "/a/b");
  EXPECT_EQ(parse_server_place("s", "https://node:1").value().url, "https://node:1");
  for (const char* wrong : {"", "unix:", "unix:a", "ftp://a", "node:1", "http://"})
    EXPECT_FALSE(parse_server_place("s", wrong)) << wrong;
}

TEST_F(ClientTest, CallsGoOverTheSocketAndOverTcp) {
  ServerOptions options = with_tokens();
  options.socket = folder / "api.sock";
  start(options);
  for (const std::string& where : server->addresses()) {
    const auto state = call(where, {.token = "secret-admin"}, "state");
    ASSERT_TRUE(state) << to_string(state.error());
    EXPECT_EQ(control::parse_snapshot("s", *state).value(), *agent.snapshot());
    const auto done =
        call(where, {.token = "secret-admin"}, "take_out", "GPU-1/x", R"({"why": "fan"})");
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(parse_receipt("r", *done).value().change, 3);
  }
  const auto asked = agent.asked();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(std::get<control::TakeOut>(asked[0].request).gpu_uuid, "GPU-1/x");
  EXPECT_EQ(std::get<control::TakeOut>(asked[0].request).why, "fan");
}

TEST_F(ClientTest, RefusalsAreThoseOfTheServer) {
  start(with_tokens());
  const auto code = [&](const Result<std::string>& got) { return got.error().code; };
  EXPECT_EQ(code(call(address, {}, "state")), ErrorCode::denied);
  EXPECT_EQ(code(call(address, {.token = "secret-viewer"}, "replan")), ErrorCode::denied);
  const auto wrong = call(address, {.token = "secret-admin"}, "set_services", "", "x");
  EXPECT_EQ(wrong.error().code, ErrorCode::bad_input);
  EXPECT_EQ(to_string(wrong.error()), "services:1: a list of services is wanted");
  EXPECT_EQ(code(call(address, {.token = "secret-admin"}, "change", "99")), ErrorCode::not_found);
  server->stop();
  EXPECT_EQ(code(call(address, {}, "health")), ErrorCode::environment);
  const std::string unserved = folder / "unserved";
  EXPECT_EQ(code(call("unix:" + unserved, {}, "health")), ErrorCode::lost);
  std::ofstream{unserved} << "no socket";
  EXPECT_EQ(code(call("unix:" + unserved, {}, "health")), ErrorCode::lost);
}

TEST_F(ClientTest, ATokenIsNotSentInTheClearToOthers) {
  EXPECT_EQ(call("http://10.255.255.1:1", {.token = "secret"}, "health").error().code,
            ErrorCode::bad_input);
  EXPECT_EQ(call("http://127.0.0.1:1", {.token = "a\r\nb"}, "health").error().code,
            ErrorCode::bad_input);
}

TEST_F(ClientTest, CertificatesOfClientsHaveRoles) {
  using partita::test::make_certificate;
  const auto own = make_certificate(folder), ops = make_certificate(folder, "ops"),
             other = make_certificate(folder, "other"), stranger = make_certificate(folder, "bad");
  ServerOptions options = plain();
  options.listen = "localhost:0";
  options.tls_certificate = own.certificate;
  options.tls_key = own.key;
  // Both are trusted; only one has a role.
  std::ifstream a(ops.certificate), b(other.certificate);
  options.client_ca = write("ca.pem", std::string(std::istreambuf_iterator<char>(a), {}) +
                                          std::string(std::istreambuf_iterator<char>(b), {}));
  options.client_roles = write("roles", "ops:operator\n");
  start(options);
  const auto as = [&](const partita::test::Certificate& who, std::string_view id) {
    return call(address,
                {.ca_file = own.certificate, .certificate = who.certificate, .key = who.key}, id);
  };
  const auto done = as(ops, "replan");
  EXPECT_TRUE(done) << to_string(done.error());
  EXPECT_EQ(agent.asked().at(0).user, "certificate ops");
  EXPECT_EQ(as(other, "state").error().code, ErrorCode::denied);
  EXPECT_EQ(as(stranger, "state").error().code, ErrorCode::environment);  // no handshake
  const auto nobody = call(address, {.ca_file = own.certificate}, "state");
  EXPECT_EQ(nobody.error().code, ErrorCode::denied);
  EXPECT_TRUE(call(address, {.ca_file = own.certificate}, "health"));
}

TEST_F(ClientTest, EventsAreTheSameHoweverTheyAreCut) {
  const std::vector<StreamEvent> wanted = {{"state", "a-1", "{\n  \"x\": 1\n}"},
                                           {"state", "a-2", ""}};
  std::string text = "retry: 2000\n\n:\n\n" + event_text("state", "a-1", wanted[0].data + "\n") +
                     "id: none\n\nevent: state\r\nid:a-2\r\ndata\r\n\r\nevent: state\ndata: cut";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    EventReader reader;
    std::vector<StreamEvent> all;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      const auto some = reader.take(std::string_view(text).substr(at, piece));
      ASSERT_TRUE(some.has_value());
      all.insert(all.end(), some->begin(), some->end());
    }
    EXPECT_EQ(all, wanted) << piece;
  }
}

TEST_F(ClientTest, AStreamGoesOnWhenTheServerIsBack) {
  ServerOptions options;
  options.socket = folder / "api.sock";
  start(options);
  const auto client = Client::to({.socket = options.socket}, {}, clock);
  std::vector<long> versions;
  int lost = 0;
  const Client::Following following{
      .take =
          [&](const StreamEvent& event) {
            versions.push_back(control::parse_snapshot("s", event.data).value().version);
            control::Snapshot next = test::fake_snapshot();
            next.version = versions.back() + 1;
            agent.set(next);
            if (versions.size() == 2) server->stop();
            return versions.size() < 4;
          },
      .stopped = [](std::int64_t) { return false; },  // so waits are none
      .lost =
          [&](const Error&, std::int64_t wait_ns) {
            EXPECT_GT(wait_ns, 0);
            if (++lost == 1) start(options);
          }};
  const auto done = client->follow(following);
  EXPECT_TRUE(done.has_value());
  EXPECT_GE(lost, 1);
  ASSERT_EQ(versions.size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(versions));
  EXPECT_GT(versions.back(), versions.front());
}

TEST_F(ClientTest, AStreamThatMayNotBeOrNeverWasIsAnError) {
  start(with_tokens());
  const auto follow = [&](const ServerPlace& place) {
    return Client::to(place, {}, clock)
        ->follow({.take = [](const StreamEvent&) { return true; },
                  .stopped = [](std::int64_t) { return false; },
                  .lost = [](const Error&, std::int64_t) { ADD_FAILURE(); }});
  };
  EXPECT_EQ(follow({.url = address}).error().code, ErrorCode::denied);
  EXPECT_EQ(follow({.socket = folder / "none.sock"}).error().code, ErrorCode::environment);
}

}  // namespace
}  // namespace partita::api
