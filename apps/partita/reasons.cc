#include "reasons.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "decide/reasons.h"

namespace partita::cli {

std::string reasons_json(const std::string& kind, const std::string& key,
                         const std::vector<plan::Reason>& reasons) {
  nlohmann::ordered_json document{{"api_version", "partita/v1"}, {"kind", kind}};
  if (kind == "Verdict") document["ok"] = reasons.empty();
  document[key] = nlohmann::ordered_json::array();
  for (const plan::Reason& reason : reasons) {
    document[key].push_back({{"constraint", reason.constraint},
                             {"subject", reason.subject},
                             {"have", reason.have},
                             {"need", reason.need},
                             {"detail", reason.detail}});
  }
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<Exit> refuse(Context& context, const Output& output, const std::string& thing,
                    const std::vector<plan::Reason>& reasons) {
  complain(context, decide::reasons_text(fmt::format("no such {} exists:", thing), reasons));
  if (output.format == "json") {
    auto written = deliver(context, {}, reasons_json("Refusal", "reasons", reasons));
    if (!written) return failed(written.error());
  }
  return Exit::no;
}

Result<Exit> say_verdict(Context& context, const Output& output, const std::string& file,
                         const std::string& ok, const std::vector<plan::Reason>& violations) {
  std::string content = ok;
  if (output.format == "json") {
    content = reasons_json("Verdict", "violations", violations);
  } else if (!violations.empty()) {
    content = decide::reasons_text(fmt::format("{}: {} violations:", file, violations.size()),
                                   violations) +
              "\n";
  }
  if (auto written = deliver(context, output, content); !written) return failed(written.error());
  return violations.empty() ? Exit::done : Exit::no;
}

}  // namespace partita::cli
