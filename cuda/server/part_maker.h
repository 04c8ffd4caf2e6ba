// PartMaker: the door to parts that are made on demand (MIG instances), and a thread behind which
// its calls, which take up to seconds, keep nobody waiting.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "server/broker_brain.h"

namespace partita::remote::server {

class PartMaker {
 public:
  virtual ~PartMaker() = default;
  // What it can make when there is room, the smallest first.
  virtual std::vector<std::string> shapes() = 0;
  // Makes a part; its name, of at most 127 bytes. no_room: not now.
  virtual Result<std::string> make(const std::string& shape) = 0;
  // Takes it apart. After an error it is left to whoever comes next.
  virtual Result<void> unmake(const std::string& name) = 0;
};

// Makes and unmakes parts one after another, in a thread of its own.
class MakerThread {
 public:
  explicit MakerThread(PartMaker& maker);
  ~MakerThread();  // once what was begun is done
  MakerThread(const MakerThread&) = delete;
  MakerThread& operator=(const MakerThread&) = delete;

  void make(std::size_t part, const std::string& shape);
  void unmake(std::size_t part, const std::string& name);
  int descriptor() const { return wake_.get(); }  // readable: done() has something
  std::vector<broker::Event> done();

 private:
  void ask(std::function<broker::Event()> what);
  void run();

  PartMaker& maker_;
  Descriptor wake_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<std::function<broker::Event()>> asks_;
  std::vector<broker::Event> done_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace partita::remote::server
