// The claim on one data path, taken before anything is written there and held while the process
// lives:
//
//   <data path>/dovetail/marker   says that the folder is ours, and of which format
//   <data path>/dovetail/lock     held by the one process that uses it
//   <data path>/dovetail/apps     what the engine writes; emptied by the claim (what a former
//   process left)
//
// `dovetail` is a real folder, never a link, and no data path lies in the `dovetail` of another.
// Nothing outside <data path>/dovetail is ever touched, and nothing in a folder whose marker is not
// ours.
//
// Threads: main, at start. Lifetime: the claim is let go when the object ends, or the process.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <vector>

namespace dovetail::storage {

// What Take would find, found without making or changing anything.
struct DataPathLook {
  std::string refusal = {};       // why Take would refuse the path; empty: it would not
  std::string probe_folder = {};  // where a test file may be written now; empty: nowhere
  bool has_old_files = false;     // a former process left files, which Take would remove
};

class DataPathClaim {
 public:
  // Holds the path's lock, shared, for a moment; a start that meets it tries again.
  static DataPathLook Look(const std::string& data_path);

  // The error is a sentence for the operator: what is wrong with the path, and what to do.
  static std::expected<std::unique_ptr<DataPathClaim>, std::string> Take(
      const std::string& data_path);
  ~DataPathClaim();
  DataPathClaim(const DataPathClaim&) = delete;
  DataPathClaim& operator=(const DataPathClaim&) = delete;

  // <data path>/dovetail: what the engine works in.
  const std::string& folder() const { return folder_; }

 private:
  DataPathClaim(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}

  const std::string folder_;
  const int lock_;
};

// Why the path cannot be trusted to be on the disk that is meant: a mount point above it that the
// system's table of mounts names is not mounted. Empty when nothing is wrong. table: /etc/fstab, or
// another in tests.
std::string MissingMount(const std::string& data_path, const std::string& table);

// Why the path cannot be used together with the others (it may be among them): it lies in the
// folder `dovetail` that one of them has or will have. Empty when nothing is wrong.
std::string NestedDataPath(const std::string& data_path, const std::vector<std::string>& others);

}  // namespace dovetail::storage
