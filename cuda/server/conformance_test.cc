#include "server/testing/conformance.h"

#include <gmock/gmock.h>

#include "server/testing/fake_backend.h"

namespace partita::remote::server {
namespace {

using ::testing::IsEmpty;

TEST(Conformance, TheFakePasses) {
  for (const bool mapped : {true, false}) {
    FakeBackend fake({.mapped = mapped});
    EXPECT_THAT(check_backend(fake, {.image = "fake", .global = "counter"}), IsEmpty());
  }
}

// A backend that lets a stream go on although it is held is found.
TEST(Conformance, ABrokenOneFails) {
  class Hasty final : public FakeBackend {
   public:
    Answered<void> enqueue(Id stream, StreamWork work) override {
      if (std::holds_alternative<WaitWork>(work)) return {};
      return FakeBackend::enqueue(stream, std::move(work));
    }
  } hasty;
  EXPECT_THAT(check_backend(hasty, {.image = "fake"}),
              ::testing::Contains("an event is finished too early"));
}

}  // namespace
}  // namespace partita::remote::server
