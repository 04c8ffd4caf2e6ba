// An etcd of one member for tests, on a free port of this machine, its data in a folder of its own.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/child.h"
#include "fleet/etcd/etcd_store.h"

namespace partita::fleet {

inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(socket);
  return ntohs(address.sin_port);
}

class TestEtcd {
 public:
  static bool is_installed() {
    return std::filesystem::exists("/usr/bin/etcd") ||
           std::filesystem::exists("/usr/local/bin/etcd");
  }
  TestEtcd() {
    char name[] = "/tmp/partita-etcd-XXXXXX";
    folder_ = ::mkdtemp(name);
    const std::string clients = "http://127.0.0.1:" + std::to_string(free_port());
    const std::string peers = "http://127.0.0.1:" + std::to_string(free_port());
    ChildSpec spec;
    spec.argv = {"etcd",
                 "--data-dir",
                 folder_ + "/data",
                 "--listen-client-urls",
                 clients,
                 "--advertise-client-urls",
                 clients,
                 "--listen-peer-urls",
                 peers,
                 "--initial-advertise-peer-urls",
                 peers,
                 "--initial-cluster",
                 "default=" + peers};
    spec.output = folder_ + "/log";
    auto child = Child::start(spec);
    if (child) child_ = std::make_unique<Child>(*std::move(child));
    store_ = *EtcdStore::to({.endpoints = {clients}}, files_, clock_);
    for (int tried = 0; tried < 200 && !store_->range({"/none"}); ++tried)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    endpoint_ = clients;
  }
  ~TestEtcd() {
    store_.reset();
    if (child_) child_->terminate();
    child_.reset();
    std::filesystem::remove_all(folder_);
  }
  Store& store() { return *store_; }
  const std::string& endpoint() const { return endpoint_; }
  RealFiles& files() { return files_; }
  RealClock& clock() { return clock_; }

 private:
  std::string folder_, endpoint_;
  RealFiles files_;
  RealClock clock_;
  std::unique_ptr<Child> child_;
  std::unique_ptr<EtcdStore> store_;
};

}  // namespace partita::fleet
