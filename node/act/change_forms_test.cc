// What people and programs are told of a change, to the letter.
#include "act/change_forms.h"

#include <gmock/gmock.h>

#include "base/document.h"

namespace partita::actuate {
namespace {

using testing::HasSubstr;
using testing::Not;

const Place kHere{{"1g.6gb", 2}, 0, "GPU-a"}, kThere{{"2g.12gb", 0}, 1, "GPU-b"};
const Segment kRuns{"chat", 4, 2, 10};

// One of everything.
Change everything() {
  Change change;
  change.changes = {.kept = 1, .restarted = 2, .moved = 3, .created = 4, .removed = 5};
  Present gone;
  gone.place = kHere;
  gone.gi_id = 7;
  gone.uuid = "MIG-a";
  change.destroy.push_back(gone);
  gone.segment = kRuns;
  change.destroy.push_back(gone);
  gone.segment = {};
  gone.ours = true;
  gone.holders = {{41, "x"}};
  change.destroy.push_back(gone);
  change.keep.push_back(gone);
  change.create.push_back({kThere, kRuns});
  change.create.push_back({kHere, {}});
  change.reassign.push_back({gone, kRuns});
  change.move.push_back({gone, {kThere, kRuns}});
  change.temporary.push_back({kThere, kRuns});
  for (const Step::Kind kind :
       {Step::Kind::enable_mig, Step::Kind::create_instance, Step::Kind::create_compute,
        Step::Kind::start, Step::Kind::stop, Step::Kind::drain, Step::Kind::destroy_compute,
        Step::Kind::destroy_instance})
    change.steps.push_back({kind, kHere, kRuns, false, {}});
  change.steps.push_back({Step::Kind::create_instance, kHere, kRuns, true, Seconds{0.115}});
  change.steps.push_back({Step::Kind::start, kHere, kRuns, true, {}});
  change.steps.push_back({Step::Kind::stop, kHere, kRuns, true, {}});
  change.steps.push_back({Step::Kind::destroy_instance, kHere, kRuns, true, {}});
  change.affected = {{"a", {0}, {0}, 1, ""},
                     {"b", {0.25}, {1.5}, 0.33, "no room"},
                     {"c", {0}, {0}, 1 - 1e-12, ""},
                     {"d", {0}, {0}, 0.5, ""},
                     {"e", {0}, {0.125}, 1, ""}};
  change.blockers = {{gone, {42, "top"}}, {gone, {0, "slurm:9"}}};
  change.predicted = Seconds{2.346};
  change.kept_gpcs = 6;
  change.explanation = {"for one reason", "and another"};
  return change;
}

TEST(ChangeText, SaysAllThereIs) {
  EXPECT_EQ(change_text(everything(), true),
            R"(instances: 1 kept, 2 restarted, 3 moved, 4 created, 5 removed
  - gpu 0 1g.6gb at 2  (not made by Partita)
  - gpu 0 1g.6gb at 2  chat b4x2
  - gpu 0 1g.6gb at 2
  + gpu 1 2g.12gb at 0  chat b4x2
  + gpu 0 1g.6gb at 2
  ~ gpu 0 1g.6gb at 2  chat b4x2

steps
    1  turn MIG on, on gpu 0
    2  create gpu 0 1g.6gb at 2
    3  create its compute instance, gpu 0 1g.6gb at 2
    4  start chat on gpu 0 1g.6gb at 2
    5  stop chat on gpu 0 1g.6gb at 2
    6  wait until nobody holds gpu 0 1g.6gb at 2
    7  destroy its compute instance, gpu 0 1g.6gb at 2
    8  destroy gpu 0 1g.6gb at 2
    9  create gpu 0 1g.6gb at 2 (stand-in)  0.12 s
   10  start chat on gpu 0 1g.6gb at 2 (stand-in)
   11  stop chat on gpu 0 1g.6gb at 2 (stand-in)
   12  destroy gpu 0 1g.6gb at 2 (stand-in)

affected services
  b: down to 33 %, 1.50 s below its minimum, 0.25 s with nothing running
    no room
  d: down to 50 %, 0.00 s below its minimum, 0.00 s with nothing running
  e: down to 100 %, 0.12 s below its minimum, 0.00 s with nothing running
  at 100 % all the time: a, c
blocked by: pid 42 top on gpu 0 1g.6gb at 2 (MIG-a)
blocked by: slurm:9 on gpu 0 1g.6gb at 2 (MIG-a)

why
  for one reason
  and another

predicted 2.35 s of driver time; rollback point: the node as it is now
)");
}

TEST(ChangeText, SaysNothingOfWhatIsNot) {
  EXPECT_EQ(change_text({}, true),
            "instances: 0 kept, 0 restarted, 0 moved, 0 created, 0 removed\n\npredicted 0.00 s of "
            "driver time; rollback point: the node as it is now\n");
  EXPECT_THAT(change_text(everything(), false), Not(HasSubstr("reason")));
  EXPECT_EQ(affected_text({}), "");
  EXPECT_THAT(affected_text({{"b", {0}, {1}, 0.5, ""}}), Not(HasSubstr("all the time")));
}

// Every field of the document, as its readers have it.
TEST(ChangeJson, HasEveryField) {
  const Result<Document> read = parse_document("c", change_json(everything()));
  ASSERT_TRUE(read) << to_string(read.error());
  const Node& root = read->root;
  const auto list = [&](const char* key) -> const std::vector<Node>& {
    const Node* found = root.find(key);
    EXPECT_NE(found, nullptr) << key;
    return found->items;
  };
  const auto text = [](const Node& node, const char* key) {
    const Node* found = node.find(key);
    return found != nullptr ? found->text : std::string("none");
  };
  const auto number = [](const Node& node, const char* key) {
    return node.find(key) != nullptr ? node.find(key)->number : -1;
  };
  EXPECT_EQ(text(root, "kind"), "Change");
  ASSERT_EQ(list("destroy").size(), 3u);
  const Node& first = list("destroy")[0];
  EXPECT_EQ(number(first, "gpu"), 0);
  EXPECT_EQ(text(first, "gpu_uuid"), "GPU-a");
  EXPECT_EQ(text(first, "profile"), "1g.6gb");
  EXPECT_EQ(number(first, "start"), 2);
  EXPECT_EQ(number(first, "gi_id"), 7);
  EXPECT_EQ(text(first, "uuid"), "MIG-a");
  EXPECT_FALSE(first.find("busy")->boolean);
  EXPECT_FALSE(first.find("ours")->boolean);
  EXPECT_EQ(first.find("service"), nullptr);
  EXPECT_TRUE(list("keep")[0].find("busy")->boolean);
  EXPECT_TRUE(list("keep")[0].find("ours")->boolean);
  const Node& created = list("create")[0];
  EXPECT_EQ(text(created, "service"), "chat");
  EXPECT_EQ(number(created, "batch"), 4);
  EXPECT_EQ(number(created, "processes"), 2);
  EXPECT_EQ(list("create").size(), 2u);
  EXPECT_EQ(text(list("destroy")[1], "service"), "chat");
  EXPECT_EQ(text(list("reassign")[0], "service"), "chat");
  EXPECT_EQ(number(list("reassign")[0], "start"), 2);
  EXPECT_EQ(number(list("move")[0], "gpu"), 1);
  EXPECT_EQ(number(*list("move")[0].find("from"), "gi_id"), 7);
  EXPECT_EQ(text(list("temporary")[0], "profile"), "2g.12gb");
  ASSERT_EQ(list("steps").size(), 12u);
  EXPECT_EQ(text(list("steps")[0], "op"), "enable_mig");
  EXPECT_EQ(text(list("steps")[7], "op"), "destroy_instance");
  EXPECT_EQ(text(list("steps")[7], "service"), "chat");
  EXPECT_EQ(list("steps")[7].find("temporary"), nullptr);
  EXPECT_TRUE(list("steps")[8].find("temporary")->boolean);
  EXPECT_EQ(number(list("steps")[8], "predicted_s"), 0.115);
  const Node& below = list("affected_services")[1];
  EXPECT_EQ(text(below, "name"), "b");
  EXPECT_EQ(number(below, "unavailable_s"), 0.25);
  EXPECT_EQ(number(below, "below_s"), 1.5);
  EXPECT_EQ(number(below, "least_available"), 0.33);
  EXPECT_EQ(text(below, "why"), "no room");
  EXPECT_EQ(list("affected_services")[0].find("why"), nullptr);
  EXPECT_EQ(number(list("blockers")[0], "start"), 2);
  EXPECT_EQ(number(list("blockers")[0], "pid"), 42);
  EXPECT_EQ(text(list("blockers")[0], "name"), "top");
  EXPECT_EQ(text(list("blockers")[0], "uuid"), "MIG-a");
  EXPECT_EQ(list("explanation")[1].text, "and another");
  const Node& counts = *root.find("changes");
  EXPECT_EQ(number(counts, "kept"), 1);
  EXPECT_EQ(number(counts, "restarted"), 2);
  EXPECT_EQ(number(counts, "moved"), 3);
  EXPECT_EQ(number(counts, "created"), 4);
  EXPECT_EQ(number(counts, "removed"), 5);
  EXPECT_EQ(number(root, "kept_gpcs"), 6);
  EXPECT_EQ(number(root, "predicted_s"), 2.346);
}

}  // namespace
}  // namespace partita::actuate
