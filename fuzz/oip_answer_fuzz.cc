// What servers that batches are forwarded to say: metadata, then answers to a request for a model.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/worker/oip_batch.h"
#include "serve/worker/streams.h"
#include "target.h"

namespace partita::serve {
namespace {

void check_server(std::string_view text) {
  const std::size_t size = text.size();
  if (const auto model = parse_oip_metadata(text, 4, {})) {
    CHECK(check_model("fuzz", *model));
    CHECK(slot_layout(*model).bytes > 0);
    CHECK(!oip_request_json(*model, 3, std::vector<std::size_t>(model->inputs.size())).empty());
  }
  const ModelSpec model{.name = "m",
                        .platform = "forward",
                        .inputs = {{.name = "x", .shape = {1}}},
                        .outputs = {{.name = "y", .type = DataType::int16, .shape = {1}},
                                    {.name = "z", .type = DataType::uint8},
                                    {.name = "v", .type = DataType::bytes, .text_bytes = 4}},
                        .max_batch = 4};
  const std::size_t brace = text.rfind('}');
  const std::size_t json = brace == text.npos ? size : brace + 1;
  if (const auto outputs = parse_oip_answer(model, 2, text, json)) {
    const std::size_t words = (*outputs)[2].size();
    CHECK((*outputs)[0].size() == 4 && (*outputs)[1].size() == 2);
    CHECK(json + 6 + words == size);
  }
  has_messages(text);
}

}  // namespace
}  // namespace partita::serve

FUZZ_TARGET(oip_answer) {
  partita::serve::check_server({reinterpret_cast<const char*>(data), size});
  return 0;
}
