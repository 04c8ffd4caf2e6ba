// A writer that is killed at random points: what append() has returned is there, nothing is there
// in part.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/descriptor.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "history/store/store.h"
#include "history/store/testing/temporary_folder.h"

namespace partita::history {
namespace {

// What the event of this number is, whoever writes it.
Event event_of(long id) {
  return {.time_ms = id * 1000,
          .kind = EventKind::step,
          .change = id % 7,
          .user = fmt::format("u{}", id),
          .detail = std::string(static_cast<std::size_t>(id % 90), 'd'),
          .documents = {{"plan", std::string(static_cast<std::size_t>(id * 37 % 6000), 'p')},
                        {"id", fmt::format("{}", id)}}};
}

// Writes until it is killed; says every number that is safe on `out`.
[[noreturn]] void write_for_ever(const std::string& path, int out) {
  auto store = Store::open(path, Access::write);
  if (!store) ::_exit(3);
  const auto newest = store->events({.most = 1});
  if (!newest) ::_exit(4);
  long id = newest->empty() ? 0 : newest->front().id;
  while (true) {
    const auto written = store->append(event_of(++id));
    if (!written || *written != id) ::_exit(5);
    if (::write(out, &id, sizeof id) != sizeof id) ::_exit(6);
    if (id % 8 == 0 && !store->measure({{id, "watts", "g", static_cast<double>(id)}})) ::_exit(7);
    if (id % 32 == 0 && !store->tidy(id * 1000)) ::_exit(8);
  }
}

struct KillAt {
  std::uint64_t after_us = 0;
  bool written = false;  // counted from when something is safe, else from the start
};

// Starts a writer and kills it; the last number that it said was safe, else `before`.
long kill_a_writer(const std::string& path, const KillAt& when, long before) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    write_for_ever(path, ends[1]);
  }
  ::close(ends[1]);
  const Descriptor said(ends[0]);
  long id = 0, safe = before;
  if (when.written && ::read(said.get(), &id, sizeof id) == sizeof id) safe = id;
  ::usleep(static_cast<useconds_t>(when.after_us));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
  while (::read(said.get(), &id, sizeof id) == sizeof id) safe = id;
  return safe;
}

TEST(Kill, EveryEventThatWasKeptIsThereAndNoneInPart) {
  const TemporaryFolder folder;
  Rng rng(200);
  long checked = 0, met = 0;
  for (int kill = 0; kill < test_rounds(200); ++kill) {
    const KillAt when{rng.below(5000), kill % 2 == 1};
    const long safe = kill_a_writer(folder.file(), when, checked);
    // Half of the time nobody opens it for writing before the next writer does.
    const auto store = Store::open(folder.file(), rng.below(2) == 0 ? Access::read : Access::write);
    if (!store) {  // killed before there was anything
      ASSERT_EQ(safe, 0) << to_string(store.error());
      continue;
    }
    const auto events = store->events({.after = checked, .most = kMaxRows});
    ASSERT_TRUE(events) << to_string(events.error());
    const long newest = events->empty() ? checked : events->front().id;
    ASSERT_GE(newest, safe);
    ASSERT_LE(newest, safe + 1);  // one may be kept that it had no time to say
    ASSERT_EQ(events->size(), static_cast<std::size_t>(newest - checked));
    for (const Event& event : *events) {
      Event expected = event_of(event.id);
      expected.id = event.id;
      ASSERT_EQ(event, expected);
    }
    met += newest > checked;
    checked = newest;
  }
  EXPECT_GE(met, test_rounds(200) / 2) << "every second writer was killed after it wrote";
}

}  // namespace
}  // namespace partita::history
