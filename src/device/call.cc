#include "device/call.h"

#include <fmt/format.h>

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
  }
  CHECK(false);
}

std::vector<std::string_view> argument_names(Method method) {
  switch (method) {
    case Method::info:
      return {};
    case Method::read:
    case Method::profiles:
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
  }
  CHECK(false);
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
