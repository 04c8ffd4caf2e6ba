// Forms of a change: the document `kind: Change` of docs/formats.md, and text for people. Pure.
#pragma once

#include <string>

#include "act/change.h"
#include "base/form.h"

namespace partita::actuate {

std::string change_json(const Change& change);
DocumentKind change_kind();

// Fields of documents that hold parts of a change.
void describe_place(Form& f, Place& place);
void describe_step_kind(Form& f, Step::Kind& kind);
void describe_affected(Form& f, Affected& one);
void describe_counts(Form& f, plan::Changes& counts);

// "4 instances kept, 2 created, 1 destroyed".
std::string instances_text(const Change& change);
// What is kept, destroyed, created and moved.
std::string change_summary(const Change& change);

// Per service how far down it goes and for how long; those that lose nothing share a line.
std::string affected_text(const std::vector<Affected>& affected);

// The summary, the steps with their predicted times, who is
// affected, what is in the way; `explain` adds a sentence for each decision.
std::string change_text(const Change& change, bool explain);

// One step for people: "create 3g.40gb at 4 on gpu 0".
std::string step_text(const Step& step);

}  // namespace partita::actuate
