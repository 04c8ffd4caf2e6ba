// For tests only: documents that a reader must refuse, made of one that it reads. Every value of a
// document is replaced in turn by one of another type.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace partita {

struct MutatedDocument {
  std::string path;  // of the value
  std::string text;
  int line = 0;  // of the value in the text
};

inline std::vector<MutatedDocument> mutated_documents(const std::string& json) {
  const nlohmann::ordered_json document = nlohmann::ordered_json::parse(json);
  std::vector<MutatedDocument> mutated;
  std::vector<nlohmann::ordered_json::json_pointer> open(1);
  while (!open.empty()) {
    const auto at = open.back();
    open.pop_back();
    const nlohmann::ordered_json& value = document.at(at);
    if (!at.empty()) {
      nlohmann::ordered_json changed = document;
      if (value.is_object()) changed[at] = nlohmann::ordered_json::array({"mutated"});
      if (!value.is_object()) changed[at] = {{"mutated", true}};
      std::string text = changed.dump(1);
      const auto end = text.begin() + static_cast<std::ptrdiff_t>(text.find("\"mutated\""));
      const auto line = std::count(text.begin(), end, '\n');  // the one before that of the word
      mutated.push_back({at.to_string(), std::move(text), static_cast<int>(line)});
    }
    if (value.is_object())
      for (const auto& [key, member] : value.items()) open.push_back(at / key);
    if (value.is_array())
      for (std::size_t i = 0; i < value.size(); ++i) open.push_back(at / i);
  }
  return mutated;
}

}  // namespace partita
