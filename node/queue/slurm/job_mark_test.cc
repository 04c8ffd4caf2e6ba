#include "queue/slurm/job_mark.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace partita::slurm {
namespace {

TEST(JobMark, is_read_as_it_is_written) {
  const auto read = parse_mark(
      "partita shapes=3g.40gb*2,1g.10gb+me nodes=g[0-3],h1 begin=1795640048 at=g3:0.0,0.4,1.6 ; my "
      "words ; more");
  ASSERT_TRUE(read && *read);
  const JobMark& mark = **read;
  EXPECT_EQ(mark.shapes, (std::vector<std::string>{"3g.40gb", "3g.40gb", "1g.10gb+me"}));
  EXPECT_EQ(mark.nodes, "g[0-3],h1");
  EXPECT_EQ(mark.begin, 1795640048);
  EXPECT_EQ(mark.node, "g3");
  EXPECT_EQ(mark.seats, (std::vector<Seat>{{0, 0}, {0, 4}, {1, 6}}));
  EXPECT_EQ(mark.words, "my words ; more");
  EXPECT_FALSE(mark.whole());
  EXPECT_EQ(mark_text(mark),
            "partita shapes=3g.40gb,3g.40gb,1g.10gb+me nodes=g[0-3],h1 begin=1795640048 "
            "at=g3:0.0,0.4,1.6 ; my words ; more");
}

TEST(JobMark, other_comments_are_none) {
  for (const char* comment : {"", "hello", "partita", "Partita shapes=1g.10gb"}) {
    const auto read = parse_mark(comment);
    ASSERT_TRUE(read) << comment;
    EXPECT_FALSE(*read) << comment;
  }
}

TEST(JobMark, damaged_ones_are_refused) {
  for (const char* comment :
       {"partita ", "partita at=g0:0.0", "partita shapes=", "partita shapes=1g.10gb*0",
        "partita shapes=1g.10gb*999", "partita shapes=1g.10gb at=g0:0.0,0.1",
        "partita shapes=1g.10gb at=g0", "partita shapes=1g.10gb at=:0.0",
        "partita shapes=1g.10gb at=g0:0", "partita shapes=1g.10gb at=g0:-1.0",
        "partita shapes=1g.10gb begin=soon", "partita shapes=1g.10gb shapes=2g.20gb",
        "partita shapes=1g.10gb what=else", "partita shapes=1g;10gb",
        "partita shapes=1g.10gb refused="})
    EXPECT_FALSE(parse_mark(comment)) << comment;
}

RC_GTEST_PROP(JobMark, survives_writing, ()) {
  JobMark mark;
  const auto shapes = *rc::gen::inRange(1, 8);
  mark.shapes.assign(static_cast<std::size_t>(shapes), *rc::gen::element<std::string>(
                                                           "1g.10gb", "3g.40gb", kWhole));
  if (*rc::gen::arbitrary<bool>()) mark.nodes = "g[0-9]";
  mark.begin = *rc::gen::inRange(0, 1'000'000);
  if (*rc::gen::arbitrary<bool>()) mark.refused = "g7";
  if (*rc::gen::arbitrary<bool>()) {
    mark.node = "g12";
    for (int i = 0; i < shapes; ++i)
      mark.seats.push_back({*rc::gen::inRange(0, 8), *rc::gen::inRange(0, 8)});
  }
  if (*rc::gen::arbitrary<bool>()) mark.words = "of mine ; and more";
  const auto read = parse_mark(mark_text(mark));
  RC_ASSERT(read && *read && **read == mark);
}

}  // namespace
}  // namespace partita::slurm
