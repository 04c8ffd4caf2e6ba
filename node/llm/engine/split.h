// Prefill and decode apart: of the engines of a group some compute prompts and the first token, the
// others everything after it; the cache of a prompt is moved in between. Each engine is the one of
// engine.h. Requests go to the engines of either kind at random. A group whose engines do both is
// one engine.
#pragma once

#include <span>

#include "llm/engine/engine.h"
#include "profile/token_engine.h"

namespace partita::llm {

// Open loop. Of a request that is preempted the prompt is computed anew where it decodes. Blocks
// and sequences of the result are the most of one engine that decodes. Refused as by simulate().
// With prefill apart the door is that of the engines that compute prompts.
Result<EngineRun> simulate_group(const profile::TokenEngine& engine,
                                 std::span<const Request> requests, const Door& door = {});

}  // namespace partita::llm
