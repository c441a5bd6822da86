// The whole configuration of a daemon, typed and checked. Read once at start by main; plain data
// afterwards.
#pragma once

#include "engine/options.h"
#include "server/options.h"
#include "storage/options.h"

namespace dovetail::config {

struct Config {
  server::ServerOptions server;
  storage::StoreOptions store;
  engine::EngineOptions engine;  // data_path and descriptors_max are filled in for each data path
};

}  // namespace dovetail::config
