#include "act/batch/script.h"

#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

TEST(Script, APlaceIsItsProfileAndStart) {
  EXPECT_EQ(place_text(test::halves().visits[2]), "2g.12gb@2");
}

// Whatever changes what is done changes it; what is planned of it does not.
TEST(Script, HasAFingerprintOfWhatItDoes) {
  const Script script = test::halves();
  const std::string print = fingerprint(script);
  EXPECT_EQ(print.size(), 16U);
  EXPECT_EQ(print.find_first_not_of("0123456789abcdef"), std::string::npos);
  const auto changed = [&](const auto& change) {
    Script other = script;
    change(other);
    return fingerprint(other);
  };
  EXPECT_NE(changed([](Script& s) { s.gpus[0].device = 5; }), print);
  EXPECT_NE(changed([](Script& s) { s.gpus[0].model = "A30"; }), print);
  EXPECT_NE(changed([](Script& s) { s.gpus[0].changes[3].visit = 0; }), print);
  EXPECT_NE(changed([](Script& s) { s.gpus[0].changes[0].create = false; }), print);
  EXPECT_NE(changed([](Script& s) { s.visits[1].gpu = 1; }), print);
  EXPECT_NE(changed([](Script& s) { s.visits[1].place.start = 1; }), print);
  EXPECT_NE(changed([](Script& s) { s.visits[1].tasks = {2}; }), print);
  EXPECT_NE(changed([](Script& s) { s.visits[2].after = {}; }), print);
  EXPECT_NE(changed([](Script& s) { s.tasks[0].name = "d"; }), print);
  EXPECT_NE(changed([](Script& s) { s.tasks[0].visit = 1; }), print);
  EXPECT_NE(changed([](Script& s) { s.tasks[0].after = {1}; }), print);
  EXPECT_NE(changed([](Script& s) { s.tasks[0].command = "run"; }), print);
  EXPECT_EQ(changed([](Script& s) {
              s.planned_makespan = 1;
              s.tasks[0].planned = {1, 2};
              s.tasks[0].timeout = 3;
              s.tasks[0].release = 4;
              s.gpus[0].changes[0].planned.reset();
            }),
            print);
}

}  // namespace
}  // namespace partita::exec
