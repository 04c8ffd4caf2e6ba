#include "serve/worker/set_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>

#include "base/rng.h"

namespace partita::serve {
namespace {

ModelSpec added(const std::string& name) {
  return {.name = name,
          .platform = "test",
          .inputs = {{"x", DataType::fp32, {1}}},
          .outputs = {{"y", DataType::fp32, {1}}},
          .max_batch = 4};
}

struct Counts {
  int alive = 0, most = 0, loads = 0;
  std::map<std::string, int> of = {};
};

// y = x and how long its name is.
class AddEngine final : public Engine {
 public:
  AddEngine(const std::string& name, Counts& counts) : spec_(added(name)), counts_(counts) {
    counts_.most = std::max(counts_.most, ++counts_.alive);
  }
  ~AddEngine() override { --counts_.alive; }
  const ModelSpec& spec() const override { return spec_; }
  Result<void> run(std::span<char* const> slots) override {
    const SlotLayout layout = slot_layout(spec_);
    for (char* slot : slots) {
      float x = 0;
      std::memcpy(&x, slot + layout.inputs[0], sizeof x);
      if (x < 0) return environment_error(spec_.name, "negative");
      x += static_cast<float>(spec_.name.size());
      std::memcpy(slot + layout.outputs[0], &x, sizeof x);
    }
    return {};
  }

 private:
  ModelSpec spec_;
  Counts& counts_;
};

class SetEngines : public testing::Test {
 protected:
  Result<EnginePointer> make(std::size_t held, std::vector<std::string> models) {
    return set_engine({.name = "rare",
                       .held = held,
                       .models = std::move(models),
                       .load = [this](const std::string& model) -> Result<EnginePointer> {
                         ++counts.loads;
                         ++counts.of[model];
                         now += (model == "dear" ? 400 : 20) * 1'000'000LL;
                         if (model.starts_with("bad")) return environment_error(model, "broken");
                         return EnginePointer(std::make_unique<AddEngine>(model, counts));
                       },
                       .now_ns = [this] { return now; }});
  }
  float ask(Engine& engine, std::string_view model, float x = 1) {
    const SlotLayout layout = slot_layout(engine.spec());
    std::vector<char> slot(layout.bytes);
    write_slot_model(slot.data() + layout.model, model);
    std::memcpy(slot.data() + layout.inputs[0], &x, sizeof x);
    char* const at = slot.data();
    EXPECT_TRUE(engine.run(std::span(&at, 1)));
    if (!engine.faults().empty()) return -1;
    std::memcpy(&x, slot.data() + layout.outputs[0], sizeof x);
    return x;
  }
  Counts counts;
  std::int64_t now = 0;
};

TEST_F(SetEngines, HoldSoManyAndNeverMore) {
  const auto engine = make(2, {"a", "bb", "ccc"});
  ASSERT_TRUE(engine);
  EXPECT_TRUE((*engine)->spec().set);
  EXPECT_EQ((*engine)->spec().max_batch, 1);
  counts = {};
  EXPECT_EQ(ask(**engine, "a"), 2);
  EXPECT_EQ((*engine)->set_tally()->loads, 1U);
  EXPECT_EQ(ask(**engine, "a"), 2);
  EXPECT_EQ((*engine)->set_tally()->loads, 0U);
  EXPECT_EQ(ask(**engine, "bb"), 3);
  EXPECT_EQ(ask(**engine, "a"), 2);
  EXPECT_EQ(ask(**engine, "ccc"), 4);  // bb goes
  EXPECT_EQ((*engine)->set_tally()->evictions, 1U);
  EXPECT_EQ((*engine)->set_tally()->held, 2U);
  EXPECT_EQ(ask(**engine, "a"), 2);
  EXPECT_EQ(counts.loads, 3);
  EXPECT_EQ(counts.most, 2);
}

// Where all take as long to load, it is a list by when they were asked for.
TEST_F(SetEngines, LetGoOfTheOneAskedForLongestAgo) {
  std::vector<std::string> names;
  for (int i = 0; i < 30; ++i) names.push_back("m" + std::to_string(i));
  const auto engine = make(7, names);
  ASSERT_TRUE(engine);
  std::list<std::string> there;
  Rng rng(5);
  for (int i = 0; i < 3000; ++i) {
    const std::string& name = names[std::min(rng.below(30), rng.below(30))];
    const auto found = std::ranges::find(there, name);
    const bool cold = found == there.end();
    if (!cold) there.erase(found);
    there.push_front(name);
    if (there.size() > 7) there.pop_back();
    ask(**engine, name);
    ASSERT_EQ((*engine)->set_tally()->loads, cold ? 1U : 0U) << i;
  }
}

TEST_F(SetEngines, KeepWhatTakesLongToLoad) {
  const auto engine = make(2, {"dear", "a", "b", "c"});
  ASSERT_TRUE(engine);
  ask(**engine, "dear");
  counts = {};
  for (int i = 0; i < 5; ++i)
    for (const char* cheap : {"a", "b", "c"}) ask(**engine, cheap);
  ask(**engine, "dear");
  EXPECT_EQ(counts.of["dear"], 0);
  for (int i = 0; i < 40; ++i)  // but not for ever
    for (const char* cheap : {"a", "b", "c"}) ask(**engine, cheap);
  ask(**engine, "dear");
  EXPECT_EQ(counts.of["dear"], 1);
}

TEST_F(SetEngines, AModelThatFailsFailsAlone) {
  const auto engine = make(2, {"a", "b", "bad"});
  ASSERT_TRUE(engine);
  counts = {};
  EXPECT_EQ(ask(**engine, "a"), 2);
  EXPECT_EQ(ask(**engine, "bad"), -1);
  EXPECT_EQ((*engine)->set_tally()->failures, 1U);
  EXPECT_EQ((*engine)->set_tally()->evictions, 0U);
  EXPECT_EQ(ask(**engine, "bad"), -1);
  EXPECT_EQ(counts.of["bad"], 1) << "not tried again at once";
  EXPECT_EQ(ask(**engine, "a"), 2);
  EXPECT_EQ(counts.of["a"], 1) << "still there";
  now += kFailedForNs;
  EXPECT_EQ(ask(**engine, "bad"), -1);
  EXPECT_EQ(counts.of["bad"], 2);
  EXPECT_EQ(ask(**engine, "nobody"), -1);
  EXPECT_EQ(ask(**engine, "a", -3), -1) << "a run that fails";
  EXPECT_EQ(ask(**engine, "a"), 2);
}

TEST_F(SetEngines, BeginWithTheFirstThatCanBeLoaded) {
  EXPECT_TRUE(make(1, {"bad1", "x"}));
  EXPECT_FALSE(make(1, {"bad1", "bad2"}));
  const auto any = make(1, {});
  ASSERT_TRUE(any);
  EXPECT_EQ(ask(**any, "whatever"), 9);
}

}  // namespace
}  // namespace partita::serve
