// The JSON form of performance laws: parse_laws and laws_json of law.h.
#include <fmt/format.h>

#include "base/form.h"
#include "profile/law.h"

namespace partita::profile {
namespace {

// Whole coefficients are written as the fractions that they are.
std::string fraction(double value) {
  const std::string text = fmt::to_string(value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void describe_law(Form& f, PerformanceLaw& law) {
  f.closed();
  f.lines("   ");
  f.text("model", law.model, "");
  for (const Coefficient& c : kCoefficients)
    form::digits(f, c.name, law.*c.member, fraction(law.*c.member), {.low = c.min, .high = c.max},
                 "");
  f.lines("    ");  // two more than the brace that ends it
}

void describe_laws(Form& f, PerformanceLaws& laws) {
  f.closed();
  f.lines(" ");
  f.document("PerformanceLaws");
  f.name("gpu_model", laws.gpu_model, "");
  f.optional(!laws.source.empty()).text("source", laws.source, "");
  f.list("laws", laws.laws, describe_law, {.indent = "  ", .least = 1, .close = "\n "}, "");
  Fields* const in = f.reading();
  for (std::size_t i = 1; in && i < laws.laws.size() && !in->error(); ++i)
    if (const std::string& model = laws.laws[i].model; model <= laws.laws[i - 1].model)
      in->refuse(in->list("laws")[i],
                 fmt::format("model '{}' repeated or not in ascending order", model));
}

}  // namespace

Result<PerformanceLaws> parse_laws(const std::string& file, std::string_view text) {
  return read_form<PerformanceLaws>(file, text, describe_laws);
}

std::string laws_json(const PerformanceLaws& laws) { return write_form(laws, describe_laws); }

}  // namespace partita::profile
