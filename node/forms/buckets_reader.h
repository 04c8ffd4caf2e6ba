// The keys of a service whose requests differ in length: `lengths`, how they are distributed, and
// `buckets`, what they are padded up to. Such a service is planned, judged, simulated and served as
// one service per bucket, "bert~128", each with its part of the rate. Internal to the forms.
#pragma once

#include <vector>

#include "base/fields.h"
#include "forms/serving_forms.h"

namespace partita::forms {

inline constexpr std::string_view kBucketKeys[] = {"lengths", "buckets"};

// The services of its buckets; itself alone where it has none. `files` reads a file of lengths.
std::vector<Service> in_buckets(Fields& fields, Service service, const FileText& files);

}  // namespace partita::forms
