#include "interop/profile_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/append.h"
#include "base/nearest.h"
#include "base/parse_number.h"
#include "base/unicode.h"

namespace partita::interop {
namespace {

// The digits before `unit` in "3g", as a number from 1.
std::optional<int> parse_field(std::string_view text, std::string_view unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  text.remove_suffix(unit.size());
  const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || text.empty() || text.size() > kMaxProfileDigits || text.front() == '0')
    return std::nullopt;
  return parse_number<int>(text);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Letters, digits and dots, a letter first: "me", "me.all".
bool is_attribute(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '.';
  });
}

}  // namespace

std::string ProfileName::text() const {
  return fmt::format("{}{}g.{}gb{}{}{}{}", c == g ? "" : fmt::format("{}c.", c), g, gb,
                     with.empty() ? "" : "+", joined(with, ","), without.empty() ? "" : "-",
                     without);
}

Result<ProfileName> parse_profile_name(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return bad_input("", fmt::format("'{}' is not a MIG profile such as 3g.40gb or 1g.10gb+me: {}",
                                     utf8(printable(text.substr(0, kMaxWordBytes))), why));
  };
  const auto sign = text.find_first_of("+-");
  std::vector<std::string_view> fields = split(text.substr(0, sign), '.');
  if (fields.size() != 2 && fields.size() != 3) return refuse("<g>g.<gb>gb is needed");
  ProfileName name;
  const std::optional<int> gb = parse_field(fields.back(), "gb");
  const std::optional<int> g = parse_field(fields[fields.size() - 2], "g");
  const std::optional<int> c = fields.size() == 3 ? parse_field(fields.front(), "c") : g;
  if (!gb || !g || !c) return refuse("<g>g.<gb>gb is needed, with whole numbers from 1");
  if (*c > *g) return refuse("a compute instance cannot be larger than its GPU instance");
  name.c = *c;
  name.g = *g;
  name.gb = *gb;
  if (sign == std::string_view::npos) return name;
  const std::string_view rest = text.substr(sign + 1);
  if (rest.find_first_of("+-") != std::string_view::npos)
    return refuse("one '+' or one '-' is allowed, not both");
  if (text[sign] == '-') {
    if (!is_attribute(rest)) return refuse("an attribute must follow '-'");
    name.without = rest;
    return name;
  }
  for (const std::string_view attribute : split(rest, ',')) {
    if (!is_attribute(attribute)) return refuse("an attribute must follow '+' and ','");
    if (std::ranges::count(name.with, attribute) > 0) return refuse("an attribute is named twice");
    name.with.emplace_back(attribute);
  }
  return name;
}

Result<int> find_profile(const hw::GpuModel& model, const ProfileName& name) {
  const std::string text = name.text();
  if (name.c != name.g)
    return bad_input("", fmt::format("{} has a compute instance of {} of {} slices; Partita makes "
                                     "compute instances as large as their GPU instance",
                                     text, name.c, name.g));
  const int index = model.profile_index(text);
  if (index >= 0) return index;
  std::vector<std::string> names;
  for (const hw::MigProfile& profile : model.profiles) names.push_back(profile.name);
  return bad_input(
      "", fmt::format("{} has no MIG profile '{}'{}", model.name, text, did_you_mean(text, names)));
}

}  // namespace partita::interop
