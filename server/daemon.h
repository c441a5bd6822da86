// The composition root: builds every part from a Config, owns the order in which they start and
// stop.
//
// Start order: store, coordinator with this server already registered in it, HTTP, gRPC. So when
// the gRPC port opens a first job finds an assignable server. Stop order is the reverse; each part
// ends before what it uses.
//
// Threads: Start and Stop on main.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "config/config.h"

namespace dovetail::server {

inline constexpr int kExitStartRefused = 4;
inline constexpr int kExitCallsInFlight = 5;

class Daemon {
 public:
  // The error is a sentence for the operator: what could not be had, and what to set.
  static std::expected<std::unique_ptr<Daemon>, std::string> Start(const config::Config& config);
  ~Daemon();

  int grpc_port() const;
  int http_port() const;

  // Refuses new data, takes this server out of the coordinator's hands, lets applications read what
  // is here until the last is gone or stop_deadline_ms is over (or hurry() says so), finishes the
  // calls in flight, and ends. Returns the exit code: 0, or kExitCallsInFlight when calls had to be
  // cut.
  int Stop(const std::function<bool()>& hurry);

 private:
  struct Parts;
  explicit Daemon(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace dovetail::server
