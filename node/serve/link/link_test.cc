// The link on real sockets and real memory: frames and descriptors there and back, who the other
// end is, gateways that died or live, memory that is not what was promised.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>

#include "serve/link/connection.h"
#include "serve/link/slot_memory.h"

namespace partita::serve {
namespace {

class Link : public testing::Test {
 protected:
  Link() {
    std::string name = testing::TempDir() + "linkXXXXXX";
    folder = ::mkdtemp(name.data());
    path = folder + "/gateway.sock";
  }
  ~Link() override { std::filesystem::remove_all(folder); }

  Received next(Connection& from) {
    auto got = from.receive(buffer);
    EXPECT_TRUE(got) << to_string(got.error());
    return got ? std::move(*got) : Received{};
  }

  std::string folder, path;
  std::array<char, 1000> buffer{};
};

std::string text_of(const Received& got) { return {got.bytes.begin(), got.bytes.end()}; }

TEST_F(Link, CarriesFramesAndSaysWhoIsThere) {
  auto listener = Listener::open(path);
  ASSERT_TRUE(listener) << to_string(listener.error());
  EXPECT_FALSE(listener->accept()->has_value());
  auto worker = Connection::connect(path);
  ASSERT_TRUE(worker) << to_string(worker.error());
  auto accepted = listener->accept();
  ASSERT_TRUE(accepted && accepted->has_value());
  Connection& gateway = **accepted;
  EXPECT_EQ(*gateway.peer(), (UnixPeer{.pid = ::getpid(), .uid = ::geteuid()}));
  EXPECT_EQ(next(gateway).kind, Received::Kind::nothing_yet);
  EXPECT_TRUE(*worker->send("one"));
  EXPECT_TRUE(*worker->send(std::string("t\0wo", 4)));
  EXPECT_EQ(text_of(next(gateway)), "one");  // borders are kept
  EXPECT_EQ(text_of(next(gateway)), std::string("t\0wo", 4));
  EXPECT_EQ(next(gateway).kind, Received::Kind::nothing_yet);
  EXPECT_TRUE(*worker->send(std::string(1001, 'x')));
  EXPECT_FALSE(gateway.receive(buffer));  // too long for the reader, not cut
  worker->send("last").value();
  { const Connection gone = std::move(*worker); }
  EXPECT_EQ(text_of(next(gateway)), "last");
  EXPECT_EQ(next(gateway).kind, Received::Kind::ended);
  EXPECT_FALSE(gateway.send("anyone?"));
}

TEST_F(Link, ASlowReaderIsNoError) {
  auto listener = Listener::open(path);
  auto worker = Connection::connect(path);
  auto gateway = listener->accept();
  ASSERT_TRUE(gateway && gateway->has_value());
  int sent = 0;
  const std::string frame(1000, 'x');
  while (*worker->send(frame)) ++sent;
  EXPECT_GT(sent, 0);
  for (int i = 0; i < sent; ++i) ASSERT_EQ(text_of(next(**gateway)), frame) << i;
  EXPECT_EQ(next(**gateway).kind, Received::Kind::nothing_yet);
  EXPECT_TRUE(*worker->send(frame));
}

TEST_F(Link, SharesSlots) {
  auto listener = Listener::open(path);
  auto worker = Connection::connect(path);
  auto gateway = listener->accept();
  auto slots = SlotMemory::create(8192, 3);
  ASSERT_TRUE(slots) << to_string(slots.error());
  EXPECT_TRUE(*(*gateway)->send("REGION", slots->fd()));
  Received got = next(*worker);
  EXPECT_EQ(text_of(got), "REGION");
  EXPECT_NE(::fcntl(got.descriptor.get(), F_GETFD) & FD_CLOEXEC, 0);
  auto seen = SlotMemory::attach(std::move(got.descriptor), 8192, 3);
  ASSERT_TRUE(seen) << to_string(seen.error());
  std::strcpy(slots->base(2) + 8180, "from here");
  EXPECT_STREQ(seen->base(2) + 8180, "from here");
  std::strcpy(seen->base(0), "and back");
  { const SlotMemory gone = std::move(*seen); }
  EXPECT_STREQ(slots->base(0), "and back");
  EXPECT_EQ(::ftruncate(slots->fd(), 4096), -1);
  EXPECT_EQ(::ftruncate(slots->fd(), 1 << 20), -1);
}

TEST_F(Link, MemoryThatIsNotAsSaidIsRefused) {
  const auto fault = [](int fd, std::uint64_t bytes, std::uint32_t slots) {
    const auto attached = SlotMemory::attach(Descriptor(fd), bytes, slots);
    return attached ? "" : attached.error().message;
  };
  const int open = ::memfd_create("t", MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(open, 8192), 0);
  EXPECT_EQ(fault(::dup(open), 4096, 2), "the memory is not sealed against shrinking and growing");
  ASSERT_EQ(::fcntl(open, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_NE(fault(::dup(open), 4096, 2), "");  // seals could still be added, as against writing
  ASSERT_EQ(::fcntl(open, F_ADD_SEALS, F_SEAL_SEAL), 0);
  EXPECT_EQ(fault(::dup(open), 4096, 2), "");
  EXPECT_EQ(fault(::dup(open), 4096, 3), "the memory has 8192 bytes, REGION says 12288");
  EXPECT_NE(fault(::dup(open), ~0ULL, ~0U), "");
  ::close(open);
  EXPECT_NE(fault(::open("/dev/zero", O_RDWR), 4096, 2), "");
  EXPECT_EQ(fault(-1, 4096, 2), "no descriptor came beside REGION");
}

TEST_F(Link, ADeadGatewaysSocketIsReplacedALivingOneIsNot) {
  {
    const auto first = Listener::open(path);
    ASSERT_TRUE(first);
    const auto second = Listener::open(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::in_use);
    std::filesystem::remove(path + ".lock");  // as those do who tidy up
    EXPECT_FALSE(Listener::open(path));
    EXPECT_TRUE(Connection::connect(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  const auto none = Connection::connect(path);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  if (::fork() == 0) {
    auto dies = Listener::open(path);
    ::_exit(dies ? 0 : 1);  // without a destructor, as by SIGKILL
  }
  int status = -1;
  ASSERT_GT(::wait(&status), 0);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(std::filesystem::exists(path));
  const auto dead = Connection::connect(path);
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, ErrorCode::not_found);
  const auto again = Listener::open(path);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_TRUE(Connection::connect(path));
}

// Parts of slots that two have in common, wherever they lie in each, and nothing beside them.
TEST(SlotMemory, HasPartsInCommonWithAnother) {
  constexpr std::uint64_t kPage = 4096;
  auto one = SlotMemory::create(4 * kPage, 5), two = SlotMemory::create(2 * kPage, 3);
  ASSERT_TRUE(one && two);
  for (auto* memory : {&*one, &*two})
    for (std::uint32_t slot = 0; slot < memory->slots(); ++slot)
      std::ranges::fill(memory->bytes(slot), 'o');
  const auto common = SlotMemory::sealed(2 * kPage);
  ASSERT_TRUE(common);
  const Joint there{.offset = 2 * kPage, .bytes = kPage, .writable = true, .slots = {4, 1}};
  const Joint here{.offset = kPage, .bytes = kPage, .slots = {0, 2}};
  ASSERT_TRUE(one->join(common->get(), there));
  ASSERT_TRUE(two->join(common->get(), here));
  one->base(4)[2 * kPage] = 'a';
  one->base(1)[(3 * kPage) - 1] = 'b';
  EXPECT_EQ(two->base(0)[kPage], 'a');
  EXPECT_EQ(two->base(2)[(2 * kPage) - 1], 'b');
  EXPECT_EQ(two->base(1)[kPage], 'o');
  EXPECT_EQ(one->base(4)[(2 * kPage) - 1], 'o');
  EXPECT_EQ(one->base(4)[3 * kPage], 'o');
  EXPECT_DEATH(two->base(0)[kPage] = 'x', "");  // it reads
  ASSERT_TRUE(one->part(there));
  ASSERT_TRUE(two->part(here));
  one->base(4)[2 * kPage] = 'c';
  EXPECT_EQ(two->base(0)[kPage], 'o');
  EXPECT_EQ(one->base(1)[(3 * kPage) - 1], 'o');
  // What cannot be is refused, and nothing is mapped.
  const auto fault = [&](int fd, const Joint& joint) {
    const auto joined = one->join(fd, joint);
    return joined ? "" : joined.error().message;
  };
  EXPECT_NE(fault(-1, there), "");
  EXPECT_NE(fault(two->fd(), there), "");
  for (const Joint& bad : {Joint{.offset = 4 * kPage, .bytes = kPage, .slots = {1, 2}},
                           Joint{.offset = 3 * kPage, .bytes = 2 * kPage, .slots = {1}},
                           Joint{.offset = 0, .bytes = ~0ULL - 4095, .slots = {1}},
                           Joint{.offset = 1, .bytes = kPage, .slots = {1, 2}},
                           Joint{.offset = 0, .bytes = kPage, .slots = {1, 5}}})
    EXPECT_NE(fault(common->get(), bad), "");
  EXPECT_EQ(one->base(1)[0], 'o');
}

TEST_F(Link, NoOtherFileIsReplacedAndNoOtherUserLetIn) {
  ASSERT_EQ(::close(::creat(path.c_str(), 0644)), 0);
  const auto refused = Listener::open(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "this file is no socket");
  std::filesystem::remove(path);
  const ::mode_t before = ::umask(0);
  const auto listener = Listener::open(path);
  ::umask(before);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(Link, PathsMayBeLong) {
  std::string deep = folder;
  for (int i = 0; i < 3; ++i) deep += "/" + std::string(80, 'd');
  std::filesystem::create_directories(deep);
  const std::string far = deep + "/gateway.sock";
  {
    const auto listener = Listener::open(far);
    ASSERT_TRUE(listener) << to_string(listener.error());
    EXPECT_TRUE(Connection::connect(far));
    EXPECT_FALSE(Listener::open(far));
  }
  EXPECT_FALSE(std::filesystem::exists(far));
  EXPECT_FALSE(Connection::connect(folder + "/" + std::string(200, 'x')));
}

}  // namespace
}  // namespace partita::serve
