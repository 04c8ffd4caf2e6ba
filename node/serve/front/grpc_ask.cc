#include "serve/front/grpc_ask.h"

#include <algorithm>
#include <utility>

namespace partita::serve {

Result<GrpcAsk> ask_by_grpc(const Backend& backend, Pieces message) {
  auto parsed = parse_grpc_infer(message);
  if (!parsed) return failed(parsed.error());
  GrpcAsk ask{.wanted = *std::move(parsed)};
  InferRequest& wanted = ask.wanted;
  ask.asked = asked_model(backend, wanted.model, wanted.version);
  const std::string& service = ask.asked.service;
  ask.other_version = service.empty() && backend.known(wanted.model);
  ask.any_bucket = any_bucket(wanted.model, service);
  if (!service.empty()) wanted.model = service;
  return ask;
}

Result<BoundRequest> bind_grpc_ask(const Backend& backend, GrpcAsk& ask) {
  InferRequest& wanted = ask.wanted;
  const ModelSpec* const spec = backend.model(wanted.model);
  if (spec == nullptr || spec->kind != ModelKind::tensors)
    return bad_input("", "model '" + wanted.model + "' does not take tensors");
  const auto shares = [](const InferInput& input) { return input.carrier == Carrier::shared; };
  const auto placed = [](const InferOutput& output) { return output.place.has_value(); };
  if (std::ranges::any_of(wanted.inputs, shares) || std::ranges::any_of(wanted.outputs, placed))
    return bad_input("", "shared memory is offered over HTTP only");
  auto bound = bind_request(wanted, *spec, Protocol::grpc);
  if (!bound || !ask.any_bucket) return bound;
  auto bucket = fitting_bucket(backend, ask.asked.service, *spec, *bound);
  if (!bucket) return failed(bucket.error());
  wanted.model = *std::move(bucket);
  return bind_request(wanted, *backend.model(wanted.model), Protocol::grpc);
}

Result<void> place_grpc_ask(const GrpcAsk& ask, const ModelSpec& model, const BoundRequest& bound,
                            Pieces message, const InputRow& row) {
  for (std::size_t i = 0; i < ask.wanted.inputs.size(); ++i) {
    const TensorSpec& spec = model.inputs[static_cast<std::size_t>(bound.inputs[i])];
    const auto places = input_places(model, bound, i, row);
    if (auto read = read_grpc_tensor(message, ask.wanted.inputs[i], spec, places); !read)
      return read;
  }
  share_inputs(model, bound, row);
  return {};
}

}  // namespace partita::serve
