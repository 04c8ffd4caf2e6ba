// A ready batch as one request of the Open Inference Protocol v2, binary form: what a server's
// metadata says of a model, the head of a request, and the answer taken apart. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/wire/slot_trace.h"
#include "serve/wire/tensor.h"
#include "serve/worker/shapes.h"

namespace partita::serve {

// The answer to GET /v2/models/NAME; text has room for kTextBytes. bad_input for what cannot be
// served in batches of up to `max_batch`.
Result<ModelSpec> parse_oip_metadata(std::string_view json, int max_batch,
                                     const ChosenShapes& chosen);

// The JSON in front of the tensors of `items` items; `bytes`: of each input, all items together.
std::string oip_request_json(const ModelSpec& model, std::size_t items,
                             std::span<const std::size_t> bytes);

// The headers of a request that belongs to a trace, each with its line end.
std::string trace_headers(const SlotTrace& trace);

// The outputs in an answer, in the order of model.outputs: views into `body`, `items` items
// each; of BYTES as much as the answer says.
// `json_bytes`: Inference-Header-Content-Length. Refuses outputs that are missing, of another type
// or shape, or not in the binary form.
Result<std::vector<std::string_view>> parse_oip_answer(const ModelSpec& model, std::size_t items,
                                                       std::string_view body,
                                                       std::size_t json_bytes);

}  // namespace partita::serve
