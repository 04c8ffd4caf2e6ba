#include "device/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::device {

std::string_view name_of(Method method) {
  switch (method) {
    case Method::info:
      return "info";
    case Method::read:
      return "read";
    case Method::profiles:
      return "profiles";
    case Method::telemetry:
      return "telemetry";
    case Method::power_settings:
      return "power_settings";
    case Method::set_mig_mode:
      return "set_mig_mode";
    case Method::create_instance:
      return "create_instance";
    case Method::destroy_instance:
      return "destroy_instance";
    case Method::create_compute:
      return "create_compute";
    case Method::destroy_compute:
      return "destroy_compute";
    case Method::set_power_settings:
      return "set_power_settings";
  }
  CHECK(false);
}

std::vector<std::string_view> argument_names(Method method) {
  switch (method) {
    case Method::info:
      return {};
    case Method::read:
    case Method::profiles:
    case Method::telemetry:
    case Method::power_settings:
      return {"gpu"};
    case Method::set_mig_mode:
      return {"gpu", "enabled"};
    case Method::create_instance:
      return {"gpu", "nvml_enum", "start"};
    case Method::destroy_instance:
    case Method::create_compute:
      return {"gpu", "gi_id"};
    case Method::destroy_compute:
      return {"gpu", "gi_id", "ci_id"};
    case Method::set_power_settings:
      return {"gpu", "limit_mw", "low_mhz", "high_mhz"};
  }
  CHECK(false);
}

Call power_call(int gpu, const PowerSettings& settings) {
  const auto whole = [](double value) {
    return static_cast<int>(std::llround(std::clamp(value, -1.0, 1e9)));
  };
  const bool locked = settings.clocks.has_value();
  return {Method::set_power_settings,
          {gpu, settings.limit ? whole(settings.limit->value * 1000) : -1,
           locked ? whole(settings.clocks->low.value) : -1,
           locked ? whole(settings.clocks->high.value) : -1}};
}

bool changes(Method method) { return method >= Method::set_mig_mode; }

std::string to_string(const Call& call) {
  const std::vector<std::string_view> names = argument_names(call.method);
  CHECK(names.size() == call.arguments.size());
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", names[i], call.arguments[i]);
  return fmt::format("{}({})", name_of(call.method), text);
}

}  // namespace partita::device
