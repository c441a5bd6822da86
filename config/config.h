// The whole configuration of a daemon, typed and checked. Read once at start by main; plain data
// afterwards.
#pragma once

#include "server/options.h"
#include "storage/options.h"

namespace dovetail::config {

struct Config {
  server::ServerOptions server;
  storage::StoreOptions store;
};

}  // namespace dovetail::config
