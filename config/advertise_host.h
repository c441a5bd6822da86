// The address that clients are told when the operator names none. Found without traffic: from the
// kernel's routing tables and the addresses of the interface that the default route leaves by.
//
// Threads: any; reads /proc/net and the interface list, keeps nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::config {

struct AdvertiseHost {
  std::string host;
  // Why this one, for the operator: "address of eth0, which has the default route".
  std::string reason;
};

// Interface of the usable default route of lowest metric in a text like /proc/net/route.
std::optional<std::string> DefaultInterfaceIpv4(std::string_view route_table);

// The same for a text like /proc/net/ipv6_route.
std::optional<std::string> DefaultInterfaceIpv6(std::string_view route_table);

// bind_address when it is one address (nothing else listens), else the address of the IPv4 default
// route's interface, else of the IPv6 one's, else 127.0.0.1.
AdvertiseHost FindAdvertiseHost(const std::string& bind_address);

}  // namespace dovetail::config
