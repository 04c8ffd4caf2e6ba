// How a service's terms are written wherever a file keeps them: plans, assignments, journals, the
// state of an agent. Numbers are written so that they read back bit for bit. What is at its default
// is left out, but for the percentile; what is missing of name, rate, SLO, percentile and model is
// not known (plan/terms.h), which is what files of older versions hold.
#pragma once

#include "base/form.h"
#include "plan/terms.h"
#include "profile/token_engine.h"

namespace partita::forms {

// whole: rate and SLO must be there.
enum class TermsKept { whole, known };
void describe_terms(Form& f, plan::Terms& terms, TermsKept kept);
// Of them all but name, model, rate, SLO, percentile, for documents with words of their own.
void describe_further_terms(Form& f, plan::Terms& terms);
// Of what runs on an instance; its fields stand among those of the instance.
void describe_engine(Form& f, profile::EngineName& engine);
void describe_cache(Form& f, plan::CacheTerms& cache);

}  // namespace partita::forms
