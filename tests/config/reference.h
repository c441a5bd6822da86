// The written reference of the configuration as the table of keys has it. The shipped file and the
// document are held equal to this; DOVETAIL_UPDATE_REFERENCE=1 config_test
// --gtest_filter='Reference.*' writes them anew.
#pragma once

#include <string>

namespace dovetail::config {

// All of config/dovetail.toml.
std::string ReferenceToml();

// The table of docs/configuration.md, without what is around it.
std::string ReferenceTable();

}  // namespace dovetail::config
