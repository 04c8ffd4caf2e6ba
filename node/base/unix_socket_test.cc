#include "base/unix_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/testing/test_without_input.h"

namespace partita {
namespace {

// Two ends of a conversation.
struct Pair {
  Pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    here = Descriptor(ends[0]);
    there = Descriptor(ends[1]);
  }
  Descriptor here{-1}, there{-1};
};

// What comes of pipes passed beside a byte: for each the byte that was written into it.
std::string read_through(int count) {
  const Pair pair;
  std::vector<Descriptor> kept;
  std::vector<int> passed;
  for (int i = 0; i < count; ++i) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const char mark = static_cast<char>('a' + i);
    EXPECT_EQ(::write(ends[1], &mark, 1), 1);
    ::close(ends[1]);
    kept.emplace_back(ends[0]);
    passed.push_back(ends[0]);
  }
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr out{}, in{};
  out.msg_iov = in.msg_iov = &part;
  out.msg_iovlen = in.msg_iovlen = 1;
  PassedRoom room;
  pass_beside(out, passed, room);
  EXPECT_EQ(::sendmsg(pair.here.get(), &out, MSG_NOSIGNAL), 1);
  PassedRoom other;
  take_beside(in, other);
  EXPECT_EQ(::recvmsg(pair.there.get(), &in, MSG_CMSG_CLOEXEC), 1);
  std::string text;
  for (const Descriptor& one : passed_beside(in)) {
    char mark = '?';
    EXPECT_EQ(::read(one.get(), &mark, 1), 1);
    EXPECT_NE(::fcntl(one.get(), F_GETFD) & FD_CLOEXEC, 0);
    text += mark;
  }
  for (const Descriptor& one : kept) EXPECT_GE(::fcntl(one.get(), F_GETFD), 0) << "not ours now";
  return text;
}

TEST(UnixSocket, DescriptorsTravelInOrder) {
  EXPECT_EQ(read_through(0), "");
  EXPECT_EQ(read_through(1), "a");
  EXPECT_EQ(read_through(static_cast<int>(kMostPassed)), "abcd");
}

TEST(UnixSocket, TheKernelSaysWhoConnects) {
  const Pair pair;
  EXPECT_EQ(unix_peer(pair.here.get()).value(), (UnixPeer{.pid = ::getpid(), .uid = ::geteuid()}));
  EXPECT_FALSE(unix_peer(-1));
}

// Whether a socket bound by that path is found by it, and lies there.
bool met(const std::string& path) {
  const auto address = UnixAddress::of(path);
  if (!address) return false;
  const Descriptor door(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor guest(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::bind(door.get(), address->get(), UnixAddress::size()) == 0 &&
         ::listen(door.get(), 1) == 0 && std::filesystem::is_socket(path) &&
         ::connect(guest.get(), address->get(), UnixAddress::size()) == 0;
}

TEST(UnixSocket, PathsOfEveryLengthAreReached) {
  const std::string folder = testing::TempDir() + fmt::format("unix-{}", ::getpid());
  std::filesystem::remove_all(folder);
  constexpr std::size_t kRoom = sizeof(sockaddr_un::sun_path);
  for (const std::size_t length : {kRoom - 2, kRoom - 1, kRoom, kRoom + 1, 3 * kRoom}) {
    std::string path = folder;
    while (path.size() + 70 < length) path += "/" + std::string(40, 'd');
    std::filesystem::create_directories(path);
    path += "/" + std::string(length - path.size() - 1, 's');
    ASSERT_EQ(path.size(), length);
    EXPECT_TRUE(met(path)) << length;
    std::filesystem::remove(path);
    const WithoutInput number_nought_is_free;
    EXPECT_TRUE(met(path)) << length;
  }
  std::filesystem::remove_all(folder);
}

// An address closes nothing but what it has opened.
TEST(UnixSocket, AnAddressLeavesOtherDescriptorsAlone) {
  const int input = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const int kept = ::dup(STDIN_FILENO);
  ASSERT_EQ(::dup2(input, STDIN_FILENO), STDIN_FILENO);
  EXPECT_TRUE(UnixAddress::of("/tmp/short"));
  EXPECT_GE(::fcntl(STDIN_FILENO, F_GETFD), 0);
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
  ::close(input);
}

TEST(UnixSocket, WhatCannotBeANameIsRefused) {
  const std::string longest(200, 'x');
  EXPECT_EQ(UnixAddress::of("").error().code, ErrorCode::bad_input);
  EXPECT_EQ(UnixAddress::of(std::string("a\0b", 3)).error().code, ErrorCode::bad_input);
  EXPECT_EQ(UnixAddress::of(longest).error().code, ErrorCode::bad_input);  // no directory in it
  EXPECT_EQ(UnixAddress::of("/not there/" + longest).error().code, ErrorCode::environment);
}

}  // namespace
}  // namespace partita
