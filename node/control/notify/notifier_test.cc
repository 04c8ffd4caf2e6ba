#include "control/notify/notifier.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "control/notify/testing/little_server.h"

namespace partita::notify {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Patience kQuick{.first_pause_ms = 5, .longest_pause_ms = 20};

// Until it is so, at most for 20 s.
bool eventually(const std::function<bool()>& so) {
  const auto until = Clock::now() + std::chrono::seconds(20);
  while (!so()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Notice notice_of(const std::string& subject, Alarm alarm = Alarm::failed_change) {
  return {alarm, 1767225600000, "node-1", subject, 7, "something about " + subject};
}

Receiver hook(const std::string& url, int tries = 4) {
  return {.name = "hook", .how = Webhook{url}, .timeout_s = 5, .tries = tries, .quiet_s = 0};
}

std::string body_of(const std::string& request) {
  const auto at = request.find("\r\n\r\n");
  return at == request.npos ? "" : request.substr(at + 4);
}

class NotifierTest : public testing::Test {
 protected:
  NotifierTest() {
    std::string name = (std::filesystem::temp_directory_path() / "partita-tell-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~NotifierTest() override { std::filesystem::remove_all(folder); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(folder / name) << content;
    return folder / name;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder / name).rdbuf();
    return text.str();
  }
  std::filesystem::path folder;
};

TEST_F(NotifierTest, PostsTheDocument) {
  LittleServer server([](int) { return 204; });
  Receiver receiver = hook(server.url());
  std::get<Webhook>(receiver.how).token_file = file("token", "s3cret\n");
  std::filesystem::permissions(folder / "token", static_cast<std::filesystem::perms>(0600));
  Notifier notifier({receiver}, kQuick);
  notifier.tell(notice_of("chat"));
  ASSERT_TRUE(eventually([&] { return notifier.idle(); }));
  const auto reports = notifier.reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_TRUE(reports[0].told) << reports[0].why;
  EXPECT_EQ(reports[0].tries, 1);
  ASSERT_EQ(server.requests().size(), 1U);
  const std::string request = server.requests()[0];
  EXPECT_TRUE(request.starts_with("POST /hook HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("\r\nContent-Type: application/json\r\n"), request.npos);
  EXPECT_NE(request.find("\r\nAuthorization: Bearer s3cret\r\n"), request.npos);
  EXPECT_NE(request.find("\r\nHost: 127.0.0.1:" + std::to_string(server.port) + "\r\n"),
            request.npos);
  EXPECT_EQ(parse_notice("body.json", body_of(request)).value(), notice_of("chat"));
  EXPECT_TRUE(notifier.reports().empty());
}

TEST_F(NotifierTest, TriesAgainUntilItIsTold) {
  LittleServer server([](int n) { return n == 0 ? 500 : n == 1 ? 0 : n == 2 ? 429 : 200; });
  Notifier notifier({hook(server.url())}, kQuick);
  notifier.tell(notice_of("chat"));
  ASSERT_TRUE(eventually([&] { return notifier.idle(); }));
  const auto reports = notifier.reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_TRUE(reports[0].told) << reports[0].why;
  EXPECT_EQ(reports[0].tries, 4);
  for (const std::string& request : server.requests())
    EXPECT_EQ(parse_notice("b.json", body_of(request)).value(), notice_of("chat"));
}

TEST_F(NotifierTest, GivesUpWhereItIsOurFaultAndAfterAllTries) {
  LittleServer refuses([](int) { return 404; });
  LittleServer fails([](int) { return 503; });
  Receiver second = hook(fails.url(), 3);
  second.name = "second";
  Notifier notifier({hook(refuses.url()), second}, kQuick);
  notifier.tell(notice_of("chat"));
  ASSERT_TRUE(eventually([&] { return notifier.idle(); }));
  std::map<std::string, Report> by_name;
  for (const Report& report : notifier.reports()) by_name[report.receiver] = report;
  EXPECT_FALSE(by_name["hook"].told);
  EXPECT_EQ(by_name["hook"].tries, 1);
  EXPECT_NE(by_name["hook"].why.find("404"), std::string::npos);
  EXPECT_FALSE(by_name["second"].told);
  EXPECT_EQ(by_name["second"].tries, 3);
}

TEST_F(NotifierTest, NeverBlocksAndAStuckReceiverHoldsUpNobodyElse) {
  LittleServer stuck([](int) { return -1; });
  LittleServer well([](int) { return 200; });
  Receiver first = hook(stuck.url(), 1), second = hook(well.url());
  first.timeout_s = 0.5;
  second.name = "well";
  Notifier notifier({first, second}, kQuick);
  constexpr int kMany = 300;
  const auto begin = Clock::now();
  for (int n = 0; n < kMany; ++n) notifier.tell(notice_of(std::to_string(n)));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));  // less than five timeouts of 300
  int told = 0, dropped = 0;
  const auto count = [&] {
    for (const Report& report : notifier.reports()) {
      if (report.receiver == "well") told += report.told;
      if (report.receiver == "hook") dropped += report.tries == 0;
    }
  };
  // What the quick one did not get was above the bound of its queue.
  ASSERT_TRUE(eventually([&] {
    count();
    return told >= static_cast<int>(kMaxQueued);
  }));
  EXPECT_GE(dropped, kMany - static_cast<int>(kMaxQueued) - 2);
}

TEST_F(NotifierTest, TellsOnlyOfWhatIsWantedAndNotTheSameAllTheTime) {
  LittleServer server([](int) { return 200; });
  Receiver receiver = hook(server.url());
  receiver.alarms = {Alarm::gpu_out, Alarm::slo_at_risk};
  receiver.quiet_s = 3600;
  Notifier notifier({receiver}, kQuick);
  for (int n = 0; n < 3; ++n) {
    notifier.tell(notice_of("chat", Alarm::slo_at_risk));
    notifier.tell(notice_of("search", Alarm::slo_at_risk));
    notifier.tell(notice_of("chat", Alarm::failed_change));
    notifier.tell(notice_of("chat", Alarm::gpu_out));
  }
  ASSERT_TRUE(eventually([&] { return notifier.idle(); }));
  std::vector<std::string> got;
  for (const std::string& request : server.requests()) {
    const Notice one = parse_notice("b.json", body_of(request)).value();
    got.push_back(std::string(to_string(one.alarm)) + " " + one.subject);
  }
  EXPECT_EQ(got,
            (std::vector<std::string>{"slo_at_risk chat", "slo_at_risk search", "gpu_out chat"}));
}

TEST_F(NotifierTest, RunsACommandWithTheDocumentOnItsInput) {
  const std::string script = "cat > " + (folder / "got").string();
  Receiver receiver{.name = "c", .how = Program{{"/bin/sh", "-c", script}}, .quiet_s = 0};
  const Try outcome = try_once(receiver, notice_of("chat"));
  EXPECT_TRUE(outcome.told) << outcome.why;
  EXPECT_EQ(parse_notice("got", read("got")).value(), notice_of("chat"));

  receiver.how = Program{{"/bin/sh", "-c", "exit 3"}};
  EXPECT_EQ(try_once(receiver, notice_of("x")).why, "ended with status 3");
  receiver.how = Program{{"/nowhere/at/all"}};
  EXPECT_FALSE(try_once(receiver, notice_of("x")).told);
  receiver.how = Program{{"/bin/sleep", "100"}};
  receiver.timeout_s = 0.1;
  const auto begin = Clock::now();
  EXPECT_EQ(try_once(receiver, notice_of("x")).why, "took more than 0.1 s");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(NotifierTest, EndsWhileItWaitsForTheNextTry) {
  LittleServer server([](int) { return 500; });
  const auto begin = Clock::now();
  {
    Notifier notifier({hook(server.url(), 20)}, {.first_pause_ms = 60'000});
    notifier.tell(notice_of("chat"));
    ASSERT_TRUE(eventually([&] { return !server.requests().empty(); }));
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(15));
}

// A self-signed certificate for 127.0.0.1, in cert.pem, and a server's context with it.
SSL_CTX* tls_context(const std::string& certificate_file) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86'400);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("little"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* address =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(certificate, address, -1);
  X509_EXTENSION_free(address);
  X509_sign(certificate, key, EVP_sha256());
  BIO* out = BIO_new_file(certificate_file.c_str(), "w");
  PEM_write_bio_X509(out, certificate);
  BIO_free(out);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return context;
}

TEST_F(NotifierTest, SpeaksTlsAndTrustsOnlyWhatItIsToldTo) {
  const std::string certificate = folder / "cert.pem";
  SSL_CTX* context = tls_context(certificate);
  {
    LittleServer server([](int) { return 200; }, context);
    Receiver receiver = hook(server.url("https"));
    const Try stranger = try_once(receiver, notice_of("secret"));
    EXPECT_FALSE(stranger.told);
    EXPECT_NE(stranger.why.find("certificate"), std::string::npos) << stranger.why;
    EXPECT_TRUE(server.requests().empty());  // nothing was said to it
    std::get<Webhook>(receiver.how).ca_file = certificate;
    std::get<Webhook>(receiver.how).chat = true;
    const Try known = try_once(receiver, notice_of("secret"));
    EXPECT_TRUE(known.told) << known.why;
    ASSERT_EQ(server.requests().size(), 1U);
    EXPECT_EQ(body_of(server.requests()[0]), "{\"text\": \"node-1: something about secret\"}\n");
  }
  SSL_CTX_free(context);
}

}  // namespace
}  // namespace partita::notify
