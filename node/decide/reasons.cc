#include "decide/reasons.h"

namespace partita::decide {
namespace {

constexpr const char* kInternal = "internal error";

}  // namespace

std::string reasons_text(const std::string& headline, const std::vector<plan::Reason>& reasons) {
  std::string text = headline;
  for (const plan::Reason& reason : reasons) text += "\n  " + plan::to_string(reason);
  return text;
}

Error refused_by_judge(const std::string& what, const std::vector<plan::Reason>& violations) {
  return {ErrorCode::environment,
          reasons_text(what + " that the judge refuses; it is not shown. Please report this with "
                              "the input files.",
                       violations),
          kInternal};
}

bool is_refused_by_judge(const Error& error) {
  return error.code == ErrorCode::environment && error.context == kInternal;
}

}  // namespace partita::decide
