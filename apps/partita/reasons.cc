#include "reasons.h"

#include <fmt/format.h>

#include "decide/reasons.h"
#include "forms/reason_forms.h"

namespace partita::cli {

Result<Exit> refuse(Context& context, const Output& output, const std::string& thing,
                    const std::vector<plan::Reason>& reasons) {
  const std::string headline = plan::proven(reasons) ? fmt::format("no such {} exists:", thing)
                                                     : fmt::format("no such {} was found:", thing);
  complain(context, decide::reasons_text(headline, reasons));
  if (output.json()) {
    auto written = deliver(context, {}, forms::refusal_json(reasons));
    if (!written) return failed(written.error());
  }
  return Exit::no;
}

Result<Exit> say_verdict(Context& context, const Output& output, const std::string& file,
                         const std::string& ok, const std::vector<plan::Reason>& violations) {
  std::string content = ok;
  if (output.json()) {
    content = forms::verdict_json(violations);
  } else if (!violations.empty()) {
    content = decide::reasons_text(fmt::format("{}: {} violations:", file, violations.size()),
                                   violations) +
              "\n";
  }
  return finish(context, output, content, violations.empty() ? Exit::done : Exit::no);
}

}  // namespace partita::cli
