// Changes of documents against a second implementation of their merging, by another library.
#include "api/state_changes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace partita::api {
namespace {

using nlohmann::json;

json merged(json target, const json& patch) {
  if (!patch.is_object()) return patch;
  if (target.is_array()) {
    for (const auto& [key, value] : patch.items()) {
      if (key == "length") continue;
      const std::size_t at = std::stoul(key);
      while (target.size() <= at) target.push_back(nullptr);
      target[at] = merged(target[at], value);
    }
    if (patch.contains("length"))
      while (target.size() > patch["length"].get<std::size_t>()) target.erase(target.size() - 1);
    return target;
  }
  if (!target.is_object()) target = json::object();
  for (const auto& [key, value] : patch.items()) {
    if (value.is_null())
      target.erase(key);
    else
      target[key] = merged(target.contains(key) ? target[key] : json(), value);
  }
  return target;
}

std::optional<std::string> between(const json& before, const json& after) {
  return changes_between(parse_document("a.json", before.dump()).value().root,
                         parse_document("b.json", after.dump()).value().root);
}

json any(std::mt19937& random, int depth) {
  const auto below = [&](unsigned most) { return random() % most; };
  switch (below(depth > 0 ? 6 : 4)) {
    case 0:
      return below(3);
    case 1:
      return "text \"" + std::to_string(below(3)) + "\"";
    case 2:
      return below(2) == 0;
    case 3:
      return static_cast<double>(below(100)) / 7;
    case 4: {
      json list = json::array();
      for (auto n = below(4); n > 0; --n) list.push_back(any(random, depth - 1));
      return list;
    }
    default: {
      json object = json::object();
      for (const char* key : {"a", "b", "length"})
        if (below(3) > 0) object[key] = any(random, depth - 1);
      return object;
    }
  }
}

// A document like the one before: some of its values are others.
json varied(const json& value, std::mt19937& random, int depth) {
  if (random() % 6 == 0) return any(random, depth);
  json next = value;
  if (value.is_object())
    for (auto& [key, member] : next.items()) member = varied(member, random, depth - 1);
  if (value.is_array()) {
    for (json& item : next) item = varied(item, random, depth - 1);
    if (random() % 3 == 0) next.push_back(any(random, depth - 1));
    if (random() % 3 == 0 && !next.empty()) next.erase(0);
  }
  return next;
}

TEST(StateChanges, MergedTheyGiveTheDocument) {
  std::mt19937 random(7);
  int said = 0;
  for (int i = 0; i < 3000; ++i) {
    const json before = {{"x", any(random, 4)}, {"y", any(random, 4)}};
    const json after = {{"x", varied(before["x"], random, 4)},
                        {"y", varied(before["y"], random, 4)}};
    const auto patch = between(before, after);
    if (!patch) continue;  // an object where a list was
    ++said;
    EXPECT_EQ(merged(before, json::parse(*patch)), after) << before << *patch;
  }
  EXPECT_GT(said, 2000);
}

TEST(StateChanges, OnlyWhatIsAnotherIsSaid) {
  const json before = {{"a", 1}, {"rows", {{{"n", 1}, {"m", 2}}, {{"n", 2}, {"m", 2}}}}};
  json after = before;
  EXPECT_EQ(between(before, after), "{}");
  after["rows"][1]["m"] = 3;
  EXPECT_EQ(between(before, after), R"({"rows":{"1":{"m":3}}})");
  after["rows"].erase(0);
  EXPECT_EQ(between(before, after), R"({"rows":{"0":{"m":3,"n":2},"length":1}})");
}

TEST(StateChanges, WhatAPatchCannotSayIsNotSaid) {
  EXPECT_FALSE(between({{"a", 1}}, {{"a", nullptr}}));
  EXPECT_FALSE(between({{"a", json::array()}}, {{"a", json::object()}}));
}

}  // namespace
}  // namespace partita::api
