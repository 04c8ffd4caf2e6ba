#include "wire/tunnel/tunnel.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>

#include "base/rng.h"
#include "base/testing/test_certificate.h"
#include "wire/net/socket_channel.h"

namespace partita::remote {
namespace {

constexpr Nanos kSoon = std::chrono::seconds(20);
using Bytes = std::span<const std::byte>;

class TunnelFolder {
 public:
  TunnelFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "partita-tls-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TunnelFolder() { std::filesystem::remove_all(path_); }
  TunnelFolder(const TunnelFolder&) = delete;
  TunnelFolder& operator=(const TunnelFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void make_certificate(const TunnelFolder& folder, const std::string& name) {
  partita::test::make_certificate(folder.path(), name);
}

std::shared_ptr<const TlsContext> server_context(const TunnelFolder& folder) {
  auto context = TlsContext::server(folder.file("gpu.example.pem"), folder.file("gpu.example.key"));
  EXPECT_TRUE(context) << to_string(context.error());
  return context.value_or(nullptr);
}

std::array<std::unique_ptr<Channel>, 2> plain_pair() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
  return {socket_channel(Descriptor(pair[0])), socket_channel(Descriptor(pair[1]))};
}

struct Shaken {
  Result<std::unique_ptr<Channel>> client, server;
};

Shaken shaken(const std::shared_ptr<const TlsContext>& client,
              const std::shared_ptr<const TlsContext>& server) {
  auto [a, b] = plain_pair();
  Shaken both{failed({}), failed({})};
  std::thread far([&, end = std::move(b)]() mutable {
    both.server = tls_channel(std::move(end), server, kSoon);
  });
  both.client = tls_channel(std::move(a), client, kSoon);
  far.join();
  return both;
}

TEST(TlsChannel, BytesComeEqualInBothDirectionsAtOnce) {
  const TunnelFolder folder;
  make_certificate(folder, "gpu.example");
  const auto client = TlsContext::client(folder.file("gpu.example.pem"), "gpu.example");
  ASSERT_TRUE(client);
  auto [near, far] = shaken(*client, server_context(folder));
  ASSERT_TRUE(near) << to_string(near.error());
  ASSERT_TRUE(far) << to_string(far.error());
  auto exchange = [](Channel& channel, std::uint64_t seed, std::uint64_t other) {
    std::vector<std::byte> mine(3 << 20), expected(3 << 20), got(3 << 20);
    Rng rng(seed), other_rng(other);
    for (auto& byte : mine) byte = static_cast<std::byte>(rng.next());
    for (auto& byte : expected) byte = static_cast<std::byte>(other_rng.next());
    std::thread writer([&] {
      const std::array<Bytes, 3> parts{Bytes(mine).first(1), Bytes(mine).subspan(1, 70'000),
                                       Bytes(mine).subspan(70'001)};
      EXPECT_TRUE(channel.write(parts, kSoon));
    });
    for (std::size_t have = 0; have < got.size();) {
      const auto size = channel.read(std::span(got).subspan(have), kSoon);
      if (!size || *size == 0) break;
      have += *size;
    }
    writer.join();
    EXPECT_TRUE(got == expected);
  };
  std::thread other([&, &end = **far] { exchange(end, 2, 1); });
  exchange(**near, 1, 2);
  other.join();
  std::array<std::byte, 8> into{};
  EXPECT_EQ((*near)->read(into, Nanos(0)).error().code, ErrorCode::timeout);
  far->reset();
  EXPECT_EQ((*near)->read(into, kSoon).value_or(9), 0u);
}

TEST(TlsChannel, StrangersCertificatesAndOtherNamesAreDenied) {
  const TunnelFolder folder;
  make_certificate(folder, "gpu.example");
  make_certificate(folder, "other.example");
  for (const auto& [ca, name] :
       {std::pair{"other.example", "gpu.example"}, std::pair{"gpu.example", "other.example"}}) {
    const auto client = TlsContext::client(folder.file(std::string(ca) + ".pem"), name);
    ASSERT_TRUE(client);
    const auto [near, far] = shaken(*client, server_context(folder));
    ASSERT_FALSE(near);
    EXPECT_EQ(near.error().code, ErrorCode::denied) << to_string(near.error());
    ASSERT_FALSE(far);
    EXPECT_EQ(far.error().code, ErrorCode::denied) << to_string(far.error());
  }
}

TEST(TlsChannel, WhatIsNoTlsIsRefusedAndSilenceIsATimeout) {
  const TunnelFolder folder;
  make_certificate(folder, "gpu.example");
  auto [a, b] = plain_pair();
  const std::vector<std::byte> garbage(100, std::byte{'x'});
  const std::array<Bytes, 1> parts{garbage};
  ASSERT_TRUE(a->write(parts, kSoon));
  EXPECT_EQ(tls_channel(std::move(b), server_context(folder), kSoon).error().code,
            ErrorCode::bad_input);
  auto [c, d] = plain_pair();
  EXPECT_EQ(
      tls_channel(std::move(d), server_context(folder), std::chrono::milliseconds(20)).error().code,
      ErrorCode::timeout);
  EXPECT_FALSE(TlsContext::server(folder.file("gpu.example.key"), folder.file("gpu.example.key")));
  EXPECT_FALSE(TlsContext::client(folder.file("none"), "gpu.example"));
  EXPECT_FALSE(TlsContext::client(folder.file("gpu.example.pem"), ""));
}

// Echoes every connection until `listener` has had `count` of them.
void echo(Listener& listener, int count) {
  for (int i = 0; i < count; ++i) {
    auto accepted = listener.accept(kSoon);
    if (!accepted) return;
    std::vector<std::byte> bytes(1 << 16);
    for (auto size = accepted->channel->read(bytes, kSoon); size && *size > 0;
         size = accepted->channel->read(bytes, kSoon)) {
      const std::array<Bytes, 1> parts{Bytes(bytes).first(*size)};
      EXPECT_TRUE(accepted->channel->write(parts, kSoon));
    }
  }
}

TEST(Tunnel, SessionsCrossTwoEndsAndTrustIsChecked) {
  const TunnelFolder folder;
  make_certificate(folder, "gpu.example");
  make_certificate(folder, "other.example");
  const auto sessions = system_net().listen("unix:" + folder.file("sessions"));
  ASSERT_TRUE(sessions);
  std::thread server([&] { echo(**sessions, 2); });
  auto far = server_tunnel(system_net(), "127.0.0.1:0", (*sessions)->address(),
                           {folder.file("gpu.example.pem"), folder.file("gpu.example.key")});
  ASSERT_TRUE(far) << to_string(far.error());
  auto near = client_tunnel(system_net(), "unix:" + folder.file("local"), (*far)->address(),
                            {folder.file("gpu.example.pem"), "gpu.example"});
  ASSERT_TRUE(near) << to_string(near.error());
  for (int i = 0; i < 2; ++i) {
    auto channel = system_net().connect((*near)->address(), kSoon);
    ASSERT_TRUE(channel);
    const std::vector<std::byte> bytes(1 << 20, static_cast<std::byte>(i + 1));
    std::thread writer([&, &end = **channel] {
      const std::array<Bytes, 1> parts{bytes};
      EXPECT_TRUE(end.write(parts, kSoon));
    });
    std::vector<std::byte> got(bytes.size());
    for (std::size_t have = 0; have < got.size();) {
      const auto size = (*channel)->read(std::span(got).subspan(have), kSoon);
      ASSERT_TRUE(size && *size > 0);
      have += *size;
    }
    writer.join();
    EXPECT_TRUE(got == bytes);
  }
  server.join();
  EXPECT_TRUE((*near)->wait_for_ends(kSoon));
  EXPECT_EQ((*near)->trouble(), "");

  auto wary = client_tunnel(system_net(), "unix:" + folder.file("wary"), (*far)->address(),
                            {folder.file("other.example.pem"), "gpu.example"});
  ASSERT_TRUE(wary);
  auto channel = system_net().connect((*wary)->address(), kSoon);
  std::array<std::byte, 8> into{};
  EXPECT_EQ((*channel)->read(into, kSoon).value_or(9), 0u);
  EXPECT_TRUE((*wary)->wait_for_ends(kSoon));
  EXPECT_NE((*wary)->trouble().find("not trusted"), std::string::npos) << (*wary)->trouble();
}

TEST(Tunnel, ServerThatIsNotThereEndsTheConnection) {
  const TunnelFolder folder;
  make_certificate(folder, "gpu.example");
  auto near = client_tunnel(system_net(), "unix:" + folder.file("local"), "127.0.0.1:1",
                            {folder.file("gpu.example.pem"), "gpu.example"});
  ASSERT_TRUE(near);
  auto channel = system_net().connect((*near)->address(), kSoon);
  ASSERT_TRUE(channel);
  std::array<std::byte, 8> into{};
  EXPECT_EQ((*channel)->read(into, kSoon).value_or(9), 0u);
  EXPECT_NE((*near)->trouble(), "");
}

TEST(Tunnel, SpeaksNoOldSuitesAndTakesNoKeyThatOthersMayRead) {
  char made[] = "/tmp/partita-tunnel-XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(made);
  const auto files = test::make_certificate(folder, "rsa", true);
  {
    const auto server = TlsContext::server(files.certificate, files.key);
    ASSERT_TRUE(server) << to_string(server.error());
    EXPECT_NE(test::agreed_suite((*server)->get(), "ECDHE-RSA-AES256-GCM-SHA384"), "");
    for (const char* suites : {"kRSA", "AES256-SHA", "ECDHE-RSA-AES128-SHA256"})
      EXPECT_EQ(test::agreed_suite((*server)->get(), suites), "") << suites;
  }
  std::filesystem::permissions(files.key, static_cast<std::filesystem::perms>(0644));
  const auto refused = TlsContext::server(files.certificate, files.key);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("chmod 600 " + files.key), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace partita::remote
