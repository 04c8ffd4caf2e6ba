// Recording: calls or a refusal; what was read is printed and read back as the same calls, and a
// driver answers from it.
#include <string_view>

#include "base/check.h"
#include "device/adaptors.h"
#include "device/recording.h"
#include "target.h"

FUZZ_TARGET(recording) {
  namespace device = partita::device;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto calls = device::parse_recording("fuzz.json", text);
  if (!calls) {
    CHECK(calls.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again = device::parse_recording("again.json", device::recording_json(*calls));
  CHECK(again && *again == *calls);
  const auto driver = device::replay("fuzz.json", text);
  CHECK(driver);
  (void)(*driver)->info();
  (void)(*driver)->read(0);
  (void)(*driver)->profiles(0);
  (void)(*driver)->set_mig_mode(0, true);
  (void)(*driver)->create_instance(0, {0, 0});
  (void)(*driver)->create_compute(0, 0);
  (void)(*driver)->destroy_compute(0, 0, 0);
  (void)(*driver)->destroy_instance(0, 0);
  return 0;
}
