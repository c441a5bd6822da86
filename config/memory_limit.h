// How much memory this process may use at most: the machine's, or less where a cgroup (v1 or v2,
// itself or one of its parents) says so. Read once at start, to derive memory_store.capacity.
//
// Threads: any; reads files of /proc and /sys, keeps nothing.
#pragma once

#include <cstdint>
#include <string>

namespace dovetail::config {

struct MemoryLimit {
  int64_t bytes = 0;
  // What sets it, for the operator: "the machine's memory", or the file of the cgroup.
  std::string reason;
};

// Memory of the machine in bytes.
int64_t MachineMemoryBytes();

// The smallest of machine_bytes and every cgroup limit that can be seen. Files are looked up below
// root ("" for the real ones); those that are missing or unreadable do not count.
MemoryLimit FindMemoryLimit(const std::string& root, int64_t machine_bytes);

}  // namespace dovetail::config
