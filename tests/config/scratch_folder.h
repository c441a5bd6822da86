// A fresh folder for one test, removed with all that is in it at the end.
#pragma once

#include <string>
#include <string_view>

namespace dovetail::config {

class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Writes a file below the folder, with the folders it needs; answers its full path.
  std::string Write(const std::string& name, std::string_view text) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string ReadText(const std::string& path);

}  // namespace dovetail::config
