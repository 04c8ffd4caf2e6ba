#include "decide/reasons.h"

namespace partita::decide {

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
          "internal error"};
}

}  // namespace partita::decide
