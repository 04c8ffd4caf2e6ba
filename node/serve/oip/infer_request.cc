#include "serve/oip/infer_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "serve/oip/json_scan.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

namespace {

constexpr std::int64_t kMaxTimeoutUs = 86'400'000'000;  // a day

// What the parameters of an input, an output or a request may say; others are skipped.
struct RequestParameters {
  std::optional<std::int64_t> binary_size = {}, offset = {}, bytes = {}, priority = {},
                              timeout = {};
  std::optional<std::int64_t> classification = {};
  std::optional<bool> binary_data = {}, binary_outputs = {};
  std::optional<std::string> region = {};
  std::optional<std::uint64_t> sequence = {};
  std::string sequence_name = {};
  std::optional<bool> begins = {}, ends = {};
};

void read_parameters(JsonScan& scan, RequestParameters& into) {
  std::size_t count = 0;
  scan.object([&](const std::string& key) {
    if (++count > kMaxParameters) return scan.fail("too many parameters");
    if (key == "binary_data_size") {
      into.binary_size = scan.integer();
    } else if (key == "shared_memory_region") {
      into.region = scan.string();
    } else if (key == "shared_memory_offset") {
      into.offset = scan.integer();
    } else if (key == "shared_memory_byte_size") {
      into.bytes = scan.integer();
    } else if (key == "binary_data") {
      into.binary_data = scan.boolean();
    } else if (key == "binary_data_output") {
      into.binary_outputs = scan.boolean();
    } else if (key == "priority") {
      into.priority = scan.integer();
    } else if (key == "timeout") {
      into.timeout = scan.integer();
    } else if (key == "classification") {
      into.classification = scan.integer();
    } else if (key == "sequence_id") {
      if (scan.peek() == '"')
        into.sequence_name = scan.string();
      else
        into.sequence = scan.natural();
    } else if (key == "sequence_start") {
      into.begins = scan.boolean();
    } else if (key == "sequence_end") {
      into.ends = scan.boolean();
    } else {
      scan.skip();
    }
  });
}

SharedPlace place_of(JsonScan& scan, const RequestParameters& parameters) {
  const std::int64_t offset = parameters.offset.value_or(0), bytes = parameters.bytes.value_or(-1);
  if (bytes < 0) scan.fail("shared_memory_byte_size is wanted beside shared_memory_region");
  if (offset < 0) scan.fail("shared_memory_offset is negative");
  return {.region = *parameters.region,
          .offset = static_cast<std::uint64_t>(offset),
          .bytes = static_cast<std::uint64_t>(bytes)};
}

std::string bounded_name(JsonScan& scan) {
  std::string name = scan.string();
  if (name.size() > kMaxNameBytes) scan.fail("a name of more than 1024 bytes");
  return name;
}

InferInput read_input(JsonScan& scan, std::uint64_t& binary_offset) {
  InferInput input;
  RequestParameters parameters;
  bool named = false, shaped = false, typed = false;
  scan.object([&](const std::string& key) {
    if (key == "name") {
      input.name = bounded_name(scan);
      named = true;
    } else if (key == "shape") {
      input.shape.clear();
      scan.array([&] {
        if (input.shape.size() > kMaxDimensions) return scan.fail("too many dimensions");
        input.shape.push_back(scan.integer());
      });
      shaped = true;
    } else if (key == "datatype") {
      input.datatype = bounded_name(scan);
      typed = true;
    } else if (key == "data") {
      if (scan.peek() != '[') scan.fail("data is to be an array");
      input.json = scan.skip();
    } else if (key == "parameters") {
      read_parameters(scan, parameters);
    } else {
      scan.skip();
    }
  });
  if (!named || !shaped || !typed) scan.fail("an input has a name, a shape and a datatype");
  if (!scan.ok()) return input;
  const int ways =
      !input.json.empty() + parameters.binary_size.has_value() + parameters.region.has_value();
  if (ways != 1) {
    scan.fail("input '" + input.name +
              "' is to have exactly one of data, binary_data_size, shared_memory_region");
  } else if (parameters.binary_size) {
    if (*parameters.binary_size < 0) scan.fail("binary_data_size is negative");
    input.carrier = Carrier::binary;
    input.offset = binary_offset;
    input.bytes = static_cast<std::uint64_t>(*parameters.binary_size);
    if (__builtin_add_overflow(binary_offset, input.bytes, &binary_offset))
      scan.fail("binary_data_size is too large");
  } else if (parameters.region) {
    input.carrier = Carrier::shared;
    input.place = place_of(scan, parameters);
  }
  return input;
}

InferOutput read_output(JsonScan& scan) {
  InferOutput output;
  RequestParameters parameters;
  scan.object([&](const std::string& key) {
    if (key == "name")
      output.name = bounded_name(scan);
    else if (key == "parameters")
      read_parameters(scan, parameters);
    else
      scan.skip();
  });
  if (output.name.empty()) scan.fail("an output has a name");
  if (parameters.classification.value_or(0) != 0) scan.fail("classification is not supported");
  output.binary = parameters.binary_data;
  if (parameters.region) output.place = place_of(scan, parameters);
  return output;
}

void apply_parameters(JsonScan& scan, const RequestParameters& parameters, InferRequest& request) {
  request.sequence = parameters.sequence.value_or(0);
  if (!parameters.sequence_name.empty()) {
    const auto number = sequence_from("parameter sequence_id", parameters.sequence_name);
    if (!number) return scan.fail(to_string(number.error()));
    request.sequence = *number;
  }
  request.sequence_begins = parameters.begins.value_or(false);
  request.sequence_ends = parameters.ends.value_or(false);
  request.binary_outputs = parameters.binary_outputs.value_or(false);
  if (parameters.priority) {
    const auto priority = priority_from("parameter priority", *parameters.priority);
    if (!priority) return scan.fail(to_string(priority.error()));
    request.priority = *priority;
  }
  if (parameters.timeout.value_or(0) != 0) {
    const auto timeout = timeout_from_us("parameter timeout", *parameters.timeout);
    if (!timeout) return scan.fail(to_string(timeout.error()));
    request.timeout_ns = *timeout;
  }
}

}  // namespace

Result<std::int64_t> timeout_from_us(const std::string& context, std::int64_t microseconds) {
  if (microseconds < 1 || microseconds > kMaxTimeoutUs)
    return bad_input(context, "a time from 1 us to a day is wanted");
  return microseconds * 1000;
}

Result<std::uint64_t> sequence_from(const std::string& context, std::string_view name) {
  if (name.size() > kMaxSequenceName)
    return bad_input(
        context, fmt::format("a text of {} bytes; {} are the most", name.size(), kMaxSequenceName));
  return std::max<std::uint64_t>(1, mix64(text_hash(name)));
}

Result<int> priority_from(const std::string& context, std::int64_t value) {
  if (value < -kPriorityBound || value > kPriorityBound)
    return bad_input(context, "a whole number from -8 to 8 is wanted");
  return static_cast<int>(value);
}

Result<InferRequest> parse_infer_json(std::string_view text) {
  JsonScan scan(text);
  InferRequest request;
  RequestParameters parameters;
  std::uint64_t binary_offset = 0;
  scan.object([&](const std::string& key) {
    if (key == "id") {
      request.id = bounded_name(scan);
    } else if (key == "parameters") {
      read_parameters(scan, parameters);
    } else if (key == "inputs") {
      scan.array([&] {
        if (request.inputs.size() == kMaxTensors) return scan.fail("too many inputs");
        request.inputs.push_back(read_input(scan, binary_offset));
      });
    } else if (key == "outputs") {
      scan.array([&] {
        if (request.outputs.size() == kMaxTensors) return scan.fail("too many outputs");
        request.outputs.push_back(read_output(scan));
      });
    } else {
      scan.skip();
    }
  });
  scan.end();
  apply_parameters(scan, parameters, request);
  if (!scan.ok()) return bad_input("request JSON", scan.error());
  return request;
}

std::optional<std::int64_t> probe_items(std::string_view beginning) {
  JsonScan scan(beginning);
  std::optional<std::int64_t> found;
  const auto stop = [&] { scan.fail("enough is known"); };
  scan.object([&](const std::string& key) {
    if (key != "inputs") return void(scan.skip());
    scan.array([&] {
      scan.object([&](const std::string& member) {
        if (member != "shape") return void(scan.skip());
        scan.array([&] {
          const std::int64_t items = scan.integer();
          // A number at the very end may go on in what has not come yet.
          if (scan.peek() == ',' || scan.peek() == ']') found = items;
          stop();
        });
      });
    });
  });
  return found;
}

}  // namespace partita::serve
