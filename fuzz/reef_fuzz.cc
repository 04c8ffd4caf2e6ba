// REEF's pair of files, cut out of one input at its first NUL: a model with positive times, or a
// refusal that names the file.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "profile/kernel_profile.h"
#include "target.h"

FUZZ_TARGET(reef) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(text.find('\0'), text.size());
  const std::string sequence(text.substr(0, cut));
  const std::string table(text.substr(std::min(cut + 1, text.size())));
  const auto model = partita::profile::parse_reef({"s.json", sequence, "t.json", table}, "m", 60);
  if (!model) {
    const std::string& at = model.error().context;
    CHECK(at.starts_with("s.json") || at.starts_with("t.json"));
    return 0;
  }
  for (const auto& kernel : model->kernels)
    for (const double time : kernel.time_us) CHECK(time > 0);
  return 0;
}
