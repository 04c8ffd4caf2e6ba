// Forms of reasons: a refusal of planners, a verdict of judges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "plan/reason.h"

namespace partita::forms {

// Kind Refusal: key `reasons`. Kind Verdict: `ok`, and key `violations`.
std::string refusal_json(const std::vector<plan::Reason>& reasons);
Result<std::vector<plan::Reason>> parse_refusal(const std::string& file, std::string_view text);
std::string verdict_json(const std::vector<plan::Reason>& violations);
Result<std::vector<plan::Reason>> parse_verdict(const std::string& file, std::string_view text);
DocumentKind refusal_kind();
DocumentKind verdict_kind();

// The fields of one reason, for documents that hold some.
void describe_reason(Form& f, plan::Reason& reason);

}  // namespace partita::forms
