#include "forms/priorities_form.h"

#include <fmt/format.h>

#include <vector>

namespace partita::forms {
namespace {

struct Priority {
  std::string service;
  int priority = 0;
};

void describe(Form& f, Priority& one) {
  f.name("service", one.service, "its name");
  f.integer("priority", one.priority, kPriorities, "higher is served first");
  f.closed();
}

}  // namespace

void describe_priorities(Form& f, std::map<std::string, int>& priorities) {
  std::vector<Priority> all;
  for (const auto& [service, priority] : priorities) all.push_back({service, priority});
  f.optional().list("priorities", all, describe, {},
                    "of services when there is not enough for all; missing: its own");
  if (!f.reading()) return;
  priorities.clear();
  for (const Priority& one : all)
    if (!priorities.emplace(one.service, one.priority).second)
      f.reading()->refuse("priorities", fmt::format("service '{}' is listed twice", one.service));
}

}  // namespace partita::forms
