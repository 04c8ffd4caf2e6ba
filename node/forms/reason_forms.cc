#include "forms/reason_forms.h"

#include "base/form_rules.h"

namespace partita::forms {
namespace {

enum class Proof { none, bound };

struct Refusal {
  std::vector<plan::Reason> reasons;
  Proof proof = Proof::bound;
};

void describe(Form& f, Refusal& refusal) {
  f.document("Refusal");
  f.list("reasons", refusal.reasons, describe_reason, {}, "each sufficient");
  if (!f.reading()) refusal.proof = plan::proven(refusal.reasons) ? Proof::bound : Proof::none;
  f.optional().word("proof", refusal.proof, {"none", "bound"},
                    "bound: there is none; none: the search gave up, there may be one");
}

struct Verdict {
  bool ok = true;
  std::vector<plan::Reason> violations;
};

void describe(Form& f, Verdict& verdict) {
  f.document("Verdict");
  f.boolean("ok", verdict.ok, "no violation");
  f.list("violations", verdict.violations, describe_reason, {}, "all that were found");
  Fields* const in = f.reading();
  if (in && verdict.ok != verdict.violations.empty())
    in->refuse("ok", "'ok' must be true without violations and false with some");
}

}  // namespace

void describe_reason(Form& f, plan::Reason& reason) {
  f.text("constraint", reason.constraint, "a fixed word");
  f.text("subject", reason.subject, "what it is about");
  f.or_null().number("have", reason.have, kAnyNumber, "null: unbounded");
  f.or_null().number("need", reason.need, kAnyNumber, "null: unbounded");
  f.note("detail", reason.detail, "a sentence for people; may be empty");
}

std::string refusal_json(const std::vector<plan::Reason>& reasons) {
  return write_form(Refusal{reasons}, describe, Form::Style::indented);
}

Result<std::vector<plan::Reason>> parse_refusal(const std::string& file, std::string_view text) {
  auto refusal = TRY(read_form<Refusal>(file, text, describe));
  return std::move(refusal.reasons);
}

std::string verdict_json(const std::vector<plan::Reason>& violations) {
  return write_form(Verdict{violations.empty(), violations}, describe, Form::Style::indented);
}

Result<std::vector<plan::Reason>> parse_verdict(const std::string& file, std::string_view text) {
  auto verdict = TRY(read_form<Verdict>(file, text, describe));
  return std::move(verdict.violations);
}

DocumentKind refusal_kind() {
  return document_kind<Refusal, describe, "Refusal", "why there is no plan or schedule">();
}

DocumentKind verdict_kind() {
  return document_kind<Verdict, describe, "Verdict", "what a judge says of a plan or schedule">();
}

}  // namespace partita::forms
