#include "api/access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "base/testing/test_signer.h"

namespace partita::api {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(AccessTest, Sha256IsThatOfTheStandard) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AccessTest, TokenFilesAreReadOrRefusedByLine) {
  const std::string hash = sha256_hex("s3cret");
  const auto tokens = parse_token_hashes("t", "# who\nops : operator:" + hash + " # me\n\n");
  ASSERT_TRUE(tokens);
  EXPECT_EQ(*tokens, (std::vector<HashedToken>{{"ops", Role::operator_, hash}}));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "t: there is no token in it"},
      {"ops:operator", "t:1: NAME:ROLE:SHA256 is wanted"},
      {"ops:king:" + hash, "t:1: a role is viewer, operator or admin"},
      {"\nops:open:" + hash, "t:2: a role is viewer, operator or admin"},
      {"ops:viewer:" + hash.substr(1),
       "t:1: a SHA-256 hash has 64 digits of 0-9 and a-f: "
       "printf %s TOKEN | sha256sum"},
      {":viewer:" + hash, "t:1: NAME:ROLE:SHA256 is wanted"},
      {"a:viewer:" + hash + "\nb:admin:" + hash, "t:2: this name or token was said before"}};
  for (const auto& [text, why] : bad) {
    const auto read = parse_token_hashes("t", text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(to_string(read.error()), why);
  }
}

TEST(AccessTest, CertificateNamesAreReadOrRefused) {
  const auto roles = parse_certificate_roles("c", "ops host:admin\nweb:viewer\n");
  ASSERT_TRUE(roles);
  EXPECT_EQ(roles->at("ops host"), Role::admin);
  EXPECT_FALSE(parse_certificate_roles("c", "ops"));
  EXPECT_FALSE(parse_certificate_roles("c", "ops:viewer\nops:admin"));
  EXPECT_FALSE(parse_certificate_roles("c", "# nobody"));
}

TEST(AccessTest, RolesOfAProvidersTokens) {
  const partita::test::Signer signer{.id = "k"};
  const std::string keys = testing::TempDir() + "access_keys_" + std::to_string(::getpid());
  std::ofstream(keys) << R"({"keys":[)" << signer.jwk() << "]}";
  const auto settings = [&](const std::string& role) {
    return open_oidc("oidc.yaml", "issuer: i\naudience: a\njwks: " + keys +
                                      "\nroles: {dev: viewer, ops: " + role + "}");
  };
  EXPECT_EQ(to_string(settings("root").error()),
            "oidc.yaml: role 'ops': a role is viewer, operator or admin");
  AccessRules rules;
  rules.oidc = settings("operator").value();
  const serve::Peer far{.address = "10.0.0.2:99"};
  const auto who = [&](const std::string& roles, std::int64_t left = 100) {
    return identify(rules, far,
                    "Bearer " + signer.token(R"({"iss":"i","aud":"a","sub":"anna","exp":)" +
                                             std::to_string(::time(nullptr) + left) +
                                             R"(,"roles":)" + roles + "}"));
  };
  EXPECT_EQ(who(R"(["dev","ops"])").role, Role::operator_);
  EXPECT_EQ(who(R"("dev")").role, Role::viewer);
  EXPECT_EQ(who(R"(["x"])").role, Role::open);
  EXPECT_EQ(who(R"(["x"])").user, "oidc anna");
  EXPECT_TRUE(who(R"(["ops"])", -100).bad_token);
  EXPECT_TRUE(identify(rules, far, "Bearer a.b.c").bad_token);
  EXPECT_TRUE(identify(rules, far, "Bearer s3cret").bad_token);
  EXPECT_EQ(identify(rules, far, "").role, Role::open);  // no house without a lock
  ::unlink(keys.c_str());
}

TEST(AccessTest, WhoCallsIsKnownByTokenSocketOrCertificate) {
  AccessRules rules;
  rules.owner = 500;
  rules.group = 77;
  const auto of_uid = [&](unsigned uid, std::vector<unsigned> groups) {
    serve::Peer peer{.address = "uid"};
    peer.user = serve::Peer::User{uid, std::move(groups)};
    return identify(rules, peer, "").role;
  };
  EXPECT_EQ(of_uid(0, {}), Role::admin);
  EXPECT_EQ(of_uid(500, {}), Role::admin);
  EXPECT_EQ(of_uid(1000, {5, 77}), Role::operator_);
  EXPECT_EQ(of_uid(1000, {5}), Role::viewer);

  const serve::Peer far{.address = "10.0.0.2:99"};
  EXPECT_EQ(identify(rules, far, "").role, Role::viewer);  // a loopback address, without tokens
  EXPECT_TRUE(identify(rules, far, "Bearer x").bad_token);
  rules.tokens = {{"ops", Role::operator_, sha256_hex("s3cret")}};
  EXPECT_EQ(identify(rules, far, "").role, Role::open);
  EXPECT_EQ(identify(rules, far, "bEaReR s3cret").user, "token ops");
  EXPECT_EQ(identify(rules, far, "Bearer s3cret").role, Role::operator_);
  for (const char* wrong : {"Bearer s3cre", "Bearer s3crets", "Bearer ", "Basic s3cret", "s3cret"})
    EXPECT_TRUE(identify(rules, far, wrong).bad_token) << wrong;
  // A token counts on the socket, too, whoever shows it.
  serve::Peer root{.address = "uid 0", .user = serve::Peer::User{}};
  EXPECT_EQ(identify(rules, root, "Bearer s3cret").role, Role::operator_);
  EXPECT_EQ(identify(rules, root, "Bearer wrong").role, Role::open);

  rules.certificates = CertificateRoles{{"ops", Role::admin}};
  serve::Peer shown{.address = "10.0.0.2:99", .certificate = "ops"};
  EXPECT_EQ(identify(rules, shown, "").role, Role::admin);
  shown.certificate = "other";
  EXPECT_EQ(identify(rules, shown, "").role, Role::open);
}

TEST(AccessTest, BrowsersComeFromThisServersOwnPage) {
  serve::HttpHead head;
  const auto fault = [&](std::string_view host, std::string_view origin, std::string_view site) {
    head.host = host;
    head.origin = origin;
    head.fetch_site = site;
    return !browser_fault(head, false, {"node1.example"}).empty();
  };
  for (const char* host :
       {"127.0.0.1:80", "localhost", "LOCALHOST:1", "[::1]:80", "10.1.2.3", "node1.example:9"})
    EXPECT_FALSE(fault(host, "", "")) << host;
  for (const char* host : {"evil.example", "127.0.0.1.evil.example:80", "localhost.evil", "",
                           "[::1", "127.0.0.1@evil"})
    EXPECT_TRUE(fault(host, "", "")) << host;
  EXPECT_FALSE(fault("localhost:1", "http://localhost:1", "same-origin"));
  EXPECT_TRUE(fault("localhost:1", "https://localhost:1", ""));
  EXPECT_TRUE(fault("localhost:1", "http://localhost:2", ""));
  EXPECT_TRUE(fault("localhost:1", "null", ""));
  EXPECT_TRUE(fault("localhost:1", "", "cross-site"));
  EXPECT_TRUE(fault("localhost:1", "", "same-site"));
  EXPECT_FALSE(fault("localhost:1", "", "none"));
}

TEST(AccessTest, ABucketFillsAtItsRate) {
  RateLimit limit(2, 5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(limit.wait_s("a", 0), 0);
  EXPECT_EQ(limit.wait_s("a", 0), 1);
  EXPECT_EQ(limit.wait_s("b", 0), 0);  // each its own
  EXPECT_EQ(limit.wait_s("a", kSecond), 0);
  EXPECT_EQ(limit.wait_s("a", kSecond), 0);
  EXPECT_EQ(limit.wait_s("a", kSecond), 1);
  int let_in = 0;
  for (int i = 0; i < 1000; ++i) let_in += limit.wait_s("a", kSecond * (100 + i / 10)) == 0 ? 1 : 0;
  EXPECT_EQ(let_in, 5 + 2 * 99);  // the burst, then the rate over 99 more seconds
}

TEST(AccessTest, ManyClientsDoNotFillTheMemoryOrFreeOneThatCallsTooMuch) {
  RateLimit limit(1e-6, 3);
  for (int i = 0; i < 3; ++i) limit.wait_s("flood", 0);
  for (int i = 0; i < 20'000; ++i) limit.wait_s("client " + std::to_string(i), 0);
  EXPECT_GT(limit.wait_s("flood", 0), 0);
}

}  // namespace
}  // namespace partita::api
