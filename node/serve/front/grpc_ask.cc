#include "serve/front/grpc_ask.h"

#include <algorithm>
#include <utility>

#include "serve/front/model_answers.h"

namespace partita::serve {
namespace {

// By HTTP's status; what is not here is INTERNAL, or 500. The first of a status is said back.
constexpr std::pair<int, int> kStatuses[] = {
    {200, 0},   // OK
    {400, 3},   // INVALID_ARGUMENT
    {401, 16},  // UNAUTHENTICATED
    {403, 7},   // PERMISSION_DENIED
    {404, 5},   // NOT_FOUND
    {410, 10},  // ABORTED
    {429, 8},   // RESOURCE_EXHAUSTED
    {413, 8},   // RESOURCE_EXHAUSTED
    {422, 9},   // FAILED_PRECONDITION
    {499, 1},   // CANCELLED
    {501, 12},  // UNIMPLEMENTED
    {405, 12},  // UNIMPLEMENTED
    {503, 14},  // UNAVAILABLE
    {504, 4},   // DEADLINE_EXCEEDED
};

CallAnswer refused(int status, std::string message) {
  return tl::unexpected<CallRefusal>({status, std::move(message)});
}

CallAnswer repository(Backend& backend, const GrpcCaller& caller, std::string_view call,
                      Pieces message) {
  const bool index = call == "RepositoryIndex";
  if (!index && !caller.may_all()) return refused(403, "this token is not for all services");
  const auto ask = index ? parse_repository_index(message) : parse_repository_model(message);
  if (!ask) return refused(400, to_string(ask.error()));
  if (!ask->repository.empty()) return refused(501, "there is one repository, which has no name");
  if (index) {
    const auto may_see = [&](const std::string& service) {
      return caller.token == nullptr || allows(*caller.token, service);
    };
    return message_of(model_states(backend, may_see, ask->ready));
  }
  const bool load = call == "RepositoryModelLoad";
  std::string fault = set_loaded(backend, ask->model, load, load ? ask->brought : "");
  return fault.empty() ? CallAnswer("") : refused(400, std::move(fault));
}

CallAnswer statistics(const Backend& backend, const GrpcCaller& caller, Pieces message) {
  const auto named = parse_model_name(message);
  if (!named) return refused(400, to_string(named.error()));
  const auto may_see = [&](const std::string& service) {
    return caller.token == nullptr || allows(*caller.token, service);
  };
  if (named->name.empty()) return message_of(model_statistics(backend, may_see, ""));
  const std::string service = asked_model(backend, named->name, named->version).service;
  if (!may_see(service.empty() ? named->name : service))
    return refused(403, "this token is not for service '" + named->name + "'");
  if (service.empty()) return refused(404, unknown_model(named->name).message);
  return message_of(model_statistics(backend, may_see, service));
}

constexpr std::string_view kSystemMemory = "SystemSharedMemory", kCudaMemory = "CudaSharedMemory";

// No handle of a client's device memory is opened, so there are no such regions: what clients
// forget before they begin is forgotten.
CallAnswer shared_memory(const GrpcCaller& caller, std::string_view call, Pieces message) {
  const bool cuda = call.starts_with(kCudaMemory);
  const std::string_view verb = call.substr((cuda ? kCudaMemory : kSystemMemory).size());
  if (cuda && verb == "Register")
    return refused(501, "CUDA shared memory is not offered: register system shared memory");
  if (caller.memory == nullptr) return refused(404, "shared memory is not offered here");
  if (!caller.may_all()) return refused(403, "this token is not for all services");
  const auto ask = parse_shared_region(message);
  if (!ask) return refused(400, to_string(ask.error()));
  SharedMemory& memory = *caller.memory;
  if (verb == "Status") {
    if (!ask->name.empty() && (cuda || !memory.find(ask->name)))
      return refused(400, "region '" + ask->name + "' is not registered");
    return cuda ? "" : memory.status_message(ask->name);
  }
  if (verb == "Register") {
    const auto added = memory.add(ask->name, ask->key, ask->offset, ask->bytes);
    return added ? CallAnswer("") : refused(400, to_string(added.error()));
  }
  if (verb != "Unregister") return refused(501, "the protocol has no call " + std::string(call));
  if (!cuda && ask->name.empty()) memory.remove_all();
  if (!cuda) memory.remove(ask->name);
  return "";
}

}  // namespace

int grpc_status_of(int http_status) {
  for (const auto& [http, grpc] : kStatuses)
    if (http == http_status) return grpc;
  return 13;  // INTERNAL
}

int http_status_of(int grpc_status) {
  for (const auto& [http, grpc] : kStatuses)
    if (grpc == grpc_status) return http;
  return 500;
}

bool asks_of_model(std::string_view call) {
  return call == "ModelReady" || call == "ModelMetadata" || call == "ModelConfig";
}

CallAnswer answer_of_model(const Backend& backend, std::string_view call, const std::string& model,
                           const std::string& service) {
  if (call == "ModelReady") return encode_flag(backend.ready(service));
  const ModelSpec* const spec = backend.model(service);
  if (spec == nullptr)
    return refused(503, "no worker of model '" + service + "' has said what it takes");
  if (call == "ModelConfig") return message_of(served_config(backend, model, service, *spec));
  return encode_model_metadata(*spec, versions_of(backend, model));
}

CallAnswer answer_call(Backend& backend, const GrpcCaller& caller, std::string_view call,
                       Pieces message) {
  if (call == "ServerLive") return encode_flag(true);
  if (call == "ServerReady") return encode_flag(backend.ready());
  if (call == "ServerMetadata") return encode_server_metadata();
  if (call == "ModelStatistics") return statistics(backend, caller, message);
  if (call == "RepositoryIndex" || call == "RepositoryModelLoad" || call == "RepositoryModelUnload")
    return repository(backend, caller, call, message);
  if (call == "TraceSetting") return refused(501, std::string(kNoTraceSettings));
  if (call == "LogSettings") return refused(501, std::string(kNoLogSettings));
  if (call.starts_with(kSystemMemory) || call.starts_with(kCudaMemory))
    return shared_memory(caller, call, message);
  return refused(501, "the protocol has no call " + std::string(call));
}

Result<GrpcAsk> ask_by_grpc(const Backend& backend, Pieces message) {
  auto parsed = TRY(parse_grpc_infer(message));
  GrpcAsk ask{.wanted = std::move(parsed)};
  InferRequest& wanted = ask.wanted;
  ask.asked = asked_model(backend, wanted.model, wanted.version);
  const std::string& service = ask.asked.service;
  ask.other_version = service.empty() && backend.known(wanted.model);
  ask.any_bucket = any_bucket(wanted.model, service);
  if (!service.empty()) wanted.model = service;
  return ask;
}

Result<BoundRequest> bind_grpc_ask(const Backend& backend, GrpcAsk& ask,
                                   const SharedMemory* memory) {
  InferRequest& wanted = ask.wanted;
  const ModelSpec* const spec = backend.model(wanted.model);
  if (spec == nullptr || spec->kind != ModelKind::tensors)
    return bad_input("", "model '" + wanted.model + "' does not take tensors");
  auto bound = bind_request(wanted, *spec, Protocol::grpc);
  if (bound && ask.any_bucket) {
    wanted.model = TRY(fitting_bucket(backend, ask.asked.service, *spec, *bound));
    bound = bind_request(wanted, *backend.model(wanted.model), Protocol::grpc);
  }
  if (!bound) return bound;
  ask.regions = TRY(output_regions(memory, *bound));
  return bound;
}

Result<void> place_grpc_ask(const GrpcAsk& ask, const ModelSpec& model, const BoundRequest& bound,
                            const GrpcTensors& from, const InputRow& row) {
  for (std::size_t i = 0; i < ask.wanted.inputs.size(); ++i) {
    const InferInput& input = ask.wanted.inputs[i];
    const TensorSpec& spec = model.inputs[static_cast<std::size_t>(bound.inputs[i])];
    const auto places = input_places(model, bound, i, row);
    auto read = input.carrier == Carrier::shared
                    ? read_shared(from.memory, input, spec, places)
                    : read_grpc_tensor(from.message, input, spec, places);
    if (!read) return read;
  }
  share_inputs(model, bound, row);
  return {};
}

tl::expected<std::vector<AnsweredOutput>, CallRefusal> answered_of(Backend& backend,
                                                                   RequestId request,
                                                                   const ModelSpec& model,
                                                                   const BoundRequest& bound,
                                                                   const OutputRegions& regions) {
  using Refused = tl::unexpected<CallRefusal>;
  auto outputs = take_outputs(
      model, bound, [&](int item, int tensor) { return backend.output(request, item, tensor); });
  if (!outputs) return Refused({500, to_string(outputs.error())});
  if (const auto shared = write_shared(regions, bound, *outputs); !shared)
    return Refused({400, to_string(shared.error())});
  return *std::move(outputs);
}

InferParts infer_parts(const ModelSpec& model, const GrpcAsk& ask, const BoundRequest& bound,
                       std::span<AnsweredOutput> answered) {
  const bool of_set = !ask.asked.of_set.empty();
  ModelSpec named;
  if (of_set) (named = model).name = ask.asked.of_set;
  InferParts parts;
  parts.heads.push_back(encode_infer_head(of_set ? named : model, ask.wanted.id, bound, answered));
  for (std::size_t i = 0; i < answered.size(); ++i) {
    if (bound.outputs[i].carrier == Carrier::shared) answered[i] = {};
    if (i > 0) parts.heads.emplace_back();
    parts.heads[i] += encode_raw_head(answered[i].bytes);
    parts.bytes += parts.heads[i].size() + answered[i].bytes;
  }
  return parts;
}

}  // namespace partita::serve
