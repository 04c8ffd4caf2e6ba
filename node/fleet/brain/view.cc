#include "fleet/brain/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "fleet/brain/documents.h"

namespace partita::fleet {
namespace {

constexpr std::size_t kLongestWord = 253;  // as host names
constexpr double kAsMuch = 0.8;            // told rates are 10 % off either way

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

}  // namespace

Result<std::string> parse_fleet_word(const std::string& context, const std::string& text) {
  if (text.empty() || text.size() > kLongestWord || !std::ranges::all_of(text, is_of_word))
    return bad_input(context, fmt::format("'{}' is no name: letters, digits, '-', '_' and '.', "
                                          "at most {}",
                                          text, kLongestWord));
  return text;
}

std::string Keys::event(const FleetEvent& event, std::string_view beside) const {
  return fmt::format("{}{:015}-{:09}{}", history(), event.time_ms, event.revision, beside);
}

void FleetView::hear(const Keys& keys, std::string_view key,
                     const std::optional<std::string>& value, long version) {
  const std::string name(key), rest(keys.rest(key));
  if (rest.empty()) return;
  damaged.erase(name);
  const auto under = [&](std::string_view folder) { return rest.starts_with(folder); };
  const auto tail = [&] { return rest.substr(rest.find('/') + 1); };
  const auto only = [&](auto& place, auto parse) {
    place.reset();
    if (!value) return;
    if (auto read = parse(name, *value))
      place = *std::move(read);
    else
      damaged[name] = to_string(read.error());
  };
  const auto one_of = [&](auto& all, auto parse, auto take) {
    all.erase(tail());
    if (!value) return;
    auto read = texts ? texts->read(parse, name, *value) : parse(name, *value);
    if (!read)
      damaged[name] = to_string(read.error());
    else
      all.insert_or_assign(tail(), take(*std::move(read)));
  };
  const auto as_it_is = [](auto read) { return read; };
  if (rest == "wanted")
    return only(wanted, [&](const std::string& file, const std::string& text) {
      return texts ? texts->read(parse_wanted, file, text) : parse_wanted(file, text);
    });
  if (rest == "leader") return only(leader, parse_leader_record);
  if (rest == "power") return only(power, parse_power);
  if (rest == "budgets") return only(budgets, parse_budgets);
  if (rest == "proposal") return only(proposal, parse_proposal);
  if (rest == "needs") {
    std::optional<RateRecord> said;
    only(said, parse_rate_record);
    needs = rates_of(said.value_or(RateRecord{}).rates);
    whys.clear();
    for (ServiceWhy& one : said.value_or(RateRecord{}).missing) whys[one.service] = one.why;
    notes = said.value_or(RateRecord{}).notes;
    return;
  }
  if (under("nodes/")) return one_of(nodes, parse_node_record, as_it_is);
  if (under("rates/")) {
    verdicts.erase(tail());
    draws.erase(tail());
    uncarried.erase(tail());
    return one_of(rates, parse_rate_record, [&](RateRecord one) {
      verdicts[tail()] = std::move(one.verdicts);
      if (one.gpu_draw_w) draws[tail()] = *one.gpu_draw_w;
      if (!one.uncarried.empty()) uncarried[tail()] = rates_of(one.uncarried);
      return rates_of(one.rates);
    });
  }
  if (under("peers/")) return one_of(peers, actuate::parse_peers, as_it_is);
  if (under("history/")) return one_of(history, parse_fleet_event, as_it_is);
  if (!under("parts/")) return;
  versions.erase(tail());
  if (value) versions[tail()] = version;
  one_of(parts, parse_part, as_it_is);
}

bool says_what_is_wanted(const FleetView& view) {
  return view.wanted && !view.wanted->services.empty();
}

Rates FleetView::asked() const {
  const auto sum = [](const std::map<std::string, Rates>& by_node) {
    Rates all;
    for (const auto& [node, its] : by_node)
      for (const auto& [service, rate] : its) all[service] += rate;
    return all;
  };
  Rates all = sum(rates);
  for (const auto& others : {sum(uncarried), sum(lost_rates)})
    for (const auto& [service, rate] : others) all[service] = std::max(all[service], rate);
  return all;
}

Rates FleetView::asked_steadily() const {
  Rates all = asked();
  for (auto& [service, now] : all)
    if (const auto before = asked_before.find(service);
        before != asked_before.end() && now >= before->second * kAsMuch)
      now = std::max(now, before->second);
  return all;
}

}  // namespace partita::fleet
