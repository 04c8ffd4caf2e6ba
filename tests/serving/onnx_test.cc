// The models that we write, run by ONNX Runtime, against plain C++ on the same weights; and what
// the engine refuses. Skipped where there is no ONNX Runtime (tools/get_onnxruntime gets it).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <unistd.h>

#include "serve/onnx/models.h"
#include "serve/wire/items.h"
#include "serve/wire/texts.h"
#include "serve/worker/ort_engine.h"
#include "serve/worker/warm_up.h"

// The library keeps 14 bytes of its own, once a process.
extern "C" const char* __lsan_default_suppressions() { return "leak:libonnxruntime"; }

namespace partita::serve {
namespace {

constexpr double kClose = 1e-4;

using Numbers = std::vector<float>;

const Numbers& weight(const OnnxGraph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.weights(), name, &OnnxWeight::name);
  return std::get<Numbers>(found->values);
}

Numbers relu(Numbers x) {
  for (float& value : x) value = std::max(value, 0.0F);
  return x;
}

// x [from] times w [from, to] plus b.
Numbers gemm(const Numbers& x, const Numbers& w, const Numbers& b) {
  Numbers y(b.size());
  for (std::size_t to = 0; to < b.size(); ++to) {
    double sum = b[to];
    for (std::size_t i = 0; i < x.size(); ++i) sum += double{x[i]} * w[(i * b.size()) + to];
    y[to] = static_cast<float>(sum);
  }
  return y;
}

// A picture: channels of side x side.
struct Picture {
  int side = 0;
  Numbers data;
  float at(int channel, int row, int column) const {
    const bool inside = row >= 0 && row < side && column >= 0 && column < side;
    return inside ? data[static_cast<std::size_t>((((channel * side) + row) * side) + column)] : 0;
  }
};

// 3x3 with a border of zeros, then Relu.
Picture convolve(const Picture& x, const Numbers& w, const Numbers& b) {
  const int from = static_cast<int>(w.size() / b.size() / 9);
  Picture y{x.side, {}};
  for (std::size_t to = 0; to < b.size(); ++to) {
    for (int row = 0; row < x.side; ++row) {
      for (int column = 0; column < x.side; ++column) {
        double sum = b[to];
        for (int c = 0; c < from; ++c) {
          const std::size_t first = ((to * static_cast<std::size_t>(from)) + std::size_t(c)) * 9;
          for (int k = 0; k < 9; ++k) {
            sum += double{x.at(c, row - 1 + (k / 3), column - 1 + (k % 3))} *
                   w[first + static_cast<std::size_t>(k)];
          }
        }
        y.data.push_back(std::max(0.0F, static_cast<float>(sum)));
      }
    }
  }
  return y;
}

Picture pool(const Picture& x) {
  Picture y{x.side / 2, {}};
  const int channels = static_cast<int>(x.data.size()) / (x.side * x.side);
  for (int c = 0; c < channels; ++c) {
    for (int row = 0; row < x.side; row += 2) {
      for (int column = 0; column < x.side; column += 2) {
        y.data.push_back(
            std::max(std::max(x.at(c, row, column), x.at(c, row, column + 1)),
                     std::max(x.at(c, row + 1, column), x.at(c, row + 1, column + 1))));
      }
    }
  }
  return y;
}

class Onnx : public testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("PARTITA_ONNXRUNTIME");
    const std::string place = named != nullptr ? named : "build/onnxruntime/libonnxruntime.so.1";
    auto loaded = OrtLibrary::load({place});
    if (!loaded) GTEST_SKIP() << "no ONNX Runtime here: " << to_string(loaded.error());
    library = *loaded;
  }
  ~Onnx() override { std::filesystem::remove(path); }

  Result<EnginePointer> open(const std::string& bytes, int max_batch, ChosenShapes shapes = {}) {
    std::ofstream(path, std::ios::binary) << bytes;
    return ort_engine(
        *library,
        {.model_file = path, .name = "m", .max_batch = max_batch, .shapes = std::move(shapes)});
  }
  // What the engine makes of these items, in slots in reverse order.
  std::vector<Numbers> run(Engine& engine, const std::vector<Numbers>& items) {
    const SlotLayout layout = slot_layout(engine.spec());
    std::vector<char> memory((items.size() + 1) * layout.bytes);
    std::vector<char*> slots;
    for (std::size_t i = 0; i < items.size(); ++i) {
      slots.push_back(memory.data() + ((items.size() - i) * layout.bytes));
      std::memcpy(slots[i] + layout.inputs[0], items[i].data(), items[i].size() * sizeof(float));
    }
    const auto ran = engine.run(slots);
    EXPECT_TRUE(ran) << to_string(ran.error());
    std::vector<Numbers> outputs;
    for (const char* slot : slots) {
      Numbers y(static_cast<std::size_t>(elements_of(engine.spec().outputs[0])));
      std::memcpy(y.data(), slot + layout.outputs[0], y.size() * sizeof(float));
      outputs.push_back(std::move(y));
    }
    return outputs;
  }
  Numbers random_item(const Engine& engine) {
    Numbers x(static_cast<std::size_t>(elements_of(engine.spec().inputs[0])));
    std::normal_distribution<float> normal;
    for (float& value : x) value = normal(random_);
    return x;
  }
  static void expect_close(const Numbers& got, const Numbers& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i], kClose * (1 + std::abs(wanted[i]))) << i;
  }
  // Each item of batches of 1, 2 and 5 is what `forward` makes of it.
  template <class Forward>
  void compare(Engine& engine, const Forward& forward) {
    for (const std::size_t batch : {1U, 5U, 2U}) {
      std::vector<Numbers> items;
      for (std::size_t i = 0; i < batch; ++i) items.push_back(random_item(engine));
      const std::vector<Numbers> outputs = run(engine, items);
      for (std::size_t i = 0; i < batch; ++i) expect_close(outputs[i], forward(items[i]));
    }
  }

  std::optional<OrtLibrary> library;
  std::string path = testing::TempDir() + "onnx_test_" + std::to_string(::getpid()) + ".onnx";
  std::mt19937 random_{7};
};

TEST_F(Onnx, MlpEqualsPlainCode) {
  const OnnxGraph graph = onnx_mlp({.inputs = 24, .hidden = {33, 17}, .outputs = 9}, 3);
  const auto engine = open(graph.bytes(), 5);
  ASSERT_TRUE(engine) << to_string(engine.error());
  EXPECT_EQ((*engine)->spec().outputs[0].shape, (std::vector<std::int64_t>{9}));
  compare(**engine, [&](const Numbers& x) {
    const Numbers a = relu(gemm(x, weight(graph, "w0"), weight(graph, "b0")));
    const Numbers b = relu(gemm(a, weight(graph, "w1"), weight(graph, "b1")));
    return gemm(b, weight(graph, "w2"), weight(graph, "b2"));
  });
}

TEST_F(Onnx, CnnEqualsPlainCode) {
  const CnnSize size{.channels = 2, .side = 8, .width = 4, .blocks = 2, .classes = 3};
  const OnnxGraph graph = onnx_cnn(size, 4);
  const auto engine = open(graph.bytes(), 5);
  ASSERT_TRUE(engine) << to_string(engine.error());
  compare(**engine, [&](const Numbers& x) {
    const Picture a = pool(convolve({8, x}, weight(graph, "w0"), weight(graph, "b0")));
    const Picture b = pool(convolve(a, weight(graph, "w1"), weight(graph, "b1")));
    Numbers means(8);
    for (std::size_t i = 0; i < b.data.size(); ++i) means[i / 4] += b.data[i] / 4;
    return gemm(means, weight(graph, "w_out"), weight(graph, "b_out"));
  });
}

TEST_F(Onnx, TransformerNormalisesEachTokenAndSeesAll) {
  const TransformerSize size{.tokens = 6, .width = 8, .heads = 2, .feedforward = 16, .layers = 2};
  const auto engine = open(onnx_transformer(size, 5).bytes(), 3);
  ASSERT_TRUE(engine) << to_string(engine.error());
  std::vector<Numbers> items = {random_item(**engine), random_item(**engine)};
  const std::vector<Numbers> together = run(**engine, items);
  for (std::size_t token = 0; token < 6; ++token) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < 8; ++i) sum += together[0][(token * 8) + i];
    for (std::size_t i = 0; i < 8; ++i) squares += std::pow(together[0][(token * 8) + i], 2);
    EXPECT_NEAR(sum, 0, 1e-3);
    EXPECT_NEAR(squares / 8, 1, 1e-2);
  }
  expect_close(run(**engine, {items[1]})[0], together[1]);  // items do not see each other
  items[1][0] += 1;                                         // but tokens do
  EXPECT_GT(std::abs(run(**engine, {items[1]})[0][47] - together[1][47]), 1e-4);
}

TEST_F(Onnx, TheSameSeedIsTheSameFile) {
  EXPECT_EQ(onnx_mlp({}, 1).bytes(), onnx_mlp({}, 1).bytes());
  EXPECT_NE(onnx_mlp({}, 1).bytes(), onnx_mlp({}, 2).bytes());
}

TEST_F(Onnx, RefusesWhatCannotBeServed) {
  const auto fault = [](const Result<EnginePointer>& engine) {
    return engine ? "" : to_string(engine.error());
  };
  EXPECT_NE(fault(open("no model", 1)), "");
  OnnxGraph open_shape("g");
  open_shape.input("x", OnnxGraph::Element::float32, {-1});
  open_shape.node("Relu", {"x"}, "y");
  open_shape.output("y", OnnxGraph::Element::float32, {-1});
  const auto chosen = open(open_shape.bytes(), 2, {{"x", {1, 3}}});
  ASSERT_TRUE(chosen) << fault(chosen);
  EXPECT_EQ((*chosen)->spec().outputs[0].shape, (std::vector<std::int64_t>{3}));
  EXPECT_NE(fault(open(open_shape.bytes(), 2, {{"x", {3}}, {"z", {3}}})), "");
  EXPECT_FALSE(OrtLibrary::load({"/nowhere/libonnxruntime.so"}));
  EXPECT_FALSE(OrtLibrary::load({"libm.so.6"}));
}

using Shape = std::vector<std::int64_t>;
using Element = OnnxGraph::Element;

// An item of a tensor with open sizes.
struct Sized {
  Shape sizes = {};
  Numbers values = {};
  bool operator==(const Sized&) const = default;
};

class Open : public Onnx {
 protected:
  Result<EnginePointer> open_with(const OnnxGraph& graph, OrtOptions options) {
    std::ofstream(path, std::ios::binary) << graph.bytes();
    options.model_file = path;
    options.name = "m";
    return ort_engine(*library, options);
  }
  // What comes out of each output (outer) for each item (inner).
  static std::vector<std::vector<Sized>> run_items(Engine& engine,
                                                   const std::vector<std::vector<Sized>>& items) {
    const ModelSpec& spec = engine.spec();
    const SlotLayout layout = slot_layout(spec);
    std::vector<char> memory(items.size() * layout.bytes);
    std::vector<char*> slots;
    for (const auto& item : items) {
      slots.push_back(memory.data() + (slots.size() * layout.bytes));
      for (std::size_t t = 0; t < item.size(); ++t) {
        const std::span<char> row(slots.back() + layout.inputs[t], bytes_of(spec.inputs[t]));
        const auto values = begin_item(spec.inputs[t], item[t].sizes, row);
        std::memcpy(values.data(), item[t].values.data(), values.size());
      }
    }
    const auto ran = engine.run(slots);
    EXPECT_TRUE(ran) << to_string(ran.error());
    std::vector<std::vector<Sized>> all(spec.outputs.size());
    for (std::size_t t = 0; t < spec.outputs.size(); ++t) {
      for (const char* slot : slots) {
        const TensorSpec& output = spec.outputs[t];
        const std::span<const char> row(slot + layout.outputs[t], bytes_of(output));
        const auto used = used_part(output, row);
        Sized one{.sizes = sizes_in(output, row).value_or(Shape{-7})};
        if (one.sizes.empty()) one.sizes = output.shape;
        if (used) one.values.resize(used->size() / sizeof(float));
        if (!one.values.empty()) std::memcpy(one.values.data(), used->data(), used->size());
        all[t].push_back(std::move(one));
      }
    }
    return all;
  }
};

TEST_F(Open, ItemsOfDifferentSizesRunWithTheirLike) {
  OnnxGraph graph("g");
  graph.input("x", Element::float32, {-1, 2});
  graph.node("Relu", {"x"}, "y");
  graph.output("y", Element::float32, {-1, 2});
  const auto engine = open_with(graph, {.max_batch = 4, .shapes = {{"x", {-3, 2}}}});
  ASSERT_TRUE(engine) << to_string(engine.error());
  EXPECT_EQ((*engine)->spec().inputs[0].shape, (Shape{kOpen, 2}));
  EXPECT_EQ((*engine)->spec().inputs[0].usual, (Shape{3, 2}));
  const Sized a{{1, 2}, {-1, 5}}, b{{2, 2}, {1, -2, 3, -4}}, c{{1, 2}, {7, -8}};
  const Sized ra{{1, 2}, {0, 5}}, rb{{2, 2}, {1, 0, 3, 0}}, rc{{1, 2}, {7, 0}};
  EXPECT_EQ(run_items(**engine, {{a}, {b}, {c}})[0], (std::vector{ra, rb, rc}));
  EXPECT_EQ((*engine)->filling().values, 8U);
  EXPECT_EQ((*engine)->filling().padding, 0U);
  EXPECT_TRUE(warm_up(**engine, [] { return true; }));
}

TEST_F(Open, BucketsPadAndCutOffAgain) {
  OnnxGraph graph("g");
  graph.input("x", Element::float32, {-1});
  graph.node("Relu", {"x"}, "y");
  graph.output("y", Element::float32, {-1});
  const auto engine = open_with(graph, {.max_batch = 4, .buckets = {4, 2}});
  ASSERT_TRUE(engine) << to_string(engine.error());
  const Sized a{{1}, {-1}}, b{{3}, {1, -2, 3}}, c{{5}, {1, 2, 3, 4, -5}};
  const Sized ra{{1}, {0}}, rb{{3}, {1, 0, 3}}, rc{{5}, {1, 2, 3, 4, 0}};
  EXPECT_EQ(run_items(**engine, {{a}, {b}, {c}})[0], (std::vector{ra, rb, rc}));
  EXPECT_EQ((*engine)->filling().values, 9U);
  EXPECT_EQ((*engine)->filling().padding, 2U);  // 1 up to 2, 3 up to 4, 5 as it is
}

// Powers of two at first; then those that fit what came.
TEST_F(Open, BucketsAreLearned) {
  OnnxGraph graph("g");
  graph.input("x", Element::float32, {-1});
  graph.node("Relu", {"x"}, "y");
  graph.output("y", Element::float32, {-1});
  const auto engine = open_with(graph, {.max_batch = 4, .learned_buckets = 2});
  ASSERT_TRUE(engine) << to_string(engine.error());
  const Sized a{{5}, {1, 2, 3, 4, -5}}, b{{9}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  const Sized ra{{5}, {1, 2, 3, 4, 0}};
  EXPECT_EQ(run_items(**engine, {{a}, {b}})[0], (std::vector{ra, b}));
  EXPECT_EQ((*engine)->filling().padding, 3U + 7U);
  for (int i = 0; i < 256; ++i) run_items(**engine, {{a}, {b}});
  EXPECT_EQ(run_items(**engine, {{a}, {b}})[0], (std::vector{ra, b}));
  EXPECT_EQ((*engine)->filling().padding, 0U);
}

// How many values are not zero, and where: of a size that nobody knows before.
TEST_F(Open, OutputsOfFreeSizeTakeARequestAtATime) {
  OnnxGraph graph("g");
  graph.input("x", Element::float32, {3});
  graph.node("NonZero", {"x"}, "at");
  graph.node("Cast", {"at"}, "y", {{"to", std::int64_t{1}}});
  graph.output("y", Element::float32, {-1});
  const auto engine = open_with(graph, {.max_batch = 8});
  ASSERT_TRUE(engine) << to_string(engine.error());
  const ModelSpec& spec = (*engine)->spec();
  EXPECT_EQ(spec.max_batch, 1);
  EXPECT_FALSE(has_rows(spec));
  EXPECT_EQ(spec.inputs[0].shape, (Shape{kOpen, 3}));
  EXPECT_EQ(spec.outputs[0].shape, (Shape{2, kOpen}));
  const Sized x{{2, 3}, {0, 4, 0, 5, 0, 0}}, zero{{1, 3}, {0, 0, 0}};
  EXPECT_EQ(run_items(**engine, {{x}})[0], (std::vector{Sized{{2, 2}, {0, 1, 1, 0}}}));
  EXPECT_EQ(run_items(**engine, {{zero}})[0], (std::vector{Sized{{2, 0}, {}}}));
}

TEST_F(Open, AReductionOverAllIsOneRequestToo) {
  OnnxGraph graph("g");
  graph.input("x", Element::float32, {3});
  graph.node("ReduceSum", {"x"}, "y", {{"keepdims", std::int64_t{0}}});
  graph.whole_output("y", Element::float32, {});
  const auto engine = open_with(graph, {.max_batch = 8});
  ASSERT_TRUE(engine) << to_string(engine.error());
  const Sized x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(run_items(**engine, {{x}})[0], (std::vector{Sized{{}, {21}}}));
}

// One comes out whatever goes in, and what goes in has rows: they are not what comes out.
TEST_F(Open, AReductionThatKeepsItsAxisIsNoRow) {
  OnnxGraph graph("g");
  graph.whole_input("x", Element::float32, {-1});
  graph.node("ReduceSum", {"x"}, "y", {{"keepdims", std::int64_t{1}}});
  graph.whole_output("y", Element::float32, {1});
  const auto engine = open_with(graph, {.max_batch = 8});
  ASSERT_TRUE(engine) << to_string(engine.error());
  EXPECT_FALSE(has_rows((*engine)->spec()));
  const Sized x{{3}, {1, 2, 3}};
  EXPECT_EQ(run_items(**engine, {{x}})[0], (std::vector{Sized{{1}, {6}}}));
}

// Each row with each other: what comes out grows in both directions, so no part of it is a row's.
TEST_F(Open, RowsThatMeetAreOneRequest) {
  OnnxGraph graph("g");
  graph.input("x", Element::float32, {2});
  graph.node("Transpose", {"x"}, "t");
  graph.node("MatMul", {"x", "t"}, "y");
  graph.whole_output("y", Element::float32, {-1, -1});
  const auto engine = open_with(graph, {.max_batch = 8});
  ASSERT_TRUE(engine) << to_string(engine.error());
  EXPECT_FALSE(has_rows((*engine)->spec()));
  const Sized x{{2, 2}, {1, 2, 3, 4}};
  EXPECT_EQ(run_items(**engine, {{x}})[0], (std::vector{Sized{{2, 2}, {5, 11, 11, 25}}}));
}

// Rows on the second axis of a state, and a factor that all share.
TEST_F(Open, RowsLieOnAnyAxisAndSharedOnesTellGroupsApart) {
  OnnxGraph graph("g");
  graph.whole_input("state", Element::float32, {2, -1, 3});
  graph.input("x", Element::float32, {3});
  graph.whole_input("factor", Element::float32, {});
  graph.node("Add", {"state", "x"}, "sum");
  graph.node("Mul", {"sum", "factor"}, "next");
  graph.whole_output("next", Element::float32, {2, -1, 3});
  const auto engine = open_with(graph, {.max_batch = 4, .values = {{"factor", 2.0}}});
  ASSERT_TRUE(engine) << to_string(engine.error());
  const ModelSpec& spec = (*engine)->spec();
  EXPECT_EQ(spec.max_batch, 4);
  EXPECT_EQ(spec.inputs[0].batch_axis, 1);
  EXPECT_EQ(spec.inputs[2].batch_axis, kNoBatchAxis);
  EXPECT_EQ(spec.outputs[0].batch_axis, 1);
  const auto item = [](float state, float x, float factor) {
    const Numbers six{state, 0, 0, 10 * state, 0, 0};
    return std::vector{Sized{{2, 3}, six}, Sized{{3}, {x, 0, 0}}, Sized{{}, {factor}}};
  };
  const auto result = [](float state, float x, float factor) {
    return Sized{{2, 3}, {(state + x) * factor, 0, 0, (10 * state + x) * factor, 0, 0}};
  };
  EXPECT_EQ(run_items(**engine, {item(1, 2, 3), item(4, 5, 6), item(7, 8, 3)})[0],
            (std::vector{result(1, 2, 3), result(4, 5, 6), result(7, 8, 3)}));
  const auto alone = open_with(graph, {.max_batch = 0});
  ASSERT_TRUE(alone) << to_string(alone.error());
  EXPECT_FALSE(has_rows((*alone)->spec()));
  EXPECT_EQ((*alone)->spec().inputs[0].shape, (Shape{2, kOpen, 3}));
}

// next = state + x, y = 10 next: steps of two sequences, together and in turn.
TEST_F(Open, StateIsKeptBySequence) {
  OnnxGraph graph("g");
  graph.input("state", Element::float32, {2});
  graph.input("x", Element::float32, {2});
  const std::string ten = graph.weight({"ten", {1}, std::vector<float>{10}});
  graph.node("Add", {"state", "x"}, "next");
  graph.node("Mul", {"next", ten}, "y");
  graph.output("y", Element::float32, {2});
  graph.output("next", Element::float32, {2});
  const auto opened = open_with(graph, {.max_batch = 4, .states = {{"state", "next"}}});
  ASSERT_TRUE(opened) << to_string(opened.error());
  Engine& engine = **opened;
  EXPECT_TRUE(engine.spec().sequences);
  ASSERT_EQ(engine.spec().inputs.size(), 1U);
  ASSERT_EQ(engine.spec().outputs.size(), 1U);
  const SlotLayout layout = slot_layout(engine.spec());
  const auto steps = [&](const std::vector<std::pair<SlotStep, float>>& items) {
    std::vector<char> memory(items.size() * layout.bytes);
    std::vector<char*> slots;
    for (const auto& [step, x] : items) {
      slots.push_back(memory.data() + (slots.size() * layout.bytes));
      const float both[] = {x, -x};
      std::memcpy(slots.back() + layout.inputs[0], both, sizeof both);
      write_slot_step(slots.back() + layout.step, step);
    }
    const auto ran = engine.run(slots);
    EXPECT_TRUE(ran) << to_string(ran.error());
    Numbers out;
    for (const char* slot : slots) {
      float y[2];
      std::memcpy(y, slot + layout.outputs[0], sizeof y);
      EXPECT_EQ(y[0], -y[1]);
      out.push_back(y[0]);
    }
    return out;
  };
  EXPECT_EQ(steps({{{1, true}, 1}, {{2, true}, 2}}), (Numbers{10, 20}));
  EXPECT_EQ(steps({{{2}, 3}, {{1}, 4}}), (Numbers{50, 50}));
  EXPECT_EQ(steps({{{1, false, true}, 5}}), (Numbers{100}));
  EXPECT_EQ(steps({{{2}, 1}, {{1}, 1}, {{2}, 1}})[0], 60) << "the other sequence goes on";
  ASSERT_EQ(engine.faults().size(), 2U);  // one has ended, one is there twice
  EXPECT_EQ(engine.faults()[0].item, 1U);
  EXPECT_EQ(engine.faults()[0].message, "the state of its sequence is not here");
  EXPECT_EQ(engine.faults()[1].item, 2U);
  EXPECT_EQ(steps({{{2, true}, 1}}), (Numbers{10})) << "begun again";
  EXPECT_TRUE(warm_up(engine, [] { return true; }));
  EXPECT_TRUE(engine.faults().empty()) << "a whole batch runs, not its first item";
  EXPECT_FALSE(open_with(graph, {.max_batch = 4, .states = {{"state", "no"}}}));
  EXPECT_FALSE(open_with(graph, {.max_batch = 4, .states = {{"x", "y"}, {"z", "next"}}}));
}

// Words twice, beside numbers without those below 0.
TEST_F(Onnx, TextGoesThroughWhateverItsBytes) {
  OnnxGraph graph("text");
  graph.input("w", OnnxGraph::Element::string, {2});
  graph.input("x", OnnxGraph::Element::float32, {2});
  graph.node("Concat", {"w", "w"}, "ww", {{"axis", std::int64_t{1}}});
  graph.node("Relu", {"x"}, "y");
  graph.output("ww", OnnxGraph::Element::string, {4});
  graph.output("y", OnnxGraph::Element::float32, {2});
  const auto engine = open(graph.bytes(), 3);
  ASSERT_TRUE(engine) << to_string(engine.error());
  const ModelSpec& spec = (*engine)->spec();
  EXPECT_EQ(spec.outputs[0].type, DataType::bytes);
  EXPECT_EQ(spec.outputs[0].shape, std::vector<std::int64_t>{4});
  EXPECT_EQ(spec.inputs[0].text_bytes, kTextBytes);
  const SlotLayout layout = slot_layout(spec);
  const std::vector<std::string> words = {std::string("a\0b", 3), "", "\xFF", "\xC3\xA4",
                                          std::string(2048, 'x'), ""};
  for (const std::size_t batch : {1U, 3U, 2U}) {
    std::vector<char> memory(batch * layout.bytes, '\x7F');
    std::vector<char*> slots;
    for (std::size_t i = 0; i < batch; ++i) {
      slots.push_back(memory.data() + (i * layout.bytes));
      const std::span<char> row(slots[i] + layout.inputs[0], bytes_of(spec.inputs[0]));
      TextRows into(spec.inputs[0], {&row, 1});
      for (const std::size_t word : {2 * i, 2 * i + 1}) ASSERT_EQ(into.put(words[word]), "");
      const float x[] = {-1, static_cast<float>(i)};
      std::memcpy(slots[i] + layout.inputs[1], x, sizeof x);
    }
    const auto ran = (*engine)->run(slots);
    ASSERT_TRUE(ran) << to_string(ran.error());
    for (std::size_t i = 0; i < batch; ++i) {
      const auto used =
          used_part(spec.outputs[0], {slots[i] + layout.outputs[0], bytes_of(spec.outputs[0])});
      ASSERT_TRUE(used);
      std::vector<std::string> found;
      each_text(*used, [&](std::string_view text) { found.emplace_back(text); });
      const std::string &a = words[2 * i], &b = words[2 * i + 1];
      EXPECT_EQ(found, (std::vector<std::string>{a, b, a, b}));
      float y[2];
      std::memcpy(y, slots[i] + layout.outputs[1], sizeof y);
      EXPECT_EQ(y[0], 0);
      EXPECT_EQ(y[1], static_cast<float>(i));
    }
  }
  // Twice 2,049 bytes are more than there is room for; the engine lives on.
  std::vector<char> memory(layout.bytes);
  char* slot = memory.data();
  const std::span<char> row(slot + layout.inputs[0], bytes_of(spec.inputs[0]));
  TextRows into(spec.inputs[0], {&row, 1});
  for (const std::size_t letters : {2049U, 0U}) ASSERT_EQ(into.put(std::string(letters, 'x')), "");
  std::vector<char> other(layout.bytes);  // empty texts
  const std::array<char*, 2> both = {other.data(), slot};
  ASSERT_TRUE((*engine)->run(both));
  ASSERT_EQ((*engine)->faults().size(), 1U);  // the other item has its answer
  EXPECT_EQ((*engine)->faults()[0].item, 1U);
  EXPECT_EQ((*engine)->faults()[0].message,
            "output 'ww': more than 4096 bytes of text (--text-bytes)");
  EXPECT_TRUE(used_part(spec.outputs[0], {slot + layout.outputs[0], bytes_of(spec.outputs[0])}));
  std::fill_n(row.data(), 4, '\xFF');
  EXPECT_TRUE((*engine)->run({&slot, 1}));  // no text
  EXPECT_EQ((*engine)->faults().size(), 1U);
  std::fill(row.begin(), row.end(), '\0');
  EXPECT_TRUE((*engine)->run({&slot, 1}));
  EXPECT_TRUE((*engine)->faults().empty());
  EXPECT_TRUE(warm_up(**engine, [] { return true; }));
}

TEST_F(Onnx, WarmsUpAndMeasures) {
  const auto engine = open(onnx_mlp({.inputs = 64, .hidden = {64}, .outputs = 4}, 1).bytes(), 6);
  ASSERT_TRUE(engine);
  const auto curve = warm_up(**engine, [] { return true; });
  ASSERT_TRUE(curve);
  std::vector<int> batches;
  for (const CurvePoint& point : *curve) batches.push_back(point.batch);
  EXPECT_EQ(batches, (std::vector{1, 2, 4, 6}));
  EXPECT_FALSE(warm_up(**engine, [] { return false; }));
}

}  // namespace
}  // namespace partita::serve
