// The command line of workers as people write it once for all segments: words with placeholders.
// It is split into words like a shell would split it (quotes and backslashes), but no shell ever
// sees it, so that names can hold anything. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "act/assignment.h"
#include "base/result.h"

namespace partita::actuate {

// {service} {batch} {processes} {held} {index} {device} {gpu} {profile} {start} {port} {group}
// {prefill_units} {decode_units} {prefill_percent} {decode_percent} {engine_backend}
// {engine_version} {precision} {tp} {pp} {attention_dp}; {{ and }} are braces. {held}
// is how many models of a set it holds at once, 0 of any other service, {index} counts the workers
// of a segment from 0, {gpu} is the UUID of the GPU, {group} how many whole GPUs {device} lists (of
// an instance 1), {port} a number that no other worker of the supervisor has. The units: SMs of
// a language model that only compute prompts, those that only decode, and the same as parts of
// both, as MPS takes them; 0 where all do both.
struct CommandTemplate {
  std::vector<std::string> words;  // not empty; placeholders are known ones
  bool ports = false;              // {port} occurs
  bool lanes = false;              // what says prefill from decode occurs
  bool operator==(const CommandTemplate&) const = default;
};

// Refused with `context`: an empty command, an open quote, an unknown placeholder, a single brace.
Result<CommandTemplate> parse_command(const std::string& context, std::string_view text);

// The command of one worker.
std::vector<std::string> command_of(const CommandTemplate& command, const AssignedSegment& segment,
                                    int index, int port);

}  // namespace partita::actuate
