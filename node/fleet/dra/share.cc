#include "fleet/dra/share.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/form.h"

namespace partita::dra {
namespace {

void describe_mps(Form& f, MpsShare& mps) {
  f.closed();
  f.optional().number("threadPercentage", mps.thread_percentage,
                      {.low = 0, .high = 100, .above = true},
                      "percent of the instance's threads that a process may use");
  f.optional(mps.memory_mib.has_value())
      .number("memoryMib", mps.memory_mib, {.low = 1}, "MiB that a process may allocate");
}

void describe_share(Form& f, Share& share) {
  f.closed();
  form::constant(f, "apiVersion", "partita.gpu/v1");
  form::constant(f, "kind", "PartitaShare");
  f.object("mps", share.mps, describe_mps, "an MPS daemon for the instance");
  f.optional(share.power_cap_w.has_value())
      .number("powerCapWatts", share.power_cap_w, {.low = 1},
              "W that the GPU may draw; the lowest of its claims holds");
}

bool meant(const ShareFor& one, const std::string& request) {
  const std::string main = request.substr(0, request.find('/'));
  return one.requests.empty() || std::ranges::any_of(one.requests, [&](const std::string& name) {
           return name == request || name == main;
         });
}

void lay_over(const ShareFor& one, Share& all, bool& cap_of_class) {
  if (one.share.mps) all.mps = one.share.mps;
  if (!one.share.power_cap_w) return;
  all.power_cap_w = one.share.power_cap_w;
  cap_of_class = one.of_class;
}

}  // namespace

Result<Share> parse_share(const std::string& file, const Node& parameters) {
  const Document document{file, parameters};
  auto share = read_form<Share>(document, describe_share);
  if (share && *share == Share{})
    return bad_input(document.at(parameters), "asks for neither mps nor powerCapWatts");
  return share;
}

Result<Share> share_of(const std::vector<ShareFor>& said, const SharedInstance& instance) {
  Share all;
  bool cap_of_class = false;
  for (const bool of_class : {true, false})
    for (const ShareFor& one : said)
      if (one.of_class == of_class && meant(one, instance.request))
        lay_over(one, all, cap_of_class);
  if (all.power_cap_w && !cap_of_class && !instance.whole_gpu)
    return bad_input(instance.request,
                     "powerCapWatts would cap a GPU that others share: a claim may say it of a "
                     "whole GPU, a DeviceClass of any instance");
  const double memory = all.mps ? all.mps->memory_mib.value_or(0) : 0;
  if (instance.memory_mib && memory > *instance.memory_mib)
    return bad_input(instance.request,
                     fmt::format("memoryMib {:g} is more than the instance's {:g}", memory,
                                 *instance.memory_mib));
  return all;
}

}  // namespace partita::dra
