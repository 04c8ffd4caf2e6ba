#include "base/oidc/oidc.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/hmac.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/base64.h"
#include "base/testing/test_signer.h"

namespace partita {
namespace {

using test::Signer;
using test::url64;

constexpr std::int64_t kNow = 1'800'000'000;
const JwtWishes kWishes{.issuer = "https://id.example", .audience = "partita", .claim = "roles"};

std::string claims(const std::string& more = "", std::int64_t expires = kNow + 100) {
  return R"({"iss":"https://id.example","aud":["x","partita"],"sub":"anna","exp":)" +
         std::to_string(expires) + R"(,"roles":["a","b"])" + more + "}";
}

struct Provider {
  Signer rsa{.id = "r"}, elliptic{.elliptic = true, .id = "e"};
  Jwks keys = Jwks::parse("k", R"({"keys":[{"kty":"oct","k":"AAAA"},)" + rsa.jwk() + "," +
                                   elliptic.jwk() + "]}")
                  .value();
  std::string fault(const std::string& token) const {
    const auto found = verify_jwt(token, keys, kWishes, kNow);
    return found ? "taken" : found.error().why;
  }
};
const Provider& provider() {
  static const Provider one;
  return one;
}

TEST(Jwt, TakesWhatIsSigned) {
  for (const Signer* signer : {&provider().rsa, &provider().elliptic}) {
    const auto found = verify_jwt(signer->token(claims()), provider().keys, kWishes, kNow);
    ASSERT_TRUE(found) << found.error().why;
    EXPECT_EQ(*found, (Identity{"anna", {"a", "b"}, kNow + 100}));
  }
}

// The examples of RFC 7515, A.2 and A.3.
TEST(Jwt, TheSignaturesOfTheStandard) {
  const auto keys = Jwks::parse(
      "k", R"({"keys":[{"kty":"EC","crv":"P-256",
    "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"RSA","e":"AQAB",
    "n":")"
           "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJ"
           "PMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0"
           "LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uD"
           "Zlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2"
           "PAcDTW9gb54h4FRWyuXpoQ"
           R"("}]})");
  ASSERT_TRUE(keys) << to_string(keys.error());
  const std::string payload =
      ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnV"
      "lfQ";
  const auto check = [&](const char* algorithm, const std::string& header, std::string signature) {
    for (char& c : signature) c = c == '-' ? '+' : c == '_' ? '/' : c;
    signature.append((4 - signature.size() % 4) % 4, '=');
    return keys->check(algorithm, "", header + payload, *parse_base64(signature));
  };
  const std::string es =
      "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
  EXPECT_EQ(check("ES256", "eyJhbGciOiJFUzI1NiJ9", es), Jwks::Found::good);
  EXPECT_EQ(check("ES256", "eyJhbGciOiJFUzI1NiJ8", es), Jwks::Found::bad);
  EXPECT_EQ(
      check(
          "RS256", "eyJhbGciOiJSUzI1NiJ9",
          "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
          "O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIAR"
          "NPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvh"
          "J1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"),
      Jwks::Found::good);
}

// What is known to have let strangers in elsewhere.
TEST(Jwt, RefusesForgeries) {
  const Provider& p = provider();
  const std::string good = p.rsa.token(claims());
  const std::string head = url64(R"({"alg":"none"})") + "." + url64(claims()) + ".";
  EXPECT_EQ(p.fault(head), "the token is not signed with RS256 or ES256");
  EXPECT_EQ(p.fault(head.substr(0, head.size() - 1)), "the token is none");
  for (const char* algorithm : {"None", "HS256", "RS512", "PS256", "ES384", "rs256", ""})
    EXPECT_EQ(
        p.fault(p.rsa.token(claims(), std::string(R"({"kid":"r","alg":")") + algorithm + "\"}")),
        "the token is not signed with RS256 or ES256");
  // HS256 with the public key as the secret.
  const std::string text = url64(R"({"alg":"HS256","kid":"r"})") + "." + url64(claims());
  const std::string secret = p.rsa.jwk();
  unsigned char mac[32];
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
  EXPECT_NE(p.fault(text + "." + url64({reinterpret_cast<char*>(mac), size})), "taken");
  // A key of its own, in the token; an algorithm that is not its key's; another's signature.
  const Signer stranger{.elliptic = true, .id = "e"};
  EXPECT_EQ(p.fault(stranger.token(claims(),
                                   R"({"alg":"ES256","kid":"e","jwk":)" + stranger.jwk() + "}")),
            "the token's signature is wrong");
  EXPECT_EQ(p.fault(p.rsa.token(claims(), R"({"alg":"ES256","kid":"r"})")),
            "the token's key is not known");
  EXPECT_EQ(p.fault(p.rsa.token(claims(), R"({"alg":"RS256","kid":"other"})")),
            "the token's key is not known");
  EXPECT_EQ(p.fault(p.rsa.token(claims(), R"({"alg":"RS256","kid":"r","crit":["exp"]})")),
            "the token asks for what nobody knows (crit)");
  for (std::size_t i = 0; i < good.size(); i += 7) {
    std::string other = good;
    other[i] = other[i] == 'A' ? 'B' : 'A';
    EXPECT_NE(p.fault(other), "taken") << i;
  }
  EXPECT_EQ(p.fault(good + std::string(kMostJwtBytes, 'A')), "the token is longer than 8 KiB");
  for (const char* none : {"", ".", "..", "...", "a.b.c", "e30.e30.e30"})
    EXPECT_NE(p.fault(none), "taken") << none;
  std::string zeros = p.elliptic.token(claims());  // r = s = 0
  zeros = zeros.substr(0, zeros.rfind('.') + 1) + url64(std::string(64, '\0'));
  EXPECT_EQ(p.fault(zeros), "the token's signature is wrong");
}

TEST(Jwt, HoldsClaimsAgainstWhatIsWanted) {
  const Provider& p = provider();
  const auto fault = [&](const std::string& text) { return p.fault(p.elliptic.token(text)); };
  EXPECT_EQ(fault(claims("", kNow - kJwtLeewayS)), "the token has expired");
  EXPECT_EQ(fault(claims("", kNow - kJwtLeewayS + 1)), "taken");
  EXPECT_EQ(fault(claims(R"(,"nbf":1800000061)")), "the token is not valid yet");
  EXPECT_EQ(fault(claims(R"(,"nbf":1800000060)")), "taken");
  EXPECT_EQ(fault(claims(R"(,"nbf":"now")")), "the token is not valid yet");
  EXPECT_EQ(fault(R"({"iss":"https://id.example/","aud":"partita","sub":"a","exp":9e9})"),
            "the token is of another issuer");
  EXPECT_EQ(fault(R"({"iss":"https://id.example","aud":"part","sub":"a","exp":9e9})"),
            "the token is for another audience");
  EXPECT_EQ(fault(R"({"iss":"https://id.example","sub":"a","exp":9e9})"),
            "the token is for another audience");
  EXPECT_EQ(fault(R"({"iss":"https://id.example","aud":"partita","sub":"a"})"),
            "the token does not say when it expires");
  EXPECT_EQ(fault(R"({"iss":"https://id.example","aud":"partita","sub":"a","exp":"9e9"})"),
            "the token does not say when it expires");
  EXPECT_EQ(fault(R"({"iss":"https://id.example","aud":"partita","exp":9e9})"),
            "the token does not say whose it is");
  EXPECT_EQ(fault(R"(["iss"])"), "the token is none");
  EXPECT_EQ(fault(R"({"exp":1,"exp":9e9})"), "the token is none");  // which of them?
}

TEST(Jwt, RolesAreWhereTheyAre) {
  const auto roles = [&](const std::string& claim, const std::string& json) {
    JwtWishes wishes = kWishes;
    wishes.claim = claim;
    const auto found =
        verify_jwt(provider().elliptic.token(claims("," + json)), provider().keys, wishes, kNow);
    return found ? found->roles : std::vector<std::string>{"refused"};
  };
  using Roles = std::vector<std::string>;
  EXPECT_EQ(roles("realm_access.roles", R"("realm_access":{"roles":["x",7]})"), Roles{"x"});
  EXPECT_EQ(roles("scope", R"("scope":"x  y")"), (Roles{"x", "y"}));
  EXPECT_EQ(roles("https://a.b/c", R"("https://a.b/c":["z"])"), Roles{"z"});
  EXPECT_EQ(roles("a.b.c", R"("a":{"b":7})"), Roles{});
}

TEST(Jwks, RefusesWhatSignsNothing) {
  const auto fault = [](const std::string& text) {
    const auto read = Jwks::parse("k.json", text);
    return read ? "taken" : to_string(read.error());
  };
  const std::string none = "k.json: no key in it signs with RS256 or ES256";
  EXPECT_EQ(fault("{}"), "k.json: there are no 'keys' in it");
  EXPECT_EQ(fault(R"({"keys":[]})"), none);
  EXPECT_EQ(fault(R"({"keys":[7,{"kty":"oct","k":"AAAA"}]})"), none);
  EXPECT_EQ(fault(R"({"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]})"), none);  // 17 bits
  EXPECT_EQ(fault(R"({"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]})"), none);
  const std::string zero = url64(std::string(32, '\0'));  // on no curve
  EXPECT_EQ(
      fault(R"({"keys":[{"kty":"EC","crv":"P-256","x":")" + zero + R"(","y":")" + zero + "\"}]}"),
      none);
  std::string other = provider().rsa.jwk();
  other.replace(other.find("sig"), 3, "enc");
  EXPECT_EQ(fault(R"({"keys":[)" + other + "]}"), none);
}

TEST(OidcSettings, AreRead) {
  const auto settings = parse_oidc("/etc/p/oidc.yaml", R"(issuer: https://id.example
audience: partita
jwks: keys.json
claim: realm_access.roles
roles:
  team: resnet50 bert rps=200
  ops: "*"
)");
  ASSERT_TRUE(settings) << to_string(settings.error());
  EXPECT_EQ(settings->jwks, "/etc/p/keys.json");
  EXPECT_EQ(settings->roles.front().second, "resnet50 bert rps=200");
  const auto fault = [](const std::string& jwks, const std::string& roles) {
    const auto read = parse_oidc("o", "issuer: i\naudience: a\njwks: " + jwks + "\n" + roles);
    return read ? "taken" : to_string(read.error());
  };
  EXPECT_EQ(fault("https://id/keys", "roles: {a: b}"), "taken");
  EXPECT_NE(fault("http://id/keys", "roles: {a: b}"), "taken");
  EXPECT_NE(fault("k", ""), "taken");
  EXPECT_NE(fault("k", "roles: {}"), "taken");
  EXPECT_NE(fault("k", "roles: {a: 7}"), "taken");
  EXPECT_NE(fault("k", "rolls: {a: b}"), "taken");
}

// A server of keys: says so many, or nothing at all.
class KeyServer {
 public:
  explicit KeyServer(std::string body) : body_(std::move(body)) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(fd_, 16);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    if (!body_.empty()) thread_ = std::thread([this] { run(); });
  }
  ~KeyServer() {
    ::shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(fd_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/keys"; }
  int asked() const { return asked_; }

 private:
  void run() {
    while (true) {
      const int one = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (one < 0) return;
      ++asked_;
      char room[4096];
      static_cast<void>(::recv(one, room, sizeof room, 0));
      const std::string answer =
          "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body_.size()) + "\r\n\r\n" + body_;
      static_cast<void>(::send(one, answer.data(), answer.size(), MSG_NOSIGNAL));
      ::close(one);
    }
  }
  std::string body_;
  int fd_ = -1, port_ = 0;
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

OidcSettings settings_for(const std::string& jwks) {
  return {.wishes = kWishes, .jwks = jwks, .ca = "", .roles = {{"a", "m"}}};
}

TEST(Oidc, KeysOfAUrlAreFetchedOnceHoweverManyKeysAreUnknown) {
  KeyServer server(R"({"keys":[)" + provider().rsa.jwk() + "]}");
  const auto oidc = Oidc::open(settings_for(server.url()));
  ASSERT_TRUE(oidc);
  EXPECT_TRUE((*oidc)->identify(provider().rsa.token(claims()), kNow));
  for (int i = 0; i < 500; ++i) {
    const auto found = (*oidc)->identify(provider().elliptic.token(claims()), kNow);
    ASSERT_FALSE(found);
    EXPECT_TRUE(found.error().unknown_key);
  }
  EXPECT_EQ(server.asked(), 1);  // the next in ten seconds at the soonest
}

TEST(Oidc, AProviderThatHangsKeepsNobodyWaiting) {
  KeyServer server("");
  const std::string token = provider().rsa.token(claims());  // takes seconds on a slow machine
  const auto begin = std::chrono::steady_clock::now();
  const auto oidc = Oidc::open(settings_for(server.url()));
  ASSERT_TRUE(oidc);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  const auto asked = std::chrono::steady_clock::now();
  const auto found = (*oidc)->identify(token, kNow);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().why, "the provider's keys cannot be read");
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(1));
}

TEST(Oidc, KeysOfAFile) {
  const std::string path = testing::TempDir() + "oidc_keys_" + std::to_string(::getpid());
  EXPECT_FALSE(Oidc::open(settings_for(path)));
  std::ofstream(path) << R"({"keys":[)" << provider().elliptic.jwk() << "]}";
  const auto oidc = Oidc::open(settings_for(path));
  ASSERT_TRUE(oidc) << to_string(oidc.error());
  EXPECT_TRUE((*oidc)->identify(provider().elliptic.token(claims()), kNow));
  EXPECT_TRUE(Oidc::is_jwt("a.b.c"));
  EXPECT_FALSE(Oidc::is_jwt("s3cret"));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace partita
