// Every method of the wire as one table, for rules that hold for all of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

struct MethodRule {
  std::string path;
  // Whether the request names an application, a shuffle and partitions.
  bool has_app = true;
  bool has_shuffle = true;
  bool has_partition = false;
  // The answer to a well-formed request for what is not registered.
  wire::StatusCode when_unknown = wire::NO_REGISTER;
  // A well-formed request, serialized. Partitions are left out where the method has none.
  std::function<std::string(const Target& target, int32_t partition)> make;
  // The status in an answer, from the field that the method has it in. A message that does not
  // parse is a failed test.
  std::function<wire::StatusCode(const std::string& bytes)> status;
  // All that an answer holds beside status and retMsg, as text.
  std::function<std::string(const std::string& bytes)> rest;
};

// The methods of ShuffleServer.
const std::vector<MethodRule>& ShuffleMethods();
const MethodRule& ShuffleMethod(std::string_view name);

// What a refusal may hold beside status and retMsg, as MethodRule::rest gives it.
std::string RestOfRefusal(const MethodRule& method);

// Calls it and returns the status in the answer. A failed test when gRPC itself does not say OK, or
// when a refusal holds more than it may.
wire::StatusCode CallBytes(WireClient& client, const MethodRule& method, const std::string& bytes);
wire::StatusCode Call(WireClient& client, const MethodRule& method, const Target& target,
                      int32_t partition = 0);

}  // namespace dovetail::e2e
