// An API server of Kubernetes in memory, with the controller that makes pods ready one by one and
// says so late; with conflicts, errors, and answers that are lost before or after it was done.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/rng.h"
#include "fleet/objects/keeper.h"

namespace partita::dra {

class FakeKubeApi {
 public:
  // `trouble`: how likely a call goes wrong, in [0, 1). `room`: units of GPUs for pods, of which a
  // pod takes as many as its name has behind the last "-u".
  FakeKubeApi(std::uint64_t seed, double trouble, int room)
      : rng_(seed), trouble_(trouble), room_(room) {}

  Result<KubeReply> ask(std::string_view method, const std::string& path, const std::string& body,
                        std::string_view type);
  // Time goes on: pods end and become ready, the server's status follows, deleted objects go.
  void tick();
  void put_foreign(KubeKind kind, const std::string& name, const std::string& name_space);
  void heal() { trouble_ = 0; }

  int ready(const std::string& service) const;  // as it is, not as it is said; none that are to go
  int count(KubeKind kind, const std::string& name_space) const;
  int touched_foreign() const { return touched_foreign_; }
  int writes() const { return writes_; }

 private:
  struct Stored {
    Node body;
    bool foreign = false;
    int ready = 0;
  };
  KubeReply list(const std::string& path) const;
  KubeReply create(const std::string& path, const std::string& body);
  KubeReply change(const std::string& path, const std::string& body);
  KubeReply remove(const std::string& path, const std::string& body);
  KubeReply answer(std::string_view method, const std::string& path, const std::string& body);
  void mark(Node& body, const char* key);
  bool chance(double of) { return rng_.uniform() < of; }
  int room_left() const;

  Rng rng_;
  double trouble_;
  int room_, versions_ = 100, touched_foreign_ = 0, writes_ = 0;
  std::map<std::string, Stored> objects_;  // by path
};

}  // namespace partita::dra
