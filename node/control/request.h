// What people and other programs ask of a running agent, and how it answers. A request is answered
// by the next step of the loop (control/loop.h); what takes longer is answered with the number of
// the change, whose end is an event. Values.
#pragma once

#include <initializer_list>
#include <string>
#include <variant>

#include "base/result.h"

namespace partita::control {

// How changes come about. automatic: as soon as they are planned and judged. approve: a person
// says yes. observe: nothing is changed; drift and needed changes are reported.
enum class Mode { automatic, approve, observe };
inline constexpr std::initializer_list<const char*> kModes = {"automatic", "approve", "observe"};
inline const char* to_string(Mode mode) { return kModes.begin()[static_cast<int>(mode)]; }
Result<Mode> parse_mode(const std::string& text);

struct SetServices {  // replaces the wanted services
  std::string text;   // a services file (YAML or JSON), as `partita plan --services` takes it
  bool none = false;  // no text, but none any more: in mode automatic their instances go
};
struct SetPlan {     // carries out a plan of somebody else, once the judge lets it pass
  std::string text;  // a document ServingPlan for the services that are wanted
};
struct Approve {
  long change = 0;
  std::string why = {};
};
struct Reject {
  long change = 0;
  std::string why;
};
struct Rollback {};  // back to what was before the last change, and mode approve
struct Replan {};    // look and plan now, whatever damping says
struct SetMode {
  Mode mode = Mode::automatic;
};
struct TakeOut {  // a GPU: its services move elsewhere, then it is left empty
  std::string gpu_uuid, why;
};
struct GiveBack {  // a GPU that was taken out, by a person or by its health
  std::string gpu_uuid;
};
struct SubmitTasks {  // a batch for the GPUs that are the batch's (policy)
  std::string text;   // a tasks file, as `partita plan --tasks` takes it
};
struct CancelBatch {  // what runs of it is stopped, the rest never begins, its GPUs are free again
  long batch = 0;
  std::string why;
};
struct PauseBatch {  // nothing more of it begins, what runs goes on
  long batch = 0;
  std::string why;
};
struct ResumeBatch {
  long batch = 0;
  std::string why;
};
using Request = std::variant<SetServices, Approve, Reject, Rollback, Replan, SetMode, TakeOut,
                             GiveBack, SubmitTasks, SetPlan, CancelBatch, PauseBatch, ResumeBatch>;

// One of batches: it is on disk before it is answered.
inline bool is_of_batches(const Request& request) {
  return std::holds_alternative<SubmitTasks>(request) ||
         std::holds_alternative<CancelBatch>(request) ||
         std::holds_alternative<PauseBatch>(request) ||
         std::holds_alternative<ResumeBatch>(request);
}

struct Asked {
  Request request;
  std::string user;  // who: "root", "token ops", "certificate cn=ops"
};

struct Receipt {
  long change = 0;       // the change it leads to; 0: none
  std::string sentence;  // what happens now, for people
  bool operator==(const Receipt&) const = default;
};
using Reply = Result<Receipt>;

}  // namespace partita::control
