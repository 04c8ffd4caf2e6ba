// Reads a text of Prometheus as its parser would (exposition format 0.0.4), for tests.
#pragma once

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace partita::api::test {

struct Scraped {
  std::string fault;                     // empty: it is well-formed
  std::map<std::string, double> values;  // by `name{labels}` as written
  std::map<std::string, std::string> types;
};

inline bool is_metric_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
             "0123456789_:") == name.npos;
}

// The length of {label="value",...}; npos: not well-formed.
inline std::size_t labels_end(std::string_view text) {
  std::size_t at = 1;
  std::set<std::string_view> names;
  while (true) {
    const std::size_t equals = text.find("=\"", at);
    if (equals == text.npos || !is_metric_name(text.substr(at, equals - at)) ||
        !names.insert(text.substr(at, equals - at)).second)
      return text.npos;
    at = equals + 2;
    while (at < text.size() && text[at] != '"') {
      if (text[at] == '\\' &&
          (at + 1 == text.size() || std::string_view("\\\"n").find(text[at + 1]) == text.npos))
        return text.npos;
      at += text[at] == '\\' ? 2 : 1;
    }
    if (at + 1 >= text.size()) return text.npos;
    if (text[at + 1] == '}') return at + 2;
    if (text[at + 1] != ',') return text.npos;
    at += 2;
  }
}

inline Scraped scrape(std::string_view text) {
  Scraped result;
  std::set<std::string, std::less<>> closed;  // metrics whose lines have ended
  std::string current;
  const auto wrong = [&](std::string_view line, const char* why) {
    if (result.fault.empty()) result.fault = std::string(why) + ": " + std::string(line);
  };
  if (!text.ends_with('\n')) wrong("", "no line break at the end");
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      const std::string_view rest = line.substr(7);
      const std::string name(rest.substr(0, rest.find(' ')));
      const std::string type(rest.substr(std::min(rest.size(), name.size() + 1)));
      if (!result.types.emplace(name, type).second) wrong(line, "TYPE twice");
      if (type != "gauge" && type != "counter") wrong(line, "an unknown type");
      if ((type == "counter") != name.ends_with("_total")) wrong(line, "the name of a counter");
      if (!current.empty()) closed.insert(current);
      current = name;
      continue;
    }
    const std::size_t name_end = std::min(line.find_first_of("{ "), line.size());
    const std::string_view name = line.substr(0, name_end);
    if (!is_metric_name(name)) wrong(line, "no metric");
    if (name != current || closed.contains(name)) wrong(line, "not with its TYPE");
    std::size_t at = name_end;
    if (at < line.size() && line[at] == '{') {
      const std::size_t end = labels_end(line.substr(at));
      if (end == line.npos) {
        wrong(line, "labels");
        continue;
      }
      at += end;
    }
    const std::string number(line.substr(std::min(line.size(), at + 1)));
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (at >= line.size() || line[at] != ' ' || number.empty() || *end != '\0')
      wrong(line, "no number");
    if (!result.values.emplace(line.substr(0, at), value).second) wrong(line, "said twice");
  }
  return result;
}

}  // namespace partita::api::test
